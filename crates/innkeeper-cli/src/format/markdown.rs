//! Markdown as plain text for a terminal.

use ahp_types::common::StringOrMarkdown;

/// Returns a message without markdown escapes, and with the label of each link instead of the link.
pub fn plain_text(message: &StringOrMarkdown) -> String {
    match message {
        StringOrMarkdown::Plain(text) => text.clone(),
        StringOrMarkdown::Markdown { markdown } => without_links(markdown),
    }
}

fn without_links(markdown: &str) -> String {
    let mut words = String::new();
    let mut rest = markdown;
    while let Some(c) = rest.chars().next() {
        if let Some((label, after)) = link(rest) {
            words.push_str(&unescaped(label));
            rest = after;
            continue;
        }
        let taken = match c {
            '\\' => c.len_utf8() + rest[1..].chars().next().map_or(0, char::len_utf8),
            _ => c.len_utf8(),
        };
        let (piece, after) = rest.split_at(taken);
        words.push_str(&unescaped(piece));
        rest = after;
    }
    words
}

/// Returns the label of a link at the start of the text, and the text after the link.
fn link(text: &str) -> Option<(&str, &str)> {
    let inner = text.strip_prefix('[')?;
    let mut is_escaped = false;
    let end = inner.find(|c| match c {
        ']' if !is_escaped => true,
        c => {
            is_escaped = c == '\\' && !is_escaped;
            false
        }
    })?;
    let (label, after) = inner.split_at(end);
    let target = after.strip_prefix("](")?;
    let (_, after) = target.split_once(')')?;
    Some((label, after))
}

fn unescaped(text: &str) -> String {
    let mut out = String::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match chars.peek() {
            Some(next) if c == '\\' && next.is_ascii_punctuation() => {}
            _ => {
                out.push(c);
                continue;
            }
        }
        out.extend(chars.next());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_shows_the_label_of_a_link() {
        for (markdown, expected) in [
            (
                "Reads [src/my\\_main.rs](file:///inn/src/my_main.rs) (3 lines)",
                "Reads src/my_main.rs (3 lines)",
            ),
            ("Changes [a\\](b\\).txt](file:///a%5D%28b%29.txt)", "Changes a](b).txt"),
            ("no link [here] or \\[there\\]", "no link [here] or [there]"),
            ("ends with \\", "ends with \\"),
            ("", ""),
        ] {
            assert_eq!(without_links(markdown), expected);
        }
    }
}
