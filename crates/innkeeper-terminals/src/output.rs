//! Splits the output of a program into text and events.
//!
//! Escape sequences are recognized by `vte`. Those of shell integration become events and are left out; all others stay
//! in the text as they are. A piece of text never ends inside an escape sequence or a character: the rest waits for the
//! bytes that complete it.

mod detection;
mod osc;

use innkeeper_host::terminals::TerminalEvent;
use memchr::memchr;
use vte::{Params, Parser, Perform};

use self::detection::Detection;

/// The longest operating system command that is understood. Longer ones are passed on, or dropped by [`MAX_SEQUENCE`].
const OSC_BYTES: usize = 8 << 10;
/// The longest escape sequence that is passed on. A longer one, such as an image, is dropped.
const MAX_SEQUENCE: usize = 1 << 20;
/// The longest title.
const MAX_TITLE: usize = 1024;

const ESC: u8 = 0x1b;

/// Turns bytes into [`TerminalEvent`]s.
pub struct OutputParser {
    sequences: Box<Parser<OSC_BYTES>>,
    /// The escape sequence that is not complete yet; empty between sequences.
    sequence: Vec<u8>,
    is_in_sequence: bool,
    /// The sequence is too long and dropped when it ends.
    is_dropped: bool,
    /// An operating system command that ended with the escape character of its terminator.
    unterminated: Option<Unterminated>,
    /// Text and sequences to pass on.
    text: Vec<u8>,
    detection: Detection,
    title: String,
    directory: String,
    /// No escape sequence is passed on.
    is_plain: bool,
}

/// An operating system command whose terminator `ESC \` is not complete yet.
struct Unterminated {
    bytes: Vec<u8>,
    is_kept: bool,
}

/// The meaning of a complete escape sequence.
#[derive(Debug, Default)]
struct Meaning {
    /// The parameters of an operating system command.
    osc: Option<Vec<Vec<u8>>>,
    /// `ESC \`, which ends a string.
    is_terminator: bool,
    /// The sequence is complete.
    is_complete: bool,
    /// It ended without a meaning, and text followed.
    is_malformed: bool,
}

impl OutputParser {
    /// Creates a parser. Only reports of shell integration with the nonce are believed once one has arrived.
    pub fn new(nonce: impl Into<String>) -> Self {
        Self {
            sequences: Box::new(Parser::new_with_size()),
            sequence: Vec::new(),
            is_in_sequence: false,
            is_dropped: false,
            unterminated: None,
            text: Vec::new(),
            detection: Detection::new(nonce.into()),
            title: String::new(),
            directory: String::new(),
            is_plain: false,
        }
    }

    /// Creates a parser for the output of one command: it begins with the first output, and ends with the last.
    pub fn of_command(line: impl Into<String>) -> Self {
        Self {
            detection: Detection::of_command(line.into()),
            ..Self::new("")
        }
    }

    /// Leaves all escape sequences out, because the text is not for a terminal (TRM-16).
    pub fn without_sequences(self) -> Self {
        Self { is_plain: true, ..self }
    }

    /// Adds the events before any output.
    pub fn begin(&mut self, events: &mut Vec<TerminalEvent>) {
        self.detection.begin(events);
    }

    /// Takes output and adds the events that follow from it.
    pub fn push(&mut self, bytes: &[u8], events: &mut Vec<TerminalEvent>) {
        let mut rest = bytes;
        while !rest.is_empty() {
            if self.is_in_sequence {
                rest = self.continue_sequence(rest, events);
            } else {
                let end = memchr(ESC, rest).unwrap_or(rest.len());
                let (text, after) = rest.split_at(end);
                self.text.extend_from_slice(text);
                rest = after;
                self.is_in_sequence = !rest.is_empty();
            }
        }
        self.flush(Flush::Characters, events);
    }

    /// Passes on everything that still waits, because no more output follows and the program has ended.
    pub fn finish(&mut self, exit_code: Option<i64>, events: &mut Vec<TerminalEvent>) {
        // An incomplete sequence would swallow text that is written after it.
        self.sequence.clear();
        self.unterminated = None;
        self.is_in_sequence = false;
        self.flush(Flush::Everything, events);
        self.detection.finish(exit_code, events);
    }

    /// Continues an escape sequence, and returns the bytes after it.
    fn continue_sequence<'a>(&mut self, bytes: &'a [u8], events: &mut Vec<TerminalEvent>) -> &'a [u8] {
        let mut meaning = Meaning::default();
        let read = self.sequences.advance_until_terminated(&mut meaning, bytes);
        let (read, rest) = bytes.split_at(read);
        if self.is_dropped || self.sequence.len() + read.len() > MAX_SEQUENCE {
            self.is_dropped = true;
            self.sequence.clear();
            // The escape character that ends it begins the next one.
            if meaning.is_complete && read.last() == Some(&ESC) {
                self.is_dropped = meaning.osc.is_some();
                self.sequence.push(ESC);
            }
        } else {
            self.sequence.extend_from_slice(read);
        }
        if let Some(params) = meaning.osc {
            self.osc(&params, events);
        }
        if meaning.is_complete && self.sequence.last() != Some(&ESC) {
            self.end_sequence(meaning.is_terminator);
            if meaning.is_malformed {
                // The parser has read text after the sequence, and may have kept the beginning of a character.
                *self.sequences = Parser::new_with_size();
            }
        }
        rest
    }

    /// Handles an operating system command. Its terminator is complete, or its last byte is the escape character of it.
    fn osc(&mut self, params: &[Vec<u8>], events: &mut Vec<TerminalEvent>) {
        let mut is_kept = !self.is_dropped && !self.is_plain;
        let params: Vec<&[u8]> = params.iter().map(Vec::as_slice).collect();
        match osc::parse(&params) {
            Some(osc::Osc::Integration(report)) => {
                is_kept = false;
                self.flush(Flush::Everything, events);
                if let Some(directory) = self.detection.report(&report, events) {
                    self.set_directory(directory, events);
                }
            }
            Some(osc::Osc::Directory(directory)) => {
                is_kept = false;
                self.set_directory(directory, events);
            }
            Some(osc::Osc::Title(title)) => self.set_title(title, events),
            None => {}
        }
        let ends_in_escape = self.sequence.last() == Some(&ESC);
        let mut bytes = std::mem::take(&mut self.sequence);
        if ends_in_escape {
            bytes.pop();
            self.sequence.push(ESC);
            self.unterminated = Some(Unterminated { bytes, is_kept });
            self.is_dropped = false;
        } else if is_kept {
            self.text.append(&mut bytes);
        }
    }

    /// Ends a sequence: everything that is not left out becomes part of the text.
    fn end_sequence(&mut self, is_terminator: bool) {
        let mut keeps_terminator = true;
        if let Some(mut osc) = self.unterminated.take() {
            keeps_terminator = osc.is_kept;
            if osc.is_kept {
                self.text.append(&mut osc.bytes);
            }
        }
        if !self.is_dropped && !self.is_plain && (!is_terminator || keeps_terminator) {
            self.text.append(&mut self.sequence);
        }
        self.sequence.clear();
        self.is_dropped = false;
        self.is_in_sequence = false;
    }

    fn set_title(&mut self, title: String, events: &mut Vec<TerminalEvent>) {
        let title = innkeeper_std::text::prefix(&title, MAX_TITLE).to_owned();
        if title != self.title {
            self.title.clone_from(&title);
            self.flush(Flush::Everything, events);
            events.push(TerminalEvent::Title(title));
        }
    }

    fn set_directory(&mut self, directory: String, events: &mut Vec<TerminalEvent>) {
        if directory != self.directory {
            self.directory.clone_from(&directory);
            self.flush(Flush::Everything, events);
            events.push(TerminalEvent::Directory(directory));
        }
    }

    /// Adds the text so far to the events.
    fn flush(&mut self, flush: Flush, events: &mut Vec<TerminalEvent>) {
        let complete = match flush {
            Flush::Everything => self.text.len(),
            Flush::Characters => self.text.len() - incomplete_character(&self.text),
        };
        if complete == 0 {
            return;
        }
        let rest = self.text.split_off(complete);
        let bytes = std::mem::replace(&mut self.text, rest);
        let text = String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into());
        let text = without_c1(text);
        match events.last_mut() {
            Some(TerminalEvent::Data(data)) => data.push_str(&text),
            _ => events.push(TerminalEvent::Data(text)),
        }
    }
}

/// How much of the text is passed on.
#[derive(Clone, Copy)]
enum Flush {
    /// All of it. Bytes that are no characters are replaced.
    Everything,
    /// All but the beginning of a character.
    Characters,
}

/// Returns the length of an incomplete character at the end of a text.
fn incomplete_character(text: &[u8]) -> usize {
    for back in 1..=3.min(text.len()) {
        let byte = text[text.len() - back];
        let length = match byte {
            0xC2..=0xDF => 2,
            0xE0..=0xEF => 3,
            0xF0..=0xF4 => 4,
            0x80..=0xBF => continue,
            _ => return 0,
        };
        return if length > back { back } else { 0 };
    }
    0
}

/// Removes control characters of eight bits. Some emulators take them for the beginnings of escape sequences, others do
/// not, and no program needs them.
fn without_c1(text: String) -> String {
    let is_c1 = |c: char| ('\u{80}'..='\u{9f}').contains(&c);
    // The first byte of their encoding is rare, and shared with few characters.
    if memchr(0xC2, text.as_bytes()).is_some() && text.contains(is_c1) {
        return text.replace(is_c1, "");
    }
    text
}

impl Perform for Meaning {
    fn print(&mut self, _: char) {
        // A malformed sequence has ended before this character.
        self.is_malformed = true;
        self.is_complete = true;
    }

    fn execute(&mut self, byte: u8) {
        // CAN and SUB abort a sequence; other controls may stand inside one.
        self.is_complete |= matches!(byte, 0x18 | 0x1a);
    }

    fn unhook(&mut self) {
        self.is_complete = true;
    }

    fn osc_dispatch(&mut self, params: &[&[u8]], _: bool) {
        self.osc = Some(params.iter().map(|param| param.to_vec()).collect());
        self.is_complete = true;
    }

    fn csi_dispatch(&mut self, _: &Params, _: &[u8], _: bool, _: char) {
        self.is_complete = true;
    }

    fn esc_dispatch(&mut self, intermediates: &[u8], _: bool, byte: u8) {
        self.is_terminator = intermediates.is_empty() && byte == b'\\';
        self.is_complete = true;
    }

    fn terminated(&self) -> bool {
        self.is_complete
    }
}

#[cfg(test)]
mod tests;
