//! Pseudo-terminals for a host.
//!
//! [`LocalTerminals`] implements the trait `Terminals` of `innkeeper-host`. Follow the data: `process.rs` starts a shell
//! on a pseudo-terminal, `terminal.rs` reads its output, `output.rs` splits it into text and events, and `history.rs`
//! bounds what late subscribers get, with `screen.rs`. `input.rs` writes what users type, `shell.rs` makes shells report
//! their commands, and `records.rs` persists the last states.

#![warn(missing_docs)]

#[doc(hidden)]
pub mod fuzzing;
mod history;
mod input;
mod output;
mod process;
mod records;
mod screen;
mod shell;
mod terminal;

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use innkeeper_host::terminals::{
    Launch, Opened, Program, StartedTerminal, TerminalError, TerminalRecord, TerminalSink, Terminals,
};
use tokio::task::spawn_blocking;
use url::Url;

pub use output::OutputParser;
pub use screen::compact;
pub use shell::ShellSettings;

use crate::history::History;
use crate::process::CommandLine;
use crate::records::Records;
use crate::shell::{Scripts, ShellLine, plain_text_variables, terminal_variables};

/// Terminals on the machine of the host.
#[derive(Debug)]
pub struct LocalTerminals {
    settings: ShellSettings,
    /// The scripts of shell integration; `None` if they could not be written.
    scripts: Option<Scripts>,
    records: Option<Arc<Records>>,
}

impl LocalTerminals {
    /// Creates a service that runs the shell of these settings and persists the last states of terminals in a
    /// directory, if there is one.
    pub fn new(settings: ShellSettings, records: Option<PathBuf>) -> Self {
        let scripts = Scripts::write();
        if let Err(error) = &scripts {
            tracing::warn!(%error, "shells do not report their commands: the scripts for that cannot be written");
        }
        Self {
            settings,
            scripts: scripts.ok(),
            records: records.map(|directory| Arc::new(Records::new(directory))),
        }
    }

    /// Removes the last states of all terminals of a session, without a host.
    ///
    /// # Errors
    ///
    /// When something is left.
    pub fn remove_session(directory: &Path, session: &str) -> std::io::Result<()> {
        Records::new(directory.into()).remove_session(session)
    }

    /// Removes the last states of the terminals of sessions that are gone: a process that ends in the middle of a
    /// disposal leaves them behind. `sessions` says which there are, and is asked after the states are listed; `None`
    /// means that they are not known.
    pub fn sweep(directory: &Path, sessions: impl FnOnce() -> Option<Vec<String>>) {
        Records::new(directory.into()).sweep(sessions);
    }

    /// Returns the line that starts a program, and its title.
    fn line(&self, launch: &Launch, nonce: &str) -> Result<(CommandLine, String), TerminalError> {
        match &launch.program {
            Program::Shell => {
                let directory = match &launch.directory {
                    Some(uri) => directory_of(uri)?,
                    None => self.settings.directory.clone(),
                };
                let ShellLine {
                    program,
                    arguments,
                    environment,
                } = self.settings.line(self.scripts.as_ref(), nonce);
                let shell = self.settings.shell();
                let title = shell.file_name().unwrap_or_default().to_string_lossy().into_owned();
                let line = CommandLine {
                    program,
                    arguments,
                    environment,
                    directory,
                };
                Ok((line, title))
            }
            Program::Command {
                line,
                directory,
                environment,
                shown,
            } => {
                let mut words = line.iter().cloned();
                let mut environment = environment.clone();
                let variables = match self.settings.agent_pty {
                    true => terminal_variables(),
                    false => plain_text_variables(),
                };
                for (name, value) in variables {
                    if !environment.iter().any(|(known, _)| known == name) {
                        environment.push((name.into(), value.into()));
                    }
                }
                let line = CommandLine {
                    program: words.next().unwrap_or_default(),
                    arguments: words.collect::<Vec<OsString>>(),
                    environment,
                    directory: directory.clone(),
                };
                Ok((line, shown.clone()))
            }
        }
    }

    async fn with_records<T: Send + 'static>(&self, action: impl FnOnce(&Records) -> T + Send + 'static) -> Option<T> {
        let records = Arc::clone(self.records.as_ref()?);
        spawn_blocking(move || action(&records)).await.ok()
    }
}

#[async_trait]
impl Terminals for LocalTerminals {
    async fn open(&self, launch: Launch, sink: TerminalSink) -> Result<Opened, TerminalError> {
        let nonce = uuid::Uuid::new_v4().simple().to_string();
        let (line, title) = self.line(&launch, &nonce)?;
        if !line.directory.is_dir() {
            let directory = line.directory.display();
            return Err(TerminalError::CannotStart(format!("{directory} is not a directory")));
        }
        if let Program::Shell = launch.program {
            check_shell(&self.settings.shell())?;
        }
        let directory = Url::from_file_path(&line.directory).ok().map(Into::into);
        let program = title.clone();
        let (parser, is_pty) = match &launch.program {
            Program::Shell => (OutputParser::new(nonce), true),
            Program::Command { shown, .. } => (OutputParser::of_command(shown.clone()), self.settings.agent_pty),
        };
        let started = match is_pty {
            true => process::start(line, launch.size),
            false => process::start_with_pipe(line),
        };
        let started =
            started.map_err(|error| TerminalError::CannotStart(format!("{program} cannot be started: {error}")))?;
        let terminal = match is_pty {
            true => terminal::spawn(started, parser, History::new(launch.size), sink),
            false => terminal::spawn(started, parser.without_sequences(), History::of_plain_text(), sink),
        };
        Ok(Opened {
            started: StartedTerminal {
                title,
                directory,
                is_pty,
            },
            terminal: Box::new(terminal),
        })
    }

    async fn retain(&self, record: TerminalRecord) -> Result<(), TerminalError> {
        let written = self.with_records(move |records| records.write(&record)).await;
        match written {
            Some(Err(error)) => Err(TerminalError::Failed(format!(
                "a terminal cannot be persisted: {error}"
            ))),
            Some(Ok(())) | None => Ok(()),
        }
    }

    async fn recall(&self, uri: &str) -> Option<Vec<u8>> {
        let uri = uri.to_owned();
        self.with_records(move |records| records.read(&uri)).await.flatten()
    }

    async fn forget(&self, uri: &str) {
        let uri = uri.to_owned();
        self.with_records(move |records| records.remove(&uri)).await;
    }

    async fn forget_session(&self, session: &str) {
        let session = session.to_owned();
        let removed = self.with_records(move |records| records.remove_session(&session)).await;
        if let Some(Err(error)) = removed {
            tracing::warn!(%error, "the terminals of a disposed session could not be removed");
        }
    }
}

/// Checks that a shell can be started. It is started by a shell that sets the umask, so its own error would come late.
fn check_shell(shell: &Path) -> Result<(), TerminalError> {
    let problem = match std::fs::metadata(shell) {
        Err(_) => format!("there is no shell {}", shell.display()),
        Ok(found) if !found.is_file() || found.permissions().mode() & 0o111 == 0 => {
            format!("the shell {} is not a program", shell.display())
        }
        Ok(_) => return Ok(()),
    };
    Err(TerminalError::CannotStart(problem))
}

/// Returns the directory that a URI or a path names.
fn directory_of(uri: &str) -> Result<PathBuf, TerminalError> {
    let path = match Url::parse(uri) {
        Ok(url) if url.scheme() == "file" => url.to_file_path().ok(),
        // VS Code sends a plain path.
        _ => Some(PathBuf::from(uri)),
    };
    path.filter(|path| path.is_absolute())
        .ok_or_else(|| TerminalError::CannotStart(format!("{uri} is not a directory of this machine")))
}
