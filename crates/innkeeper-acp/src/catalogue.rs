//! The agents that are known by name: how they are started, and how a user gets them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::command::find_in;

/// An agent that is known by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownAgent {
    /// The id under which it is offered.
    pub id: &'static str,
    /// A short name for users.
    pub name: &'static str,
    /// A sentence about it.
    pub description: &'static str,
    /// The program that is looked up in `PATH`.
    pub program: &'static str,
    /// The arguments that make it speak ACP.
    pub arguments: &'static [&'static str],
    /// Names of variables of the host that it gets as well: its keys and its configuration.
    pub passed: &'static [&'static str],
    /// How to install it.
    pub install: &'static str,
    /// How to sign in, as a sentence without its period.
    pub sign_in: &'static str,
    /// Whether it may use files through the host.
    pub serves_files: bool,
    /// The files of rules and skills that it reads by itself, so that the host does not repeat them. A name that ends with
    /// a slash is one of a directory.
    pub own_files: &'static [&'static str],
}

/// All agents that are known by name.
pub const CATALOGUE: &[KnownAgent] = &[
    KnownAgent {
        id: "claude",
        name: "Claude Code",
        description: "Anthropic's coding agent.",
        program: "claude-agent-acp",
        arguments: &[],
        passed: &[
            "ANTHROPIC_API_KEY",
            "ANTHROPIC_BASE_URL",
            "ANTHROPIC_AUTH_TOKEN",
            "CLAUDE_CONFIG_DIR",
        ],
        install: "npm install -g @agentclientprotocol/claude-agent-acp",
        sign_in: "Run `claude` and sign in, or set ANTHROPIC_API_KEY",
        serves_files: true,
        own_files: &["CLAUDE.md", "CLAUDE.local.md", ".claude/"],
    },
    KnownAgent {
        id: "codex",
        name: "Codex",
        description: "OpenAI's coding agent.",
        program: "codex-acp",
        arguments: &[],
        passed: &["OPENAI_API_KEY", "CODEX_API_KEY", "CODEX_HOME"],
        install: "npm install -g @agentclientprotocol/codex-acp",
        sign_in: "Run `codex login`, or set OPENAI_API_KEY",
        serves_files: true,
        own_files: &["AGENTS.md"],
    },
    KnownAgent {
        id: "gemini",
        name: "Gemini CLI",
        description: "Google's coding agent.",
        program: "gemini",
        arguments: &["--acp"],
        passed: &[
            "GEMINI_API_KEY",
            "GOOGLE_API_KEY",
            "GOOGLE_GEMINI_BASE_URL",
            "GEMINI_CLI_TRUST_WORKSPACE",
        ],
        install: "npm install -g @google/gemini-cli",
        sign_in: "Run `gemini` and sign in, or set GEMINI_API_KEY",
        // It cannot create a file that its client says does not exist.
        serves_files: false,
        own_files: &["GEMINI.md"],
    },
    KnownAgent {
        id: "goose",
        name: "Goose",
        description: "An open agent for many model providers.",
        program: "goose",
        arguments: &["acp"],
        passed: &[
            "GOOSE_PROVIDER",
            "GOOSE_MODEL",
            "GOOSE_MODE",
            "OPENAI_API_KEY",
            "OPENAI_HOST",
            "ANTHROPIC_API_KEY",
        ],
        install: "npm install -g @aaif/goose-acp",
        sign_in: "Run `goose configure`",
        serves_files: true,
        own_files: &["AGENTS.md", ".goosehints"],
    },
    KnownAgent {
        id: "opencode",
        name: "OpenCode",
        description: "An open coding agent for many model providers.",
        program: "opencode",
        arguments: &["acp"],
        passed: &["OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OPENCODE_CONFIG"],
        install: "npm install -g opencode-ai",
        sign_in: "Run `opencode auth login`",
        serves_files: true,
        own_files: &["AGENTS.md"],
    },
    KnownAgent {
        id: "copilot",
        name: "GitHub Copilot CLI",
        description: "GitHub's coding agent.",
        program: "copilot",
        arguments: &["--acp"],
        passed: &["GH_TOKEN", "GITHUB_TOKEN", "COPILOT_MODEL"],
        install: "npm install -g @github/copilot",
        sign_in: "Run `copilot` and sign in with /login",
        serves_files: true,
        own_files: &["AGENTS.md", ".github/copilot-instructions.md"],
    },
    KnownAgent {
        id: "kimi",
        name: "Kimi Code",
        description: "Moonshot's coding agent.",
        program: "kimi",
        arguments: &["acp"],
        passed: &["KIMI_API_KEY", "MOONSHOT_API_KEY"],
        install: "npm install -g @moonshot-ai/kimi-code",
        sign_in: "Run `kimi` and sign in",
        serves_files: true,
        own_files: &["AGENTS.md"],
    },
    KnownAgent {
        id: "qwen",
        name: "Qwen Code",
        description: "Qwen's coding agent.",
        program: "qwen",
        arguments: &["--acp"],
        passed: &["OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL"],
        install: "npm install -g @qwen-code/qwen-code",
        sign_in: "Run `qwen` and sign in, or set OPENAI_API_KEY",
        serves_files: true,
        own_files: &["QWEN.md"],
    },
    KnownAgent {
        id: "pi",
        name: "Pi",
        description: "A small open coding agent.",
        program: "pi-acp",
        arguments: &[],
        passed: &["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "PI_ACP_PI_COMMAND"],
        install: "npm install -g pi-acp @earendil-works/pi-coding-agent",
        sign_in: "Run `pi` and sign in with /login",
        serves_files: true,
        own_files: &["AGENTS.md"],
    },
    KnownAgent {
        id: "kilo",
        name: "Kilo Code",
        description: "An open coding agent for many model providers.",
        program: "kilo",
        arguments: &["acp"],
        passed: &["OPENAI_API_KEY", "ANTHROPIC_API_KEY", "KILO_API_KEY"],
        install: "npm install -g @kilocode/cli",
        sign_in: "Run `kilo auth login`",
        serves_files: true,
        own_files: &["AGENTS.md"],
    },
    KnownAgent {
        id: "vibe",
        name: "Mistral Vibe",
        description: "Mistral's coding agent.",
        program: "vibe-acp",
        arguments: &[],
        passed: &["MISTRAL_API_KEY"],
        install: "pip install mistral-vibe",
        sign_in: "Run `vibe --setup`, or set MISTRAL_API_KEY",
        serves_files: true,
        own_files: &[],
    },
];

/// Returns the known agents whose programs are in a `PATH`, with their paths. Nothing is started.
pub fn find_installed(path: &OsString) -> Vec<(&'static KnownAgent, PathBuf)> {
    let found = |agent: &'static KnownAgent| Some((agent, find_in(Path::new(agent.program), path)?));
    CATALOGUE.iter().filter_map(found).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn installed_agents_are_found_and_not_started() {
        use std::os::unix::fs::PermissionsExt as _;
        let directory = tempfile::tempdir().expect("a directory");
        let program = directory.path().join("goose");
        let started = directory.path().join("started");
        std::fs::write(&program, format!("#!/bin/sh\ntouch {}\n", started.display())).expect("a file");
        let path = directory.path().as_os_str().to_owned();
        assert_eq!(find_installed(&path), [], "a file that cannot be run is no agent");
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("permissions");
        let found = find_installed(&path);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].0.id, &found[0].1), ("goose", &program));
        assert!(!started.exists());
    }

    #[test]
    fn ids_and_programs_are_unique() {
        for (index, agent) in CATALOGUE.iter().enumerate() {
            let others = CATALOGUE.iter().skip(index + 1);
            assert!(
                others
                    .clone()
                    .all(|other| other.id != agent.id && other.program != agent.program)
            );
        }
    }
}
