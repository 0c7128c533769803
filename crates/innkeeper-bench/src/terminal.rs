//! Terminals: the output of `cat` to one and to many watchers, and the memory of idle terminals.
//!
//! The limit is a program that only reads a pseudo-terminal. Watchers get the same bytes as JSON over sockets, and the
//! host also bounds what late subscribers get.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use futures_util::future::try_join_all;
use serde::Serialize;
use serde_json::json;
use tempfile::TempDir;
use tokio::io::AsyncReadExt as _;
use tokio::time::sleep;

use crate::client::host_session::{ROOT, initialize};
use crate::client::websocket::Connection;
use crate::report::machine::Machine;
use crate::report::stats::{median, ratio};
use crate::server::process::{ServerProcess, default_host_binary};
use crate::server::usage::{peak_resident_bytes, resident_bytes};

/// The shell of all terminals; it has no start files that differ between users.
const SHELL: &str = "/bin/sh";

/// The options of the benchmark.
#[derive(clap::Args)]
pub struct Args {
    /// Megabytes that the program prints.
    #[arg(long, default_value_t = 100)]
    megabytes: usize,
    /// Watchers in the second measurement; the first has one.
    #[arg(long, default_value_t = 10)]
    watchers: usize,
    /// Terminals in the measurement of memory.
    #[arg(long, default_value_t = 100)]
    terminals: usize,
    /// How often each time is measured.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// The host to measure [default: the one next to this program].
    #[arg(long)]
    host_binary: Option<PathBuf>,
}

/// The result. Times are medians over the rounds.
#[derive(Serialize)]
pub struct Report {
    benchmark: &'static str,
    megabytes: usize,
    /// A program that reads a pseudo-terminal and does nothing else.
    plain_ms: f64,
    /// Through the host to one watcher.
    one_ms: f64,
    /// That against the plain reader.
    one_ratio: Option<f64>,
    watchers: usize,
    /// Through the host to all watchers.
    many_ms: f64,
    /// That against the plain reader.
    many_ratio: Option<f64>,
    /// The most memory that the host had, beyond what it has at rest.
    flood_bytes: u64,
    terminals: usize,
    /// Memory of the host that one idle terminal adds, without its shell.
    bytes_per_terminal: f64,
    machine: Machine,
}

/// Runs the benchmark.
pub fn run(args: &Args) -> Result<Report> {
    ensure!(
        args.watchers > 0 && args.terminals > 0 && args.rounds > 0,
        "there must be something to measure"
    );
    tokio::runtime::Runtime::new()?.block_on(run_all(args))
}

async fn run_all(args: &Args) -> Result<Report> {
    let directory = TempDir::new().context("cannot create a directory for the file")?;
    let file = directory.path().join("text");
    write_text(&file, args.megabytes)?;
    let binary = args.host_binary.clone().map_or_else(default_host_binary, Ok)?;
    let (mut plain, mut one, mut many) = (Vec::new(), Vec::new(), Vec::new());
    let mut flood_bytes = 0;
    for round in 0..args.rounds {
        plain.push(milliseconds(read_plainly(&file).await?));
        for (times, watchers) in [(&mut one, 1), (&mut many, args.watchers)] {
            let (time, memory) = read_through_host(&binary, &file, watchers).await?;
            times.push(milliseconds(time));
            flood_bytes = flood_bytes.max(memory);
        }
        eprintln!("round {} of {}", round + 1, args.rounds);
    }
    let bytes_per_terminal = measure_idle(&binary, args.terminals).await?;
    let middle = |times: Vec<f64>| median(times).unwrap_or_default();
    let [plain_ms, one_ms, many_ms] = [plain, one, many].map(middle);
    Ok(Report {
        benchmark: "terminal",
        megabytes: args.megabytes,
        plain_ms,
        one_ms,
        one_ratio: ratio(one_ms, plain_ms),
        watchers: args.watchers,
        many_ms,
        many_ratio: ratio(many_ms, plain_ms),
        flood_bytes,
        terminals: args.terminals,
        bytes_per_terminal,
        machine: Machine::current(),
    })
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

fn write_text(path: &Path, megabytes: usize) -> Result<()> {
    let mut text = String::with_capacity((megabytes << 20) + 128);
    let mut line = 0_u64;
    while text.len() < megabytes << 20 {
        line += 1;
        text.push_str(&format!(
            "{line:>10} the quick brown fox jumps over the lazy dog, again\n"
        ));
    }
    fs::write(path, text).context("cannot write the file")
}

/// Reads the output of `cat` from a pseudo-terminal.
async fn read_plainly(file: &Path) -> Result<Duration> {
    let (mut pty, pts) = pty_process::open()?;
    let begun = Instant::now();
    let mut child = pty_process::Command::new("cat").arg(file).spawn(pts)?;
    let mut buffer = vec![0; 16 << 10];
    let mut total = 0;
    // The end of a pseudo-terminal is an error on Linux.
    while let Ok(length @ 1..) = pty.read(&mut buffer).await {
        total += length;
    }
    let time = begun.elapsed();
    child.wait().await?;
    let expected = fs::metadata(file)?.len();
    ensure!(total as u64 > expected, "{total} of {expected} bytes were read");
    Ok(time)
}

async fn start_host(binary: &Path) -> Result<ServerProcess> {
    ServerProcess::start_host(binary, &[("SHELL", SHELL)]).await
}

async fn create(connection: &mut Connection, uri: &str, client: &str) -> Result<()> {
    let claim = json!({ "kind": "client", "clientId": client });
    connection
        .request("createTerminal", json!({ "channel": uri, "claim": claim }))
        .await?;
    Ok(())
}

/// Has a terminal of a host print a file to some watchers. Returns the time until the last of them has the end, and the
/// memory that it cost the host.
async fn read_through_host(binary: &Path, file: &Path, watchers: usize) -> Result<(Duration, u64)> {
    const TERMINAL: &str = "ahp-terminal:/bench";
    let host = start_host(binary).await?;
    let mut connections = Vec::new();
    for number in 0..watchers {
        let mut connection = Connection::open(&host.url).await?;
        let client = format!("bench-{number}");
        initialize(&mut connection, &client, &[ROOT]).await?;
        if number == 0 {
            create(&mut connection, TERMINAL, &client).await?;
        }
        connection.request("subscribe", json!({ "channel": TERMINAL })).await?;
        connections.push(connection);
    }
    let before = resident_bytes(host.pid())?;
    let input = json!({ "type": "terminal/input", "data": format!("exec cat '{}'\r", file.display()) });
    let begun = Instant::now();
    if let Some(first) = connections.first_mut() {
        let params = json!({ "channel": TERMINAL, "clientSeq": 1, "action": input });
        first.notify("dispatchAction", params).await?;
    }
    let size = fs::metadata(file)?.len() as usize;
    try_join_all(connections.iter_mut().map(|connection| receive(connection, size))).await?;
    let time = begun.elapsed();
    let memory = peak_resident_bytes(host.pid())?.saturating_sub(before);
    host.stop().await?;
    Ok((time, memory))
}

/// Receives output until the process has ended.
async fn receive(connection: &mut Connection, size: usize) -> Result<()> {
    connection.forget_unread();
    let mut received = 0;
    let mut is_over = false;
    while !is_over {
        connection
            .read_batch(|payload, _| {
                received += payload.len();
                is_over |= contains(payload, b"\"terminal/exited\"");
                Ok(())
            })
            .await?;
    }
    if received < size {
        bail!("{received} of {size} bytes were received");
    }
    Ok(())
}

/// Looks for the type of an action, which is at one of the ends of a frame.
fn contains(payload: &[u8], needle: &[u8]) -> bool {
    payload.len() < 4096 && payload.windows(needle.len()).any(|window| window == needle)
}

/// Returns the memory that one idle terminal adds to the host.
async fn measure_idle(binary: &Path, terminals: usize) -> Result<f64> {
    let host = start_host(binary).await?;
    let mut connection = Connection::open(&host.url).await?;
    initialize(&mut connection, "bench", &[ROOT]).await?;
    // The first costs what the first use of anything costs.
    create(&mut connection, "ahp-terminal:/first", "bench").await?;
    sleep(Duration::from_secs(1)).await;
    let before = resident_bytes(host.pid())?;
    for number in 0..terminals {
        create(&mut connection, &format!("ahp-terminal:/{number}"), "bench").await?;
    }
    sleep(Duration::from_secs(2)).await;
    let after = resident_bytes(host.pid())?;
    host.stop().await?;
    Ok(after.saturating_sub(before) as f64 / terminals as f64)
}
