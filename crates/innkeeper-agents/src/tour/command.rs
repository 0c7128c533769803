//! Slash commands of the tour agent.

use std::time::Duration;

/// Maximum number of deltas of one `/stream`.
const MAX_COUNT: u64 = 100_000_000;
/// Maximum length of a delta of `/stream`.
const MAX_BYTES: usize = 64 << 10;
/// Maximum length of a report of `/long`.
const MAX_KILOBYTES: u64 = 4096;
/// Maximum duration of `/slow`, `/silent`, `/steer` and `/background`.
const MAX_SECONDS: u64 = 3600;
/// Maximum depth of `/subagent`. The host has a lower limit of its own, which the command shows.
const MAX_DEPTH: u64 = 32;
/// Maximum number of calls of one `/parallel`.
const MAX_ERRANDS: u64 = 100;

/// A parsed slash command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Command {
    Help,
    Stream {
        count: u64,
        delay: Duration,
        bytes: usize,
    },
    Reason(String),
    Error {
        resumable: bool,
    },
    Usage,
    Long(u64),
    Slow(u64),
    Silent(u64),
    Remember(String),
    Prompt(Option<String>),
    Customizations,
    Mcp,
    McpPrompt {
        server: String,
        prompt: String,
        input: String,
    },
    McpRead {
        server: String,
        uri: String,
    },
    McpTool {
        server: String,
        tool: String,
        input: String,
    },
    Tool,
    Confirm {
        again: bool,
    },
    Options,
    Result,
    Parallel(u64),
    Plan,
    ClientTool {
        name: String,
        input: String,
    },
    Auth,
    Ask {
        url: bool,
    },
    Steer(u64),
    Attachments,
    Subagent(u64),
    Background(u64),
    Edit {
        file: String,
        text: String,
    },
    Review(String),
    Terminal {
        line: Option<String>,
        background: bool,
    },
}

impl Command {
    /// Parses a message: a command, plain text (`None`), or an invalid command with an explanation.
    pub(super) fn parse(text: &str) -> Result<Option<Self>, String> {
        let Some(line) = text.trim().strip_prefix('/') else {
            return Ok(None);
        };
        let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        if !COMMANDS.iter().any(|entry| entry.name == name) {
            return Err(format!(
                "I do not know the command /{name}. /help lists the ones I know."
            ));
        }
        Self::read(name, rest.trim()).map(Some).ok_or_else(|| usage(name))
    }

    /// Parses the arguments of a known command.
    fn read(name: &str, rest: &str) -> Option<Self> {
        let arguments: Vec<&str> = rest.split_whitespace().collect();
        Some(match (name, arguments.as_slice()) {
            ("help", _) => Self::Help,
            ("stream", [count, more @ ..]) if more.len() <= 2 => {
                let delay = more.first().map_or(Some(0), |delay| number(delay, 60_000))?;
                let bytes = more.get(1).map_or(Some(16), |bytes| number(bytes, MAX_BYTES as u64))?;
                Self::Stream {
                    count: number(count, MAX_COUNT)?,
                    delay: Duration::from_millis(delay),
                    bytes: usize::try_from(bytes).unwrap_or(MAX_BYTES),
                }
            }
            ("reason", [_, ..]) => Self::Reason(rest.to_owned()),
            ("error", []) => Self::Error { resumable: false },
            ("error", ["resumable"]) => Self::Error { resumable: true },
            ("usage", []) => Self::Usage,
            ("long", []) => Self::Long(100),
            ("long", [kilobytes]) => Self::Long(number(kilobytes, MAX_KILOBYTES)?),
            ("slow", [seconds]) => Self::Slow(number(seconds, MAX_SECONDS)?),
            ("silent", [seconds]) => Self::Silent(number(seconds, MAX_SECONDS)?),
            ("remember", [_, ..]) => Self::Remember(rest.to_owned()),
            ("prompt", []) => Self::Prompt(None),
            ("prompt", [section]) => Self::Prompt(Some((*section).to_owned())),
            ("customizations", []) => Self::Customizations,
            ("mcp", []) => Self::Mcp,
            ("mcp", [_, ..]) => Self::mcp(rest)?,
            ("tool", []) => Self::Tool,
            ("confirm", []) => Self::Confirm { again: false },
            ("confirm", ["again"]) => Self::Confirm { again: true },
            ("options", []) => Self::Options,
            ("result", []) => Self::Result,
            ("parallel", [count]) => Self::Parallel(number(count, MAX_ERRANDS)?),
            ("plan", []) => Self::Plan,
            ("client-tool", [tool, ..]) => {
                let input = rest.strip_prefix(tool).unwrap_or_default().trim();
                let input = if input.is_empty() { "{}" } else { input };
                serde_json::from_str::<serde_json::Value>(input).ok()?;
                Self::ClientTool {
                    name: (*tool).to_owned(),
                    input: input.to_owned(),
                }
            }
            ("auth", []) => Self::Auth,
            ("ask", []) => Self::Ask { url: false },
            ("ask", ["url"]) => Self::Ask { url: true },
            ("steer", seconds) => Self::Steer(optional(seconds, 10)?),
            ("attachments", _) => Self::Attachments,
            ("subagent", depth) => Self::Subagent(match depth {
                [] => 1,
                [depth] => number(depth, MAX_DEPTH).filter(|depth| *depth > 0)?,
                _ => return None,
            }),
            ("background", seconds) => Self::Background(optional(seconds, 3)?),
            ("edit", []) => Self::Edit {
                file: "guest-book.txt".to_owned(),
                text: "A guest was here.".to_owned(),
            },
            ("edit", [file, ..]) => Self::Edit {
                file: (*file).to_owned(),
                text: match rest.strip_prefix(file).unwrap_or_default().trim() {
                    "" => "A guest was here.".to_owned(),
                    text => text.to_owned(),
                },
            },
            ("review", [file]) => Self::Review((*file).to_owned()),
            ("terminal", []) => Self::Terminal {
                line: None,
                background: false,
            },
            ("terminal", ["background", _, ..]) => Self::Terminal {
                line: rest.strip_prefix("background").map(|line| line.trim().to_owned()),
                background: true,
            },
            ("terminal", [_, ..]) => Self::Terminal {
                line: Some(rest.to_owned()),
                background: false,
            },
            _ => return None,
        })
    }

    /// Parses a request to an MCP server: `SERVER read URI`, `SERVER prompt NAME {…}` or `SERVER TOOL {…}`. A tool
    /// may be called `read` or `prompt` too; its argument is an object.
    fn mcp(rest: &str) -> Option<Self> {
        let (server, rest) = word(rest)?;
        let (what, input) = word(rest)?;
        let named = word(input).filter(|_| !input.starts_with('{'));
        match (what.as_str(), named) {
            ("read", Some((uri, ""))) => Some(Self::McpRead { server, uri }),
            ("prompt", Some((prompt, input))) => Some(Self::McpPrompt {
                server,
                prompt,
                input: object(input)?,
            }),
            _ => Some(Self::McpTool {
                server,
                tool: what,
                input: object(input)?,
            }),
        }
    }
}

/// Parses the input of a tool or prompt: an object, or nothing.
fn object(input: &str) -> Option<String> {
    let input = if input.is_empty() { "{}" } else { input };
    serde_json::from_str::<serde_json::Map<_, serde_json::Value>>(input).ok()?;
    Some(input.to_owned())
}

/// A command as `/help` and completions show it.
pub(super) struct CommandHelp {
    pub(super) name: &'static str,
    pub(super) usage: &'static str,
    pub(super) what: &'static str,
}

const fn entry(name: &'static str, usage: &'static str, what: &'static str) -> CommandHelp {
    CommandHelp { name, usage, what }
}

/// All commands with their descriptions.
pub(super) const COMMANDS: &[CommandHelp] = &[
    entry(
        "stream",
        "<count> [<delay-ms>] [<bytes-per-delta>]",
        "streams exactly that many deltas into one part",
    ),
    entry("reason", "<text>", "thinks aloud before it answers"),
    entry(
        "error",
        "[resumable]",
        "fails, for good or so that the turn can be resumed",
    ),
    entry("usage", "", "reports token counts"),
    entry(
        "long",
        "[<kilobytes>]",
        "writes a report that is too long for the conversation, which refers to it",
    ),
    entry("slow", "<seconds>", "takes its time and shows what it is doing"),
    entry(
        "silent",
        "<seconds>",
        "says nothing for a while, so that the host wonders",
    ),
    entry(
        "remember",
        "<text>",
        "keeps a note with the chat; restarts of the host do not erase it",
    ),
    entry(
        "prompt",
        "[<section>]",
        "shows its instructions, and what your client made of them",
    ),
    entry(
        "customizations",
        "",
        "lists the skills, prompts, agents and rules it was given; call one of them with its name",
    ),
    entry(
        "mcp",
        "[<server> (<tool> | prompt <name> | read <uri>) [<json>]]",
        "lists what the session's MCP servers do and have, calls a tool, fills in a prompt or reads a resource",
    ),
    entry("tool", "", "calls a tool that streams its input and its output"),
    entry(
        "confirm",
        "[again]",
        "asks before it runs a tool; the input can be edited, and a judge has an opinion. Or asks again in mid-run",
    ),
    entry("options", "", "asks with choices of its own, in two groups"),
    entry("result", "", "lets you look at a result before the model gets it"),
    entry("parallel", "<count>", "asks for so many permissions at once"),
    entry("plan", "", "ticks off a plan step by step"),
    entry(
        "client-tool",
        "<name> [<json>]",
        "has one of your client's own tools executed",
    ),
    entry("auth", "", "needs you to sign in before a tool goes on"),
    entry(
        "ask",
        "[url]",
        "asks one question of every kind, or sends you to a page",
    ),
    entry("steer", "[<seconds>]", "waits for steering messages and repeats them"),
    entry("attachments", "", "says what came with the message"),
    entry(
        "subagent",
        "[<depth>]",
        "starts a subagent, which starts a subagent; the last one asks for confirmation",
    ),
    entry(
        "background",
        "[<seconds>]",
        "leaves work and a subagent running when the turn ends",
    ),
    entry(
        "edit",
        "[<file> [<text>]]",
        "adds a line to a file of the session, so that there is a change to look at",
    ),
    entry(
        "review",
        "<file>",
        "comments on the first line of a file and on the whole of it",
    ),
    entry(
        "terminal",
        "[[background] <command>]",
        "runs a command in a terminal, which you can watch, type into and stop, or leaves it in the background",
    ),
    entry("help", "", "lists these commands"),
];

impl CommandHelp {
    /// Usage line.
    pub(super) fn form(&self) -> String {
        format!("/{} {}", self.name, self.usage).trim_end().to_owned()
    }
}

fn usage(name: &str) -> String {
    let form = COMMANDS
        .iter()
        .find(|entry| entry.name == name)
        .map_or_else(|| "/help".to_owned(), CommandHelp::form);
    format!("That is not how /{name} is used. It goes like this: `{form}`")
}

/// Returns the first word, which may be a JSON string, and the rest.
fn word(text: &str) -> Option<(String, &str)> {
    let (word, rest) = if text.starts_with('"') {
        let mut words = serde_json::Deserializer::from_str(text).into_iter::<String>();
        let word = words.next()?.ok()?;
        (word, text.get(words.byte_offset()..)?)
    } else {
        let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        (word.to_owned(), rest)
    };
    (!word.is_empty()).then_some((word, rest.trim()))
}

fn number(text: &str, most: u64) -> Option<u64> {
    text.parse().ok().filter(|number| *number <= most)
}

fn optional(arguments: &[&str], default: u64) -> Option<u64> {
    match arguments {
        [] => Some(default),
        [seconds] => number(seconds, MAX_SECONDS),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_spaces_stands_in_quotation_marks() {
        let call = |server: &str, tool: &str, input: &str| Command::McpTool {
            server: server.to_owned(),
            tool: tool.to_owned(),
            input: input.to_owned(),
        };
        for (text, expected) in [
            ("/mcp odd echo", call("odd", "echo", "{}")),
            (
                r#"/mcp "two words" echo {"a": "b c"}"#,
                call("two words", "echo", r#"{"a": "b c"}"#),
            ),
            (r#"/mcp "\"q\"" "a b" {}"#, call("\"q\"", "a b", "{}")),
        ] {
            assert_eq!(Command::parse(text), Ok(Some(expected)), "{text}");
        }
        for wrong in ["/mcp odd", "/mcp \"odd echo", "/mcp odd echo [1]", "/mcp \"\" echo"] {
            assert!(Command::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn commands_are_read_and_mistakes_are_explained() {
        let stream = |count, delay, bytes| {
            Ok(Some(Command::Stream {
                count,
                delay: Duration::from_millis(delay),
                bytes,
            }))
        };
        assert_eq!(Command::parse("hello /stream"), Ok(None));
        assert_eq!(Command::parse("/stream 5"), stream(5, 0, 16));
        assert_eq!(Command::parse("  /stream 5 10 40\n"), stream(5, 10, 40));
        assert_eq!(
            Command::parse("/error resumable"),
            Ok(Some(Command::Error { resumable: true }))
        );
        assert_eq!(
            Command::parse("/client-tool ring {\"a\": 1}"),
            Ok(Some(Command::ClientTool {
                name: "ring".to_owned(),
                input: "{\"a\": 1}".to_owned(),
            }))
        );
        assert_eq!(
            Command::parse("/mcp inn  echo"),
            Ok(Some(Command::McpTool {
                server: "inn".to_owned(),
                tool: "echo".to_owned(),
                input: "{}".to_owned(),
            }))
        );
        assert_eq!(
            Command::parse("/mcp inn prompt greet {\"who\": \"you\"}"),
            Ok(Some(Command::McpPrompt {
                server: "inn".to_owned(),
                prompt: "greet".to_owned(),
                input: "{\"who\": \"you\"}".to_owned(),
            }))
        );
        assert_eq!(
            Command::parse("/mcp inn read inn://rooms"),
            Ok(Some(Command::McpRead {
                server: "inn".to_owned(),
                uri: "inn://rooms".to_owned(),
            }))
        );
        assert!(matches!(
            Command::parse("/mcp inn read {}"),
            Ok(Some(Command::McpTool { .. }))
        ));
        assert_eq!(Command::parse("/subagent"), Ok(Some(Command::Subagent(1))));
        assert_eq!(
            Command::parse("/prompt tone"),
            Ok(Some(Command::Prompt(Some("tone".to_owned()))))
        );
        assert_eq!(Command::parse("/steer 4"), Ok(Some(Command::Steer(4))));
        assert_eq!(Command::parse("/reason a  b"), Ok(Some(Command::Reason("a  b".into()))));
        for wrong in [
            "/stream",
            "/stream x",
            "/stream 1 2 3 4",
            "/stream -1",
            "/slow",
            "/slow 99999",
            "/reason",
            "/error maybe",
            "/silent",
            "/remember",
            "/prompt one two",
            "/tool now",
            "/parallel 101",
            "/client-tool",
            "/client-tool ring {",
            "/mcp inn",
            "/mcp inn echo []",
            "/ask me",
            "/steer soon",
            "/subagent 0",
            "/background 1 2",
        ] {
            assert!(
                Command::parse(wrong).unwrap_err().contains("It goes like this"),
                "{wrong}"
            );
        }
        assert!(Command::parse("/dance").unwrap_err().contains("/help"));
    }
}
