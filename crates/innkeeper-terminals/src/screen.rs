//! Replaces output by a shorter text that draws the same screen.
//!
//! The text has the scrollback, the screen and, while a program uses it, the alternate screen; then the position of the
//! cursor and the modes. A client that writes it to an empty terminal of the same size continues as if it had seen all
//! of the output. The emulator is `vt100`; it lives only as long as one call, so an idle terminal costs the memory of
//! its text.

mod modes;
mod scan;

use std::num::NonZeroU16;

use innkeeper_host::terminals::TerminalSize;
use memchr::memrchr_iter;
use vt100::{Cell, Color, Parser, Screen};

use self::modes::Modes;
use self::scan::Scan;

/// Lines of scrollback that are retained.
pub(crate) const SCROLLBACK: usize = 1000;
/// Bytes of scrollback and screen that are retained; lines with many colours are long.
const MAX_BYTES: usize = 1 << 20;

/// Returns a text with the same effect on an empty screen as the given one, at most `SCROLLBACK` lines longer than
/// the screen.
pub fn compact(text: &str, size: TerminalSize) -> String {
    let scan = Scan::of(text);
    let mut emulator = Parser::new(at_least_one(size.rows), at_least_one(size.cols), SCROLLBACK);
    feed(&mut emulator, text, &scan, size);
    render(&mut emulator, &scan.modes)
}

fn at_least_one(number: u16) -> NonZeroU16 {
    NonZeroU16::new(number).unwrap_or(NonZeroU16::MIN)
}

/// Writes a text to the emulator. Lines that the later ones push out of the scrollback are left out, because most of a
/// flood of output consists of them.
fn feed(emulator: &mut Parser, text: &str, scan: &Scan, size: TerminalSize) {
    let (before, lines) = text.split_at(scan.lines_from);
    scan.write(emulator, before, Modes::default());
    // The first lines may be written over others, at most a screen of them.
    let needed = SCROLLBACK + 2 * usize::from(size.rows.max(1)) + 1;
    let start = memrchr_iter(b'\n', lines.as_bytes())
        .skip(needed)
        .find(|at| lines[..*at].ends_with('\r'))
        .map(|at| at + 1);
    match start {
        Some(start) if scan.modes.region.is_none() && !emulator.screen().alternate_screen() => {
            let (skipped, lines) = lines.split_at(start);
            scan::write_attributes(emulator, skipped);
            emulator.process(b"\r");
            scan.write(emulator, lines, scan.modes);
        }
        // Within lines, no sequence changes the character set.
        _ => scan.write(emulator, lines, scan.modes),
    }
}

/// Returns the text that draws the state of the emulator.
fn render(emulator: &mut Parser, modes: &Modes) -> String {
    let mut out = String::new();
    let input_modes = emulator.screen().input_mode_formatted();
    let is_hidden = emulator.screen().hide_cursor();
    if emulator.screen().alternate_screen() {
        let mut alternate = String::new();
        write_rows(&mut alternate, emulator.screen_mut());
        write_cursors(&mut alternate, emulator, modes);
        // Leaving it restores the cursor and the attributes that the program finds afterwards.
        emulator.process(b"\x1b[?1049l");
        write_rows(&mut out, emulator.screen_mut());
        write_cursor(&mut out, emulator.screen(), 0);
        out.push_str("\x1b[?1049h\x1b[m\x1b[H");
        out.push_str(&alternate);
    } else {
        write_rows(&mut out, emulator.screen_mut());
        write_cursors(&mut out, emulator, modes);
    }
    modes.write(&mut out);
    out.push_str(&input_modes);
    if is_hidden {
        out.push_str("\x1b[?25l");
    }
    out
}

/// Writes the scrollback and the rows of the screen in use, as many as fit into [`MAX_BYTES`].
fn write_rows(out: &mut String, screen: &mut Screen) {
    let (height, _) = screen.size();
    let scrolled = screen.scrollback_len();
    let mut rows: Vec<Row> = Vec::with_capacity(scrolled + usize::from(height.get()));
    for offset in (1..=scrolled).rev() {
        screen.set_scrollback(offset);
        rows.push(Row::of(screen, 0));
    }
    screen.set_scrollback(0);
    rows.extend((0..height.get()).map(|row| Row::of(screen, row)));
    let mut first = rows.len();
    let mut bytes = 0;
    for (index, row) in rows.iter().enumerate().rev() {
        bytes += row.text.len() + 2;
        if bytes > MAX_BYTES && index < scrolled {
            break;
        }
        first = index;
    }
    // Below an empty scrollback, empty rows at the end are as good as none.
    let is_needed = |row: &Row| first < scrolled || !row.text.is_empty();
    let end = rows.iter().rposition(is_needed).map_or(first, |last| last + 1);
    let rows = &rows[first.min(end)..end];
    for (index, row) in rows.iter().enumerate() {
        out.push_str(&row.text);
        // A full row continues in the next one without a line end, so that clients can select the whole line.
        match rows.get(index + 1) {
            Some(next) if !(row.wraps && next.begins_with_text) => out.push_str("\r\n"),
            _ => {}
        }
    }
}

/// One row as text.
struct Row {
    text: String,
    /// It continues in the next row.
    wraps: bool,
    begins_with_text: bool,
}

impl Row {
    fn of(screen: &Screen, row: u16) -> Self {
        let mut text = String::new();
        let style = write_row(&mut text, screen, row);
        if style != Style::default() {
            text.push_str("\x1b[m");
        }
        Self {
            text,
            wraps: screen.row_wrapped(row),
            begins_with_text: screen.cell(row, 0).is_some_and(Cell::has_contents),
        }
    }
}

/// Writes one row without empty cells at its end, and returns the attributes that are in force after it.
fn write_row(out: &mut String, screen: &Screen, row: u16) -> Style {
    let (_, width) = screen.size();
    let mut style = Style::default();
    // Empty cells are written when another cell follows.
    let mut empty = 0;
    for col in 0..width.get() {
        let Some(cell) = screen.cell(row, col) else {
            break;
        };
        if cell.is_wide_continuation() {
            continue;
        }
        let own = Style::of(cell);
        if !cell.has_contents() && own == Style::default() {
            empty += 1;
            continue;
        }
        if empty > 0 {
            Style::default().write(out, &mut style);
            out.extend(std::iter::repeat_n(' ', std::mem::take(&mut empty)));
        }
        own.write(out, &mut style);
        out.push_str(if cell.has_contents() { cell.contents() } else { " " });
    }
    style
}

/// Writes the scroll region, the saved cursor and the cursor. The emulator's cursor is the saved one afterwards.
fn write_cursors(out: &mut String, emulator: &mut Parser, modes: &Modes) {
    let mut cursor = String::new();
    if modes.is_relative {
        cursor.push_str("\x1b[?6h");
    }
    write_cursor(&mut cursor, emulator.screen(), modes.first_row());
    emulator.process(b"\x1b8");
    let saved = emulator.screen();
    modes.write_region(out, saved.size().0.get());
    if saved.cursor_position() != (0, 0) || saved.attributes_formatted() != "\x1b[m" {
        write_cursor(out, saved, 0);
        out.push_str("\x1b7");
        let ((row, col), (_, width)) = (saved.cursor_position(), saved.size());
        let is_empty =
            |cell: &Cell| !cell.has_contents() && !cell.is_wide_continuation() && Style::of(cell) == Style::default();
        if col >= width.get() && saved.cell(row, width.get() - 1).is_some_and(is_empty) {
            // Something was written there only to lead the cursor behind it.
            out.push_str(&format!("\x1b[m\x1b[{};{width}H\x1b[X", row + 1));
        }
    }
    out.push_str(&cursor);
}

/// Places the cursor and sets the attributes of the text that follows. Rows count from the given one.
fn write_cursor(out: &mut String, screen: &Screen, first_row: u16) {
    let (_, width) = screen.size();
    let (at, col) = screen.cursor_position();
    let row = at.saturating_sub(first_row);
    if col < width.get() {
        out.push_str(&format!("\x1b[{};{}H", row + 1, col + 1));
    } else {
        // Behind the last column: only writing there leads to it.
        let mut last = width.get() - 1;
        if screen.cell(at, last).is_some_and(Cell::is_wide_continuation) {
            last = last.saturating_sub(1);
        }
        out.push_str(&format!("\x1b[{};{}H\x1b[m", row + 1, last + 1));
        if let Some(cell) = screen.cell(at, last) {
            Style::of(cell).write(out, &mut Style::default());
            out.push_str(if cell.has_contents() { cell.contents() } else { " " });
        }
    }
    out.push_str(&screen.attributes_formatted());
}

/// The attributes of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Style {
    foreground: Color,
    background: Color,
    /// Bold, dim, italic, underlined, inverse: the codes that switch them on are 1, 2, 3, 4 and 7.
    flags: [bool; 5],
}

impl Default for Style {
    fn default() -> Self {
        Self {
            foreground: Color::Default,
            background: Color::Default,
            flags: [false; 5],
        }
    }
}

impl Style {
    fn of(cell: &Cell) -> Self {
        Self {
            foreground: cell.fgcolor(),
            background: cell.bgcolor(),
            flags: [cell.bold(), cell.dim(), cell.italic(), cell.underline(), cell.inverse()],
        }
    }

    /// Writes the sequence that sets these attributes, unless they are in force.
    fn write(self, out: &mut String, in_force: &mut Self) {
        if self == std::mem::replace(in_force, self) {
            return;
        }
        out.push_str("\x1b[0");
        for (is_on, code) in self.flags.into_iter().zip(["1", "2", "3", "4", "7"]) {
            if is_on {
                out.push(';');
                out.push_str(code);
            }
        }
        write_color(out, self.foreground, 38);
        write_color(out, self.background, 48);
        out.push('m');
    }
}

fn write_color(out: &mut String, color: Color, code: u8) {
    match color {
        Color::Default => {}
        Color::Idx(index) => out.push_str(&format!(";{code};5;{index}")),
        Color::Rgb(red, green, blue) => out.push_str(&format!(";{code};2;{red};{green};{blue}")),
    }
}

#[cfg(test)]
mod tests;
