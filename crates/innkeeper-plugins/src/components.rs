//! The kinds of components, one module each: where its files are, and what is read of them.

pub(crate) mod agent;
pub(crate) mod gather;
pub(crate) mod hook;
pub(crate) mod hook_event;
pub(crate) mod listing;
pub(crate) mod mcp;
pub(crate) mod mcp_strict;
pub(crate) mod prompt;
pub(crate) mod rule;
pub(crate) mod skill;

pub use agent::Agent;
pub use hook::{CommandLine, ExitContract, Hook, HookAction, HookFile, HookOrigin, OnFailure};
pub use hook_event::HookEvent;
pub use mcp::{McpServer, Remote, Transport, Treatment, configured_server};
pub use prompt::Prompt;
pub use rule::Rule;
pub use skill::{Skill, SkillOrigin};
