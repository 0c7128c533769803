//! Sends the log to clients that subscribed to it (OTL-01 to OTL-07).
//!
//! A writer to a [`LogSink`] never waits, and pays one atomic load while there is no subscriber. Records are truncated
//! and cleaned, wait in a bounded queue, and reach the core in batches; records that do not fit into the queue are
//! counted, and the count is sent. Records that a client misses because its connection is too slow are not counted.
//! Nothing in here logs, so no record is about another.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use innkeeper_core::LogRecord;
pub use innkeeper_core::{LogLevel, LogValue, Severity};
use innkeeper_std::sync::{Mutex, MutexGuard};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::main_loop::Message;

pub(crate) mod effects;
mod record_limits;

use record_limits::{fit, weight};

/// Maximum bytes of records that wait.
const QUEUE_BYTES: usize = 2 << 20;
/// Bytes of records that are sent without waiting for more, and about the most that are sent at once.
const BATCH_BYTES: usize = 128 << 10;
/// How long records are gathered.
const GATHERING: Duration = Duration::from_millis(100);
/// Higher than any severity: there is no subscriber.
const NO_SUBSCRIBER: u8 = u8::MAX;

/// The destination of a program's log, for subscribed clients. One sink belongs to one host.
///
/// Only clients with the scope `admin` may subscribe. Records must have no secrets, prompts or contents of files
/// (OTL-07): the sink escapes text, but cannot know its meaning.
///
/// ```
/// use innkeeper_host::Host;
/// use innkeeper_host::telemetry::{LogLevel, LogSink};
///
/// # async fn example(agent: impl innkeeper_host::Agent) -> Result<(), Box<dyn std::error::Error>> {
/// let logs = LogSink::new();
/// let host = Host::builder().agent(agent).logs(&logs).start().await?;
/// if logs.wants(LogLevel::Warn) {
///     let about = vec![("ahp.session.id".into(), "ahp-session:/one".into())];
///     logs.write(LogLevel::Warn, "my_host::lift", "the lift is stuck", about);
/// }
/// # host.shutdown(std::time::Duration::from_secs(1)).await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct LogSink {
    shared: Arc<SinkState>,
}

#[derive(Debug)]
struct SinkState {
    /// The lowest severity that a subscriber wants.
    wanted: AtomicU8,
    waiting: Mutex<LogBatch>,
    /// Something waits, or enough for a batch.
    wake: Notify,
}

#[derive(Debug, Default)]
struct LogBatch {
    records: Vec<LogRecord>,
    bytes: usize,
    /// Records that did not fit since the last batch.
    left_out: usize,
}

impl Default for LogSink {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for LogSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogSink").finish_non_exhaustive()
    }
}

impl LogSink {
    /// Creates a sink without subscribers.
    pub fn new() -> Self {
        Self {
            shared: Arc::new(SinkState {
                wanted: AtomicU8::new(NO_SUBSCRIBER),
                waiting: Mutex::default(),
                wake: Notify::new(),
            }),
        }
    }

    /// Returns whether a subscriber wants records of this severity.
    pub fn wants(&self, severity: impl Into<Severity>) -> bool {
        severity.into().number() >= self.shared.wanted.load(Ordering::Relaxed)
    }

    /// Sends a record to the subscribers. `scope` is the part of the program that writes; `attributes` are its objects:
    /// `ahp.session.id`, `ahp.turn.id` and `ahp.tool_call.id` where they are known (OTL-06).
    ///
    /// Long text is truncated and control characters are escaped. It never waits: beyond the limit it only counts.
    pub fn write(
        &self,
        severity: impl Into<Severity>,
        scope: impl Into<Cow<'static, str>>,
        body: impl Into<String>,
        attributes: Vec<(Cow<'static, str>, LogValue)>,
    ) {
        let severity = severity.into();
        if !self.wants(severity) {
            return;
        }
        let record = fit(LogRecord {
            time_unix_nano: now(),
            severity,
            scope: scope.into(),
            body: body.into(),
            attributes,
        });
        let weight = weight(&record);
        let mut waiting = self.lock();
        if waiting.bytes + weight > QUEUE_BYTES {
            waiting.left_out += 1;
            return;
        }
        let is_first = waiting.records.is_empty();
        let was_enough = waiting.is_enough();
        waiting.bytes += weight;
        waiting.records.push(record);
        let is_enough = waiting.is_enough();
        drop(waiting);
        if is_first || (is_enough && !was_enough) {
            self.shared.wake.notify_one();
        }
    }

    /// Sets the lowest severity that subscribers want from now on.
    pub(crate) fn set_wanted(&self, level: Option<LogLevel>) {
        let lowest = level.map_or(NO_SUBSCRIBER, |level| level.lowest().number());
        self.shared.wanted.store(lowest, Ordering::Relaxed);
    }

    /// Counts records that were taken and could not be sent.
    pub(crate) fn leave_out(&self, records: usize) {
        self.lock().left_out += records;
    }

    /// Takes the next batch, if anything waits.
    pub(crate) fn take(&self) -> Option<Vec<LogRecord>> {
        let mut waiting = self.lock();
        let mut bytes = 0;
        let fits = |record: &&LogRecord| {
            let had = bytes;
            bytes += weight(record);
            had < BATCH_BYTES
        };
        let count = waiting.records.iter().take_while(fits).count();
        let rest = waiting.records.split_off(count);
        let mut batch = std::mem::replace(&mut waiting.records, rest);
        waiting.bytes = waiting.records.iter().map(weight).sum();
        let left_out = std::mem::take(&mut waiting.left_out);
        drop(waiting);
        if left_out > 0 {
            batch.push(missing(left_out));
        }
        (!batch.is_empty()).then_some(batch)
    }

    fn lock(&self) -> MutexGuard<'_, LogBatch> {
        self.shared.waiting.lock()
    }
}

impl LogBatch {
    fn is_enough(&self) -> bool {
        self.bytes >= BATCH_BYTES
    }
}

/// Tells the host when to take what gathers in a sink, until it ends. The records stay in the sink until then:
/// none is on its way when the host takes the last ones.
pub(crate) async fn bring(sink: LogSink, inbox: mpsc::WeakSender<Message>, ended: CancellationToken) {
    let customizations_watch = async {
        loop {
            if sink.lock().records.is_empty() {
                sink.shared.wake.notified().await;
            }
            let gathered = async {
                while !sink.lock().is_enough() {
                    sink.shared.wake.notified().await;
                }
            };
            let _ = tokio::time::timeout(GATHERING, gathered).await;
            let Some(inbox) = inbox.upgrade() else { return };
            let (taken, was_taken) = oneshot::channel();
            if inbox.send(Message::Logs { taken }).await.is_err() {
                return;
            }
            // The host may drop the message while it restarts: then it is sent again.
            drop(inbox);
            let _ = was_taken.await;
        }
    };
    tokio::select! {
        () = ended.cancelled() => {}
        () = customizations_watch => {}
    }
}

/// Returns the record that stands for omitted records.
fn missing(records: usize) -> LogRecord {
    let count = i64::try_from(records).unwrap_or(i64::MAX);
    LogRecord {
        time_unix_nano: now(),
        severity: LogLevel::Warn.into(),
        scope: module_path!().into(),
        body: format!("{records} log records were left out: they came faster than they could be sent"),
        attributes: vec![("left_out".into(), LogValue::Int(count))],
    }
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listened_to(level: LogLevel) -> LogSink {
        let sink = LogSink::new();
        sink.set_wanted(Some(level));
        sink
    }

    fn bodies(batch: &[LogRecord]) -> Vec<&str> {
        batch.iter().map(|record| record.body.as_str()).collect()
    }

    #[test]
    fn otl04_records_below_the_subscribed_level_are_dropped() {
        let sink = LogSink::new();
        assert!(!sink.wants(LogLevel::Fatal));
        sink.write(LogLevel::Fatal, "test", "unheard", Vec::new());
        assert_eq!(sink.take(), None);
        sink.set_wanted(Some(LogLevel::Warn));
        sink.write(LogLevel::Info, "test", "too low", Vec::new());
        sink.write(LogLevel::Warn, "test", "heard", Vec::new());
        assert_eq!(bodies(&sink.take().expect("a batch")), ["heard"]);
        sink.set_wanted(None);
        assert!(!sink.wants(LogLevel::Fatal));
    }

    #[test]
    fn otl02_a_flood_is_bounded_cut_into_batches_and_counted() {
        let sink = listened_to(LogLevel::Trace);
        let text = "x".repeat(4 << 10);
        let sent = 2 * QUEUE_BYTES / text.len();
        for _ in 0..sent {
            sink.write(LogLevel::Info, "test", text.as_str(), Vec::new());
        }
        let mut told = 0;
        let mut left_out = 0;
        while let Some(batch) = sink.take() {
            let bytes: usize = batch.iter().map(weight).sum();
            assert!(bytes < BATCH_BYTES + (16 << 10), "{bytes}");
            for record in batch {
                match record.attributes.as_slice() {
                    [(_, LogValue::Int(count))] => left_out += *count,
                    _ => told += 1,
                }
            }
        }
        assert!(told > 0 && left_out > 0, "{told} {left_out}");
        assert_eq!(told + left_out, i64::try_from(sent).expect("few"));
        // There is room again.
        sink.write(LogLevel::Info, "test", "later", Vec::new());
        assert_eq!(bodies(&sink.take().expect("a batch")), ["later"]);
    }
}
