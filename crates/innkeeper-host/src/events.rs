//! The queue between an agent and the main loop: one per chat, in order, bounded.
//!
//! An agent that streams adds to its own queue and rings the main loop's bell once; the loop takes
//! what has gathered. So a flood costs neither a wake-up per word nor another chat its turn, and
//! the queue is where an agent is held back.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use innkeeper_core::{AgentEvent, ChannelId, Input, TurnEnd, TurnKey};
use tokio::sync::{Notify, mpsc};

use crate::host::Message;

/// Events waiting at most; beyond it the agent waits. Well below the number of queued messages at
/// which a connection counts as slow, so that a burst alone makes nobody look slow.
const MAX_EVENTS: usize = 1024;
/// Bytes of text waiting at most, but for the last event.
const MAX_BYTES: usize = 256 << 10;

/// One chat's queue.
#[derive(Debug)]
pub(crate) struct EventQueue {
    chat: ChannelId,
    state: Mutex<State>,
    /// Tells a waiting agent that something changed.
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Input>,
    bytes: usize,
    /// The run whose events are wanted.
    running: Option<TurnKey>,
    /// Whether even the agent's fastest reader is behind.
    held: bool,
    /// Whether the main loop knows that something waits.
    rung: bool,
}

/// What became of an event.
#[derive(Debug)]
pub(crate) enum Offer {
    /// It waits, and the main loop must be told so.
    Ring,
    /// It waits, and the main loop knows.
    Taken,
    /// There is no room now; here it is back.
    Full(AgentEvent),
    /// Its turn is over.
    Over,
}

impl EventQueue {
    pub(crate) fn new(chat: ChannelId) -> Self {
        Self {
            chat,
            state: Mutex::default(),
            changed: Notify::new(),
        }
    }

    pub(crate) fn chat(&self) -> ChannelId {
        self.chat
    }

    /// Makes a run the one whose events are wanted; those of others are refused from now on.
    pub(crate) fn begin(&self, turn: TurnKey) {
        self.lock().running = Some(turn);
    }

    /// Ends a run from the host's side.
    pub(crate) fn cancel(&self, turn: TurnKey) {
        let mut state = self.lock();
        if state.running == Some(turn) {
            state.running = None;
        }
        drop(state);
        self.changed.notify_waiters();
    }

    /// Adds an event of a run, if there is room.
    pub(crate) fn offer(&self, turn: TurnKey, event: AgentEvent) -> Offer {
        let mut state = self.lock();
        if state.running != Some(turn) {
            return Offer::Over;
        }
        if state.held || state.waiting.len() >= MAX_EVENTS || state.bytes >= MAX_BYTES {
            return Offer::Full(event);
        }
        state.bytes += text_bytes(&event);
        state.waiting.push_back(Input::Agent {
            chat: self.chat,
            turn,
            event,
        });
        if std::mem::replace(&mut state.rung, true) {
            Offer::Taken
        } else {
            Offer::Ring
        }
    }

    /// Adds the end of a run, for which there is always room. Returns whether to ring.
    pub(crate) fn end(&self, turn: TurnKey, end: TurnEnd) -> bool {
        let mut state = self.lock();
        if state.running == Some(turn) {
            state.running = None;
        }
        state.waiting.push_back(Input::TurnEnded {
            chat: self.chat,
            turn,
            end,
        });
        !std::mem::replace(&mut state.rung, true)
    }

    /// Tells the main loop that something waits. An agent may give up in the middle of this, for
    /// instance in a timeout of its own; then whoever comes next rings.
    pub(crate) async fn ring(queue: &Arc<Self>, inbox: &mpsc::Sender<Message>) -> Result<(), ()> {
        let unheard = Unheard(queue);
        let permit = inbox.reserve().await.map_err(|_| ())?;
        std::mem::forget(unheard);
        permit.send(Message::Events(Arc::clone(queue)));
        Ok(())
    }

    /// Completes when it is worth offering again.
    pub(crate) async fn room(&self, turn: TurnKey) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // Listening before looking, so that nothing falls in between.
            changed.as_mut().enable();
            {
                let state = self.lock();
                let has_room = !state.held && state.waiting.len() < MAX_EVENTS && state.bytes < MAX_BYTES;
                if has_room || state.running != Some(turn) {
                    return;
                }
            }
            changed.await;
        }
    }

    /// Takes everything that waits, for the main loop.
    pub(crate) fn take(&self, into: &mut VecDeque<Input>) {
        let mut state = self.lock();
        state.rung = false;
        state.bytes = 0;
        std::mem::swap(&mut state.waiting, into);
        if state.running.is_none() {
            // A chat at rest must not keep the room that a stream needed.
            state.waiting = VecDeque::new();
        }
        drop(state);
        self.changed.notify_waiters();
    }

    /// Holds the agent back.
    pub(crate) fn hold(&self) {
        self.lock().held = true;
    }

    /// Lets the agent go on.
    pub(crate) fn release(&self) {
        self.lock().held = false;
        self.changed.notify_waiters();
    }

    /// Whether the agent is held back.
    pub(crate) fn is_held(&self) -> bool {
        self.lock().held
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A bell that was not heard yet; dropped unheard, it counts as not rung.
struct Unheard<'a>(&'a Arc<EventQueue>);

impl Drop for Unheard<'_> {
    fn drop(&mut self) {
        self.0.lock().rung = false;
    }
}

fn text_bytes(event: &AgentEvent) -> usize {
    match event {
        AgentEvent::Text(text)
        | AgentEvent::Reasoning(text)
        | AgentEvent::Notice(text)
        | AgentEvent::Title(text)
        | AgentEvent::Activity(Some(text)) => text.len(),
        AgentEvent::EndPart | AgentEvent::Usage(_) | AgentEvent::Activity(None) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TURN: TurnKey = TurnKey(1);

    fn text(bytes: usize) -> AgentEvent {
        AgentEvent::Text("x".repeat(bytes))
    }

    #[test]
    fn the_bell_rings_once_until_the_loop_has_come() {
        let queue = EventQueue::new(ChannelId(1));
        queue.begin(TURN);
        assert!(matches!(queue.offer(TURN, text(1)), Offer::Ring));
        assert!(matches!(queue.offer(TURN, text(1)), Offer::Taken));
        assert!(!queue.end(TURN, TurnEnd::Complete));
        let mut taken = VecDeque::new();
        queue.take(&mut taken);
        assert_eq!(taken.len(), 3);
        assert!(
            matches!(taken.back(), Some(Input::TurnEnded { .. })),
            "the end comes last"
        );
        queue.begin(TurnKey(2));
        assert!(matches!(queue.offer(TurnKey(2), text(1)), Offer::Ring));
    }

    #[tokio::test]
    async fn a_bell_that_nobody_heard_is_rung_again() {
        let queue = Arc::new(EventQueue::new(ChannelId(1)));
        let (inbox, mut messages) = mpsc::channel(1);
        inbox
            .try_send(Message::Detached {
                conn: innkeeper_core::ConnId { slot: 0, generation: 0 },
            })
            .expect("room");
        queue.begin(TURN);
        assert!(matches!(queue.offer(TURN, text(1)), Offer::Ring));
        // The inbox is full, and the agent gives up waiting for it.
        let given_up =
            tokio::time::timeout(std::time::Duration::from_millis(10), EventQueue::ring(&queue, &inbox)).await;
        assert!(given_up.is_err());
        assert!(
            matches!(queue.offer(TURN, text(1)), Offer::Ring),
            "the next event rings"
        );
        messages.recv().await.expect("the message that was in the way");
        EventQueue::ring(&queue, &inbox).await.expect("heard");
        assert!(matches!(queue.offer(TURN, text(1)), Offer::Taken));
    }

    #[test]
    fn the_queue_is_bounded_in_events_and_bytes_and_can_be_held() {
        let queue = EventQueue::new(ChannelId(1));
        queue.begin(TURN);
        for _ in 0..MAX_EVENTS {
            assert!(!matches!(queue.offer(TURN, text(1)), Offer::Full(_)));
        }
        assert!(matches!(queue.offer(TURN, text(1)), Offer::Full(_)));
        queue.take(&mut VecDeque::new());
        assert!(matches!(queue.offer(TURN, text(MAX_BYTES)), Offer::Ring));
        assert!(matches!(queue.offer(TURN, text(1)), Offer::Full(_)));
        queue.take(&mut VecDeque::new());
        queue.hold();
        assert!(matches!(queue.offer(TURN, text(1)), Offer::Full(_)));
        queue.release();
        assert!(matches!(queue.offer(TURN, text(1)), Offer::Ring));
    }

    #[test]
    fn events_of_a_run_that_is_over_are_refused() {
        let queue = EventQueue::new(ChannelId(1));
        assert!(matches!(queue.offer(TURN, text(1)), Offer::Over));
        queue.begin(TURN);
        queue.cancel(TurnKey(0));
        assert!(matches!(queue.offer(TURN, text(1)), Offer::Ring));
        queue.cancel(TURN);
        assert!(matches!(queue.offer(TURN, text(1)), Offer::Over));
    }
}
