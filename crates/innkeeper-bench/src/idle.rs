//! The `idle` benchmark: what connections cost that do nothing, and what is left of them when they go.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use clap::Parser;
use serde::Serialize;
use tokio::{net::TcpStream, task::JoinSet, time::sleep};

use crate::{
    client::host_session::{self, ROOT},
    client::websocket::Connection,
    report::machine::{self, Machine},
    report::stats::{Percentiles, median, ratio},
    server::process::{ServerProcess, default_host_binary},
    server::usage::resident_bytes,
};

/// Subscribers that come at the same time.
const SUBSCRIBERS_AT_ONCE: u64 = 30;
/// Subscribers before the first measurement, so that it includes what the first use of anything costs.
const WARM_UP_SUBSCRIBERS: u64 = SUBSCRIBERS_AT_ONCE;

/// The options of `idle`.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// Idle connections to hold, each subscribed to the root channel.
    #[arg(long, default_value_t = 5_000, value_parser = clap::value_parser!(u64).range(1..))]
    connections: u64,
    /// Subscribers that come and go between the two measurements of the churn check.
    #[arg(long, default_value_t = 300)]
    subscribers: u64,
    /// Pings in each latency measurement.
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u64).range(1..))]
    pings: u64,
    /// Starts whose median is `start_to_listening_ms`.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    starts: u64,
    /// Milliseconds to let the host come to rest before its memory is read.
    #[arg(long, default_value_t = 2_000)]
    settle_ms: u64,
    /// The host binary [default: `innkeeper` next to this program].
    #[arg(long, value_name = "PATH")]
    host_binary: Option<PathBuf>,
}

/// The result of `idle`.
#[derive(Debug, Serialize)]
pub(crate) struct IdleReport {
    bench: &'static str,
    connections: u64,
    /// Memory of the host without connections.
    host_idle_bytes: u64,
    /// Memory of the host with all connections.
    rss_with_connections_bytes: u64,
    /// Memory that one idle subscribed connection adds.
    rss_per_connection_bytes: f64,
    /// Memory of the host after all connections were dropped.
    rss_after_disconnect_bytes: u64,
    /// The median time from starting the process to its ready line.
    start_to_listening_ms: f64,
    churn: ChurnReport,
    machine: Machine,
}

/// Memory and latency after subscribers came and went.
#[derive(Debug, Serialize)]
struct ChurnReport {
    subscribers: u64,
    before: ChurnFigures,
    after: ChurnFigures,
    /// Memory after to memory before.
    rss_ratio: Option<f64>,
    /// Median ping after to median ping before.
    ping_p50_ratio: Option<f64>,
    /// Slow pings after to slow pings before.
    ping_p99_ratio: Option<f64>,
}

#[derive(Debug, Serialize)]
struct ChurnFigures {
    rss_bytes: u64,
    ping: Percentiles,
}

/// Runs the benchmark.
pub(crate) fn run(args: &Args) -> Result<IdleReport> {
    machine::allow_open_files(args.connections + SUBSCRIBERS_AT_ONCE + 64)?;
    let host_binary = match &args.host_binary {
        Some(path) => path.clone(),
        None => default_host_binary()?,
    };
    tokio::runtime::Runtime::new()?.block_on(run_all(args, &host_binary))
}

async fn run_all(args: &Args, host_binary: &Path) -> Result<IdleReport> {
    let start_to_listening_ms = measure_starts(args, host_binary).await?;
    eprintln!("start to listening: {start_to_listening_ms:.1} ms");

    let host = ServerProcess::start_host(host_binary, &[]).await?;
    let memory = match measure_connections(args, &host).await {
        Ok(memory) => memory,
        Err(error) => return Err(host.explain(error)),
    };
    host.stop().await?;

    let host = ServerProcess::start_host(host_binary, &[]).await?;
    let churn = match measure_churn(args, &host).await {
        Ok(churn) => churn,
        Err(error) => return Err(host.explain(error)),
    };
    host.stop().await?;

    let added = memory.with_connections.saturating_sub(memory.idle);
    Ok(IdleReport {
        bench: "idle",
        connections: args.connections,
        host_idle_bytes: memory.idle,
        rss_with_connections_bytes: memory.with_connections,
        rss_per_connection_bytes: added as f64 / args.connections as f64,
        rss_after_disconnect_bytes: memory.after_disconnect,
        start_to_listening_ms,
        churn,
        machine: Machine::current(),
    })
}

async fn measure_starts(args: &Args, host_binary: &Path) -> Result<f64> {
    let mut starts = Vec::new();
    for _ in 0..args.starts {
        let host = ServerProcess::start_host(host_binary, &[]).await?;
        starts.push(host.start_time.as_secs_f64() * 1_000.0);
        host.stop().await?;
    }
    median(starts).context("no start was measured")
}

struct MemoryFigures {
    idle: u64,
    with_connections: u64,
    after_disconnect: u64,
}

async fn measure_connections(args: &Args, host: &ServerProcess) -> Result<MemoryFigures> {
    let settle = Duration::from_millis(args.settle_ms);
    sleep(settle).await;
    let idle = resident_bytes(host.pid())?;
    eprintln!("idle host: {:.1} MiB", mebibytes(idle));

    let mut sockets = Vec::new();
    for index in 0..args.connections {
        let socket = open_idle(&host.url, index).await;
        sockets.push(socket.with_context(|| format!("connection {index} of {} failed", args.connections))?);
    }
    sleep(settle).await;
    let with_connections = resident_bytes(host.pid())?;
    let lost = sockets.iter().filter(|socket| is_closed(socket)).count();
    if lost > 0 {
        bail!(
            "the host closed {lost} of {} idle connections, so memory per connection is unknown",
            sockets.len()
        );
    }
    eprintln!(
        "with {} connections: {:.1} MiB",
        sockets.len(),
        mebibytes(with_connections)
    );

    drop(sockets);
    sleep(settle).await;
    Ok(MemoryFigures {
        idle,
        with_connections,
        after_disconnect: resident_bytes(host.pid())?,
    })
}

async fn open_idle(url: &str, index: u64) -> Result<TcpStream> {
    let mut connection = Connection::open(url).await?;
    host_session::initialize(&mut connection, &format!("idle-{index}"), &[ROOT]).await?;
    Ok(connection.into_socket())
}

/// Tells whether the peer has closed; unread bytes, such as pings, do not count as closing.
fn is_closed(socket: &TcpStream) -> bool {
    let mut bytes = [0; 4096];
    loop {
        match socket.try_read(&mut bytes) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() != std::io::ErrorKind::WouldBlock,
        }
    }
}

async fn measure_churn(args: &Args, host: &ServerProcess) -> Result<ChurnReport> {
    let settle = Duration::from_millis(args.settle_ms);
    let mut steady = Connection::open(&host.url).await?;
    host_session::initialize(&mut steady, "steady", &[ROOT]).await?;
    host_session::create_session(&mut steady).await?;
    let chat = host_session::subscribe_session(&mut steady).await?;
    host_session::subscribe_chat(&mut steady, &chat, 0).await?;

    let mut subscribers = Subscribers {
        url: &host.url,
        came: 0,
    };
    subscribers.come_and_go(WARM_UP_SUBSCRIBERS).await?;
    let before = churn_figures(host, &mut steady, args.pings, settle).await?;
    eprintln!(
        "before the subscribers: {:.1} MiB, ping {}",
        mebibytes(before.rss_bytes),
        before.ping
    );

    subscribers.come_and_go(args.subscribers).await?;
    let after = churn_figures(host, &mut steady, args.pings, settle).await?;
    eprintln!(
        "after {} subscribers: {:.1} MiB, ping {}",
        args.subscribers,
        mebibytes(after.rss_bytes),
        after.ping
    );

    Ok(ChurnReport {
        subscribers: args.subscribers,
        rss_ratio: ratio(after.rss_bytes as f64, before.rss_bytes as f64),
        ping_p50_ratio: ratio(after.ping.p50_us, before.ping.p50_us),
        ping_p99_ratio: ratio(after.ping.p99_us, before.ping.p99_us),
        before,
        after,
    })
}

async fn churn_figures(
    host: &ServerProcess,
    steady: &mut Connection,
    pings: u64,
    settle: Duration,
) -> Result<ChurnFigures> {
    sleep(settle).await;
    let mut nanos = Vec::new();
    for _ in 0..pings {
        let sent = Instant::now();
        host_session::ping(steady).await?;
        nanos.push(u64::try_from(sent.elapsed().as_nanos()).unwrap_or(u64::MAX));
    }
    steady.forget_unread();
    let ping = Percentiles::of_nanos(nanos).context("no ping was measured")?;
    Ok(ChurnFigures {
        rss_bytes: resident_bytes(host.pid())?,
        ping,
    })
}

/// Clients that subscribe to everything there is and leave, each under an id of its own.
struct Subscribers<'host> {
    url: &'host str,
    came: u64,
}

impl Subscribers<'_> {
    async fn come_and_go(&mut self, count: u64) -> Result<()> {
        let last = self.came + count;
        while self.came < last {
            let mut visits = JoinSet::new();
            for _ in 0..SUBSCRIBERS_AT_ONCE.min(last - self.came) {
                self.came += 1;
                visits.spawn(visit(self.url.to_owned(), self.came));
            }
            while let Some(visit) = visits.join_next().await {
                visit.context("a subscriber's task died")??;
            }
        }
        Ok(())
    }
}

async fn visit(url: String, number: u64) -> Result<()> {
    let mut connection = Connection::open(&url).await?;
    host_session::initialize(&mut connection, &format!("visitor-{number}"), &[ROOT]).await?;
    let chat = host_session::subscribe_session(&mut connection).await?;
    host_session::subscribe_chat(&mut connection, &chat, 0).await?;
    // Every other subscriber vanishes without a word, as clients do whose network breaks.
    if number.is_multiple_of(2) {
        connection.close().await?;
    }
    Ok(())
}

fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / (1024.0 * 1024.0)
}
