//! The terminal: notes on standard error, foreign text made safe to show, confirmations and Ctrl-C.

mod browser;
mod confirm;
mod next_command;
mod signals;

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write as _};

use innkeeper_std::text::truncate_chars;

use crate::failure::{Failure, Kind};

pub use browser::open_in_browser;
pub use confirm::confirm;
pub(crate) use next_command::NextCommand;
pub use next_command::{program, quoted};
pub use signals::{StopSignal, StopSignals};

/// Prints a warning on standard error, whatever the log filter says.
pub fn warn(message: &str) {
    note(&format!("innkeeper: warning: {message}"));
}

/// Prints a line on standard error.
pub fn note(line: &str) {
    // A closed standard error is no reason to stop.
    let _ = writeln!(io::stderr(), "{line}");
}

/// Standard output or standard error of a client command, which shows text that came from the host.
#[derive(Debug)]
pub struct Output<W> {
    writer: W,
    /// Terminals act on control characters; files and pipes get the bytes unchanged.
    terminal: bool,
    colour: bool,
}

impl Output<io::Stdout> {
    /// Opens standard output.
    pub fn stdout() -> Self {
        let terminal = io::stdout().is_terminal();
        Self {
            terminal,
            colour: terminal && wants_colour(),
            writer: io::stdout(),
        }
    }
}

impl Output<io::Stderr> {
    /// Opens standard error.
    pub fn stderr() -> Self {
        let terminal = io::stderr().is_terminal();
        Self {
            terminal,
            colour: terminal && wants_colour(),
            writer: io::stderr(),
        }
    }
}

/// Returns whether the user wants styled text, by the convention of `NO_COLOR`.
fn wants_colour() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

impl<W: io::Write> Output<W> {
    /// Returns whether it is a terminal.
    pub(crate) fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// Returns whether styled text can be shown.
    pub(crate) fn has_styles(&self) -> bool {
        self.colour
    }

    /// Returns foreign text as `show` would write it.
    pub(crate) fn safe<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.terminal {
            true => visible(text),
            false => Cow::Borrowed(text),
        }
    }

    /// Writes text of this program, or that [`Self::safe`] returned, and shows it at once.
    pub(crate) fn show_safe(&mut self, text: &str) -> Result<(), Failure> {
        self.writer
            .write_all(text.as_bytes())
            .and_then(|()| self.writer.flush())
            .map_err(|error| closed(&error))
    }

    /// Wraps a writer that gets the bytes unchanged.
    #[cfg(test)]
    pub(crate) fn plain(writer: W) -> Self {
        Self {
            writer,
            terminal: false,
            colour: false,
        }
    }

    /// Writes foreign text and shows it at once.
    pub fn show(&mut self, text: &str) -> Result<(), Failure> {
        let text = self.safe(text);
        self.show_safe(&text)
    }

    /// Writes foreign text like `show`, dimmed on terminals with colours.
    pub fn show_dimmed(&mut self, text: &str) -> Result<(), Failure> {
        if !self.colour {
            return self.show(text);
        }
        write!(self.writer, "\x1b[2m{}\x1b[0m", visible(text))
            .and_then(|()| self.writer.flush())
            .map_err(|error| closed(&error))
    }
}

fn closed(error: &io::Error) -> Failure {
    let kind = match error.kind() {
        io::ErrorKind::BrokenPipe => Kind::OutputClosed,
        _ => Kind::Unexpected,
    };
    Failure::new(kind, format!("the output cannot be written ({error})"))
}

/// Makes control and direction-changing characters visible, so that foreign text cannot drive the terminal.
pub fn visible(text: &str) -> Cow<'_, str> {
    let harmless = |c: char| c == '\n' || c == '\t' || !is_hostile(c);
    if text.chars().all(harmless) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if harmless(c) {
            shown.push(c);
        } else {
            // Writing to a String cannot fail.
            let _ = write!(shown, "{}", c.escape_unicode());
        }
    }
    Cow::Owned(shown)
}

/// Makes foreign text fit on one line, truncated to `limit` characters.
pub fn one_line(text: &str, limit: usize) -> String {
    let flat: String = text
        .chars()
        .map(|c| if c == '\n' || c == '\t' { ' ' } else { c })
        .collect();
    let flat = visible(&flat);
    if flat.chars().count() <= limit {
        return flat.into_owned();
    }
    truncate_chars(&flat, limit.saturating_sub(1)).into_owned()
}

fn is_hostile(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_become_visible() {
        assert_eq!(visible("a\tb\nü"), "a\tb\nü");
        assert_eq!(visible("\x1b]52;c;x\x07"), "\\u{1b}]52;c;x\\u{7}");
        assert_eq!(visible("a\u{202e}b\r"), "a\\u{202e}b\\u{d}");
    }

    #[test]
    fn one_line_is_one_line() {
        assert_eq!(one_line("a\nb", 10), "a b");
        assert_eq!(one_line("abcdef", 4), "abc…");
    }

    #[test]
    fn pipes_get_the_bytes_and_terminals_the_visible_form() {
        for (terminal, expected) in [(false, "\x1b[2J"), (true, "\\u{1b}[2J")] {
            let mut output = Output {
                writer: Vec::new(),
                terminal,
                colour: false,
            };
            output.show("\x1b[2J").unwrap();
            assert_eq!(output.writer, expected.as_bytes());
        }
    }
}
