//! States, messages and tool calls of the host as text for a terminal.

mod markdown;
pub(crate) mod markdown_stream;
mod state;
pub mod tool_call;

pub use markdown::plain_text;
pub use state::status_in_words;
pub(crate) use state::{event, state, turn};
