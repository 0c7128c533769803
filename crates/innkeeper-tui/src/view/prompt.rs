//! The approval, form or sign-in above the message.

use ahp_types::state::{SessionInputRequest, ToolCallConfirmationState, ToolCallRiskAssessment};
use innkeeper_cli::format::plain_text;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::tool_call::{CallContext, decision_lines};
use super::{put_lines, put_rule, split_top, to_u16};
use crate::app::editor::Editor;
use crate::app::prompt::form::{Field, FieldValue};
use crate::app::prompt::{Answer, Choice, request_chat};
use crate::app::{App, Focus};
use crate::text::wrap::{wrap, wrap_text};
use crate::text::{clean, one_line};
use crate::theme::Theme;

/// The lines of a prompt: details, which may scroll, and the answer, which is always visible.
pub(super) struct PromptLines {
    title: String,
    details: Vec<Line<'static>>,
    answer: Vec<Line<'static>>,
    /// The cursor of an editor: its line in the answer, and its column.
    cursor: Option<(usize, usize)>,
}

pub(super) fn lines(app: &mut App, width: usize) -> PromptLines {
    let mut lines = PromptLines {
        title: String::new(),
        details: Vec::new(),
        answer: Vec::new(),
        cursor: None,
    };
    let Some(request) = app.prompt_request().cloned() else {
        return lines;
    };
    lines.title = title(app, &request);
    lines.details = details(app, &request, width);
    let theme = app.setup.theme;
    let Some(prompt) = &app.prompt else {
        return lines;
    };
    match &prompt.answer {
        Answer::Decision {
            choices,
            cursor,
            remark,
            input,
        } => {
            if let Some(editor) = remark {
                lines
                    .answer
                    .push(Line::styled("  Why not? The agent reads it.", theme.dim()));
                put_editor(&mut lines, editor, width);
            } else if let Some(editor) = input {
                lines
                    .answer
                    .push(Line::styled("  The input that will be used:", theme.dim()));
                put_editor(&mut lines, editor, width);
            } else {
                for (index, choice) in choices.iter().enumerate() {
                    lines
                        .answer
                        .extend(choice_lines(index, choice, index == *cursor, width, theme));
                }
            }
        }
        Answer::Form(form) => {
            for (index, field) in form.fields.iter().enumerate() {
                put_field(&mut lines, field, index == form.cursor, width, theme);
            }
            if form.fields.is_empty() {
                lines
                    .answer
                    .push(Line::styled("  Enter continues, Ctrl+X declines.", theme.dim()));
            }
        }
        Answer::SignIn(token) => {
            let text = "  Enter signs in with a browser, or paste a token and press Enter:";
            lines.answer.push(Line::styled(text, theme.dim()));
            let hidden = Editor::new("•".repeat(token.text().chars().count()));
            put_editor(&mut lines, &hidden, width);
        }
        Answer::Elsewhere => {
            lines
                .answer
                .push(Line::styled("  Another client runs this tool.", theme.dim()));
        }
    }
    if prompt.is_sent {
        lines.answer = vec![Line::styled("  Sent…", theme.dim())];
        lines.cursor = None;
    }
    lines
}

/// Returns the lines that the prompt gets: at most two thirds of what there is.
pub(super) fn height(app: &App, lines: &PromptLines, available: usize) -> usize {
    if app.prompt.is_none() || lines.title.is_empty() {
        return 0;
    }
    let wanted = 1 + lines.details.len() + lines.answer.len();
    let least = (lines.answer.len() + 3).min(available);
    wanted.min((available * 2 / 3).max(least))
}

pub(super) fn draw(app: &App, lines: &PromptLines, area: Rect, buffer: &mut Buffer, cursor: &mut Option<(u16, u16)>) {
    let theme = app.setup.theme;
    let (rule, rest) = split_top(area, 1);
    let is_focused = app.focus == Focus::Prompt;
    let title = one_line(&lines.title, usize::from(area.width).saturating_sub(4));
    let style = if is_focused { theme.waits() } else { theme.dim() };
    put_rule(
        buffer,
        rule,
        vec![Span::styled(format!(" {title} "), theme.waits())],
        style,
    );
    let room = usize::from(rest.height);
    let answer_height = lines.answer.len().min(room);
    let details_height = room - answer_height;
    let hidden = lines.details.len().saturating_sub(details_height);
    let scroll = app.prompt.as_ref().map_or(0, |prompt| prompt.scroll).min(hidden);
    let visible: Vec<Line<'static>> = lines
        .details
        .iter()
        .skip(scroll)
        .take(details_height)
        .cloned()
        .collect();
    put_lines(buffer, rest, &visible);
    if hidden > scroll && details_height > 0 {
        let more = format!(" ↓ {} more, PgDn ", hidden - scroll);
        let row = rest.y + to_u16(details_height - 1);
        let column = rest.right().saturating_sub(to_u16(more.chars().count()));
        buffer.set_string(column, row, more, theme.selected());
    }
    let answer_area = Rect {
        y: rest.y + to_u16(details_height),
        height: to_u16(answer_height),
        ..rest
    };
    // In a long form, the line with the cursor stays visible.
    let skipped = lines
        .cursor
        .map_or(0, |(line, _)| (line + 1).saturating_sub(answer_height));
    let visible: Vec<Line<'static>> = lines.answer.iter().skip(skipped).cloned().collect();
    put_lines(buffer, answer_area, &visible);
    if let Some((line, column)) = lines.cursor.filter(|_| is_focused && app.dialog.is_none()) {
        let row = answer_area.y + to_u16(line - skipped);
        *cursor = Some((area.x + to_u16(column), row));
    }
}

fn title(app: &App, request: &SessionInputRequest) -> String {
    let what = match request {
        SessionInputRequest::ToolConfirmation(request) => match &request.tool_call {
            ToolCallConfirmationState::PendingConfirmation(call) => {
                let title = call.confirmation_title.as_ref().map(plain_text);
                title.unwrap_or_else(|| format!("Allow? {}", call.display_name))
            }
            ToolCallConfirmationState::PendingResultConfirmation(call) => format!("Result of {}", call.display_name),
            ToolCallConfirmationState::Unknown(_) => "An approval of an unknown kind".to_owned(),
        },
        SessionInputRequest::ChatInput(_) => "Questions".to_owned(),
        SessionInputRequest::ToolClientExecution(_) => "A tool of a client".to_owned(),
        SessionInputRequest::ToolAuthentication(_) => "Sign in".to_owned(),
        SessionInputRequest::Unknown(_) => "Something that this client does not know".to_owned(),
    };
    let chat = request_chat(request);
    let chats = app.session().into_iter().flat_map(|session| &session.chats);
    let subagent = chats
        .into_iter()
        .find(|summary| summary.resource == chat && Some(chat) != app.chat_uri());
    match subagent {
        Some(summary) => format!("{what} — asked by “{}”", summary.title),
        None => what,
    }
}

fn details(app: &mut App, request: &SessionInputRequest, width: usize) -> Vec<Line<'static>> {
    let theme = app.setup.theme;
    let mut contents = std::mem::take(&mut app.contents);
    let mut cx = CallContext {
        mirror: &app.mirror,
        contents: &mut contents,
        home: app.setup.home.as_deref(),
        theme,
        width,
    };
    let text = |text: &str, style: Style| wrap_text(&clean(text), style, width, "  ");
    let mut lines = Vec::new();
    match request {
        SessionInputRequest::ToolConfirmation(request) => match &request.tool_call {
            ToolCallConfirmationState::PendingConfirmation(call) => {
                lines.extend(text(&plain_text(&call.invocation_message), theme.bold()));
                if let Some(ToolCallRiskAssessment::Complete(risk)) = &call.risk_assessment {
                    let opinion = format!("Opinion of a judge: {}", plain_text(&risk.reason));
                    lines.extend(text(&opinion, theme.dim()));
                }
                lines.extend(decision_lines(call.tool_input.as_ref(), call.edits.as_ref(), &mut cx));
            }
            ToolCallConfirmationState::PendingResultConfirmation(call) => {
                lines.extend(text(&plain_text(&call.past_tense_message), theme.bold()));
                for content in call.content.iter().flatten() {
                    if let ahp_types::state::ToolResultContent::Text(result) = content {
                        lines.extend(text(&super::terminal::plain(&result.text), Style::new()));
                    }
                }
            }
            ToolCallConfirmationState::Unknown(_) => {}
        },
        SessionInputRequest::ChatInput(request) => {
            if let Some(message) = &request.request.message {
                lines.extend(text(message, theme.bold()));
            }
            if let Some(url) = &request.request.url {
                lines.extend(text(&format!("Visit {url}"), theme.accent()));
            }
        }
        SessionInputRequest::ToolAuthentication(request) => {
            let resource = &request.tool_call.auth.resource;
            let name = resource.resource_name.as_deref().unwrap_or(&resource.resource);
            let what = format!("{} wants you to sign in to {name}", request.tool_call.display_name);
            lines.extend(text(&what, theme.bold()));
            if let Some(about) = &request.tool_call.auth.description {
                lines.extend(text(about, theme.dim()));
            }
        }
        SessionInputRequest::ToolClientExecution(request) => {
            lines.extend(text(&plain_text(&request.tool_call.invocation_message), theme.bold()));
        }
        SessionInputRequest::Unknown(_) => {}
    }
    app.contents = contents;
    lines
}

/// Draws an option. It is never cut: its end says how far it reaches.
fn choice_lines(index: usize, choice: &Choice, is_chosen: bool, width: usize, theme: Theme) -> Vec<Line<'static>> {
    let (label, style) = match choice {
        Choice::Offered {
            label, approves: true, ..
        } => (label.clone(), theme.good()),
        Choice::Offered { label, .. } => (label.clone(), theme.failed()),
        Choice::Remark => ("Deny with a remark…".to_owned(), theme.failed()),
        Choice::Edit => ("Edit the input…".to_owned(), theme.accent()),
    };
    let style = if is_chosen { theme.selected() } else { style };
    let mark = if is_chosen { "›" } else { " " };
    let first = [
        Span::raw(format!("{mark} ")),
        Span::styled(format!("{} ", index + 1), theme.accent()),
    ];
    let label = [Span::styled(clean(&label).replace('\n', " "), style)];
    wrap(&label, width, &first, &[Span::raw("    ")])
}

fn put_editor(lines: &mut PromptLines, editor: &Editor, width: usize) {
    let width = width.saturating_sub(4);
    let (row, column) = editor.position(width);
    lines.cursor = Some((lines.answer.len() + row, column + 4));
    for part in editor.rows(width) {
        let text = clean(editor.text().get(part.start..part.end).unwrap_or_default());
        lines.answer.push(Line::raw(format!("  ❯ {text}")));
    }
}

fn put_field(lines: &mut PromptLines, field: &Field, is_current: bool, width: usize, theme: Theme) {
    let mark = if is_current { "›" } else { " " };
    let required = if field.is_required { " *" } else { "" };
    let label = format!("{mark} {}{required}", clean(&field.label).replace('\n', " "));
    let style = if is_current { theme.bold() } else { Style::new() };
    lines.answer.push(Line::styled(one_line(&label, width), style));
    match &field.value {
        FieldValue::Text(editor) | FieldValue::Number { editor, .. } => {
            put_line_editor(lines, editor, is_current, width)
        }
        FieldValue::Boolean(value) => {
            let shown = |is_on: bool, text: &str| match is_on {
                true => Span::styled(format!("(•) {text}  "), theme.bold()),
                false => Span::raw(format!("( ) {text}  ")),
            };
            let spans = vec![
                Span::raw("    "),
                shown(*value == Some(true), "yes (y)"),
                shown(*value == Some(false), "no (n)"),
            ];
            lines.answer.push(Line::from(spans));
            note_line(lines, is_current);
        }
        FieldValue::Select {
            options,
            chosen,
            cursor,
            is_many,
            freeform,
        } => {
            for (index, option) in options.iter().enumerate() {
                let mark = match (is_many, chosen.contains(&index)) {
                    (true, true) => "[x]",
                    (true, false) => "[ ]",
                    (false, true) => "(•)",
                    (false, false) => "( )",
                };
                let about = option
                    .description
                    .as_deref()
                    .map(|about| format!(" — {about}"))
                    .unwrap_or_default();
                let star = if option.recommended == Some(true) {
                    " (recommended)"
                } else {
                    ""
                };
                let text = format!("{mark} {}{star}{about}", option.label);
                let is_here = is_current && *cursor == index;
                let style = if is_here { theme.selected() } else { Style::new() };
                let text = one_line(&text, width.saturating_sub(4));
                lines
                    .answer
                    .push(Line::from(vec![Span::raw("    "), Span::styled(text, style)]));
                note_line(lines, is_here);
            }
            if let Some(editor) = freeform {
                lines
                    .answer
                    .push(Line::styled("    or in your own words:", theme.dim()));
                put_line_editor(lines, editor, is_current && *cursor == options.len(), width);
            }
        }
        FieldValue::Unknown => {}
    }
}

/// Remembers the last line as the one to keep visible.
fn note_line(lines: &mut PromptLines, is_here: bool) {
    if is_here {
        lines.cursor = Some((lines.answer.len().saturating_sub(1), 4));
    }
}

fn put_line_editor(lines: &mut PromptLines, editor: &Editor, is_current: bool, width: usize) {
    let (_, column) = editor.position(usize::MAX);
    let text = one_line(editor.text(), width.saturating_sub(6));
    lines.answer.push(Line::raw(format!("    ❯ {text}")));
    if is_current {
        lines.cursor = Some((lines.answer.len() - 1, (column + 6).min(width.saturating_sub(1))));
    }
}
