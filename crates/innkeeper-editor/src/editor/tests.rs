//! An editor between scripted messages and scripted news, without any IO.

use ahp_types::actions::{ActionEnvelope, StateAction};
use ahp_types::state::Snapshot;
use innkeeper_acp_wire::{Incoming, RpcError};
use innkeeper_cli::connection::link::{LinkEvent, Order, Ticket};
use serde_json::{Value, json};

use super::{Editor, Outgoing};

const SESSION: &str = "ahp-session:/s";
const CHAT: &str = "ahp-chat:/c";

struct Rig {
    editor: Editor,
    seq: u64,
}

fn session(input_needed: &Value) -> Value {
    json!({
        "provider": "scripted", "title": "The inn", "status": 0, "lifecycle": "ready", "activeClients": [],
        "chats": [], "defaultChat": CHAT, "inputNeeded": input_needed,
    })
}

fn chat() -> Value {
    json!({ "resource": CHAT, "title": "", "status": 0, "modifiedAt": "2026-01-01T00:00:00Z", "turns": [] })
}

fn wait(id: &str) -> Value {
    let call = json!({
        "status": "pending-confirmation", "toolCallId": "t", "toolName": "ring", "displayName": "Ring",
        "invocationMessage": "Ring the bell", "options": [
            { "id": "always", "label": "Always", "kind": "approve", "group": 0 },
            { "id": "no", "label": "No", "kind": "deny", "group": 1 },
        ],
    });
    json!({ "kind": "toolConfirmation", "id": id, "chat": CHAT, "turnId": "1", "toolCall": call })
}

impl Rig {
    /// An editor that has loaded a session.
    fn new() -> Self {
        let mut rig = Self {
            editor: Editor::new(None),
            seq: 0,
        };
        rig.editor.handle_link(LinkEvent::Connected(Box::default()));
        rig.ask(
            1,
            "session/load",
            json!({ "sessionId": SESSION, "cwd": "/", "mcpServers": [] }),
        );
        assert!(matches!(&rig.editor.take_orders()[..], [Order::Subscribe(uri)] if uri == SESSION));
        rig.state(SESSION, session(&json!([])));
        rig.state(CHAT, chat());
        let Some((1, Ok(answer))) = rig.answers().pop() else {
            panic!("the session is not loaded");
        };
        assert_eq!(answer["configOptions"], json!([]));
        rig.editor.take_orders();
        rig
    }

    fn ask(&mut self, id: i64, method: &str, params: Value) {
        let method = method.to_owned();
        self.editor.handle_message(Incoming::Request {
            id: json!(id),
            method,
            params,
        });
    }

    fn state(&mut self, resource: &str, state: Value) {
        self.seq += 1;
        let snapshot = json!({ "resource": resource, "state": state, "fromSeq": self.seq });
        let snapshot: Snapshot = serde_json::from_value(snapshot).expect("a snapshot");
        self.editor.handle_link(LinkEvent::State(Box::new(snapshot)));
    }

    fn action(&mut self, channel: &str, action: Value) {
        self.seq += 1;
        let action: StateAction = serde_json::from_value(action).expect("an action");
        assert!(!matches!(action, StateAction::Unknown(_)), "{action:?}");
        self.editor.handle_link(LinkEvent::Action(Box::new(ActionEnvelope {
            channel: channel.to_owned(),
            action,
            server_seq: self.seq,
            origin: None,
            rejection_reason: None,
        })));
    }

    fn answers(&mut self) -> Vec<(i64, Result<Value, RpcError>)> {
        let outgoing = self.editor.take_outgoing().into_iter();
        outgoing
            .filter_map(|message| match message {
                Outgoing::Answer(id, outcome) => Some((id.as_i64().expect("a number"), outcome)),
                _ => None,
            })
            .collect()
    }

    /// Returns the only action that was dispatched, with its ticket.
    fn dispatched(&mut self) -> (Ticket, Value) {
        let orders = self.editor.take_orders();
        let dispatched = orders.iter().find_map(|order| match order {
            Order::Dispatch(ticket, _, action) => Some((*ticket, serde_json::to_value(action).expect("JSON"))),
            _ => None,
        });
        dispatched.unwrap_or_else(|| panic!("nothing was dispatched: {orders:?}"))
    }

    fn prompt(&mut self, id: i64, text: &str) -> (Ticket, Value) {
        let prompt = json!({ "sessionId": SESSION, "prompt": [{ "type": "text", "text": text }] });
        self.ask(id, "session/prompt", prompt);
        self.dispatched()
    }

    fn started(&mut self, turn: &str, queued: Option<&str>) {
        let message = json!({ "text": "hi", "origin": { "kind": "user" } });
        let mut action = json!({
            "type": "chat/turnStarted", "turnId": turn, "startedAt": "2026-01-01T00:00:00Z", "message": message,
        });
        if let Some(queued) = queued {
            action["queuedMessageId"] = json!(queued);
        }
        self.action(CHAT, action);
    }

    fn completed(&mut self, turn: &str) {
        self.action(
            CHAT,
            json!({ "type": "chat/turnComplete", "turnId": turn, "duration": 1 }),
        );
    }
}

#[test]
fn a_question_that_another_client_answers_is_withdrawn() {
    let mut rig = Rig::new();
    rig.state(SESSION, session(&json!([wait("w")])));
    let asked = rig.editor.take_outgoing();
    let [
        Outgoing::Ask {
            session: asked_in,
            input,
            method,
            params,
        },
    ] = &asked[..]
    else {
        panic!("{asked:?}");
    };
    assert_eq!(
        (*method, &params["toolCall"]["title"]),
        ("session/request_permission", &json!("Ring the bell"))
    );
    assert_eq!(params["options"][0]["kind"], "allow_always");
    rig.editor.was_asked(7, asked_in.clone(), input.clone());
    rig.state(SESSION, session(&json!([])));
    let withdrawn = Outgoing::Notify("$/cancel_request", json!({ "requestId": 7 }));
    assert_eq!(rig.editor.take_outgoing(), [withdrawn]);
    let chosen = json!({ "outcome": { "outcome": "selected", "optionId": "no" } });
    rig.editor.handle_message(Incoming::Answer {
        id: 7,
        outcome: Ok(chosen),
    });
    assert!(rig.editor.take_orders().is_empty());
}

#[test]
fn an_answer_decides_and_an_editor_that_cannot_ask_does_not() {
    for (outcome, approved) in [
        (
            Ok(json!({ "outcome": { "outcome": "selected", "optionId": "always" } })),
            Some(true),
        ),
        (
            Ok(json!({ "outcome": { "outcome": "selected", "optionId": "no" } })),
            Some(false),
        ),
        (Ok(json!({ "outcome": { "outcome": "cancelled" } })), Some(false)),
        (Ok(json!({})), None),
        (Err(RpcError::new(-32601, "no")), None),
    ] {
        let mut rig = Rig::new();
        rig.state(SESSION, session(&json!([wait("w")])));
        rig.editor.was_asked(7, SESSION.to_owned(), "w".to_owned());
        rig.editor.handle_message(Incoming::Answer { id: 7, outcome });
        let Some(approved) = approved else {
            assert!(rig.editor.take_orders().is_empty());
            continue;
        };
        let (_, action) = rig.dispatched();
        assert_eq!(
            (&action["type"], &action["approved"]),
            (&json!("chat/toolCallConfirmed"), &json!(approved))
        );
    }
}

#[test]
fn a_prompt_behind_another_turn_is_queued_and_answered_by_its_own_turn() {
    let mut rig = Rig::new();
    rig.started("other", None);
    let (ticket, action) = rig.prompt(2, "mine");
    assert_eq!(action["type"], "chat/pendingMessageSet");
    let id = action["id"].as_str().expect("an id").to_owned();
    rig.editor.handle_link(LinkEvent::Settled(ticket, None));
    rig.action(CHAT, action);
    rig.completed("other");
    rig.action(
        CHAT,
        json!({ "type": "chat/pendingMessageRemoved", "kind": "queued", "id": id }),
    );
    rig.started("own", Some(&id));
    assert_eq!(rig.answers(), []);
    rig.completed("own");
    assert_eq!(rig.answers(), [(2, Ok(json!({ "stopReason": "end_turn" })))]);
}

#[test]
fn pend06_a_prompt_behind_a_cancelled_turn_is_started() {
    let mut rig = Rig::new();
    rig.started("other", None);
    let (ticket, action) = rig.prompt(2, "mine");
    let id = action["id"].clone();
    rig.editor.handle_link(LinkEvent::Settled(ticket, None));
    rig.action(CHAT, action);
    rig.action(
        CHAT,
        json!({ "type": "chat/turnCancelled", "turnId": "other", "duration": 1 }),
    );
    let sent: Vec<(Ticket, Value)> = rig
        .editor
        .take_orders()
        .into_iter()
        .filter_map(|order| match order {
            Order::Dispatch(ticket, _, action) => Some((ticket, serde_json::to_value(action).expect("JSON"))),
            _ => None,
        })
        .collect();
    let [(_, removed), (ticket, started)] = &sent[..] else {
        panic!("{sent:?}");
    };
    assert_eq!(
        (&removed["type"], &removed["id"]),
        (&json!("chat/pendingMessageRemoved"), &id)
    );
    assert_eq!(started["type"], "chat/turnStarted");
    rig.action(CHAT, removed.clone());
    // Another client may be faster: the message is queued again.
    rig.started("third", None);
    rig.editor
        .handle_link(LinkEvent::Settled(*ticket, Some("a turn runs".to_owned())));
    let (ticket, again) = rig.dispatched();
    assert_eq!(again["type"], "chat/pendingMessageSet");
    rig.editor.handle_link(LinkEvent::Settled(ticket, None));
    rig.action(CHAT, again.clone());
    rig.completed("third");
    rig.action(
        CHAT,
        json!({ "type": "chat/pendingMessageRemoved", "kind": "queued", "id": again["id"] }),
    );
    rig.started("own", again["id"].as_str());
    rig.completed("own");
    assert_eq!(rig.answers(), [(2, Ok(json!({ "stopReason": "end_turn" })))]);
}

#[test]
fn a_queued_prompt_that_is_taken_back_elsewhere_is_cancelled() {
    let mut rig = Rig::new();
    rig.started("other", None);
    let (ticket, action) = rig.prompt(2, "mine");
    let id = action["id"].clone();
    rig.editor.handle_link(LinkEvent::Settled(ticket, None));
    rig.action(CHAT, action);
    rig.action(
        CHAT,
        json!({ "type": "chat/pendingMessageRemoved", "kind": "queued", "id": id }),
    );
    rig.completed("other");
    rig.state(CHAT, chat());
    assert_eq!(rig.answers(), [(2, Ok(json!({ "stopReason": "cancelled" })))]);
}

#[test]
fn a_message_that_the_host_never_had_is_given_back() {
    let mut rig = Rig::new();
    let (_, action) = rig.prompt(2, "lost");
    assert_eq!(action["type"], "chat/turnStarted");
    // The list of this connection says nothing about messages on their way.
    rig.editor.handle_link(LinkEvent::Sessions(Vec::new()));
    assert_eq!(rig.answers(), []);
    rig.editor.handle_link(LinkEvent::Lost("cut".to_owned()));
    rig.editor.handle_link(LinkEvent::Connected(Box::default()));
    rig.editor.handle_link(LinkEvent::Sessions(Vec::new()));
    let answers = rig.answers();
    let [(2, Err(error))] = &answers[..] else {
        panic!("{answers:?}");
    };
    assert!(error.message.contains("send it again"), "{error:?}");
}

#[test]
fn a_message_that_loses_the_race_for_a_turn_is_queued() {
    let mut rig = Rig::new();
    let (ticket, _) = rig.prompt(2, "mine");
    rig.started("other", None);
    rig.editor
        .handle_link(LinkEvent::Settled(ticket, Some("a turn runs".to_owned())));
    assert_eq!(rig.dispatched().1["type"], "chat/pendingMessageSet");
    assert_eq!(rig.answers(), []);
}

#[test]
fn a_long_history_is_loaded_from_its_beginning() {
    let mut rig = Rig::new();
    rig.ask(2, "session/load", json!({ "sessionId": SESSION, "cwd": "/" }));
    rig.editor.take_orders();
    let turn = |id: &str| {
        let message = json!({ "text": id, "origin": { "kind": "user" } });
        json!({ "id": id, "message": message, "responseParts": [], "state": "complete" })
    };
    rig.state(SESSION, session(&json!([])));
    let mut window = chat();
    (window["turns"], window["turnsNextCursor"]) = (json!([turn("late")]), json!("p2"));
    rig.state(CHAT, window);
    let orders = rig.editor.take_orders();
    let fetch = orders.iter().find_map(|order| match order {
        Order::Request(ticket, "fetchTurns", params) if params["cursor"] == "p2" => Some(*ticket),
        _ => None,
    });
    assert_eq!(rig.editor.take_outgoing().len(), 0);
    rig.action(CHAT, json!({ "type": "chat/turnsLoaded", "turns": [turn("early")] }));
    rig.editor
        .handle_link(LinkEvent::Reply(fetch.expect("a request"), Ok(json!({}))));
    let outgoing = rig.editor.take_outgoing();
    let texts: Vec<&Value> = outgoing
        .iter()
        .filter_map(|message| match message {
            Outgoing::Notify(_, params) => Some(&params["update"]["content"]["text"]),
            _ => None,
        })
        .filter(|text| text.is_string())
        .collect();
    assert_eq!(texts, ["early", "late"]);
    assert!(
        outgoing
            .iter()
            .any(|message| matches!(message, Outgoing::Answer(id, Ok(_)) if *id == 2))
    );
}

#[test]
fn requests_about_unknown_sessions_are_refused() {
    let mut rig = Rig::new();
    rig.ask(
        2,
        "session/load",
        json!({ "sessionId": "ahp-session:/none", "cwd": "/" }),
    );
    rig.editor.handle_link(LinkEvent::Gone("ahp-session:/none".to_owned()));
    rig.ask(
        3,
        "session/prompt",
        json!({ "sessionId": "ahp-session:/none", "prompt": [] }),
    );
    rig.ask(4, "session/set_mode", json!({ "sessionId": SESSION, "modeId": "x" }));
    rig.ask(5, "session/unheard_of", json!({}));
    rig.ask(6, "session/close", json!({}));
    let codes: Vec<(i64, i64)> = rig
        .answers()
        .into_iter()
        .map(|(id, outcome)| (id, outcome.expect_err("an error").code))
        .collect();
    assert_eq!(codes, [(2, -32002), (3, -32002), (4, -32602), (5, -32601), (6, -32602)]);
}
