//! Checks that take too long for every commit: `cargo xtask nightly`.

mod smoke;

use std::time::Duration;

use anyhow::Result;

use crate::faults;
use crate::process::{capture, run as run_command, shown, step};
use crate::workspace::Workspace;

/// A benchmark that takes longer than this in its smallest setting hangs.
const LONGEST_BENCHMARK: Duration = Duration::from_secs(480);

/// Seeds of the simulator, in a release build.
const SEEDS: (&str, &str) = ("INNKEEPER_SIM_SEEDS", "100000");

/// Tests of older versions, and the variables with which they do more than for every commit: clients of every published
/// version watch, not only one of each generation; more sequences of actions; more seeds.
const OLDER_VERSIONS: [(&str, &str, &str); 3] = [
    ("everything::", "INNKEEPER_COMPAT_ALL", "1"),
    ("property::", "PROPTEST_CASES", "2000"),
    ("simulator::", "INNKEEPER_SIM_SEEDS", "20000"),
];

/// Runs the release benchmarks, a soak, the simulator with its large seed count, and the full count of faults.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    benchmarks(workspace)?;
    let mut simulator = workspace.cargo();
    simulator
        .args([
            "test",
            "--release",
            "-p",
            "innkeeper-testkit",
            "--test",
            "it",
            "convergence::",
        ])
        .env(SEEDS.0, SEEDS.1);
    step(&shown(&simulator), || run_command(&mut simulator))?;
    for (tests, variable, value) in OLDER_VERSIONS {
        let mut older = workspace.cargo();
        older
            .args(["test", "-p", "innkeeper-compat", "--test", "it", tests])
            .env(variable, value);
        step(&shown(&older), || run_command(&mut older))?;
    }
    step("cargo xtask faults", || faults::run(workspace))
}

/// Runs each benchmark in its smallest setting, and the soak for five minutes.
fn benchmarks(workspace: &Workspace) -> Result<()> {
    let mut build = workspace.cargo();
    build.args(["build", "--release", "-p", "innkeeper", "-p", "innkeeper-bench"]);
    // The benchmarks raise limits that are no settings.
    build.args(["--features", "innkeeper/test-limits"]);
    step(&shown(&build), || run_command(&mut build))?;
    let program = workspace
        .metadata()?
        .target_directory
        .join("release")
        .join(format!("innkeeper-bench{}", std::env::consts::EXE_SUFFIX));
    for benchmark in smoke::BENCHMARKS.iter().chain([&smoke::SOAK]) {
        let mut command = workspace.command(&program);
        command.args(benchmark.arguments);
        step(&shown(&command), || {
            let report = capture(&mut command, LONGEST_BENCHMARK)?;
            print!("{report}");
            smoke::check(benchmark, &report)
        })?;
    }
    Ok(())
}
