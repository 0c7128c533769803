//! Which published version does what: `docs/compatibility.md`, written by the tests of `innkeeper-compat`.

use anyhow::Result;

use crate::process::{command_line, run as run_command, step};
use crate::workspace::Workspace;

/// Has the test write the page that it otherwise only compares.
const WRITE: (&str, &str) = ("INNKEEPER_WRITE_PAGES", "1");

/// Writes the page.
pub(crate) fn write(workspace: &Workspace) -> Result<()> {
    let mut test = workspace.cargo();
    test.args(["test", "--package", "innkeeper-compat", "--test", "it", "page::"])
        .env(WRITE.0, WRITE.1);
    step(&command_line(&test), || run_command(&mut test))
}
