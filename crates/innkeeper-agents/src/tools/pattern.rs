//! Globs for the paths that tools search.

use std::path::Path;

use globset::{GlobBuilder, GlobMatcher};

/// A glob for paths relative to the start of a walk.
#[derive(Debug, Clone)]
pub(super) struct PathPattern {
    matcher: GlobMatcher,
    is_negated: bool,
}

impl PathPattern {
    /// Parses a glob. Without `/` it matches names in every directory, as users expect of `*.rs`.
    pub(super) fn parse(field: &str, pattern: &str) -> Result<Self, String> {
        let (is_negated, glob) = match pattern.strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, pattern),
        };
        let glob = glob.strip_prefix("./").unwrap_or(glob);
        if Path::new(glob).is_absolute() {
            return Err(format!(
                "`{field}` must be relative, not `{pattern}`: name the directory with `path`"
            ));
        }
        let glob = if glob.contains('/') {
            glob.to_owned()
        } else {
            format!("**/{glob}")
        };
        let built = GlobBuilder::new(&glob).literal_separator(true).build();
        let built = built.map_err(|error| format!("`{field}` is not a pattern: {}", error.kind()))?;
        Ok(Self {
            matcher: built.compile_matcher(),
            is_negated,
        })
    }

    pub(super) fn fits(&self, path: &Path) -> bool {
        self.matcher.is_match(path) != self.is_negated
    }
}
