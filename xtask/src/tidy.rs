//! The rules of this repository that neither the compiler nor clippy can check.

mod cases;
mod crate_docs;
mod dependencies;
mod hygiene;
mod purity;
mod shapes;
mod size;
mod spawning;

use std::fmt;

use anyhow::{Result, bail};

use crate::conformance;
use crate::source::{Source, blank_test_files};
use crate::workspace::Workspace;

/// One place where a rule is broken.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
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

/// Checks every rule and prints what it finds.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
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
    }
    findings.extend(size::check(&sources, &size_exceptions));
    let lock_file = workspace.read_text("Cargo.lock").unwrap_or_default();
    let banned = hygiene::Banned::with_registries_of(&lock_file);
    for (path, text) in &texts {
        findings.extend(banned.check(path, text));
        findings.extend(crate_docs::check_root(path, text));
    }

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
