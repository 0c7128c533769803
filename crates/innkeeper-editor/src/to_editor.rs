//! The mapping from AHP to ACP: the state of a chat, as `session/update`s for an editor.
//!
//! Nothing here waits. [`Transcript`] compares a chat with what the editor was told before. So live turns, the replay of a
//! history and the catch-up after a lost connection are one and the same.

mod content;
mod plan;
mod tool_call;
mod transcript;

#[cfg(test)]
mod tests;

use std::collections::HashMap;

use ahp_types::state::TerminalState;
use innkeeper_cli::connection::contents::Contents;

pub(crate) use tool_call::pending_call;
pub(crate) use transcript::{Transcript, text_update};

/// The knowledge beside the state of a chat, and what is missing of it.
#[derive(Debug)]
pub(crate) struct Sources<'a> {
    /// The contents of changed files. It remembers those that are missing.
    pub(crate) contents: &'a mut Contents,
    /// The terminals that are subscribed to.
    pub(crate) terminals: &'a HashMap<String, TerminalState>,
    /// The editor draws output of terminals itself.
    pub(crate) draws_terminals: bool,
    /// The terminals of calls that run.
    pub(crate) open_terminals: Vec<String>,
}
