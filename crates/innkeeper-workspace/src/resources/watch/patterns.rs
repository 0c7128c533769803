//! Which changes a watch reports (WCH-03): patterns and paths relative to what is watched.

use std::path::Path;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use innkeeper_host::resources::ResourceError;

/// A list of patterns.
#[derive(Debug, Clone)]
pub(crate) struct Patterns {
    all: GlobSet,
    /// Directories of which nothing inside is left out of the list.
    whole: GlobSet,
}

impl Patterns {
    pub(crate) fn new(field: &'static str, patterns: &[String]) -> Result<Self, ResourceError> {
        let mut all = GlobSetBuilder::new();
        let mut whole = GlobSetBuilder::new();
        for pattern in patterns {
            let pattern = pattern
                .trim_start_matches("./")
                .trim_start_matches('/')
                .trim_end_matches('/');
            let glob = |pattern: &str| {
                let glob = GlobBuilder::new(pattern).literal_separator(true).build();
                glob.map_err(|error| ResourceError::Invalid {
                    field,
                    problem: format!("{:?} is not a pattern: {}", pattern, error.kind()),
                })
            };
            all.add(glob(pattern)?);
            match pattern.strip_suffix("/**") {
                // All of a directory, but not the directory itself.
                Some(directory) => {
                    whole.add(glob(directory)?);
                }
                // A path stands for all that is below it.
                None => {
                    all.add(glob(&format!("{pattern}/**"))?);
                    whole.add(glob(pattern)?);
                }
            }
        }
        let built = |set: GlobSetBuilder| {
            set.build().map_err(|error| ResourceError::Invalid {
                field,
                problem: format!("cannot be used together: {}", error.kind()),
            })
        };
        Ok(Self {
            all: built(all)?,
            whole: built(whole)?,
        })
    }

    pub(crate) fn has(&self, path: &Path) -> bool {
        self.all.is_match(path)
    }

    /// Whether everything in a directory is in the list.
    pub(crate) fn has_all_of(&self, directory: &Path) -> bool {
        self.whole.is_match(directory) || self.all.is_match(directory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patterns(list: &[&str]) -> Patterns {
        let list: Vec<String> = list.iter().map(|item| (*item).to_owned()).collect();
        Patterns::new("excludes", &list).expect("patterns")
    }

    #[test]
    fn wch03_patterns_are_relative_to_the_watched_path() {
        let list = patterns(&["**/node_modules/**", "build", "*.log", "/docs/*.md"]);
        for hit in [
            "node_modules/a",
            "a/node_modules/b/c",
            "build",
            "build/x/y",
            "a.log",
            "docs/a.md",
        ] {
            assert!(list.has(Path::new(hit)), "{hit}");
        }
        for miss in ["node_modules", "src/build", "a/b.log", "docs/a/b.md", "builder"] {
            assert!(!list.has(Path::new(miss)), "{miss}");
        }
        assert!(list.has_all_of(Path::new("a/node_modules")), "the scan may skip it");
        assert!(!list.has_all_of(Path::new("docs")));
        let broken = Patterns::new("excludes", &["a[".to_owned()]);
        assert!(matches!(broken, Err(ResourceError::Invalid { field: "excludes", .. })));
    }
}
