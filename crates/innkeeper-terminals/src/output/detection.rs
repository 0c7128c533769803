//! Command detection: turns the reports of shell integration into commands with a beginning and an end.
//!
//! A program can write these reports, too. Shells that the host started carry a nonce in theirs, and as soon as the
//! first one has arrived, reports without it are ignored.

use innkeeper_host::terminals::TerminalEvent;

use super::osc::{Report, ReportKind};

/// The commands of one terminal.
#[derive(Debug)]
pub(super) struct Detection {
    nonce: String,
    /// A report with the nonce has arrived.
    is_authentic: bool,
    is_announced: bool,
    /// The text of the next command.
    line: String,
    /// The number of the running command.
    running: Option<u64>,
    commands: u64,
    /// The terminal runs one command and no shell.
    is_single: bool,
}

impl Detection {
    pub(super) fn new(nonce: String) -> Self {
        Self {
            nonce,
            is_authentic: false,
            is_announced: false,
            line: String::new(),
            running: None,
            commands: 0,
            is_single: false,
        }
    }

    /// The detection for a terminal that runs one command and no shell. All reports are ignored.
    pub(super) fn of_command(line: String) -> Self {
        Self {
            is_authentic: true,
            line,
            is_single: true,
            ..Self::new(String::new())
        }
    }

    /// Begins the command of a terminal that runs one.
    pub(super) fn begin(&mut self, events: &mut Vec<TerminalEvent>) {
        if self.is_single {
            self.announce(events);
            self.start(events);
        }
    }

    /// Takes a report. Returns the working directory, if the report names it.
    pub(super) fn report(&mut self, report: &Report<'_>, events: &mut Vec<TerminalEvent>) -> Option<String> {
        let has_nonce = |nonce: &[u8]| !self.nonce.is_empty() && nonce == self.nonce.as_bytes();
        let is_authentic = report.nonce.is_some_and(has_nonce);
        self.is_authentic |= is_authentic;
        if self.is_authentic && !is_authentic {
            return None;
        }
        match &report.kind {
            ReportKind::Prompt => {
                // A shell that reports no end of an interrupted command has a prompt again.
                self.end(None, events);
                self.announce(events);
            }
            ReportKind::CommandLine(line) => self.line.clone_from(line),
            ReportKind::Started => {
                self.end(None, events);
                self.announce(events);
                self.start(events);
            }
            ReportKind::Ended(exit_code) => self.end(*exit_code, events),
            ReportKind::Directory(directory) => return Some(directory.clone()),
            ReportKind::Other => {}
        }
        None
    }

    /// Ends the running command, because the shell has ended, or because it was the command itself.
    pub(super) fn finish(&mut self, exit_code: Option<i64>, events: &mut Vec<TerminalEvent>) {
        self.end(exit_code.filter(|_| self.is_single), events);
    }

    fn start(&mut self, events: &mut Vec<TerminalEvent>) {
        self.commands += 1;
        self.running = Some(self.commands);
        events.push(TerminalEvent::CommandStarted {
            id: self.commands.to_string(),
            line: std::mem::take(&mut self.line),
        });
    }

    fn end(&mut self, exit_code: Option<i64>, events: &mut Vec<TerminalEvent>) {
        // Shells report the end of a command also after an empty line.
        if let Some(id) = self.running.take() {
            let id = id.to_string();
            events.push(TerminalEvent::CommandEnded { id, exit_code });
        }
    }

    fn announce(&mut self, events: &mut Vec<TerminalEvent>) {
        if !std::mem::replace(&mut self.is_announced, true) {
            events.push(TerminalEvent::CommandsDetected);
        }
    }
}
