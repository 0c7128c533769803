//! Durable actions against the disk's own limit, and streams that are written behind.

mod behind;

use std::{
    fs::File,
    io::Write,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use self::behind::WrittenBehind;
use crate::{
    client::host_session::{self, ROOT},
    client::websocket::Connection,
    host_options::HostOptions,
    report::machine::Machine,
    report::stats::{Percentiles, nanos, ratio},
    server::process::ServerProcess,
    server::usage::cpu_time,
};

/// Raises the limits of one client.
const LIMITS: &str = "messages_per_second = 1000000\nmessage_burst = 1000000\n";
/// About what one action takes in the journal.
const RECORD: [u8; 256] = [b'x'; 256];

/// The options of the benchmark.
#[derive(clap::Args)]
pub struct Args {
    /// How many clients dispatch at once, one measurement each.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 4, 64])]
    clients: Vec<usize>,
    /// Seconds of each measurement of durable actions.
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// Deltas per second that are written behind.
    #[arg(long, default_value_t = 50_000)]
    deltas_per_second: u64,
    /// Seconds of streaming.
    #[arg(long, default_value_t = 30.0)]
    stream_seconds: f64,
    #[command(flatten)]
    host: HostOptions,
}

/// The result.
#[derive(Serialize)]
pub struct Report {
    benchmark: &'static str,
    groups: Vec<Group>,
    written_behind: WrittenBehind,
    machine: Machine,
}

/// So many clients, each of which dispatches as fast as its echoes come.
#[derive(Serialize)]
struct Group {
    clients: usize,
    actions_per_second: f64,
    /// From sending an action to its echo.
    echo: Percentiles,
    /// One writer that appends a record to a file and syncs it, again and again, in the same run.
    fdatasync_per_second: f64,
    /// Actions to syncs of the file.
    ratio: Option<f64>,
    host_cpu_cores: f64,
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
    let host_binary = args.host.host_binary()?;
    let directory = args.host.directory()?;
    let time = Duration::from_secs_f64(args.seconds);
    let mut groups = Vec::new();
    for clients in &args.clients {
        let data = directory.path().join(format!("data-{clients}"));
        let group = group(&host_binary, &data, *clients, time).await?;
        eprintln!(
            "{clients} clients: {:.0} durable actions/s, echo {}; {:.0} syncs/s, ratio {:.2}",
            group.actions_per_second,
            group.echo,
            group.fdatasync_per_second,
            group.ratio.unwrap_or_default()
        );
        groups.push(group);
    }
    let stream_time = Duration::from_secs_f64(args.stream_seconds);
    let written_behind = behind::measure(directory.path(), args.deltas_per_second, stream_time).await?;
    Ok(Report {
        benchmark: "durable",
        groups,
        written_behind,
        machine: Machine::current(),
    })
}

async fn group(host_binary: &Path, data: &Path, clients: usize, time: Duration) -> Result<Group> {
    let host = ServerProcess::start_host_with(host_binary, &[], Some(data), LIMITS).await?;
    let dispatched = dispatch_all(&host, clients, time).await;
    let (echoes, elapsed, cpu) = dispatched.map_err(|error| host.explain(error))?;
    host.stop().await?;
    // Half before and half after would be fairer to a busy machine, and twice as long.
    let fdatasync_per_second = syncs_per_second(data, time)?;
    let actions_per_second = echoes.len() as f64 / elapsed.as_secs_f64();
    Ok(Group {
        clients,
        actions_per_second,
        echo: Percentiles::of_nanos(echoes).context("no action was dispatched")?,
        fdatasync_per_second,
        ratio: ratio(actions_per_second, fdatasync_per_second),
        host_cpu_cores: cpu.as_secs_f64() / elapsed.as_secs_f64(),
    })
}

async fn dispatch_all(host: &ServerProcess, clients: usize, time: Duration) -> Result<(Vec<u64>, Duration, Duration)> {
    let mut connections = Vec::new();
    for number in 0..clients {
        connections.push(prepare(&host.url, number).await?);
    }
    let cpu_before = cpu_time(host.pid())?;
    let started = Instant::now();
    let mut tasks = JoinSet::new();
    for (connection, session) in connections {
        tasks.spawn(dispatch(connection, session, started + time));
    }
    let mut echoes = Vec::new();
    while let Some(done) = tasks.join_next().await {
        echoes.extend(done.context("a client's task died")??);
    }
    let elapsed = started.elapsed();
    Ok((echoes, elapsed, cpu_time(host.pid())? - cpu_before))
}

async fn prepare(url: &str, number: usize) -> Result<(Connection, String)> {
    let mut connection = Connection::open(url).await?;
    host_session::initialize(&mut connection, &format!("client-{number}"), &[]).await?;
    let session = format!("ahp-session:/durable-{number}");
    connection
        .request("createSession", json!({"channel": session, "provider": "tour"}))
        .await?;
    connection
        .request(
            "subscribe",
            json!({"channel": session, "delivery": {"maxLatencyMs": 0}}),
        )
        .await?;
    // So that the session is there as a whole before anything is measured.
    connection.request("ping", json!({"channel": ROOT})).await?;
    connection.forget_unread();
    Ok((connection, session))
}

/// Dispatches an action, waits for its echo, and again. Returns how long each took.
async fn dispatch(mut connection: Connection, session: String, until: Instant) -> Result<Vec<u64>> {
    let mut echoes = Vec::new();
    let mut client_seq = 0_u64;
    while Instant::now() < until {
        client_seq += 1;
        let action = json!({"type": "session/titleChanged", "title": format!("Title {client_seq}")});
        let params = json!({"channel": session, "clientSeq": client_seq, "action": action});
        let sent = Instant::now();
        connection.notify("dispatchAction", params).await?;
        loop {
            let message = connection.next_message().await?;
            if message.pointer("/params/origin/clientSeq").and_then(Value::as_u64) == Some(client_seq) {
                if let Some(reason) = message.pointer("/params/rejectionReason") {
                    bail!("the host refused a title: {reason}");
                }
                break;
            }
        }
        echoes.push(nanos(sent.elapsed()));
    }
    Ok(echoes)
}

/// How often one writer can append a record to a file and wait until it is safe.
fn syncs_per_second(directory: &Path, time: Duration) -> Result<f64> {
    let mut file = File::create(directory.join("raw-syncs"))?;
    let started = Instant::now();
    let mut syncs = 0_u64;
    while started.elapsed() < time {
        file.write_all(&RECORD)?;
        file.sync_data()?;
        syncs += 1;
    }
    Ok(syncs as f64 / started.elapsed().as_secs_f64())
}
