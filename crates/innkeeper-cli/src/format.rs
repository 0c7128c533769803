//! States, messages and tool calls of the host as text for a terminal.

mod markdown;
pub(crate) mod markdown_stream;
mod state;
pub(crate) mod tool_call;

pub(crate) use markdown::plain_text;
pub(crate) use state::{event, state, status_in_words, turn};
