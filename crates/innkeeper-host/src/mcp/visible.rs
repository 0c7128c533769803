//! What a server wrote, so that people see all of it before they say yes: a text that reads one way and means
//! another, or has words that nobody sees, is how a server would get a model to do what people did not allow.

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
        // Variants of what stands before them, but for that which makes a picture of it; and tags.
        | '\u{fe00}'..='\u{fe0e}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t15_what_nobody_would_see_is_shown_by_its_number() {
        for (text, expected) in [
            ("Grüße ☎\u{fe0f} \t日本", "Grüße ☎\u{fe0f} \t日本"),
            ("a\u{202e}b\u{2066}c", "a\\u{202e}b\\u{2066}c"),
            ("pass\u{200b}word\u{feff}", "pass\\u{200b}word\\u{feff}"),
            ("\u{e0041}\u{e0100}", "\\u{e0041}\\u{e0100}"),
        ] {
            assert_eq!(visible(text), expected);
        }
    }
}
