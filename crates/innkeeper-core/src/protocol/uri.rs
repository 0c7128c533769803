//! Syntax of channel URIs and client ids.
//!
//! URIs are opaque, exact strings (SUB-17): the host never normalises them and echoes the
//! spelling the client chose (E-50).

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// The root channel.
pub const ROOT: &str = ahp_types::common::ROOT_RESOURCE_URI;

/// Longest accepted channel URI, in bytes.
pub const MAX_URI_BYTES: usize = 2048;
/// Longest accepted client id, in bytes.
pub const MAX_CLIENT_ID_BYTES: usize = 256;

/// Prefix of the URIs of default chats.
const DEFAULT_CHATS: &str = "ahp-chat://default/";
/// Prefix of the URIs of subagents' chats.
const SUBAGENT_CHATS: &str = "ahp-chat://subagent/";
/// Prefix of the URIs of contents that the host stores for sessions.
pub const BLOB_PREFIX: &str = "innkeeper-content:/";
/// Maximum bytes of a tool call's id in its subagent's URI.
const MAX_CALL_BYTES: usize = 256;

/// Schemes that name something other than a session, so no session may take them.
const RESERVED_SCHEMES: [&str; 13] = [
    "ahp-root",
    "ahp-chat",
    "ahp-terminal",
    "agenthost-terminal",
    "ahp-changeset",
    "ahp-resource-watch",
    "ahp-canvas",
    "ahp-automations",
    "ahp-automation",
    "ahp-automation-run",
    "ahp-otlp",
    "mcp",
    "innkeeper-content",
];

/// Schemes of resources. Nothing new is created under them: a session with the URI of a file would be taken for the
/// file.
const RESOURCE_SCHEMES: [&str; 6] = ["file", "http", "https", "data", "mcp-resource", "untitled"];

/// Checks that a string can be a channel URI at all.
pub fn check(uri: &str) -> Result<(), String> {
    if uri.len() > MAX_URI_BYTES {
        return Err(format!(
            "a channel URI has at most {MAX_URI_BYTES} bytes, this one has {}",
            uri.len()
        ));
    }
    if uri.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err("a channel URI has no control characters or white space".to_owned());
    }
    match scheme(uri) {
        Some(_) => Ok(()),
        None => Err("a channel URI starts with a scheme, as in ahp-session:/my-session".to_owned()),
    }
}

/// Checks that a string can be the URI of a directory of the host's machine.
pub fn check_directory(uri: &str) -> Result<(), String> {
    check(uri).map_err(|problem| match scheme(uri) {
        Some(_) => problem.replacen("a channel URI", "a URI", 1),
        None => "must be a URI, as in file:///home/me/project".to_owned(),
    })?;
    let scheme = scheme(uri).unwrap_or_default();
    if !scheme.eq_ignore_ascii_case("file") {
        return Err(format!(
            "must be a directory of the host, as in file:///home/me/project, and not {scheme}:"
        ));
    }
    if !starts_with(uri, "file:/") {
        return Err("must name a directory by its whole path, as in file:///home/me/project".to_owned());
    }
    Ok(())
}

/// The URI prefix of a session that a moving chat creates; a number follows.
pub(crate) const MOVED_SESSIONS: &str = "ahp-session:/moved-";

/// Checks that a client may create a session under this URI.
pub fn check_new_session(uri: &str) -> Result<(), String> {
    check(uri)?;
    let scheme = scheme(uri).unwrap_or_default();
    if RESERVED_SCHEMES
        .iter()
        .chain(&RESOURCE_SCHEMES)
        .any(|reserved| reserved.eq_ignore_ascii_case(scheme))
    {
        return Err(format!(
            "the scheme {scheme}: is not for sessions; use ahp-session:/<id>"
        ));
    }
    if uri.starts_with(MOVED_SESSIONS) {
        return Err(format!(
            "names that start with {MOVED_SESSIONS} are the host's own; choose another"
        ));
    }
    if uri.contains("/changeset/") {
        return Err("a session URI has no /changeset/ in it; that names the session's changesets".to_owned());
    }
    if uri.ends_with("/annotations") {
        return Err("a session URI does not end in /annotations; that names the session's annotations".to_owned());
    }
    Ok(())
}

/// Checks that a client may create a chat under this URI. The names that the host gives its own
/// chats are not for clients: a session that comes later would find its chat taken.
pub fn check_new_chat(uri: &str) -> Result<(), String> {
    check(uri)?;
    let scheme = scheme(uri).unwrap_or_default();
    let is_chat = scheme.eq_ignore_ascii_case("ahp-chat");
    let is_taken = scheme.eq_ignore_ascii_case("ahp-session")
        || RESERVED_SCHEMES
            .iter()
            .chain(&RESOURCE_SCHEMES)
            .any(|reserved| reserved.eq_ignore_ascii_case(scheme));
    if is_taken && !is_chat {
        return Err(format!("the scheme {scheme}: is not for chats; use ahp-chat:/<id>"));
    }
    if is_chat
        && [DEFAULT_CHATS, SUBAGENT_CHATS]
            .iter()
            .any(|head| starts_with(uri, head))
    {
        return Err("ahp-chat://default/ and ahp-chat://subagent/ are for the host; use ahp-chat:/<id>".to_owned());
    }
    Ok(())
}

fn starts_with(uri: &str, head: &str) -> bool {
    uri.get(..head.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(head))
}

/// Checks that a client id is short and printable.
pub fn check_client_id(id: &str) -> Result<(), String> {
    if id.is_empty() {
        return Err("a client id is not empty".to_owned());
    }
    if id.len() > MAX_CLIENT_ID_BYTES {
        return Err(format!(
            "a client id has at most {MAX_CLIENT_ID_BYTES} bytes, this one has {}",
            id.len()
        ));
    }
    if id.chars().any(char::is_control) {
        return Err("a client id has no control characters".to_owned());
    }
    Ok(())
}

/// The URI of a session's default chat. The reference client computes this spelling itself and ignores `defaultChat`
/// (E-49), so the host uses it too.
pub fn default_chat(session: &str) -> String {
    format!("{DEFAULT_CHATS}{}", URL_SAFE_NO_PAD.encode(session))
}

/// The URI of a blob of a session, such as the full result of a tool.
pub fn blob_uri(session: &str, name: &str) -> String {
    format!("{BLOB_PREFIX}{}/{name}", URL_SAFE_NO_PAD.encode(session))
}

/// Whether a URI is one of these.
pub fn is_blob_uri(uri: &str) -> bool {
    starts_with(uri, BLOB_PREFIX)
}

/// The session and the name of a blob.
pub fn session_of_content(uri: &str) -> Option<(String, &str)> {
    let (session, name) = uri.strip_prefix(BLOB_PREFIX)?.split_once('/')?;
    let session = URL_SAFE_NO_PAD.decode(session).ok()?;
    Some((String::from_utf8(session).ok()?, name))
}

/// The URI of a subagent's chat, in the spelling that the reference client computes for the first
/// subagent of a tool call (E-49): in a fork it knows the subagents of the original by no other name. Further ones get
/// a number.
pub(crate) fn subagent_chat(session: &str, call: &str, is_free: impl Fn(&str) -> bool) -> String {
    let mut id = String::with_capacity(call.len());
    for byte in call.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.!~*'()".contains(&byte) {
            id.push(char::from(byte));
        } else {
            id.push_str(&format!("%{byte:02X}"));
        }
        if id.len() >= MAX_CALL_BYTES {
            break;
        }
    }
    let first = format!("{SUBAGENT_CHATS}{}/{id}", URL_SAFE_NO_PAD.encode(session));
    if is_free(&first) {
        return first;
    }
    (2u64..)
        .map(|n| format!("{first}~{n}"))
        .find(|uri| is_free(uri))
        .unwrap_or_default()
}

/// Whether an unknown URI should be reported as a missing session or chat (`-32001`) or as
/// something else that is missing (`-32008`) (SUB-04, ERR-05).
pub fn looks_like_session_or_chat(uri: &str) -> bool {
    let scheme = scheme(uri).unwrap_or_default();
    scheme == "ahp-chat" || !RESERVED_SCHEMES.contains(&scheme)
}

/// Whether a URI is that of a log or its kin, which have no state (OTL-02).
pub(crate) fn is_telemetry(uri: &str) -> bool {
    scheme(uri).is_some_and(|scheme| scheme == "ahp-otlp")
}

/// Whether a URI can only be that of a watch.
pub(crate) fn is_watch(uri: &str) -> bool {
    scheme(uri).is_some_and(|scheme| scheme.eq_ignore_ascii_case("ahp-resource-watch"))
}

/// Whether a URI can only be that of a chat.
pub(crate) fn is_chat(uri: &str) -> bool {
    scheme(uri).is_some_and(|scheme| scheme.eq_ignore_ascii_case("ahp-chat"))
}

pub(crate) fn scheme(uri: &str) -> Option<&str> {
    let (scheme, _) = uri.split_once(':')?;
    let mut chars = scheme.chars();
    let starts_well = chars.next().is_some_and(|c| c.is_ascii_alphabetic());
    let goes_on_well = chars.all(|c| c.is_ascii_alphanumeric() || "+.-".contains(c));
    (starts_well && goes_on_well).then_some(scheme)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_may_use_any_scheme_the_client_chose_but_not_ours() {
        for good in ["ahp-session:/a", "copilot:/5b0c", "x-mine:thing"] {
            assert_eq!(check_new_session(good), Ok(()), "{good}");
        }
        for bad in [
            "",
            "plain",
            "ahp-root://",
            "AHP-CHAT:/x",
            "mcp://s",
            "a b:/c",
            "1x:/y",
            "ahp-session:/a/annotations",
            "a:\u{0}",
            "file:///home/me/project",
            "FILE:/x",
            "https://example.com/session",
            "data:text/plain,x",
        ] {
            assert!(check_new_session(bad).is_err(), "{bad:?}");
        }
        assert!(check_new_session(&format!("a:/{}", "x".repeat(MAX_URI_BYTES))).is_err());
    }

    #[test]
    fn ses06_a_session_works_in_directories_of_its_host() {
        for good in [
            "file:///home/me",
            "file:/home/me",
            "FILE:///c:/x",
            "file://server/share",
        ] {
            assert_eq!(check_directory(good), Ok(()), "{good}");
        }
        for bad in [
            "https://example.com/x",
            "vscode-vfs://github/a/b",
            "file:relative",
            "/home/me",
            "",
        ] {
            assert!(check_directory(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn cht01_chats_may_use_any_scheme_but_reserved_ones() {
        for good in [
            "ahp-chat:/a",
            "ahp-chat://mine/a",
            "x-mine:thing",
            "ahp-chat://defaults/x",
        ] {
            assert_eq!(check_new_chat(good), Ok(()), "{good}");
        }
        for bad in [
            "",
            "plain",
            "ahp-session:/a",
            "AHP-Session:/a",
            "ahp-terminal:/a",
            "file:///a",
            "mcp://s",
            "ahp-chat://default/Y29waWxvdDovMQ",
            "AHP-CHAT://Default/Y29waWxvdDovMQ",
            "ahp-chat://subagent/a/b",
        ] {
            assert!(check_new_chat(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn e49_a_subagents_uri_is_unique_and_equals_the_reference_clients() {
        let first = subagent_chat("copilot:/1", "call_1", |_| true);
        assert_eq!(first, "ahp-chat://subagent/Y29waWxvdDovMQ/call_1");
        assert_eq!(
            subagent_chat("copilot:/1", "call_1", |uri| uri != first),
            format!("{first}~2")
        );
        // The escapes of `encodeURIComponent`.
        let odd = subagent_chat("copilot:/1", "a b/\u{e9}#?%-_.!~*'()", |_| true);
        assert_eq!(
            odd,
            "ahp-chat://subagent/Y29waWxvdDovMQ/a%20b%2F%C3%A9%23%3F%25-_.!~*'()"
        );
        assert_eq!(check(&odd), Ok(()));
        assert!(subagent_chat("copilot:/1", &"é".repeat(1000), |_| true).len() < 400);
    }

    #[test]
    fn e49_default_chat_uri_is_the_one_the_reference_client_computes() {
        assert_eq!(default_chat("copilot:/1"), "ahp-chat://default/Y29waWxvdDovMQ");
    }
}
