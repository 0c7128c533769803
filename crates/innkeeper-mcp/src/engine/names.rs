//! Tool names for models that are unique across servers.

use std::collections::{BTreeMap, BTreeSet};

use innkeeper_std::text::prefix;
use sha2::{Digest as _, Sha256};

/// The longest name that model providers accept.
pub const MAX_NAME_CHARS: usize = 64;
const SEPARATOR: &str = "__";
/// The number of digits of a digest that makes a name unique.
const DIGITS: usize = 8;
/// The shortest part that is left of the name of a server.
const LEAST_SERVER_CHARS: usize = 8;

/// Returns the names `server__tool`, with letters, digits, `_` and `-` only, at most [`MAX_NAME_CHARS`] long, all different, in
/// the order of the input.
///
/// A name depends on its own server and tool, and on whether another one would be the same; not on the order. So a tool
/// keeps its name when other servers come and go, unless it collides with one of theirs.
pub fn unique_names<'a>(tools: impl IntoIterator<Item = (&'a str, &'a str)>) -> Vec<String> {
    let tools: Vec<(&str, &str)> = tools.into_iter().collect();
    let plain: Vec<Option<String>> = tools.iter().map(|(server, tool)| plain_name(server, tool)).collect();
    let mut uses: BTreeMap<&str, usize> = BTreeMap::new();
    for name in plain.iter().flatten() {
        *uses.entry(name).or_default() += 1;
    }
    let mut taken: BTreeSet<String> = BTreeSet::new();
    let mut names = Vec::with_capacity(tools.len());
    for ((server, tool), plain) in tools.iter().zip(&plain) {
        let mut name = match plain {
            Some(name) if uses.get(name.as_str()) == Some(&1) => name.clone(),
            Some(_) | None => digest_name(server, tool, 0),
        };
        // The very same tool twice, or a name that looks like a digest.
        let mut round = 0;
        while !taken.insert(name.clone()) {
            round += 1;
            name = digest_name(server, tool, round);
        }
        names.push(name);
    }
    names
}

/// Returns `server__tool`, if nothing has to be left out.
fn plain_name(server: &str, tool: &str) -> Option<String> {
    let name = format!("{}{SEPARATOR}{}", allowed(server), allowed(tool));
    (name.len() <= MAX_NAME_CHARS).then_some(name)
}

fn digest_name(server: &str, tool: &str, round: u32) -> String {
    let digest = Sha256::new()
        .chain_update(server)
        .chain_update([0])
        .chain_update(tool)
        .chain_update(round.to_le_bytes())
        .finalize();
    let digits: String = digest
        .iter()
        .take(DIGITS / 2)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let (server, tool) = (allowed(server), allowed(tool));
    let room = MAX_NAME_CHARS - SEPARATOR.len() - DIGITS - 1;
    let tool_room = tool.len().min(room - server.len().min(LEAST_SERVER_CHARS));
    let server_room = server.len().min(room - tool_room);
    format!(
        "{}{SEPARATOR}{}_{digits}",
        prefix(&server, server_room),
        prefix(&tool, tool_room)
    )
}

/// Replaces characters that are not allowed, one for one; the result is ASCII.
fn allowed(text: &str) -> String {
    let chars = text.chars().map(|c| {
        if c.is_ascii_alphanumeric() || c == '_' || c == '-' {
            c
        } else {
            '_'
        }
    });
    let text: String = chars.collect();
    if text.is_empty() { "_".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_names_stay_unchanged() {
        let names = unique_names([("github", "create_issue"), ("my files", "read/file")]);
        assert_eq!(names, ["github__create_issue", "my_files__read_file"]);
    }

    #[test]
    fn colliding_names_are_made_unique_in_any_order() {
        let tools = [("a.b", "x"), ("a b", "x"), ("a", "b__x"), ("a__b", "x")];
        let names = unique_names(tools);
        let reversed: Vec<_> = unique_names(tools.into_iter().rev()).into_iter().rev().collect();
        assert_eq!(names, reversed);
        let different: BTreeSet<_> = names.iter().collect();
        assert_eq!(different.len(), names.len(), "{names:?}");
        assert!(names[0].starts_with("a_b__x_"));
    }

    #[test]
    fn long_names_are_shortened() {
        let server = "s".repeat(100);
        let [name] = unique_names([(server.as_str(), "get_weather")]).try_into().unwrap();
        assert_eq!(name.len(), MAX_NAME_CHARS);
        assert!(name.contains("__get_weather_"), "{name}");
    }

    proptest::proptest! {
        #[test]
        fn all_names_are_different_and_allowed(tools in proptest::collection::vec((".{0,80}", "[a-b_. ]{0,70}"), 0..40)) {
            let tools: BTreeSet<(String, String)> = tools.into_iter().collect();
            let names = unique_names(tools.iter().map(|(server, tool)| (server.as_str(), tool.as_str())));
            let different: BTreeSet<_> = names.iter().collect();
            proptest::prop_assert_eq!(different.len(), names.len());
            for name in &names {
                proptest::prop_assert!(name.len() <= MAX_NAME_CHARS);
                proptest::prop_assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'));
            }
        }
    }
}
