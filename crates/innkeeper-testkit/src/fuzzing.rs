//! The bodies of the fuzz targets, as plain functions: libFuzzer calls them with new inputs, the
//! tests replay the committed ones.

use innkeeper_core::RequestId;
use innkeeper_core::action_table::{Dispatcher, rule_named};
use innkeeper_core::frame::{encode_error, encode_result};
use innkeeper_dialects::{Translator, Up, Version};
use innkeeper_host::rpc::methods;
use innkeeper_host::rpc::{self, Message, Shape};
use serde_json::{Value, json};

use crate::sim::{RunOptions, run};

/// Raw bytes into the framing: it is total, whatever wants an answer gets one, and every answer
/// is JSON that names the id it was asked under.
///
/// # Panics
///
/// When one of that does not hold.
pub fn rpc_bytes(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return; // Transports refuse this before the framing sees it.
    };
    let value: Option<Value> = serde_json::from_str(text).ok();
    let wants_answer = value
        .as_ref()
        .is_some_and(|value| value.get("id").is_some() && value.get("method").is_some());
    match rpc::parse(text, Shape::default()) {
        Ok(Message::Request { id, method, params }) => {
            check_answer(&encode_result(&id, &Value::Null), Some(&id));
            if let (Some(method), Some(params)) = (methods::find(&method), params)
                && let Err(error) = methods::check_channel(method, params)
            {
                check_answer(&encode_error(Some(&id), &error), Some(&id));
            }
        }
        Ok(Message::Notification { method, params }) => {
            assert!(!wants_answer, "a request became a notification: {text}");
            match (&*method, params) {
                // Reading any input must not fail other than with an error.
                ("dispatchAction", Some(params)) => drop(methods::dispatch(params)),
                ("unsubscribe", Some(params)) => drop(methods::unsubscribe(params)),
                _ => {}
            }
        }
        Ok(Message::Response { .. } | Message::Stray) => assert!(!wants_answer, "a request became a response: {text}"),
        Err(rejected) => {
            assert!(!rejected.error.message.is_empty(), "a refusal without a reason: {text}");
            check_answer(
                &encode_error(rejected.id.as_ref(), &rejected.error),
                rejected.id.as_ref(),
            );
        }
    }
}

/// Lines of JSON as the messages of a client, which is translated from every published version.
///
/// The translation is total. It grows a message by a bounded factor in either direction, says why it refuses one, answers
/// every dispatch to its author exactly once, and repeats the author's own action in a rejection.
///
/// In half of the inputs, the client sees a session with its own entry and two customizations.
///
/// # Panics
///
/// When one of that does not hold.
pub fn dialects_up(bytes: &[u8]) {
    let lines = bytes.split(|byte| *byte == b'\n');
    let messages: Vec<Value> = lines.filter_map(|line| serde_json::from_slice(line).ok()).collect();
    let session = session_of(bytes.first().copied().unwrap_or_default());
    for version in Version::ALL {
        let mut translator = Translator::new(version, "fuzz");
        translator.shows_chat_as("chat:1", "session:1", true);
        if let Some(session) = session.as_ref().and_then(Value::as_object) {
            translator.shows_session("session:1", session);
        }
        let mut received = 1024;
        for message in &messages {
            received += message.to_string().len();
            let limit = MAX_GROWTH * received;
            match translated(&mut translator, message) {
                Some(Up::Forward { method, params }) => {
                    let size = params.to_string().len();
                    assert!(size <= limit, "{version}: {size} bytes for {message}");
                    if method == "dispatchAction" {
                        check_dispatch(&mut translator, message, &params, session.as_ref(), limit);
                    }
                }
                Some(Up::Reject { reason, .. }) => {
                    assert!(!reason.is_empty(), "{version}: no reason to refuse {message}");
                }
                None => {}
            }
        }
    }
}

/// How much longer a message may become than everything that the client has sent, and 1 KiB.
const MAX_GROWTH: usize = 16;

/// The session that a client sees, if it sees one. The tools of its entry and the switches of its customizations can be
/// changed.
fn session_of(choice: u8) -> Option<Value> {
    let plugin = |id: &str| json!({ "type": "plugin", "id": id, "uri": format!("file:///{id}"), "name": id });
    let session = json!({
        "activeClients": [{ "clientId": "fuzz", "tools": [] }, { "clientId": "other", "tools": [] }],
        "customizations": [plugin("one"), plugin("two")],
    });
    choice.is_multiple_of(2).then_some(session)
}

fn translated(translator: &mut Translator, message: &Value) -> Option<Up> {
    let method = message.get("method").and_then(Value::as_str)?;
    let params = message.get("params").cloned().unwrap_or_default();
    Some(match message.get("id") {
        Some(id) => {
            let (method, params) = translator.up_request(&id.to_string(), method, params);
            Up::Forward { method, params }
        }
        None => translator.up_notification(method, params, 0),
    })
}

/// Answers a dispatch with an echo, or with a rejection.
fn check_dispatch(
    translator: &mut Translator,
    message: &Value,
    forwarded: &Value,
    session: Option<&Value>,
    limit: usize,
) {
    let (Some(channel), Some(client_seq), Some(action @ Value::Object(_))) = (
        forwarded.get("channel").and_then(Value::as_str),
        forwarded.get("clientSeq").and_then(Value::as_i64),
        forwarded.get("action"),
    ) else {
        return; // The core refuses it.
    };
    let origin = json!({ "clientId": "fuzz", "clientSeq": client_seq });
    let params = json!({ "channel": channel, "action": action, "serverSeq": 1, "origin": origin });
    let mut envelope = json!({ "jsonrpc": "2.0", "method": "action", "params": params });
    let rule = action.get("type").and_then(Value::as_str).and_then(rule_named);
    // The core rejects all others.
    let is_permitted = rule.is_some_and(|rule| rule.dispatcher != Dispatcher::HostOnly);
    if is_permitted && client_seq % 2 == 0 {
        let before = session.filter(|_| channel == "session:1");
        let echoes = translator.down_action(envelope.to_string().as_bytes(), before);
        let has_author = |echo: &Vec<u8>| {
            let echo: Value = serde_json::from_slice(echo).expect("an echo is JSON");
            echo["params"].get("origin").is_some()
        };
        let authors = echoes.iter().filter(|echo| has_author(echo)).count();
        assert_eq!(authors, 1, "{}: the author of {message}", translator.version());
        let size: usize = echoes.iter().map(Vec::len).sum();
        assert!(size <= limit, "{}: {size} bytes answer {message}", translator.version());
    } else {
        envelope["params"]["rejectionReason"] = "no".into();
        let rejection = translator
            .down_text(envelope.to_string().as_bytes())
            .expect("a rejection");
        assert!(rejection.len() <= limit, "{} bytes reject {message}", rejection.len());
        let rejection: Value = serde_json::from_slice(&rejection).expect("a rejection is JSON");
        assert_eq!(rejection["params"]["action"], message["params"]["action"]);
    }
}

/// Bytes as the decisions of a whole simulated host and its clients.
///
/// # Panics
///
/// When a client notices what no correct host does.
pub fn core_ops(bytes: &[u8]) {
    if let Err(violation) = run(bytes, RunOptions::default()) {
        panic!("{violation}");
    }
}

fn check_answer(answer: &[u8], id: Option<&RequestId>) {
    let text = String::from_utf8_lossy(answer);
    // A string id may hold escapes that no parser accepts as text, so it is compared as written.
    let head = format!(r#"{{"jsonrpc":"2.0","id":{},"#, id.map_or("null", RequestId::as_json));
    assert!(
        text.starts_with(&head) && text.ends_with('}'),
        "{text} does not answer {head}"
    );
}
