//! The bodies of the fuzz targets, as plain functions: libFuzzer calls them with new inputs, the
//! tests replay the committed ones.

use innkeeper_core::RequestId;
use innkeeper_core::frame::{encode_error, encode_result};
use innkeeper_host::rpc::methods;
use innkeeper_host::rpc::{self, Message, Shape};
use serde_json::Value;

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
