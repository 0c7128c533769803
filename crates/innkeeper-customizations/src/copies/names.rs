//! Names that clients send, which may be anything, and the URIs of their files.

use std::fmt::Write as _;

/// Maximum bytes of a file name.
const MAX_BYTES: usize = 255;

/// Whether a name is an entry of a directory, and no path to a parent or elsewhere.
pub(super) fn is_plain(name: &str) -> bool {
    let is_odd = |c: char| matches!(c, '/' | '\\' | '\0') || c.is_control();
    !name.is_empty() && name != "." && name != ".." && name.len() <= MAX_BYTES && !name.chars().any(is_odd)
}

/// Whether an entry of this name is not copied: it belongs to tools, and is large.
pub(super) fn is_left_out(name: &str) -> bool {
    matches!(name, ".git" | "node_modules" | ".DS_Store")
}

/// Returns the URI of a name in a directory. A query stays at the end.
pub(super) fn below(directory: &str, name: &str) -> String {
    let (path, rest) = match directory.find(['?', '#']) {
        Some(at) => directory.split_at(at),
        None => (directory, ""),
    };
    let query = rest.split('#').next().unwrap_or("");
    let mut uri = path.strip_suffix('/').unwrap_or(path).to_owned();
    uri.push('/');
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            let _ = write!(uri, "%{byte:02X}");
        }
    }
    uri.push_str(query);
    uri
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p20_names_that_lead_anywhere_are_refused() {
        for name in ["", ".", "..", "a/b", "../x", "/etc", "a\\b", "a\0b", "a\nb"] {
            assert!(!is_plain(name), "{name:?}");
        }
        assert!(!is_plain(&"x".repeat(256)));
        for name in ["SKILL.md", ".mcp.json", "…", "..x", "a b"] {
            assert!(is_plain(name), "{name:?}");
        }
    }

    #[test]
    fn uris_of_children_keep_scheme_and_query() {
        assert_eq!(below("virtual://c/p", "a b"), "virtual://c/p/a%20b");
        assert_eq!(below("virtual://c/p/", "é#?"), "virtual://c/p/%C3%A9%23%3F");
        assert_eq!(below("virtual://c/p?v=1#top", "x"), "virtual://c/p/x?v=1");
        assert_eq!(below("scheme:///scope/", "x"), "scheme:///scope/x");
    }
}
