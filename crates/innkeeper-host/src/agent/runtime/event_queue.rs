//! The queue between an agent and the main loop: one per chat, in order, bounded.
//!
//! An agent that streams adds to its own queue and rings the main loop's bell once; the loop takes
//! what has gathered. So a flood costs neither a wake-up per word nor another chat its turn, and
//! the queue is where an agent is held back.

use std::collections::VecDeque;
use std::sync::Arc;

use innkeeper_core::agent::{BackgroundChange, ToolContent, ToolReady, ToolStep};
use innkeeper_core::{AgentEvent, ChannelId, Input, TurnEnd, TurnKey};
use innkeeper_std::sync::{Mutex, MutexGuard};
use tokio::sync::{Notify, mpsc};

use crate::main_loop::Message;

/// Events waiting at most; beyond it the agent waits. Well below the number of queued messages at which a connection
/// counts as slow, so that a burst alone makes no connection look slow.
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
    woken: bool,
    /// Whether the chat has no use for this queue any more.
    closed: bool,
}

/// Queues whose bell did not fit into the main loop's inbox; the loop looks here after every batch.
pub(crate) type MissedWakes = Arc<Mutex<Vec<Arc<EventQueue>>>>;

/// How an agent's side tells the main loop that a queue has something.
#[derive(Debug, Clone)]
pub(crate) struct LoopWaker {
    inbox: mpsc::Sender<Message>,
    missed: MissedWakes,
}

impl LoopWaker {
    pub(crate) fn new(inbox: mpsc::Sender<Message>, missed: MissedWakes) -> Self {
        Self { inbox, missed }
    }

    /// The main loop's inbox, for what does not go through a queue.
    pub(crate) fn inbox(&self) -> &mpsc::Sender<Message> {
        &self.inbox
    }

    /// Rings, and waits until there is room for it.
    pub(crate) async fn wake(&self, queue: &Arc<EventQueue>) -> Result<(), ()> {
        EventQueue::wake(queue, &self.inbox).await
    }

    /// Rings without waiting, for what happens in a `drop`.
    pub(crate) fn wake_now(&self, queue: &Arc<EventQueue>) {
        let is_full = || {
            let woken = self.inbox.try_send(Message::Events(Arc::clone(queue)));
            matches!(woken, Err(mpsc::error::TrySendError::Full(_)))
        };
        if is_full() {
            let mut missed = self.missed.lock();
            missed.push(Arc::clone(queue));
            drop(missed);
            // Still full means that the loop has a batch before it, after which it looks at what it
            // missed. If the loop has emptied its inbox in between, this is heard instead.
            is_full();
        }
    }
}

impl State {
    fn has_room(&self) -> bool {
        !self.held && self.waiting.len() < MAX_EVENTS && self.bytes < MAX_BYTES
    }
}

/// The outcome of offering an event.
#[derive(Debug)]
pub(crate) enum Offer {
    /// The event waits, and the main loop must be woken.
    Wake,
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
        if !state.has_room() {
            return Offer::Full(event);
        }
        state.bytes += text_bytes(&event);
        state.waiting.push_back(Input::Agent {
            chat: self.chat,
            turn,
            event,
        });
        if std::mem::replace(&mut state.woken, true) {
            Offer::Taken
        } else {
            Offer::Wake
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
        !std::mem::replace(&mut state.woken, true)
    }

    /// Wakes the main loop. An agent may drop this future, for instance in a timeout of its own; then the next event
    /// wakes it.
    pub(crate) async fn wake(queue: &Arc<Self>, inbox: &mpsc::Sender<Message>) -> Result<(), ()> {
        let unsent = UnsentWake(queue);
        let permit = inbox.reserve().await.map_err(|_| ())?;
        std::mem::forget(unsent);
        permit.send(Message::Events(Arc::clone(queue)));
        Ok(())
    }

    /// Completes when it is worth offering again.
    pub(crate) async fn room(&self, turn: TurnKey) {
        self.until(|state| state.has_room() || state.running != Some(turn))
            .await;
    }

    async fn until(&self, holds: impl Fn(&State) -> bool) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // Listening before looking, so that nothing falls in between.
            changed.as_mut().enable();
            if holds(&self.lock()) {
                return;
            }
            changed.await;
        }
    }

    /// Adds an event of a run whether there is room or not, for what an agent leaves behind in a
    /// `drop`; there can be no more of those than of what it started. Returns whether to ring.
    pub(crate) fn push(&self, turn: TurnKey, event: AgentEvent) -> bool {
        let mut state = self.lock();
        if state.running != Some(turn) {
            return false;
        }
        state.bytes += text_bytes(&event);
        state.waiting.push_back(Input::Agent {
            chat: self.chat,
            turn,
            event,
        });
        !std::mem::replace(&mut state.woken, true)
    }

    /// Adds the beginning or a change of work beside turns, if there is room.
    pub(crate) fn offer_beside(&self, change: BackgroundChange) -> Result<bool, Option<BackgroundChange>> {
        let mut state = self.lock();
        if state.closed {
            return Err(None);
        }
        if !state.has_room() {
            return Err(Some(change));
        }
        Ok(self.add_beside(&mut state, change))
    }

    /// Adds the end of work beside turns, for which there is always room, even after the chat
    /// stopped using this queue: a new one shows the same work. Returns whether to ring.
    pub(crate) fn push_beside(&self, change: BackgroundChange) -> bool {
        let mut state = self.lock();
        self.add_beside(&mut state, change)
    }

    fn add_beside(&self, state: &mut State, change: BackgroundChange) -> bool {
        state.waiting.push_back(Input::Background {
            chat: self.chat,
            change,
        });
        !std::mem::replace(&mut state.woken, true)
    }

    /// Completes when it is worth offering work beside turns again.
    pub(crate) async fn room_beside(&self) {
        self.until(|state| state.closed || state.has_room()).await;
    }

    /// The chat is gone, or got another queue.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.running = None;
        drop(state);
        self.changed.notify_waiters();
    }

    /// Takes everything that waits, for the main loop.
    pub(crate) fn take(&self, into: &mut VecDeque<Input>) {
        let mut state = self.lock();
        state.woken = false;
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

    /// Lets the agent continue.
    pub(crate) fn release(&self) {
        self.lock().held = false;
        self.changed.notify_waiters();
    }

    /// Whether the agent is held back.
    pub(crate) fn is_held(&self) -> bool {
        self.lock().held
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

/// A wake-up that was not received yet. Dropped before that, it counts as not sent.
struct UnsentWake<'a>(&'a Arc<EventQueue>);

impl Drop for UnsentWake<'_> {
    fn drop(&mut self) {
        self.0.lock().woken = false;
    }
}

/// The bulk of an event; what it weighs beyond that is bounded by the number of events.
fn text_bytes(event: &AgentEvent) -> usize {
    match event {
        AgentEvent::Text(text)
        | AgentEvent::Reasoning(text)
        | AgentEvent::Notice(text)
        | AgentEvent::Title(text)
        | AgentEvent::Activity(Some(text)) => text.len(),
        AgentEvent::Resource { uri, .. } => uri.len(),
        AgentEvent::Spawn(spawn) => spawn.prompt.len(),
        AgentEvent::Annotate(annotation) => annotation.text.len(),
        AgentEvent::Tool { step, .. } => step_bytes(step),
        AgentEvent::Ask(_)
        | AgentEvent::Remember(_)
        | AgentEvent::Setting { .. }
        | AgentEvent::EndPart
        | AgentEvent::Usage(_)
        | AgentEvent::Activity(None)
        | AgentEvent::Withdraw(_)
        | AgentEvent::TakeSteering
        | AgentEvent::TokenRefused { .. }
        | AgentEvent::Alive => 0,
    }
}

fn step_bytes(step: &ToolStep) -> usize {
    let contents = |contents: &[ToolContent]| contents.iter().map(content_bytes).sum();
    match step {
        ToolStep::Input(text) => text.len(),
        ToolStep::Ready(ToolReady { input, .. }) => input.as_ref().map_or(0, String::len),
        ToolStep::Content(content) => contents(content),
        ToolStep::Done { result, .. } => contents(&result.content),
        ToolStep::Announce(described) => described.text.len() + described.markdown.as_ref().map_or(0, String::len),
        ToolStep::Start(_) | ToolStep::Risk(_) | ToolStep::AuthRequired(_) | ToolStep::AuthResolved => 0,
    }
}

fn content_bytes(content: &ToolContent) -> usize {
    match content {
        ToolContent::Text(text) => text.len(),
        ToolContent::Embedded { data, .. } => data.len(),
        ToolContent::Terminal { preview, .. } => preview.as_ref().map_or(0, String::len),
        ToolContent::Resource { .. } | ToolContent::FileEdit(_) | ToolContent::Subagent { .. } => 0,
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
        assert!(matches!(queue.offer(TURN, text(1)), Offer::Wake));
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
        assert!(matches!(queue.offer(TurnKey(2), text(1)), Offer::Wake));
    }

    #[tokio::test]
    async fn a_missed_wake_up_is_repeated() {
        let queue = Arc::new(EventQueue::new(ChannelId(1)));
        let (inbox, mut messages) = mpsc::channel(1);
        inbox.try_send(Message::Core(Input::Tick)).expect("room");
        queue.begin(TURN);
        assert!(matches!(queue.offer(TURN, text(1)), Offer::Wake));
        // The inbox is full, and the agent gives up waiting for it.
        let given_up =
            tokio::time::timeout(std::time::Duration::from_millis(10), EventQueue::wake(&queue, &inbox)).await;
        assert!(given_up.is_err());
        assert!(
            matches!(queue.offer(TURN, text(1)), Offer::Wake),
            "the next event rings"
        );
        messages.recv().await.expect("the message that was in the way");
        EventQueue::wake(&queue, &inbox).await.expect("heard");
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
        assert!(matches!(queue.offer(TURN, text(MAX_BYTES)), Offer::Wake));
        assert!(matches!(queue.offer(TURN, text(1)), Offer::Full(_)));
        queue.take(&mut VecDeque::new());
        queue.hold();
        assert!(matches!(queue.offer(TURN, text(1)), Offer::Full(_)));
        queue.release();
        assert!(matches!(queue.offer(TURN, text(1)), Offer::Wake));
    }

    #[test]
    fn events_of_a_run_that_is_over_are_refused() {
        let queue = EventQueue::new(ChannelId(1));
        assert!(matches!(queue.offer(TURN, text(1)), Offer::Over));
        queue.begin(TURN);
        queue.cancel(TurnKey(0));
        assert!(matches!(queue.offer(TURN, text(1)), Offer::Wake));
        queue.cancel(TURN);
        assert!(matches!(queue.offer(TURN, text(1)), Offer::Over));
    }
}
