//! The wire to one client: what the host has queued and the client has not read.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use innkeeper_core::snapshot::Snapshot;
use innkeeper_core::{ActionFrame, Outgoing, Version, Wire};
use innkeeper_host::dialect::Edge;

use crate::sim::older::SimEdge;

/// One thing in a queue.
#[derive(Debug, Clone)]
pub enum Item {
    /// A message, encoded when it is read, as the host's writer does it.
    Message(Outgoing),
    /// An action that may be merged with its neighbours.
    Mergeable(Arc<ActionFrame>),
    /// A note of the simulator at this point of the stream; no client sees it.
    Marker(Marker),
}

/// A fact about the host at one point of a stream.
#[derive(Debug, Clone)]
pub enum Marker {
    /// The host has handled this client's `unsubscribe`.
    Unsubscribed(String),
    /// These channels are gone, so nothing more may come on them.
    Gone(Vec<String>),
    /// The host's states right now; the client's must be equal when it has read this far.
    Expect(Vec<Snapshot>),
    /// A `reconnect` asked for these channels, which exist or do not.
    Resumable {
        /// Requested and there.
        present: Vec<String>,
        /// Requested and gone.
        absent: Vec<String>,
    },
}

/// The result of reading.
#[derive(Debug)]
pub enum Read {
    /// One message off the wire.
    Message(Bytes),
    /// A note.
    Marker(Marker),
    /// An answer about turns that were cut off before it was written; the host closes the transport.
    Unwritable,
}

/// A first-in, first-out queue.
#[derive(Debug, Default)]
pub struct Queue {
    items: VecDeque<Item>,
    merged: u64,
    /// Translates for a client of an older version.
    edge: Option<SimEdge>,
}

impl Queue {
    /// Appends.
    pub fn push(&mut self, item: Item) {
        self.items.push_back(item);
    }

    /// Reads as a client of a version.
    pub fn speak(&mut self, version: Version, client_id: &str) {
        self.edge = version.is_translated().then(|| SimEdge::new(version, client_id, None));
    }

    /// Reads through an edge.
    pub(in crate::sim) fn translate(&mut self, edge: SimEdge) {
        self.edge = Some(edge);
    }

    /// The edge, if anything is translated.
    pub fn edge(&self) -> Option<&Edge> {
        self.edge.as_ref().map(SimEdge::edge)
    }

    /// Everything queued, oldest first, to be bent by a seeded bug.
    pub fn items_mut(&mut self) -> &mut VecDeque<Item> {
        &mut self.items
    }

    /// Reads up to `frames` messages and the notes among them. With `coalesce`, adjacent
    /// mergeable actions within those come as one message, so both ways read the same prefix.
    pub fn read(&mut self, frames: usize, coalesce: bool) -> Vec<Read> {
        let mut left = frames;
        let mut read = Vec::new();
        while let Some(item) = self.items.front() {
            if left == 0 && !matches!(item, Item::Marker(_)) {
                break;
            }
            match self.items.pop_front() {
                Some(Item::Marker(marker)) => read.push(Read::Marker(marker)),
                Some(Item::Message(message)) => {
                    left -= 1;
                    match self.translated(message.into_wire()) {
                        Ok(messages) => read.extend(messages.into_iter().map(Read::Message)),
                        Err(_) => {
                            read.push(Read::Unwritable);
                            break;
                        }
                    }
                }
                Some(Item::Mergeable(first)) => {
                    left -= 1;
                    let mut run = vec![first];
                    while coalesce && left > 0 && self.next_merges(&run) {
                        if let Some(Item::Mergeable(next)) = self.items.pop_front() {
                            run.push(next);
                            self.merged += 1;
                            left -= 1;
                        }
                    }
                    let frame = match run.as_slice() {
                        [only] => Arc::clone(only),
                        run => Arc::new(ActionFrame::merged(run)),
                    };
                    let messages = self.translated(Wire::Action(frame)).unwrap_or_default();
                    read.extend(messages.into_iter().map(Read::Message));
                }
                None => break,
            }
        }
        read
    }

    /// A message in the words of the client.
    fn translated(&mut self, message: Wire) -> std::io::Result<Vec<Bytes>> {
        match &self.edge {
            None => Ok(vec![message.to_bytes()?]),
            Some(edge) => edge.down(message).iter().map(Wire::to_bytes).collect(),
        }
    }

    /// How many actions were folded into an earlier one.
    pub fn merged(&self) -> u64 {
        self.merged
    }

    /// The notes that were never read, for a connection that is cut.
    pub fn into_markers(self) -> impl Iterator<Item = Marker> {
        self.items.into_iter().filter_map(|item| match item {
            Item::Marker(marker) => Some(marker),
            Item::Message(_) | Item::Mergeable(_) => None,
        })
    }

    fn next_merges(&self, run: &[Arc<ActionFrame>]) -> bool {
        match (run.last(), self.items.front()) {
            (Some(last), Some(Item::Mergeable(next))) => last.merges_with(next),
            _ => false,
        }
    }
}
