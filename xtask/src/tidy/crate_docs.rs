//! Every crate says what it is: in its manifest, at the head of its root file, and in its README.

use std::collections::BTreeSet;

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

/// Checks that every crate of the product has a README that names each folder of its sources.
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
    let folders: BTreeSet<&str> = texts
        .iter()
        .filter_map(|(path, _)| Some(path.strip_prefix(&sources)?.split_once('/')?.0))
        .collect();
    let missing = folders.into_iter().filter(|name| !names(readme, name));
    let missing = missing.map(|name| finding(format!("`{name}/` is not in the table of modules"), "add its row"));
    missing.collect()
}

/// Returns whether a page has the name in backticks, alone or as a folder.
fn names(page: &str, name: &str) -> bool {
    let quoted = page.split('`').skip(1).step_by(2);
    quoted
        .map(|quoted| quoted.split('/').next())
        .any(|first| first == Some(name))
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
    fn readmes_name_every_folder() {
        let missing = |readme: Option<&str>| {
            let sources = ["crates/a/Cargo.toml", "crates/a/src/lib.rs", "crates/a/src/net/http.rs"];
            let sources = sources.map(|path| (path, ""));
            let readme = readme.map(|text| ("crates/a/README.md", text));
            let texts = sources.into_iter().chain(readme);
            let texts: Vec<(String, String)> = texts.map(|(path, text)| (path.into(), text.into())).collect();
            check_readmes(&texts).len()
        };
        assert_eq!(missing(None), 1);
        assert_eq!(missing(Some("| `net/` | The wire. |")), 0);
        assert_eq!(missing(Some("| `net/http` | The wire. |")), 0);
        assert_eq!(missing(Some("The net is the wire.")), 1);
    }

    #[test]
    fn crate_roots_start_with_documentation() {
        assert!(check_root("crates/a/src/lib.rs", "//! Does a.\n").is_none());
        assert!(check_root("crates/a/src/lib.rs", "mod a;\n//! Late.\n").is_some());
        assert!(check_root("crates/a/src/main.rs", "").is_some());
        assert!(check_root("crates/a/src/other.rs", "").is_none());
    }
}
