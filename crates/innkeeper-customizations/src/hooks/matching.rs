//! Finds the hooks of an event.

use std::sync::OnceLock;

use innkeeper_plugins::{Hook, HookEvent as Spelt, HookOrigin};
use regex_automata::meta::Regex;

use innkeeper_host::customizations::{HookCall, HookEvent};

use super::{payload, tool_names};

/// Maximum bytes of a matcher, of its compiled program, and of its cache: a workspace wrote it, and may have many. One
/// `\w`, with all letters of Unicode, needs more than 16 KiB.
const MAX_TEXT: usize = 4 << 10;
const MAX_MATCHER: usize = 128 << 10;
const MAX_CACHE: usize = 64 << 10;

/// A matcher that is parsed on first use.
#[derive(Debug)]
pub(super) struct LazyMatcher {
    text: Option<String>,
    read: OnceLock<Matcher>,
}

impl LazyMatcher {
    pub(super) fn new(text: Option<String>) -> Self {
        Self {
            text,
            read: OnceLock::new(),
        }
    }

    pub(super) fn get(&self) -> &Matcher {
        self.read.get_or_init(|| Matcher::new(self.text.as_deref()))
    }
}

/// The matcher of a hook: which calls of an event it is for.
#[derive(Debug, Clone)]
pub(super) enum Matcher {
    All,
    /// One of these names, exactly.
    Names(Vec<String>),
    Pattern(Regex),
    /// It cannot be parsed, so it matches nothing; the user gets the reason.
    Invalid(String),
}

impl Matcher {
    pub(super) fn new(text: Option<&str>) -> Self {
        let Some(text) = text.map(str::trim).filter(|text| !text.is_empty() && *text != "*") else {
            return Self::All;
        };
        if text.len() > MAX_TEXT {
            return Self::Invalid(format!("is longer than {MAX_TEXT} bytes."));
        }
        // A plain name matches exactly: `Edit` does not match `MultiEdit`.
        let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | ' ');
        if text.chars().all(|c| is_name(c) || c == '|') {
            return Self::Names(text.split('|').map(|name| name.trim().to_owned()).collect());
        }
        let config = Regex::config()
            .nfa_size_limit(Some(MAX_MATCHER))
            .hybrid_cache_capacity(MAX_CACHE)
            .onepass(false)
            .dfa(false);
        match Regex::builder().configure(config).build(text) {
            Ok(pattern) => Self::Pattern(pattern),
            Err(error) => Self::Invalid(error.to_string()),
        }
    }

    fn fits(&self, subject: &str) -> bool {
        match self {
            Self::All => true,
            Self::Names(names) => names.iter().any(|name| name == subject),
            Self::Pattern(pattern) => pattern.is_match(subject),
            Self::Invalid(_) => false,
        }
    }

    /// Matches a text that is more than a name, such as a command: anywhere in it.
    fn is_in(&self, text: &str) -> bool {
        match self {
            Self::Names(names) => names.iter().any(|name| text.contains(name)),
            Self::All | Self::Pattern(_) | Self::Invalid(_) => self.fits(text),
        }
    }
}

/// Whether a hook may run at an event, whatever its subject.
pub(super) fn hears(hook: &Hook, event: HookEvent) -> bool {
    matches!(
        (&hook.event, event),
        (Spelt::SessionStart, HookEvent::SessionStart)
            | (Spelt::SessionEnd, HookEvent::SessionEnd)
            | (Spelt::UserPromptSubmit, HookEvent::UserPromptSubmit)
            | (
                Spelt::PreToolUse | Spelt::BeforeShellExecution | Spelt::BeforeReadFile | Spelt::BeforeMcpExecution,
                HookEvent::PreToolUse
            )
            | (
                Spelt::PostToolUse | Spelt::AfterShellExecution | Spelt::AfterFileEdit | Spelt::AfterMcpExecution,
                HookEvent::PostToolUse
            )
            | (Spelt::PostToolUseFailure, HookEvent::PostToolUseFailure)
            | (Spelt::Stop, HookEvent::Stop)
            | (Spelt::SubagentStart, HookEvent::SubagentStart)
            | (Spelt::SubagentStop, HookEvent::SubagentStop)
            | (Spelt::Notification, HookEvent::Notification)
    )
}

/// Whether a hook of an event runs for this subject.
pub(super) fn wants(hook: &Hook, matcher: &Matcher, origin: HookOrigin, call: &HookCall) -> bool {
    let subject = call.subject.as_str();
    match hook.event {
        // Events without a subject.
        Spelt::UserPromptSubmit | Spelt::Stop => true,
        Spelt::BeforeShellExecution | Spelt::AfterShellExecution => {
            subject == "run_command" && payload::command(call).is_none_or(|command| matcher.is_in(command))
        }
        Spelt::BeforeReadFile => subject == "read_file" && fits_tool(matcher, origin, call),
        Spelt::AfterFileEdit => matches!(subject, "write_file" | "edit_file") && fits_tool(matcher, origin, call),
        Spelt::BeforeMcpExecution | Spelt::AfterMcpExecution => call
            .mcp
            .as_ref()
            .is_some_and(|of_server| matcher.fits(&of_server.tool) || fits_tool(matcher, origin, call)),
        Spelt::PreToolUse | Spelt::PostToolUse | Spelt::PostToolUseFailure => fits_tool(matcher, origin, call),
        _ => matcher.fits(subject),
    }
}

/// Matchers use the tool names of their format's own agent; ours match too.
fn fits_tool(matcher: &Matcher, origin: HookOrigin, call: &HookCall) -> bool {
    matcher.fits(&call.subject) || tool_names::names(origin, call).iter().any(|name| matcher.fits(name))
}

#[cfg(test)]
mod tests {
    use innkeeper_host::mcp::ServerTool;

    use super::*;

    #[test]
    fn a_name_is_that_name_and_anything_else_is_a_pattern() {
        for (matcher, subject, fits) in [
            (None, "read_file", true),
            (Some(""), "read_file", true),
            (Some("*"), "read_file", true),
            (Some("read_file"), "read_file", true),
            (Some("read"), "read_file", false),
            (Some("write_file | read_file"), "read_file", true),
            (Some("read.*"), "read_file", true),
            (Some("^(read|write)_file$"), "read_file", true),
            (Some("mcp__.*"), "read_file", false),
            (Some("("), "read_file", false),
        ] {
            assert_eq!(Matcher::new(matcher).fits(subject), fits, "{matcher:?}");
        }
        assert!(matches!(Matcher::new(Some("(")), Matcher::Invalid(_)));
        for too_large in ["(a{999}){999}", "(a{99}){99}", &"a.".repeat(4 << 10)] {
            assert!(
                matches!(Matcher::new(Some(too_large)), Matcher::Invalid(_)),
                "{too_large}"
            );
        }
        for usual in [
            r"mcp__\w+__.*",
            r"^(Bash|Edit|Write)\b",
            r"git\s+push.*--force",
            "(?i)notebook.*",
        ] {
            assert!(matches!(Matcher::new(Some(usual)), Matcher::Pattern(_)), "{usual}");
        }
    }

    #[test]
    fn tools_answer_to_the_names_that_a_format_knows_them_by() {
        let fits = |text, origin, tool| fits_tool(&Matcher::new(Some(text)), origin, &call(tool, None));
        assert!(fits("Bash", HookOrigin::Claude, "run_command"));
        assert!(fits("Write|Edit", HookOrigin::Claude, "edit_file"));
        assert!(fits("Shell", HookOrigin::Cursor, "run_command"));
        assert!(fits("bash", HookOrigin::Copilot, "run_command"));
        assert!(!fits("bash", HookOrigin::Claude, "run_command"));
        assert!(!fits("Bash", HookOrigin::Claude, "read_file"));
    }

    #[test]
    fn tools_of_servers_answer_to_such_names_as_well() {
        let of_server = || ServerTool {
            server: "srv".to_owned(),
            plugin: Some("desk".to_owned()),
            tool: "ping".to_owned(),
        };
        let fits = |text, origin| {
            let matcher = Matcher::new(Some(text));
            let is_servers = fits_tool(&matcher, origin, &call("srv__ping", Some(of_server())));
            assert!(
                !is_servers || !fits_tool(&matcher, origin, &call("read_file", None)),
                "{text}"
            );
            is_servers
        };
        for origin in [HookOrigin::Claude, HookOrigin::OpenPlugin, HookOrigin::Codex] {
            for text in [
                "mcp__srv__ping",
                "mcp__.*",
                "mcp__srv__.*",
                "mcp__plugin_desk_srv__ping",
            ] {
                assert!(fits(text, origin), "{text}");
            }
            assert!(!fits("mcp__other__.*", origin));
        }
        assert!(fits("MCP:ping", HookOrigin::Cursor));
        assert!(fits("srv-ping", HookOrigin::Copilot));
        assert!(fits("mcp_srv_ping", HookOrigin::Copilot));
        assert!(fits("srv__ping", HookOrigin::Claude), "ours");
    }

    fn call(tool: &str, mcp: Option<ServerTool>) -> HookCall {
        HookCall {
            event: HookEvent::PreToolUse,
            subject: tool.to_owned(),
            mcp,
            session: "".into(),
            turn: "".into(),
            working_directories: Vec::new(),
            input: serde_json::Map::new(),
        }
    }
}
