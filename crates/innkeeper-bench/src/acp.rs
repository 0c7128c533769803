//! The latency, the CPU time and the memory that the host adds to an agent that speaks ACP.
//!
//! The agent stamps every chunk of its answer. A client of the host reads the stamps when they arrive as deltas; a
//! reader of the agent's pipe, which is the limit, reads the same answer of the same program in the same run.

mod agent;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::Serialize;
use serde_json::json;

use self::agent::DirectAgent;
pub(crate) use self::agent::run as serve;
use crate::{
    client::host_session::{self, ROOT},
    client::websocket::Connection,
    model::{Turn, turn},
    report::machine::Machine,
    report::stats::{Percentiles, median, ratio},
    server::process::{ServerProcess, default_host_binary},
    server::usage::resident_bytes,
};

/// The agent's name in the configuration of the host.
const AGENT: &str = "bench";
/// Chunks of a turn that pays for connections and caches, or that only has to be there.
const FEW: u64 = 100;

/// The options of the benchmark.
#[derive(clap::Args)]
pub struct Args {
    /// Chunks of a paced answer.
    #[arg(long, default_value_t = 2_000)]
    deltas: u64,
    /// Microseconds between them; agents write 20 to 200 chunks a second.
    #[arg(long, default_value_t = 1_000)]
    pace_us: u64,
    /// Chunks of an answer that comes as fast as it can.
    #[arg(long, default_value_t = 50_000)]
    rush: u64,
    /// How often each answer is measured in both ways, by turns.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Sessions whose memory is measured. Each has a process of the agent.
    #[arg(long, default_value_t = 50)]
    sessions: u64,
    /// The host to measure [default: the one next to this program].
    #[arg(long)]
    host_binary: Option<PathBuf>,
}

/// The result.
#[derive(Serialize)]
pub struct Report {
    benchmark: &'static str,
    /// From the agent's write to the client, through the host.
    through_host: Percentiles,
    /// From the agent's write to a reader of its pipe.
    directly: Percentiles,
    /// The difference.
    added: Percentiles,
    /// CPU of the host for 10,000 chunks that come at that pace, and as fast as they can.
    paced_cpu_ms_per_10_000: f64,
    rushed_cpu_ms_per_10_000: f64,
    /// The median of the rounds.
    rushed_deltas_per_second: f64,
    /// The same answer, read from the pipe.
    direct_deltas_per_second: f64,
    /// Through the host to without it.
    ratio: Option<f64>,
    sessions: u64,
    /// Memory of the host for a session with one short turn, without the agent's own process.
    host_rss_per_session_bytes: u64,
    machine: Machine,
}

/// Answers in one way.
#[derive(Default)]
struct Measured {
    latencies: Vec<u64>,
    paced_cpu: Duration,
    rushed_cpu: Duration,
    rushed_per_second: Vec<f64>,
}

impl Measured {
    fn add(&mut self, paced: Turn, rushed: &Turn) {
        self.latencies.extend(paced.latencies);
        self.paced_cpu += paced.cpu;
        self.rushed_cpu += rushed.cpu;
        let count = rushed.latencies.len() as f64;
        self.rushed_per_second.push(count / rushed.time.as_secs_f64());
    }
}

/// Runs the benchmark.
pub fn run(args: &Args) -> Result<Report> {
    if args.deltas == 0 || args.rush == 0 || args.rounds == 0 || args.sessions == 0 {
        bail!("there is nothing to measure: every count has to be above zero");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(measure(args))
}

async fn measure(args: &Args) -> Result<Report> {
    let binary = args.host_binary.clone().map_or_else(default_host_binary, Ok)?;
    let this = std::env::current_exe().context("cannot find this program's own file")?;
    let command = toml_string(&this)?;
    let config = format!("[models]\ndiscover = false\n[agents.{AGENT}]\ncommand = {command}\nargs = [\"acp-agent\"]\n");

    let host = ServerProcess::start_configured_host(&binary, &config).await?;
    let memory = memory_per_session(args.sessions, &host).await;
    let host_rss_per_session_bytes = memory.map_err(|error| host.explain(error))?;
    host.stop().await?;

    let host = ServerProcess::start_configured_host(&binary, &config).await?;
    let (hosted, direct) = rounds(args, &host).await.map_err(|error| host.explain(error))?;
    host.stop().await?;

    let through_host = Percentiles::of_nanos(hosted.latencies).context("no delta arrived")?;
    let directly = Percentiles::of_nanos(direct.latencies).context("nothing was read")?;
    let rushed_deltas_per_second = median(hosted.rushed_per_second).context("no round")?;
    let direct_deltas_per_second = median(direct.rushed_per_second).context("no round")?;
    let cpu_ms = |cpu: Duration, count: u64| {
        let all = count.max(1) as f64 * args.rounds as f64;
        cpu.as_secs_f64() * 1_000.0 * 10_000.0 / all
    };
    let report = Report {
        benchmark: "acp",
        added: Percentiles {
            p50_us: through_host.p50_us - directly.p50_us,
            p99_us: through_host.p99_us - directly.p99_us,
        },
        through_host,
        directly,
        paced_cpu_ms_per_10_000: cpu_ms(hosted.paced_cpu, args.deltas),
        rushed_cpu_ms_per_10_000: cpu_ms(hosted.rushed_cpu, args.rush),
        rushed_deltas_per_second,
        direct_deltas_per_second,
        ratio: ratio(rushed_deltas_per_second, direct_deltas_per_second),
        sessions: args.sessions,
        host_rss_per_session_bytes,
        machine: Machine::current(),
    };
    eprintln!(
        "paced: {} through the host, {} from the pipe; rushed: {:.0} deltas/s through the host, {:.0} from the pipe; \
         {} bytes of the host per session",
        report.through_host,
        report.directly,
        report.rushed_deltas_per_second,
        report.direct_deltas_per_second,
        report.host_rss_per_session_bytes
    );
    Ok(report)
}

/// Writes a path as a string of TOML.
fn toml_string(path: &Path) -> Result<String> {
    let path = path.to_str().context("the path of this program is not UTF-8")?;
    // Every JSON string is a TOML string.
    Ok(serde_json::to_string(path)?)
}

/// The message that makes the agent answer.
fn message(chunks: u64, pace: Duration) -> String {
    format!("{chunks} {}", pace.as_micros())
}

async fn memory_per_session(sessions: u64, host: &ServerProcess) -> Result<u64> {
    let mut connection = Connection::open(&host.url).await?;
    host_session::initialize(&mut connection, "bench", &[ROOT]).await?;
    let text = message(FEW, Duration::ZERO);
    let mut before = 0;
    for number in 0..=sessions {
        let session = format!("ahp-session:/bench-{number}");
        let params = json!({"channel": session, "provider": AGENT});
        connection.request("createSession", params).await?;
        let chat = host_session::subscribe_to_session(&mut connection, &session).await?;
        host_session::subscribe_chat(&mut connection, &chat, 0).await?;
        turn(host, &mut connection, &chat, (number + 1, &text), FEW).await?;
        // The first session pays for what all share.
        if number == 0 {
            before = resident_bytes(host.pid())?;
        }
    }
    let after = resident_bytes(host.pid())?;
    connection.close().await?;
    Ok(after.saturating_sub(before) / sessions)
}

async fn rounds(args: &Args, host: &ServerProcess) -> Result<(Measured, Measured)> {
    let mut connection = Connection::open(&host.url).await?;
    host_session::initialize(&mut connection, "bench", &[ROOT]).await?;
    host_session::create_session_with(&mut connection, AGENT).await?;
    let chat = host_session::subscribe_session(&mut connection).await?;
    host_session::subscribe_chat(&mut connection, &chat, 0).await?;
    let mut direct = DirectAgent::start().await?;
    let warm_up = message(FEW, Duration::ZERO);
    turn(host, &mut connection, &chat, (1, &warm_up), FEW).await?;
    direct.turn(&warm_up, FEW).await?;

    let paced = message(args.deltas, Duration::from_micros(args.pace_us));
    let rushed = message(args.rush, Duration::ZERO);
    let (mut hosted, mut directly) = (Measured::default(), Measured::default());
    let mut number = 1;
    for _ in 0..args.rounds {
        let direct_paced = direct.turn(&paced, args.deltas).await?;
        let hosted_paced = turn(host, &mut connection, &chat, (number + 1, &paced), args.deltas).await?;
        let direct_rushed = direct.turn(&rushed, args.rush).await?;
        let hosted_rushed = turn(host, &mut connection, &chat, (number + 2, &rushed), args.rush).await?;
        number += 2;
        directly.add(direct_paced, &direct_rushed);
        hosted.add(hosted_paced, &hosted_rushed);
    }
    connection.close().await?;
    direct.stop().await?;
    Ok((hosted, directly))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_a_string_of_toml() {
        let written = toml_string(Path::new("/opt/a \"b\"/innkeeper-bench")).unwrap();
        assert_eq!(written, r#""/opt/a \"b\"/innkeeper-bench""#);
    }
}
