//! Every crate says what it is: in its manifest, and at the head of its root file.

use super::{Finding, Manifest};
use crate::source::line_naming;
use crate::workspace::Package;

const RULE: &str = "crate-docs";

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

    #[test]
    fn crate_roots_start_with_documentation() {
        assert!(check_root("crates/a/src/lib.rs", "//! Does a.\n").is_none());
        assert!(check_root("crates/a/src/lib.rs", "mod a;\n//! Late.\n").is_some());
        assert!(check_root("crates/a/src/main.rs", "").is_some());
        assert!(check_root("crates/a/src/other.rs", "").is_none());
    }
}
