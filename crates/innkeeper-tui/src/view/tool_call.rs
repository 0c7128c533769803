//! One tool call: a line with its state, command or file, result and duration, and all details when it is unfolded.

use ahp_types::common::StringOrMarkdown;
use ahp_types::state::{
    FileEdit, FileEditCollection, FileEditSide, ToolCallCancellationReason, ToolCallState, ToolInput, ToolResultContent,
};
use innkeeper_cli::connection::contents::Contents;
use innkeeper_cli::connection::mirror::{Mirror, call_id};
use innkeeper_cli::format::{plain_text, tool_call};
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use crate::text::time::duration;
use crate::text::wrap::{wrap, wrap_text};
use crate::text::{clean, diff, markdown, one_line, path_of};
use crate::theme::Theme;

/// Lines of output that a folded, running call shows.
const LIVE_LINES: usize = 4;
/// Lines of output that an unfolded call shows.
const MAX_LINES: usize = 200;

/// The parts of a call in any state.
struct Parts<'a> {
    sign: Span<'static>,
    message: String,
    /// A remark on the outcome.
    outcome: Option<String>,
    input: Option<&'a ToolInput>,
    content: &'a [ToolResultContent],
    is_running: bool,
    allowed_by: Option<String>,
}

/// The surroundings of a call that drawing needs.
pub(super) struct CallContext<'a> {
    pub(super) mirror: &'a Mirror,
    pub(super) contents: &'a mut Contents,
    pub(super) home: Option<&'a str>,
    pub(super) theme: Theme,
    pub(super) width: usize,
}

/// Draws a call.
pub(super) fn lines(call: &ToolCallState, is_open: bool, cx: &mut CallContext<'_>) -> Vec<Line<'static>> {
    let theme = cx.theme;
    let parts = parts(call, theme);
    let fold = if is_open { "▾ " } else { "▸ " };
    let first = [Span::styled(fold, theme.dim()), parts.sign, Span::raw(" ")];
    let rest = [Span::raw("    ")];
    let mut spans = vec![Span::raw(clean(&parts.message).replace('\n', " "))];
    if let Some(subject) = parts
        .input
        .and_then(subject)
        .filter(|subject| !parts.message.contains(subject))
    {
        let subject = one_line(&subject, cx.width.saturating_sub(8));
        spans.push(Span::styled(format!("  {subject}"), theme.code()));
    }
    let about: Vec<String> = [
        stats(parts.content),
        parts.outcome.clone(),
        cx.mirror.call_took(call_id(call)).map(duration),
    ]
    .into_iter()
    .flatten()
    .collect();
    if !about.is_empty() {
        spans.push(Span::styled(format!("  {}", about.join(", ")), theme.dim()));
    }
    let mut lines = wrap(&spans, cx.width, &first, &rest);
    for content in parts.content {
        if let ToolResultContent::Subagent(subagent) = content {
            lines.push(subagent_line(&subagent.resource, &subagent.title, cx));
        }
    }
    if is_open {
        if let Some(reason) = &parts.allowed_by {
            lines.push(Line::styled(format!("    {}", clean(reason)), theme.dim()));
        }
        for line in tool_call::lines(parts.input, None) {
            let line = line.strip_prefix("| ").unwrap_or(&line).to_owned();
            lines.extend(wrap_text(&clean(&line), theme.code(), cx.width, "    "));
        }
        for content in parts.content {
            content_lines(content, cx, &mut lines);
        }
    } else if parts.is_running || is_plan(call) {
        let mut live = Vec::new();
        for content in parts.content {
            content_lines(content, cx, &mut live);
        }
        let hidden = match is_plan(call) {
            true => 0,
            false => live.len().saturating_sub(LIVE_LINES),
        };
        lines.extend(live.into_iter().skip(hidden));
    }
    lines
}

/// Returns the command, file or address in the input of a call, for messages that leave it out.
fn subject(input: &ToolInput) -> Option<String> {
    let ToolInput::Inline(text) = input else {
        return None;
    };
    let input: serde_json::Value = serde_json::from_str(text).ok()?;
    let known = ["command", "file_path", "path", "file", "url", "pattern", "query"];
    let found = known.iter().find_map(|name| input.get(name)?.as_str());
    found.map(str::to_owned)
}

fn is_plan(call: &ToolCallState) -> bool {
    let name = match call {
        ToolCallState::Running(call) => &call.tool_name,
        ToolCallState::Completed(call) => &call.tool_name,
        _ => return false,
    };
    ["plan", "update_plan", "todo", "todo_write"].contains(&name.as_str())
}

fn parts(call: &ToolCallState, theme: Theme) -> Parts<'_> {
    let message = |display: &str, message: &StringOrMarkdown| match plain_text(message) {
        text if text.is_empty() => display.to_owned(),
        text => text,
    };
    let waits = || Span::styled("!", theme.waits());
    match call {
        ToolCallState::Streaming(call) => Parts {
            sign: Span::styled("◌", theme.busy()),
            message: match &call.invocation_message {
                Some(text) => message(&call.display_name, text),
                None => format!("{}…", call.display_name),
            },
            outcome: None,
            input: None,
            content: &[],
            is_running: false,
            allowed_by: None,
        },
        ToolCallState::PendingConfirmation(call) => Parts {
            sign: waits(),
            message: message(&call.display_name, &call.invocation_message),
            outcome: Some("waits for your approval".to_owned()),
            input: call.tool_input.as_ref(),
            content: &[],
            is_running: false,
            allowed_by: None,
        },
        ToolCallState::Running(call) => Parts {
            sign: Span::styled("◐", theme.busy()),
            message: message(&call.display_name, &call.invocation_message),
            outcome: None,
            input: call.tool_input.as_ref(),
            content: call.content.as_deref().unwrap_or_default(),
            is_running: true,
            allowed_by: tool_call::allowed_by(call.meta.as_ref()),
        },
        ToolCallState::AuthRequired(call) => Parts {
            sign: waits(),
            message: message(&call.display_name, &call.invocation_message),
            outcome: Some("waits until you sign in".to_owned()),
            input: call.tool_input.as_ref(),
            content: call.content.as_deref().unwrap_or_default(),
            is_running: false,
            allowed_by: None,
        },
        ToolCallState::PendingResultConfirmation(call) => Parts {
            sign: waits(),
            message: message(&call.display_name, &call.past_tense_message),
            outcome: Some("its result waits for your approval".to_owned()),
            input: call.tool_input.as_ref(),
            content: call.content.as_deref().unwrap_or_default(),
            is_running: false,
            allowed_by: None,
        },
        ToolCallState::Completed(call) => Parts {
            sign: match call.success {
                true => Span::styled("✓", theme.good()),
                false => Span::styled("✗", theme.failed()),
            },
            message: message(&call.display_name, &call.past_tense_message),
            outcome: (!call.success).then(|| failure(call.error.as_ref())),
            input: call.tool_input.as_ref(),
            content: call.content.as_deref().unwrap_or_default(),
            is_running: false,
            allowed_by: tool_call::allowed_by(call.meta.as_ref()),
        },
        ToolCallState::Cancelled(call) => Parts {
            sign: Span::styled("⊘", theme.failed()),
            message: message(&call.display_name, &call.invocation_message),
            outcome: Some(match (&call.reason, &call.reason_message) {
                (_, Some(reason)) => format!("denied: {}", one_line(&plain_text(reason), 120)),
                (ToolCallCancellationReason::Denied, None) => "denied".to_owned(),
                (ToolCallCancellationReason::ResultDenied, None) => "result kept back".to_owned(),
                (ToolCallCancellationReason::Skipped, None) => "skipped".to_owned(),
            }),
            input: call.tool_input.as_ref(),
            content: &[],
            is_running: false,
            allowed_by: None,
        },
        ToolCallState::Unknown(_) => Parts {
            sign: Span::raw("?"),
            message: "a tool call in a state that this client does not know".to_owned(),
            outcome: None,
            input: None,
            content: &[],
            is_running: false,
            allowed_by: None,
        },
    }
}

fn failure(error: Option<&serde_json::Value>) -> String {
    let message = error.and_then(|error| error.get("message")?.as_str());
    message.map_or_else(
        || "failed".to_owned(),
        |message| format!("failed: {}", one_line(message, 120)),
    )
}

/// Returns the changed lines of all files, or the exit code of a command.
fn stats(content: &[ToolResultContent]) -> Option<String> {
    let mut parts = Vec::new();
    for content in content {
        match content {
            ToolResultContent::FileEdit(edit) => {
                if let Some(diff) = &edit.diff {
                    let (added, removed) = (diff.added.unwrap_or_default(), diff.removed.unwrap_or_default());
                    parts.push(format!("+{added} -{removed}"));
                }
            }
            ToolResultContent::Terminal(terminal) => {
                if let Some(code) = terminal.result.as_ref().and_then(|result| result.exit_code) {
                    parts.push(format!("exit {code}"));
                }
            }
            _ => {}
        }
    }
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn subagent_line(uri: &str, title: &str, cx: &CallContext<'_>) -> Line<'static> {
    let chats = cx.mirror.sessions.values().flat_map(|session| &session.chats);
    let chat = chats.into_iter().find(|chat| chat.resource == uri);
    let state = match chat {
        Some(chat) => innkeeper_cli::format::status_in_words(chat.status).replace(", unread", ""),
        None => "ended".to_owned(),
    };
    let title = one_line(title, cx.width.saturating_sub(30));
    Line::from(vec![
        Span::styled("    ↳ ", cx.theme.dim()),
        Span::styled(title, cx.theme.accent()),
        Span::styled(format!("  {state}, o opens it"), cx.theme.dim()),
    ])
}

fn content_lines(content: &ToolResultContent, cx: &mut CallContext<'_>, lines: &mut Vec<Line<'static>>) {
    let theme = cx.theme;
    match content {
        ToolResultContent::Text(text) => output_lines(&text.text, cx, lines),
        ToolResultContent::EmbeddedResource(resource) => {
            let kind = one_line(&resource.content_type, 60);
            lines.push(Line::styled(format!("    [{kind}]"), theme.dim()));
        }
        ToolResultContent::Resource(resource) => {
            let name = path_of(&resource.uri, cx.home);
            lines.extend(wrap_text(&format!("[{name}]"), theme.dim(), cx.width, "    "));
        }
        ToolResultContent::FileEdit(edit) => {
            let edit = FileEdit {
                before: edit.before.clone(),
                after: edit.after.clone(),
                diff: edit.diff.clone(),
            };
            edit_lines(&edit, cx, lines);
        }
        ToolResultContent::Terminal(terminal) => {
            let shown = cx.mirror.terminals.get(&terminal.resource);
            let preview = terminal.result.as_ref().and_then(|result| result.preview.clone());
            match (shown, preview) {
                (_, Some(preview)) => output_lines(&preview, cx, lines),
                (_, None) => {
                    let title = one_line(&terminal.title, cx.width.saturating_sub(30));
                    lines.push(Line::styled(
                        format!("    terminal {title}, o shows it live"),
                        theme.dim(),
                    ));
                }
            }
        }
        // Shown with the call itself.
        ToolResultContent::Subagent(_) => {}
        ToolResultContent::Unknown(_) => {
            lines.push(Line::styled("    [content of an unknown kind]", theme.dim()));
        }
    }
}

/// Draws the output of a tool. A list of tasks is Markdown; everything else is taken literally.
fn output_lines(text: &str, cx: &CallContext<'_>, lines: &mut Vec<Line<'static>>) {
    let text = super::terminal::plain(text);
    if text.trim_start().starts_with("- [") {
        let rendered = markdown::render(&text, cx.width.saturating_sub(4), cx.theme);
        lines.extend(rendered.into_iter().map(indented));
        return;
    }
    let all: Vec<&str> = text.trim_end_matches('\n').split('\n').collect();
    let hidden = all.len().saturating_sub(MAX_LINES);
    if hidden > 0 {
        lines.push(Line::styled(format!("    … {hidden} earlier lines"), cx.theme.dim()));
    }
    for line in all.into_iter().skip(hidden) {
        lines.extend(wrap_text(&clean(line), cx.theme.dim(), cx.width, "    "));
    }
}

fn indented(line: Line<'static>) -> Line<'static> {
    let mut spans = vec![Span::raw("    ")];
    spans.extend(line.spans);
    Line::from(spans)
}

/// Draws a change of a file with its lines in colour.
pub(super) fn edit_lines(edit: &FileEdit, cx: &mut CallContext<'_>, lines: &mut Vec<Line<'static>>) {
    let path = |side: &FileEditSide| path_of(&side.uri, cx.home);
    let title = match (&edit.before, &edit.after) {
        (Some(before), Some(after)) if before.uri != after.uri => format!("{} → {}", path(before), path(after)),
        (None, Some(after)) => format!("{} (new)", path(after)),
        (Some(before), None) => format!("{} (deleted)", path(before)),
        (Some(_), Some(after)) => path(after),
        (None, None) => return,
    };
    lines.extend(wrap_text(&title, cx.theme.bold(), cx.width, "    "));
    let texts = (
        cx.contents.text(edit.before.as_ref()),
        cx.contents.text(edit.after.as_ref()),
    );
    match texts {
        (Some(Some(before)), Some(Some(after))) => {
            let changed = diff::lines(&before, &after, cx.width.saturating_sub(2), cx.theme);
            lines.extend(changed.into_iter().map(|line| {
                let mut spans = vec![Span::raw("  ")];
                spans.extend(line.spans);
                Line::from(spans)
            }));
        }
        (None, _) | (_, None) => lines.push(Line::styled("    …", cx.theme.dim())),
        _ => lines.push(Line::styled("    (not text, or not available)", cx.theme.dim())),
    }
}

/// Draws everything that a user who decides about a call has to see.
pub(super) fn decision_lines(
    input: Option<&ToolInput>,
    edits: Option<&FileEditCollection>,
    cx: &mut CallContext<'_>,
) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    let has_edits = edits.is_some_and(|edits| !edits.items.is_empty());
    if !has_edits {
        for line in tool_call::lines(input, None) {
            lines.extend(wrap_text(&clean(&line), Style::new(), cx.width, "  "));
        }
    }
    for edit in edits.iter().flat_map(|edits| &edits.items) {
        edit_lines(edit, cx, &mut lines);
    }
    lines
}
