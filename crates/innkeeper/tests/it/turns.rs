//! Turns: streaming, tool calls, approvals, questions, attachments and subagents.

mod approvals;
mod attachments;
mod cancel_and_errors;
pub(crate) mod client_tools;
mod pending_messages;
mod prompt_transform;
mod prompt_transform_failures;
mod questions;
mod remembered_approvals;
mod streaming;
mod subagents;
mod tool_calls;
mod turn_details;
