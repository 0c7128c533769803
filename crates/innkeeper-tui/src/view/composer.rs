//! The message that the user writes, and its completions.

use ahp_types::state::MessageAttachment;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::{put_rule, split_top, to_u16};
use crate::app::{App, Focus};
use crate::text::{clean, one_line};

/// Columns before the text.
const INDENT: usize = 2;

/// Returns the number of lines that the message needs: a rule, the attachments and the text.
pub(super) fn height(app: &mut App, width: usize, available: usize) -> usize {
    app.message_width = width.saturating_sub(INDENT);
    let text_width = app.message_width;
    let attachments = usize::from(!app.composer().attachments.is_empty());
    let rows = app.composer().editor.rows(text_width).len();
    let most = (available / 3).max(1);
    1 + attachments + rows.clamp(1, most)
}

pub(super) fn draw(app: &mut App, area: Rect, buffer: &mut Buffer, cursor: &mut Option<(u16, u16)>) {
    let theme = app.setup.theme;
    let width = usize::from(area.width);
    let (rule, mut text_area) = split_top(area, 1);
    put_rule(buffer, rule, Vec::new(), theme.dim());
    let is_focused = app.focus == Focus::Composer;
    let text_width = app.message_width;
    let names: Vec<String> = app.composer().attachments.iter().map(attachment_name).collect();
    if !names.is_empty() {
        let (line, rest) = split_top(text_area, 1);
        let shown = format!("  + {}", names.join(", "));
        buffer.set_stringn(line.x, line.y, one_line(&shown, width), width, theme.accent());
        text_area = rest;
    }
    let composer = app.composer();
    let (row, column) = composer.editor.position(text_width);
    let rows = composer.editor.rows(text_width);
    let visible = usize::from(text_area.height).max(1);
    let skipped = (row + 1).saturating_sub(visible);
    let text = composer.editor.text().to_owned();
    if text.is_empty() {
        let hint = match is_focused {
            true => "Write a message…",
            false => "",
        };
        buffer.set_stringn(text_area.x + 2, text_area.y, hint, text_width, theme.dim());
    }
    for (line, part) in rows.iter().skip(skipped).take(visible).enumerate() {
        let y = text_area.y + to_u16(line);
        let shown = clean(text.get(part.start..part.end).unwrap_or_default());
        buffer.set_stringn(
            text_area.x + to_u16(INDENT),
            y,
            shown,
            text_width,
            ratatui::style::Style::new(),
        );
    }
    let mark = if is_focused { theme.own() } else { theme.dim() };
    buffer.set_string(text_area.x, text_area.y, "❯", mark);
    if is_focused && app.dialog.is_none() {
        let x = text_area.x + to_u16((column + INDENT).min(width.saturating_sub(1)));
        *cursor = Some((x, text_area.y + to_u16(row - skipped)));
    }
    draw_completion(app, area, buffer);
}

/// Returns the name of an attachment.
pub(super) fn attachment_name(attachment: &MessageAttachment) -> String {
    let label = match attachment {
        MessageAttachment::Simple(attachment) => &attachment.label,
        MessageAttachment::EmbeddedResource(attachment) => &attachment.label,
        MessageAttachment::Resource(attachment) => &attachment.label,
        MessageAttachment::Annotations(attachment) => &attachment.label,
        MessageAttachment::Chat(attachment) => &attachment.label,
        MessageAttachment::Unknown(_) => "something unknown",
    };
    one_line(label, 40)
}

fn draw_completion(app: &App, area: Rect, buffer: &mut Buffer) {
    let theme = app.setup.theme;
    let Some(completion) = &app.completion else {
        return;
    };
    let height = to_u16(completion.items.len()).min(area.y);
    for (index, item) in completion.items.iter().take(height.into()).enumerate() {
        let row = area.y - height + to_u16(index);
        let is_chosen = index == completion.cursor;
        let style = if is_chosen { theme.selected() } else { theme.accent() };
        let width = usize::from(area.width);
        let label = one_line(item.insert_text.trim_end(), width / 2);
        let about = match &item.attachment {
            MessageAttachment::Simple(attachment) => attachment
                .meta
                .as_ref()
                .and_then(|meta| meta.get("description")?.as_str())
                .unwrap_or_default(),
            _ => "",
        };
        let line = Line::from(vec![
            Span::styled(format!(" {label} "), style),
            Span::styled(format!(" {about}"), theme.dim()),
        ]);
        buffer.set_string(area.x, row, " ".repeat(width), ratatui::style::Style::new());
        buffer.set_line(area.x, row, &line, area.width);
    }
}
