//! Content blocks: messages of users, and the content of tool calls.

use ahp_types::common::StringOrMarkdown;
use ahp_types::state::{
    FileEditSide, Message, MessageAttachment, TerminalContentPart, TerminalLifecycleState, TerminalState,
    ToolResultContent, ToolResultTerminalContent,
};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use innkeeper_std::PlainText;
use innkeeper_std::text::truncate_chars;
use serde_json::{Value, json};

use super::Sources;

/// Characters of a terminal's output in the content of a call; the latest ones count.
const MAX_OUTPUT: usize = 4000;
/// Characters of one text in the content of a call.
const MAX_TEXT: usize = 100_000;

/// Returns a text as the editor shows it.
pub(super) fn plain(text: &StringOrMarkdown) -> String {
    innkeeper_cli::format::plain_text(text)
}

pub(super) fn text_block(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

/// Returns a message of a user as blocks: its text, then its attachments.
pub(super) fn message_blocks(message: &Message) -> Vec<Value> {
    let text = (!message.text.is_empty()).then(|| text_block(&message.text));
    let attachments = message.attachments.iter().flatten().filter_map(attachment);
    text.into_iter().chain(attachments).collect()
}

fn attachment(attachment: &MessageAttachment) -> Option<Value> {
    match attachment {
        MessageAttachment::EmbeddedResource(file) => Some(bytes(&file.data, &file.content_type, &file.label)),
        MessageAttachment::Resource(file) => Some(link(&file.uri, &file.label, file.content_type.as_deref())),
        // Their texts are in the message, or they point into states that an editor does not have.
        MessageAttachment::Simple(_)
        | MessageAttachment::Annotations(_)
        | MessageAttachment::Chat(_)
        | MessageAttachment::Unknown(_) => None,
    }
}

fn bytes(data: &str, content_type: &str, label: &str) -> Value {
    let family = content_type.split('/').next().unwrap_or_default();
    match family {
        "image" | "audio" => json!({ "type": family, "data": data, "mimeType": content_type }),
        _ => {
            let uri = format!("attachment:///{}", label.replace(' ', "%20"));
            let text = STANDARD
                .decode(data)
                .ok()
                .and_then(|bytes| String::from_utf8(bytes).ok());
            let resource = match text {
                Some(text) => json!({ "uri": uri, "text": text, "mimeType": content_type }),
                None => json!({ "uri": uri, "blob": data, "mimeType": content_type }),
            };
            json!({ "type": "resource", "resource": resource })
        }
    }
}

/// Returns a link to something that can be read elsewhere.
pub(super) fn link(uri: &str, name: &str, content_type: Option<&str>) -> Value {
    match content_type {
        Some(content_type) => json!({ "type": "resource_link", "uri": uri, "name": name, "mimeType": content_type }),
        None => json!({ "type": "resource_link", "uri": uri, "name": name }),
    }
}

/// Returns the last part of a URI.
pub(super) fn name_of(uri: &str) -> &str {
    uri.trim_end_matches('/').rsplit('/').next().unwrap_or(uri)
}

/// Returns the path of a file, or the URI of something else.
pub(super) fn path_of(uri: &str) -> String {
    let path = url::Url::parse(uri).ok().and_then(|url| url.to_file_path().ok());
    path.map_or_else(|| uri.to_owned(), |path| path.to_string_lossy().into_owned())
}

fn content(block: Value) -> Value {
    json!({ "type": "content", "content": block })
}

/// Returns a text as content of a call.
pub(super) fn text_content(text: &str) -> Value {
    content(text_block(&truncate_chars(text, MAX_TEXT)))
}

/// Returns one content of a call; `None` if a part of it is on its way.
pub(super) fn call_content(result: &ToolResultContent, sources: &mut Sources<'_>) -> Option<Value> {
    Some(match result {
        ToolResultContent::Text(text) => text_content(&text.text),
        ToolResultContent::EmbeddedResource(file) => content(bytes(&file.data, &file.content_type, "file")),
        ToolResultContent::Resource(file) => content(link(&file.uri, name_of(&file.uri), file.content_type.as_deref())),
        ToolResultContent::FileEdit(edit) => return diff(edit.before.as_ref(), edit.after.as_ref(), sources),
        ToolResultContent::Terminal(terminal) if sources.draws_terminals => {
            json!({ "type": "terminal", "terminalId": terminal.resource })
        }
        ToolResultContent::Terminal(terminal) => terminal_text(terminal, sources.terminals.get(&terminal.resource)),
        ToolResultContent::Subagent(subagent) => text_content(&format!("Subagent: {}", subagent.title)),
        ToolResultContent::Unknown(_) => text_content("(a result that this version cannot show)"),
    })
}

/// Returns a change of a file; `None` if a side of it is on its way.
pub(super) fn diff(
    before: Option<&FileEditSide>,
    after: Option<&FileEditSide>,
    sources: &mut Sources<'_>,
) -> Option<Value> {
    let uri = after.or(before).map(|side| side.uri.clone()).unwrap_or_default();
    // Both are requested at once.
    let (old, new) = (sources.contents.text(before), sources.contents.text(after));
    let (Some(old), Some(new)) = (old?, new?) else {
        // A file that is no text, or too long.
        return Some(content(link(&uri, name_of(&uri), None)));
    };
    Some(json!({
        "type": "diff",
        "path": path_of(&uri),
        "oldText": before.map(|_| old),
        "newText": new,
    }))
}

fn terminal_text(terminal: &ToolResultTerminalContent, state: Option<&TerminalState>) -> Value {
    let result = terminal.result.as_ref();
    let preview = result.and_then(|result| result.preview.clone());
    let output = preview.or_else(|| state.map(output)).unwrap_or_default();
    let mut text = String::new();
    let mut plain = PlainText::default();
    plain.push(&output, &mut |line| text.push_str(line));
    plain.flush(&mut |line| text.push_str(line));
    let start = text.char_indices().rev().nth(MAX_OUTPUT).map_or(0, |(start, _)| start);
    let output = text.get(start..).unwrap_or_default().trim_end();
    let code = result.and_then(|result| result.exit_code).filter(|code| *code != 0);
    let code = code.map(|code| format!("\nexit code {code}")).unwrap_or_default();
    text_content(&format!("```\n{output}\n```{code}"))
}

/// Returns the output of a terminal so far, with its escape sequences.
pub(super) fn output(state: &TerminalState) -> String {
    let part = |part: &TerminalContentPart| match part {
        TerminalContentPart::Unclassified(part) => part.value.clone(),
        TerminalContentPart::Command(part) => part.output.clone(),
        TerminalContentPart::Unknown(_) => String::new(),
    };
    state.content.iter().map(part).collect()
}

/// Returns the exit code of a terminal that has ended.
pub(super) fn exit_code(state: &TerminalState) -> Option<Option<i64>> {
    match &state.lifecycle {
        TerminalLifecycleState::Exited(exited) => Some(exited.exit_code),
        _ => None,
    }
}
