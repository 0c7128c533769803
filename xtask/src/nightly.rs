//! Checks that take too long for every commit: `cargo xtask nightly`.

mod smoke;

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::faults;
use crate::process::{capture, command_line, run as run_command, step};
use crate::workspace::Workspace;

/// A benchmark that takes longer than this in its smallest setting hangs.
const LONGEST_BENCHMARK: Duration = Duration::from_secs(480);

/// The largest program that a user should have to build, in bytes.
const MAX_PROGRAM: u64 = 30_000_000;

/// Seeds of the simulator. Their profile is as fast as a release build and keeps debug assertions, which are what
/// `never!` fails with.
const SIMULATION: &str = "simulation";
const SEEDS: (&str, &str) = ("INNKEEPER_SIM_SEEDS", "100000");

/// Tests of older versions, and the variables with which they do more than for every commit: clients of every published
/// version watch, not only one of each generation; more sequences of actions; more seeds.
const OLDER_VERSIONS: [(&str, &str, &str); 3] = [
    ("everything::", "INNKEEPER_COMPAT_ALL", "1"),
    ("property::", "PROPTEST_CASES", "2000"),
    ("simulator::", "INNKEEPER_SIM_SEEDS", "20000"),
];

/// Runs the release benchmarks, a soak, the simulator with its large seed count, and the full count of
/// faults.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    benchmarks(workspace)?;
    let mut simulator = workspace.cargo();
    simulator
        .args([
            "test",
            "--profile",
            SIMULATION,
            "-p",
            "innkeeper-testkit",
            "--test",
            "it",
            "convergence::",
        ])
        .env(SEEDS.0, SEEDS.1);
    step(&command_line(&simulator), || run_command(&mut simulator))?;
    for (tests, variable, value) in OLDER_VERSIONS {
        let mut older = workspace.cargo();
        older
            .args(["test", "-p", "innkeeper-compat", "--test", "it", tests])
            .env(variable, value);
        step(&command_line(&older), || run_command(&mut older))?;
    }
    let mut documentation = workspace.cargo();
    documentation.args(["doc", "--workspace", "--no-deps", "--quiet"]).env(
        "RUSTDOCFLAGS",
        "-D rustdoc::broken_intra_doc_links -D rustdoc::private_intra_doc_links",
    );
    step(&command_line(&documentation), || run_command(&mut documentation))?;
    step("cargo xtask faults", || faults::run(workspace))
}

/// Builds the program, looks at its size, runs each benchmark in a small setting, and the soak for five minutes.
fn benchmarks(workspace: &Workspace) -> Result<()> {
    let mut build = workspace.cargo();
    build.args(["build", "--release", "-p", "innkeeper", "-p", "innkeeper-bench"]);
    // The benchmarks raise limits that are no settings.
    build.args(["--features", "innkeeper/test-limits"]);
    step(&command_line(&build), || run_command(&mut build))?;
    let built = workspace.metadata()?.target_directory.join("release");
    let program = |name: &str| built.join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    step("the size of the program", || check_size(&program("innkeeper")))?;
    let program = program("innkeeper-bench");
    for benchmark in smoke::BENCHMARKS.iter().chain([&smoke::SOAK]) {
        let mut command = workspace.command(&program);
        command.args(benchmark.arguments);
        step(&command_line(&command), || {
            let report = capture(&mut command, LONGEST_BENCHMARK)?;
            print!("{report}");
            smoke::check(benchmark, &report)
        })?;
    }
    Ok(())
}

/// Fails if the program has grown beyond what it may have.
fn check_size(program: &Path) -> Result<()> {
    let size = std::fs::metadata(program)
        .with_context(|| format!("cannot read {}", program.display()))?
        .len();
    let program = program.display();
    println!("{program} has {size} bytes; {MAX_PROGRAM} are the most");
    ensure!(
        size <= MAX_PROGRAM,
        "{program} is too large; `cargo bloat` shows which crate grew, and `[profile.release]` in Cargo.toml which crates \
         are built for speed"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_too_large_fails() {
        let path = std::env::temp_dir().join(format!("innkeeper-size-{}", std::process::id()));
        let file = std::fs::File::create(&path).expect("a file");
        for (size, passes) in [(MAX_PROGRAM, true), (MAX_PROGRAM + 1, false)] {
            file.set_len(size).expect("a sparse file");
            assert_eq!(check_size(&path).is_ok(), passes, "{size}");
        }
        std::fs::remove_file(&path).expect("removed");
        assert!(check_size(&path).is_err(), "a program that is missing");
    }
}
