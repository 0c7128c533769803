//! A light AHP client: WebSocket frames, JSON-RPC, and the steps that bring it to a chat.

pub(crate) mod delivery;
pub(crate) mod delta_scan;
mod frames;
pub(crate) mod host_session;
pub(crate) mod websocket;
