//! Finding words, lines and closing brackets in code.

/// Returns the positions of a pattern, not counting those inside a longer name.
pub(crate) fn find_word(code: &str, pattern: &str) -> Vec<usize> {
    let bytes = code.as_bytes();
    let starts_as_name = pattern.bytes().next().is_some_and(is_identifier_byte);
    let ends_as_name = pattern.bytes().last().is_some_and(is_identifier_byte);
    code.match_indices(pattern)
        .map(|(start, _)| start)
        .filter(|start| {
            let before = start.checked_sub(1).map(|at| bytes[at]);
            let after = bytes.get(start + pattern.len()).copied();
            !(starts_as_name && before.is_some_and(is_identifier_byte)
                || ends_as_name && after.is_some_and(is_identifier_byte))
        })
        .collect()
}

/// Returns the number of the line that holds a position.
pub(crate) fn line_at(text: &str, position: usize) -> usize {
    1 + text.bytes().take(position).filter(|byte| *byte == b'\n').count()
}

/// Returns the number of the first line that starts with a key of a manifest, or 1.
pub(crate) fn line_naming(manifest: &str, key: &str) -> usize {
    let found = manifest.lines().position(|line| {
        let rest = line.trim_start().strip_prefix(key);
        rest.is_some_and(|rest| rest.starts_with([' ', '.', '=']))
    });
    found.map_or(1, |index| index + 1)
}

/// Returns where the bracket that opens at `open` is closed.
pub(crate) fn matching_close(code: &str, open: usize) -> Option<usize> {
    let mut depth = 0usize;
    for (offset, byte) in code.bytes().enumerate().skip(open) {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(offset);
                }
            }
            _ => {}
        }
    }
    None
}

fn is_identifier_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_not_found_inside_longer_names() {
        assert_eq!(find_word("spawn( respawn( spawn_x(", "spawn("), [0]);
        assert_eq!(find_word("InstantMessage Instant", "Instant"), [15]);
    }

    #[test]
    fn brackets_are_matched_across_kinds() {
        assert_eq!(matching_close("a(b[c{}])d", 1), Some(8));
        assert_eq!(matching_close("a(b", 1), None);
    }

    #[test]
    fn keys_of_manifests_are_found() {
        let manifest = "[dependencies]\ntokio-util = \"1\"\ntokio.workspace = true\n";
        assert_eq!(line_naming(manifest, "tokio"), 3);
        assert_eq!(line_naming(manifest, "absent"), 1);
    }
}
