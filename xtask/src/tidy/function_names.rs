//! Names of functions and tests: no vague subjects, and test names that fit on a line.

use super::Finding;
use super::ratchet::{Scoped, scope_of};
use crate::conformance::test_names;
use crate::source::{Source, find_word, line_at};

const RULE: &str = "function-name";

/// The longest name of a test, with the ids of its requirements.
const MAX_TEST_NAME: usize = 70;

/// The words that say nothing about the subject of a function or a test.
const BANNED: &[&str] = &[
    "anybody",
    "everybody",
    "nobody",
    "nobodys",
    "people",
    "person",
    "somebody",
    "somebodys",
    "what",
    "whatever",
    "who",
    "whoever",
    "whom",
];

/// Names that are one word too short: told what, to which client?
const BANNED_ALONE: &[&str] = &[
    "asked", "heard", "held", "kept", "made", "place", "said", "shown", "told", "wanted",
];

/// Checks the functions and tests that a file declares.
pub(super) fn check(source: &Source) -> Vec<Scoped> {
    let mut found = Vec::new();
    for start in find_word(&source.code, "fn") {
        let rest = source.code[start + "fn".len()..].trim_start();
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
        let name = &rest[..end.unwrap_or(rest.len())];
        if let Some(word) = name.split('_').find(|word| BANNED.contains(word)) {
            let what = format!("the function `{name}` has the word `{word}` in its name");
            found.push(finding(source, line_at(&source.code, start), what));
        } else if BANNED_ALONE.contains(&name) {
            let what = format!("a function is called `{name}`, which does not say what it returns");
            found.push(finding(source, line_at(&source.code, start), what));
        }
    }
    for (line, name) in test_names(source) {
        if name.len() > MAX_TEST_NAME {
            let length = name.len();
            let what =
                format!("the test `{name}` has a name of {length} characters; at most {MAX_TEST_NAME} are allowed");
            found.push(finding(source, line, what));
        }
    }
    found
}

fn finding(source: &Source, line: usize, what: String) -> Scoped {
    Scoped {
        scope: scope_of(&source.path),
        finding: Finding {
            path: source.path.clone(),
            line,
            rule: RULE,
            what,
            remedy: "name the subject and the result in a few technical words; see docs/dev/style.md".to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<usize> {
        let found = check(&Source::new("crates/a/src/a.rs", text)).into_iter();
        found.map(|found| found.finding.line).collect()
    }

    #[test]
    fn vague_subjects_fail_in_every_function_name() {
        assert_eq!(
            lines("fn what_is_kept() {}\nasync fn for_people(a: u8) {}\npub fn who<T>() {}"),
            [1, 2, 3]
        );
        assert_eq!(
            lines("fn whole() {} // fn who\nfn a_call_whose_input_streams() {}"),
            [0; 0]
        );
    }

    #[test]
    fn a_participle_alone_is_no_name() {
        assert_eq!(lines("fn told() {}\nfn shown_name() {}\nfn place<T>() {}"), [1, 3]);
    }

    #[test]
    fn only_tests_have_a_longest_name() {
        let long = "a".repeat(MAX_TEST_NAME + 1);
        assert_eq!(lines(&format!("fn {long}() {{}}\n#[test]\nfn {long}() {{}}\n")), [3]);
        assert_eq!(
            lines(&format!("#[tokio::test]\nasync fn {}() {{}}\n", &long[1..])),
            [0; 0]
        );
    }
}
