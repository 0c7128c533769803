//! Which files fit what was typed, and which of them best.

/// How well a file fits; the smallest is the best.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    /// Its name starts with what was typed.
    NameStarts,
    /// Its name contains it.
    NameContains,
    /// Its path contains it.
    PathContains,
    /// Its path has all the letters, in this order.
    Letters,
}

/// The place of a file among others, best first: how it fits, how much is left over, its name. Two
/// files never share a place, so the same files always come in the same order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    fit: Fit,
    depth: usize,
    length: usize,
    path: String,
}

/// What was typed, ready to be compared with many paths.
#[derive(Debug)]
pub(crate) struct Query(String);

impl Query {
    pub(crate) fn new(typed: &str) -> Self {
        let typed = typed.to_lowercase().replace('\\', "/");
        Self(typed.strip_prefix("./").unwrap_or(&typed).to_owned())
    }

    /// Ranks a path with `/` between its parts, if it fits at all.
    pub(crate) fn rank(&self, path: &str) -> Option<Rank> {
        let lower = path.to_lowercase();
        let name = lower.rsplit('/').next().unwrap_or(&lower);
        let fit = if name.starts_with(&self.0) {
            Fit::NameStarts
        } else if name.contains(&self.0) {
            Fit::NameContains
        } else if lower.contains(&self.0) {
            Fit::PathContains
        } else if self.is_subsequence_of(&lower) {
            Fit::Letters
        } else {
            return None;
        };
        Some(Rank {
            fit,
            // Before anything is typed, what lies on top is what people look for.
            depth: if self.0.is_empty() {
                lower.matches('/').count()
            } else {
                0
            },
            length: lower.chars().count(),
            path: path.to_owned(),
        })
    }

    fn is_subsequence_of(&self, text: &str) -> bool {
        let mut letters = text.chars();
        self.0.chars().all(|wanted| letters.any(|letter| letter == wanted))
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
    fn the_name_counts_before_the_path_and_the_path_before_the_letters() {
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
    fn a_path_can_be_typed_as_people_write_it() {
        let paths = ["src/host/main.rs", "src/main.rs", "docs/src.md"];
        assert_eq!(ranked("src/ma", &paths), ["src/main.rs", "src/host/main.rs"]);
        assert_eq!(ranked("./SRC\\MA", &paths), ["src/main.rs", "src/host/main.rs"]);
    }

    #[test]
    fn before_anything_is_typed_the_top_comes_first() {
        let paths = ["a/b/c", "long-name-at-the-top.md", "b/c", "z"];
        assert_eq!(ranked("", &paths), ["z", "long-name-at-the-top.md", "b/c", "a/b/c"]);
    }

    #[test]
    fn what_does_not_fit_is_not_shown() {
        assert!(ranked("zebra", &["main.rs", "arbez"]).is_empty());
    }
}
