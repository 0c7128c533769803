//! The past of a chat: pages of it, the end of it, and what agents are told of it.
//!
//! The host always has the whole history. A subscriber may have asked for the latest turns only
//! (SUB-12), so each subscription knows which turns it lacks: see [`page`].

mod attachment;
mod page;
mod past;
mod truncate;

pub(crate) use attachment::through;
pub(crate) use past::{past_turn, unfinished_turn};
