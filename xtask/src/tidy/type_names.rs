//! Names of types: words that say nothing, because they stood for many things (docs/dev/glossary.md).

use super::Finding;
use super::ratchet::{Scoped, scope_of};
use crate::source::{Source, find_word, line_at};

const RULE: &str = "type-name";

const BANNED: &[&str] = &[
    "Brought",
    "Held",
    "Kept",
    "Leave",
    "Life",
    "Made",
    "Manner",
    "Place",
    "Scene",
    "Shared",
    "Standing",
    "Surroundings",
    "What",
];

/// Checks the types that a file declares.
pub(super) fn check(source: &Source) -> Vec<Scoped> {
    let mut found = Vec::new();
    for keyword in ["struct", "enum", "trait", "type", "union"] {
        for start in find_word(&source.code, keyword) {
            let rest = source.code[start + keyword.len()..].trim_start();
            let end = rest
                .find(|c: char| !c.is_alphanumeric() && c != '_')
                .unwrap_or(rest.len());
            let Some(name) = BANNED.iter().find(|name| **name == &rest[..end]) else {
                continue;
            };
            found.push(Scoped {
                scope: scope_of(&source.path),
                finding: Finding {
                    path: source.path.clone(),
                    line: line_at(&source.code, start),
                    rule: RULE,
                    what: format!("a type is called `{name}`"),
                    remedy: "name it after what it is; docs/dev/glossary.md has the words".to_owned(),
                },
            });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> usize {
        check(&Source::new("crates/a/src/a.rs", text)).len()
    }

    #[test]
    fn vague_names_fail_and_longer_ones_pass() {
        assert_eq!(
            names("pub(crate) struct Place<'a>(&'a str);\nenum Kept { A }\ntype What = u8;"),
            3
        );
        assert_eq!(
            names("struct Placement;\nstruct ConfinedPath; // struct Place\nlet a = Place;"),
            0
        );
    }
}
