//! Unit tests: which URIs are annotations, and how a remark is told.

use super::*;
use crate::agent::Remark;

#[test]
fn ann01_the_channel_is_named_after_its_session() {
    let session_of = |uri| Annotations::session_of(uri);
    assert_eq!(session_of("ahp-session:/one/annotations"), Some("ahp-session:/one"));
    assert_eq!(session_of("copilot:/4f/annotations"), Some("copilot:/4f"));
    assert_eq!(session_of("ahp-session:/one"), None);
    assert_eq!(session_of("ahp-session:/one/annotations/x"), None);
    assert_eq!(session_of("ahp-chat:/c/annotations"), None, "a chat has none");
    assert_eq!(session_of("ahp-root://x/annotations"), None);
}

#[test]
fn ann08_a_remark_names_its_file_and_lines_as_editors_count() {
    let remark = |span: Option<(u64, u64, u64, u64)>, resolved| Remark {
        file: "file:///a.rs".to_owned(),
        span: span.map(|(start_line, start_character, end_line, end_character)| TextSpan {
            start_line,
            start_character,
            end_line,
            end_character,
        }),
        resolved,
        texts: vec!["Why?".to_owned(), "Because.".to_owned()],
    };
    let lines = |span| remark(Some(span), false).lines();
    assert_eq!(lines((2, 0, 2, 9)), "line 3");
    assert_eq!(lines((2, 0, 3, 0)), "line 3", "the next line is not part of it");
    assert_eq!(lines((2, 4, 6, 1)), "lines 3 to 7");
    assert_eq!(lines((2, 0, 2, 0)), "line 3", "a cursor");
    assert_eq!(remark(None, false).in_words("a.rs"), "a.rs:\nWhy?\n---\nBecause.\n");
    let told = remark(Some((0, 0, 0, 1)), true).in_words("a.rs");
    assert_eq!(told, "a.rs, line 1 (resolved):\nWhy?\n---\nBecause.\n");
}
