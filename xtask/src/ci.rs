//! Everything that must be green before a commit, in the order in which it is cheapest to fail.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::process::{capture, command_line, run as run_command, step};
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
    // The tests of innkeeper-compat build these clients, and tests use no network.
    for client in ["v0_5_0", "v0_5_1"] {
        let manifest = format!("crates/innkeeper-compat/clients/{client}/Cargo.toml");
        cargo(workspace, &["fetch", "--locked", "--manifest-path", &manifest])?;
    }
    // Most failures are failed tests, so lints come after them.
    if has_nextest(workspace) {
        // Nextest does not run doctests. They come first, so that the summary of all other tests is the last one.
        cargo(workspace, &["test", "--workspace", "--doc"])?;
        let scratch = Scratch::in_memory();
        let mut tests = workspace.cargo();
        tests.args(["nextest", "run", "--workspace", "--test-threads", &test_threads()]);
        tests.env(PROPERTIES_SEED.0, PROPERTIES_SEED.1);
        if let Some(scratch) = &scratch {
            tests.env("TMPDIR", &scratch.directory);
        }
        step(&command_line(&tests), || run_command(&mut tests))?;
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
    step(&command_line(&command), || run_command(&mut command))
}

/// A directory in memory for the temporary files of tests.
///
/// Tests prove durability with killed processes, which lose nothing of such a directory, and with a simulated disk that
/// knows what was synced. Real syncs prove nothing more, and take half of the time of the tests that write.
struct Scratch {
    directory: PathBuf,
}

impl Scratch {
    /// Where Linux has a file system in memory.
    const MEMORY: &str = "/dev/shm";
    /// Several times the most that tests write at once.
    const REQUIRED_KIB: u64 = 4 << 20;

    /// Creates the directory, or returns none if the system has no such file system or little space in it.
    fn in_memory() -> Option<Self> {
        let mut df = Command::new("df");
        df.args(["-Pk", Self::MEMORY]).stderr(Stdio::null());
        let free = free_kib(&capture(&mut df, Duration::from_secs(10)).ok()?)?;
        let directory = Path::new(Self::MEMORY).join(format!("innkeeper-tests-{}", std::process::id()));
        (free >= Self::REQUIRED_KIB && std::fs::create_dir(&directory).is_ok()).then_some(Self { directory })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.directory) {
            eprintln!("cannot remove {}: {error}", self.directory.display());
        }
    }
}

/// Reads the free space from the output of `df -Pk` for one file system.
fn free_kib(output: &str) -> Option<u64> {
    output.lines().nth(1)?.split_whitespace().nth(3)?.parse().ok()
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
    fn free_space_is_the_fourth_column() {
        let output =
            "Filesystem 1024-blocks Used Available Capacity Mounted on\ntmpfs 24000000 5 23999995 1% /dev/shm\n";
        assert_eq!(free_kib(output), Some(23_999_995));
        assert_eq!(free_kib("Filesystem"), None);
    }

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
