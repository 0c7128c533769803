//! The list of sessions.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr as _;

use super::put_lines;
use crate::app::sidebar::{Row, Sign, is_archived, sign};
use crate::app::{App, Focus};
use crate::text::time::age;
use crate::text::{one_line, truncate_path};
use crate::theme::Theme;

/// Returns the sign of a state, which is understandable without colours.
pub(super) fn shown_sign(sign: Sign, theme: Theme) -> Span<'static> {
    match sign {
        Sign::Waits => Span::styled("!", theme.waits()),
        Sign::Works => Span::styled("◐", theme.busy()),
        Sign::Failed => Span::styled("✗", theme.failed()),
        Sign::Unread => Span::styled("●", theme.accent()),
        Sign::Idle => Span::raw(" "),
    }
}

pub(super) fn draw(app: &mut App, area: Rect, buffer: &mut Buffer) {
    let theme = app.setup.theme;
    let width = usize::from(area.width);
    let title = match app.sidebar.filter.is_empty() {
        true => "Sessions".to_owned(),
        false => format!("Sessions with “{}”", one_line(&app.sidebar.filter, 20)),
    };
    let mut head = vec![Span::styled(
        title,
        match app.focus {
            Focus::Sessions => theme.selected(),
            _ => theme.bold(),
        },
    )];
    let waiting = app.waiting_count();
    if waiting > 0 {
        head.push(Span::styled(format!(" !{waiting}"), theme.waits()));
    }
    let mut lines = vec![Line::from(head), Line::default()];
    let mut drawn: Vec<Option<String>> = vec![None, None];
    let rows = app.rows();
    if rows.is_empty() {
        lines.push(Line::styled("No sessions yet.", theme.dim()));
    }
    let mut cursor_line = 0;
    for (index, row) in rows.iter().enumerate() {
        match row {
            Row::Group(name) => {
                if index > 0 {
                    lines.push(Line::default());
                    drawn.push(None);
                }
                lines.push(Line::styled(truncate_path(name, width - 1), theme.dim()));
                drawn.push(None);
            }
            Row::Session(uri) => {
                if app.sidebar.cursor.as_ref() == Some(uri) {
                    cursor_line = lines.len();
                }
                lines.push(session_line(app, uri, width));
                drawn.push(Some(uri.clone()));
            }
        }
    }
    let height = usize::from(area.height);
    let skipped = (cursor_line + 2).saturating_sub(height);
    let visible: Vec<Line<'_>> = lines.into_iter().skip(skipped).collect();
    app.sidebar.drawn = drawn.into_iter().skip(skipped).collect();
    put_lines(buffer, area, &visible);
    for row in area.y..area.bottom() {
        buffer.set_string(area.right(), row, "│", theme.dim());
    }
}

fn session_line(app: &App, uri: &str, width: usize) -> Line<'static> {
    let theme = app.setup.theme;
    let Some(summary) = app.mirror.summaries.get(uri) else {
        return Line::default();
    };
    let age = age(&summary.modified_at, app.now);
    let is_shown = app.session_uri() == Some(uri);
    let mark = if is_shown { "▸" } else { " " };
    let room = width.saturating_sub(age.width() + 5);
    let mut title = match summary.title.is_empty() {
        true => "(no title)".to_owned(),
        false => one_line(&summary.title, room),
    };
    if is_archived(summary) {
        title = one_line(&format!("[archived] {title}"), room);
    }
    let padding = room.saturating_sub(title.width()) + 1;
    let title_style = match (
        app.focus == Focus::Sessions && app.sidebar.cursor.as_deref() == Some(uri),
        is_shown,
    ) {
        (true, _) => theme.selected(),
        (false, true) => theme.bold(),
        (false, false) => ratatui::style::Style::new(),
    };
    Line::from(vec![
        Span::raw(mark),
        shown_sign(sign(summary.status), theme),
        Span::raw(" "),
        Span::styled(title, title_style),
        Span::raw(" ".repeat(padding)),
        Span::styled(age, theme.dim()),
    ])
}
