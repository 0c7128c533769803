//! Hooks: files that declare commands for events (P10). They are read here and never run.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Map, Value};

use crate::components::gather::{Gathering, NewChild};
use crate::components::hook_event::HookEvent;
use crate::formats::detect::Format;
use crate::formats::locations::last_name;
use crate::limits::MAX_HOOKS;
use crate::note::{Code, Notes};
use crate::read::json::Document;
use crate::read::scan_root::label;
use crate::read::text::{TextRange, printable};
use crate::tree::{Component, Kind};

/// The hooks of one file.
#[derive(Clone, PartialEq)]
pub struct HookFile {
    /// The format whose rules apply to the output of the commands.
    pub origin: HookOrigin,
    /// The hooks, in the order of the file.
    pub hooks: Vec<Hook>,
    /// The block as written, for fields that are not parsed.
    pub raw: Value,
}

/// One hook.
#[derive(Clone, PartialEq)]
pub struct Hook {
    /// When it runs.
    pub event: HookEvent,
    /// The event as the file spells it, which its command expects in its input.
    pub spelling: String,
    /// A regular expression for the tool's name or another subject of the event.
    pub matcher: Option<String>,
    /// The action.
    pub action: HookAction,
    /// Its timeout; `None` for the default of its origin.
    pub timeout: Option<Duration>,
    /// The policy for a hook that cannot run, takes too long, or exits with an unexpected code.
    pub on_failure: OnFailure,
}

/// The action of a hook.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub enum HookAction {
    /// Runs a command that gets the event on its standard input.
    Command(CommandLine),
    /// Asks a model.
    Prompt(String),
    /// Asks an agent.
    Agent(String),
    /// Sends the event to an address.
    Http {
        /// The address.
        url: String,
    },
    /// Something else; only its name is known.
    Other(String),
}

/// A command of a hook, which can differ between systems.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct CommandLine {
    /// For every system without its own command.
    pub any: Option<String>,
    /// For Linux.
    pub linux: Option<String>,
    /// For macOS.
    pub macos: Option<String>,
    /// For Windows.
    pub windows: Option<String>,
    /// Arguments; with them the command is not given to a shell.
    pub args: Option<Vec<String>>,
    /// Where it runs.
    pub cwd: Option<String>,
    /// Additional environment variables.
    pub env: BTreeMap<String, String>,
}

impl CommandLine {
    /// The command for the system this host was built for.
    pub fn here(&self) -> Option<&str> {
        let own = if cfg!(windows) {
            &self.windows
        } else if cfg!(target_os = "macos") {
            &self.macos
        } else {
            &self.linux
        };
        own.as_deref().or(self.any.as_deref())
    }
}

/// The policy for a failed hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnFailure {
    /// The event continues.
    #[default]
    Continue,
    /// The event is blocked.
    Block,
}

/// The format that a hook was written for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HookOrigin {
    /// Open Plugins, which follow Claude.
    OpenPlugin,
    /// Claude Code.
    Claude,
    /// Codex.
    Codex,
    /// Cursor.
    Cursor,
    /// GitHub Copilot and VS Code.
    Copilot,
}

/// The meaning of exit codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExitContract {
    /// Success: its standard output is read as JSON, if it is JSON.
    pub success: i32,
    /// Refusal: the tool call or message is blocked, with the standard error output as the reason. Every other code is
    /// a failure, which the hook's [`OnFailure`] decides on.
    pub refusal: i32,
    /// The timeout if the hook declares none.
    pub timeout: Duration,
}

impl HookOrigin {
    pub(crate) fn of(format: Format) -> Self {
        match format {
            Format::Claude => Self::Claude,
            Format::Codex => Self::Codex,
            Format::Cursor => Self::Cursor,
            // The hooks of an Agent Plugin are those of its extension for Copilot.
            Format::Copilot | Format::AgentPlugin => Self::Copilot,
            Format::OpenPlugin | Format::Bare => Self::OpenPlugin,
        }
    }

    /// The meaning of exit codes.
    pub fn exit_contract(self) -> ExitContract {
        let seconds = match self {
            Self::Copilot => 30,
            Self::OpenPlugin | Self::Claude | Self::Codex | Self::Cursor => 60,
        };
        ExitContract {
            success: 0,
            refusal: 2,
            timeout: Duration::from_secs(seconds),
        }
    }
}

/// Which shape a file of hooks has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// The events may be at the top.
    Own,
    /// The events are below `hooks`, among other settings.
    Settings,
}

/// Gathers the hooks of one file.
pub(crate) fn gather_file(gathering: &mut Gathering<'_>, path: PathBuf, origin: HookOrigin, shape: Shape) {
    if !gathering.is_new(Kind::Hook, gathering.root.real(&path)) {
        return;
    }
    let shown = label(&path);
    let Some(text) = gathering.json_text(&path, Code::HooksInvalid) else {
        return;
    };
    match Document::read(&text) {
        Ok(document) => {
            let (raw, range) = match shape {
                Shape::Own => (document.whole(), None),
                Shape::Settings => {
                    // The other settings of the file are not read.
                    let fields = ["hooks", "disableAllHooks"].into_iter();
                    let block = fields.filter_map(|key| Some((key.to_owned(), document.value(key)?)));
                    let block: Map<String, Value> = block.collect();
                    if !block.contains_key("hooks") {
                        return;
                    }
                    (Value::Object(block), document.range_of("hooks"))
                }
            };
            add(gathering, path, raw, origin, range);
        }
        Err(why) => gathering.notes.warn(Code::HooksInvalid, &shown, why),
    }
}

/// Gathers the hooks that a manifest holds.
pub(crate) fn gather_inline(gathering: &mut Gathering<'_>, path: PathBuf, document: &Document<'_>, origin: HookOrigin) {
    if let Some(value) = document.value("hooks") {
        let range = document.range_of("hooks");
        add(gathering, path, value, origin, range);
    }
}

fn add(gathering: &mut Gathering<'_>, path: PathBuf, raw: Value, origin: HookOrigin, range: Option<TextRange>) {
    let shown = label(&path);
    if raw.get("disableAllHooks") == Some(&Value::Bool(true)) {
        return gathering.notes.info(
            Code::HooksInvalid,
            &shown,
            "has `disableAllHooks`, so none of its hooks is listed",
        );
    }
    let hooks = read(&raw, &shown, &mut gathering.notes);
    // A file without hooks is no component.
    if hooks.is_empty() {
        return;
    }
    gathering.add(NewChild {
        name: last_name(&path),
        description: raw
            .get("description")
            .and_then(Value::as_str)
            .map(|text| printable(text, crate::limits::MAX_DESCRIPTION_CHARS)),
        range,
        icons: Vec::new(),
        component: Component::Hook(HookFile { origin, hooks, raw }),
        path,
    });
}

fn read(raw: &Value, path: &str, notes: &mut Notes) -> Vec<Hook> {
    let events = match raw.get("hooks") {
        Some(Value::Object(events)) => events,
        Some(_) => {
            notes.warn(
                Code::HooksInvalid,
                path,
                "`hooks` must be an object of events: correct it",
            );
            return Vec::new();
        }
        None => match raw {
            Value::Object(events) => events,
            _ => return Vec::new(),
        },
    };
    let mut hooks = Vec::new();
    for (spelling, groups) in events {
        let Value::Array(groups) = groups else { continue };
        let event = HookEvent::from_spelling(spelling);
        let before = hooks.len();
        for group in groups {
            read_group(group, (&event, spelling), &mut hooks, path, notes);
        }
        if let (HookEvent::Unknown(name), true) = (&event, hooks.len() > before) {
            notes.info(
                Code::HookEventUnknown,
                path,
                format!("`{name}` is an event that this host does not know; its hooks never run"),
            );
        }
    }
    if hooks.len() > MAX_HOOKS {
        hooks.truncate(MAX_HOOKS);
        notes.warn(
            Code::Limit,
            path,
            format!("has more than {MAX_HOOKS} hooks; the rest is left out"),
        );
    }
    hooks
}

/// A group is `{matcher, hooks: [action …]}`, or the action itself.
fn read_group(
    group: &Value,
    (event, spelling): (&HookEvent, &str),
    hooks: &mut Vec<Hook>,
    path: &str,
    notes: &mut Notes,
) {
    let matcher = text(group, "matcher");
    let single = [group];
    let actions: Vec<&Value> = match group.get("hooks") {
        Some(Value::Array(actions)) => actions.iter().collect(),
        _ => single.to_vec(),
    };
    for action in actions {
        if hooks.len() > MAX_HOOKS {
            return;
        }
        match read_action(action) {
            Some(read) => hooks.push(Hook {
                event: event.clone(),
                spelling: printable(spelling, 64),
                matcher: text(action, "matcher").or_else(|| matcher.clone()),
                action: read,
                timeout: timeout(action),
                on_failure: on_failure(action),
            }),
            None => notes.warn(
                Code::HookInvalid,
                path,
                format!(
                    "has a hook for `{}` without a command, which is left out: give it one",
                    event.as_str()
                ),
            ),
        }
    }
}

fn read_action(action: &Value) -> Option<HookAction> {
    let kind = action.get("type").map_or(Some("command"), Value::as_str)?;
    Some(match kind {
        "command" => HookAction::Command(read_command(action)?),
        "prompt" => HookAction::Prompt(text(action, "prompt")?),
        "agent" => HookAction::Agent(text(action, "prompt").or_else(|| text(action, "agent"))?),
        "http" => HookAction::Http {
            url: text(action, "url")?,
        },
        other => HookAction::Other(printable(other, 64)),
    })
}

fn read_command(action: &Value) -> Option<CommandLine> {
    let bash = text(action, "bash");
    let command = CommandLine {
        any: text(action, "command"),
        linux: text(action, "linux").or_else(|| bash.clone()),
        macos: text(action, "osx").or(bash),
        windows: text(action, "windows").or_else(|| text(action, "powershell")),
        args: action.get("args").and_then(Value::as_array).map(|args| {
            let args = args.iter().filter_map(Value::as_str);
            args.map(str::to_owned).collect()
        }),
        cwd: text(action, "cwd"),
        env: environment(action.get("env")),
    };
    let commands = [&command.any, &command.linux, &command.macos, &command.windows];
    commands.iter().any(|text| text.is_some()).then_some(command)
}

fn environment(env: Option<&Value>) -> BTreeMap<String, String> {
    let Some(Value::Object(env)) = env else {
        return BTreeMap::new();
    };
    env.iter()
        .filter_map(|(name, value)| match value {
            Value::String(text) => Some((name.clone(), text.clone())),
            Value::Number(number) => Some((name.clone(), number.to_string())),
            _ => None,
        })
        .collect()
}

/// Every format counts in seconds. A number that no clock can count to is ignored.
fn timeout(action: &Value) -> Option<Duration> {
    const MAX_SECONDS: f64 = 24.0 * 60.0 * 60.0;
    let seconds = ["timeout", "timeoutSec"]
        .iter()
        .find_map(|key| action.get(key)?.as_f64())?;
    (seconds > 0.0).then(|| Duration::try_from_secs_f64(seconds.min(MAX_SECONDS)).ok())?
}

fn on_failure(action: &Value) -> OnFailure {
    let claude = action.get("onFailure").and_then(Value::as_str) == Some("block");
    let cursor = action.get("failClosed") == Some(&Value::Bool(true));
    if claude || cursor {
        OnFailure::Block
    } else {
        OnFailure::Continue
    }
}

fn text(value: &Value, key: &str) -> Option<String> {
    let text = value.get(key)?.as_str()?;
    (!text.trim().is_empty()).then(|| text.to_owned())
}

// Commands and environments can contain secrets, so the debug output leaves them out (CUS-27).

impl fmt::Debug for HookFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HookFile")
            .field("origin", &self.origin)
            .field("hooks", &self.hooks)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hook")
            .field("event", &self.event)
            .field("matcher", &self.matcher)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for HookAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Command(_) => "Command(…)",
            Self::Prompt(_) => "Prompt(…)",
            Self::Agent(_) => "Agent(…)",
            Self::Http { .. } => "Http(…)",
            Self::Other(_) => "Other(…)",
        })
    }
}

impl fmt::Debug for CommandLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CommandLine(…)")
    }
}
