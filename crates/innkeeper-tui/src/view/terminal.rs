//! Output of programs: as plain text in the chat, and as a screen in a window.

use std::num::NonZeroU16;

use ahp_types::state::{TerminalContentPart, TerminalLifecycleState, TerminalState};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

use crate::text::clean;
use crate::theme::Theme;

/// Bytes of output that are drawn at most.
const MAX_BYTES: usize = 256 << 10;

fn emulator(rows: u16, columns: u16) -> vt100::Parser {
    let at_least_one = |number| NonZeroU16::new(number).unwrap_or(NonZeroU16::MIN);
    vt100::Parser::new(at_least_one(rows), at_least_one(columns), 0)
}

/// Returns output without escape sequences, with the last version of a line that was written over.
pub(super) fn plain(text: &str) -> String {
    if !text.contains(['\x1b', '\r', '\x08']) {
        return text.to_owned();
    }
    let columns = 500;
    let rows = u16::try_from(text.matches('\n').count() + 2)
        .unwrap_or(u16::MAX)
        .min(2000);
    let mut parser = emulator(rows, columns);
    parser.process(text.replace("\r\n", "\n").replace('\n', "\r\n").as_bytes());
    let shown = parser.screen().contents();
    shown.trim_end().to_owned()
}

/// Draws the screen of a terminal, its end if the window is smaller.
pub(super) fn draw(state: &TerminalState, theme: Theme, area: Rect, buffer: &mut Buffer) {
    let size =
        |value: Option<i64>, otherwise: u16| value.and_then(|value| u16::try_from(value).ok()).unwrap_or(otherwise);
    let (columns, rows) = (size(state.cols, 80).clamp(2, 500), size(state.rows, 24).clamp(2, 500));
    let mut parser = emulator(rows, columns);
    for part in &state.content {
        let text = match part {
            TerminalContentPart::Unclassified(part) => &part.value,
            TerminalContentPart::Command(part) => &part.output,
            TerminalContentPart::Unknown(_) => continue,
        };
        let start = text.len().saturating_sub(MAX_BYTES);
        parser.process(text.as_bytes().get(start..).unwrap_or_default());
    }
    let screen = parser.screen();
    let used = (0..rows)
        .rev()
        .find(|row| !row_text(screen, *row, columns).trim().is_empty());
    let last = used.unwrap_or(0).max(screen.cursor_position().0) + 1;
    let skipped = last.saturating_sub(area.height.saturating_sub(1));
    for (y, row) in (area.y..area.bottom().saturating_sub(1)).zip(skipped..last) {
        let line = Line::from(row_spans(screen, row, columns.min(area.width), theme));
        buffer.set_line(area.x, y, &line, area.width);
    }
    let status = match &state.lifecycle {
        TerminalLifecycleState::Running(_) => "running; Enter attaches, Esc closes the window".to_owned(),
        TerminalLifecycleState::Exited(exited) => match exited.exit_code {
            Some(code) => format!("ended with {code}; Esc closes the window"),
            None => "ended; Esc closes the window".to_owned(),
        },
    };
    let bottom = area.bottom().saturating_sub(1);
    buffer.set_stringn(area.x, bottom, status, area.width.into(), theme.dim());
}

fn row_text(screen: &vt100::Screen, row: u16, columns: u16) -> String {
    let cells = (0..columns).filter_map(|column| screen.cell(row, column));
    cells.map(|cell| cell.contents().to_owned()).collect()
}

fn row_spans(screen: &vt100::Screen, row: u16, columns: u16, theme: Theme) -> Vec<Span<'static>> {
    let mut spans: Vec<Span<'static>> = Vec::new();
    for column in 0..columns {
        let Some(cell) = screen.cell(row, column) else {
            continue;
        };
        if cell.is_wide_continuation() {
            continue;
        }
        let text = match cell.has_contents() {
            true => clean(cell.contents()),
            false => " ".to_owned(),
        };
        let style = cell_style(cell, theme);
        match spans.last_mut() {
            Some(last) if last.style == style => last.content.to_mut().push_str(&text),
            _ => spans.push(Span::styled(text, style)),
        }
    }
    spans
}

fn cell_style(cell: &vt100::Cell, theme: Theme) -> Style {
    let mut style = Style::new();
    if theme != Theme::plain() {
        let colour = |colour: vt100::Color| match colour {
            vt100::Color::Default => None,
            vt100::Color::Idx(index) => Some(Color::Indexed(index)),
            vt100::Color::Rgb(red, green, blue) => Some(Color::Rgb(red, green, blue)),
        };
        style.fg = colour(cell.fgcolor());
        style.bg = colour(cell.bgcolor());
    }
    let attributes = [
        (cell.bold(), Modifier::BOLD),
        (cell.italic(), Modifier::ITALIC),
        (cell.underline(), Modifier::UNDERLINED),
        (cell.inverse(), Modifier::REVERSED),
    ];
    for (is_on, modifier) in attributes {
        if is_on {
            style = style.add_modifier(modifier);
        }
    }
    style
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_of_programs_becomes_plain_text() {
        assert_eq!(plain("just text\n"), "just text\n");
        assert_eq!(
            plain("10%\r50%\rdone\n\x1b[31mred\x1b[0m\x1b]0;title\x07 end"),
            "done\nred end"
        );
    }
}
