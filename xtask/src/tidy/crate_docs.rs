//! Every crate says what it is: in its manifest, at the head of its root file, and in its README.

use std::collections::{BTreeSet, HashSet};

use super::ratchet::Scoped;
use super::{Finding, Manifest};
use crate::source::line_naming;
use crate::workspace::Package;

const RULE: &str = "crate-docs";
const README_RULE: &str = "crate-readme";

/// Checks that a crate of the product has a description.
pub(super) fn check_description(package: &Package, manifest: &Manifest) -> Option<Finding> {
    let described = package
        .description
        .as_deref()
        .is_some_and(|description| !description.trim().is_empty());
    if described || !manifest.path.starts_with("crates/") {
        return None;
    }
    Some(Finding {
        path: manifest.path.clone(),
        line: line_naming(&manifest.text, "name"),
        rule: RULE,
        what: format!("{} has no description", package.name),
        remedy: "add `description = \"…\"`: one sentence on what the crate is for".into(),
    })
}

/// Checks that a root file of a crate starts with its documentation.
pub(super) fn check_root(path: &str, text: &str) -> Option<Finding> {
    if !is_crate_root(path) {
        return None;
    }
    let first_line = text.lines().find(|line| !line.trim().is_empty());
    if first_line.is_some_and(|line| line.starts_with("//!")) {
        return None;
    }
    Some(Finding {
        path: path.to_owned(),
        line: 1,
        rule: RULE,
        what: "the crate does not start with its documentation".into(),
        remedy: "open the file with a `//!` comment that says what the crate is and where to begin reading".into(),
    })
}

/// The crates whose READMEs also name the modules inside each folder: a change of behaviour mostly starts there.
const IN_DEPTH: &[&str] = &["crates/innkeeper-core", "crates/innkeeper-host"];

/// Checks that every crate of the product has a README that names each module of its sources.
pub(super) fn check_readmes(texts: &[(String, String)]) -> Vec<Scoped> {
    let manifests = texts.iter().filter_map(|(path, _)| path.strip_suffix("/Cargo.toml"));
    let crates = manifests.filter(|folder| folder.starts_with("crates/") && folder.matches('/').count() == 1);
    crates.flat_map(|folder| check_readme(folder, texts)).collect()
}

fn check_readme(folder: &str, texts: &[(String, String)]) -> Vec<Scoped> {
    let path = format!("{folder}/README.md");
    let finding = |what: String, remedy: &str| Scoped {
        scope: folder.to_owned(),
        finding: Finding {
            path: path.clone(),
            line: 1,
            rule: README_RULE,
            what,
            remedy: remedy.to_owned(),
        },
    };
    let Some((_, readme)) = texts.iter().find(|(known, _)| *known == path) else {
        return vec![finding(
            "the crate has no README".to_owned(),
            "write one: what the crate is for, and a table of its modules",
        )];
    };
    let sources = format!("{folder}/src/");
    let depth = if IN_DEPTH.contains(&folder) { 2 } else { 1 };
    let files = texts.iter().filter_map(|(path, _)| path.strip_prefix(&sources));
    let modules: BTreeSet<&str> = files.flat_map(|file| modules_of(file, depth)).collect();
    let names: HashSet<&str> = names(readme).collect();
    let missing = modules
        .into_iter()
        .filter(|module| !names.contains(module.rsplit('/').next().unwrap_or(module)));
    let missing = missing.map(|module| finding(format!("`{module}` is not in the table of modules"), "add it"));
    missing.collect()
}

/// Returns the modules that a file shows, down to a depth: its folders, and itself.
fn modules_of(file: &str, depth: usize) -> Vec<&str> {
    let ends = file.match_indices('/').map(|(end, _)| end);
    let mut modules: Vec<&str> = ends.map(|end| &file[..end]).collect();
    let module = file.strip_suffix(".rs");
    // The root of the crate and files of tests are in no table.
    modules.extend(module.filter(|module| !matches!(module.rsplit('/').next(), Some("lib" | "main" | "tests"))));
    modules.retain(|module| module.matches('/').count() < depth && !module.ends_with("/tests"));
    modules
}

/// Returns the names that a page has in backticks, also as parts of a path.
fn names(page: &str) -> impl Iterator<Item = &str> {
    let quoted = page.split('`').skip(1).step_by(2);
    let parts = quoted.flat_map(|quoted| quoted.split(['/', ':', ',', ' ', '\n']));
    parts.map(|part| part.strip_suffix(".rs").unwrap_or(part))
}

fn is_crate_root(path: &str) -> bool {
    match path.split('/').collect::<Vec<_>>().as_slice() {
        ["crates", _, "src", file] => matches!(*file, "lib.rs" | "main.rs"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(path: &str, description: Option<&str>) -> bool {
        let package = Package {
            name: "innkeeper-a".into(),
            description: description.map(Into::into),
            manifest_path: path.into(),
            dependencies: Vec::new(),
        };
        let manifest = Manifest {
            path: path.into(),
            text: "[package]\nname = \"innkeeper-a\"\n".into(),
        };
        check_description(&package, &manifest).is_none()
    }

    #[test]
    fn crates_have_a_description() {
        assert!(described("crates/innkeeper-a/Cargo.toml", Some("A host.")));
        assert!(!described("crates/innkeeper-a/Cargo.toml", Some(" ")));
        assert!(!described("crates/innkeeper-a/Cargo.toml", None));
    }

    /// Counts the findings about the README of a crate with these sources.
    fn missing(folder: &str, sources: &[&str], readme: Option<&str>) -> usize {
        let sources = sources.iter().map(|source| format!("src/{source}"));
        let files = sources.chain(["Cargo.toml".to_owned()]).map(|file| (file, ""));
        let files = files.chain(readme.map(|text| ("README.md".to_owned(), text)));
        let texts: Vec<(String, String)> = files
            .map(|(file, text)| (format!("{folder}/{file}"), text.to_owned()))
            .collect();
        check_readmes(&texts).len()
    }

    #[test]
    fn readmes_name_every_module() {
        let sources = ["lib.rs", "net.rs", "net/http.rs", "tests.rs", "limits.rs"];
        assert_eq!(missing("crates/a", &sources, None), 1);
        for (readme, count) in [
            ("| `net/`, `limits` | The wire. |", 0),
            ("| `net/http` | The wire. |\n| `limits.rs` | Bounds. |", 0),
            ("| `net/` | The wire. |", 1),
            ("The net has limits.", 2),
        ] {
            assert_eq!(missing("crates/a", &sources, Some(readme)), count, "{readme}");
        }
    }

    #[test]
    fn readmes_of_the_central_crates_name_the_modules_inside_folders() {
        let sources = [
            "net/http.rs",
            "net/http/upgrade.rs",
            "net/tests.rs",
            "net/tests/http.rs",
        ];
        let count = |readme| missing("crates/innkeeper-host", &sources, Some(readme));
        assert_eq!(count("| `net/` | The wire. |"), 1);
        assert_eq!(count("| `net/` | `http` |"), 0);
        assert_eq!(missing("crates/innkeeper-mcp", &sources, Some("`net/`")), 0);
    }

    #[test]
    fn crate_roots_start_with_documentation() {
        assert!(check_root("crates/a/src/lib.rs", "//! Does a.\n").is_none());
        assert!(check_root("crates/a/src/lib.rs", "mod a;\n//! Late.\n").is_some());
        assert!(check_root("crates/a/src/main.rs", "").is_some());
        assert!(check_root("crates/a/src/other.rs", "").is_none());
    }
}
