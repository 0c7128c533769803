//! The full-screen client while a model talks: its memory and its CPU time.
//!
//! The tour agent streams one turn after the other into a chat. `innkeeper chat` shows it on a pseudo-terminal whose
//! output is read and dropped. The client has to stay as it is, and may take only a share of a core.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde::Serialize;
use tokio::io::AsyncReadExt as _;
use tokio::process::Child;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use super::flatness::{Figure, Sample, judge};
use crate::client::delivery::{Stamping, StreamPlan};
use crate::client::host_session::{self, ROOT};
use crate::client::websocket::Connection;
use crate::host_options::on_one_thread;
use crate::report::machine::Machine;
use crate::server::process::{ServerProcess, default_host_binary};
use crate::server::usage::cpu_time;

/// The share of a core that the client may take.
const MAX_CPU: f64 = 0.05;
/// The length of a turn.
const TURN: Duration = Duration::from_secs(1);
/// The longest wait for the end of a turn.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The size of the terminal.
const ROWS: u16 = 50;
const COLUMNS: u16 = 160;

/// The options of the benchmark.
#[derive(clap::Args)]
pub struct Args {
    /// How long.
    #[arg(long, default_value_t = 60.0)]
    minutes: f64,
    /// Deltas a second; models write 20 to 200.
    #[arg(long, default_value_t = 50)]
    rate: u64,
    /// Bytes of a delta.
    #[arg(long, default_value_t = 20)]
    bytes: usize,
    /// Time between samples.
    #[arg(long, default_value_t = 2000)]
    sample_ms: u64,
    /// The host and the client to measure [default: the one next to this program].
    #[arg(long)]
    host_binary: Option<PathBuf>,
}

/// The result.
#[derive(Serialize)]
pub struct Report {
    benchmark: &'static str,
    minutes: f64,
    passed: bool,
    figures: Vec<Figure>,
    /// The share of a core that the client took.
    cpu_cores: f64,
    cpu_allowed: f64,
    turns: u64,
    /// Bytes that the client wrote to its terminal.
    drawn_bytes: u64,
    machine: Machine,
}

impl Report {
    /// Whether the client stayed as it should.
    pub(crate) fn passed(&self) -> bool {
        self.passed
    }
}

/// Runs the benchmark.
pub fn run(args: &Args) -> Result<Report> {
    ensure!(args.rate > 0 && args.rate <= 1000, "--rate must be between 1 and 1000");
    on_one_thread(measure(args))
}

async fn measure(args: &Args) -> Result<Report> {
    let binary = args.host_binary.clone().map_or_else(default_host_binary, Ok)?;
    let host = ServerProcess::start_host(&binary, &[]).await?;
    let watched = watch(args, &binary, &host).await;
    let Watched {
        samples,
        cpu,
        turns,
        drawn_bytes,
    } = watched.map_err(|error| host.explain(error))?;
    host.stop().await?;
    let figures = judge(&samples)?;
    let cpu_cores = cpu.as_secs_f64() / (args.minutes * 60.0);
    let report = Report {
        benchmark: "chat",
        minutes: args.minutes,
        passed: figures.iter().all(|figure| figure.is_flat) && cpu_cores <= MAX_CPU,
        figures,
        cpu_cores,
        cpu_allowed: MAX_CPU,
        turns,
        drawn_bytes,
        machine: Machine::current(),
    };
    eprintln!("\n{}", Figure::heading());
    for figure in &report.figures {
        eprintln!("{}", figure.row());
    }
    eprintln!(
        "{:.2} % of a core, {turns} turns, {drawn_bytes} bytes drawn",
        cpu_cores * 100.0
    );
    Ok(report)
}

/// The client over the run.
struct Watched {
    samples: Vec<Sample>,
    cpu: Duration,
    turns: u64,
    drawn_bytes: u64,
}

/// Streams turns and samples the client meanwhile.
async fn watch(args: &Args, binary: &Path, host: &ServerProcess) -> Result<Watched> {
    let mut connection = Connection::open(&host.url).await?;
    host_session::initialize(&mut connection, "bench", &[ROOT]).await?;
    host_session::create_session(&mut connection).await?;
    let chat = host_session::subscribe_session(&mut connection).await?;
    host_session::subscribe_chat(&mut connection, &chat, 0).await?;
    let mut plan = StreamPlan {
        turn_id: String::new(),
        client_seq: 0,
        deltas: (args.rate as f64 * TURN.as_secs_f64()).ceil() as usize,
        bytes: args.bytes,
        delay_ms: 1000 / args.rate,
        stamping: Stamping::Plain,
    };
    // A session without a turn is in no list.
    turn(&mut connection, &chat, &mut plan).await?;
    let (mut client, mut screen) = start_client(binary, &host.url)?;
    let pid = client.id().context("the client ended at once")?;

    let started = Instant::now();
    let until = started + Duration::from_secs_f64(args.minutes * 60.0);
    let mut samples = Vec::new();
    let mut drawn_bytes = 0;
    let mut buffer = vec![0; 64 << 10];
    let mut ticks = interval(Duration::from_millis(args.sample_ms));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while Instant::now() < until {
        let streaming = turn(&mut connection, &chat, &mut plan);
        tokio::pin!(streaming);
        loop {
            tokio::select! {
                ended = &mut streaming => break ended?,
                read = screen.read(&mut buffer) => drawn_bytes += read.context("the client ended")? as u64,
                _ = ticks.tick() => {
                    let sample = Sample::take(pid, started.elapsed().as_secs_f64())?;
                    if samples.len() % 30 == 0 {
                        eprintln!("{:5.0} s  {sample}", started.elapsed().as_secs_f64());
                    }
                    samples.push(sample);
                }
            }
        }
    }
    let cpu = cpu_time(pid)?;
    client.kill().await?;
    connection.close().await?;
    ensure!(
        drawn_bytes > 10 * plan.client_seq,
        "the client drew only {drawn_bytes} bytes"
    );
    Ok(Watched {
        samples,
        cpu,
        turns: plan.client_seq,
        drawn_bytes,
    })
}

/// Has the agent stream the next turn, and waits for its end.
async fn turn(connection: &mut Connection, chat: &str, plan: &mut StreamPlan) -> Result<()> {
    plan.client_seq += 1;
    plan.turn_id = format!("turn-{}", plan.client_seq);
    connection.forget_unread();
    host_session::start_turn(connection, chat, plan).await?;
    let mut is_over = false;
    while !is_over {
        let reading = connection.read_batch(|text, _| {
            let text = String::from_utf8_lossy(text);
            is_over |= text.contains("\"chat/turnComplete\"");
            ensure!(!text.contains("\"chat/error\""), "the turn failed: {text}");
            Ok(())
        });
        timeout(TIMEOUT, reading)
            .await
            .context("the turn did not end in time")??;
    }
    Ok(())
}

/// Starts the client on a terminal of its own, with the session of the benchmark.
fn start_client(binary: &Path, url: &str) -> Result<(Child, pty_process::Pty)> {
    let (pty, pts) = pty_process::open()?;
    pty.resize(pty_process::Size::new(ROWS, COLUMNS))?;
    let client = pty_process::Command::new(binary)
        .args(["chat", "--last", "--no-start", "--url", url])
        .env("TERM", "xterm-256color")
        .kill_on_drop(true)
        .spawn(pts)?;
    Ok((client, pty))
}
