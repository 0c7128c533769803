//! Prompts of MCP servers that users call: `/server:prompt` and its arguments.

use std::time::Duration;

use innkeeper_core::agent::{AnswerValue, Question, QuestionKind, Response};
use serde_json::{Map, Value};

use super::{MAX_ARGUMENTS, McpError, McpPrompt, PromptMessages, ServerStatusText, bounds, display_line};
use crate::agent::{AgentError, EventSink, Form};
use crate::services::customizations::{About, Called, words};

/// A prefix that tells prompts of servers from anything else of the same name.
pub(crate) const PREFIX: &str = "mcp:";
/// The longest name of an argument that users are asked for.
const MAX_ID_BYTES: usize = 256;

/// Returns the prompt that a message calls, if it begins with a `/`, the name of a server, a colon and the name of a
/// prompt. Users are asked for required arguments that the message does not have.
///
/// # Errors
///
/// When the server is not ready or has no such prompt, when the server does not answer or refuses, and when users do
/// not give a required argument. The turn can be resumed once the cause is removed.
pub(crate) async fn call(events: &EventSink, text: &str, timeout: Duration) -> Result<Option<Called>, AgentError> {
    let Some(line) = text.trim().strip_prefix('/') else {
        return Ok(None);
    };
    let name = line.split(char::is_whitespace).next().unwrap_or_default();
    let servers = events.customizations().mcp_servers();
    let (mut found, mut failure) = (None, None);
    for (server, called) in servers_of(name, &servers) {
        match find(events, server, called, timeout).await {
            Ok(prompt) => {
                found = Some((server.clone(), prompt));
                break;
            }
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    let Some((server, prompt)) = found else {
        return failure.map_or(Ok(None), Err);
    };
    let typed = line.get(name.len()..).unwrap_or_default().trim();
    let arguments = ask_for_missing(events, &prompt, arguments_of(&prompt, typed)).await?;
    events
        .activity(format!("Asking {} for {}", server.name, prompt.name))
        .await?;
    let filled = fill_in(events, &prompt, arguments, timeout).await?;
    events.no_activity().await?;
    let (text, attachments) = filled.into_model_input();
    Ok(Some(Called {
        about: About {
            id: format!("{}/prompts/{}", server.id, prompt.prompt),
            container: server.id,
            name: prompt.name.clone(),
            description: prompt.shown_description(),
            uri: format!("mcp-prompt:{}", prompt.name),
            ..About::default()
        },
        name: name.to_owned(),
        arguments: typed.to_owned(),
        text,
        directory: None,
        plugin_root: None,
        agent: None,
        model: None,
        tools: Vec::new(),
        attachments,
    }))
}

/// Which servers a name may mean, and what of them. The name itself comes first, and only then what follows `mcp:`:
/// a server may be called `mcp`.
fn servers_of<'a>(
    name: &'a str,
    servers: &'a [ServerStatusText],
) -> impl Iterator<Item = (&'a ServerStatusText, &'a str)> {
    let readings = [Some(name), name.strip_prefix(PREFIX)];
    let readings = readings.into_iter().flatten().filter_map(|name| name.split_once(':'));
    readings.filter_map(move |(prefix, called)| {
        let server = servers.iter().find(|server| server.prefix == prefix)?;
        Some((server, called))
    })
}

async fn find(
    events: &EventSink,
    server: &ServerStatusText,
    called: &str,
    timeout: Duration,
) -> Result<McpPrompt, AgentError> {
    let name = &server.name;
    if !server.is_ready {
        let why = server.words.trim_end_matches('.');
        return Err(failed(format!(
            "The MCP server {name:?} is not ready: {why}. Once it is, resume this turn or send the message again."
        )));
    }
    let customizations = events.customizations();
    let listed = tokio::select! {
        biased;
        () = events.cancelled() => return Err(AgentError::Cancelled),
        listed = tokio::time::timeout(timeout, customizations.prompts_of(server)) => listed,
    };
    let Ok(prompts) = listed else {
        let seconds = timeout.as_secs();
        return Err(failed(format!(
            "The MCP server {name:?} did not say within {seconds} s which prompts it has. Try again later."
        )));
    };
    let full = format!("{}:{called}", server.prefix);
    prompts.into_iter().find(|prompt| prompt.name == full).ok_or_else(|| {
        failed(format!(
            "The MCP server {name:?} has no prompt {called:?}. Type `/{}:` to see those that it has.",
            server.prefix
        ))
    })
}

/// Parses the text after the name: `name=value` where there is an argument of that name, and else one word after the
/// other. The last argument takes the rest.
fn arguments_of(prompt: &McpPrompt, typed: &str) -> Map<String, Value> {
    let mut given = Map::new();
    let mut loose = Vec::new();
    for word in words(typed) {
        match word.split_once('=') {
            Some((name, value)) if prompt.arguments.iter().any(|argument| argument.name == name) => {
                given.entry(name).or_insert_with(|| Value::String(value.to_owned()));
            }
            _ => loose.push(word),
        }
    }
    let names: Vec<&String> = prompt.arguments.iter().map(|argument| &argument.name).collect();
    let mut free = names.into_iter().filter(|name| !given.contains_key(*name)).peekable();
    let mut loose = loose.into_iter();
    let mut placed = Vec::new();
    while let Some(name) = free.next() {
        let value = match free.peek() {
            Some(_) => loose.next(),
            None => Some(loose.by_ref().collect::<Vec<_>>().join(" ")).filter(|rest| !rest.is_empty()),
        };
        let Some(value) = value else { break };
        placed.push((name.clone(), Value::String(value)));
    }
    given.extend(placed);
    given
}

/// Asks users for required arguments that are missing.
async fn ask_for_missing(
    events: &EventSink,
    prompt: &McpPrompt,
    mut given: Map<String, Value>,
) -> Result<Map<String, Value>, AgentError> {
    let is_missing = |name: &str, given: &Map<String, Value>| !given.contains_key(name);
    let required = prompt.arguments.iter().filter(|argument| argument.required);
    let missing: Vec<_> = required
        .filter(|argument| is_missing(&argument.name, &given) && argument.name.len() <= MAX_ID_BYTES)
        .take(MAX_ARGUMENTS)
        .collect();
    if missing.is_empty() {
        return Ok(given);
    }
    let why = format!(
        "/{} of the MCP server {:?} needs to know more.",
        prompt.name, prompt.server_name
    );
    let form = missing.iter().fold(Form::new(why), |form, argument| {
        let description = argument.description.as_deref().unwrap_or(&argument.name);
        form.with(Question {
            id: argument.name.clone(),
            title: Some(display_line(&argument.name)),
            message: display_line(description),
            required: true,
            kind: QuestionKind::Text {
                format: None,
                default: None,
                min: None,
                max: None,
            },
        })
    });
    let mut answer = events.ask(form).await?;
    if answer.response == Response::Accept {
        for argument in &missing {
            if let Some(AnswerValue::Text(text)) = answer.values.remove(&argument.name) {
                given.insert(argument.name.clone(), Value::String(text));
            }
        }
    }
    let unsaid = missing.iter().filter(|argument| is_missing(&argument.name, &given));
    let unsaid: Vec<String> = unsaid
        .map(|argument| format!("{:?}", display_line(&argument.name)))
        .collect();
    if unsaid.is_empty() {
        return Ok(given);
    }
    Err(failed(format!(
        "/{}: missing argument {}. Usage: `/{} {}`.",
        prompt.name,
        unsaid.join(", "),
        prompt.name,
        prompt.usage()
    )))
}

async fn fill_in(
    events: &EventSink,
    prompt: &McpPrompt,
    arguments: Map<String, Value>,
    timeout: Duration,
) -> Result<PromptMessages, AgentError> {
    let filled = tokio::select! {
        biased;
        () = events.cancelled() => return Err(AgentError::Cancelled),
        filled = tokio::time::timeout(timeout, events.mcp().prompt(prompt, arguments)) => filled,
    };
    let late = || McpError::new(format!("the MCP server did not answer within {} s", timeout.as_secs()));
    filled.unwrap_or_else(|_| Err(late())).map_err(|error| {
        let message = bounds::message(error.message);
        let message = message.trim_end_matches('.');
        failed(format!("/{} could not be had: {message}.", prompt.name))
    })
}

/// Returns a resumable error: once its cause is removed, the same turn can continue.
fn failed(message: String) -> AgentError {
    AgentError::resumable("mcpPrompt", message)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::services::mcp::McpPromptArgument;

    #[test]
    fn mcp12_a_server_that_is_called_mcp_has_prompts_too() {
        let servers = ["inn", "mcp"].map(|name| ServerStatusText {
            id: name.to_owned(),
            name: name.to_owned(),
            prefix: name.to_owned(),
            is_ready: true,
            words: String::new(),
        });
        let meant = |name| {
            let meant = servers_of(name, &servers).map(|(server, called)| format!("{} {called}", server.name));
            meant.collect::<Vec<_>>()
        };
        assert_eq!(meant("inn:greet"), ["inn greet"]);
        assert_eq!(meant("mcp:greet"), ["mcp greet"]);
        assert_eq!(meant("mcp:inn:greet"), ["mcp inn:greet", "inn greet"]);
        assert_eq!(meant("mcp:mcp:greet"), ["mcp mcp:greet", "mcp greet"]);
        assert!(meant("other:greet").is_empty() && meant("mcp").is_empty());
    }

    #[test]
    fn typed_text_goes_to_the_named_argument_or_the_next_one() {
        let arguments = ["who", "when", "why"].map(|name| McpPromptArgument {
            name: name.to_owned(),
            ..McpPromptArgument::default()
        });
        let prompt = McpPrompt {
            arguments: arguments.to_vec(),
            ..McpPrompt::default()
        };
        for (typed, expected) in [
            ("", json!({})),
            ("ann", json!({ "who": "ann" })),
            ("ann noon", json!({ "who": "ann", "when": "noon" })),
            (
                "ann 'high noon' it is time",
                json!({ "who": "ann", "when": "high noon", "why": "it is time" }),
            ),
            (
                "why=rain ann a=b",
                json!({ "why": "rain", "who": "ann", "when": "a=b" }),
            ),
            (
                "when=\"to day\" ann so and so",
                json!({ "when": "to day", "who": "ann", "why": "so and so" }),
            ),
            ("who=a who=b", json!({ "who": "a" })),
        ] {
            assert_eq!(Value::Object(arguments_of(&prompt, typed)), expected, "{typed}");
        }
        let nothing = arguments_of(&McpPrompt::default(), "some words");
        assert!(nothing.is_empty(), "the message says them");
    }
}
