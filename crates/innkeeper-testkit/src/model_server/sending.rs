//! How the bytes of a reply leave the server.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;

use super::ServerState;
use super::script::{Chunking, Reply};
use super::wire::Frame;

/// One thing to do while sending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Send {
    Write(Bytes),
    Pause(Duration),
    Stall,
    /// Break the connection off.
    Cut,
}

impl Send {
    /// The steps of sending a reply.
    pub(super) fn plan(reply: &Reply, frames: &[Frame]) -> Vec<Self> {
        let mut plan = Vec::new();
        let mut stretch = Chunk::default();
        let mut events = 0;
        for frame in frames {
            if reply.delivery.cut_after == Some(events) {
                stretch.write(reply, &mut plan);
                plan.push(Self::Cut);
                return plan;
            }
            match frame {
                Frame::Event(lines) => {
                    stretch.add(lines);
                    events += 1;
                }
                Frame::Stall => {
                    stretch.write(reply, &mut plan);
                    plan.push(Self::Stall);
                }
            }
        }
        stretch.write(reply, &mut plan);
        plan
    }
}

/// Bytes between two pauses.
#[derive(Debug, Default)]
struct Chunk {
    /// Bytes of the stream before it.
    before: usize,
    bytes: Vec<u8>,
    /// Where events end.
    ends: Vec<usize>,
}

impl Chunk {
    fn add(&mut self, lines: &str) {
        self.bytes.extend_from_slice(lines.as_bytes());
        self.ends.push(self.bytes.len());
    }

    fn write(&mut self, reply: &Reply, plan: &mut Vec<Send>) {
        let stretch = std::mem::replace(
            self,
            Self {
                before: self.before + self.bytes.len(),
                ..Self::default()
            },
        );
        let length = stretch.bytes.len();
        let mut cuts: Vec<usize> = match (&reply.delivery.drip, &reply.delivery.chunking) {
            (Some((bytes, _)), _) => (0..length).step_by((*bytes).max(1)).collect(),
            (None, Chunking::Whole) => Vec::new(),
            (None, Chunking::EveryEvent) => stretch.ends,
            (None, Chunking::EveryByte) => (0..length).collect(),
            (None, Chunking::At(places)) => places
                .iter()
                .filter_map(|place| place.checked_sub(stretch.before))
                .collect(),
        };
        cuts.retain(|cut| *cut > 0 && *cut < length);
        cuts.push(length);
        cuts.sort_unstable();
        cuts.dedup();
        let bytes = Bytes::from(stretch.bytes);
        let mut from = 0;
        for cut in cuts.into_iter().filter(|_| length > 0) {
            plan.push(Send::Write(bytes.slice(from..cut)));
            plan.extend(reply.delivery.drip.map(|(_, pause)| Send::Pause(pause)));
            from = cut;
        }
    }
}

/// A reply that is being sent. If it is dropped early, the client hung up.
#[derive(Debug)]
pub(super) struct OpenReply {
    shared: Arc<ServerState>,
    number: usize,
    done: bool,
}

impl OpenReply {
    pub(super) fn new(shared: Arc<ServerState>, number: usize) -> Self {
        Self {
            shared,
            number,
            done: false,
        }
    }

    pub(super) fn is_done(&mut self) {
        self.done = true;
    }
}

impl Drop for OpenReply {
    fn drop(&mut self) {
        if !self.done {
            self.shared.seen.send_modify(|seen| seen.hung_up.push(self.number));
        }
    }
}

/// The bytes of an answer, as and when the plan has them.
pub(super) fn stream(answering: OpenReply, plan: Vec<Send>) -> impl Stream<Item = io::Result<Bytes>> {
    let state = (answering, plan.into_iter());
    futures_util::stream::unfold(state, async |(mut answering, mut plan)| {
        loop {
            match plan.next() {
                Some(Send::Write(bytes)) => return Some((Ok(bytes), (answering, plan))),
                Some(Send::Pause(pause)) => tokio::time::sleep(pause).await,
                Some(Send::Stall) => answering.shared.stall().await,
                Some(Send::Cut) => {
                    answering.is_done();
                    // Flush the bytes so far before the connection breaks.
                    tokio::task::yield_now().await;
                    return Some((Err(io::ErrorKind::ConnectionAborted.into()), (answering, plan)));
                }
                None => {
                    answering.is_done();
                    return None;
                }
            }
        }
    })
}
