//! The model agent end to end: the real program, a model server on loopback that says what a script says, and the
//! published client, whose mirror is compared with a fresh snapshot at the end of every scenario.
//!
//! What does not depend on the API runs over Chat Completions alone; what does runs over all three.

mod attachments;
mod cancel;
mod chunking;
mod client_tools;
mod compaction;
mod customizations;
mod errors;
mod file_changes;
mod helpers;
mod history;
mod hooks;
mod keys;
mod odd_answers;
mod own_tools;
mod parallel;
mod prompt;
mod prompt_files;
mod skill_files;
mod steering;
mod support;
mod task;
