//! Streams that are written behind: does the queue stay short, and how much would a power cut take?
//!
//! This one embeds the host, because only from inside can one look into the journal's queue.

use std::{
    fs,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use innkeeper_core::records::{Batch, ListPage, StoredSession, StoredSummary, TurnSource};
use innkeeper_host::journal::{Appended, Journal, JournalError, Lease};
use innkeeper_host::{
    Access, Agent, AgentChat, AgentError, AgentInfo, ChatContext, EventSink, Host, TurnInput, async_trait, http,
};
use innkeeper_store::{FILE_NAME, Options, SqliteJournal};
use serde::Serialize;
use serde_json::json;
use tokio::{net::TcpListener, task::JoinSet, time::MissedTickBehavior};

use crate::{
    client::host_session,
    client::websocket::Connection,
    report::stats::{Percentiles, nanos},
    server::usage::{cpu_time, thread_cpu_time},
};

/// Chats that stream at the same time.
const CHATS: u64 = 10;
const SAMPLE: Duration = Duration::from_millis(5);
const TEXT: &str = "about forty bytes of streamed text, yes.";

/// The result.
#[derive(Serialize)]
pub(super) struct WrittenBehind {
    chats: u64,
    deltas_per_second_asked: u64,
    deltas_per_second: f64,
    seconds: f64,
    /// Bytes that wait to be written, at the time of each sample.
    queue_p99_bytes: u64,
    queue_max_bytes: u64,
    /// The mean of the last third to that of the first: a queue that grows is far above 1.
    queue_growth: Option<f64>,
    /// How old the oldest output is that a power cut at a random moment would take.
    durability_lag: Percentiles,
    durability_lag_max_us: f64,
    /// Processor time of the whole process: host, agents and client.
    cpu_cores: f64,
    writer_cpu_cores: f64,
    file_bytes: u64,
}

/// Measures it in a directory.
pub(super) async fn measure(directory: &Path, deltas_per_second: u64, time: Duration) -> Result<WrittenBehind> {
    let data = directory.join("behind");
    fs::create_dir(&data)?;
    let journal = Arc::new(SqliteJournal::new(&data.join(FILE_NAME), Options::default()));
    let sent = Arc::new(AtomicU64::new(0));
    let agent = Pacer {
        per_millisecond: deltas_per_second as f64 / 1000.0 / CHATS as f64,
        time,
        sent: Arc::clone(&sent),
    };
    let host = Host::builder()
        .agent(agent)
        .journal(ObservedJournal(Arc::clone(&journal)))
        .start()
        .await?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let server = http::serve_tcp(host.handle(), listener, Access::new(address));
    let mut readers = JoinSet::new();
    for number in 0..CHATS {
        let connection = start_stream(&format!("ws://{address}"), number).await?;
        readers.spawn(read_to_the_end(connection));
    }
    let samples = sample(&journal, &sent, time).await?;
    while let Some(done) = readers.join_next().await {
        done.context("a client's task died")??;
    }
    server.stop().await;
    host.shutdown(Duration::from_secs(5)).await;
    samples.report(deltas_per_second, &data)
}

struct Samples {
    queue: Vec<u64>,
    lag: Vec<u64>,
    deltas: u64,
    elapsed: Duration,
    cpu: Duration,
    writer_cpu: Duration,
}

async fn sample(journal: &SqliteJournal, sent: &AtomicU64, time: Duration) -> Result<Samples> {
    let pid = std::process::id();
    let writer = || thread_cpu_time(pid, "innkeeper-write");
    let (cpu_before, writer_before, deltas_before) = (cpu_time(pid)?, writer()?, sent.load(Ordering::Relaxed));
    let (mut queue, mut lag) = (Vec::new(), Vec::new());
    let mut ticks = tokio::time::interval(SAMPLE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let started = Instant::now();
    // The streams end a little later, so that the last sample is one like all others.
    while started.elapsed() < time.mul_f64(0.95) {
        ticks.tick().await;
        let (bytes, age) = journal.backlog();
        queue.push(bytes as u64);
        lag.push(nanos(age));
    }
    Ok(Samples {
        queue,
        lag,
        deltas: sent.load(Ordering::Relaxed) - deltas_before,
        elapsed: started.elapsed(),
        cpu: cpu_time(pid)? - cpu_before,
        writer_cpu: writer()? - writer_before,
    })
}

impl Samples {
    fn report(self, deltas_per_second_asked: u64, data: &Path) -> Result<WrittenBehind> {
        let third = self.queue.len() / 3;
        let mean = |part: &[u64]| part.iter().sum::<u64>() as f64 / part.len().max(1) as f64;
        let (first, last) = (&self.queue[..third], &self.queue[self.queue.len() - third..]);
        let queue_growth = crate::report::stats::ratio(mean(last), mean(first));
        let queue_max_bytes = self.queue.iter().copied().max().unwrap_or_default();
        let lag_max = self.lag.iter().copied().max().unwrap_or_default();
        let seconds = self.elapsed.as_secs_f64();
        // Percentiles are in thousandths of what they are given.
        let queue = Percentiles::of_nanos(self.queue).context("nothing was sampled")?;
        let report = WrittenBehind {
            chats: CHATS,
            deltas_per_second_asked,
            deltas_per_second: self.deltas as f64 / seconds,
            seconds,
            queue_p99_bytes: (queue.p99_us * 1000.0) as u64,
            queue_max_bytes,
            queue_growth,
            durability_lag: Percentiles::of_nanos(self.lag).context("nothing was sampled")?,
            durability_lag_max_us: lag_max as f64 / 1000.0,
            cpu_cores: self.cpu.as_secs_f64() / seconds,
            writer_cpu_cores: self.writer_cpu.as_secs_f64() / seconds,
            file_bytes: fs::metadata(data.join(FILE_NAME))?.len(),
        };
        eprintln!(
            "written behind: {:.0} deltas/s, queue at most {} KiB and growing by {:.2}, lag {}, writer {:.2} cores",
            report.deltas_per_second,
            report.queue_max_bytes >> 10,
            report.queue_growth.unwrap_or_default(),
            report.durability_lag,
            report.writer_cpu_cores
        );
        Ok(report)
    }
}

async fn start_stream(url: &str, number: u64) -> Result<Connection> {
    let mut connection = Connection::open(url).await?;
    host_session::initialize(&mut connection, &format!("watcher-{number}"), &[]).await?;
    let session = format!("ahp-session:/behind-{number}");
    connection.request("createSession", json!({"channel": session})).await?;
    let chat = innkeeper_core::uri::default_chat(&session);
    // At once: the turn starts as soon as its agent is there.
    connection.request("subscribe", json!({"channel": chat})).await?;
    let action = json!({"type": "chat/turnStarted", "turnId": "stream",
        "startedAt": jiff::Timestamp::now().to_string(),
        "message": {"text": "go", "origin": {"kind": "user"}}});
    let params = json!({"channel": chat, "clientSeq": 1, "action": action});
    connection.notify("dispatchAction", params).await?;
    Ok(connection)
}

async fn read_to_the_end(mut connection: Connection) -> Result<()> {
    connection.forget_unread();
    let mut is_over = false;
    while !is_over {
        connection
            .read_batch(|text, _| {
                // Cheaper than reading JSON, and the streamed text does not have it.
                is_over |= text.windows(17).any(|window| window == b"chat/turnComplete");
                Ok(())
            })
            .await?;
    }
    connection.close().await
}

/// An agent that streams at a steady rate, whatever the machine does meanwhile.
struct Pacer {
    per_millisecond: f64,
    time: Duration,
    sent: Arc<AtomicU64>,
}

#[async_trait]
impl Agent for Pacer {
    fn info(&self) -> AgentInfo {
        AgentInfo::new("pacer", "Pacer", "Streams at a steady rate.")
    }

    async fn open_chat(&self, _: ChatContext) -> Result<Box<dyn AgentChat>, AgentError> {
        Ok(Box::new(Self {
            per_millisecond: self.per_millisecond,
            time: self.time,
            sent: Arc::clone(&self.sent),
        }))
    }
}

#[async_trait]
impl AgentChat for Pacer {
    async fn run_turn(&mut self, _: TurnInput, events: EventSink) -> Result<(), AgentError> {
        let started = Instant::now();
        let mut said = 0_u64;
        while started.elapsed() < self.time {
            let due = (started.elapsed().as_secs_f64() * 1000.0 * self.per_millisecond) as u64;
            while said < due {
                events.text(TEXT).await?;
                said += 1;
                self.sent.fetch_add(1, Ordering::Relaxed);
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Ok(())
    }
}

/// A journal whose queue the benchmark also reads.
struct ObservedJournal(Arc<SqliteJournal>);

#[async_trait]
impl Journal for ObservedJournal {
    async fn open(&self) -> Result<Lease, JournalError> {
        self.0.open().await
    }

    fn append(&self, batch: Batch) -> Appended {
        self.0.append(batch)
    }

    async fn revive(&self) -> Result<(), JournalError> {
        self.0.revive().await
    }

    async fn flush(&self) -> Result<(), JournalError> {
        self.0.flush().await
    }

    async fn load(&self, channel: &str) -> Result<Option<StoredSession>, JournalError> {
        self.0.load(channel).await
    }

    async fn list(&self, page: ListPage) -> Result<Vec<StoredSummary>, JournalError> {
        self.0.list(page).await
    }

    fn turns(&self) -> Option<Arc<dyn TurnSource>> {
        self.0.turns()
    }
}
