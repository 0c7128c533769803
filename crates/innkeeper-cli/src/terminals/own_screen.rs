//! The user's own screen: programs of the attached terminal switch its modes, and detaching switches them back.

use std::collections::BTreeMap;
use std::io::Write as _;

use crate::failure::{Failure, Kind};

/// Private modes that are on before any program changes them: wrapping at the last column, and the cursor.
const ON_BY_DEFAULT: [u16; 2] = [7, 25];
/// The alternate screen, by each of its numbers. It is left last, because the user's own lines are on the other one.
const ALTERNATE: [u16; 3] = [47, 1047, 1049];

/// The user's own screen. Dropped, its modes are as before.
pub(super) struct OwnScreen {
    modes: ScreenModes,
    /// Without a terminal, as in a script, the output has to stay as it is.
    is_terminal: bool,
}

impl OwnScreen {
    pub(super) fn new(is_terminal: bool) -> Self {
        Self {
            modes: ScreenModes::default(),
            is_terminal,
        }
    }

    /// Writes output of the attached terminal, which never ends inside an escape sequence.
    pub(super) fn write(&mut self, text: &str) -> Result<(), Failure> {
        self.modes.follow(text);
        write(text).map_err(|_| Failure::new(Kind::OutputClosed, "the output was closed"))
    }
}

impl Drop for OwnScreen {
    fn drop(&mut self) {
        if self.is_terminal {
            // Nothing is left to do if the output was closed.
            let _ = write(&self.modes.undone());
        }
    }
}

fn write(text: &str) -> std::io::Result<()> {
    let mut stdout = std::io::stdout();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

/// The modes that programs have changed.
#[derive(Debug, Default)]
struct ScreenModes {
    /// Private modes that differ from their default.
    private: BTreeMap<u16, bool>,
    has_region: bool,
    has_keypad: bool,
    has_attributes: bool,
    /// Keys with modifiers are sent in another form.
    has_modified_keys: bool,
}

impl ScreenModes {
    fn follow(&mut self, text: &str) {
        for sequence in text.split('\x1b').skip(1) {
            match sequence.as_bytes().first() {
                Some(b'[') => self.control(&sequence[1..]),
                Some(b'=') => self.has_keypad = true,
                Some(b'>') => self.has_keypad = false,
                // A reset.
                Some(b'c') => *self = Self::default(),
                _ => {}
            }
        }
    }

    /// Follows a control sequence, from the bytes after its introducer.
    fn control(&mut self, sequence: &str) {
        let Some(end) = sequence.find(|c: char| ('\x40'..='\x7e').contains(&c)) else {
            return;
        };
        let (params, last) = (&sequence[..end], sequence.as_bytes()[end]);
        match (params.strip_prefix('?'), last) {
            (Some(numbers), b'h' | b'l') => {
                for mode in numbers.split(';').filter_map(|number| number.parse().ok()) {
                    let is_on = last == b'h';
                    match is_on == ON_BY_DEFAULT.contains(&mode) {
                        true => self.private.remove(&mode),
                        false => self.private.insert(mode, is_on),
                    };
                }
            }
            (None, b'r') => self.has_region = !params.is_empty(),
            (None, b'm') => match params.strip_prefix('>') {
                Some(keys) => self.has_modified_keys = keys.starts_with("4;") && keys != "4;0",
                None => self.has_attributes = !matches!(params, "" | "0"),
            },
            _ => {}
        }
    }

    /// Returns the sequences that switch everything back.
    fn undone(&self) -> String {
        let mut out = String::new();
        if self.has_attributes {
            out.push_str("\x1b[m");
        }
        if self.has_modified_keys {
            out.push_str("\x1b[>4m");
        }
        if self.has_keypad {
            out.push_str("\x1b>");
        }
        if self.has_region {
            // The region moves the cursor, which has to stay.
            out.push_str("\x1b7\x1b[r\x1b8");
        }
        let (last, first): (Vec<_>, Vec<_>) = self.private.iter().partition(|(mode, _)| ALTERNATE.contains(mode));
        for (mode, is_on) in first.into_iter().chain(last) {
            let undo = if *is_on { 'l' } else { 'h' };
            out.push_str(&format!("\x1b[?{mode}{undo}"));
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn undone(pieces: &[&str]) -> String {
        let mut modes = ScreenModes::default();
        for piece in pieces {
            modes.follow(piece);
        }
        modes.undone()
    }

    #[test]
    fn modes_of_a_program_are_switched_back() {
        assert_eq!(undone(&["plain \x1b[31mred\x1b[0m text\r\n"]), "");
        let vim = "\x1b[?1049h\x1b[22;0;0t\x1b[?1h\x1b=\x1b[?2004h\x1b[1;24r\x1b[?12;25l\x1b[?1006;1000h\x1b[7mstatus";
        assert_eq!(
            undone(&[vim]),
            "\x1b[m\x1b>\x1b7\x1b[r\x1b8\x1b[?1l\x1b[?25h\x1b[?1000l\x1b[?1006l\x1b[?2004l\x1b[?1049l"
        );
        let quit = "\x1b[m\x1b[?2004l\x1b[?1l\x1b>\x1b[?25h\x1b[r\x1b[?1000l\x1b[?1006l\x1b[?1049l";
        assert_eq!(undone(&[vim, quit]), "");
        assert_eq!(undone(&[vim, "\x1bc"]), "");
    }

    #[test]
    fn other_sequences_do_not_matter() {
        assert_eq!(undone(&["\x1b]0;[?1049h\x07\x1b(0x\x1b(B\x1b[", "\x1b[2 q"]), "");
        assert_eq!(undone(&["\x1b[>4;2m"]), "\x1b[>4m");
        assert_eq!(undone(&["\x1b[>4;2m", "\x1b[>4m"]), "");
    }
}
