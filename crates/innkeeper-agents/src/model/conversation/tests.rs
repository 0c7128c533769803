use innkeeper_host::agent::PastTool;
use serde_json::json;

use super::*;
use crate::model::api::Image;

fn past(id: &str, text: &str, reply: &str) -> PastTurn {
    PastTurn {
        id: id.to_owned(),
        text: text.to_owned(),
        reply: reply.to_owned(),
        attachments: Vec::new(),
        steered: Vec::new(),
        tools: Vec::new(),
        outcome: PastOutcome::Complete,
    }
}

fn tool(call: &str, output: Option<&str>) -> PastTool {
    PastTool {
        call: call.to_owned(),
        name: "read file!".to_owned(),
        input: "{}".to_owned(),
        output: output.map(str::to_owned),
        success: output.is_some(),
    }
}

fn recalled(memory: ChatMemory, history: &[PastTurn], omitted: usize) -> Conversation {
    let mut conversation = Conversation {
        memory,
        ..Conversation::default()
    };
    conversation.recall(history, omitted);
    conversation
}

fn assistant(parts: &[AssistantPart]) -> ModelMessage {
    ModelMessage::Assistant(parts.to_vec())
}

fn call(id: &str) -> AssistantPart {
    AssistantPart::Call(ToolUse {
        id: id.to_owned(),
        name: "read_file".to_owned(),
        input: "{}".to_owned(),
    })
}

fn text(text: &str) -> AssistantPart {
    AssistantPart::Text(text.to_owned())
}

fn speakers(conversation: &Conversation) -> Vec<Speaker> {
    conversation.entries.iter().map(|entry| entry.speaker).collect()
}

#[test]
fn a_past_turn_includes_its_calls_and_every_call_has_a_result() {
    let mut turn = past("t1", "Read it.", "It says hello.");
    turn.tools = vec![tool("c1", Some("hello")), tool("c2", None)];
    let conversation = recalled(ChatMemory::default(), &[turn], 0);
    let messages = conversation.messages(true);
    let [
        _,
        ModelMessage::Assistant(calls),
        ModelMessage::ToolResults(results),
        reply,
    ] = &messages[..]
    else {
        panic!("{messages:#?}");
    };
    assert!(
        matches!(&calls[0], AssistantPart::Call(call) if call.name == "read_file_"),
        "{calls:?}"
    );
    assert_eq!((calls.len(), results.len()), (2, 2));
    assert_eq!((results[0].text.as_str(), results[0].is_error), ("hello", false));
    assert!(results[1].is_error && results[1].text.contains("There is no result"));
    assert_eq!(*reply, assistant(&[text("It says hello.")]));
}

#[test]
fn a_past_turn_without_an_answer_gets_a_placeholder() {
    for outcome in [PastOutcome::Cancelled, PastOutcome::Failed, PastOutcome::Unfinished] {
        let mut turn = past("t1", "Hello?", "");
        turn.outcome = outcome;
        let conversation = recalled(ChatMemory::default(), &[turn], 0);
        assert_eq!(speakers(&conversation), [Speaker::User, Speaker::Model]);
    }
}

#[test]
fn a_past_turn_includes_attachments_and_steering() {
    let mut turn = past("t1", "", "Done.");
    turn.attachments = vec![innkeeper_host::agent::Attachment::Text {
        label: "notes".to_owned(),
        text: "the cellar is wet".to_owned(),
    }];
    turn.steered = vec!["x".repeat(100 << 10)];
    let conversation = recalled(ChatMemory::default(), &[turn], 0);
    assert_eq!(speakers(&conversation), [Speaker::User, Speaker::User, Speaker::Model]);
    let all = format!("{:?}", conversation.messages(true));
    assert!(all.contains("the cellar is wet") && all.contains(&"x".repeat(100 << 10)));
}

#[test]
fn summarised_turns_keep_user_messages_verbatim() {
    let mut memory = ChatMemory::default();
    memory.compact("t2", "they talked");
    let mut history = [
        past("t1", "one", "long answer"),
        past("t2", "/compact", ""),
        past("t3", "three", "an answer"),
    ];
    history[0].steered = vec!["no, the other one".to_owned()];
    let conversation = recalled(memory.clone(), &history, 0);
    assert_eq!(speakers(&conversation), [Speaker::Host, Speaker::User, Speaker::Model]);
    let summary = conversation.entries[0].summary.as_ref().expect("a summary");
    assert_eq!(summary.user_messages, ["one", "no, the other one"]);
    assert_eq!(summary.text, "they talked");
    // The turns were truncated, and their summary with them.
    let conversation = recalled(memory, &history[2..], 0);
    assert_eq!(speakers(&conversation), [Speaker::User, Speaker::Model]);
}

#[test]
fn omitted_turns_are_mentioned() {
    let conversation = recalled(ChatMemory::default(), &[past("t9", "nine", "yes")], 8);
    assert_eq!(speakers(&conversation), [Speaker::Host, Speaker::User, Speaker::Model]);
    let all = format!("{:?}", conversation.messages(true));
    assert!(all.contains("8 earlier turns"), "{all}");
}

#[test]
fn completing_open_calls_is_idempotent() {
    let mut conversation = Conversation::default();
    conversation.push(Speaker::User, user("Go.".into()));
    conversation.complete_open_calls();
    assert_eq!(speakers(&conversation), [Speaker::User], "nothing to mend");
    conversation.push(Speaker::Model, assistant(&[text("I look."), call("c1"), call("c2")]));
    for _ in 0..2 {
        conversation.complete_open_calls();
        assert_eq!(speakers(&conversation), [Speaker::User, Speaker::Model, Speaker::Tools]);
    }
    let Some(ModelMessage::ToolResults(results)) = conversation.messages(true).pop() else {
        panic!("results");
    };
    let ids: Vec<&str> = results.iter().map(|result| result.call.as_str()).collect();
    assert_eq!(ids, ["c1", "c2"]);
}

#[test]
fn only_a_model_that_spoke_last_is_asked_to_continue() {
    let mut conversation = Conversation::default();
    conversation.push(Speaker::User, user("Go.".into()));
    conversation.ask_to_continue();
    assert_eq!(speakers(&conversation), [Speaker::User]);
    conversation.push(Speaker::Model, assistant(&[call("c1")]));
    conversation.ask_to_continue();
    assert_eq!(
        speakers(&conversation),
        [Speaker::User, Speaker::Model, Speaker::Tools],
        "results are enough to go on with"
    );
    conversation.push(Speaker::Model, assistant(&[text("Half")]));
    conversation.ask_to_continue();
    conversation.ask_to_continue();
    assert_eq!(conversation.entries.len(), 5);
    assert_eq!(conversation.entries[4].speaker, Speaker::Host);
}

#[test]
fn images_become_notes_for_models_without_vision() {
    let image = Image {
        media_type: "image/png".into(),
        base64: "AAAA".into(),
    };
    let mut conversation = Conversation::default();
    conversation.push(
        Speaker::User,
        ModelMessage::User(vec![UserPart::Image(image.clone()), UserPart::Text("See?".into())]),
    );
    conversation.push(Speaker::Model, assistant(&[call("c1")]));
    let result = ToolOutcome {
        call: "c1".into(),
        text: "read".into(),
        images: vec![image],
        is_error: false,
    };
    conversation.push(Speaker::Tools, ModelMessage::ToolResults(vec![result]));
    assert!(format!("{:?}", conversation.messages(true)).contains("AAAA"));
    let blind = format!("{:?}", conversation.messages(false));
    assert!(!blind.contains("AAAA"), "{blind}");
    assert_eq!(blind.matches("which you cannot see").count(), 2, "{blind}");
}

#[test]
fn a_token_count_of_zero_does_not_calibrate() {
    let mut conversation = Conversation::default();
    conversation.push(Speaker::User, user("x".repeat(8000)));
    let before = conversation.tokens();
    conversation.calibrate(2000, 0);
    assert_eq!(conversation.tokens(), before);
    conversation.calibrate(2000, 3000);
    assert_eq!(conversation.tokens(), before * 3 / 2);
    let memory = ChatMemory::read(&json!({ "compacted": null }));
    assert_eq!(memory, ChatMemory::default());
}

#[test]
fn a_summary_of_omitted_turns_is_kept() {
    let mut memory = ChatMemory::default();
    memory.compact("t1", "files were read");
    let history = [past("t8", "And now?", "Done.")];
    let all = |conversation: &Conversation| format!("{:?}", conversation.messages(true));
    let rendered = all(&recalled(memory.clone(), &history, 7));
    assert!(
        rendered.contains("files were read") && rendered.contains("And now?"),
        "{rendered}"
    );
    // Nothing is omitted, so the turn was truncated.
    let rendered = all(&recalled(memory, &history, 0));
    assert!(!rendered.contains("files were read"), "{rendered}");
}

#[test]
fn an_empty_message_becomes_a_placeholder() {
    let conversation = recalled(ChatMemory::default(), &[past("t1", " ", "I see.")], 0);
    let messages = conversation.messages(true);
    assert_eq!(messages[0], user(NO_WORDS.to_owned()));
}

#[test]
fn a_side_chat_includes_the_end_of_its_parent() {
    let turns: Vec<PastTurn> = (0..100)
        .map(|number| past("t", &format!("question {number} {}", "x".repeat(10_000)), "Yes."))
        .collect();
    let mut conversation = Conversation::default();
    conversation.add_side_chat_context(&turns, Some("these words"));
    let rendered = format!("{:?}", conversation.messages(true));
    assert!(rendered.len() < MAX_ABOUT + 1000, "{}", rendered.len());
    assert!(rendered.contains("question 99") && !rendered.contains("question 0 ") && rendered.contains("these words"));
    let first = rendered.find("left out").unwrap();
    assert!(first < rendered.find("question 99").unwrap());
}
