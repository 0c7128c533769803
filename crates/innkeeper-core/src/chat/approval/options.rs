//! The options of a confirmation: which rule each of them adds.

use ahp_types::state::{ConfirmationOption, ConfirmationOptionKind, ToolCallContributor, ToolCallState, ToolInput};
use serde_json::{Map, Value, json};

use super::command_line;
use super::rule::{self, Call, Directory, FilePath, Line, Rule};
use crate::agent::{ApprovalSubject, FileAccess};
use crate::chat::tool_call::wire;

/// The choice of allowing one call.
pub(crate) const ONCE: &str = "allow-once";
const FOR_SESSION: &str = "allow-session";
const FOR_SESSION_WIDER: &str = "allow-session-pattern";
const IN_WORKSPACE: &str = "allow-workspace";
const IN_WORKSPACE_WIDER: &str = "allow-workspace-pattern";
const EVERY_CALL: &str = "allow-session-every";
const DENY: &str = "deny";

/// Longest rule that is offered: users have to be able to read it in a button.
const MAX_OFFERED: usize = 200;

/// How far an approval reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RuleScope {
    /// For the rest of the session.
    Session,
    /// In all sessions of a working directory, until it is taken back.
    Workspace,
    /// In all sessions, until it is taken back.
    Everywhere,
}

impl RuleScope {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Workspace => "workspace",
            Self::Everywhere => "everywhere",
        }
    }
}

/// One choice that is remembered.
#[derive(Debug, Clone)]
pub(crate) struct Choice {
    id: &'static str,
    pub(crate) reach: RuleScope,
    pub(crate) rule: String,
    label: String,
}

/// The options that were offered for a call that waits for a decision.
#[derive(Debug, Clone)]
pub(crate) enum Offered {
    /// The agent's own choices, which the host does not remember.
    Own,
    /// The host's.
    Standard { call: Call, choices: Vec<Choice> },
}

/// Describes a call in the terms that rules use.
pub(crate) fn call_of(state: &ToolCallState, subject: ApprovalSubject, input: Option<&str>) -> Call {
    let tool = wire::tool_name(state).to_owned();
    match wire::contributor_of(state) {
        Some(ToolCallContributor::Client(client)) => {
            return Call::Client {
                client: rule::escaped(&client.client_id),
                tool: rule::escaped(&tool),
            };
        }
        Some(ToolCallContributor::Mcp(mcp)) => {
            let (name, tool) = match subject {
                ApprovalSubject::McpTool { server, tool } => (Some(server), tool),
                _ => (None, tool),
            };
            let id = rule::escaped(&mcp.customization_id);
            return Call::Mcp {
                server: match name {
                    Some(name) => format!("{}@{id}", rule::escaped(&name)),
                    None => id,
                },
                tool: rule::escaped(&tool),
            };
        }
        Some(ToolCallContributor::Unknown(_)) | None => {}
    }
    match subject {
        ApprovalSubject::Command { line, directory } => Call::Command { tool, line, directory },
        ApprovalSubject::File {
            access,
            path,
            is_sensitive,
        } => Call::File {
            tool,
            access,
            path,
            is_sensitive,
        },
        ApprovalSubject::Host { origin } => Call::Host {
            tool,
            origin: rule::origin(&origin).unwrap_or_default(),
        },
        ApprovalSubject::Call | ApprovalSubject::McpTool { .. } => Call::Tool {
            tool,
            input: input.or_else(|| shown_input(state)).map(str::to_owned),
        },
    }
}

/// The input that a call has so far.
fn shown_input(state: &ToolCallState) -> Option<&str> {
    match state {
        ToolCallState::Streaming(call) => call.partial_input.as_deref(),
        ToolCallState::Running(call) => inline_text(call.tool_input.as_ref()),
        ToolCallState::PendingConfirmation(call) => inline_text(call.tool_input.as_ref()),
        _ => None,
    }
}

fn inline_text(input: Option<&ToolInput>) -> Option<&str> {
    match input {
        Some(ToolInput::Inline(text)) => Some(text),
        _ => None,
    }
}

/// The narrowest rule that covers a call again, a wider one that the user may mean, and the one that no longer asks
/// about the tool at all.
#[derive(Debug, Default)]
struct Proposals {
    narrow: Option<Rule>,
    wider: Option<Rule>,
    every: Option<(Rule, String)>,
}

fn proposals(call: &Call) -> Proposals {
    let every_call = |tool: &str| Rule::Tool { tool: tool.to_owned() };
    match call {
        Call::Tool { tool, input } => Proposals {
            narrow: Some(Rule::Input {
                tool: tool.clone(),
                input: input.clone().unwrap_or_default(),
            }),
            wider: None,
            every: Some((every_call(tool), format!("every call of `{tool}`"))),
        },
        Call::Command { tool, line, directory } => {
            let with = |line: Line| Rule::Command {
                tool: tool.clone(),
                directory: directory.clone().map_or(Directory::First, Directory::Named),
                line,
            };
            let words = command_line::words_of_line(line);
            let wider = words.as_deref().and_then(command_line::suggested);
            let narrow = words.map(Line::Pattern).or_else(|| Line::exact(line));
            Proposals {
                narrow: narrow.map(with),
                wider: wider.map(|words| with(Line::Pattern(words))),
                every: Some((every_call(tool), "every command".to_owned())),
            }
        }
        Call::File {
            access,
            path,
            is_sensitive,
            ..
        } => {
            let file = FilePath::file(path);
            let directory = file.as_ref().and_then(FilePath::parent).filter(|_| !is_sensitive);
            let with = |path: FilePath| Rule::Files {
                access: *access,
                path: Some(path),
            };
            let all = Rule::Files {
                access: *access,
                path: None,
            };
            let words = match access {
                FileAccess::Change => "every edit of every file",
                FileAccess::Read => "reading every file",
            };
            Proposals {
                narrow: file.map(with),
                wider: directory.map(with),
                every: (!is_sensitive).then(|| (all, words.to_owned())),
            }
        }
        Call::Host { origin, .. } => Proposals {
            narrow: Some(Rule::Host {
                origin: Some(origin.clone()),
            }),
            wider: None,
            every: Some((Rule::Host { origin: None }, "fetching from every server".to_owned())),
        },
        Call::Mcp { server, tool } => Proposals {
            narrow: Some(Rule::Mcp {
                server: server.clone(),
                tool: Some(tool.clone()),
            }),
            ..Proposals::default()
        },
        Call::Client { client, tool } => Proposals {
            narrow: Some(Rule::Client {
                client: client.clone(),
                tool: tool.clone(),
            }),
            ..Proposals::default()
        },
    }
}

impl Offered {
    /// The host's choices for a call, narrow ones before wide ones (TOOL-09).
    pub(crate) fn standard(call: Call, has_workspace: bool) -> Self {
        let Proposals { narrow, wider, every } = proposals(&call);
        // A rule that does not cover the shown call would allow something that the user did not see.
        let written = |rule: &Rule| {
            let text = rule.written().filter(|text| text.len() <= MAX_OFFERED);
            text.filter(|_| rule.covers(&call))
        };
        // A client's tool is known by the client's id, which need not outlive its session.
        let has_workspace = has_workspace && !matches!(call, Call::Client { .. });
        let mut choices = Vec::new();
        for (reach, ids, label) in [
            (
                RuleScope::Session,
                [FOR_SESSION, FOR_SESSION_WIDER],
                ("Allow", "in this session"),
            ),
            (
                RuleScope::Workspace,
                [IN_WORKSPACE, IN_WORKSPACE_WIDER],
                ("Always allow", "in this workspace"),
            ),
        ] {
            if reach == RuleScope::Workspace && !has_workspace {
                continue;
            }
            for (id, rule) in ids.into_iter().zip([&narrow, &wider]) {
                if let Some((rule, text)) = rule.as_ref().and_then(|rule| Some((rule, written(rule)?))) {
                    let label = format!("{} {} {}", label.0, rule.described(), label.1);
                    choices.push(Choice {
                        id,
                        reach,
                        rule: text,
                        label,
                    });
                }
            }
        }
        if let Some((rule, words)) = every
            && let Some(text) = rule.written()
        {
            choices.push(Choice {
                id: EVERY_CALL,
                reach: RuleScope::Session,
                rule: text,
                label: format!("Allow {words} in this session"),
            });
        }
        Self::Standard { call, choices }
    }

    /// The options as clients show them.
    pub(crate) fn options(&self) -> Vec<ConfirmationOption> {
        let Self::Standard { choices, .. } = self else {
            return Vec::new();
        };
        let option = |id: &str, label: &str, kind, group| ConfirmationOption {
            id: id.to_owned(),
            label: label.to_owned(),
            kind,
            group: Some(group),
        };
        let approve = || ConfirmationOptionKind::Approve;
        let remembered = choices.iter().map(|choice| {
            let group = match (choice.id, choice.reach) {
                (EVERY_CALL, _) => 3,
                (_, RuleScope::Session) => 1,
                (_, RuleScope::Workspace | RuleScope::Everywhere) => 2,
            };
            option(choice.id, &choice.label, approve(), group)
        });
        std::iter::once(option(ONCE, "Allow once", approve(), 0))
            .chain(remembered)
            .chain([option(DENY, "Deny", ConfirmationOptionKind::Deny, 4)])
            .collect()
    }

    /// The rules behind the options, so that clients can show and edit them.
    pub(crate) fn rules(&self) -> Option<Value> {
        let Self::Standard { choices, .. } = self else {
            return None;
        };
        let rules: Map<String, Value> = choices
            .iter()
            .map(|choice| (choice.id.to_owned(), json!(choice.rule)))
            .collect();
        (!rules.is_empty()).then(|| json!({ "rules": rules }))
    }

    /// The choice of an option.
    pub(crate) fn choice(&self, id: &str) -> Option<&Choice> {
        match self {
            Self::Own => None,
            Self::Standard { choices, .. } => choices.iter().find(|choice| choice.id == id),
        }
    }
}

/// Checks a rule that a client edited: it has to cover the call that was shown.
pub(crate) fn edited_rule(offered: Option<&Offered>, text: &str) -> Result<(), String> {
    let rule = Rule::parse(text)?;
    match offered {
        Some(Offered::Standard { call, .. }) if rule.covers(call) => Ok(()),
        Some(Offered::Standard { .. }) => Err("does not cover this call".to_owned()),
        Some(Offered::Own) | None => {
            Err("this call has choices of the agent's own, which are not remembered".to_owned())
        }
    }
}
