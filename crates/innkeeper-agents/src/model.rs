//! The model agent: a person's words go to a model, its tool calls are carried out, and so on until
//! it is done.
//!
//! Follow a turn: [`agent`](ModelAgent) takes it, `preparing.rs` gets things ready, `turn.rs` loops,
//! `prompt.rs` and `conversation.rs` say what the model is told, [`client`] asks it over the wire,
//! `answer.rs` hears it out, `toolbox.rs` and `calls.rs` carry out what it calls, `helper.rs` sends
//! others, `sampling.rs` answers MCP servers that want a model, `brought.rs` has the rules, skills and agents that the session brings along, `room.rs`
//! and `compact.rs` make room, `memory.rs` is what is kept of it all.

mod agent;
mod answer;
pub mod api;
mod brought;
mod calls;
pub mod client;
mod compact;
mod conversation;
mod document;
pub mod error;
mod helper;
mod hooked;
mod instructions;
mod key;
mod memory;
pub(crate) mod message;
mod models;
mod own_tools;
mod partial;
mod picture;
mod preparing;
mod prompt;
pub mod retry;
mod room;
mod sampling;
mod schema;
mod shared;
mod spent;
pub mod sse;
mod standing;
mod summary;
mod title;
mod tokens;
mod toolbox;
mod turn;

pub use agent::{ModelAgent, ModelAgentSettings};
pub use key::Key;
pub use models::Model;
