//! The model agent: a person's words go to a model, its tool calls are carried out, and so on until
//! it is done.
//!
//! Follow a turn: [`agent`](ModelAgent) takes it, `turn/setup.rs` gets things ready, `turn.rs` loops,
//! `prompt.rs` and `conversation.rs` say what the model is told, [`client`] asks it over the wire,
//! `turn/answer.rs` hears it out, `toolbox.rs` and `turn/tool_calls.rs` carry out what it calls,
//! `turn/subagent.rs` sends others, `agent/sampling.rs` answers MCP servers that want a model,
//! `customizations.rs` has the rules, skills and agents that the session brings along,
//! `turn/context_window.rs` and `conversation/compaction.rs` make room, `conversation/memory.rs` is
//! what is kept of it all.

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
