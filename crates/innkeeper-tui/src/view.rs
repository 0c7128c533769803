//! Draws the state of the screen.

mod changes;
mod composer;
mod dialog;
mod header;
mod prompt;
mod sidebar;
mod terminal;
mod tool_call;
mod transcript;

use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use crate::app::App;

/// Columns below which the list of sessions gives way to the chat.
const NARROW: u16 = 60;

/// Draws everything.
pub fn draw(app: &mut App, frame: &mut Frame<'_>) {
    let area = frame.area();
    let mut cursor = None;
    draw_on(app, area, frame.buffer_mut(), &mut cursor);
    if let Some((column, row)) = cursor {
        frame.set_cursor_position((column, row));
    }
}

fn draw_on(app: &mut App, area: Rect, buffer: &mut Buffer, cursor: &mut Option<(u16, u16)>) {
    if area.width < 20 || area.height < 6 {
        buffer.set_stringn(
            0,
            0,
            "The terminal is too small.",
            area.width.into(),
            app.setup.theme.bold(),
        );
        return;
    }
    let (content, hints) = split_bottom(area, 1);
    let shows_list = !app.sidebar.is_hidden && content.width >= NARROW;
    let list_width = match shows_list {
        true => (content.width / 3).clamp(22, 36),
        false => 0,
    };
    app.sidebar.width = list_width.into();
    let (list, chat) = split_left(content, list_width);
    if shows_list {
        sidebar::draw(app, list, buffer);
    }
    let chat = Rect {
        x: chat.x + u16::from(shows_list),
        width: chat.width - u16::from(shows_list),
        ..chat
    };
    draw_chat(app, chat, buffer, cursor);
    header::draw_hints(app, hints, buffer);
    dialog::draw(app, area, buffer, cursor);
}

fn draw_chat(app: &mut App, area: Rect, buffer: &mut Buffer, cursor: &mut Option<(u16, u16)>) {
    let (head, rest) = split_top(area, 2);
    header::draw(app, head, buffer);
    let width = usize::from(rest.width);
    let composer_height = composer::height(app, width, usize::from(rest.height));
    let (rest, bottom) = split_bottom(rest, to_u16(composer_height));
    let prompt_lines = prompt::lines(app, width);
    let room = usize::from(rest.height);
    let wanted = prompt::height(app, &prompt_lines, room);
    let (rest, middle) = split_bottom(rest, to_u16(wanted));
    transcript::draw(app, rest, buffer);
    if wanted > 0 {
        prompt::draw(app, &prompt_lines, middle, buffer, cursor);
    }
    composer::draw(app, bottom, buffer, cursor);
}

/// Writes lines from the top of an area; further lines are cut off.
fn put_lines(buffer: &mut Buffer, area: Rect, lines: &[Line<'_>]) {
    for (row, line) in (area.y..area.bottom()).zip(lines) {
        buffer.set_line(area.x, row, line, area.width);
    }
}

/// Writes a horizontal line with a title in it.
fn put_rule(buffer: &mut Buffer, area: Rect, title: Vec<Span<'static>>, style: ratatui::style::Style) {
    let mut spans = vec![Span::styled("─", style)];
    spans.extend(title);
    let used: usize = spans.iter().map(Span::width).sum();
    let rest = usize::from(area.width).saturating_sub(used);
    spans.push(Span::styled("─".repeat(rest), style));
    buffer.set_line(area.x, area.y, &Line::from(spans), area.width);
}

fn split_bottom(area: Rect, height: u16) -> (Rect, Rect) {
    let height = height.min(area.height);
    let top = Rect {
        height: area.height - height,
        ..area
    };
    let bottom = Rect {
        y: area.y + top.height,
        height,
        ..area
    };
    (top, bottom)
}

fn split_top(area: Rect, height: u16) -> (Rect, Rect) {
    split_bottom(area, area.height.saturating_sub(height))
}

fn split_left(area: Rect, width: u16) -> (Rect, Rect) {
    let width = width.min(area.width);
    let left = Rect { width, ..area };
    let right = Rect {
        x: area.x + width,
        width: area.width - width,
        ..area
    };
    (left, right)
}

fn to_u16(number: usize) -> u16 {
    u16::try_from(number).unwrap_or(u16::MAX)
}
