//! Operations on terminals: clients create, type, claim and dispose; processes start, print and end.

use ahp_types::state::{TerminalClaim, TerminalClientClaim, TerminalSessionClaim};
use innkeeper_core::terminal::{
    CreateTerminal, PtyId, StartedTerminal, TerminalCommand, TerminalEvent, TerminalInput, TerminalSize,
};
use innkeeper_core::{ConnId, RpcError, error, uri};
use serde_json::{Value, json};

use super::{Process, TERMINALS, runs};
use crate::sim::client::requests::PendingRequest;
use crate::sim::operations::SESSIONS;
use crate::sim::operations::dispatches::Draft;
use crate::sim::{Choices, Sim, Violation};

impl Sim {
    /// Lets one thing happen to a terminal.
    pub(in crate::sim) fn operate_terminals(&mut self, choices: &mut Choices<'_>) -> Result<(), Violation> {
        match choices.below(16) {
            0 | 1 => self.with_conn(choices, Self::create_terminal),
            2 if choices.one_in(3) => self.with_conn(choices, Self::dispose_terminal),
            2..=4 => self.with_conn(choices, |sim, conn, choices| {
                let terminal = TERMINALS[choices.below(TERMINALS.len())];
                sim.subscribe(conn, terminal.to_owned(), choices)
            }),
            5 | 6 => self.process_starts(choices),
            7..=9 => self.process_prints(choices),
            10 => {
                let running = self.processes(true);
                match choices.pick(&running).copied() {
                    Some(pty) => self.process_reports(pty),
                    None => Ok(()),
                }
            }
            11 if choices.one_in(3) => self.process_ends(choices),
            _ => self.with_conn(choices, Self::dispatch_to_terminal),
        }
    }

    /// Lets everything happen that is under way.
    pub(in crate::sim) fn settle_terminals(&mut self) -> Result<(), Violation> {
        for pty in self.processes(false) {
            self.process_started(pty, Ok(()))?;
        }
        for pty in self.processes(true) {
            self.process_reports(pty)?;
        }
        Ok(())
    }

    fn processes(&self, is_open: bool) -> Vec<PtyId> {
        self.terminals
            .as_ref()
            .map(|terminals| terminals.having(is_open))
            .unwrap_or_default()
    }

    fn process_mut(&mut self, pty: PtyId) -> Option<&mut Process> {
        self.terminals.as_mut()?.processes.get_mut(&pty)
    }

    fn any_claim(&self, client: usize, choices: &mut Choices<'_>) -> TerminalClaim {
        match choices.below(6) {
            0..=2 => TerminalClaim::Client(TerminalClientClaim {
                client_id: self.clients[client].id.clone(),
            }),
            3 => TerminalClaim::Client(TerminalClientClaim {
                client_id: self.clients[choices.below(self.clients.len())].id.clone(),
            }),
            _ => {
                let session = SESSIONS[choices.below(2)];
                TerminalClaim::Session(TerminalSessionClaim {
                    session: session.to_owned(),
                    chat: uri::default_chat(session),
                    turn_id: None,
                    tool_call_id: None,
                })
            }
        }
    }

    fn create_terminal(&mut self, conn: ConnId, choices: &mut Choices<'_>) -> Result<(), Violation> {
        let Some(client) = self.conns.get(&conn).map(|connection| connection.client) else {
            return Ok(());
        };
        let uri = TERMINALS[choices.below(TERMINALS.len())];
        let claim = self.any_claim(client, choices);
        self.note(|| format!("{conn} creates {uri} for {claim:?}"));
        let known = self.processes(false);
        let create = TerminalCommand::Create(Box::new(CreateTerminal {
            channel: uri.to_owned(),
            claim: claim.clone(),
            name: None,
            cwd: None,
            size: choices.one_in(2).then_some(TerminalSize { cols: 100, rows: 30 }),
        }));
        self.request(conn, PendingRequest::Lifecycle, create.into())?;
        let accepted = self.processes(false).into_iter().find(|pty| !known.contains(pty));
        let Some(pty) = accepted else {
            return Ok(());
        };
        if let Some(process) = self.process_mut(pty) {
            process.uri = uri.to_owned();
        }
        match claim {
            TerminalClaim::Client(claim) if claim.client_id != self.clients[client].id => Err(Violation::new(format!(
                "{conn} creates a terminal for {} (TRM-04)",
                claim.client_id
            ))),
            _ => Ok(()),
        }
    }

    fn dispose_terminal(&mut self, conn: ConnId, choices: &mut Choices<'_>) -> Result<(), Violation> {
        let channel = TERMINALS[choices.below(TERMINALS.len())].to_owned();
        self.note(|| format!("{conn} disposes of {channel}"));
        let before = self.channels();
        let dispose = TerminalCommand::Dispose { channel };
        self.request(conn, PendingRequest::Lifecycle, dispose.into())?;
        if self.forget_gone(&before) > 0 {
            self.count("terminals disposed of");
        }
        Ok(())
    }

    fn process_starts(&mut self, choices: &mut Choices<'_>) -> Result<(), Violation> {
        let opening = self.processes(false);
        let Some(pty) = choices.pick(&opening).copied() else {
            return self.process_prints(choices);
        };
        let outcome = match choices.one_in(8) {
            true => Err(RpcError::new(error::code::INTERNAL_ERROR, "there is no shell")),
            false => Ok(()),
        };
        self.process_started(pty, outcome)
    }

    fn process_started(&mut self, pty: PtyId, outcome: Result<(), RpcError>) -> Result<(), Violation> {
        self.note(|| format!("{pty:?} starts: {outcome:?}"));
        match (&outcome, self.process_mut(pty)) {
            (Ok(()), Some(process)) => process.is_open = true,
            _ => {
                self.terminals
                    .as_mut()
                    .and_then(|terminals| terminals.processes.remove(&pty));
            }
        }
        self.count("processes");
        let outcome = outcome.map(|()| StartedTerminal {
            title: "sh".to_owned(),
            directory: None,
            is_pty: true,
        });
        self.handle(TerminalInput::Opened { pty, outcome }.into())
    }

    fn process_prints(&mut self, choices: &mut Choices<'_>) -> Result<(), Violation> {
        let running = self.processes(true);
        let Some(pty) = choices.pick(&running).copied() else {
            return Ok(());
        };
        let word = match &mut self.terminals {
            Some(terminals) => {
                terminals.words += 1;
                terminals.words
            }
            None => return Ok(()),
        };
        let Some(process) = self.process_mut(pty) else {
            return Ok(());
        };
        match choices.below(10) {
            0 => process.print(TerminalEvent::Title(format!("title {word}"))),
            1 => process.print(TerminalEvent::Directory(format!("file:///{word}"))),
            2 | 3 => match process.running.take() {
                Some(id) => process.print(TerminalEvent::CommandEnded {
                    id: id.to_string(),
                    exit_code: Some(0),
                }),
                None => {
                    process.commands += 1;
                    process.running = Some(process.commands);
                    process.print(TerminalEvent::CommandStarted {
                        id: process.commands.to_string(),
                        line: format!("run {word}"),
                    });
                }
            },
            4 => process.compact(choices.below(process.boundaries.len() + 1)),
            _ => process.print(TerminalEvent::Data(format!("word {word}\r\n"))),
        }
        // Mostly the report before was handled already.
        match choices.below(4) {
            0 => Ok(()),
            _ => self.process_reports(pty),
        }
    }

    fn process_reports(&mut self, pty: PtyId) -> Result<(), Violation> {
        let events = self
            .process_mut(pty)
            .map(|process| std::mem::take(&mut process.waiting));
        match events {
            Some(events) if !events.is_empty() => {
                self.note(|| format!("{pty:?} reports {events:?}"));
                self.count("reports of terminals");
                self.handle(TerminalInput::Output { pty, events }.into())
            }
            _ => Ok(()),
        }
    }

    fn process_ends(&mut self, choices: &mut Choices<'_>) -> Result<(), Violation> {
        let running = self.processes(true);
        let Some(pty) = choices.pick(&running).copied() else {
            return Ok(());
        };
        let Some(terminals) = &mut self.terminals else {
            return Ok(());
        };
        let Some(mut process) = terminals.processes.remove(&pty) else {
            return Ok(());
        };
        process.print(TerminalEvent::Exited { exit_code: Some(7) });
        self.note(|| format!("{pty:?} ends"));
        self.count("ends of processes");
        let events = process.waiting;
        self.handle(TerminalInput::Output { pty, events }.into())?;
        match self.host_terminal(&process.uri) {
            Some(state) if runs(&state) => Err(Violation::new(format!("{} goes on without a process", process.uri))),
            _ => Ok(()),
        }
    }

    fn dispatch_to_terminal(&mut self, conn: ConnId, choices: &mut Choices<'_>) -> Result<(), Violation> {
        let present: Vec<&str> = TERMINALS
            .into_iter()
            .filter(|uri| self.host_terminal(uri).is_some())
            .collect();
        let Some(uri) = choices.pick(&present).copied() else {
            return self.create_terminal(conn, choices);
        };
        let (Some(state), Some(connection)) = (self.host_terminal(uri), self.conns.get(&conn)) else {
            return Ok(());
        };
        let client = connection.client;
        let may_drive = self.may_drive(client, &state);
        let action = self.terminal_action(client, choices);
        let is_bad = action["type"] == "terminal/data" || action["cols"] == 0;
        let draft = match may_drive && !is_bad {
            true => Draft::fair(uri, action.clone()),
            false => Draft::hopeless(uri, action.clone()),
        };
        self.send_dispatch(conn, draft)?;
        let is_writable = self.store.as_ref().is_none_or(|store| !store.read_only);
        let is_due = action["type"] == "terminal/input" && may_drive && runs(&state) && is_writable;
        self.check_typed(uri, is_due.then(|| action["data"].as_str().unwrap_or_default()))
    }

    fn terminal_action(&mut self, client: usize, choices: &mut Choices<'_>) -> Value {
        self.next_words += 1;
        let word = self.next_words;
        match choices.below(12) {
            0..=4 => json!({ "type": "terminal/input", "data": format!("typed {word}") }),
            5 => {
                let cols = [0, 80, 120][choices.below(3)];
                json!({ "type": "terminal/resized", "cols": cols, "rows": 24 })
            }
            6 => json!({ "type": "terminal/titleChanged", "title": format!("named {}", choices.below(3)) }),
            7 | 8 => json!({ "type": "terminal/cleared" }),
            9 => json!({ "type": "terminal/data", "data": "forged" }),
            _ => json!({ "type": "terminal/claimed", "claim": self.any_claim(client, choices) }),
        }
    }
}
