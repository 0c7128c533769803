//! The full count of injected faults: what the ordinary tests only sample.

use anyhow::Result;

use crate::process::run as run_command;
use crate::workspace::Workspace;

/// How many of each kind, by the variable that tests read.
const COUNTS: &[(&str, &str)] = &[
    ("INNKEEPER_KILLS", "2000"),
    // Every boundary, not every so many.
    ("INNKEEPER_BOUNDARY_STRIDE", "1"),
    ("INNKEEPER_POWER_CUTS", "500"),
    ("INNKEEPER_FLIPS", "1000"),
];

/// The tests that inject them: package, target, and the part of their names that selects them.
const TESTS: &[(&str, &str, &str)] = &[
    ("innkeeper-store", "it", "fault_injection::"),
    ("innkeeper", "it", "durable::"),
];

/// Runs them all, which takes about an hour on two cores. Each test prints how many cases it ran.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    for (package, target, filter) in TESTS {
        let mut command = workspace.cargo();
        command.args(["test", "-p", package, "--test", target, filter, "--", "--nocapture"]);
        command.envs(COUNTS.iter().copied());
        run_command(&mut command)?;
    }
    Ok(())
}
