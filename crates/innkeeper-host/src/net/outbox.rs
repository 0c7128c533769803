//! The queue in front of each connection: ordered, bounded in bytes, merging where it may.
//!
//! [`Queue`] is the policy and does no IO. [`Outbox`] shares one between the main loop, which
//! only ever adds, and the connection's writer, which takes.
//!
//! Policy for a slow connection: adjacent streamed output is merged; if that is not enough, the connection is closed
//! with 1013 and comes back by `reconnect`. No other connection waits for it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use innkeeper_core::{ActionFrame, Outgoing, Wire};
use innkeeper_std::sync::{Mutex, MutexGuard};
use tokio::sync::Notify;

use crate::limits::Limits;
use crate::net::close::Close;

/// Bounds of one queue.
#[derive(Debug, Clone, Copy)]
pub struct QueueLimits {
    /// Maximum bytes waiting.
    pub bytes: usize,
    /// Messages waiting from which on even `maxLatencyMs: 0` is merged.
    pub merge_messages: usize,
    /// Bytes waiting from which on even `maxLatencyMs: 0` is merged.
    pub merge_bytes: usize,
}

impl From<&Limits> for QueueLimits {
    fn from(limits: &Limits) -> Self {
        Self {
            bytes: limits.outbox_bytes,
            merge_messages: limits.outbox_merge_messages,
            merge_bytes: limits.outbox_merge_bytes,
        }
    }
}

/// One waiting message.
#[derive(Debug, Clone)]
struct Item {
    message: Outgoing,
    /// How long it may be held back for merging; zero for everything that is not streamed output.
    hold_ms: u32,
}

/// The most bytes that a writer takes at once: enough for one large write, small enough to merge the messages that
/// arrive meanwhile.
const TAKE_BYTES: usize = 256 << 10;

/// Bytes per queued item besides its text.
const ITEM_OVERHEAD: usize = size_of::<Item>();

/// The policy of one connection's queue.
#[derive(Debug)]
pub struct Queue {
    limits: QueueLimits,
    items: VecDeque<Item>,
    bytes: usize,
    /// The size at which the queue is next merged in place.
    compact_at: usize,
    overflowed: bool,
    /// The weight of the heaviest message since the queue was last empty, which does not count against the bound. An
    /// answer may be larger than that: the client asked for it, closing the connection would only make it ask again,
    /// and until it is written it costs next to nothing. So may an action with an image: all queues share its bytes,
    /// and a client that reconnects would be sent it anyway. Messages merged here do not count, or a queue of small
    /// ones would have no bound.
    largest: usize,
}

impl Queue {
    /// An empty queue.
    pub fn new(limits: QueueLimits) -> Self {
        Self {
            limits,
            items: VecDeque::new(),
            bytes: 0,
            compact_at: limits.merge_bytes,
            overflowed: false,
            largest: 0,
        }
    }

    /// Adds a message that goes out as soon as it can.
    pub fn push(&mut self, message: Outgoing) {
        self.arrives(message, 0);
        self.enforce();
    }

    /// Adds a message that its reader can do without, unless much waits already: the connection must not be closed
    /// for it.
    pub fn push_if_room(&mut self, message: Outgoing) {
        if self.bytes + message.weight() + ITEM_OVERHEAD <= self.limits.bytes / 2 {
            self.push(message);
        }
    }

    /// Adds actions of one channel; streamed output among them may be held back.
    pub fn push_actions(&mut self, frames: &[Arc<ActionFrame>], max_latency_ms: u32) {
        for frame in frames {
            let hold_ms = if frame.is_mergeable() { max_latency_ms } else { 0 };
            self.arrives(Outgoing::Action(Arc::clone(frame)), hold_ms);
        }
        self.enforce();
    }

    /// Whether the connection fell too far behind.
    pub fn overflowed(&self) -> bool {
        self.overflowed
    }

    /// Bytes waiting.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes waiting; `None` once the connection fell too far behind. No agent waits for it then, and
    /// its empty queue says nothing about the readers that are left.
    fn backlog(&self) -> Option<usize> {
        (!self.overflowed).then_some(self.bytes)
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// How long everything that waits may still be held back, counted from the last write.
    /// Nothing urgent and little of it: then the shortest bound; otherwise zero.
    pub fn hold_ms(&self) -> u32 {
        if self.bytes >= TAKE_BYTES / 2 {
            return 0;
        }
        self.items.iter().map(|item| item.hold_ms).min().unwrap_or(0)
    }

    /// Takes the next messages, encoded, merging neighbours that may be merged.
    pub fn take(&mut self) -> Vec<Wire> {
        let pressed = self.items.len() > self.limits.merge_messages || self.bytes > self.limits.merge_bytes;
        let mut taken = Vec::new();
        let mut taken_bytes = 0;
        let mut run: Vec<Arc<ActionFrame>> = Vec::new();
        while taken_bytes < TAKE_BYTES
            && let Some(item) = self.items.pop_front()
        {
            let weight = item.message.weight();
            self.bytes -= weight + ITEM_OVERHEAD;
            taken_bytes += weight;
            match item.message {
                Outgoing::Action(frame) if pressed || item.hold_ms > 0 => {
                    if run.last().is_some_and(|last| !last.merges_with(&frame)) {
                        finish_run(&mut run, &mut taken);
                    }
                    run.push(frame);
                }
                other => {
                    finish_run(&mut run, &mut taken);
                    taken.push(other.into_wire());
                }
            }
        }
        finish_run(&mut run, &mut taken);
        if self.items.is_empty() {
            self.largest = 0;
        }
        if self.items.is_empty() && self.items.capacity() > 64 {
            // An idle connection must not keep what a burst needed.
            self.items = VecDeque::new();
        }
        self.compact_at = self.compact_at.min(self.limits.merge_bytes.max(2 * self.bytes));
        taken
    }

    fn arrives(&mut self, message: Outgoing, hold_ms: u32) {
        self.largest = self.largest.max(message.weight());
        self.add(message, hold_ms);
    }

    fn add(&mut self, message: Outgoing, hold_ms: u32) {
        if self.overflowed {
            return;
        }
        self.bytes += message.weight() + ITEM_OVERHEAD;
        self.items.push_back(Item { message, hold_ms });
    }

    fn enforce(&mut self) {
        if self.bytes > self.compact_at {
            self.compact();
            // The next time it has doubled, so that merging costs a constant per message.
            self.compact_at = self.limits.merge_bytes.max(2 * self.bytes);
        }
        if self.bytes > self.limits.bytes && self.bytes.saturating_sub(self.largest) > self.limits.bytes {
            self.overflowed = true;
            self.items = VecDeque::new();
            self.bytes = 0;
        }
    }

    /// Merges every run of neighbours in place.
    fn compact(&mut self) {
        let items = std::mem::take(&mut self.items);
        let mut run: Vec<Arc<ActionFrame>> = Vec::new();
        self.bytes = 0;
        for item in items {
            match item.message {
                Outgoing::Action(frame) => {
                    if run.last().is_some_and(|last| !last.merges_with(&frame)) {
                        self.add_run(&mut run);
                    }
                    run.push(frame);
                }
                other => {
                    self.add_run(&mut run);
                    self.add(other, 0);
                }
            }
        }
        self.add_run(&mut run);
    }

    fn add_run(&mut self, run: &mut Vec<Arc<ActionFrame>>) {
        match run.as_slice() {
            [] => {}
            [single] => self.add(Outgoing::Action(Arc::clone(single)), 0),
            several => self.add(Outgoing::Action(Arc::new(ActionFrame::merged(several))), 0),
        }
        run.clear();
    }
}

fn finish_run(run: &mut Vec<Arc<ActionFrame>>, taken: &mut Vec<Wire>) {
    if run.len() > 1 {
        taken.push(Wire::Action(Arc::new(ActionFrame::merged(run))));
        run.clear();
    } else {
        taken.extend(run.drain(..).map(Wire::Action));
    }
}

/// A queue shared by the main loop and one writer.
#[derive(Debug)]
pub struct Outbox {
    state: Mutex<State>,
    /// Wakes the writer.
    wake: Notify,
    /// Tells reader and writer that the connection is to be closed.
    closing: Notify,
}

#[derive(Debug)]
struct State {
    queue: Queue,
    closing: Option<Close>,
    writer_waits: bool,
}

/// The next step of a writer.
#[derive(Debug)]
pub(crate) enum Next {
    /// Write these, then come back.
    Write(Vec<Wire>),
    /// Close; everything before it is written or given up.
    Close(Close),
}

impl Outbox {
    pub(crate) fn new(limits: QueueLimits) -> Self {
        Self {
            state: Mutex::new(State {
                queue: Queue::new(limits),
                closing: None,
                writer_waits: false,
            }),
            wake: Notify::new(),
            closing: Notify::new(),
        }
    }

    /// Adds a message.
    pub(crate) fn push(&self, message: Outgoing) {
        self.with(|queue| queue.push(message));
    }

    /// Adds a message that its reader can do without, unless much waits already.
    pub(crate) fn push_if_room(&self, message: Outgoing) {
        self.with(|queue| queue.push_if_room(message));
    }

    /// Adds actions of one channel and returns how many bytes now wait, like [`Self::backlog`].
    pub(crate) fn push_actions(&self, frames: &[Arc<ActionFrame>], max_latency_ms: u32) -> Option<usize> {
        self.with(|queue| {
            queue.push_actions(frames, max_latency_ms);
            queue.backlog()
        })
    }

    /// Bytes waiting for a reader that is not given up.
    pub(crate) fn backlog(&self) -> Option<usize> {
        self.lock().queue.backlog()
    }

    /// Closes the connection after what is queued; the first reason stands.
    pub(crate) fn close(&self, close: Close) {
        let mut state = self.lock();
        state.closing.get_or_insert(close);
        self.closing.notify_waiters();
        self.wake_writer(&mut state);
    }

    /// Completes when the connection is to be closed.
    pub(crate) async fn closed(&self) -> Close {
        loop {
            let closing = self.closing.notified();
            tokio::pin!(closing);
            // Listening before looking, so that nothing falls in between.
            closing.as_mut().enable();
            if let Some(close) = self.lock().closing {
                return close;
            }
            closing.await;
        }
    }

    /// Waits for something to write. `since_write` is the time since the last write: held-back
    /// output goes out at once on a quiet connection and is gathered on a busy one.
    pub(crate) async fn next(&self, since_write: Duration) -> Next {
        let mut waited = Duration::ZERO;
        loop {
            let hold = {
                let mut state = self.lock();
                if !state.queue.is_empty() {
                    let bound = Duration::from_millis(state.queue.hold_ms().into());
                    let left = bound.saturating_sub(since_write + waited);
                    if left.is_zero() || state.closing.is_some() {
                        return Next::Write(state.queue.take());
                    }
                    state.writer_waits = true;
                    Some(left)
                } else if let Some(close) = state.closing {
                    return Next::Close(close);
                } else {
                    state.writer_waits = true;
                    None
                }
            };
            let started = tokio::time::Instant::now();
            match hold {
                None => self.wake.notified().await,
                Some(left) => {
                    // Ends early when something urgent is queued; the loop looks again.
                    let _ = tokio::time::timeout(left, self.wake.notified()).await;
                }
            }
            waited += started.elapsed();
        }
    }

    fn with<T>(&self, change: impl FnOnce(&mut Queue) -> T) -> T {
        let mut state = self.lock();
        let result = change(&mut state.queue);
        if state.queue.overflowed() {
            if state.closing.is_none() {
                tracing::debug!(
                    waiting = state.queue.bytes(),
                    "a client reads too slowly; its connection is closed"
                );
            }
            state.closing.get_or_insert(Close::TooSlow);
            self.closing.notify_waiters();
        }
        self.wake_writer(&mut state);
        result
    }

    fn wake_writer(&self, state: &mut State) {
        if std::mem::take(&mut state.writer_waits) {
            self.wake.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue() -> Queue {
        Queue::new(QueueLimits {
            bytes: 8 << 20,
            merge_messages: 4096,
            merge_bytes: 1 << 20,
        })
    }

    fn image(bytes: usize) -> Outgoing {
        Outgoing::Text(vec![b'x'; bytes].into())
    }

    #[test]
    fn f17_two_images_at_once_do_not_cost_a_slow_client_its_connection() {
        let mut queue = queue();
        for _ in 0..2 {
            queue.push(image(5 << 20));
        }
        assert!(!queue.overflowed(), "the largest message does not count");
        queue.push(image(5 << 20));
        assert!(queue.overflowed(), "the others do");
    }

    #[test]
    fn f17_an_oversized_message_is_sent_and_counts_until_the_queue_is_empty() {
        let mut queue = queue();
        queue.push(image(20 << 20));
        assert!(!queue.overflowed());
        while !queue.is_empty() {
            queue.take();
        }
        for _ in 0..10 {
            queue.push(image(1 << 20));
        }
        assert!(queue.overflowed(), "ten of one size are nine that count");
    }
}
