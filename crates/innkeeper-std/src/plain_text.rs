//! Output of a terminal as plain text, for models.

/// Bytes of one line after which it is passed on, although it may still be written over.
const MAX_LINE: usize = 64 << 10;

/// Removes escape sequences, and keeps of a line that was written several times, such as a progress bar, the last
/// version.
///
/// ```
/// let mut text = innkeeper_std::PlainText::default();
/// let mut plain = String::new();
/// text.push("\x1b[1m10%\r100%\x1b[0m\r\n", &mut |line| plain.push_str(line));
/// assert_eq!(plain, "100%\n");
/// ```
#[derive(Debug, Default)]
pub struct PlainText {
    line: String,
    /// The cursor went back to the beginning of the line.
    is_returned: bool,
}

impl PlainText {
    /// Takes output that ends in no escape sequence, and passes complete lines on.
    pub fn push(&mut self, text: &str, pass_on: &mut dyn FnMut(&str)) {
        let mut chars = text.chars();
        while let Some(c) = chars.next() {
            match c {
                '\x1b' => skip_sequence(&mut chars),
                '\r' => self.is_returned = true,
                '\n' => {
                    self.is_returned = false;
                    self.line.push('\n');
                    self.flush(pass_on);
                }
                '\x08' => {
                    self.line.pop();
                }
                '\t' => self.add(c, pass_on),
                c if c.is_control() => {}
                c => self.add(c, pass_on),
            }
        }
    }

    /// Passes the last line on.
    pub fn flush(&mut self, pass_on: &mut dyn FnMut(&str)) {
        pass_on(&std::mem::take(&mut self.line));
    }

    fn add(&mut self, c: char, pass_on: &mut dyn FnMut(&str)) {
        if std::mem::take(&mut self.is_returned) {
            self.line.clear();
        }
        self.line.push(c);
        if self.line.len() >= MAX_LINE {
            self.flush(pass_on);
        }
    }
}

/// Skips the rest of an escape sequence.
fn skip_sequence(chars: &mut std::str::Chars<'_>) {
    match chars.next() {
        Some('[') => {
            chars.find(|c| ('\x40'..='\x7e').contains(c));
        }
        Some(']' | 'P' | 'X' | '^' | '_') => {
            while let Some(c) = chars.next() {
                match c {
                    '\x07' | '\x18' | '\x1a' => return,
                    '\x1b' => {
                        chars.next();
                        return;
                    }
                    _ => {}
                }
            }
        }
        Some('\x20'..='\x2f') => {
            chars.find(|c| ('\x30'..='\x7e').contains(c));
        }
        Some(_) | None => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(pieces: &[&str]) -> String {
        let mut output = String::new();
        let mut text = PlainText::default();
        for piece in pieces {
            text.push(piece, &mut |line| output.push_str(line));
        }
        text.flush(&mut |line| output.push_str(line));
        output
    }

    #[test]
    fn escape_sequences_are_left_out() {
        let coloured = "\x1b[1;31merror\x1b[0m: \x1b]8;;http://x\x1b\\link\x1b]8;;\x07\x1b(B\tü\x07\r\n";
        assert_eq!(plain(&[coloured]), "error: link\tü\n");
        assert_eq!(plain(&["\x1b[?1049h\x1bPq#0\x1b\\a\x1b=b\x1b[2J"]), "ab");
    }

    #[test]
    fn of_a_progress_bar_its_last_state_is_left() {
        assert_eq!(plain(&["10%\r", "50%\r100%\r", "\ndone\r\n"]), "100%\ndone\n");
        assert_eq!(plain(&["abx\x08c\r\n"]), "abc\n");
        assert_eq!(plain(&["no line end"]), "no line end");
    }
}
