//! The model agent end to end: the real program, a scripted model server on loopback, and the published client, whose
//! mirror is compared with a fresh snapshot at the end of every scenario.
//!
//! Scenarios that depend on the API run over all three APIs; others run over Chat Completions alone.

mod attachments;
mod built_in_tools;
mod cancel;
mod chunking;
mod client_tools;
mod coding_task;
mod compaction;
mod customizations;
mod errors;
mod file_changes;
mod history;
mod keys;
mod malformed_responses;
mod parallel;
mod prompt;
mod steering;
mod subagents;
pub(crate) mod support;
