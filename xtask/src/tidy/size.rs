//! The size of Rust files, and of the map of the repository.

use super::Finding;
use crate::source::Source;

/// Where files that may be longer are listed.
pub(super) const EXCEPTIONS_PATH: &str = "xtask/tidy-allow.txt";

const RULE: &str = "file-size";
const MAX_LINES: usize = 800;

/// The map that a newcomer reads first, and its most lines.
const MAP: (&str, usize) = ("ARCHITECTURE.md", 250);

/// Checks the length of the map.
pub(super) fn check_map(path: &str, text: &str) -> Option<Finding> {
    let lines = text.lines().count();
    (path == MAP.0 && lines > MAP.1).then(|| Finding {
        path: path.to_owned(),
        line: MAP.1 + 1,
        rule: RULE,
        what: format!("{lines} lines; {} are the most", MAP.1),
        remedy: "move details to the README of their crate, or decisions to a record in docs/adr".to_owned(),
    })
}

struct Exception<'a> {
    line: usize,
    path: &'a str,
    reason: &'a str,
}

/// Checks the length of every file against the limit and the listed exceptions.
pub(super) fn check(sources: &[Source], exceptions_text: &str) -> Vec<Finding> {
    let exceptions: Vec<Exception<'_>> = parse(exceptions_text);
    let too_long: Vec<(&Source, usize)> = sources
        .iter()
        .map(|source| (source, source.lines_before_tests()))
        .filter(|(_, lines)| *lines > MAX_LINES)
        .collect();
    let unlisted = too_long
        .iter()
        .filter(|(source, _)| !exceptions.iter().any(|exception| exception.path == source.path))
        .map(|(source, lines)| Finding {
            path: source.path.clone(),
            line: MAX_LINES + 1,
            rule: RULE,
            what: format!("{lines} lines before the tests; {MAX_LINES} are the most"),
            remedy: format!("split it by responsibility, or list it with a reason in {EXCEPTIONS_PATH}"),
        });
    let exception_finding = |exception: &Exception<'_>, what: String, remedy: &str| Finding {
        path: EXCEPTIONS_PATH.into(),
        line: exception.line,
        rule: RULE,
        what,
        remedy: remedy.into(),
    };
    let stale = exceptions
        .iter()
        .filter(|exception| !too_long.iter().any(|(source, _)| source.path == exception.path))
        .map(|exception| {
            let what = format!("`{}` is not longer than {MAX_LINES} lines", exception.path);
            exception_finding(exception, what, "delete the entry")
        });
    let unexplained = exceptions
        .iter()
        .filter(|exception| exception.reason.is_empty())
        .map(|exception| {
            let what = format!("`{}` has no reason", exception.path);
            exception_finding(exception, what, "write the entry as `path: reason`")
        });
    unlisted.chain(stale).chain(unexplained).collect()
}

fn parse(text: &str) -> Vec<Exception<'_>> {
    let numbered = text.lines().enumerate();
    numbered
        .filter(|(_, line)| !line.trim().is_empty() && !line.trim_start().starts_with('#'))
        .map(|(index, line)| {
            let (path, reason) = line.split_once(':').unwrap_or((line, ""));
            Exception {
                line: index + 1,
                path: path.trim(),
                reason: reason.trim(),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file_of(lines: usize) -> [Source; 1] {
        let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", "\n".repeat(500));
        [Source::new("a.rs", &("fn a() {}\n".repeat(lines) + &tests))]
    }

    #[test]
    fn a_file_up_to_the_limit_passes() {
        assert!(check(&file_of(800), "# Nothing listed.\n").is_empty());
    }

    #[test]
    fn a_longer_file_fails_unless_it_is_listed_with_a_reason() {
        assert_eq!(check(&file_of(801), "").len(), 1);
        assert!(check(&file_of(801), "a.rs: one exhaustive table\n").is_empty());
        assert_eq!(check(&file_of(801), "a.rs:\n").len(), 1);
    }

    #[test]
    fn the_map_stays_short() {
        assert!(check_map("ARCHITECTURE.md", &"a\n".repeat(250)).is_none());
        assert!(check_map("ARCHITECTURE.md", &"a\n".repeat(251)).is_some());
        assert!(check_map("docs/reference.md", &"a\n".repeat(251)).is_none());
    }

    #[test]
    fn a_stale_entry_fails() {
        assert_eq!(check(&file_of(10), "\na.rs: was long once\n")[0].line, 2);
        assert_eq!(check(&file_of(10), "gone.rs: was long once\n").len(), 1);
    }
}
