//! The overhead of the host for a call of an MCP tool.
//!
//! The same server is called in one run in both ways: by the engine alone, which is the limit, and from a client
//! through the host, its agent and the engine. The host publishes and persists the call; no approval is
//! needed. Sessions share one process of the server, as they do in one workspace.

mod hosted;
mod server;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use innkeeper_mcp::{BaseEnvironment, Call, Server, ServerConfig, ServerEnv, ServerState, Start, Stdio, Transport};
use serde::Serialize;
use serde_json::{Map, Value, json};
use tempfile::TempDir;
use tokio::task::JoinSet;

use self::hosted::CallingClient;
use self::server::TOOL;
pub(crate) use self::server::run as serve;
use crate::{
    report::machine::Machine,
    report::stats::{Percentiles, nanos, ratio},
    server::process::{ServerProcess, default_host_binary},
    server::usage::cpu_time,
};

/// A result that is all overhead, and one that is longer than clients show.
const RESULTS: [usize; 2] = [64, 1 << 20];
/// Calls that pay for connections and caches.
const WARM_UP: usize = 5;

/// The options of the benchmark.
#[derive(clap::Args)]
pub struct Args {
    /// Calls of every kind.
    #[arg(long, default_value_t = 2_000)]
    calls: usize,
    /// Calls of every kind with a result of a mebibyte.
    #[arg(long, default_value_t = 200)]
    large_calls: usize,
    /// How many call at once in the second round.
    #[arg(long, default_value_t = 8)]
    concurrent: usize,
    /// The host to measure [default: the one next to this program].
    #[arg(long)]
    host_binary: Option<PathBuf>,
}

/// The result.
#[derive(Serialize)]
pub struct Report {
    benchmark: &'static str,
    rows: Vec<Row>,
    machine: Machine,
}

/// Calls of one kind.
#[derive(Serialize)]
struct Row {
    concurrent: usize,
    result_bytes: usize,
    calls: usize,
    /// From the client's message to the result of the call at the client.
    through_host: Percentiles,
    /// The engine alone.
    directly: Percentiles,
    /// The difference.
    added_p50_us: f64,
    /// Through the host to directly.
    ratio: Option<f64>,
    calls_per_second: f64,
    direct_calls_per_second: f64,
    /// CPU of the host for a call, without the server's.
    host_cpu_us_per_call: f64,
}

/// Calls of one kind in one way.
struct Measured {
    latencies: Vec<u64>,
    time: Duration,
}

/// Runs the benchmark.
pub fn run(args: &Args) -> Result<Report> {
    if args.calls == 0 || args.large_calls == 0 || args.concurrent == 0 {
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
    let directory = TempDir::new().context("cannot create a temporary directory")?;
    let config = hosted::plugin(directory.path())?;
    let host = ServerProcess::start_configured_host(&binary, &config).await?;
    let rows = rows(args, &host).await.map_err(|error| host.explain(error))?;
    host.stop().await?;
    Ok(Report {
        benchmark: "mcp",
        rows,
        machine: Machine::current(),
    })
}

async fn rows(args: &Args, host: &ServerProcess) -> Result<Vec<Row>> {
    let server = Arc::new(directly().await?);
    let mut clients = Vec::new();
    for number in 0..args.concurrent {
        clients.push(CallingClient::connect(&host.url, number).await?);
    }
    let mut rows = Vec::new();
    for concurrent in [1, args.concurrent] {
        for result_bytes in RESULTS {
            let all = if result_bytes > 1_000 {
                args.large_calls
            } else {
                args.calls
            };
            let each = all.div_ceil(concurrent);
            let direct = call_directly(&server, concurrent, result_bytes, each).await?;
            let cpu_before = cpu_time(host.pid())?;
            let hosted = call_through_host(&mut clients, concurrent, result_bytes, each).await?;
            let cpu = cpu_time(host.pid())?.saturating_sub(cpu_before);
            rows.push(row(concurrent, result_bytes, hosted, direct, cpu)?);
        }
    }
    server.stop().await;
    Ok(rows)
}

fn row(concurrent: usize, result_bytes: usize, hosted: Measured, direct: Measured, cpu: Duration) -> Result<Row> {
    let calls = hosted.latencies.len();
    let per_second = |measured: &Measured| measured.latencies.len() as f64 / measured.time.as_secs_f64();
    let (calls_per_second, direct_calls_per_second) = (per_second(&hosted), per_second(&direct));
    let through_host = Percentiles::of_nanos(hosted.latencies).context("nothing was called")?;
    let directly = Percentiles::of_nanos(direct.latencies).context("nothing was called")?;
    let row = Row {
        concurrent,
        result_bytes,
        calls,
        through_host,
        directly,
        added_p50_us: through_host.p50_us - directly.p50_us,
        ratio: ratio(through_host.p50_us, directly.p50_us),
        calls_per_second,
        direct_calls_per_second,
        host_cpu_us_per_call: cpu.as_secs_f64() * 1e6 / calls.max(1) as f64,
    };
    eprintln!(
        "{concurrent} at once, results of {result_bytes} bytes: {through_host} through the host, {directly} directly; \
         {calls_per_second:.0} and {direct_calls_per_second:.0} calls/s"
    );
    Ok(row)
}

/// The server, without a host.
async fn directly() -> Result<Server> {
    let this = std::env::current_exe().context("cannot find this program's own file")?;
    let stdio = Stdio::new(this.display().to_string(), ["mcp-server"]);
    let server_env = ServerEnv {
        environment: BaseEnvironment::of_process(),
        ..ServerEnv::default()
    };
    let server = Server::new(ServerConfig::new("bench", Transport::Stdio(stdio)), server_env)?;
    server.start(Start::Blocking);
    let is_settled = |state: &ServerState| !matches!(state, ServerState::Starting { .. } | ServerState::Stopped);
    match server.wait_for(is_settled).await {
        ServerState::Ready => Ok(server),
        other => bail!("the server is not ready: {other:?}"),
    }
}

async fn call_directly(server: &Arc<Server>, concurrent: usize, bytes: usize, each: usize) -> Result<Measured> {
    let arguments = Map::from_iter([("bytes".to_owned(), json!(bytes))]);
    let call = |server: Arc<Server>, arguments: Map<String, Value>| async move {
        let started = Instant::now();
        server.call(Call::new(TOOL, arguments)).await?;
        anyhow::Ok(nanos(started.elapsed()))
    };
    for _ in 0..WARM_UP {
        call(Arc::clone(server), arguments.clone()).await?;
    }
    let started = Instant::now();
    let mut callers = JoinSet::new();
    for _ in 0..concurrent {
        let (server, arguments) = (Arc::clone(server), arguments.clone());
        callers.spawn(async move {
            let mut latencies = Vec::with_capacity(each);
            for _ in 0..each {
                latencies.push(call(Arc::clone(&server), arguments.clone()).await?);
            }
            anyhow::Ok(latencies)
        });
    }
    let mut latencies = Vec::new();
    while let Some(caller) = callers.join_next().await {
        latencies.extend(caller??);
    }
    Ok(Measured {
        latencies,
        time: started.elapsed(),
    })
}

async fn call_through_host(
    clients: &mut Vec<CallingClient>,
    concurrent: usize,
    bytes: usize,
    each: usize,
) -> Result<Measured> {
    let mut callers = JoinSet::new();
    let mut calling: Vec<CallingClient> = clients.drain(..concurrent.min(clients.len())).collect();
    for client in &mut calling {
        for _ in 0..WARM_UP {
            client.call(bytes).await?;
        }
    }
    let started = Instant::now();
    for mut client in calling {
        callers.spawn(async move {
            let mut latencies = Vec::with_capacity(each);
            for _ in 0..each {
                latencies.push(client.call(bytes).await?);
            }
            anyhow::Ok((client, latencies))
        });
    }
    let mut latencies = Vec::new();
    while let Some(caller) = callers.join_next().await {
        let (client, of_client) = caller??;
        clients.push(client);
        latencies.extend(of_client);
    }
    Ok(Measured {
        latencies,
        time: started.elapsed(),
    })
}
