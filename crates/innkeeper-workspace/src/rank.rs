//! Ranks the files that fit a query.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::fmt;

use nucleo_matcher::pattern::{AtomKind, CaseMatching, Normalization, Pattern};
use nucleo_matcher::{Config, Matcher, Utf32Str};

/// The rank of a file among others; the smallest is the best. Two files never have the same rank, so the same files
/// always come in the same order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    /// Names count before paths: users type what they remember, and that is the name.
    is_in_path_only: bool,
    score: Reverse<u32>,
    depth: usize,
    length: usize,
    path: String,
}

/// A query, prepared to be compared with many paths.
pub(crate) struct Query {
    pattern: Pattern,
    is_empty: bool,
    /// The matcher has buffers that it reuses.
    matcher: RefCell<Matcher>,
}

impl Query {
    pub(crate) fn new(typed: &str) -> Self {
        let typed = typed.replace('\\', "/");
        let typed = typed.strip_prefix("./").unwrap_or(&typed);
        Self {
            pattern: Pattern::new(typed, CaseMatching::Ignore, Normalization::Smart, AtomKind::Fuzzy),
            is_empty: typed.trim().is_empty(),
            matcher: RefCell::new(Matcher::new(Config::DEFAULT.match_paths())),
        }
    }

    /// Ranks a path with `/` between its parts. `None` if it does not fit.
    pub(crate) fn rank(&self, path: &str) -> Option<Rank> {
        let name = path.rsplit('/').next().unwrap_or(path);
        let in_name = self.score(name);
        let score = in_name.or_else(|| self.score(path))?;
        Some(Rank {
            is_in_path_only: in_name.is_none(),
            score: Reverse(score),
            // Before anything is typed, the files at the top come first.
            depth: if self.is_empty { path.matches('/').count() } else { 0 },
            length: path.chars().count(),
            path: path.to_owned(),
        })
    }

    fn score(&self, text: &str) -> Option<u32> {
        let mut buffer = Vec::new();
        let text = Utf32Str::new(text, &mut buffer);
        self.pattern.score(text, &mut self.matcher.borrow_mut())
    }
}

impl fmt::Debug for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Query")
            .field("pattern", &self.pattern)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranked<'a>(typed: &str, paths: &[&'a str]) -> Vec<&'a str> {
        let query = Query::new(typed);
        let mut ranked: Vec<_> = paths
            .iter()
            .filter_map(|path| Some((query.rank(path)?, *path)))
            .collect();
        ranked.sort();
        ranked.into_iter().map(|(_, path)| path).collect()
    }

    #[test]
    fn names_rank_before_paths_and_words_before_scattered_letters() {
        let paths = [
            "tests/main/other.txt",
            "m/a/i/n.rs",
            "src/domain.rs",
            "src/main.rs",
            "main.rs",
            "README.md",
        ];
        assert_eq!(
            ranked("main", &paths),
            [
                "main.rs",
                "src/main.rs",
                "src/domain.rs",
                "tests/main/other.txt",
                "m/a/i/n.rs"
            ]
        );
    }

    #[test]
    fn separators_and_case_do_not_matter() {
        let paths = ["src/host/main.rs", "src/main.rs", "docs/src.md"];
        assert_eq!(ranked("src/ma", &paths), ["src/main.rs", "src/host/main.rs"]);
        assert_eq!(ranked("./SRC\\MA", &paths), ["src/main.rs", "src/host/main.rs"]);
    }

    #[test]
    fn several_words_fit_in_any_order() {
        let paths = ["src/host/main.rs", "src/host/other.rs"];
        assert_eq!(ranked("main host", &paths), ["src/host/main.rs"]);
    }

    #[test]
    fn an_empty_query_lists_the_top_first() {
        let paths = ["a/b/c", "long-name-at-the-top.md", "b/c", "z"];
        assert_eq!(ranked("", &paths), ["z", "long-name-at-the-top.md", "b/c", "a/b/c"]);
    }

    #[test]
    fn paths_without_the_letters_do_not_fit() {
        assert!(ranked("zebra", &["main.rs", "arbez"]).is_empty());
    }
}
