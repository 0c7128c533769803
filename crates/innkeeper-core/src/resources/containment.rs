//! Decides by URI whether one resource lies in another.

/// Longest URI that is remembered.
const MAX_URI_BYTES: usize = 8192;

/// Checks that a URI can be remembered as a root.
pub(super) fn check_root(uri: &str) -> Result<(), String> {
    match uri.len() <= MAX_URI_BYTES {
        true => Ok(()),
        false => Err(format!("has {} bytes; the limit is {MAX_URI_BYTES}", uri.len())),
    }
}

/// Whether a URI is a root or inside it. `file:` URIs are compared by their decoded path segments; all others only as
/// a whole. Symlinks are not known here: the resource service resolves them, and refuses paths that leave the root.
pub(super) fn is_within(uri: &str, place: &str) -> bool {
    if uri == place {
        return true;
    }
    match (names(uri), names(place)) {
        (Some(inner), Some(outer)) => inner.starts_with(&outer),
        _ => false,
    }
}

/// The path segments of a `file:` URI. `None` if the URI is not a local file or is ambiguous.
fn names(uri: &str) -> Option<Vec<Vec<u8>>> {
    const SCHEME: &str = "file:";
    let scheme = uri.get(..SCHEME.len())?;
    let rest = uri
        .get(SCHEME.len()..)
        .filter(|_| scheme.eq_ignore_ascii_case(SCHEME))?;
    let path = match rest.strip_prefix("//") {
        Some(rest) => {
            let (host, path) = rest.split_at(rest.find('/')?);
            (host.is_empty() || host.eq_ignore_ascii_case("localhost")).then_some(path)?
        }
        None => rest,
    };
    let is_odd = path.contains(['?', '#', '\\']) || path.ends_with(char::is_whitespace);
    if is_odd || !path.starts_with('/') {
        return None;
    }
    let mut names: Vec<Vec<u8>> = Vec::new();
    for part in path.split('/') {
        let name = decoded(part)?;
        match name.as_slice() {
            b"" | b"." => {}
            b".." => drop(names.pop()),
            _ => names.push(name),
        }
    }
    Some(names)
}

/// Percent-decodes a segment. `None` for an invalid escape or a forbidden byte.
fn decoded(part: &str) -> Option<Vec<u8>> {
    let mut name = Vec::with_capacity(part.len());
    let mut bytes = part.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            name.push(byte);
            continue;
        }
        let mut digit = || char::from(bytes.next()?).to_digit(16);
        let byte = u8::try_from(digit()? * 16 + digit()?).ok()?;
        if matches!(byte, 0 | b'/' | b'\\') {
            return None;
        }
        name.push(byte);
    }
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn res14_a_file_lies_in_a_directory_however_both_are_spelled() {
        let place = "file:///srv/my%20work";
        for inside in [
            "file:///srv/my%20work",
            "file:///srv/my%20work/",
            "file:///srv/my work/a.txt",
            "FILE://localhost/srv//my%20work/./a",
            "file:///srv/x/../my%20work/a",
            "file:///srv/x/%2E%2e/my%20work",
            "file:/srv/my%20work/a",
        ] {
            assert!(is_within(inside, place), "{inside}");
        }
        for outside in [
            "file:///srv/my%20works",
            "file:///srv",
            "file:///srv/my%20work/../other",
            "file:///srv/my%20work/%2e%2e/other",
            "file://server/srv/my%20work/a",
            "file:///srv/my%20work/a?b",
            "file:///srv/my%20work/a%2fb",
            "file:///srv/my%20work/a%",
            "file:///srv/my%20work/a%0",
            "file:///srv/my%20work\\a",
            "untitled:/srv/my%20work/a",
            "",
        ] {
            assert!(!is_within(outside, place), "{outside}");
        }
        assert!(is_within("untitled:x", "untitled:x"), "others only as a whole");
        assert!(!is_within("untitled:x/y", "untitled:x"));
        assert!(is_within("file:///anything", "file:///"));
    }
}
