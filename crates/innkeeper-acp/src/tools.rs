//! The MCP endpoint of a session: through it, an agent reaches the tools of the session's MCP servers and clients, and its
//! skills and prompts.
//!
//! The host carries the calls out, so that every agent's call has its contributor, its approval, sign-in and views, and
//! no server is started twice.

mod bridge;
mod http;
mod listener;
pub(crate) mod naming;
mod offered;
mod protocol;
mod result;
mod serve;

use serde_json::{Map, Value};
use tokio::sync::oneshot;

pub use bridge::run_bridge;
pub(crate) use listener::Endpoint;
pub use listener::{BridgeCommand, ToolServer};
pub(crate) use offered::{Offered, OfferedTool};
pub(crate) use serve::serve;

/// The name of our MCP server in the agent.
pub(crate) const SERVER_NAME: &str = "innkeeper";

/// A call of an agent. It is cancelled by the agent if the receiver of the answer is gone.
#[derive(Debug)]
pub(crate) struct ToolRequest {
    /// The name of the tool, as it was listed.
    pub(crate) name: String,
    pub(crate) arguments: Map<String, Value>,
    /// Takes the result of `tools/call`.
    pub(crate) answer: oneshot::Sender<Value>,
}

impl ToolRequest {
    /// Answers that the tool did not run.
    pub(crate) fn refuse(self, problem: &str) {
        // The agent may have gone away.
        let _ = self.answer.send(result::failed(problem));
    }
}
