//! Properties that must hold when all clients have read everything.

pub(super) mod agent_state;
mod derived;
pub(super) mod pending_messages;
pub(super) mod recovered;

use std::collections::BTreeMap;

use ahp_types::commands::ListSessionsResult;
use innkeeper_core::snapshot::State;
use innkeeper_core::{Command, ConnId, Input, RequestId, uri};
use serde_json::Value;

use crate::sim::client::decoding::decode;
use crate::sim::client::session_list;
use crate::sim::client::transports::seen_by;
use crate::sim::{PROBE_0_9, PROBE_1_0, Sim, Violation};

/// How often a host may have something to do by itself before it is quiet.
const MAX_ROUNDS: usize = 500;

/// The longest time summary changes are held back in a run.
pub(super) const DEBOUNCE_MS: u64 = 100;

impl Sim {
    /// Lets all clients read everything, then compares every mirror with the host.
    pub(super) fn quiet(&mut self) -> Result<(), Violation> {
        self.note(|| "quiet".to_owned());
        self.settle_terminals()?;
        self.operations_end()?;
        self.read_everything()?;
        // Announcements of summaries are still due; each may make others due.
        let mut rounds = 0;
        while let Some(deadline) = self.core.next_deadline()
            && deadline <= self.changed_ms + DEBOUNCE_MS
        {
            rounds += 1;
            if rounds > MAX_ROUNDS {
                return Err(Violation::new("the host never comes to rest without input"));
            }
            self.advance(deadline.saturating_sub(self.now.mono_ms))?;
            self.read_everything()?;
        }
        let all: Vec<ConnId> = self.conns.keys().copied().collect();
        for conn in all {
            self.expect(conn);
            self.read(conn, usize::MAX)?;
            self.check_views(conn)?;
        }
        self.check_derived()?;
        let lists = [self.list(PROBE_1_0)?, self.list(PROBE_0_9)?];
        for connection in self.conns.values() {
            connection.check_settled()?;
            let on_root = connection.mirror.channels.contains_key(uri::ROOT);
            let truth = &lists[usize::from(connection.is_0_9)];
            if on_root && connection.mirror.catalogue.as_ref() != Some(truth) {
                return Err(Violation::new(format!(
                    "the session list of {} differs\n  host: {truth:?}\n  mine: {:?}",
                    connection.id, connection.mirror.catalogue
                )));
            }
        }
        self.check_nothing_held()?;
        self.check_terminals()?;
        self.check_older()?;
        self.check_members()
    }

    /// Compares every session with its chats.
    pub(super) fn check_derived(&self) -> Result<(), Violation> {
        for uri in self.sessions() {
            let Some(session) = self.host_session(uri) else {
                continue;
            };
            let chats = session.chats.iter().filter_map(|entry| self.host_chat(&entry.resource));
            let chats: Vec<_> = chats.collect();
            let parts: Vec<_> = chats
                .iter()
                .map(|(head, history)| (&**head, history.as_slice()))
                .collect();
            derived::check(uri, &session, &parts)?;
            self.check_annotations(uri)?;
        }
        self.check_customizations()
    }

    /// Compares what a client shows with the truth, once everything is settled.
    fn check_views(&mut self, conn: ConnId) -> Result<(), Violation> {
        let Some(connection) = self.conns.get_mut(&conn) else {
            return Ok(());
        };
        let core = &self.core;
        let channels = connection.host_subscriptions.iter();
        let snapshots: Vec<_> = channels
            .filter_map(|uri| core.snapshot(uri))
            .map(|snapshot| seen_by(&connection.client_id, snapshot))
            .collect();
        snapshots
            .iter()
            .try_for_each(|snapshot| connection.check_view(snapshot))
    }

    /// Only who is here, or may still come back, is a member of a session (ACT-10).
    pub(super) fn check_members(&self) -> Result<(), Violation> {
        for session in self.sessions() {
            let Some(State::Session(state)) = self.snapshot(session).map(|snapshot| snapshot.state) else {
                continue;
            };
            for member in &state.active_clients {
                let known = self
                    .clients
                    .iter()
                    .position(|client| client.id == member.client_id)
                    .ok_or_else(|| Violation::new(format!("{session} has the unknown member {member:?}")))?;
                let is_here = self
                    .conns
                    .values()
                    .any(|connection| connection.client == known && connection.admitted);
                let may_return = self.clients[known]
                    .left_at
                    .is_some_and(|left| self.now.mono_ms < left + self.grace_ms);
                if !is_here && !may_return {
                    return Err(Violation::new(format!(
                        "{} left {session} for good and is still a member",
                        member.client_id
                    )));
                }
            }
        }
        Ok(())
    }

    /// Everything every connection believes, to compare two runs by.
    pub(super) fn fingerprint(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for connection in self.conns.values() {
            for (uri, mirrored) in &connection.mirror.channels {
                // The published types keep settings in hash maps.
                let mut state = mirrored.comparable();
                state.sort_all_objects();
                lines.push(format!("{} {uri} {state}", connection.id));
            }
            for (client_seq, dispatched) in &connection.dispatched {
                lines.push(format!("{} {client_seq} {dispatched:?}", connection.id));
            }
            lines.push(format!("{} {}", connection.id, connection.mirror.last_seen));
        }
        lines
    }

    fn read_everything(&mut self) -> Result<(), Violation> {
        // A message may make a client send another request: a list, or another handshake, once each.
        for _ in 0..3 {
            let all: Vec<ConnId> = self.conns.keys().copied().collect();
            for conn in all {
                self.read(conn, usize::MAX)?;
            }
        }
        Ok(())
    }

    pub(super) fn list(&mut self, probe: ConnId) -> Result<BTreeMap<String, Value>, Violation> {
        self.handle(Input::Request {
            conn: probe,
            id: RequestId::number(0),
            command: Command::ListSessions(Default::default()),
        })?;
        let answer = self.probe_answer.take().unwrap_or_default();
        let mut answer: Value = serde_json::from_slice(&answer)
            .map_err(|error| Violation::new(format!("listSessions answers no JSON: {error}")))?;
        let list: ListSessionsResult = decode(answer["result"].take())?;
        Ok(session_list::from_list(&list))
    }
}
