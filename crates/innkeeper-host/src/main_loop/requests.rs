//! Tickets of requests. A ticket is the place of a request among the requests in flight of its connection, and the
//! connection reads no more requests while all of its tickets are taken.

use std::collections::HashMap;

use innkeeper_core::{ConnId, Effect, HostCore, RequestId, RpcError};
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use super::Message;
use super::handles::LoopHandles;
use super::message::ConnectionMessage;

/// The place of a request among the requests in flight of its connection. Dropping it frees the place.
pub(crate) type RequestTicket = OwnedSemaphorePermit;

/// A request that a part of the host answers outside of the core.
#[derive(Debug)]
pub(crate) struct OpenRequest {
    pub(crate) conn: ConnId,
    pub(crate) id: RequestId,
    /// Dropped after the answer is sent.
    pub(crate) ticket: Option<RequestTicket>,
    pub(crate) inbox: mpsc::Sender<Message>,
}

impl OpenRequest {
    /// Answers with a result or an error. The answer is a message to the main loop; if the connection has ended by
    /// then, it is dropped.
    pub(crate) async fn respond(self, outcome: Result<Value, RpcError>) {
        self.send(|conn, id| ConnectionMessage::Respond { conn, id, outcome }.into())
            .await;
    }

    /// Answers with an encoded object without its closing brace, or with an error.
    pub(crate) async fn respond_object(self, outcome: Result<Vec<u8>, RpcError>) {
        self.send(|conn, id| Message::found(conn, id, outcome)).await;
    }

    /// Lets the core answer, with this message.
    pub(crate) async fn send(self, message: impl FnOnce(ConnId, RequestId) -> Message) {
        let _ = self.inbox.send(message(self.conn, self.id)).await;
        drop(self.ticket);
    }
}

/// The tickets of requests that are not answered yet, by request.
#[derive(Debug, Default)]
pub(crate) struct RequestTickets {
    /// A list, because a client may use an id twice.
    pending: HashMap<(ConnId, String), Vec<PendingTicket>>,
    /// How many requests wait for the core to load their session.
    deferred: usize,
}

#[derive(Debug)]
struct PendingTicket {
    ticket: RequestTicket,
    /// The core has deferred the request until its session is loaded.
    is_deferred: bool,
}

impl RequestTickets {
    /// Holds the ticket of a request that the core has just handled, if its answer is still to come: from an effect,
    /// or from the core once the session of the request is loaded.
    pub(crate) fn hold(
        &mut self,
        core: &HostCore,
        effects: &[Effect],
        conn: ConnId,
        id: &RequestId,
        ticket: RequestTicket,
    ) {
        let has_effect = effects.iter().any(|effect| effect.request() == Some((conn, id)));
        let is_deferred = !has_effect && core.has_deferred_input(conn);
        if has_effect || is_deferred {
            self.deferred += usize::from(is_deferred);
            let tickets = self.pending.entry(key(conn, id)).or_default();
            tickets.push(PendingTicket { ticket, is_deferred });
        }
    }

    /// Takes the ticket of a request whose effect is performed or refused.
    pub(crate) fn take(&mut self, conn: ConnId, id: &RequestId) -> Option<RequestTicket> {
        let key = key(conn, id);
        let tickets = self.pending.get_mut(&key)?;
        let held = tickets.pop();
        if tickets.is_empty() {
            self.pending.remove(&key);
        }
        let held = held?;
        self.deferred -= usize::from(held.is_deferred);
        Some(held.ticket)
    }

    /// Opens a request, so that a part of the host answers it. `None` if the host is going away.
    pub(crate) fn open(&mut self, handles: &LoopHandles, conn: ConnId, id: RequestId) -> Option<OpenRequest> {
        let ticket = self.take(conn, &id);
        let inbox = handles.inbox()?;
        Some(OpenRequest {
            conn,
            id,
            ticket,
            inbox,
        })
    }

    /// Notes which deferred requests have continued with one of these effects. They keep their tickets until the effect
    /// is performed.
    pub(crate) fn note_continued(&mut self, effects: &[Effect]) {
        if self.deferred == 0 {
            return;
        }
        for (conn, id) in effects.iter().filter_map(Effect::request) {
            let deferred = self.pending.get_mut(&key(conn, id)).into_iter().flatten();
            for held in deferred.filter(|held| held.is_deferred) {
                held.is_deferred = false;
                self.deferred -= 1;
            }
        }
    }

    /// Drops the tickets of requests that are not deferred any more.
    pub(crate) fn release_continued(&mut self, core: &HostCore) {
        if self.deferred == 0 {
            return;
        }
        self.pending.retain(|(conn, _), tickets| {
            tickets.retain(|held| !held.is_deferred || core.has_deferred_input(*conn));
            !tickets.is_empty()
        });
        let tickets = self.pending.values().flatten();
        self.deferred = tickets.filter(|held| held.is_deferred).count();
    }

    /// Drops all tickets, because the core is replaced.
    pub(crate) fn clear(&mut self) {
        self.pending.clear();
        self.deferred = 0;
    }
}

fn key(conn: ConnId, id: &RequestId) -> (ConnId, String) {
    (conn, id.as_json().to_owned())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use innkeeper_core::{CoreConfig, JournalCommand};
    use tokio::sync::Semaphore;

    use super::*;

    const CONN: ConnId = ConnId { slot: 1, generation: 1 };

    fn listing(id: u64) -> Effect {
        let id = RequestId::number(id);
        Effect::from(JournalCommand::ListDeleted { conn: CONN, id })
    }

    #[test]
    fn a_ticket_is_held_until_the_effect_of_its_request_is_performed() {
        let core = HostCore::new(CoreConfig::default(), Vec::new(), innkeeper_core::Seq(0));
        let places = Arc::new(Semaphore::new(3));
        let take_place = || Arc::clone(&places).try_acquire_owned().expect("a free place");
        let mut tickets = RequestTickets::default();
        tickets.hold(&core, &[listing(1)], CONN, &RequestId::number(1), take_place());
        tickets.hold(&core, &[listing(2)], CONN, &RequestId::number(2), take_place());
        // The core has answered the third request itself.
        tickets.hold(&core, &[], CONN, &RequestId::number(3), take_place());
        assert_eq!(places.available_permits(), 1);
        // In any order, and never the ticket of another request.
        assert!(tickets.take(CONN, &RequestId::number(3)).is_none());
        assert!(tickets.take(CONN, &RequestId::number(2)).is_some());
        assert!(tickets.take(CONN, &RequestId::number(2)).is_none());
        assert_eq!(places.available_permits(), 2);
        assert!(tickets.take(CONN, &RequestId::number(1)).is_some());
        assert_eq!(places.available_permits(), 3);
    }

    #[test]
    fn a_request_id_that_is_used_twice_has_two_tickets() {
        let core = HostCore::new(CoreConfig::default(), Vec::new(), innkeeper_core::Seq(0));
        let places = Arc::new(Semaphore::new(2));
        let mut tickets = RequestTickets::default();
        for _ in 0..2 {
            let ticket = Arc::clone(&places).try_acquire_owned().expect("a free place");
            tickets.hold(&core, &[listing(1)], CONN, &RequestId::number(1), ticket);
        }
        assert!(tickets.take(CONN, &RequestId::number(1)).is_some());
        assert_eq!(places.available_permits(), 1);
        tickets.clear();
        assert_eq!(places.available_permits(), 2);
    }
}
