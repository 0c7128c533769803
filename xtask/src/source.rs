//! Rust sources as the textual rules see them: without comments, literals and test code.

mod blank;
mod find;

pub(crate) use find::{find_word, line_at, line_naming, matching_close};

use std::collections::HashSet;

use blank::{Parts, TestModule};

/// One Rust file of the repository.
pub(crate) struct Source {
    /// Path relative to the workspace root.
    pub(crate) path: String,
    /// The file with comments and literals turned into spaces; positions and lines stay as they are.
    pub(crate) code: String,
    /// The comments and literals of the file, with everything else turned into spaces.
    pub(crate) prose: String,
    /// `code` with test-only items turned into spaces as well.
    pub(crate) product_code: String,
    test_modules: Vec<TestModule>,
}

impl Source {
    /// Prepares a file for the rules.
    pub(crate) fn new(path: impl Into<String>, text: &str) -> Self {
        let Parts { code, prose } = blank::take_apart(text);
        let product_code = blank::test_items(&code);
        let test_modules = blank::declared_test_modules(text, &code);
        Self {
            path: path.into(),
            code,
            prose,
            product_code,
            test_modules,
        }
    }

    /// Returns whether the file lies in the given folder.
    pub(crate) fn is_under(&self, folder: &str) -> bool {
        self.path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
    }

    /// Counts the lines up to the first test module that is written out in this file.
    pub(crate) fn lines_before_tests(&self) -> usize {
        let end = blank::first_inline_test_module(&self.code).unwrap_or(self.code.len());
        self.code[..end].lines().count()
    }
}

/// Blanks the product code of files that only `#[cfg(test)] mod name;` brings in.
pub(crate) fn blank_test_files(sources: &mut [Source]) {
    let test_modules: HashSet<String> = sources
        .iter()
        .flat_map(|source| source.test_modules.iter().map(|module| stem_of(module, source)))
        .collect();
    for source in sources {
        let of_test_module = test_modules.iter().any(|module| {
            source
                .path
                .strip_prefix(module.as_str())
                .is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
        });
        if of_test_module {
            source.product_code.clear();
        }
    }
}

/// Returns the path of a module's file without its extension.
fn stem_of(module: &TestModule, declared_in: &Source) -> String {
    let path = &declared_in.path;
    match module {
        TestModule::Named(name) => format!("{}/{name}", module_folder(path)),
        TestModule::At(file) => {
            let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
            format!("{folder}/{}", file.strip_suffix(".rs").unwrap_or(file))
        }
    }
}

/// Returns the folder in which the child modules of a file live.
fn module_folder(path: &str) -> &str {
    let stem = path.strip_suffix(".rs").unwrap_or(path);
    match stem.rsplit_once('/') {
        Some((folder, "lib" | "main" | "mod")) => folder,
        _ => stem,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_up_to_an_inline_test_module_only() {
        let declared_first = "#[cfg(test)]\nmod tests;\nfn a() {}\n";
        assert_eq!(Source::new("a.rs", declared_first).lines_before_tests(), 3);
        let inline = "fn a() {}\n\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\n";
        assert_eq!(Source::new("a.rs", inline).lines_before_tests(), 2);
    }

    #[test]
    fn files_of_a_test_module_hold_no_product_code() {
        let mut sources = [
            Source::new("c/src/lib.rs", "mod kept;\n#[cfg(test)]\nmod probe;\n"),
            Source::new("c/src/probe.rs", "fn probe() {}"),
            Source::new("c/src/probe/deep.rs", "fn deep() {}"),
            Source::new("c/src/kept.rs", "#[cfg(test)]\nmod tests;\nfn kept() {}"),
            Source::new("c/src/kept/tests.rs", "fn test() {}"),
            Source::new(
                "c/src/other.rs",
                "#[cfg(test)]\n#[path = \"other_tests.rs\"]\nmod tests;\nfn other() {}",
            ),
            Source::new("c/src/other_tests.rs", "fn test() {}"),
        ];
        blank_test_files(&mut sources);
        let with_product_code: Vec<&str> = sources
            .iter()
            .filter(|source| !source.product_code.trim().is_empty())
            .map(|source| source.path.as_str())
            .collect();
        assert_eq!(with_product_code, ["c/src/lib.rs", "c/src/kept.rs", "c/src/other.rs"]);
    }
}
