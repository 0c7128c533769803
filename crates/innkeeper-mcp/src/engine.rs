//! Runs MCP servers. The engine knows nothing of sessions or of the Agent Host Protocol.
//!
//! `server.rs` is the handle of a server, and `server/actor.rs` the task that owns it. `call.rs`, `tools.rs`,
//! `resources.rs` and `app_channel.rs` are the requests to it, `ask.rs` its own requests, `auth.rs` signing in to it, `wire.rs`
//! its bytes. `pool.rs` shares servers between users.

pub(crate) mod app_channel;
pub(crate) mod ask;
pub(crate) mod auth;
pub(crate) mod call;
pub(crate) mod config;
pub(crate) mod error;
pub(crate) mod icons;
pub(crate) mod names;
pub(crate) mod offered_lists;
pub(crate) mod paging;
pub(crate) mod pool;
pub(crate) mod resources;
pub(crate) mod secret;
pub(crate) mod server;
pub(crate) mod state;
pub(crate) mod tools;
pub(crate) mod wire;
