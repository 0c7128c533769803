//! The history of a chat: its pages, its truncation, and the part of it that agents get.
//!
//! The host knows all turns of a chat and has the latest in memory: see [`turns`]. A subscriber may have asked for the
//! latest turns only (SUB-12), so each subscription stores which turns it lacks: see [`page`]. An input that needs a
//! turn that is not in memory waits: see [`needed`].

mod attachment;
mod needed;
mod page;
mod steering;
mod transcript;
mod truncate;
mod turns;
mod window;

pub(crate) use steering::{steering_part, words_of};
pub use transcript::{REFUSED, past_turn, was_heard};
pub(crate) use transcript::{context_range, past_turns, past_turns_in, unfinished_turn};
pub use turns::History;
