//! Protocol versions are compared in one place: every other question about them has a name there.

use super::Finding;
use crate::source::{Source, find_word, line_at};

const RULE: &str = "version-check";

/// The file that may compare versions.
const VERSIONS: &str = "crates/innkeeper-dialects/src/version.rs";
/// The crate that describes the published clients, independently of the host.
const PUBLISHED: &str = "crates/innkeeper-compat/";

/// Checks one file.
pub(super) fn check(source: &Source) -> Vec<Finding> {
    if source.path == VERSIONS || source.path.starts_with(PUBLISHED) {
        return Vec::new();
    }
    let code = &source.product_code;
    let names = find_word(code, "Version::").into_iter();
    let versions = names.filter(|start| code[*start..].starts_with("Version::V"));
    let compared = versions.filter(|start| {
        let before = code[..*start].trim_end();
        let after = code[*start..].trim_start_matches(|c: char| c.is_alphanumeric() || c == '_' || c == ':');
        let is_compared_before = ["<", "<=", ">", ">=", "==", "!="]
            .iter()
            .any(|operator| before.ends_with(operator) && !before.ends_with("=>") && !before.ends_with("->"));
        let is_compared_after = ["< ", "<=", "> ", ">=", "==", "!="]
            .iter()
            .any(|operator| after.trim_start().starts_with(operator));
        is_compared_before || is_compared_after
    });
    let finding = |start| Finding {
        path: source.path.clone(),
        line: line_at(code, start),
        rule: RULE,
        what: "a comparison with a version of the protocol".into(),
        remedy: format!("give the question a name in {VERSIONS}, or put the difference into the step of that version"),
    };
    compared.map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        check(&Source::new(path, text))
            .iter()
            .map(|finding| finding.line)
            .collect()
    }

    #[test]
    fn comparisons_outside_the_list_of_versions_are_found() {
        let text =
            "fn a(v: Version) -> bool {\n    v < Version::V0_4\n        || Version::V0_8 >= v || v == Version::V1_0\n}";
        assert_eq!(lines("crates/innkeeper-host/src/a.rs", text), [2, 3, 3]);
        assert!(lines(VERSIONS, text).is_empty());
        assert!(lines("crates/innkeeper-compat/src/a.rs", text).is_empty());
    }

    #[test]
    fn names_of_versions_and_tests_pass() {
        let text = "const A: Version = Version::V0_4;\nfn b(x: bool) -> Version {\n    match x { true => Version::V0_9, false => c(Version::V0_1) }\n}\n\
                    #[cfg(test)]\nmod tests { fn d(v: Version) -> bool { v < Version::V0_4 } }";
        assert!(lines("crates/innkeeper-host/src/a.rs", text).is_empty());
    }
}
