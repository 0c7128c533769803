//! Suggested commands, which reach the same host as the command that was just run.

use std::path::{Path, PathBuf};

use crate::args::ConnectArgs;

/// Returns how the user can call this program again.
pub fn program() -> String {
    // A program that was started by its path may not be on the PATH, so suggest the same path.
    match std::env::args_os().next().map(PathBuf::from) {
        Some(path) if path.components().count() > 1 => quoted(&path),
        _ => "innkeeper".to_owned(),
    }
}

/// Quotes a path for a shell where that is needed.
pub fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_alphanumeric() || "/._-+=:@".contains(c);
    match text.chars().all(plain) {
        true => text,
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

/// The program and the flags that reach the same host again.
pub(crate) struct NextCommand {
    program: String,
    flags: String,
}

impl NextCommand {
    pub(crate) fn at(connect: &ConnectArgs) -> Self {
        let mut flags = String::new();
        let paths = [
            ("--data", &connect.common.data),
            ("--config", &connect.common.config),
            ("--token-file", &connect.token_file),
        ];
        for (flag, path) in paths {
            if let Some(path) = path {
                flags.push_str(&format!(" {flag} {}", quoted(path)));
            }
        }
        if let Some(url) = &connect.url {
            // A query may hold a token, and tokens are never printed.
            let shown = if url.contains('?') { "…" } else { url };
            flags.push_str(&format!(" --url {shown}"));
        }
        Self {
            program: program(),
            flags,
        }
    }

    /// Returns a command with its arguments.
    pub(crate) fn command(&self, name: &str, rest: &str) -> String {
        format!("{} {name}{} {rest}", self.program, self.flags)
    }

    /// Returns commands without flags, for the default host.
    pub(crate) fn plain() -> Self {
        Self {
            program: "innkeeper".to_owned(),
            flags: String::new(),
        }
    }

    /// Returns commands with these flags.
    #[cfg(test)]
    pub(crate) fn with(flags: &str) -> Self {
        Self {
            flags: format!(" {flags}"),
            ..Self::plain()
        }
    }
}
