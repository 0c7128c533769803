//! Text of a server, made visible before users approve it: a server could use text that reads differently from its
//! meaning, or invisible characters, to make a model do something that users did not allow.

use std::iter::Peekable;
use std::str::Chars;

/// Returns text of a server for users and their terminals: without escape sequences and control characters, which could
/// rewrite the terminal, and with invisible characters as `\u{…}`. Line breaks and tabs stay.
pub fn defused(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\n' | '\t' => plain.push(c),
            // Terminals go back to the beginning of the line, and what is written next would hide what stands there.
            '\r' if chars.peek() == Some(&'\n') => {}
            '\r' => plain.push('\n'),
            '\u{1b}' => match chars.next_if(|next| !next.is_control()) {
                Some('[') => skip_sequence(&mut chars),
                Some(']' | 'P' | 'X' | '^' | '_') => skip_string(&mut chars),
                // One character in the middle announces another one.
                Some(' '..='/') => drop(chars.next_if(|next| !next.is_control())),
                Some(_) | None => {}
            },
            '\u{9b}' => skip_sequence(&mut chars),
            '\u{90}' | '\u{98}' | '\u{9d}'..='\u{9f}' => skip_string(&mut chars),
            c if c.is_control() => {}
            c => plain.push(c),
        }
    }
    visible(&plain)
}

/// Skips the rest of a control sequence (ECMA-48): parameters, and the character that ends it.
fn skip_sequence(chars: &mut Peekable<Chars<'_>>) {
    while chars.next_if(|c| matches!(c, ' '..='?')).is_some() {}
    chars.next_if(|c| matches!(c, '@'..='~'));
}

/// Skips the rest of a control string, such as a title or a link. One without an end ends with its line.
fn skip_string(chars: &mut Peekable<Chars<'_>>) {
    while let Some(c) = chars.next_if(|c| *c != '\n') {
        match c {
            '\u{7}' | '\u{9c}' => return,
            '\u{1b}' if chars.next_if_eq(&'\\').is_some() => return,
            _ => {}
        }
    }
}

/// The text, with what does not show or turns the order of what does as `\u{…}`.
pub(crate) fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match is_hidden(c) {
            true => shown.extend(c.escape_unicode()),
            false => shown.push(c),
        }
    }
    shown
}

fn is_hidden(c: char) -> bool {
    matches!(c,
        // Marks, overrides and isolates of direction.
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{206f}'
        // No width at all.
        | '\u{ad}' | '\u{34f}' | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200d}' | '\u{2060}'..='\u{2065}'
        | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
        // Letters that are blank.
        | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{3164}' | '\u{ffa0}'
        // Variants of what stands before them, except the emoji selector; and tags.
        | '\u{fe00}'..='\u{fe0e}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t15_invisible_characters_are_shown_by_code_point() {
        for (text, expected) in [
            ("Grüße ☎\u{fe0f} \t日本", "Grüße ☎\u{fe0f} \t日本"),
            ("a\u{202e}b\u{2066}c", "a\\u{202e}b\\u{2066}c"),
            ("pass\u{200b}word\u{feff}", "pass\\u{200b}word\\u{feff}"),
            ("\u{e0041}\u{e0100}", "\\u{e0041}\\u{e0100}"),
        ] {
            assert_eq!(visible(text), expected);
        }
    }

    #[test]
    fn t15_escape_sequences_of_a_server_reach_no_terminal() {
        for (text, expected) in [
            ("plain\n\ttext ü", "plain\n\ttext ü"),
            ("\u{1b}[1;31merror\u{1b}[0m: no", "error: no"),
            ("\u{1b}[2J\u{1b}[Hfake prompt$ ", "fake prompt$ "),
            (
                "\u{1b}]0;title\u{7}a\u{1b}]8;;https://x\u{1b}\\link\u{1b}]8;;\u{1b}\\",
                "alink",
            ),
            ("\u{9b}31mred\u{9d}52;c;ZXZpbA==\u{9c}!", "red!"),
            ("no end \u{1b}]0;title\nnext line", "no end \nnext line"),
            (
                "all is well\rfailed\r\nnext\u{8}\u{7f}\u{0}",
                "all is well\nfailed\nnext",
            ),
            ("\u{1b}(Bx\u{1b}", "x"),
            ("a\u{202e}b", "a\\u{202e}b"),
        ] {
            assert_eq!(defused(text), expected, "{text:?}");
        }
    }
}
