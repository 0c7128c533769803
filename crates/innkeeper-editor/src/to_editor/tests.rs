//! The transcript against chats as hosts send them.

use std::collections::HashMap;

use ahp_types::state::{ChatState, TerminalState};
use innkeeper_cli::connection::contents::Contents;
use serde_json::{Value, json};

use super::{Sources, Transcript};

#[derive(Default)]
struct Rig {
    transcript: Transcript,
    contents: Contents,
    terminals: HashMap<String, TerminalState>,
    draws_terminals: bool,
    open_terminals: Vec<String>,
}

impl Rig {
    fn advance(&mut self, chat: Value) -> Vec<Value> {
        let mut sources = Sources {
            contents: &mut self.contents,
            terminals: &self.terminals,
            draws_terminals: self.draws_terminals,
            open_terminals: Vec::new(),
        };
        let updates = self.transcript.advance(&read(chat), &mut sources);
        self.open_terminals = sources.open_terminals;
        updates
    }
}

fn read(chat: Value) -> ChatState {
    serde_json::from_value(chat).expect("a chat")
}

fn turn(id: &str, state: Option<&str>, parts: &Value) -> Value {
    let message = json!({ "text": format!("message {id}"), "origin": { "kind": "user" } });
    let mut turn = json!({ "id": id, "startedAt": "2026-01-01T00:00:00Z", "message": message, "responseParts": parts });
    if let Some(state) = state {
        turn["state"] = json!(state);
    }
    turn
}

fn chat(ended: &[Value], active: Option<Value>) -> Value {
    let mut chat = json!({
        "resource": "ahp-chat:/c", "title": "", "status": 0, "modifiedAt": "2026-01-01T00:00:00Z", "turns": ended,
    });
    if let Some(active) = active {
        chat["activeTurn"] = active;
    }
    chat
}

fn markdown(text: &str) -> Value {
    json!({ "kind": "markdown", "id": "m", "content": text })
}

fn call(status: &str, fields: &Value) -> Value {
    let mut call = json!({
        "status": status, "toolCallId": "t", "toolName": "write", "displayName": "Write",
        "invocationMessage": { "markdown": "Writes `a`" },
    });
    for (name, value) in fields.as_object().expect("fields") {
        call[name] = value.clone();
    }
    json!({ "kind": "toolCall", "toolCall": call })
}

fn texts(updates: &[Value]) -> Vec<String> {
    let text = |update: &Value| format!("{}:{}", update["sessionUpdate"], update["content"]["text"]).replace('"', "");
    updates.iter().map(text).collect()
}

#[test]
fn only_the_news_of_a_turn_is_told() {
    let mut rig = Rig::default();
    let active = |text: &str| chat(&[], Some(turn("1", None, &json!([markdown(text)]))));
    assert_eq!(
        texts(&rig.advance(active("Hel"))),
        ["user_message_chunk:message 1", "agent_message_chunk:Hel"]
    );
    assert_eq!(texts(&rig.advance(active("Hello"))), ["agent_message_chunk:lo"]);
    assert_eq!(texts(&rig.advance(active("Hello"))), [] as [&str; 0]);
    let ended = |text: &str| turn("1", Some("complete"), &json!([markdown(text)]));
    assert_eq!(
        texts(&rig.advance(chat(&[ended("Hello!")], None))),
        ["agent_message_chunk:!"]
    );
    assert!(rig.transcript.has_told("1"));
    // The same state again, as after a lost connection, has no news.
    assert_eq!(rig.advance(chat(&[ended("Hello!")], None)), [] as [Value; 0]);
}

#[test]
fn a_history_is_told_in_its_order_and_can_be_left_out() {
    let history = |active| {
        let first = turn(
            "1",
            Some("complete"),
            &json!([{ "kind": "reasoning", "id": "r", "content": "hm" }]),
        );
        let second = turn(
            "2",
            Some("error"),
            &json!([{ "kind": "error", "error": { "errorType": "e", "message": "no" } }]),
        );
        chat(&[first, second], active)
    };
    let expected = [
        "user_message_chunk:message 1",
        "agent_thought_chunk:hm",
        "user_message_chunk:message 2",
        "agent_message_chunk:\\n\\n**Error:** no",
    ];
    assert_eq!(texts(&Rig::default().advance(history(None))), expected);
    let mut rig = Rig::default();
    rig.transcript.skip(&read(history(None)));
    assert_eq!(rig.advance(history(None)), [] as [Value; 0]);
    // The messages of the editor itself are not told back, and their errors are answers.
    rig.transcript.own("3");
    let third = turn(
        "3",
        None,
        &json!([{ "kind": "error", "error": { "errorType": "e", "message": "no" } }]),
    );
    assert_eq!(rig.advance(history(Some(third))), [] as [Value; 0]);
}

#[test]
fn a_resumed_turn_goes_on_where_it_failed() {
    let mut rig = Rig::default();
    let error = json!({ "kind": "error", "error": { "errorType": "e", "message": "no" } });
    let failed = turn("1", Some("error"), &json!([markdown("one"), error]));
    rig.advance(chat(&[failed], None));
    let more = json!([markdown("one"), error, { "kind": "markdown", "id": "n", "content": "two" }]);
    assert_eq!(
        texts(&rig.advance(chat(&[], Some(turn("1", None, &more))))),
        ["agent_message_chunk:two"]
    );
    assert_eq!(
        rig.advance(chat(&[turn("1", Some("complete"), &more)], None)),
        [] as [Value; 0]
    );
    assert!(rig.transcript.has_told("1"));
}

#[test]
fn a_tool_call_is_told_once_and_then_by_its_changes() {
    let mut rig = Rig::default();
    rig.transcript.own("1");
    let meta = json!({ "innkeeper.acp": { "kind": "fetch", "locations": [{ "path": "/a", "line": 3 }] } });
    let active = |part: Value| chat(&[], Some(turn("1", None, &json!([part]))));
    let begun = rig.advance(active(call("streaming", &json!({ "_meta": meta }))));
    let fields = ["sessionUpdate", "toolCallId", "title", "name", "kind", "status"].map(|name| begun[0][name].clone());
    assert_eq!(
        fields,
        ["tool_call", "t", "Writes `a`", "write", "fetch", "pending"].map(Value::from)
    );
    assert_eq!(begun[0]["locations"], json!([{ "path": "/a", "line": 3 }]));
    let input = json!({ "_meta": meta, "toolInput": "{\"path\":\"/a\"}", "confirmed": "not-needed" });
    let running = rig.advance(active(call("running", &input)));
    let expected = json!({
        "sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "in_progress",
        "rawInput": { "path": "/a" },
    });
    assert_eq!(running, [expected]);
    let failed = json!({
        "_meta": meta, "toolInput": "{\"path\":\"/a\"}", "confirmed": "not-needed", "success": false,
        "pastTenseMessage": "", "error": { "message": "disk full" },
    });
    let ended = rig.advance(active(call("completed", &failed)));
    let text = json!([{ "type": "content", "content": { "type": "text", "text": "disk full" } }]);
    assert_eq!((&ended[0]["status"], &ended[0]["content"]), (&json!("failed"), &text));
}

#[test]
fn a_turn_waits_for_the_contents_of_its_diffs() {
    let mut rig = Rig::default();
    let side = |content: &str| json!({ "uri": "file:///inn/a", "content": { "uri": content } });
    let edit =
        json!({ "type": "fileEdit", "before": side("innkeeper-content:/1"), "after": side("data:;base64,bmV3") });
    let done = call(
        "completed",
        &json!({
            "confirmed": "not-needed", "success": true, "pastTenseMessage": "", "content": [edit],
        }),
    );
    let history = || {
        let later = turn("2", Some("complete"), &json!([markdown("later")]));
        chat(&[turn("1", Some("complete"), &json!([done])), later], None)
    };
    let first = rig.advance(history());
    assert_eq!((first.len(), &first[1]["content"]), (2, &json!([])));
    assert!(!rig.transcript.is_complete(&read(history())));
    assert_eq!(rig.contents.take_wanted(), ["innkeeper-content:/1"]);
    rig.contents.take(
        "innkeeper-content:/1".to_owned(),
        Some(json!({ "data": "old", "encoding": "utf-8" })),
    );
    let rest = rig.advance(history());
    let diff = json!([{ "type": "diff", "path": "/inn/a", "oldText": "old", "newText": "new" }]);
    assert_eq!(rest[0]["content"], diff);
    assert_eq!(
        texts(&rest)[1..],
        ["user_message_chunk:message 2", "agent_message_chunk:later"]
    );
    assert!(rig.transcript.is_complete(&read(history())));
}

#[test]
fn an_editor_that_draws_terminals_gets_their_output() {
    let mut rig = Rig {
        draws_terminals: true,
        ..Rig::default()
    };
    rig.transcript.own("1");
    let terminal = json!({ "type": "terminal", "resource": "ahp-terminal:/x", "title": "sh" });
    let running = call("running", &json!({ "confirmed": "not-needed", "content": [terminal] }));
    let active = chat(&[], Some(turn("1", None, &json!([running]))));
    let begun = rig.advance(active.clone());
    assert_eq!(
        begun[0]["content"],
        json!([{ "type": "terminal", "terminalId": "ahp-terminal:/x" }])
    );
    assert_eq!(begun[0]["_meta"]["terminal_info"]["terminal_id"], "ahp-terminal:/x");
    assert_eq!(rig.open_terminals, ["ahp-terminal:/x"]);
    let state = json!({
        "title": "sh", "content": [{ "type": "unclassified", "value": "\u{1b}[1mrooms" }],
        "lifecycle": { "status": "exited", "exitCode": 3 }, "claim": { "kind": "client", "clientId": "c" },
    });
    let state: TerminalState = serde_json::from_value(state).expect("a terminal");
    rig.terminals.insert("ahp-terminal:/x".to_owned(), state);
    let metas: Vec<Value> = rig
        .advance(active.clone())
        .into_iter()
        .map(|update| update["_meta"].clone())
        .collect();
    assert_eq!(metas[0]["terminal_output"]["data"], "\u{1b}[1mrooms");
    assert_eq!(metas[1]["terminal_exit"]["exit_code"], 3);
    assert_eq!(rig.advance(active), [] as [Value; 0]);
}
