//! Looks through output for the sequences that matter to its screen.
//!
//! Output of most programs consists of lines: text, colours, and changes of the line that the cursor is in. Of such
//! output only the last lines matter. The scan finds where it begins.

use std::num::NonZeroU16;

use memchr::{memchr2_iter, memchr3};
use vt100::Parser;

use super::modes::{Modes, line_drawing};

/// The scroll region that is the whole screen.
const WHOLE: (u16, u16) = (1, u16::MAX);
const ESC: u8 = 0x1b;
const BACKSPACE: u8 = 0x08;
const SHIFT_OUT: u8 = 0x0e;
const SHIFT_IN: u8 = 0x0f;

/// The result of a look through a text.
#[derive(Debug, Default)]
pub(super) struct Scan {
    /// From here on, the text consists of lines.
    pub(super) lines_from: usize,
    /// The modes after the text.
    pub(super) modes: Modes,
    /// The text has sequences that the emulator does not know.
    needs_translation: bool,
}

/// One sequence of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sequence<'a> {
    /// `CSI`, its parameters and its last byte.
    Csi(&'a str, u8),
    /// `ESC`, an intermediate byte if there is one, and the last byte.
    Escape(Option<u8>, u8),
    /// A string, such as a title.
    String,
    /// A shift to the other character set.
    Shift(bool),
}

impl Scan {
    pub(super) fn of(text: &str) -> Self {
        let mut scan = Self {
            needs_translation: edge_control(text.as_bytes()).is_some(),
            ..Self::default()
        };
        for (_, sequence, end) in sequences(text) {
            let before = scan.modes;
            scan.modes.follow(sequence);
            let is_known = match sequence {
                Sequence::Csi(params, b'h' | b'l') => !params.contains("104"),
                Sequence::Csi(_, b's' | b'u' | b'a' | b'e' | b'r') | Sequence::Escape(None, b'D' | b'E' | b'M') => {
                    false
                }
                Sequence::Csi(_, last) if leaves_edge(last) => false,
                Sequence::Escape(Some(b'#'), b'8') => false,
                Sequence::Csi(..) | Sequence::Escape(..) | Sequence::String | Sequence::Shift(_) => true,
            };
            scan.needs_translation |= !is_known || scan.modes.changes_text() != before.changes_text();
            if !is_within_line(sequence) {
                scan.lines_from = end;
            }
        }
        scan
    }

    /// Writes a part of the text to the emulator, in the modes that are in force at its beginning.
    pub(super) fn write(&self, emulator: &mut Parser, text: &str, modes: Modes) {
        if self.needs_translation {
            translate(emulator, text, modes);
        } else {
            emulator.process(text.as_bytes());
        }
    }
}

impl Modes {
    /// Applies one sequence.
    fn follow(&mut self, sequence: Sequence<'_>) {
        match sequence {
            Sequence::Csi(params, last @ (b'h' | b'l')) => {
                let is_on = last == b'h';
                match params.strip_prefix('?') {
                    Some(private) => private.split(';').for_each(|mode| self.set_private(mode, is_on)),
                    None if params.split(';').any(|mode| mode == "4") => self.inserts = is_on,
                    None => {}
                }
            }
            Sequence::Csi(params, b'r') => {
                if let Some(region) = region(params) {
                    self.region = (region != WHOLE).then_some(region);
                }
            }
            // A full reset.
            Sequence::Escape(None, b'c') => *self = Self::default(),
            Sequence::Escape(Some(b'('), set) => self.graphics[0] = set == b'0',
            Sequence::Escape(Some(b')'), set) => self.graphics[1] = set == b'0',
            Sequence::Shift(is_shifted) => self.is_shifted = is_shifted,
            Sequence::Csi(..) | Sequence::Escape(..) | Sequence::String => {}
        }
    }
}

/// Returns true if a sequence changes nothing but the line that the cursor is in, or attributes.
fn is_within_line(sequence: Sequence<'_>) -> bool {
    match sequence {
        Sequence::Csi(params, last) => match last {
            b'm' | b'K' | b'G' | b'C' | b'D' | b'X' | b'P' | b'@' | b'`' | b'n' | b'c' | b'q' => true,
            b'h' | b'l' => matches!(params, "?25" | "?2004" | "?2026" | "?1004" | "?12"),
            _ => false,
        },
        Sequence::String => true,
        Sequence::Escape(..) | Sequence::Shift(_) => false,
    }
}

/// Writes only the attributes and the modes of a text.
pub(super) fn write_attributes(emulator: &mut Parser, text: &str) {
    for (start, sequence, end) in sequences(text) {
        if matches!(sequence, Sequence::Csi(_, b'm' | b'h' | b'l' | b'q')) {
            emulator.process(&text.as_bytes()[start..end]);
        }
    }
}

/// Writes a text to the emulator in sequences that it knows.
fn translate(emulator: &mut Parser, text: &str, mut modes: Modes) {
    let mut from = 0;
    for (start, sequence, end) in sequences(text) {
        write_text(emulator, &text[from..start], modes);
        modes.follow(sequence);
        match sequence {
            Sequence::Escape(None, b'D') => {
                leave_edge(emulator);
                emulator.process(b"\n");
            }
            Sequence::Escape(None, b'E') => emulator.process(b"\r\n"),
            Sequence::Escape(None, b'M') => {
                leave_edge(emulator);
                // The emulator scrolls also when the cursor is above the region.
                let is_at_top = emulator.screen().cursor_position().0 + 1 == modes.top();
                emulator.process(if is_at_top { b"\x1bM" } else { b"\x1b[A" });
            }
            Sequence::Escape(Some(b'#'), b'8') => fill_with_e(emulator),
            Sequence::Csi("?1047", b'h') => emulator.process(b"\x1b[?47h\x1b[2J"),
            Sequence::Csi("?1047", b'l') => emulator.process(b"\x1b[?47l"),
            Sequence::Csi("", b's') | Sequence::Csi("?1048", b'h') => emulator.process(b"\x1b7"),
            Sequence::Csi("", b'u') | Sequence::Csi("?1048", b'l') => emulator.process(b"\x1b8"),
            Sequence::Csi(count, b'A') => move_up_or_down(emulator, modes, count, b'A'),
            Sequence::Csi(count, b'B' | b'e') => move_up_or_down(emulator, modes, count, b'B'),
            Sequence::Csi(_, last) if leaves_edge(last) => {
                leave_edge(emulator);
                emulator.process(&text.as_bytes()[start..end]);
            }
            Sequence::Csi(params, b'r') => {
                let rows = emulator.screen().size().0.get();
                if region(params).is_some_and(|(top, bottom)| top < bottom.min(rows)) {
                    emulator.process(&text.as_bytes()[start..end]);
                    // The emulator moves the cursor into the region.
                    emulator.process(b"\x1b[H");
                }
            }
            Sequence::Csi(count, b'a') => emulator.process(format!("\x1b[{count}C").as_bytes()),
            _ => emulator.process(&text.as_bytes()[start..end]),
        }
        from = end;
    }
    write_text(emulator, &text[from..], modes);
}

/// Returns the scroll region that parameters of `CSI r` name; none if it is impossible, and ignored.
fn region(params: &str) -> Option<(u16, u16)> {
    let mut rows = params.split(';').map(|row| row.parse().unwrap_or(0_u16));
    let (top, bottom) = (rows.next().unwrap_or(0), rows.next().unwrap_or(0));
    let bottom = if bottom == 0 { WHOLE.1 } else { bottom };
    let is_possible = !params.starts_with('?') && top.max(1) < bottom;
    is_possible.then_some((top.max(1), bottom))
}

/// Returns true if a sequence counts from the last column when the cursor is behind it. The emulator counts from there.
fn leaves_edge(last: u8) -> bool {
    matches!(
        last,
        b'A'..=b'D' | b'd' | b'J' | b'K' | b'L' | b'M' | b'P' | b'X' | b'@'
    )
}

/// Returns the position of the first backspace, or of the first line feed without a carriage return before it.
fn edge_control(text: &[u8]) -> Option<usize> {
    let is_line_end = |at: usize| text[at] == b'\n' && at.checked_sub(1).is_some_and(|before| text[before] == b'\r');
    memchr2_iter(BACKSPACE, b'\n', text).find(|at| !is_line_end(*at))
}

/// Moves a cursor that is behind the last column onto it.
fn leave_edge(emulator: &mut Parser) {
    let (_, width) = emulator.screen().size();
    if emulator.screen().cursor_position().1 >= width.get() {
        emulator.process(format!("\x1b[{width}G").as_bytes());
    }
}

/// Moves the cursor up or down. It stops at the edges of the scroll region also when it comes from outside.
fn move_up_or_down(emulator: &mut Parser, modes: Modes, count: &str, direction: u8) {
    leave_edge(emulator);
    let row = emulator.screen().cursor_position().0 + 1;
    let (top, bottom) = modes.region.unwrap_or(WHOLE);
    let room = match direction {
        b'A' => row.checked_sub(top),
        _ => bottom.checked_sub(row),
    };
    let count = count.parse().unwrap_or(1_u16).max(1).min(room.unwrap_or(u16::MAX));
    if count > 0 {
        emulator.process(format!("\x1b[{count}{}", char::from(direction)).as_bytes());
    }
}

/// Fills the screen with the letter E, as a test of its alignment does.
fn fill_with_e(emulator: &mut Parser) {
    let (rows, cols) = emulator.screen().size();
    let attributes = emulator.screen().attributes_formatted();
    let row = "E".repeat(cols.get().into());
    emulator.process(b"\x1b[m\x1b[r");
    for number in 1..=rows.get() {
        emulator.process(format!("\x1b[{number};1H{row}").as_bytes());
    }
    emulator.process(b"\x1b[H");
    emulator.process(attributes.as_bytes());
}

/// Writes text without sequences in modes that the emulator does not know.
fn write_text(emulator: &mut Parser, text: &str, modes: Modes) {
    let drawn: String;
    let text = if modes.draws_lines() {
        drawn = text.chars().map(line_drawing).collect();
        &drawn
    } else {
        text
    };
    if !modes.inserts && !modes.is_unwrapped {
        let mut rest = text.as_bytes();
        while let Some(at) = edge_control(rest) {
            let (before, from) = rest.split_at(at);
            emulator.process(before);
            leave_edge(emulator);
            let (control, after) = from.split_at(1);
            emulator.process(control);
            rest = after;
        }
        return emulator.process(rest);
    }
    let (_, width) = emulator.screen().size();
    let mut bytes = [0; 4];
    for c in text.chars() {
        let before = emulator.screen().cursor_position();
        if modes.inserts && !c.is_control() && before.1 < width.get() {
            make_room(emulator, c);
        }
        emulator.process(c.encode_utf8(&mut bytes).as_bytes());
        if modes.is_unwrapped && emulator.screen().cursor_position().1 >= width.get() {
            // The next character is written over the last one.
            emulator.process(format!("\x1b[{width}G").as_bytes());
        }
    }
}

/// Moves the text behind the cursor to the right by the width of a character.
fn make_room(emulator: &mut Parser, c: char) {
    let mut measure = Parser::new(NonZeroU16::MIN, NonZeroU16::MIN.saturating_add(3), 0);
    measure.process(c.encode_utf8(&mut [0; 4]).as_bytes());
    let (_, width) = measure.screen().cursor_position();
    if width > 0 {
        emulator.process(format!("\x1b[{width}@").as_bytes());
    }
}

/// Returns the sequences of a text with their first byte and the first byte after them. The text has no incomplete
/// sequences, except at its end.
fn sequences(text: &str) -> impl Iterator<Item = (usize, Sequence<'_>, usize)> {
    let bytes = text.as_bytes();
    let mut from = 0;
    std::iter::from_fn(move || {
        let start = from + memchr3(ESC, SHIFT_OUT, SHIFT_IN, bytes.get(from..)?)?;
        let (sequence, end) = match bytes[start] {
            SHIFT_OUT => (Sequence::Shift(true), start + 1),
            SHIFT_IN => (Sequence::Shift(false), start + 1),
            _ => sequence_at(text, start)?,
        };
        from = end;
        Some((start, sequence, end))
    })
}

/// Returns the sequence that begins with an escape character.
fn sequence_at(text: &str, start: usize) -> Option<(Sequence<'_>, usize)> {
    let bytes = text.as_bytes();
    let body = start + 2;
    match bytes.get(start + 1)? {
        b'[' => {
            let length = bytes
                .get(body..)?
                .iter()
                .position(|byte| (0x40..=0x7e).contains(byte))?;
            let end = body + length;
            Some((Sequence::Csi(text.get(body..end)?, bytes[end]), end + 1))
        }
        b']' | b'P' | b'X' | b'^' | b'_' => {
            let rest = bytes.get(body..)?;
            let length = rest.iter().position(|byte| matches!(byte, 0x07 | 0x18 | 0x1a | 0x1b))?;
            let is_terminator = rest.get(length..)?.starts_with(b"\x1b\\");
            let end = match rest[length] {
                ESC if is_terminator => body + length + 2,
                // Another sequence aborts it.
                ESC => body + length,
                _ => body + length + 1,
            };
            Some((Sequence::String, end))
        }
        intermediate @ 0x20..=0x2f => {
            let last = *bytes.get(body)?;
            let length = text.get(body..)?.chars().next()?.len_utf8();
            Some((Sequence::Escape(Some(*intermediate), last), body + length))
        }
        // An escape character begins again.
        &ESC => Some((Sequence::String, start + 1)),
        last => {
            let length = text.get(start + 1..)?.chars().next()?.len_utf8();
            Some((Sequence::Escape(None, *last), start + 1 + length))
        }
    }
}
