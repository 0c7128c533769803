//! Real agents behind the real host, against a scripted model on loopback: `cargo xtask agents`.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result};

use crate::process::run as run_command;
use crate::workspace::Workspace;

/// The packages, in the versions that the scenarios were written for.
const PACKAGES: &[&str] = &[
    "@aaif/goose-acp@1.50.0",
    "@agentclientprotocol/claude-agent-acp@0.99.1",
    "@agentclientprotocol/codex-acp@2.6.0",
];

/// Installs the agents below the target directory, about 1.1 GB, and plays a scenario with each of them.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let directory = workspace.metadata()?.target_directory.join("agents");
    fs::create_dir_all(&directory).with_context(|| format!("cannot create {}", directory.display()))?;
    // Without a manifest, npm would install into a directory above.
    let manifest = directory.join("package.json");
    if !manifest.exists() {
        fs::write(&manifest, "{ \"private\": true }\n")
            .with_context(|| format!("cannot write {}", manifest.display()))?;
    }
    let mut install = Command::new("npm");
    install
        .current_dir(&directory)
        .args(["install", "--no-fund", "--no-audit"])
        .args(PACKAGES);
    run_command(&mut install)?;
    let mut test = workspace.cargo();
    test.args([
        "test",
        "-p",
        "innkeeper",
        "--test",
        "it",
        "agents::real::",
        "--",
        "--nocapture",
        "--test-threads=1",
    ]);
    test.env("INNKEEPER_AGENTS", &directory);
    run_command(&mut test)
}
