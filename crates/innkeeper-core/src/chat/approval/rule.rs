//! Rules: approvals for more than one call, as text that users can read and edit.
//!
//! | Rule | Allows |
//! |---|---|
//! | `run_command(cargo test *)` | this command with any arguments, in the first working directory |
//! | `run_command[docs](make html)` | this command in that directory; `[*]` means in any |
//! | `run_command(*)` | every command: every call of the tool |
//! | `edit(src/main.rs)`, `edit(src/)`, `edit(*)` | changes of a file, below a directory, of every file |
//! | `read(.env)`, `read(config/)`, `read(*)` | reading likewise, where it would be asked about |
//! | `fetch(docs.rs)`, `fetch(http://localhost:8080)`, `fetch(*)` | fetching from a server |
//! | `mcp(everything@ID/echo)`, `mcp(everything@ID/*)` | a tool of an MCP server, or all of them |
//! | `client(ID/run_tests)` | a tool of a client |
//! | `book_table({"guests":2})` | a tool with exactly this input |
//!
//! Comparing is conservative: a rule that is not understood allows nothing.

use super::command_line::{self, Word};
use crate::agent::FileAccess;

/// Longest rule.
pub(crate) const MAX_BYTES: usize = 1024;

/// One rule, understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Rule {
    /// Every call of one of the agent's own tools.
    Tool { tool: String },
    /// A tool with exactly this input.
    Input { tool: String, input: String },
    /// Commands that a tool gives to a shell.
    Command {
        tool: String,
        directory: Directory,
        line: Line,
    },
    /// Files; `None` means all of them.
    Files { access: FileAccess, path: Option<FilePath> },
    /// Servers on the network; `None` means all of them.
    Host { origin: Option<String> },
    /// A tool of an MCP server.
    Mcp { server: String, tool: Option<String> },
    /// A tool of a client.
    Client { client: String, tool: String },
}

/// Where a command runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Directory {
    /// In the session's first working directory.
    First,
    /// In this one, from there or in full.
    Named(String),
    /// In any of them.
    Any,
}

/// Which commands are meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Line {
    /// Plain commands that fit a pattern.
    Pattern(Vec<Word>),
    /// Exactly this text, whatever it does.
    Exact(String),
}

/// Which files are meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FilePath {
    path: String,
    /// Whether everything below it is meant.
    is_directory: bool,
}

impl FilePath {
    pub(crate) fn file(path: &str) -> Option<Self> {
        let (path, is_directory) = (path.to_owned(), false);
        Some(Self { path, is_directory }).filter(Self::is_normal)
    }

    /// The directory that a path is in; empty for the first working directory itself.
    pub(crate) fn parent(&self) -> Option<Self> {
        let path = self.path.rsplit_once('/').map_or("", |(parent, _)| parent).to_owned();
        let is_directory = true;
        let parent = Self { path, is_directory };
        // One click must not allow everything below `/`.
        Some(parent).filter(|parent| !self.path.starts_with('/') || parent.path.len() > 1)
    }

    fn parse(text: &str) -> Result<Self, String> {
        let path = match text {
            "." | "./" => Self {
                path: String::new(),
                is_directory: true,
            },
            _ => Self {
                path: text.strip_suffix('/').unwrap_or(text).to_owned(),
                is_directory: text.ends_with('/'),
            },
        };
        match path.is_normal() {
            true => Ok(path),
            false => Err(
                "has a path with an empty part, `.`, `..`, `*` or a character that cannot be seen; name a file, or a \
                 directory with `/` at its end"
                    .to_owned(),
            ),
        }
    }

    fn is_normal(&self) -> bool {
        let parts = self.path.strip_prefix('/').unwrap_or(&self.path);
        let is_root = self.is_directory && self.path.is_empty();
        is_root || is_visible(&self.path) && parts.split('/').all(|part| !matches!(part, "" | "." | ".." | "*"))
    }

    /// Whether a file is meant. One that is sensitive has to be named itself.
    fn covers(&self, path: &str, is_sensitive: bool) -> bool {
        let is_absolute = path.starts_with('/');
        match self.is_directory {
            false => self.path == path,
            true if is_sensitive => false,
            true if self.path.is_empty() => !is_absolute,
            true => path
                .strip_prefix(&self.path)
                .is_some_and(|below| below.starts_with('/')),
        }
    }
}

/// A call that asks, with everything that a rule can be about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Call {
    /// A tool with an input.
    Tool { tool: String, input: Option<String> },
    /// A command.
    Command {
        tool: String,
        line: String,
        directory: Option<String>,
    },
    /// A file.
    File {
        tool: String,
        access: FileAccess,
        path: String,
        is_sensitive: bool,
    },
    /// A server.
    Host { tool: String, origin: String },
    /// A tool of an MCP server.
    Mcp { server: String, tool: String },
    /// A tool of a client.
    Client { client: String, tool: String },
}

/// Prefixes of the kinds of rules; a tool with such a name gets a prefix itself.
const RESERVED: &[&str] = &["edit", "read", "fetch", "mcp", "client"];
const TOOL_PREFIX: &str = "tool:";

impl Rule {
    /// Reads a rule.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text.len() > MAX_BYTES {
            return Err(format!("has more than {MAX_BYTES} bytes"));
        }
        if !is_visible(text) {
            return Err("has a character that cannot be seen".to_owned());
        }
        let Some((head, body)) = text.strip_suffix(')').and_then(|text| text.split_once('(')) else {
            return Err(format!(
                "is not a rule: it names a tool and what is allowed, as in `run_command(cargo test *)`; \
                 `{text}(*)` would allow every call"
            ));
        };
        let (name, directory) = match head.strip_suffix(']').and_then(|head| head.split_once('[')) {
            Some((name, "*")) => (name, Directory::Any),
            Some((name, directory)) => (name, Directory::Named(directory.to_owned())),
            None => (head, Directory::First),
        };
        let has_directory = directory != Directory::First;
        let is_every = body == "*" && !has_directory;
        let no_directory = |rule: Self| match has_directory {
            true => Err("only commands have a directory in brackets".to_owned()),
            false => Ok(rule),
        };
        match name {
            "" => Err("begins with the name of a tool".to_owned()),
            "edit" | "read" => no_directory(Self::Files {
                access: match name {
                    "edit" => FileAccess::Change,
                    _ => FileAccess::Read,
                },
                path: match is_every {
                    true => None,
                    false => Some(FilePath::parse(body)?),
                },
            }),
            "fetch" => no_directory(Self::Host {
                origin: match is_every {
                    true => None,
                    false => Some(origin(body)?),
                },
            }),
            "mcp" => {
                let (server, tool) = pair(body)?;
                let tool = (tool != "*").then(|| tool.to_owned());
                no_directory(Self::Mcp {
                    server: server.to_owned(),
                    tool,
                })
            }
            "client" => {
                let (client, tool) = pair(body)?;
                let (client, tool) = (client.to_owned(), tool.to_owned());
                no_directory(Self::Client { client, tool })
            }
            _ => {
                let tool = name.strip_prefix(TOOL_PREFIX).unwrap_or(name).to_owned();
                if is_every {
                    return Ok(Self::Tool { tool });
                }
                if body.is_empty() || body.starts_with('{') && !has_directory {
                    let input = body.to_owned();
                    return no_directory(Self::Input { tool, input });
                }
                let line = Line::parse(body)?;
                Ok(Self::Command { tool, directory, line })
            }
        }
    }

    /// Whether a call may run by this rule.
    pub(crate) fn covers(&self, call: &Call) -> bool {
        match (self, call) {
            (
                Self::Tool { tool: allowed },
                Call::Tool { tool, .. }
                | Call::Command { tool, .. }
                | Call::File { tool, .. }
                | Call::Host { tool, .. },
            ) => allowed == tool,
            (Self::Input { tool: allowed, input }, Call::Tool { tool, input: given }) => {
                allowed == tool && given.as_deref().unwrap_or_default() == input
            }
            (
                Self::Command {
                    tool: allowed,
                    directory: wanted,
                    line: allows,
                },
                Call::Command { tool, line, directory },
            ) => {
                let is_there = match wanted {
                    Directory::First => directory.is_none(),
                    Directory::Named(wanted) => directory.as_ref() == Some(wanted),
                    Directory::Any => true,
                };
                allowed == tool && is_there && allows.covers(line)
            }
            (
                Self::Files {
                    access: allowed,
                    path: wanted,
                },
                Call::File {
                    access,
                    path,
                    is_sensitive,
                    ..
                },
            ) => allowed == access && wanted.as_ref().is_none_or(|wanted| wanted.covers(path, *is_sensitive)),
            (Self::Host { origin: allowed }, Call::Host { origin, .. }) => {
                allowed.as_ref().is_none_or(|allowed| allowed == origin)
            }
            (
                Self::Mcp {
                    server: of,
                    tool: allowed,
                },
                Call::Mcp { server, tool },
            ) => of == server && allowed.as_ref().is_none_or(|allowed| allowed == tool),
            (
                Self::Client {
                    client: of,
                    tool: allowed,
                },
                Call::Client { client, tool },
            ) => of == client && allowed == tool,
            (
                Self::Tool { .. }
                | Self::Input { .. }
                | Self::Command { .. }
                | Self::Files { .. }
                | Self::Host { .. }
                | Self::Mcp { .. }
                | Self::Client { .. },
                _,
            ) => false,
        }
    }

    /// The rule as text; `None` if that would be read as another rule.
    pub(crate) fn written(&self) -> Option<String> {
        let text = match self {
            Self::Tool { tool } => format!("{}(*)", name_of(tool)),
            Self::Input { tool, input } => format!("{}({input})", name_of(tool)),
            Self::Command { tool, directory, line } => {
                let directory = match directory {
                    Directory::First => String::new(),
                    Directory::Named(directory) => format!("[{directory}]"),
                    Directory::Any => "[*]".to_owned(),
                };
                let line = match line {
                    Line::Pattern(words) => command_line::written(words)?,
                    Line::Exact(text) => text.clone(),
                };
                format!("{}{directory}({line})", name_of(tool))
            }
            Self::Files { access, path } => {
                let name = match access {
                    FileAccess::Change => "edit",
                    FileAccess::Read => "read",
                };
                match path {
                    None => format!("{name}(*)"),
                    Some(path) if path.path.is_empty() => format!("{name}(./)"),
                    Some(path) if path.is_directory => format!("{name}({}/)", path.path),
                    Some(path) => format!("{name}({})", path.path),
                }
            }
            Self::Host { origin } => format!("fetch({})", origin.as_deref().unwrap_or("*")),
            Self::Mcp { server, tool } => format!("mcp({server}/{})", tool.as_deref().unwrap_or("*")),
            Self::Client { client, tool } => format!("client({client}/{tool})"),
        };
        (Self::parse(&text).as_ref() == Ok(self)).then_some(text)
    }

    /// Describes the rule in the words of a label: "`cargo test *`", "edits of `a.rs`".
    pub(crate) fn described(&self) -> String {
        match self {
            Self::Tool { tool } => format!("every call of `{tool}`"),
            Self::Input { tool, .. } => format!("`{tool}` with exactly this input"),
            Self::Command { directory, line, .. } => {
                let line = match line {
                    Line::Pattern(words) => command_line::written(words).unwrap_or_default(),
                    Line::Exact(text) => text.clone(),
                };
                match directory {
                    Directory::First => format!("`{line}`"),
                    Directory::Named(directory) => format!("`{line}` (run in `{directory}`)"),
                    Directory::Any => format!("`{line}` (in any directory)"),
                }
            }
            Self::Files { access, path } => match (access, path) {
                (FileAccess::Change, None) => "every edit".to_owned(),
                (FileAccess::Read, None) => "reading every file".to_owned(),
                (access, Some(path)) => {
                    let whole = if path.path.is_empty() { "." } else { &path.path };
                    match (access, path.is_directory) {
                        (FileAccess::Change, false) => format!("edits of `{whole}`"),
                        (FileAccess::Change, true) => format!("edits of every file below `{whole}/`"),
                        (FileAccess::Read, false) => format!("reading `{whole}`"),
                        (FileAccess::Read, true) => format!("reading every file below `{whole}/`"),
                    }
                }
            },
            Self::Host { origin: None } => "fetching from every server".to_owned(),
            Self::Host { origin: Some(origin) } => format!("fetching from `{origin}`"),
            Self::Mcp { server, tool } => {
                let server = server.split('@').next().unwrap_or(server);
                match tool {
                    Some(tool) => format!("the tool `{tool}` of the MCP server `{server}`"),
                    None => format!("every tool of the MCP server `{server}`"),
                }
            }
            Self::Client { client, tool } => format!("the tool `{tool}` of the client `{client}`"),
        }
    }
}

impl Line {
    fn parse(text: &str) -> Result<Self, String> {
        match command_line::words_of_pattern(text) {
            Ok(words) => Ok(Self::Pattern(words)),
            // A `*` there could be meant as a wildcard, and would be none.
            Err(problem) if text.contains('*') => Err(problem),
            Err(problem) => Self::exact(text).ok_or(problem),
        }
    }

    /// Exactly this text, if all of its characters are visible.
    pub(crate) fn exact(text: &str) -> Option<Self> {
        let is_plain = text.chars().all(|c| matches!(c, ' '..='~')) && !text.contains('*');
        let is_trimmed = text.trim() == text && !text.is_empty() && !text.starts_with('{');
        // A plain command is compared by its words.
        let is_plain = is_plain && is_trimmed && command_line::words_of_pattern(text).is_err();
        is_plain.then(|| Self::Exact(text.to_owned()))
    }

    fn covers(&self, line: &str) -> bool {
        match self {
            Self::Pattern(pattern) => {
                command_line::words_of_line(line).is_some_and(|line| command_line::covers(pattern, &line))
            }
            Self::Exact(text) => text == line,
        }
    }
}

fn name_of(tool: &str) -> String {
    match RESERVED.contains(&tool) || tool.starts_with(TOOL_PREFIX) {
        true => format!("{TOOL_PREFIX}{tool}"),
        false => tool.to_owned(),
    }
}

fn pair(text: &str) -> Result<(&str, &str), String> {
    let (owner, tool) = text.split_once('/').unwrap_or_default();
    let is_good = |part: &str| !part.is_empty() && part.chars().all(|c| is_unescaped(c) || c == '%');
    match is_good(owner) && (tool == "*" || is_good(tool)) {
        true => Ok((owner, tool)),
        false => Err("names an owner and a tool, as in `mcp(everything@ID/echo)`".to_owned()),
    }
}

/// A server as rules write it: `https` is the default and left out.
pub(crate) fn origin(text: &str) -> Result<String, String> {
    let text = text.strip_prefix("https://").unwrap_or(text);
    let host = text.strip_prefix("http://").unwrap_or(text);
    let is_host =
        |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '.' | '-' | ':' | '[' | ']' | '_');
    match !host.is_empty() && host.chars().all(is_host) {
        true => Ok(text.to_owned()),
        false => Err("names a server, as in `fetch(docs.rs)` or `fetch(http://localhost:8080)`".to_owned()),
    }
}

fn is_unescaped(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':' | '@' | '+')
}

/// Encodes a foreign name for a rule: all characters are visible, and no two names look the same.
pub(crate) fn escaped(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for byte in name.bytes() {
        match char::from(byte) {
            c if c != '@' && is_unescaped(c) => text.push(c),
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

/// Whether a text shows all there is: no control characters, none that have no width or turn the
/// direction around, and no spaces but the ordinary one.
pub(crate) fn is_visible(text: &str) -> bool {
    text.chars()
        .all(|c| matches!(c, ' '..='~') || !c.is_ascii() && c.is_alphanumeric())
}

#[cfg(test)]
mod tests;
