//! The well-known directories and files of customizations.

use std::path::Path;

use crate::containers::directory::{DirectorySource, Layout, Scope};

/// Directories of a workspace, in the order in which they are published. Where one name is in
/// several of them, the first counts.
const WORKSPACE: &[(&str, Layout)] = &[
    (".github/agents", Layout::Agents),
    (".claude/agents", Layout::Agents),
    (".agents/agents", Layout::Agents),
    (".github/skills", Layout::Skills),
    (".agents/skills", Layout::Skills),
    (".claude/skills", Layout::Skills),
    (".codex/skills", Layout::Skills),
    (".claude/commands", Layout::Commands),
    (".github/prompts", Layout::Prompts),
    (".github/instructions", Layout::Instructions),
    (".claude/rules", Layout::ClaudeRules),
    (".cursor/rules", Layout::CursorRules),
    (".github/hooks", Layout::Hooks),
];

/// Directories of a user, likewise.
const USER: &[(&str, Layout)] = &[
    (".copilot/agents", Layout::Agents),
    (".claude/agents", Layout::Agents),
    (".agents/skills", Layout::Skills),
    (".claude/skills", Layout::Skills),
    (".copilot/skills", Layout::Skills),
    (".codex/skills", Layout::Skills),
    (".claude/commands", Layout::Commands),
    (".copilot/instructions", Layout::Instructions),
    (".claude/rules", Layout::ClaudeRules),
    (".copilot/hooks", Layout::Hooks),
];

/// Directories of whole plugins.
pub(crate) fn plugin_directories(scope: Scope) -> &'static [&'static str] {
    match scope {
        Scope::Workspace => &[".agents/plugins"],
        Scope::User => &[".agents/plugins", ".copilot/installed-plugins"],
    }
}

/// Single files of a scope.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Files {
    /// Rules that always apply.
    pub(crate) rules: &'static [&'static str],
    /// Settings that may hold hooks and MCP servers.
    pub(crate) settings: &'static [&'static str],
    /// Files of MCP servers.
    pub(crate) servers: &'static [&'static str],
}

pub(crate) fn files(scope: Scope) -> Files {
    match scope {
        Scope::Workspace => Files {
            rules: &[
                "AGENTS.md",
                "CLAUDE.md",
                ".claude/CLAUDE.md",
                "CLAUDE.local.md",
                "GEMINI.md",
                ".cursorrules",
                ".github/copilot-instructions.md",
            ],
            settings: &[
                ".claude/settings.json",
                ".claude/settings.local.json",
                ".github/copilot/settings.json",
                ".github/copilot/settings.local.json",
            ],
            servers: &[".mcp.json", ".cursor/mcp.json", ".github/mcp.json"],
        },
        Scope::User => Files {
            rules: &[".claude/CLAUDE.md", ".copilot/copilot-instructions.md"],
            settings: &[".claude/settings.json"],
            servers: &[".copilot/mcp-config.json", ".cursor/mcp.json"],
        },
    }
}

/// The directories of a workspace.
pub fn workspace_directories(workspace: &Path) -> Vec<DirectorySource> {
    sources(workspace, WORKSPACE, Scope::Workspace)
}

/// The directories of a user.
pub fn user_directories(home: &Path) -> Vec<DirectorySource> {
    sources(home, USER, Scope::User)
}

fn sources(base: &Path, table: &[(&str, Layout)], scope: Scope) -> Vec<DirectorySource> {
    let source = |(path, layout): &(&str, Layout)| DirectorySource {
        base: base.to_owned(),
        path: path.into(),
        layout: *layout,
        scope,
    };
    table.iter().map(source).collect()
}
