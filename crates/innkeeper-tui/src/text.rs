//! Foreign text made safe and fitted to columns.

pub(crate) mod diff;
pub(crate) mod highlight;
pub(crate) mod markdown;
pub(crate) mod time;
pub(crate) mod wrap;

use innkeeper_cli::terminal::visible;
use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthStr as _;

/// Columns between tab stops.
const TAB: usize = 4;

/// Makes foreign text harmless on a terminal: control and direction-changing characters become visible, and tabs become
/// spaces, because a cell holds neither. Line breaks stay; a carriage return before one is dropped.
pub(crate) fn clean(text: &str) -> String {
    let text = text.replace("\r\n", "\n");
    let text = visible(&text);
    if !text.contains('\t') {
        return text.into_owned();
    }
    let mut clean = String::with_capacity(text.len() + 16);
    let mut column = 0;
    for part in text.graphemes(true) {
        match part {
            "\t" => {
                let spaces = TAB - column % TAB;
                clean.extend(std::iter::repeat_n(' ', spaces));
                column += spaces;
            }
            "\n" => {
                clean.push('\n');
                column = 0;
            }
            part => {
                clean.push_str(part);
                column += part.width();
            }
        }
    }
    clean
}

/// Makes foreign text harmless and puts it on one line of at most so many columns.
pub(crate) fn one_line(text: &str, columns: usize) -> String {
    let flat: Vec<&str> = text.split(['\n', '\t']).collect();
    truncate(&clean(&flat.join(" ")), columns)
}

/// Truncates harmless text to so many columns, with an ellipsis if something is missing.
pub(crate) fn truncate(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    let mut short = String::new();
    let mut used = 0;
    for part in text.graphemes(true) {
        if used + part.width() + 1 > columns {
            break;
        }
        used += part.width();
        short.push_str(part);
    }
    if columns > 0 {
        short.push('…');
    }
    short
}

/// Returns the path of a `file:` URI as users write it; other URIs stay as they are.
pub(crate) fn path_of(uri: &str, home: Option<&str>) -> String {
    let file = url::Url::parse(uri).ok().filter(|url| url.scheme() == "file");
    let path = file.and_then(|url| url.to_file_path().ok());
    let Some(path) = path else {
        return one_line(uri, 400);
    };
    let path = path.to_string_lossy();
    let short = home.and_then(|home| match path.strip_prefix(home)? {
        "" => Some("~".to_owned()),
        rest if rest.starts_with('/') => Some(format!("~{rest}")),
        _ => None,
    });
    one_line(&short.unwrap_or_else(|| path.into_owned()), 400)
}

/// Shortens a path to its end, which says most.
pub(crate) fn truncate_path(path: &str, columns: usize) -> String {
    if path.width() <= columns {
        return path.to_owned();
    }
    let mut tail: Vec<&str> = Vec::new();
    let mut used = 1;
    for part in path.graphemes(true).rev() {
        if used + part.width() > columns {
            break;
        }
        used += part.width();
        tail.push(part);
    }
    tail.push("…");
    tail.into_iter().rev().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_and_direction_marks_are_defused() {
        let hostile = "a\x1b]0;owned\x07b\x1b[2J\u{202e}c\rd\u{9b}31m";
        let shown = clean(hostile);
        assert!(shown.chars().all(|c| !c.is_control() && c != '\u{202e}'), "{shown:?}");
        assert_eq!(one_line("a\nb\tc\x1b", 40), "a b c\\u{1b}");
    }

    #[test]
    fn columns_are_counted_by_width() {
        assert_eq!(truncate("日本語テキスト", 7), "日本語…");
        assert_eq!(truncate("e\u{301}galite\u{301}", 4), "e\u{301}ga…");
        assert_eq!(truncate("short", 5), "short");
        assert_eq!(clean("a\tb"), "a   b");
    }

    #[test]
    fn paths_begin_with_the_home_directory() {
        assert_eq!(path_of("file:///srv/ada/inn%20a", Some("/srv/ada")), "~/inn a");
        assert_eq!(path_of("file:///srv/adams", Some("/srv/ada")), "/srv/adams");
        assert_eq!(path_of("ahp-session:/x", None), "ahp-session:/x");
        assert_eq!(truncate_path("~/a/long/path", 7), "…g/path");
    }
}
