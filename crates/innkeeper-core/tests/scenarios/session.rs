//! Scenarios about sessions: creation and disposal, settings, summaries.

mod annotations;
mod changesets;
pub(crate) mod configuration;
mod deletions;
mod directories;
mod drafts;
mod host_settings;
mod prompts;
mod repositories;
mod server_tools;
mod sessions;
mod summaries;
mod upkeep;
