//! References of chats that moved to another session.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use innkeeper_core::MovedChat;
use innkeeper_core::records::TurnSource;
use innkeeper_core::uri::BLOB_PREFIX;
use serde::Serialize;

/// How many turns are read at a time.
const PAGE: usize = 16;

/// The names of all kept contents that chats refer to, the oldest first. Blocks.
///
/// References stand in results of tools, and in texts that users and agents made of them, so they are searched for in
/// the text.
///
/// A turn that cannot be read costs what it alone refers to: the first reason comes with what was found.
pub(crate) fn names_in(chats: &[MovedChat], turns: Option<&Arc<dyn TurnSource>>) -> (Vec<String>, Option<String>) {
    let mut names = Names::default();
    let mut problem = None;
    for chat in chats {
        let mut first = 0;
        while first < chat.stored {
            let page: Range<usize> = first..chat.stored.min(first + PAGE);
            first = page.end;
            if let Err(why) = names.find_stored(&chat.uri, page, turns) {
                problem.get_or_insert(why);
            }
        }
        for turn in &chat.recent {
            names.find_in(&**turn);
        }
        names.find_in(&*chat.head);
    }
    (names.found, problem)
}

#[derive(Default)]
struct Names {
    found: Vec<String>,
    known: HashSet<String>,
}

impl Names {
    /// Looks at turns that are in the store alone, and at each by itself if not all of them can be read.
    fn find_stored(
        &mut self,
        chat: &str,
        page: Range<usize>,
        turns: Option<&Arc<dyn TurnSource>>,
    ) -> Result<(), String> {
        let turns = turns.ok_or("this host keeps no turns")?;
        let mut outcome = Ok(());
        let rows = turns.read(chat, page.clone()).unwrap_or_else(|why| {
            outcome = Err(why);
            let each = page.map(|at| turns.read(chat, at..at + 1));
            each.flat_map(Result::unwrap_or_default).collect()
        });
        for row in rows {
            self.find(&String::from_utf8_lossy(&row));
        }
        outcome
    }

    fn find_in(&mut self, part: &impl Serialize) {
        if let Ok(text) = serde_json::to_string(part) {
            self.find(&text);
        }
    }

    fn find(&mut self, text: &str) {
        for (at, found) in text.match_indices(BLOB_PREFIX) {
            let rest = text.get(at + found.len()..).unwrap_or_default();
            let Some((session, rest)) = rest.split_once('/') else {
                continue;
            };
            // Contents of files are named right after two slashes, so that nothing is between them. Anything else is
            // not the encoded URI of a session, and this only looks like a reference.
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

    /// Has turns of one reference each, and cannot read the second.
    #[derive(Debug)]
    struct Damaged;

    impl TurnSource for Damaged {
        fn read(&self, _: &str, range: Range<usize>) -> Result<Vec<bytes::Bytes>, String> {
            match range.contains(&1) {
                true => Err("the second turn is damaged".to_owned()),
                false => Ok(range
                    .map(|at| format!("innkeeper-content:/YQ/{at:02x} ").into())
                    .collect()),
            }
        }

        fn position(&self, _: &str, _: &str) -> Result<Option<usize>, String> {
            Ok(None)
        }
    }

    #[test]
    fn an_unreadable_turn_loses_only_its_own_references() {
        let mut stored = Names::default();
        let turns: Arc<dyn TurnSource> = Arc::new(Damaged);
        let problem = stored.find_stored("ahp-chat:/c", 0..4, Some(&turns)).unwrap_err();
        assert!(problem.contains("damaged"), "{problem}");
        assert_eq!(stored.found, ["00", "02", "03"]);
        stored
            .find_stored("ahp-chat:/c", 4..5, Some(&turns))
            .expect("these are good");
        assert_eq!(stored.found.last().map(String::as_str), Some("04"));
    }

    #[test]
    fn references_are_found_once_and_in_order() {
        let mut names = Names::default();
        names
            .find(r#"{"uri":"innkeeper-content:/YQ/0a1b","text":"see innkeeper-content:/YQ/ff, innkeeper-content:/"}"#);
        names.find(r#"["innkeeper-content:/YQ/0a1b", "innkeeper-content:/not it/00", "innkeeper-content:/YQ/"]"#);
        assert_eq!(names.found, ["0a1b", "ff"]);
        names.find(r#"{"uri":"innkeeper-content://0c0d/home/me/a.txt"} innkeeper-content://inline-00/a"#);
        assert_eq!(names.found, ["0a1b", "ff", "0c0d"], "also of files");
    }
}
