//! The banner that the host prints once it listens. It never has the token itself.

use std::fmt::Write as _;
use std::path::PathBuf;

use innkeeper_cli::terminal::{program, quoted};

/// How to connect to the host and how to stop it.
#[derive(Debug)]
pub(crate) struct Banner {
    /// WebSocket URL, if the host listens on TCP.
    pub(crate) url: Option<String>,
    /// Address of the web app, with a one-time code if standard error is a terminal.
    pub(crate) page: Option<String>,
    /// Unix socket, if there is one.
    pub(crate) unix: Option<PathBuf>,
    /// Whether standard input and output are a connection.
    pub(crate) stdio: bool,
    /// File with the token; absent if none is required.
    pub(crate) token_file: Option<PathBuf>,
    /// The data directory, if it is not the default one and clients need the flag.
    pub(crate) data: Option<PathBuf>,
}

impl Banner {
    /// Renders the banner for standard error.
    pub(crate) fn render(&self) -> String {
        let mut text = format!("Innkeeper {} is ready.\n\n", env!("CARGO_PKG_VERSION"));
        let mut line = |name: &str, value: &str| {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "  {name:<9}{value}");
        };
        if let Some(page) = &self.page {
            line("web app", page);
        }
        if let Some(url) = &self.url {
            line("address", url);
        }
        if let Some(unix) = &self.unix {
            line("socket", &unix.display().to_string());
        }
        if self.stdio {
            line("stdio", "newline-delimited JSON-RPC on standard input and output");
        }
        if self.url.is_some() {
            match &self.token_file {
                Some(file) => line(
                    "token",
                    &format!(
                        "in {} (send it as \"Authorization: Bearer …\" or \"?tkn=…\")",
                        file.display()
                    ),
                ),
                None => line("token", "none: every process on this machine may connect"),
            }
        }
        if self.url.is_some() || self.unix.is_some() {
            let data = match &self.data {
                Some(data) => format!(" --data {}", quoted(data)),
                None => String::new(),
            };
            line("try it", &format!("{} send{data} \"hello\"", program()));
        }
        match self.stdio {
            true => line("stop", "close standard input, or Ctrl-C"),
            false => line("stop", "Ctrl-C; press it twice to stop at once"),
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn banner_tells_how_to_connect_and_stop() {
        let banner = Banner {
            url: Some("ws://127.0.0.1:4747".to_owned()),
            page: Some("http://127.0.0.1:4747/#code=abc".to_owned()),
            unix: None,
            stdio: false,
            token_file: Some(PathBuf::from("/data/token")),
            data: Some(PathBuf::from("/my data")),
        };
        let text = banner.render();
        for expected in [
            "ws://127.0.0.1:4747",
            "http://127.0.0.1:4747/#code=abc",
            "/data/token",
            "send --data '/my data' \"hello\"",
            "Ctrl-C",
        ] {
            assert!(text.contains(expected), "{expected} is missing in\n{text}");
        }
    }
}
