//! Everything that must be green before a commit, in the order in which it is cheapest to fail.

use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result};

use crate::process::{run as run_command, shown, step};
use crate::tidy;
use crate::workspace::Workspace;

/// The seed of property tests in CI: the result of a commit must not depend on luck. Other test runs
/// (`cargo nextest run`, `cargo test`) choose a new seed each time, and failed cases are stored beside the tests.
const PROPERTIES_SEED: (&str, &str) = ("PROPTEST_RNG_SEED", "1");

/// Runs all checks and stops at the first that fails.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let started = Instant::now();
    cargo(workspace, &["fmt", "--all", "--check"]).context("run `cargo fmt --all` and look at what it changed")?;
    step("cargo xtask tidy", || tidy::run(workspace, tidy::Counts::Check))?;
    println!("\n{}", about_real_servers(is_installed));
    // Most failures are failed tests, so lints come after them.
    if has_nextest(workspace) {
        // Nextest does not run doctests. They come first, so that the summary of all other tests is the last one.
        cargo(workspace, &["test", "--workspace", "--doc"])?;
        cargo(
            workspace,
            &["nextest", "run", "--workspace", "--test-threads", &test_threads()],
        )?;
    } else {
        cargo(workspace, &["test", "--workspace"])?;
    }
    cargo(
        workspace,
        &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"],
    )?;
    println!("\nall green after {:.1} s", started.elapsed().as_secs_f64());
    Ok(())
}

fn cargo(workspace: &Workspace, arguments: &[&str]) -> Result<()> {
    let mut command = workspace.cargo();
    command.args(arguments).env(PROPERTIES_SEED.0, PROPERTIES_SEED.1);
    step(&shown(&command), || run_command(&mut command))
}

/// Tests that run at the same time. Scenarios with real processes mostly wait, so two fit on each core.
fn test_threads() -> String {
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    (2 * cores).to_string()
}

/// Whether the scenarios with real MCP servers will be run. They cannot say it themselves: what a test prints is
/// shown only when it fails.
fn about_real_servers(is_installed: impl Fn(&str) -> bool) -> String {
    let scenarios = "the scenarios with real MCP servers from npm";
    let missing: Vec<&str> = ["node", "npm"]
        .into_iter()
        .filter(|program| !is_installed(program))
        .collect();
    match missing.as_slice() {
        [] => format!("node and npm are installed: {scenarios} are run"),
        missing => format!("{} is not installed: {scenarios} are skipped", missing.join("/")),
    }
}

fn is_installed(program: &str) -> bool {
    let mut version = Command::new(program);
    version.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    // As the scenarios decide it: a program that cannot be started is not there.
    version.status().is_ok()
}

fn has_nextest(workspace: &Workspace) -> bool {
    let mut version = workspace.cargo();
    version.args(["nextest", "--version"]);
    version.stdout(Stdio::null()).stderr(Stdio::null());
    version.status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skipped_scenarios_are_reported_before_the_tests() {
        let all = "the scenarios with real MCP servers from npm are";
        assert_eq!(
            about_real_servers(|_| true),
            format!("node and npm are installed: {all} run")
        );
        assert_eq!(
            about_real_servers(|program| program == "node"),
            format!("npm is not installed: {all} skipped")
        );
        assert_eq!(
            about_real_servers(|_| false),
            format!("node/npm is not installed: {all} skipped")
        );
    }
}
