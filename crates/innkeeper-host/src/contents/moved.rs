//! What chats refer to that moved to another session.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use innkeeper_core::MovedChat;
use innkeeper_core::stored::TurnSource;
use innkeeper_core::uri::KEPT_CONTENTS;
use serde::Serialize;

/// How many turns are read at a time.
const PAGE: usize = 16;

/// The names of all kept contents that chats refer to, the oldest first. Blocks.
///
/// References stand in results of tools, and in whatever people and agents made of them, so they are looked for
/// in the text.
///
/// # Errors
///
/// Why not everything could be read.
pub(crate) fn names_in(chats: &[MovedChat], turns: Option<&Arc<dyn TurnSource>>) -> Result<Vec<String>, String> {
    let mut names = Names::default();
    for chat in chats {
        let mut first = 0;
        while first < chat.stored {
            let page: Range<usize> = first..chat.stored.min(first + PAGE);
            first = page.end;
            let turns = turns.ok_or("this host keeps no turns")?;
            for row in turns.read(&chat.uri, page)? {
                names.find(&String::from_utf8_lossy(&row));
            }
        }
        for turn in &chat.recent {
            names.find_in(&**turn);
        }
        names.find_in(&*chat.head);
    }
    Ok(names.found)
}

#[derive(Default)]
struct Names {
    found: Vec<String>,
    known: HashSet<String>,
}

impl Names {
    fn find_in(&mut self, part: &impl Serialize) {
        if let Ok(text) = serde_json::to_string(part) {
            self.find(&text);
        }
    }

    fn find(&mut self, text: &str) {
        for (at, found) in text.match_indices(KEPT_CONTENTS) {
            let rest = text.get(at + found.len()..).unwrap_or_default();
            let Some((session, rest)) = rest.split_once('/') else {
                continue;
            };
            // Anything else is not the encoded URI of a session, and this only looks like a reference.
            let is_encoded = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
            if !session.chars().all(is_encoded) {
                continue;
            }
            let name: String = rest.chars().take_while(char::is_ascii_hexdigit).collect();
            if !name.is_empty() && self.known.insert(name.clone()) {
                self.found.push(name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_found_once_and_in_order() {
        let mut names = Names::default();
        names
            .find(r#"{"uri":"innkeeper-content:/YQ/0a1b","text":"see innkeeper-content:/YQ/ff, innkeeper-content:/"}"#);
        names.find(r#"["innkeeper-content:/YQ/0a1b", "innkeeper-content:/not it/00", "innkeeper-content:/YQ/"]"#);
        assert_eq!(names.found, ["0a1b", "ff"]);
    }
}
