//! Windows above the chat.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, BorderType, Clear, Widget as _};
use unicode_width::UnicodeWidthStr as _;

use super::{changes, put_lines, terminal, to_u16};
use crate::app::App;
use crate::app::commands::{COMMANDS, OTHER_KEYS};
use crate::app::dialog::{Dialog, Input, NewSession, Picker};
use crate::text::wrap::{wrap, wrap_text};
use crate::text::{clean, one_line};
use crate::theme::Theme;

pub(super) fn draw(app: &mut App, area: Rect, buffer: &mut Buffer, cursor: &mut Option<(u16, u16)>) {
    let theme = app.setup.theme;
    let Some(dialog) = app.dialog.take() else {
        return;
    };
    *cursor = None;
    match &dialog {
        Dialog::Help { scroll } => draw_help(*scroll, theme, area, buffer),
        Dialog::Picker(picker) => draw_picker(picker, theme, area, buffer, cursor),
        Dialog::Input(input) => draw_input(input, theme, area, buffer, cursor),
        Dialog::Confirm { question, .. } => draw_confirm(question, theme, area, buffer),
        Dialog::NewSession(form) => draw_new_session(form, theme, area, buffer, cursor),
        Dialog::Changes(changes) => {
            let inner = window("Changed files", 100, 100, theme, area, buffer);
            changes::draw(app, changes, inner, buffer);
        }
        Dialog::Terminal(uri) => {
            let state = app.mirror.terminals.get(uri);
            let title = state.map_or_else(|| "Terminal".to_owned(), |state| one_line(&state.title, 60));
            let inner = window(&title, 200, 200, theme, area, buffer);
            match state {
                Some(state) => terminal::draw(state, theme, inner, buffer),
                None => drop(buffer.set_stringn(inner.x, inner.y, "Loading…", inner.width.into(), theme.dim())),
            }
        }
    }
    app.dialog = Some(dialog);
}

/// Clears a rectangle in the middle, draws its frame, and returns the inside.
fn window(title: &str, width: usize, height: usize, theme: Theme, area: Rect, buffer: &mut Buffer) -> Rect {
    let width = to_u16(width + 4).min(area.width.saturating_sub(2));
    let height = to_u16(height + 2).min(area.height.saturating_sub(2));
    let outer = Rect {
        x: area.x + (area.width - width) / 2,
        y: area.y + (area.height - height) / 2,
        width,
        height,
    };
    Clear.render(outer, buffer);
    let title = format!(" {} ", one_line(title, usize::from(width).saturating_sub(6)));
    let block = Block::bordered()
        .border_type(BorderType::Rounded)
        .border_style(theme.accent())
        .title(Span::styled(title, theme.bold()));
    let inner = block.inner(outer);
    block.render(outer, buffer);
    Rect {
        x: inner.x + 1,
        width: inner.width.saturating_sub(2),
        ..inner
    }
}

fn draw_help(scroll: usize, theme: Theme, area: Rect, buffer: &mut Buffer) {
    let mut lines = Vec::new();
    let width = usize::from(area.width).saturating_sub(6).min(90);
    let mut add = |keys: &str, what: &str| {
        let padding = 24usize.saturating_sub(keys.width());
        let first = [
            Span::styled(keys.to_owned(), theme.accent()),
            Span::raw(" ".repeat(padding.max(1))),
        ];
        lines.extend(wrap(
            &[Span::raw(what.to_owned())],
            width,
            &first,
            &[Span::raw(" ".repeat(24))],
        ));
    };
    for (keys, what) in OTHER_KEYS {
        add(keys, what);
    }
    for info in COMMANDS.iter().filter(|info| !info.keys.is_empty()) {
        add(info.keys, info.name);
    }
    add("", "");
    for info in COMMANDS.iter().filter(|info| info.keys.is_empty()) {
        add("Ctrl+P, then", info.name);
    }
    let inner = window("Keys (Down scrolls, Esc closes)", 90, lines.len(), theme, area, buffer);
    let hidden = lines.len().saturating_sub(inner.height.into());
    let visible: Vec<Line<'_>> = lines.into_iter().skip(scroll.min(hidden)).collect();
    put_lines(buffer, inner, &visible);
}

fn draw_picker(picker: &Picker, theme: Theme, area: Rect, buffer: &mut Buffer, cursor: &mut Option<(u16, u16)>) {
    let items = picker.visible();
    let rows = picker.items.len().min(18) + 1;
    let inner = window(&picker.title, 84, rows, theme, area, buffer);
    let width = usize::from(inner.width);
    let filter = picker.filter.text();
    let (text, style) = match filter.is_empty() {
        true => ("type to search", theme.dim()),
        false => (filter, Style::new()),
    };
    buffer.set_string(inner.x, inner.y, "❯ ", theme.own());
    buffer.set_stringn(inner.x + 2, inner.y, one_line(text, width), width, style);
    let (_, column) = picker.filter.position(usize::MAX);
    *cursor = Some((inner.x + 2 + to_u16(column.min(width.saturating_sub(3))), inner.y));
    let height = usize::from(inner.height).saturating_sub(1);
    let skipped = (picker.cursor + 1).saturating_sub(height);
    let longest = items.iter().map(|item| clean(&item.label).width()).max().unwrap_or(0);
    let label_width = longest.clamp(1, width * 2 / 3);
    for (index, item) in items.iter().enumerate().skip(skipped).take(height) {
        let row = inner.y + 1 + to_u16(index - skipped);
        let is_chosen = index == picker.cursor;
        let label = one_line(&item.label, label_width);
        let padding = label_width.saturating_sub(label.width()) + 2;
        let style = if is_chosen { theme.selected() } else { Style::new() };
        let detail = one_line(&item.detail, width.saturating_sub(label_width + 4));
        let line = Line::from(vec![
            Span::raw(if is_chosen { "› " } else { "  " }),
            Span::styled(label, style),
            Span::raw(" ".repeat(padding)),
            Span::styled(detail, theme.dim()),
        ]);
        buffer.set_line(inner.x, row, &line, inner.width);
    }
    if items.is_empty() {
        buffer.set_stringn(inner.x + 2, inner.y + 1, "Nothing matches.", width, theme.dim());
    }
}

fn draw_input(input: &Input, theme: Theme, area: Rect, buffer: &mut Buffer, cursor: &mut Option<(u16, u16)>) {
    let inner = window(&input.title, 70, 2, theme, area, buffer);
    put_line_editor(&input.editor, true, inner, buffer, cursor);
    let hint = "Enter takes it, Esc closes the window";
    buffer.set_stringn(
        inner.x,
        inner.bottom().saturating_sub(1),
        hint,
        inner.width.into(),
        theme.dim(),
    );
}

/// Draws one line of text, its end if it is too long.
fn put_line_editor(
    editor: &crate::app::editor::Editor,
    is_focused: bool,
    area: Rect,
    buffer: &mut Buffer,
    cursor: &mut Option<(u16, u16)>,
) {
    let width = usize::from(area.width).saturating_sub(1);
    let before = editor.text().get(..editor.cursor()).unwrap_or_default();
    let hidden = before.width().saturating_sub(width);
    let shown: String = clean(editor.text()).chars().skip(hidden).collect();
    buffer.set_stringn(area.x, area.y, shown, width, Style::new());
    if is_focused {
        *cursor = Some((area.x + to_u16(before.width() - hidden), area.y));
    }
}

fn draw_confirm(question: &str, theme: Theme, area: Rect, buffer: &mut Buffer) {
    let lines = wrap_text(&clean(question), Style::new(), 60, "");
    let inner = window("Please confirm", 60, lines.len() + 2, theme, area, buffer);
    put_lines(buffer, inner, &lines);
    let line = Line::from(vec![
        Span::styled("y", theme.accent()),
        Span::raw(" yes   "),
        Span::styled("n", theme.accent()),
        Span::raw(" no"),
    ]);
    buffer.set_line(inner.x, inner.bottom().saturating_sub(1), &line, inner.width);
}

fn draw_new_session(form: &NewSession, theme: Theme, area: Rect, buffer: &mut Buffer, cursor: &mut Option<(u16, u16)>) {
    let inner = window("New session", 70, form.agents.len().max(1) + 5, theme, area, buffer);
    let width = usize::from(inner.width);
    let title = |is_here: bool| if is_here { theme.bold() } else { theme.dim() };
    buffer.set_stringn(inner.x, inner.y, "Agent (Up, Down)", width, title(!form.in_directory));
    let mut row = inner.y + 1;
    for (index, (_, label)) in form.agents.iter().enumerate() {
        let style = match (index == form.agent, form.in_directory) {
            (true, false) => theme.selected(),
            (true, true) => theme.bold(),
            (false, _) => Style::new(),
        };
        let mark = if index == form.agent { "›" } else { " " };
        let text = one_line(&format!("{mark} {label}"), width);
        if row < inner.bottom() {
            buffer.set_stringn(inner.x, row, text, width, style);
        }
        row += 1;
    }
    let row = (row + 1).min(inner.bottom().saturating_sub(2));
    buffer.set_stringn(
        inner.x,
        row,
        "Directory on the host (Tab)",
        width,
        title(form.in_directory),
    );
    let line = Rect {
        y: row + 1,
        height: 1,
        ..inner
    };
    put_line_editor(&form.directory, form.in_directory, line, buffer, cursor);
}
