//! The host stops or crashes, and restarts from the journal.

use futures_util::FutureExt;
use innkeeper_core::{AgentCommand, Effect, HostCore, Input, JournalCommand, Opening, Seq, StorageMode};
use innkeeper_host::journal::{CrashSurvivors, Journal, Lease, MemoryJournal};

use crate::mutation::{JournalBug, Mutator};
use crate::sim::checks::recovered;
use crate::sim::store::{self, HostState, Store, all_sessions, answer};
use crate::sim::{Choices, Sim, Violation, agents};

/// How a host starts again.
struct Start {
    journal: MemoryJournal,
    /// The content of the journal.
    truth: HostState,
    /// Why nothing can be kept, if so.
    read_only: Option<String>,
    /// Whether the process is the same, so that only its core is new.
    same_process: bool,
}

impl Sim {
    /// Keeps sessions from now on, which is the start of a run.
    pub(super) fn keep_sessions(&mut self, resumes: bool, journal_bug: Option<JournalBug>) {
        let journal = MemoryJournal::mortal(Seq(1));
        let mut store = Store::new(journal.clone(), HostState::new(), false, None);
        store.journal_bug = journal_bug;
        store.resumes = resumes;
        self.store = Some(store);
        // A new journal has nothing that could not be read.
        let opened = lease(&journal).and_then(|lease| self.open_core(&journal, lease, None));
        let Ok((core, effects)) = opened else {
            return;
        };
        self.core = core;
        self.keep(&effects).unwrap_or_default();
        self.connect_probes();
    }

    /// The process dies, or the power fails, and a new one takes over what is left.
    pub(super) fn crash(&mut self, choices: &mut Choices<'_>) -> Result<(), Violation> {
        let Some(store) = &self.store else {
            return Ok(());
        };
        let unsynced = store.journal.unsynced();
        let keep = match choices.below(4) {
            0 => CrashSurvivors::Everything,
            1 => CrashSurvivors::Durable,
            _ => CrashSurvivors::Batches(choices.below(unsynced + 1)),
        };
        let (journal, truth) = store.crash(keep);
        self.note(|| format!("the host dies with {unsynced} unsafe batches and {keep:?} is kept"));
        self.count("crashes");
        self.start_again(Start {
            journal,
            truth,
            read_only: None,
            same_process: false,
        })
    }

    /// The host is stopped and started again: nothing is lost.
    pub(super) fn stop_and_start(&mut self) -> Result<(), Violation> {
        self.note(|| "the host goes down and comes back".to_owned());
        self.count("restarts");
        self.handle(Input::ShutDown)?;
        if let Some((chat, turn)) = self.agent.running(|_| 0) {
            let problem = format!("{turn:?} runs on in {chat:?} after the host went down");
            return Err(Violation::new(problem));
        }
        let Some(store) = &self.store else {
            return Ok(());
        };
        let (journal, truth) = store.crash(CrashSurvivors::Everything);
        self.start_again(Start {
            journal,
            truth,
            read_only: None,
            same_process: false,
        })
    }

    /// The storage fails, and the host looks at what was kept and changes nothing; or it works again
    /// (P14).
    pub(super) fn storage_fails_or_recovers(&mut self) -> Result<(), Violation> {
        let Some(store) = &self.store else {
            return Ok(());
        };
        let (journal, truth) = store.crash(CrashSurvivors::Durable);
        let read_only = (!store.read_only).then(|| "there is no room".to_owned());
        match &read_only {
            Some(_) => {
                self.note(|| "the storage fails".to_owned());
                self.count("storage failures");
            }
            None => self.note(|| "the storage works again".to_owned()),
        }
        self.start_again(Start {
            journal,
            truth,
            read_only,
            same_process: true,
        })
    }

    fn start_again(&mut self, start: Start) -> Result<(), Violation> {
        let Start {
            journal,
            truth,
            read_only,
            same_process,
        } = start;
        match same_process {
            true => self.agent.stop(),
            false => self.agent.die(),
        }
        let all: Vec<_> = self.conns.keys().copied().collect();
        for conn in all {
            self.lose(conn);
        }
        self.lose_older();
        let was_read_only = self.store.as_ref().is_some_and(|store| store.read_only);
        for client in &mut self.clients {
            // A known client gets its whole grace period again.
            client.left_at = client.left_at.map(|_| self.now.mono_ms);
            if was_read_only && !same_process {
                // A handshake in read-only mode is not persisted, so it is lost in a crash.
                client.saved = None;
            }
        }
        self.tokens_due.clear();
        self.customizations.restart();
        self.servers.restart();
        if let Some(terminals) = &mut self.terminals {
            terminals.restart();
        }
        self.views.restart();
        self.mutator = Mutator::new(None);
        let recovered = self.inspect(&journal)?;
        recovered::check(&truth, &recovered)?;
        let mut lease = lease(&journal)?;
        if let Some(journal_bug) = self.store.as_ref().and_then(|store| store.journal_bug) {
            journal_bug.open(&mut lease);
        }
        if lease.last_seq < self.core.seq() && !same_process {
            let problem = format!("{} is given out after {} (P5)", lease.last_seq.next(), self.core.seq());
            return Err(Violation::new(problem));
        }
        let unsettled = lease.unsettled.clone();
        let is_read_only = read_only.is_some();
        let before = same_process.then_some((&self.core, read_only));
        let (core, effects) = self.open_core(&journal, lease, before)?;
        self.core = core;
        let before = self.store.take();
        self.store = Some(Store::new(journal, truth, is_read_only, before));
        self.keep(&effects)?;
        for effect in effects {
            self.perform(effect)?;
        }
        self.connect_probes();
        self.handle(Input::Recover(unsettled))?;
        self.check_nothing_runs()
    }

    /// Nothing runs in a host that has just started, and nothing looks as if it did (P4).
    fn check_nothing_runs(&self) -> Result<(), Violation> {
        if let Some((chat, turn)) = self.agent.running(|_| 0) {
            return Err(Violation::new(format!("{turn:?} of {chat:?} runs by itself (P4)")));
        }
        for uri in self.channels() {
            if let Some(turn) = self.active_turn(&uri) {
                return Err(Violation::new(format!("{turn} of {uri} shows as running (P4)")));
            }
        }
        Ok(())
    }

    /// Returns the state of a host that starts from a journal and loads every session. The journal
    /// does not change.
    fn inspect(&self, journal: &MemoryJournal) -> Result<HostState, Violation> {
        let copy = journal.crash(CrashSurvivors::Everything);
        let (mut core, _) = self.open_core(&copy, lease(&copy)?, None)?;
        let mut next = Some(Input::Recover(all_sessions(&copy).collect()));
        let mut asked = Vec::new();
        while let Some(input) = next {
            let mut effects = Vec::new();
            core.handle(self.now, input, &mut effects);
            for effect in effects {
                match effect {
                    Effect::Agent(AgentCommand::StartTurn { start, .. }) => {
                        return Err(Violation::new(format!("{} starts by itself (P4)", start.info.turn_id)));
                    }
                    Effect::Journal(command @ (JournalCommand::Load { .. } | JournalCommand::LoadTurns { .. })) => {
                        asked.push(command)
                    }
                    _ => {}
                }
            }
            next = match asked.pop() {
                Some(command) => answer(&copy, command)?,
                None => None,
            };
        }
        Ok(store::truth(&core, &copy, None))
    }

    /// Starts a core, in place of another one if there is one in the same process.
    fn open_core(
        &self,
        journal: &MemoryJournal,
        lease: Lease,
        before: Option<(&HostCore, Option<String>)>,
    ) -> Result<(HostCore, Vec<Effect>), Violation> {
        let turns = journal
            .turns()
            .ok_or_else(|| Violation::new("a journal without turns"))?;
        let mut opening = Opening {
            last_seq: lease.last_seq,
            persisted_seq: lease.persisted_seq,
            sessions: lease.sessions,
            clients: lease.clients,
            root: lease.root,
            turns,
            first_channel: 0,
            storage: StorageMode::ReadWrite,
        };
        if let Some((before, read_only)) = before {
            let next = before.seq().next();
            if let Some(reason) = read_only {
                let seq_limit = Some(opening.last_seq);
                let reason = reason.into();
                opening.storage = StorageMode::ReadOnly { reason, seq_limit };
                opening.last_seq = next;
            } else {
                opening.last_seq = opening.last_seq.max(next);
            }
            opening.clients = before.stored_clients();
            opening.first_channel = before.next_channel();
        }
        let (mut effects, mut warnings) = (Vec::new(), Vec::new());
        let mut agents = agents("first");
        for agent in &mut agents {
            agent.resumes_turns = self.store.as_ref().is_some_and(|store| store.resumes);
        }
        let config = self.config.clone();
        let core = HostCore::open(config, agents, opening, self.now, &mut effects, &mut warnings);
        match warnings.is_empty() {
            true => Ok((core, effects)),
            false => Err(Violation::new(format!("not everything can be read: {warnings:?}"))),
        }
    }
}

fn lease(journal: &MemoryJournal) -> Result<Lease, Violation> {
    let lease = journal.open().now_or_never();
    match lease {
        Some(Ok(lease)) => Ok(lease),
        other => Err(Violation::new(format!("the journal does not open: {other:?}"))),
    }
}
