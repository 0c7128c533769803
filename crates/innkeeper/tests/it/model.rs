//! The model agent end to end: the real program, a model server on loopback that says what a script says, and the
//! published client, whose mirror is compared with a fresh snapshot at the end of every scenario.
//!
//! What does not depend on the API runs over Chat Completions alone; what does runs over all three.

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
mod support;
