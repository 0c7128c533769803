//! The server that is called: as little of MCP as a server can be, so that what is measured is the way to it.

use std::io::{BufRead as _, Write as _};

use anyhow::Result;
use serde_json::{Value, json};

/// The tool that both ways call.
pub(super) const TOOL: &str = "give";

/// Serves on standard input and output until the input ends.
pub(crate) fn run() -> Result<()> {
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let Ok(message) = serde_json::from_str::<Value>(&line?) else {
            continue;
        };
        let Some(answer) = answer(&message) else { continue };
        serde_json::to_writer(&mut out, &answer)?;
        out.write_all(b"\n")?;
        out.flush()?;
    }
    Ok(())
}

/// Returns the response to a message, and `None` for a notification.
fn answer(message: &Value) -> Option<Value> {
    let id = message.get("id")?;
    let result = match message.get("method")?.as_str()? {
        "initialize" => json!({
            "protocolVersion": "2025-06-18", "capabilities": { "tools": {} },
            "serverInfo": { "name": "bench", "version": "1" },
        }),
        // Read-only, so that no approval is needed: approvals are not measured.
        "tools/list" => json!({ "tools": [{
            "name": TOOL, "inputSchema": { "type": "object" }, "annotations": { "readOnlyHint": true },
        }] }),
        "tools/call" => {
            let bytes = message.pointer("/params/arguments/bytes").and_then(Value::as_u64);
            let text = "y".repeat(usize::try_from(bytes.unwrap_or_default()).unwrap_or_default());
            json!({ "content": [{ "type": "text", "text": text }] })
        }
        _ => {
            let error = json!({ "code": -32601, "message": "unknown" });
            return Some(json!({ "jsonrpc": "2.0", "id": id, "error": error }));
        }
    };
    Some(json!({ "jsonrpc": "2.0", "id": id, "result": result }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tool_returns_the_requested_text() {
        let call = json!({ "id": 7, "method": "tools/call", "params": { "name": TOOL, "arguments": { "bytes": 3 } } });
        let answered = answer(&call).unwrap();
        assert_eq!(answered["result"]["content"][0]["text"], "yyy");
        assert_eq!(answered["id"], 7);
        let notified = json!({ "method": "notifications/initialized" });
        assert_eq!(answer(&notified), None);
        let unknown = json!({ "id": 8, "method": "server/discover" });
        assert_eq!(answer(&unknown).unwrap()["error"]["code"], -32601);
    }
}
