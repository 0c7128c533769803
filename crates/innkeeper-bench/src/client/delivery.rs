//! Counts and times what one client receives of one streamed turn.

use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::{
    client::delta_scan::{DeltaFrame, DeltaScanner, Message},
    client::websocket::{Arrival, Connection},
};

/// Hex digits of the Unix time in nanoseconds that open each delta of a stamped stream.
pub(crate) const STAMP_DIGITS: usize = 16;

/// Whether deltas carry the time they were made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stamping {
    /// Each delta starts with [`STAMP_DIGITS`] hex digits.
    Stamped,
    /// Deltas are filler only, and times of single deltas are not recorded.
    Plain,
}

/// One streamed turn, as both servers are asked for it.
#[derive(Debug, Clone)]
pub(crate) struct StreamPlan {
    /// The turn's id.
    pub(crate) turn_id: String,
    /// The client sequence number of the action that starts it.
    pub(crate) client_seq: u64,
    /// How many deltas it has.
    pub(crate) deltas: usize,
    /// The bytes of content in each delta.
    pub(crate) bytes: usize,
    /// The pause between deltas, in milliseconds.
    pub(crate) delay_ms: u64,
    /// Whether deltas carry the time they were made.
    pub(crate) stamping: Stamping,
}

/// One turn as one client received it.
pub(crate) struct Delivered {
    /// Frames that carried deltas; a merged frame counts once.
    pub(crate) frames: u64,
    /// When the first delta arrived.
    pub(crate) first: Instant,
    /// When the last delta arrived.
    pub(crate) last: Instant,
    /// The arrival of each delta in Unix nanoseconds, for stamped streams.
    pub(crate) arrivals: Vec<u64>,
    /// The time from making to receipt of each delta in nanoseconds, for stamped streams.
    pub(crate) latencies: Vec<u64>,
    /// How the server's longest frame with a single delta looks around its content.
    pub(crate) frame: Option<DeltaFrame>,
}

/// Reads a turn to its end and checks that nothing is missing and nothing is there twice.
pub(crate) async fn receive_turn(connection: &mut Connection, plan: &StreamPlan) -> Result<Delivered> {
    connection.forget_unread();
    let mut meter = Meter::new(plan);
    while !meter.complete {
        connection
            .read_batch(|payload, arrival| meter.observe(payload, arrival))
            .await
            .with_context(|| {
                format!(
                    "after {} of {} content bytes",
                    meter.content_bytes,
                    meter.expected_bytes()
                )
            })?;
    }
    meter.finish()
}

struct Meter<'plan> {
    plan: &'plan StreamPlan,
    scanner: DeltaScanner,
    content_bytes: usize,
    frames: u64,
    span: Option<(Instant, Instant)>,
    arrivals: Vec<u64>,
    latencies: Vec<u64>,
    longest_frame: Vec<u8>,
    frame: Option<DeltaFrame>,
    complete: bool,
}

impl<'plan> Meter<'plan> {
    fn new(plan: &'plan StreamPlan) -> Self {
        let timed = match plan.stamping {
            Stamping::Stamped => plan.deltas,
            Stamping::Plain => 0,
        };
        Self {
            plan,
            scanner: DeltaScanner::default(),
            content_bytes: 0,
            frames: 0,
            span: None,
            arrivals: Vec::with_capacity(timed),
            latencies: Vec::with_capacity(timed),
            longest_frame: Vec::new(),
            frame: None,
            complete: false,
        }
    }

    fn expected_bytes(&self) -> usize {
        self.plan.deltas * self.plan.bytes
    }

    fn observe(&mut self, payload: &[u8], arrival: Arrival) -> Result<()> {
        match self.scanner.scan(payload)? {
            Message::Delta(content) => self.observe_delta(payload, &content, arrival),
            Message::TurnComplete(turn_id) if turn_id == self.plan.turn_id => {
                self.complete = true;
                Ok(())
            }
            Message::TurnFailed(reason) => bail!("the turn did not run: {reason}"),
            Message::TurnComplete(_) | Message::Other => Ok(()),
        }
    }

    fn observe_delta(&mut self, payload: &[u8], content: &[u8], arrival: Arrival) -> Result<()> {
        if content.is_empty() || !content.len().is_multiple_of(self.plan.bytes) {
            bail!(
                "a frame carries {} bytes of content, which are no whole deltas of {} bytes",
                content.len(),
                self.plan.bytes
            );
        }
        self.content_bytes += content.len();
        self.frames += 1;
        let (first, _) = self.span.unwrap_or((arrival.instant, arrival.instant));
        self.span = Some((first, arrival.instant));
        if self.plan.stamping == Stamping::Stamped {
            for delta in content.chunks_exact(self.plan.bytes) {
                self.arrivals.push(arrival.unix_nanos);
                self.latencies.push(arrival.unix_nanos.saturating_sub(stamp_of(delta)?));
            }
        }
        if content.len() == self.plan.bytes && payload.len() > self.longest_frame.len() {
            self.longest_frame = payload.to_vec();
            self.frame = self.scanner.split(payload, content);
        }
        Ok(())
    }

    fn finish(self) -> Result<Delivered> {
        if self.content_bytes != self.expected_bytes() {
            bail!(
                "the turn ended after {} content bytes where {} were expected: deltas were lost or doubled",
                self.content_bytes,
                self.expected_bytes()
            );
        }
        let (first, last) = self.span.context("the turn has no deltas")?;
        Ok(Delivered {
            frames: self.frames,
            first,
            last,
            arrivals: self.arrivals,
            latencies: self.latencies,
            frame: self.frame,
        })
    }
}

fn stamp_of(delta: &[u8]) -> Result<u64> {
    delta
        .get(..STAMP_DIGITS)
        .and_then(|digits| std::str::from_utf8(digits).ok())
        .and_then(|digits| u64::from_str_radix(digits, 16).ok())
        .with_context(|| {
            format!(
                "a delta does not start with the {STAMP_DIGITS} hex digits of its time: {:?}",
                String::from_utf8_lossy(delta)
            )
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(stamping: Stamping) -> StreamPlan {
        StreamPlan {
            turn_id: "t".to_owned(),
            client_seq: 1,
            deltas: 3,
            bytes: 20,
            delay_ms: 0,
            stamping,
        }
    }

    fn delta(content: &str) -> Vec<u8> {
        format!(r#"{{"params":{{"action":{{"type":"chat/delta","turnId":"t","content":"{content}"}}}}}}"#).into_bytes()
    }

    fn arrival(unix_nanos: u64) -> Arrival {
        Arrival {
            instant: Instant::now(),
            unix_nanos,
        }
    }

    #[test]
    fn merged_frames_count_once_as_frames_and_fully_as_bytes() {
        let plan = plan(Stamping::Plain);
        let mut meter = Meter::new(&plan);
        meter.observe(&delta(&"x".repeat(20)), arrival(1)).unwrap();
        meter.observe(&delta(&"x".repeat(40)), arrival(2)).unwrap();
        meter
            .observe(
                br#"{"params":{"action":{"type":"chat/turnComplete","turnId":"t"}}}"#,
                arrival(3),
            )
            .unwrap();
        assert!(meter.complete);
        let delivered = meter.finish().unwrap();
        assert_eq!(delivered.frames, 2);
        assert!(delivered.arrivals.is_empty());
        assert!(delivered.frame.unwrap().suffix.starts_with('"'));
    }

    #[test]
    fn missing_and_extra_bytes_fail() {
        let plan = plan(Stamping::Plain);
        for count in [2, 4] {
            let mut meter = Meter::new(&plan);
            for _ in 0..count {
                meter.observe(&delta(&"x".repeat(20)), arrival(1)).unwrap();
            }
            assert!(meter.finish().is_err());
        }
    }

    #[test]
    fn a_torn_delta_fails() {
        let plan = plan(Stamping::Plain);
        assert!(Meter::new(&plan).observe(&delta("short"), arrival(1)).is_err());
    }

    #[test]
    fn each_delta_of_a_merged_frame_has_its_own_latency() {
        let plan = plan(Stamping::Stamped);
        let mut meter = Meter::new(&plan);
        let content = format!("{:016x}xxxx{:016x}xxxx", 1_000, 3_000);
        meter.observe(&delta(&content), arrival(5_000)).unwrap();
        assert_eq!(meter.latencies, [4_000, 2_000]);
        assert_eq!(meter.arrivals, [5_000, 5_000]);
        assert!(meter.observe(&delta(&"x".repeat(20)), arrival(1)).is_err());
    }
}
