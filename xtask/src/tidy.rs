//! The rules of this repository that neither the compiler nor clippy can check.

mod cases;
mod crate_docs;
mod crowding;
mod dependencies;
mod function_names;
mod glossary;
mod hygiene;
mod links;
mod prose;
mod purity;
mod ratchet;
mod shapes;
mod silent_returns;
mod size;
mod spawning;
mod titles;
mod type_names;
mod version_checks;

use std::collections::HashSet;
use std::fmt;

use anyhow::{Result, bail};

use crate::conformance;
use crate::source::{Source, blank_test_files};
use crate::workspace::Workspace;

/// One line that breaks a rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    pub(crate) path: String,
    pub(crate) line: usize,
    pub(crate) rule: &'static str,
    pub(crate) what: String,
    pub(crate) remedy: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            path,
            line,
            rule,
            what,
            remedy,
        } = self;
        write!(f, "{path}:{line}: [{rule}] {what}\n    {remedy}")
    }
}

/// How the counts of the ratchet are treated.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counts {
    /// A scope with more findings than allowed fails.
    Check,
    /// Also writes the counts of today where they are lower.
    Lower,
}

/// Checks every rule and prints the findings.
pub(crate) fn run(workspace: &Workspace, counts: Counts) -> Result<()> {
    let metadata = workspace.metadata()?;
    let texts: Vec<(String, String)> = workspace
        .files()?
        .into_iter()
        .filter_map(|path| workspace.read_text(&path).map(|text| (path, text)))
        .collect();
    let mut sources: Vec<Source> = texts
        .iter()
        .filter(|(path, _)| path.ends_with(".rs"))
        .map(|(path, text)| Source::new(path, text))
        .collect();
    blank_test_files(&mut sources);
    let size_exceptions = workspace.read_text(size::EXCEPTIONS_PATH).unwrap_or_default();

    let mut findings = Vec::new();
    for package in &metadata.packages {
        let manifest = Manifest::of(workspace, package);
        findings.extend(dependencies::check(package, &manifest));
        findings.extend(crate_docs::check_description(package, &manifest));
    }
    for source in &sources {
        findings.extend(purity::check(source));
        findings.extend(spawning::check(source));
        findings.extend(shapes::check(source));
        findings.extend(version_checks::check(source));
    }
    findings.extend(size::check(&sources, &size_exceptions));
    let lock_file = workspace.read_text("Cargo.lock").unwrap_or_default();
    let banned = hygiene::Banned::with_registries_of(&lock_file);
    let all_files = workspace.files()?;
    let all_files: HashSet<&str> = all_files.iter().map(String::as_str).collect();
    for (path, text) in &texts {
        findings.extend(banned.check(path, text));
        findings.extend(crate_docs::check_root(path, text));
        findings.extend(size::check_map(path, text));
        if path.ends_with(".md") {
            findings.extend(links::check(path, text, &all_files));
            findings.extend(glossary::check(path, text));
        }
    }
    findings.extend(titles::check(workspace));
    findings.extend(check_counts(workspace, &texts, &sources, counts)?);

    findings.extend(conformance::check(workspace, &sources));
    let cases = workspace.read_text(cases::PAGE_PATH).unwrap_or_default();
    findings.extend(cases::check(&cases, &texts));

    findings.sort();
    for finding in &findings {
        eprintln!("{finding}");
    }
    match findings.len() {
        0 => {
            println!("tidy: {} files, nothing to complain about", texts.len());
            Ok(())
        }
        count => bail!("tidy found {count} broken rule(s); each line above says what to do"),
    }
}

/// Checks the rules that the repository does not meet everywhere yet.
fn check_counts(
    workspace: &Workspace,
    texts: &[(String, String)],
    sources: &[Source],
    counts: Counts,
) -> Result<Vec<Finding>> {
    let mut found = crowding::check(texts.iter().map(|(path, _)| path.as_str()));
    found.extend(crate_docs::check_readmes(texts));
    for (path, text) in texts.iter().filter(|(path, _)| path.ends_with(".md")) {
        found.extend(prose::check_page(path, text));
    }
    for source in sources {
        let text = texts.iter().find(|(path, _)| *path == source.path);
        found.extend(
            text.iter()
                .flat_map(|(path, text)| prose::check_comments(path, text, &source.prose)),
        );
        found.extend(prose::check_words(&source.path, &source.prose));
        found.extend(type_names::check(source));
        found.extend(function_names::check(source));
        found.extend(silent_returns::check(source));
    }
    found.extend(type_names::check_unique(sources));
    let written = workspace.read_text(ratchet::PATH).unwrap_or_default();
    let ratchet = ratchet::Ratchet::parse(&written);
    if counts == Counts::Lower {
        workspace.write_text(ratchet::PATH, &ratchet.lowered(&found))?;
    }
    Ok(ratchet.excess(&found))
}

/// The `Cargo.toml` of a crate, for naming lines in it.
pub(crate) struct Manifest {
    path: String,
    text: String,
}

impl Manifest {
    fn of(workspace: &Workspace, package: &crate::workspace::Package) -> Self {
        let path = workspace.relative(&package.manifest_path);
        let text = workspace.read_text(&path).unwrap_or_default();
        Self { path, text }
    }
}
