//! The model agent. A turn sends the user's message to a model, runs the tool calls of the answer, and repeats until
//! the model is done.
//!
//! Follow a turn: [`agent`](ModelAgent) receives it, `turn/setup.rs` prepares it, `turn.rs` is the loop, `prompt.rs`
//! and `conversation.rs` build the request, [`client`] sends it, `turn/answer.rs` reads the answer, `toolbox.rs` and
//! `turn/tool_calls.rs` run its tool calls, `turn/subagent.rs` runs subagents. `customizations.rs` applies the
//! session's rules, skills and custom agents. `turn/context_window.rs` and `conversation/compaction.rs` keep the
//! conversation within the model's context window. `conversation/memory.rs` is persisted with the chat.
//! `agent/sampling.rs` serves MCP sampling requests.

mod agent;
pub mod api;
pub mod client;
mod conversation;
mod customizations;
pub mod error;
mod prompt;
pub mod retry;
pub mod sse;
mod toolbox;
mod turn;

pub use agent::key::Key;
pub use agent::models::Model;
pub use agent::{ModelAgent, ModelAgentSettings};
pub(crate) use conversation::user_message::attached;
