//! The latency and the CPU time that the model agent adds between a provider and a client.
//!
//! A provider on loopback stamps every piece of its answer. A client of the host reads the stamps
//! when they arrive as deltas; a reader without a host reads the same stream from the same provider
//! in the same run, which is the limit.

pub(crate) mod provider;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::Serialize;
use tokio::time::timeout;

use self::provider::{Provider, read_directly, stamps_in};
use crate::{
    client::host_session::{self, ROOT},
    client::websocket::{Connection, unix_nanos},
    report::machine::Machine,
    report::stats::Percentiles,
    server::process::{ServerProcess, default_host_binary},
    server::usage::cpu_time,
};

/// The longest pause between two messages of a turn.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The options of the benchmark.
#[derive(clap::Args)]
pub struct Args {
    /// Pieces of the paced answer.
    #[arg(long, default_value_t = 5_000)]
    deltas: u64,
    /// Microseconds between them; models write 20 to 200 pieces a second.
    #[arg(long, default_value_t = 1_000)]
    pace_us: u64,
    /// Pieces of the answer that comes as fast as it can.
    #[arg(long, default_value_t = 100_000)]
    rush: u64,
    /// The host to measure [default: the one next to this program].
    #[arg(long)]
    host_binary: Option<PathBuf>,
}

/// The result.
#[derive(Serialize)]
pub struct Report {
    benchmark: &'static str,
    /// From the provider's write to the client, through the host.
    through_host: Percentiles,
    /// From the provider's write to a reader without a host.
    directly: Percentiles,
    /// The difference.
    added: Percentiles,
    /// CPU of the host for 10,000 pieces that come at that pace, and as fast as they can.
    paced_cpu_ms_per_10_000: f64,
    rushed_cpu_ms_per_10_000: f64,
    rushed_deltas_per_second: f64,
    /// The same stream, read without a host.
    direct_deltas_per_second: f64,
    /// Through the host to without it.
    ratio: Option<f64>,
    machine: Machine,
}

/// Runs the benchmark.
pub fn run(args: &Args) -> Result<Report> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(measure(args))
}

async fn measure(args: &Args) -> Result<Report> {
    let host_binary = args.host_binary.clone().map_or_else(default_host_binary, Ok)?;
    let provider = Provider::start().await?;
    let models = format!(
        "[models]\ndiscover = false\ntitles = false\n[[models.providers]]\nid = \"bench\"\nbase_url = \"{}\"\n\
         keyless = true\nmodels = [{{ id = \"bench\" }}]\n",
        provider.base_url
    );
    let host = ServerProcess::start_configured_host(&host_binary, &models).await?;
    let measured = through_host(args, &host, &provider).await;
    let (paced, rushed) = measured.map_err(|error| host.explain(error))?;
    host.stop().await?;

    provider.next_answer(args.deltas, Duration::from_micros(args.pace_us));
    let direct_paced = read_directly(&provider).await?;
    provider.next_answer(args.rush, Duration::ZERO);
    let direct_rushed = read_directly(&provider).await?;

    let through_host = Percentiles::of_nanos(paced.latencies).context("no delta arrived")?;
    let directly = Percentiles::of_nanos(direct_paced.latencies).context("nothing was read")?;
    let per_second = |count: u64, time: Duration| count as f64 / time.as_secs_f64();
    let rushed_deltas_per_second = per_second(args.rush, rushed.time);
    let direct_deltas_per_second = per_second(args.rush, direct_rushed.time);
    let cpu_ms = |cpu: Duration, count: u64| cpu.as_secs_f64() * 1_000.0 * 10_000.0 / count.max(1) as f64;
    let report = Report {
        benchmark: "model",
        added: Percentiles {
            p50_us: through_host.p50_us - directly.p50_us,
            p99_us: through_host.p99_us - directly.p99_us,
        },
        through_host,
        directly,
        paced_cpu_ms_per_10_000: cpu_ms(paced.cpu, args.deltas),
        rushed_cpu_ms_per_10_000: cpu_ms(rushed.cpu, args.rush),
        rushed_deltas_per_second,
        direct_deltas_per_second,
        ratio: crate::report::stats::ratio(rushed_deltas_per_second, direct_deltas_per_second),
        machine: Machine::current(),
    };
    eprintln!(
        "paced: {} through the host, {} without it; {:.1} ms of CPU per 10,000 deltas\nrushed: {:.0} deltas/s through \
         the host, {:.0} without it; {:.1} ms of CPU per 10,000 deltas",
        report.through_host,
        report.directly,
        report.paced_cpu_ms_per_10_000,
        report.rushed_deltas_per_second,
        report.direct_deltas_per_second,
        report.rushed_cpu_ms_per_10_000
    );
    Ok(report)
}

/// One turn, as its reader saw it.
pub(crate) struct Turn {
    /// From each stamp to its receipt.
    pub(crate) latencies: Vec<u64>,
    pub(crate) time: Duration,
    /// CPU of the host.
    pub(crate) cpu: Duration,
}

async fn through_host(args: &Args, host: &ServerProcess, provider: &Provider) -> Result<(Turn, Turn)> {
    let mut connection = Connection::open(&host.url).await?;
    host_session::initialize(&mut connection, "bench", &[ROOT]).await?;
    host_session::create_session_with(&mut connection, "bench").await?;
    let chat = host_session::subscribe_session(&mut connection).await?;
    host_session::subscribe_chat(&mut connection, &chat, 0).await?;
    // The first turn pays for connections and caches.
    provider.next_answer(100, Duration::ZERO);
    turn(host, &mut connection, &chat, (1, "Go."), 100).await?;
    provider.next_answer(args.deltas, Duration::from_micros(args.pace_us));
    let paced = turn(host, &mut connection, &chat, (2, "Go."), args.deltas).await?;
    provider.next_answer(args.rush, Duration::ZERO);
    let rushed = turn(host, &mut connection, &chat, (3, "Go."), args.rush).await?;
    connection.close().await?;
    Ok((paced, rushed))
}

/// Runs a turn, by its number among those of the client and its message, and reads the stamps of its deltas.
pub(crate) async fn turn(
    host: &ServerProcess,
    connection: &mut Connection,
    chat: &str,
    (number, message): (u64, &str),
    deltas: u64,
) -> Result<Turn> {
    connection.forget_unread();
    let cpu_before = cpu_time(host.pid())?;
    let started = std::time::Instant::now();
    host_session::say(connection, chat, &format!("turn-{number}"), number, message).await?;
    let mut latencies = Vec::new();
    let mut is_over = false;
    while !is_over {
        let reading = connection.read_batch(|text, _| {
            let now = unix_nanos();
            latencies.extend(stamps_in(text).map(|stamp| now.saturating_sub(stamp)));
            let text = String::from_utf8_lossy(text);
            if text.contains("\"chat/error\"") {
                bail!("the turn failed: {text}");
            }
            is_over |= text.contains("\"chat/turnComplete\"");
            Ok(())
        });
        timeout(TIMEOUT, reading)
            .await
            .context("the turn did not end in time")??;
    }
    if latencies.len() as u64 != deltas {
        bail!("{} of {deltas} pieces arrived", latencies.len());
    }
    Ok(Turn {
        latencies,
        time: started.elapsed(),
        cpu: cpu_time(host.pid())?.saturating_sub(cpu_before),
    })
}
