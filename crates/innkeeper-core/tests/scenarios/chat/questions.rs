//! Questions to users (INP).

use innkeeper_core::agent::{Answer, AnswerValue, Choice, Question, QuestionKind, Questions, Response};
use innkeeper_core::{AgentEvent, ConnId, Reply, TurnEnd};
use serde_json::{Value, json};

use crate::harness::working_agent::*;
use crate::harness::*;

fn question(id: &str, kind: QuestionKind) -> Question {
    Question {
        id: id.into(),
        title: None,
        message: format!("What about {id}?"),
        required: ["text", "many"].contains(&id),
        kind,
    }
}

fn all_six() -> Questions {
    let options = || vec![Choice::new("a", "A"), Choice::new("b", "B")];
    Questions {
        id: "q".into(),
        message: Some("A few things".into()),
        url: None,
        questions: vec![
            question(
                "text",
                QuestionKind::Text {
                    format: None,
                    default: None,
                    min: None,
                    max: Some(9),
                },
            ),
            question(
                "number",
                QuestionKind::Number {
                    min: Some(0.5),
                    max: None,
                    default: None,
                },
            ),
            question(
                "integer",
                QuestionKind::Integer {
                    min: Some(1),
                    max: Some(9),
                    default: Some(3),
                },
            ),
            question("boolean", QuestionKind::Boolean { default: Some(true) }),
            question(
                "one",
                QuestionKind::One {
                    options: options(),
                    freeform: false,
                },
            ),
            question(
                "many",
                QuestionKind::Many {
                    options: options(),
                    freeform: true,
                    min: None,
                    max: Some(2),
                },
            ),
        ],
    }
}

fn asking() -> (Stage, ConnId, String) {
    let (mut stage, conn, chat) = working();
    stage.says(AgentEvent::Ask(Box::new(all_six())));
    stage.inbox(conn);
    (stage, conn, chat)
}

fn draft(question: &str, value: Value) -> Value {
    json!({ "type": "chat/inputAnswerChanged", "requestId": "q", "questionId": question, "answer": { "state": "draft", "value": value } })
}

fn completed(response: &str, answers: Value) -> Value {
    json!({ "type": "chat/inputCompleted", "requestId": "q", "response": response, "answers": answers })
}

/// (INP-02)
#[test]
fn inp01_inp03_inp07_inp09_all_six_kinds_appear_in_turn_and_session() {
    let (stage, _, chat) = asking();
    let state = stage.state(&chat);
    let part = &state["activeTurn"]["responseParts"][0];
    assert_eq!(part["kind"], "inputRequest");
    let kinds: Vec<_> = part["request"]["questions"]
        .as_array()
        .expect("questions")
        .iter()
        .map(|question| question["kind"].as_str().expect("a kind"))
        .collect();
    assert_eq!(
        kinds,
        ["text", "number", "integer", "boolean", "single-select", "multi-select"]
    );
    // Clients that offer free text by default, as VS Code does, need an explicit false.
    let freeform: Vec<_> = part["request"]["questions"]
        .as_array()
        .expect("questions")
        .iter()
        .filter_map(|question| question["allowFreeformInput"].as_bool())
        .collect();
    assert_eq!(freeform, [false, true]);
    assert_eq!(
        state["status"].as_u64().map(|bits| bits & 63),
        Some(24),
        "input needed, unread"
    );
    let waits = stage.waits(SESSION);
    assert_eq!(
        (&waits[0]["kind"], &waits[0]["request"]),
        (&json!("chatInput"), &part["request"])
    );
    serde_json::from_value::<ahp_types::state::ChatInputRequest>(part["request"].clone()).expect("decodes");
    assert_eq!(part["request"]["_meta"], json!({ "purpose": "askUser" }));
}

#[test]
fn inp05_drafts_are_shared_and_checked() {
    let (mut stage, conn, chat) = asking();
    let other = stage.client("d", &[]);
    stage.subscribe(other, &chat);
    stage.inbox(other);
    stage.accepted(conn, &chat, draft("text", json!({ "kind": "text", "value": "hel" })));
    assert_eq!(stage.actions(other).len(), 1, "every client sees the draft");
    assert_eq!(
        stage.waits(SESSION)[0]["request"]["answers"]["text"]["value"]["value"],
        "hel"
    );
    for (question, value, problem) in [
        ("text", json!({ "kind": "number", "value": 1 }), "takes text"),
        ("number", json!({ "kind": "text", "value": "one" }), "takes a number"),
        ("number", json!({ "kind": "text", "value": "inf" }), "takes a number"),
        (
            "integer",
            json!({ "kind": "text", "value": "1.5" }),
            "takes a whole number",
        ),
        (
            "integer",
            json!({ "kind": "number", "value": 1.5 }),
            "takes a whole number",
        ),
        (
            "boolean",
            json!({ "kind": "text", "value": "perhaps" }),
            "takes true or false",
        ),
        (
            "one",
            json!({ "kind": "selected", "value": "c" }),
            "not one of the options",
        ),
        (
            "one",
            json!({ "kind": "selected", "value": "", "freeformValues": ["x"] }),
            "none but its options",
        ),
        ("many", json!({ "kind": "selected", "value": "a" }), "takes a list"),
        (
            "many",
            json!({ "kind": "selected-many", "value": ["a", "z"] }),
            "not one of the options",
        ),
        (
            "text",
            json!({ "kind": "colour", "value": "red" }),
            "malformed or of an unknown kind",
        ),
        ("nothing", json!({ "kind": "text", "value": "x" }), "no question"),
    ] {
        let reason = stage.refused(conn, &chat, draft(question, value.clone()));
        assert!(reason.contains(problem), "{question} {value}: {reason}");
    }
    let mut unknown = draft("text", json!({ "kind": "text", "value": "x" }));
    unknown["requestId"] = json!("other");
    assert!(stage.refused(conn, &chat, unknown).contains("no such question is open"));
    stage.accepted(
        conn,
        &chat,
        json!({ "type": "chat/inputAnswerChanged", "requestId": "q", "questionId": "text" }),
    );
    assert!(
        stage.waits(SESSION)[0]["request"].get("answers").is_none(),
        "a draft can be taken back"
    );
}

#[test]
fn inp04_inp06_answers_go_to_the_agent_merged_over_the_drafts() {
    let (mut stage, conn, chat) = asking();
    stage.accepted(conn, &chat, draft("text", json!({ "kind": "text", "value": "draft" })));
    stage.accepted(conn, &chat, draft("number", json!({ "kind": "number", "value": 2.5 })));
    let answers = json!({
        "text": { "state": "submitted", "value": { "kind": "text", "value": "final" } },
        "one": { "state": "submitted", "value": { "kind": "selected", "value": "b" } },
        "many": { "state": "submitted", "value": { "kind": "selected-many", "value": ["a"], "freeformValues": ["and mine"] } },
        "boolean": { "state": "skipped" },
    });
    stage.accepted(conn, &chat, completed("accept", answers));
    let replies = stage.replies();
    let [
        Reply::Answered {
            id,
            answer: Answer {
                response: Response::Accept,
                values,
            },
        },
    ] = replies.as_slice()
    else {
        panic!("{replies:?}");
    };
    assert_eq!(id, "q");
    let selected = |ids: &[&str], freeform: &[&str]| AnswerValue::Selected {
        ids: ids.iter().map(|id| (*id).to_owned()).collect(),
        freeform: freeform.iter().map(|text| (*text).to_owned()).collect(),
    };
    let expected = [
        ("many", selected(&["a"], &["and mine"])),
        ("number", AnswerValue::Number(2.5)),
        ("one", selected(&["b"], &[])),
        ("text", AnswerValue::Text("final".into())),
    ];
    let values: Vec<_> = values.iter().map(|(id, value)| (id.as_str(), value.clone())).collect();
    assert_eq!(
        values, expected,
        "required questions may stay without an answer (INP-05)"
    );
    assert!(stage.waits(SESSION).is_empty());
    let part = stage.state(&chat)["activeTurn"]["responseParts"][0].clone();
    assert_eq!(part["response"], "accept", "the part stays in place");
    assert!(
        stage
            .refused(conn, &chat, completed("decline", json!({})))
            .contains("no such question is open")
    );
}

/// VS Code answers every question without options with text.
#[test]
fn inp05_inp07_text_answers_are_parsed_as_numbers_or_booleans() {
    let (mut stage, conn, chat) = asking();
    let text = |value: &str| json!({ "state": "submitted", "value": { "kind": "text", "value": value } });
    let draft_of = draft("number", json!({ "kind": "text", "value": " 2.1 " }));
    let echo = stage.accepted(conn, &chat, draft_of);
    assert_eq!(
        echo["action"]["answer"]["value"],
        json!({ "kind": "number", "value": 2.1 }),
        "every client sees what it stands for"
    );
    let many = json!({ "state": "submitted", "value": { "kind": "selected-many", "value": ["a"] } });
    let answers = json!({ "text": text("12"), "integer": text("7"), "boolean": text("Yes"), "many": many });
    let echo = stage.accepted(conn, &chat, completed("accept", answers));
    let value = |id: &str| echo["action"]["answers"][id]["value"].clone();
    assert_eq!(
        value("text"),
        json!({ "kind": "text", "value": "12" }),
        "words stay words"
    );
    assert_eq!(value("boolean"), json!({ "kind": "boolean", "value": true }));
    let replies = stage.replies();
    let [Reply::Answered { answer, .. }] = replies.as_slice() else {
        panic!("{replies:?}");
    };
    assert_eq!(answer.values["number"], AnswerValue::Number(2.1), "the draft counts");
    assert_eq!(answer.values["integer"], AnswerValue::Number(7.0));
    assert_eq!(answer.values["boolean"], AnswerValue::Boolean(true));
}

#[test]
fn inp05_no_words_at_all_are_no_answer() {
    let (mut stage, conn, chat) = asking();
    let empty = json!({ "state": "submitted", "value": { "kind": "text", "value": " " } });
    let many = json!({ "state": "submitted", "value": { "kind": "selected-many", "value": ["a"] } });
    let text = json!({ "state": "submitted", "value": { "kind": "text", "value": "x" } });
    let answers = json!({ "text": text, "many": many, "integer": empty, "boolean": empty });
    let echo = stage.accepted(conn, &chat, completed("accept", answers));
    for id in ["integer", "boolean"] {
        assert_eq!(echo["action"]["answers"][id], json!({ "state": "skipped" }));
    }
}

#[test]
fn inp05_a_form_is_accepted_with_answers_within_their_bounds_only() {
    let (mut stage, conn, chat) = asking();
    let good = json!({
        "text": { "state": "submitted", "value": { "kind": "text", "value": "nine char" } },
        "many": { "state": "submitted", "value": { "kind": "selected-many", "value": ["a", "b"] } },
    });
    for (question, value, problem) in [
        (
            "text",
            json!({ "kind": "text", "value": "ten chars!" }),
            "answers[\"text\"]: may have at most 9 characters, and has 10",
        ),
        (
            "number",
            json!({ "kind": "number", "value": 0.25 }),
            "answers[\"number\"]: must be at least 0.5, and is 0.25",
        ),
        (
            "integer",
            json!({ "kind": "number", "value": 0 }),
            "answers[\"integer\"]: must be at least 1, and is 0",
        ),
        (
            "integer",
            json!({ "kind": "text", "value": "10" }),
            "answers[\"integer\"]: must be at most 9, and is 10",
        ),
        (
            "many",
            json!({ "kind": "selected-many", "value": ["a", "b"], "freeformValues": ["c"] }),
            "answers[\"many\"]: takes at most 2 choices, and has 3",
        ),
    ] {
        let mut answers = good.clone();
        answers[question] = json!({ "state": "submitted", "value": value });
        let reason = stage.refused(conn, &chat, completed("accept", answers));
        assert_eq!(reason, problem);
    }
    // A draft may be on its way there, and counts when the form is accepted.
    stage.accepted(conn, &chat, draft("integer", json!({ "kind": "number", "value": 99 })));
    let reason = stage.refused(conn, &chat, completed("accept", good.clone()));
    assert!(
        reason.starts_with("answers[\"integer\"]: must be at most 9"),
        "{reason}"
    );
    stage.accepted(conn, &chat, draft("integer", json!({ "kind": "number", "value": 9 })));
    stage.accepted(conn, &chat, completed("accept", good));
}

#[test]
fn inp05_a_form_that_is_declined_owes_nothing() {
    let (mut stage, conn, chat) = asking();
    stage.accepted(conn, &chat, draft("integer", json!({ "kind": "number", "value": 99 })));
    stage.accepted(conn, &chat, completed("decline", json!({})));
}

#[test]
fn inp06_declining_and_cancelling_are_told_apart() {
    for (response, expected) in [("decline", Response::Decline), ("cancel", Response::Cancel)] {
        let (mut stage, conn, chat) = asking();
        stage.accepted(conn, &chat, completed(response, json!({})));
        let replies = stage.replies();
        assert!(
            matches!(&replies[..], [Reply::Answered { answer, .. }] if answer.response == expected),
            "{replies:?}"
        );
        assert_eq!(
            stage.state(&chat)["status"].as_u64().map(|bits| bits & 31),
            Some(8),
            "the turn goes on"
        );
    }
}

#[test]
fn inp08_a_question_can_be_a_page_to_visit() {
    let (mut stage, conn, chat) = working();
    let questions = Questions {
        id: "visit".into(),
        message: Some("Sign the form".into()),
        url: Some("https://forms.example/1".into()),
        questions: Vec::new(),
    };
    stage.says(AgentEvent::Ask(Box::new(questions)));
    assert_eq!(stage.waits(SESSION)[0]["request"]["url"], "https://forms.example/1");
    let action = json!({ "type": "chat/inputCompleted", "requestId": "visit", "response": "accept" });
    stage.accepted(conn, &chat, action);
    assert!(stage.waits(SESSION).is_empty());
}

#[test]
fn turn07_e21_the_end_of_a_turn_abandons_its_questions() {
    let (mut stage, conn, chat) = asking();
    stage.ends(TurnEnd::Complete);
    assert!(stage.waits(SESSION).is_empty());
    let part = &stage.state(&chat)["turns"][0]["responseParts"][0];
    assert!(part.get("response").is_none(), "{part}");
    assert_eq!(stage.state(&chat)["status"].as_u64().map(|bits| bits & 31), Some(1));
    assert!(
        stage
            .refused(conn, &chat, completed("accept", json!({})))
            .contains("its turn is over")
    );
}

#[test]
fn turn12_a_resumed_turn_does_not_wait_for_the_questions_of_its_first_try() {
    let (mut stage, conn, chat) = asking();
    stage.ends(TurnEnd::Failed {
        failure: innkeeper_core::Failure::new("network", "try again"),
        resumable: true,
    });
    stage.accepted(conn, &chat, json!({ "type": "chat/turnResume", "turnId": "t" }));
    assert!(stage.waits(SESSION).is_empty());
    assert_eq!(stage.state(&chat)["status"].as_u64().map(|bits| bits & 31), Some(8));
}

#[test]
fn inp01_a_question_with_the_same_id_is_replaced_and_keeps_answers() {
    let (mut stage, conn, chat) = asking();
    stage.accepted(conn, &chat, draft("text", json!({ "kind": "text", "value": "kept" })));
    let mut again = all_six();
    again.message = Some("Once more".into());
    stage.says(AgentEvent::Ask(Box::new(again)));
    let state = stage.state(&chat);
    let parts = state["activeTurn"]["responseParts"].as_array().expect("parts");
    assert_eq!(parts.len(), 1);
    assert_eq!(parts[0]["request"]["message"], "Once more");
    assert_eq!(parts[0]["request"]["answers"]["text"]["value"]["value"], "kept");
    stage.says(AgentEvent::Text("then text".into()));
    assert_eq!(
        stage.state(&chat)["activeTurn"]["responseParts"][1]["content"],
        "then text"
    );
}

#[test]
fn inp01_a_question_that_its_agent_gave_up_on_is_taken_back() {
    let (mut stage, conn, chat) = asking();
    stage.says(AgentEvent::Withdraw("q".into()));
    assert!(stage.waits(SESSION).is_empty());
    assert_eq!(
        stage.state(&chat)["activeTurn"]["responseParts"][0]["response"],
        "cancel"
    );
    assert!(stage.replies().is_empty(), "no agent waits for it");
    assert!(
        stage
            .refused(conn, &chat, completed("accept", json!({})))
            .contains("no such question is open")
    );
}

#[test]
fn inp05_accept_requires_all_required_answers() {
    let (mut stage, conn, chat) = asking();
    let text = |value: &str| json!({ "state": "submitted", "value": { "kind": "text", "value": value } });
    let many = |ids: Value| json!({ "state": "submitted", "value": { "kind": "selected-many", "value": ids } });
    for (answers, missing) in [
        (json!({ "many": many(json!(["a"])) }), "text"),
        (json!({ "text": text(""), "many": many(json!(["a"])) }), "text"),
        (
            json!({ "text": { "state": "skipped" }, "many": many(json!(["a"])) }),
            "text",
        ),
        (json!({ "text": text("x"), "many": many(json!([])) }), "many"),
    ] {
        let reason = stage.refused(conn, &chat, completed("accept", answers));
        let expected = format!("answers[{missing:?}]: this question must be answered; answer it, or decline");
        assert_eq!(reason, expected);
    }
    assert_eq!(stage.waits(SESSION).len(), 1, "it is still open");
    // A shared draft counts as an answer (INP-04).
    stage.accepted(conn, &chat, draft("text", json!({ "kind": "text", "value": "shared" })));
    stage.accepted(conn, &chat, completed("accept", json!({ "many": many(json!(["b"])) })));
    assert!(stage.waits(SESSION).is_empty());
    // A user who declines owes no answer.
    let (mut stage, conn, chat) = asking();
    stage.accepted(conn, &chat, completed("decline", json!({})));
    assert!(stage.waits(SESSION).is_empty());
}
