//! Annotations of a session's files (ANN).

use innkeeper_core::agent::{Attachment, NewAnnotation, TextSpan};
use innkeeper_core::{AgentCommand, AgentEvent, CoreConfig, Effect, TurnEnd};
use serde_json::{Value, json};

use crate::harness::*;

const ANNOTATIONS: &str = "ahp-session:/one/annotations";

fn annotation(id: &str, text: &str) -> Value {
    json!({
        "id": id, "origin": { "session": SESSION }, "resource": "file:///srv/a.rs", "resolved": false,
        "range": { "start": { "line": 2, "character": 0 }, "end": { "line": 4, "character": 0 } },
        "entries": [{ "id": "e1", "text": text }],
    })
}

fn set(annotation: Value) -> Value {
    json!({ "type": "annotations/set", "annotation": annotation })
}

/// A session with a turn, and a client that is subscribed to its annotations.
fn stage() -> (Stage, innkeeper_core::ConnId) {
    let mut stage = Stage::opening(PersistedState::default(), CoreConfig::default());
    let conn = stage.client("c", &[ROOT]);
    stage.listed_session(conn, SESSION);
    stage.subscribe(conn, ANNOTATIONS);
    stage.inbox(conn);
    (stage, conn)
}

#[test]
fn ann09_a_channel_that_was_never_used_has_an_empty_list() {
    let (mut stage, conn) = stage();
    stage.unsubscribe(conn, ANNOTATIONS);
    let answer = stage.subscribe(conn, ANNOTATIONS);
    assert_eq!(answer["result"]["snapshot"]["state"], json!({ "annotations": [] }));
}

#[test]
fn ann01_ann05_all_five_actions_reach_every_subscriber() {
    let (mut stage, conn) = stage();
    let other = stage.client("other", &[ANNOTATIONS]);
    stage.accepted(conn, ANNOTATIONS, set(annotation("a", "Why?")));
    let entry = json!({ "id": "e2", "text": { "markdown": "*Because.*" } });
    let action = json!({ "type": "annotations/entrySet", "annotationId": "a", "entry": entry });
    stage.dispatch(other, ANNOTATIONS, 1, action);
    let action = json!({ "type": "annotations/updated", "annotationId": "a", "resolved": true });
    stage.accepted(conn, ANNOTATIONS, action);
    let state = stage.state(ANNOTATIONS);
    let shown = &state["annotations"][0];
    assert_eq!(
        (&shown["resolved"], &shown["range"]["start"]["line"]),
        (&json!(true), &json!(2))
    );
    assert_eq!(shown["entries"].as_array().map(Vec::len), Some(2));
    let action = json!({ "type": "annotations/entryRemoved", "annotationId": "a", "entryId": "e1" });
    stage.accepted(conn, ANNOTATIONS, action);
    let action = json!({ "type": "annotations/removed", "annotationId": "a" });
    stage.accepted(conn, ANNOTATIONS, action);
    assert_eq!(stage.state(ANNOTATIONS), json!({ "annotations": [] }));
    let heard = stage.action_types(other);
    let all = ["set", "entrySet", "updated", "entryRemoved", "removed"];
    assert_eq!(heard, all.map(|name| format!("annotations/{name}")));
}

#[test]
fn ann02_ann03_ann04_ann06_a_broken_rule_is_rejected_with_its_field() {
    let (mut stage, conn) = stage();
    stage.accepted(conn, ANNOTATIONS, set(annotation("a", "Why?")));
    let changed = |edit: &dyn Fn(&mut Value)| {
        let mut annotation = annotation("b", "x");
        edit(&mut annotation);
        set(annotation)
    };
    let origin = json!({ "session": SESSION, "chat": "ahp-chat:/no" });
    let turn = json!({ "session": SESSION, "turnId": "t" });
    let backwards = json!({ "start": { "line": 4, "character": 0 }, "end": { "line": 2, "character": 0 } });
    let negative = json!({ "start": { "line": -1, "character": 0 }, "end": { "line": 2, "character": 0 } });
    let entry = json!({ "id": "e", "text": "x" });
    for (action, field) in [
        (changed(&|it| it["entries"] = json!([])), "annotation.entries: "),
        (
            changed(&|it| it["entries"] = json!([entry, entry])),
            "annotation.entries[1].id: ",
        ),
        (
            changed(&|it| it["entries"][0]["text"] = json!(" ")),
            "annotation.entries[0].text: ",
        ),
        (changed(&|it| it["resolved"] = json!(true)), "annotation.resolved: "),
        (changed(&|it| it["id"] = json!("")), "annotation.id: "),
        (changed(&|it| it["id"] = json!("x".repeat(300))), "annotation.id: "),
        (changed(&|it| it["resource"] = json!("a.rs")), "annotation.resource: "),
        (changed(&|it| it["range"] = backwards.clone()), "annotation.range: "),
        (changed(&|it| it["range"] = negative.clone()), "annotation.range: "),
        (
            changed(&|it| it["origin"]["session"] = json!("ahp-session:/two")),
            "annotation.origin.session: ",
        ),
        (changed(&|it| it["origin"] = origin.clone()), "annotation.origin.chat: "),
        (changed(&|it| it["origin"] = turn.clone()), "annotation.origin.chat: "),
        (
            changed(&|it| it["entries"][0]["text"] = json!("x".repeat(300 << 10))),
            "annotation.entries[0]: ",
        ),
        (
            json!({ "type": "annotations/updated", "annotationId": "no", "resolved": true }),
            "annotationId: ",
        ),
        (
            json!({ "type": "annotations/updated", "annotationId": "a", "range": backwards }),
            "range: ",
        ),
        (
            json!({ "type": "annotations/removed", "annotationId": "no" }),
            "annotationId: ",
        ),
        (
            json!({ "type": "annotations/entrySet", "annotationId": "no", "entry": entry }),
            "annotationId: ",
        ),
        (
            json!({ "type": "annotations/entryRemoved", "annotationId": "a", "entryId": "no" }),
            "entryId: ",
        ),
        (
            json!({ "type": "annotations/entryRemoved", "annotationId": "a", "entryId": "e1" }),
            "entryId: the last",
        ),
    ] {
        let reason = stage.refused(conn, ANNOTATIONS, action.clone());
        assert!(reason.starts_with(field), "{field} {reason} {action}");
    }
    // A replacement may be resolved; only a new one may not.
    stage.accepted(
        conn,
        ANNOTATIONS,
        set({
            let mut replaced = annotation("a", "Fine.");
            replaced["resolved"] = json!(true);
            replaced
        }),
    );
}

#[test]
fn ann07_the_summary_counts_annotations_and_entries() {
    let (mut stage, conn) = stage();
    let counts = |stage: &mut Stage| {
        stage.pass(200);
        let mut heard = stage.notifications(conn).into_iter();
        let last = heard.rfind(|message| message["method"] == "root/sessionSummaryChanged");
        last.map(|message| message["params"]["changes"]["annotations"].clone())
    };
    counts(&mut stage);
    stage.accepted(conn, ANNOTATIONS, set(annotation("a", "Why?")));
    let entry = json!({ "id": "e2", "text": "Because." });
    let action = json!({ "type": "annotations/entrySet", "annotationId": "a", "entry": entry });
    stage.accepted(conn, ANNOTATIONS, action);
    let expected = json!({ "resource": ANNOTATIONS, "annotationCount": 1, "entryCount": 2 });
    assert_eq!(counts(&mut stage), Some(expected.clone()));
    assert_eq!(stage.state(SESSION)["annotations"], expected);
    stage.accepted(
        conn,
        ANNOTATIONS,
        json!({ "type": "annotations/removed", "annotationId": "a" }),
    );
    let none = json!({ "resource": ANNOTATIONS, "annotationCount": 0, "entryCount": 0 });
    assert_eq!(counts(&mut stage), Some(none));
}

#[test]
fn ann01_annotations_survive_a_restart_and_are_replayed() {
    let (mut stage, conn) = stage();
    stage.accepted(conn, ANNOTATIONS, set(annotation("a", "Why?")));
    let mut stage = stage.restart(CoreConfig::default());
    let conn = stage.client("c", &[ANNOTATIONS]);
    assert_eq!(stage.state(ANNOTATIONS)["annotations"][0]["entries"][0]["text"], "Why?");
    assert_eq!(stage.state(SESSION)["annotations"]["annotationCount"], 1);
    stage.accepted(conn, ANNOTATIONS, set(annotation("b", "And this?")));
    let seen = stage.core.seq().0;
    stage.disconnect(conn);
    let other = stage.client("other", &[ANNOTATIONS]);
    stage.accepted(
        other,
        ANNOTATIONS,
        json!({ "type": "annotations/removed", "annotationId": "a" }),
    );
    let conn = stage.connect();
    let answer = stage.reconnect(conn, "c", seen, &[ANNOTATIONS]);
    assert_eq!(answer["result"]["type"], "replay", "{answer}");
    let missed = &answer["result"]["actions"];
    assert_eq!(missed[0]["action"]["type"], "annotations/removed", "{answer}");
    assert_eq!(missed.as_array().map(Vec::len), Some(1), "{answer}");
}

#[test]
fn ann01_sub19_annotations_end_with_their_session() {
    let (mut stage, conn) = stage();
    stage.accepted(conn, ANNOTATIONS, set(annotation("a", "Why?")));
    let answer = stage.dispose(conn, SESSION);
    assert!(answer.get("error").is_none(), "{answer}");
    let answer = stage.subscribe(conn, ANNOTATIONS);
    assert_eq!(error(&answer).0, -32001, "{answer}");
    stage.session(conn, SESSION);
    let answer = stage.subscribe(conn, ANNOTATIONS);
    assert_eq!(answer["result"]["snapshot"]["state"], json!({ "annotations": [] }));
}

#[test]
fn ann01_a_draft_with_an_annotation_is_listed() {
    let mut stage = Stage::new();
    let conn = stage.client("c", &[]);
    stage.session(conn, SESSION);
    assert_eq!(stage.list(conn, None, None)["result"]["items"], json!([]));
    stage.dispatch(conn, ANNOTATIONS, 1, set(annotation("a", "Why?")));
    let items = stage.list(conn, None, None)["result"]["items"].clone();
    assert_eq!(items[0]["annotations"]["annotationCount"], 1, "{items}");
}

#[test]
fn ann08_attached_annotations_reach_the_agent_with_file_and_lines() {
    let (mut stage, conn) = stage();
    let chat = innkeeper_core::uri::default_chat(SESSION);
    stage.subscribe(conn, &chat);
    stage.accepted(conn, ANNOTATIONS, set(annotation("a", "Why?")));
    stage.accepted(conn, ANNOTATIONS, set(annotation("b", "And this?")));
    let told = |stage: &mut Stage, turn: &str, ids: Option<Value>| -> Vec<String> {
        let mut attached = json!({ "type": "annotations", "label": "review", "resource": ANNOTATIONS });
        if let Some(ids) = ids {
            attached["annotationIds"] = ids;
        }
        let mut action = stage.turn_started(turn);
        action["message"]["attachments"] = json!([attached]);
        stage.accepted(conn, &chat, action);
        let mut effects = stage.agent.iter().rev();
        let started = effects.find_map(|effect| match effect {
            Effect::Agent(AgentCommand::StartTurn { start, .. }) => Some(start.info.attachments.clone()),
            _ => None,
        });
        let remarks = match started.as_deref() {
            Some([Attachment::Annotations { remarks, .. }]) => remarks.clone(),
            other => panic!("{other:?}"),
        };
        stage.ends(TurnEnd::Complete);
        remarks.iter().map(|remark| remark.in_words(&remark.file)).collect()
    };
    let why = "file:///srv/a.rs, lines 3 to 4:\nWhy?\n";
    let and = "file:///srv/a.rs, lines 3 to 4:\nAnd this?\n";
    assert_eq!(told(&mut stage, "t1", None), [why, and], "all of them");
    assert_eq!(told(&mut stage, "t2", Some(json!(["b"]))), [and], "the listed one");
    let mut action = stage.turn_started("t3");
    action["message"]["attachments"] =
        json!([{ "type": "annotations", "label": "x", "resource": ANNOTATIONS, "annotationIds": ["no"] }]);
    let reason = stage.refused(conn, &chat, action);
    assert!(reason.contains("names an annotation that does not exist"), "{reason}");
}

#[test]
fn ann01_an_agent_writes_annotations_of_its_turn() {
    let (mut stage, conn) = stage();
    let chat = innkeeper_core::uri::default_chat(SESSION);
    stage.start_turn(conn, &chat, "t");
    stage.inbox(conn);
    let span = TextSpan {
        start_line: 1,
        start_character: 0,
        end_line: 2,
        end_character: 0,
    };
    let written = NewAnnotation {
        file: "file:///srv/b.rs".to_owned(),
        span: Some(span),
        text: "This can overflow.".to_owned(),
    };
    for _ in 0..2 {
        stage.says(AgentEvent::Annotate(Box::new(written.clone())));
    }
    let heard = stage.action_types(conn);
    assert_eq!(
        heard.iter().filter(|name| *name == "annotations/set").count(),
        2,
        "{heard:?}"
    );
    let state = stage.state(ANNOTATIONS);
    let shown = &state["annotations"][0];
    assert_eq!(
        shown["origin"],
        json!({ "session": SESSION, "chat": chat, "turnId": "t" })
    );
    assert_eq!(shown["range"]["start"], json!({ "line": 1, "character": 0 }));
    assert_eq!(shown["entries"][0]["text"], json!({ "markdown": "This can overflow." }));
    assert_ne!(shown["id"], state["annotations"][1]["id"]);
}
