//! Compares workspaces by their URI in any spelling.
//!
//! A session shows the spelling that its client chose (E-50). A decision for a workspace holds for every spelling.

use std::borrow::Cow;

/// One spelling for all of those that mean the same directory: without a slash at the end, doubled slashes and
/// single dots, and with one way to encode a character. Only `file:` URIs are known well enough for that.
pub(super) fn key(directory: &str) -> Cow<'_, str> {
    normal(directory).map_or(Cow::Borrowed(directory), Cow::Owned)
}

/// Whether two URIs mean one directory.
pub(super) fn is_same(one: &str, other: &str) -> bool {
    one == other || key(one) == key(other)
}

fn normal(uri: &str) -> Option<String> {
    let (scheme, rest) = uri.split_once(':')?;
    if !scheme.eq_ignore_ascii_case("file") || rest.contains(['?', '#']) {
        return None;
    }
    let (host, path) = match rest.strip_prefix("//") {
        Some(rest) => rest.split_at(rest.find('/')?),
        None => ("", rest),
    };
    let host = match host.to_ascii_lowercase() {
        local if local == "localhost" => String::new(),
        host => host,
    };
    let names = path.strip_prefix('/')?.split('/').map(name);
    let names: Vec<String> = names.filter(|name| !matches!(name.as_str(), "" | ".")).collect();
    Some(format!("file://{host}/{}", names.join("/")))
}

/// A name in which only those characters are encoded that have to be.
fn name(spelled: &str) -> String {
    let mut name = String::with_capacity(spelled.len());
    let mut rest = spelled.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let encoded = after.get(..2).filter(|_| *first == b'%').and_then(hex);
        let byte = match encoded {
            Some(byte) => {
                rest = after.get(2..).unwrap_or_default();
                byte
            }
            None => {
                rest = after;
                *first
            }
        };
        match char::from(byte) {
            c if c.is_ascii_alphanumeric() || "-._~!$&'()*+,;=:@".contains(c) => name.push(c),
            _ => name.push_str(&format!("%{byte:02X}")),
        }
    }
    name
}

/// The byte that two digits stand for.
fn hex(digits: &[u8]) -> Option<u8> {
    let is_hex = digits.iter().all(u8::is_ascii_hexdigit);
    let digits = std::str::from_utf8(digits).ok().filter(|_| is_hex)?;
    u8::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cus09_a_directory_is_one_workspace_however_its_uri_is_spelled() {
        for spelled in [
            "file:///home/me/my%20inn",
            "file:///home/me/my%20inn/",
            "file:///home//me/./my%20inn//",
            "file:///home/me/my inn",
            "file:///h%6fme/%6De/my%20inn",
            "FILE:///home/me/my%20inn",
            "file://localhost/home/me/my%20inn",
            "file:/home/me/my%20inn",
        ] {
            assert_eq!(key(spelled), "file:///home/me/my%20inn", "{spelled}");
        }
        assert_eq!(key("file:///"), "file:///");
        assert_eq!(key("file:///a%c3%a9"), key("file:///aé"));
    }

    #[test]
    fn cus09_other_directories_are_other_workspaces() {
        for (one, other) in [
            ("file:///inn", "file:///Inn"),
            ("file:///a/b", "file:///a%2Fb"),
            ("file:///a%25", "file:///a%2525"),
            ("file:///inn", "file://elsewhere/inn"),
            ("file:///inn", "file:///inn?x"),
            ("remote://box/inn", "remote://box/inn/"),
        ] {
            assert!(!is_same(one, other), "{one} {other}");
        }
    }
}
