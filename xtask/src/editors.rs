//! Real ACP clients in front of the real host: `cargo xtask editors`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use crate::process::run as run_command;
use crate::workspace::Workspace;

/// The manifests with the versions that the scenarios were written for.
const MANIFESTS: &str = "crates/innkeeper/tests/editors";
/// The programs that may be a Python which is new enough, the newest first.
const PYTHONS: [&str; 4] = ["python3.14", "python3.13", "python3.12", "python3"];

/// Installs the clients below the target directory, about 100 MB, and plays a scenario with each of them.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let directory = workspace.metadata()?.target_directory.join("editors");
    fs::create_dir_all(&directory).with_context(|| format!("cannot create {}", directory.display()))?;
    let manifests = workspace.path(MANIFESTS);
    if answers("npm", &["--version"]) {
        install_from_npm(&manifests, &directory)?;
    } else {
        println!("skipped: `npm` is not installed, so no client from npm can be run");
    }
    match PYTHONS.iter().find(|python| {
        answers(
            python,
            &["-c", "import sys, venv; sys.exit(sys.version_info < (3, 12))"],
        )
    }) {
        Some(python) => install_from_pypi(python, &manifests, &directory)?,
        None => println!("skipped: Python 3.12 is not installed, so no client from PyPI can be run"),
    }
    let mut test = workspace.cargo();
    test.args([
        "test",
        "-p",
        "innkeeper",
        "--test",
        "it",
        "editor::registries::",
        "--",
        "--nocapture",
        "--test-threads=1",
    ]);
    test.env("INNKEEPER_EDITORS", &directory);
    run_command(&mut test)
}

fn answers(program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn install_from_npm(manifests: &Path, directory: &Path) -> Result<()> {
    for file in ["package.json", "package-lock.json"] {
        let source = manifests.join(file);
        fs::copy(&source, directory.join(file)).with_context(|| format!("cannot copy {}", source.display()))?;
    }
    let mut install = Command::new("npm");
    install
        .current_dir(directory)
        .args(["ci", "--ignore-scripts", "--no-fund", "--no-audit"]);
    run_command(&mut install)
}

fn install_from_pypi(python: &str, manifests: &Path, directory: &Path) -> Result<()> {
    let environment: PathBuf = directory.join("python");
    let mut create = Command::new(python);
    create.args(["-m", "venv"]).arg(&environment);
    run_command(&mut create)?;
    let mut install = Command::new(environment.join("bin/python"));
    install.args(["-m", "pip", "install", "--quiet", "--no-deps", "--requirement"]);
    install.arg(manifests.join("requirements.txt"));
    run_command(&mut install)
}
