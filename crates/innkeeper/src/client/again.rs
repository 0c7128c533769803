//! Commands that people are told to type next: for the same host as the one they just typed.

use crate::banner::{program, quoted};
use crate::cli::ConnectArgs;

/// How this program is called so that it reaches the same host again.
pub(super) struct Again {
    program: String,
    flags: String,
}

impl Again {
    pub(super) fn at(connect: &ConnectArgs) -> Self {
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

    /// A command with what follows its flags.
    pub(super) fn command(&self, name: &str, rest: &str) -> String {
        format!("{} {name}{} {rest}", self.program, self.flags)
    }

    /// As if nothing had been said about which host.
    pub(super) fn plain() -> Self {
        Self {
            program: "innkeeper".to_owned(),
            flags: String::new(),
        }
    }

    /// The same with flags.
    #[cfg(test)]
    pub(super) fn with(flags: &str) -> Self {
        Self {
            flags: format!(" {flags}"),
            ..Self::plain()
        }
    }
}
