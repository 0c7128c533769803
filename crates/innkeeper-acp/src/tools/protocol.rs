//! The server's side of MCP, as far as a session offers it: tools and prompts. Nothing here does any IO.

use serde_json::{Map, Value, json};

use super::{Offered, SERVER_NAME};

/// The versions of MCP that are spoken, the newest first.
const VERSIONS: [&str; 3] = ["2025-11-25", "2025-06-18", "2025-03-26"];

const INVALID_REQUEST: i64 = -32600;
const METHOD_NOT_FOUND: i64 = -32601;
const INVALID_PARAMS: i64 = -32602;

/// The reaction to a message.
#[derive(Debug, PartialEq)]
pub(super) enum Reaction {
    /// There is nothing to answer.
    Accepted,
    /// The answer.
    Answer(Value),
    /// The answer to `tools/list`.
    Listed(Value),
    /// The agent does not want the answer to a request any more, given by its id.
    Cancel(String),
    /// A tool is called.
    Call(Call),
}

/// A call of a tool.
#[derive(Debug, PartialEq)]
pub(super) struct Call {
    /// The id of the request.
    pub(super) id: Value,
    pub(super) name: String,
    pub(super) arguments: Map<String, Value>,
    /// The token for reports of progress.
    pub(super) progress: Option<Value>,
}

/// Reads a message of an agent.
pub(super) async fn react(message: &Value, offered: &Offered) -> Reaction {
    let (id, params) = (&message["id"], &message["params"]);
    let Some(method) = message["method"].as_str() else {
        return match message.is_object() {
            // An answer: nothing was asked.
            true => Reaction::Accepted,
            false => Reaction::Answer(error(
                id,
                INVALID_REQUEST,
                "not a JSON-RPC message; batches are not supported",
            )),
        };
    };
    if method == "notifications/cancelled" {
        return Reaction::Cancel(params["requestId"].to_string());
    }
    if id.is_null() {
        return Reaction::Accepted;
    }
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    Reaction::Answer(match method {
        "initialize" => result(id, initialize(params)),
        "ping" => result(id, json!({})),
        "tools/list" => return Reaction::Listed(result(id, json!({ "tools": offered.list() }))),
        "tools/call" => {
            return Reaction::Call(Call {
                id: id.clone(),
                name: text(&params["name"]),
                arguments: params["arguments"].as_object().cloned().unwrap_or_default(),
                progress: Some(params["_meta"]["progressToken"].clone()).filter(|token| !token.is_null()),
            });
        }
        "prompts/list" => result(id, json!({ "prompts": offered.prompts() })),
        "prompts/get" => {
            let arguments = text(&params["arguments"]["arguments"]);
            match offered.prompt(&text(&params["name"]), &arguments).await {
                Ok(prompt) => result(id, prompt),
                Err(problem) => error(id, INVALID_PARAMS, &problem),
            }
        }
        _ => error(id, METHOD_NOT_FOUND, &format!("{method} is unknown")),
    })
}

fn initialize(params: &Value) -> Value {
    let asked = params["protocolVersion"].as_str();
    let version = VERSIONS
        .iter()
        .find(|version| asked == Some(**version))
        .unwrap_or(&VERSIONS[0]);
    json!({
        "protocolVersion": version,
        "capabilities": { "tools": { "listChanged": true }, "prompts": { "listChanged": true } },
        "serverInfo": { "name": SERVER_NAME, "title": "Innkeeper", "version": env!("CARGO_PKG_VERSION") },
    })
}

pub(super) fn result(id: &Value, result: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "result": result })
}

fn error(id: &Value, code: i64, message: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } })
}

/// Reports that a call is still at work.
pub(super) fn progress(token: &Value, step: u64) -> Value {
    let params = json!({ "progressToken": token, "progress": step });
    json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params })
}

/// Reports that the tools and prompts are others now.
pub(super) fn list_changed() -> [Value; 2] {
    ["tools", "prompts"].map(|kind| json!({ "jsonrpc": "2.0", "method": format!("notifications/{kind}/list_changed") }))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn answer(message: Value) -> Value {
        match react(&message, &Offered::default()).await {
            Reaction::Answer(answer) | Reaction::Listed(answer) => answer,
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn the_asked_version_is_spoken_if_it_is_known() {
        for (asked, spoken) in [("2025-06-18", "2025-06-18"), ("2026-07-28", "2025-11-25")] {
            let asked = json!({ "id": 1, "method": "initialize", "params": { "protocolVersion": asked } });
            assert_eq!(answer(asked).await["result"]["protocolVersion"], spoken);
        }
    }

    #[tokio::test]
    async fn unknown_and_malformed_messages_are_refused() {
        let unknown = answer(json!({ "id": 1, "method": "server/discover" })).await;
        assert_eq!(unknown["error"]["code"], METHOD_NOT_FOUND);
        assert_eq!(answer(json!([])).await["error"]["code"], INVALID_REQUEST);
        let missing = json!({ "id": 1, "method": "prompts/get", "params": { "name": "none" } });
        assert_eq!(answer(missing).await["error"]["code"], INVALID_PARAMS);
        let note = json!({ "method": "notifications/initialized" });
        assert_eq!(react(&note, &Offered::default()).await, Reaction::Accepted);
        let listed = answer(json!({ "id": "a", "method": "tools/list" })).await;
        assert_eq!((&listed["id"], &listed["result"]["tools"]), (&json!("a"), &json!([])));
    }
}
