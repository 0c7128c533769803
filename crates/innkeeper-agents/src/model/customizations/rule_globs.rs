//! Matches files against the globs of rules.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use globset::{Glob, GlobBuilder, GlobSet, GlobSetBuilder};
use innkeeper_host::customizations::Rule;

/// Maximum number of patterns of all rules, and maximum length of one. Compiling a pattern can take a millisecond,
/// and an untrusted workspace can have any number.
const MAX_PATTERNS: usize = 4096;
const MAX_PATTERN: usize = 1000;

/// Compiled globs of all rules.
#[derive(Debug, Default)]
pub(super) struct RuleScopes {
    scopes: Vec<RuleScope>,
    /// Number of rules dropped because there are too many patterns.
    pub(super) left_out: usize,
}

/// Compiled globs of one rule.
#[derive(Debug)]
struct RuleScope {
    /// Index of the rule.
    index: usize,
    /// Directories that the patterns are relative to, with and without symlinks resolved.
    bases: Vec<PathBuf>,
    included: GlobSet,
    /// Negated patterns.
    excluded: GlobSet,
}

impl RuleScopes {
    /// Compiles the patterns of indexed rules.
    ///
    /// Patterns are relative to the rule's base or, without one, to every working directory. `*` does not match `/`.
    /// A pattern without `/` matches at any depth, as authors of `*.ts` expect. Resolves the symlinks of the bases.
    pub(super) fn compile(rules: &[(usize, Rule)], directories: &[PathBuf]) -> Self {
        let mut remaining = MAX_PATTERNS;
        let mut all = Self::default();
        let mut known: HashMap<PathBuf, Vec<PathBuf>> = HashMap::new();
        let mut variants = |base: &PathBuf| {
            let variants = known.entry(base.clone()).or_insert_with_key(|base| path_variants(base));
            variants.clone()
        };
        for (index, rule) in rules {
            let Some(rest) = remaining.checked_sub(rule.globs.len()) else {
                all.left_out += 1;
                continue;
            };
            remaining = rest;
            all.scopes.push(RuleScope {
                index: *index,
                bases: match &rule.base {
                    Some(base) => variants(base),
                    None => directories.iter().flat_map(&mut variants).collect(),
                },
                included: set(rule, false),
                excluded: set(rule, true),
            });
        }
        all
    }

    /// Returns the rules that match any of the files, each with its first matching file. A file is compared by its
    /// given path and by its resolved path.
    pub(super) fn matching(&self, files: &[PathBuf]) -> Vec<(usize, PathBuf)> {
        let variants: Vec<(&PathBuf, Vec<PathBuf>)> = files.iter().map(|file| (file, path_variants(file))).collect();
        let scopes = self.scopes.iter();
        let about = scopes.filter_map(|scope| {
            let mut files = variants.iter();
            let (file, _) = files.find(|(_, variants)| variants.iter().any(|file| scope.has(file)))?;
            Some((scope.index, (*file).clone()))
        });
        about.collect()
    }
}

/// Returns a path and its symlink-free form if that differs. For a file that does not exist, its directory is
/// resolved.
fn path_variants(path: &Path) -> Vec<PathBuf> {
    let of_parent = || {
        let parent = fs::canonicalize(path.parent()?).ok()?;
        Some(parent.join(path.file_name()?))
    };
    let real = fs::canonicalize(path).ok().or_else(of_parent);
    let mut all = vec![path.to_owned()];
    all.extend(real.filter(|real| real != path));
    all
}

impl RuleScope {
    fn has(&self, file: &Path) -> bool {
        let mut within = self.bases.iter().filter_map(|base| file.strip_prefix(base).ok());
        within.any(|path| self.included.is_match(path) && !self.excluded.is_match(path))
    }
}

/// Compiles the positive or the negated (`!`) patterns of a rule.
fn set(rule: &Rule, negated: bool) -> GlobSet {
    let mut set = GlobSetBuilder::new();
    for pattern in rule.globs.iter().filter(|pattern| pattern.len() <= MAX_PATTERN) {
        let pattern = pattern.trim();
        let bare = pattern.strip_prefix('!');
        if bare.is_some() == negated {
            // Invalid patterns match nothing; the scan has reported them.
            for glob in globs(bare.unwrap_or(pattern)) {
                set.add(glob);
            }
        }
    }
    set.build().unwrap_or_else(|_| GlobSet::empty())
}

fn globs(pattern: &str) -> Vec<Glob> {
    let pattern = pattern.trim_start_matches("./").trim_start_matches('/');
    let mut patterns = vec![pattern.to_owned()];
    if let Some(directory) = pattern.strip_suffix('/') {
        patterns = vec![format!("{directory}/**")];
    }
    if !pattern.contains('/') {
        patterns.push(format!("**/{pattern}"));
    }
    let build = |pattern: &String| GlobBuilder::new(pattern).literal_separator(true).build().ok();
    patterns.iter().filter_map(build).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cus26_patterns_are_relative_to_their_base_and_names_match_at_any_depth() {
        let rule = |globs: &[&str], base: Option<&str>| Rule {
            globs: globs.iter().map(|glob| (*glob).to_owned()).collect(),
            base: base.map(PathBuf::from),
            ..Rule::default()
        };
        let directories = [PathBuf::from("/inn"), PathBuf::from("/barn")];
        for (globs, base, file, expected) in [
            (&["*.ts"][..], None, "/inn/a.ts", true),
            (&["*.ts"], None, "/inn/src/deep/a.ts", true),
            (&["src/*.ts"], None, "/inn/src/a.ts", true),
            (&["src/*.ts"], None, "/inn/src/deep/a.ts", false),
            (&["src/**/*.{ts,tsx}"], None, "/barn/src/deep/a.tsx", true),
            (&["/src/**"], None, "/inn/src/a", true),
            (&["./docs/"], None, "/inn/docs/a/b.md", true),
            (&["**/*", "!*.md"], None, "/inn/docs/a.md", false),
            (&["**/*"], None, "/elsewhere/a", false),
            (&["src/**"], Some("/inn/app"), "/inn/src/a", false),
            (&["src/**"], Some("/inn/app"), "/inn/app/src/a", true),
            (&["[", "*.rs"], None, "/inn/a.rs", true),
            (&[], None, "/inn/a.rs", false),
        ] {
            let scopes = RuleScopes::compile(&[(7, rule(globs, base))], &directories);
            let about = scopes.matching(&[PathBuf::from(file)]);
            assert_eq!(!about.is_empty(), expected, "{globs:?} {file}");
        }
    }

    #[test]
    fn cus26_files_match_by_given_and_by_resolved_path() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().canonicalize().unwrap().join("real");
        let link = dir.path().join("link");
        fs::create_dir(&real).unwrap();
        fs::write(real.join("a.rs"), "").unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        let rule = |base: Option<&Path>| Rule {
            globs: vec!["*.rs".to_owned()],
            base: base.map(Path::to_owned),
            ..Rule::default()
        };
        for (base, directory) in [
            (Some(&*link), &*link),
            (None, &*link),
            (Some(&*real), &*real),
            (None, &*real),
        ] {
            let scopes = RuleScopes::compile(&[(0, rule(base))], &[directory.to_owned()]);
            for file in [
                link.join("a.rs"),
                real.join("a.rs"),
                link.join("new.rs"),
                real.join("new.rs"),
            ] {
                assert_eq!(
                    scopes.matching(std::slice::from_ref(&file)),
                    [(0, file)],
                    "{directory:?}"
                );
            }
        }
    }

    #[test]
    fn cus26_the_number_of_compiled_patterns_is_bounded() {
        let rule = |count: usize| Rule {
            globs: vec!["*.rs".to_owned(); count],
            base: Some(PathBuf::from("/inn")),
            ..Rule::default()
        };
        let rules = [(0, rule(1)), (1, rule(MAX_PATTERNS)), (2, rule(1))];
        let scopes = RuleScopes::compile(&rules, &[]);
        assert_eq!(scopes.left_out, 1);
        let file = PathBuf::from("/inn/a.rs");
        assert_eq!(
            scopes.matching(std::slice::from_ref(&file)),
            [(0, file.clone()), (2, file)]
        );
    }
}
