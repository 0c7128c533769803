//! Checks that every request and dispatch of a client has its outcome, once the client has read everything.

use crate::sim::Violation;
use crate::sim::client::connection::Connection;
use crate::sim::client::history::narrowed;
use crate::sim::client::mirror::{Mirrored, comparable};
use crate::sim::client::requests::Expected;

impl Connection {
    /// Checks that every request was answered and every dispatch has its outcome.
    pub fn check_settled(&self) -> Result<(), Violation> {
        if let Some((id, asked)) = self.asked.first_key_value() {
            return Err(
                Violation::new(format!("request {id} {asked:?} was never answered")).on(&self.client_id, self.id)
            );
        }
        for (client_seq, dispatched) in &self.dispatched {
            let fits = match (dispatched.expected, dispatched.echoes, dispatched.rejections) {
                (Expected::Rejection, 0, 1) | (Expected::Silence, 0, 0) => true,
                (Expected::Outcome, 1, 0) | (Expected::Outcome, 0, 1) => true,
                (Expected::OutcomeOrSilence, echoes, rejections) => echoes + rejections <= 1,
                (Expected::RejectionOrSilence, 0, rejections) => rejections <= 1,
                _ => false,
            };
            if !fits {
                let problem = format!("the dispatch {client_seq} did not have its one outcome: {dispatched:?}");
                return Err(Violation::new(problem).on(&self.client_id, self.id));
            }
        }
        Ok(())
    }

    /// Takes back what the host may have met with silence, and compares what is left of the
    /// client's own state with the truth.
    pub fn check_view(&mut self, snapshot: &innkeeper_core::snapshot::Snapshot) -> Result<(), Violation> {
        let dispatched = &self.dispatched;
        let settles = |expected| matches!(expected, Expected::Outcome | Expected::Rejection);
        self.unsettled.retain(|client_seq, _| {
            dispatched
                .get(&client_seq)
                .is_some_and(|dispatched| settles(dispatched.expected))
        });
        let differs = self.view(&snapshot.resource).is_some_and(|view| {
            !self.unsettled.is_empty() && view.comparable() != comparable(&narrowed(snapshot, &view))
        });
        if differs {
            let problem = format!("{} stays different from what the host says", snapshot.resource);
            return Err(Violation::new(problem).on(&self.client_id, self.id));
        }
        Ok(())
    }

    /// A reader gets as many turns as it asked for, and the latest in any case (SUB-12, CHT-15).
    pub(in crate::sim) fn check_window(&self, channel: &str, turns: Option<usize>) -> Result<(), Violation> {
        let Some(Mirrored::Chat(chat)) = self.mirror.channels.get(channel) else {
            return Ok(());
        };
        let has = chat.turns.len();
        let fits = match (&chat.turns_next_cursor, turns) {
            (None, wanted) => wanted.is_none_or(|wanted| has <= wanted.max(1)),
            (Some(_), wanted) => wanted.is_some_and(|wanted| has == wanted.max(1)),
        };
        match fits {
            true => Ok(()),
            false => Err(Violation::new(format!(
                "{channel} came with {has} turns where {turns:?} were asked for (SUB-12)"
            ))),
        }
    }
}
