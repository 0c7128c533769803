//! Checks the MCP servers of the configuration without starting them.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::config::{ConfigFile, ServerSection};
use innkeeper_cli::terminal::one_line;

use super::report::Report;

const SUBJECT: &str = "MCP servers";

pub(super) fn check(config: &ConfigFile, report: &mut Report) {
    let servers = &config.mcp.servers;
    if servers.is_empty() {
        return;
    }
    let off = [
        (config.mcp.enabled, "[mcp]"),
        (config.customizations.enabled, "[customizations]"),
    ];
    if let Some((_, section)) = off.into_iter().find(|(enabled, _)| !enabled) {
        return report.warn(
            SUBJECT,
            format!("the configuration has some that never run, because `enabled = false` stands in {section}"),
            "remove that line, or the servers",
        );
    }
    let directory = config.file.as_deref().and_then(Path::parent);
    let mut missing = 0;
    for (name, server) in servers {
        let Some(command) = server
            .command
            .as_deref()
            .filter(|command| !can_run(command, server, directory))
        else {
            continue;
        };
        missing += 1;
        report.warn(
            SUBJECT,
            format!(
                "the program {} of {} was not found",
                one_line(command, 200),
                one_line(name, 80)
            ),
            "install it, or give `command` in full; a host that runs as a service has a shorter PATH than a terminal",
        );
    }
    if missing == 0 {
        let count = servers.len();
        report.ok(SUBJECT, format!("{count} in the configuration, for every session"));
    }
}

/// Returns whether the program exists, as far as that is known without a session.
fn can_run(command: &str, server: &ServerSection, directory: Option<&Path>) -> bool {
    let is_program = |path: &Path| {
        let found = std::fs::metadata(path);
        found.is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    if command.contains("${") {
        return true;
    }
    if command.starts_with("./") || command.starts_with("../") {
        return directory.is_none_or(|directory| is_program(&directory.join(command)));
    }
    if Path::new(command).is_absolute() {
        return is_program(Path::new(command));
    }
    // Relative to the working directory of the server, which is a workspace.
    if command.contains('/') {
        return true;
    }
    let own = server.env.get("PATH").map(OsString::from);
    let path = own.or_else(|| std::env::var_os("PATH")).unwrap_or_default();
    std::env::split_paths(&path).any(|directory| is_program(&directory.join(command)))
}
