//! Channel states and actions as text.

use std::fmt::Write as _;

use ahp_types::state::{ChatState, Message, ResponsePart, RootState, SessionState, SessionStatus, ToolCallState};
use serde_json::Value;

use crate::terminal::one_line;

use super::plain_text;

use crate::connection::RawSnapshot;

/// Describes the status bits of a session or chat.
pub fn status_in_words(bits: u32) -> String {
    let status = SessionStatus::from_bits(bits);
    let activity = if status.contains(SessionStatus::InputNeeded) {
        "needs input"
    } else if status.contains(SessionStatus::InProgress) {
        "working"
    } else if status.contains(SessionStatus::Error) {
        "failed"
    } else if status.contains(SessionStatus::Idle) {
        "idle"
    } else {
        "unknown"
    };
    let mut words = activity.to_owned();
    if !status.contains(SessionStatus::IsRead) {
        words.push_str(", unread");
    }
    if status.contains(SessionStatus::IsArchived) {
        words.push_str(", archived");
    }
    words
}

/// Describes a channel's state in a few lines; kinds it does not know are shown as JSON.
pub(crate) fn state(uri: &str, snapshot: &RawSnapshot) -> String {
    let mut text = format!("{uri} at {}\n", snapshot.from_seq);
    let state = &snapshot.state;
    let described = if state.get("lifecycle").is_some() {
        serde_json::from_value(state.clone()).map(|state| session(&state))
    } else if state.get("turns").is_some() {
        serde_json::from_value(state.clone()).map(|state| chat(&state))
    } else if state.get("agents").is_some() {
        serde_json::from_value(state.clone()).map(|state| root(&state))
    } else {
        Ok(format!("{state:#}\n"))
    };
    // Show a state that does not fit its type as JSON.
    let described = described.unwrap_or_else(|_| format!("{state:#}\n"));
    for line in described.lines() {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  {line}");
    }
    text
}

/// Describes an action, or another notification, in one line.
pub(crate) fn event(seq: &str, name: &str, details: &Value) -> String {
    let mut shown = details.clone();
    if let Value::Object(fields) = &mut shown {
        fields.remove("type");
    }
    let details = match shown {
        Value::Object(fields) if fields.is_empty() => String::new(),
        shown => one_line(&shown.to_string(), 160),
    };
    format!("{seq:>6}  {name}  {details}").trim_end().to_owned()
}

fn root(state: &RootState) -> String {
    let mut text = String::new();
    for agent in &state.agents {
        let _ = writeln!(
            text,
            "agent {}: {}, {}",
            agent.provider, agent.display_name, agent.description
        );
    }
    if let Some(count) = state.active_sessions {
        let _ = writeln!(text, "active sessions: {count}");
    }
    text
}

fn session(state: &SessionState) -> String {
    let mut text = format!(
        "session \"{}\" of {}: {}\n",
        state.title,
        state.provider,
        status_in_words(state.status)
    );
    if let Some(error) = &state.creation_error {
        let _ = writeln!(text, "creation failed: {}", error.message);
    }
    for chat in &state.chats {
        let default = match state.default_chat.as_ref() == Some(&chat.resource) {
            true => " (default)",
            false => "",
        };
        let _ = writeln!(
            text,
            "chat \"{}\" {}: {}{default}",
            chat.title,
            chat.resource,
            status_in_words(chat.status)
        );
    }
    text
}

fn chat(state: &ChatState) -> String {
    let mut text = format!("chat \"{}\": {}\n", state.title, status_in_words(state.status));
    let done = state.turns.iter().map(|turn| (&turn.message, &turn.response_parts));
    let active = state
        .active_turn
        .iter()
        .map(|turn| (&turn.message, &turn.response_parts));
    for (message, parts) in done.chain(active) {
        text.push_str(&turn(message, parts));
    }
    text
}

/// Describes a turn: the message, and the parts of the response.
pub(crate) fn turn(message: &Message, parts: &[ResponsePart]) -> String {
    let mut text = format!("> {}\n", message.text.replace('\n', "\n> "));
    for part in parts {
        let _ = match part {
            ResponsePart::Markdown(part) => writeln!(text, "{}", part.content),
            ResponsePart::Reasoning(part) => writeln!(text, "(thinking: {})", part.content),
            ResponsePart::SystemNotification(part) => {
                writeln!(text, "({})", part.content.as_text())
            }
            ResponsePart::Error(part) => writeln!(text, "(error: {})", part.error.message),
            ResponsePart::ContentRef(part) => writeln!(text, "(content: {})", part.uri),
            ResponsePart::ToolCall(part) => writeln!(text, "({})", tool_call(&part.tool_call)),
            ResponsePart::InputRequest(_) => writeln!(text, "(a question)"),
            ResponsePart::Unknown(_) => writeln!(text, "(something unknown)"),
        };
    }
    text
}

/// Describes a tool call in one line: what it did, or what it is about to do.
fn tool_call(call: &ToolCallState) -> String {
    match call {
        ToolCallState::Completed(call) => {
            let failed = if call.success { "" } else { "failed: " };
            format!("{failed}{}", plain_text(&call.past_tense_message))
        }
        ToolCallState::PendingResultConfirmation(call) => plain_text(&call.past_tense_message),
        ToolCallState::Running(call) => format!("running: {}", plain_text(&call.invocation_message)),
        ToolCallState::PendingConfirmation(call) => {
            format!("waiting for an approval: {}", plain_text(&call.invocation_message))
        }
        ToolCallState::AuthRequired(call) => {
            format!("waiting for a sign-in: {}", plain_text(&call.invocation_message))
        }
        ToolCallState::Cancelled(call) => format!("cancelled: {}", plain_text(&call.invocation_message)),
        ToolCallState::Streaming(call) => call.display_name.clone(),
        ToolCallState::Unknown(_) => "a tool call of a kind this program does not know".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn status_bits_are_described() {
        for (bits, words) in [
            (1 | 32, "idle"),
            (2, "failed, unread"),
            (8 | 32, "working"),
            (24 | 32, "needs input"),
            (1 | 64, "idle, unread, archived"),
            (0, "unknown, unread"),
        ] {
            assert_eq!(status_in_words(bits), words, "{bits}");
        }
    }

    #[test]
    fn unknown_states_are_shown_as_json() {
        let snapshot = RawSnapshot {
            state: json!({"strange": 1}),
            from_seq: 7,
        };
        let text = state("x:/", &snapshot);
        assert!(text.starts_with("x:/ at 7\n  {"), "{text}");
    }

    #[test]
    fn events_fit_on_one_line() {
        let action = json!({"type": "chat/delta", "content": "a\nb"});
        assert_eq!(
            event("12", "chat/delta", &action),
            "    12  chat/delta  {\"content\":\"a\\nb\"}"
        );
        assert_eq!(
            event("1", "session/ready", &json!({"type": "session/ready"})),
            "     1  session/ready"
        );
    }
}
