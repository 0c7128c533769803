//! Calls through the host: a client has its agent call the tool, and waits for the result on the call.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::server::TOOL;
use crate::client::host_session::{ROOT, initialize, say, subscribe_chat};
use crate::client::websocket::Connection;
use crate::report::stats::nanos;

/// The name of the MCP server.
const SERVER: &str = "bench";
/// The longest that anything here takes.
const TIMEOUT: Duration = Duration::from_secs(60);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Writes a plugin with the MCP server, and returns the configuration that names the plugin. A configured plugin is
/// trusted, and its read-only tools run without an approval.
pub(super) fn plugin(directory: &Path) -> Result<String> {
    let folder = directory.join("plugin/.claude-plugin");
    std::fs::create_dir_all(&folder)?;
    let this = std::env::current_exe().context("cannot find this program's own file")?;
    let server = json!({ "command": this, "args": ["mcp-server"] });
    let manifest = json!({ "name": "bench", "mcpServers": { SERVER: server } });
    std::fs::write(folder.join("plugin.json"), manifest.to_string())?;
    let path = directory.join("plugin").display().to_string();
    Ok(format!("[customizations]\nuser = false\nplugins = [{}]\n", json!(path)))
}

/// A client with a session of its own, whose server is ready.
pub(super) struct CallingClient {
    connection: Connection,
    chat: String,
    turns: u64,
}

impl CallingClient {
    pub(super) async fn connect(url: &str, number: usize) -> Result<Self> {
        let mut connection = Connection::open(url).await?;
        initialize(&mut connection, &format!("guest-{number}"), &[ROOT]).await?;
        let session = format!("ahp-session:/guest-{number}");
        let create = json!({ "channel": session, "provider": "tour" });
        connection.request("createSession", create).await?;
        let chat = timeout(TIMEOUT, ready(&mut connection, &session))
            .await
            .context("the server of the session did not become ready")??;
        subscribe_chat(&mut connection, &chat, 0).await?;
        connection.forget_unread();
        Ok(Self {
            connection,
            chat,
            turns: 0,
        })
    }

    /// Has the tool called, and returns how long it took from the message until the result was there, in nanoseconds.
    pub(super) async fn call(&mut self, bytes: usize) -> Result<u64> {
        self.turns += 1;
        let turn = format!("turn-{}", self.turns);
        let text = format!("/mcp {SERVER} {TOOL} {}", json!({ "bytes": bytes }));
        let started = Instant::now();
        say(&mut self.connection, &self.chat, &turn, self.turns, &text).await?;
        let mut took = None;
        let mut is_over = false;
        while !is_over {
            let reading = self.connection.read_batch(|text, arrival| {
                if has(text, b"\"chat/error\"") || has(text, b"\"rejectionReason\"") {
                    bail!("the turn failed: {}", String::from_utf8_lossy(text));
                }
                if has(text, b"\"chat/toolCallComplete\"") {
                    took.get_or_insert_with(|| arrival.instant.duration_since(started));
                }
                is_over |= has(text, b"\"chat/turnComplete\"");
                Ok(())
            });
            timeout(TIMEOUT, reading)
                .await
                .context("the turn did not end in time")??;
        }
        took.map(nanos).context("the turn ended without a call")
    }
}

fn has(text: &[u8], what: &[u8]) -> bool {
    // Types stand near the beginning; results are long.
    let head = text.get(..text.len().min(512)).unwrap_or_default();
    head.windows(what.len()).any(|window| window == what)
}

/// Waits until the server is ready, and returns the chat.
async fn ready(connection: &mut Connection, session: &str) -> Result<String> {
    loop {
        let result = connection.request("subscribe", json!({ "channel": session })).await?;
        let state = result
            .pointer("/snapshot/state")
            .context("subscribe gave no snapshot of the session")?;
        let server = state.pointer("/customizations").and_then(find_server);
        match server.and_then(|server| server.pointer("/state/kind")?.as_str()) {
            Some("ready") => {
                let chat = state.get("defaultChat").and_then(Value::as_str);
                return Ok(chat.context("the session has no default chat")?.to_owned());
            }
            Some("error") => bail!("the server failed: {}", server.unwrap_or(&Value::Null)),
            _ => tokio::time::sleep(LOOK_AGAIN).await,
        }
    }
}

fn find_server(customizations: &Value) -> Option<&Value> {
    let mut plugins = customizations.as_array()?.iter();
    plugins.find_map(|plugin| {
        let mut children = plugin.get("children")?.as_array()?.iter();
        children.find(|child| child.get("type").and_then(Value::as_str) == Some("mcpServer"))
    })
}
