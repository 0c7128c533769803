//! Names of types: words that say nothing, because they stood for many things (docs/dev/glossary.md), and public names
//! that a crate has twice.

use std::collections::BTreeMap;

use super::Finding;
use super::ratchet::{Scoped, scope_of};
use crate::source::{Source, find_word, line_at};

const RULE: &str = "type-name";
const UNIQUE_RULE: &str = "unique-type-name";

/// Names that a type must not have.
const BANNED: &[&str] = &[
    "Asked",
    "Entry",
    "Keep",
    "Leave",
    "Life",
    "Look",
    "Made",
    "Manner",
    "Patience",
    "Room",
    "Scene",
    "Shared",
    "Standing",
    "Surroundings",
    "Telling",
    "Waiting",
    "Wanted",
    "What",
];

/// First words that a name must not have, alone or before other words.
const BANNED_FIRST: &[&str] = &[
    "Brought", "Heard", "Held", "Helper", "Kept", "Looked", "Parked", "Person", "Picture", "Place", "Shown", "Told",
    "Unheard", "Worker",
];

/// Names that several modules of a crate may have, because callers write the module in front: `stored::Args`.
const QUALIFIED: &[&str] = &["Args", "Error", "Report"];

/// Checks the types that a file declares.
pub(super) fn check(source: &Source) -> Vec<Scoped> {
    let declared = declarations(source);
    let banned = declared.iter().filter(|declared| is_banned(declared.name));
    banned
        .map(|declared| Scoped {
            scope: scope_of(&source.path),
            finding: Finding {
                path: source.path.clone(),
                line: line_at(&source.code, declared.start),
                rule: RULE,
                what: format!("a type is called `{}`", declared.name),
                remedy: "name it after its role; docs/dev/glossary.md has the words".to_owned(),
            },
        })
        .collect()
}

/// Checks that no crate has two public types of one name. Test code does not count.
pub(super) fn check_unique(sources: &[Source]) -> Vec<Scoped> {
    let mut first: BTreeMap<(String, &str), &str> = BTreeMap::new();
    let mut found = Vec::new();
    for source in sources.iter().filter(|source| source.path.contains("/src/")) {
        let product_code = source.product_code.as_str();
        for declared in declarations(source) {
            let is_product = product_code
                .get(declared.start..)
                .is_some_and(|code| !code.starts_with(' '));
            if !declared.is_public || !is_product || QUALIFIED.contains(&declared.name) {
                continue;
            }
            let scope = scope_of(&source.path);
            if let Some(other) = first.insert((scope.clone(), declared.name), &source.path) {
                found.push(Scoped {
                    scope,
                    finding: Finding {
                        path: source.path.clone(),
                        line: line_at(&source.code, declared.start),
                        rule: UNIQUE_RULE,
                        what: format!("`{}` is also the name of a public type of {other}", declared.name),
                        remedy: "give one of them a specific name".to_owned(),
                    },
                });
            }
        }
    }
    found
}

struct Declaration<'a> {
    name: &'a str,
    /// The position of its keyword.
    start: usize,
    is_public: bool,
}

/// Returns the types that a file declares at the level of a module.
fn declarations(source: &Source) -> Vec<Declaration<'_>> {
    let code = source.code.as_str();
    let mut found = Vec::new();
    for keyword in ["struct", "enum", "trait", "type", "union"] {
        for start in find_word(code, keyword) {
            let rest = code[start + keyword.len()..].trim_start();
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
            let name = &rest[..end.unwrap_or(rest.len())];
            let is_public = code[..start].trim_end().ends_with("pub");
            found.push(Declaration { name, start, is_public });
        }
    }
    found
}

fn is_banned(name: &str) -> bool {
    let begins = |first: &&str| {
        let rest = name.strip_prefix(*first);
        rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_lowercase()))
    };
    BANNED.contains(&name) || BANNED_FIRST.iter().any(begins)
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
            names("struct Placement;\nstruct ConfinedPath; // struct Place\nlet a = Place;\nstruct LookupBudget;"),
            0
        );
    }

    #[test]
    fn vague_first_words_fail() {
        assert_eq!(
            names("struct KeptContents;\nenum HeldTicket { A }\nstruct ShownChat;"),
            3
        );
        assert_eq!(names("struct Placeholders;\nstruct WaitingCall;\nstruct EntryKind;"), 0);
    }

    #[test]
    fn a_crate_has_a_public_type_name_once() {
        let files = |texts: &[(&str, &str)]| {
            let sources: Vec<Source> = texts.iter().map(|(path, text)| Source::new(*path, text)).collect();
            check_unique(&sources).len()
        };
        let (one, other) = ("crates/a/src/one.rs", "crates/a/src/other.rs");
        assert_eq!(
            files(&[(one, "pub struct Answer;"), (other, "pub enum Answer { A }")]),
            1
        );
        assert_eq!(
            files(&[(one, "pub struct Answer;"), ("crates/b/src/b.rs", "pub struct Answer;")]),
            0
        );
        assert_eq!(files(&[(one, "pub struct Answer;"), (other, "struct Answer;")]), 0);
        assert_eq!(files(&[(one, "pub struct Args;"), (other, "pub struct Args;")]), 0);
        let test = "#[cfg(test)]\nmod tests {\n    pub struct Answer;\n}";
        assert_eq!(files(&[(one, "pub struct Answer;"), (other, test)]), 0);
    }
}
