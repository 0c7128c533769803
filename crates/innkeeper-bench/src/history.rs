//! A chat with a very long history: opening its end, reading all of it, and streaming into it.

use std::{
    fs::File,
    io::Read,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use innkeeper_core::uri::default_chat;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::{
    client::delivery::{Stamping, StreamPlan, receive_turn},
    client::host_session,
    client::websocket::Connection,
    filled_data::{Template, forget_pages, stored_session},
    host_options::{HostOptions, on_one_thread},
    report::machine::Machine,
    report::stats::{Percentiles, directory_bytes, median, nanos, ratio},
    server::process::ServerProcess,
    server::usage::{peak_resident_bytes, read_bytes, resident_bytes},
};

/// Snapshots of any length, as a client without a bound of its own asks for them.
const LIMITS: &str = "snapshot_bytes = 0\nmessages_per_second = 1000000\nmessage_burst = 1000000\n";
/// The turns that a client opens a chat with, and those of the chat that is compared with.
const SHOWN: usize = 20;
/// The copies of the template.
const LONG: u64 = 1;
const SHORT: u64 = 2;
const MIB: f64 = 1024.0 * 1024.0;

/// The options of the benchmark.
#[derive(clap::Args)]
pub struct Args {
    /// Turns of the long chat.
    #[arg(long, default_value_t = 10_000)]
    turns: usize,
    /// Mebibytes of all of them.
    #[arg(long, default_value_t = 600)]
    mib: usize,
    /// Deltas of each turn that is streamed at full speed.
    #[arg(long, default_value_t = 200_000)]
    deltas: usize,
    #[command(flatten)]
    host: HostOptions,
}

/// The result.
#[derive(Serialize)]
pub struct Report {
    benchmark: &'static str,
    turns: usize,
    turn_bytes: usize,
    file_bytes: u64,
    fill_seconds: f64,
    /// `subscribe` with `view.turns: 20`.
    window_long: Window,
    window_short: Window,
    /// Long to short.
    first_ratio: Option<f64>,
    again_p50_ratio: Option<f64>,
    bytes_read_ratio: Option<f64>,
    snapshot: Snapshot,
    pages: Pages,
    delta_long: Deltas,
    delta_short: Deltas,
    delta_p50_ratio: Option<f64>,
    delta_full_speed_ratio: Option<f64>,
    machine: Machine,
}

/// Opening the end of a chat in a host that was just started.
#[derive(Serialize)]
struct Window {
    /// The first time, from the disk.
    first_ms: f64,
    /// Bytes that the host read for it.
    bytes_read: u64,
    rss_growth_bytes: i64,
    answer_bytes: usize,
    /// A hundred times more.
    again: Percentiles,
}

/// All turns in one answer.
#[derive(Serialize)]
struct Snapshot {
    bytes: u64,
    seconds: f64,
    mib_per_second: f64,
    /// Reading the data file from its start to its end, in the same run.
    file_mib_per_second: f64,
    ratio: Option<f64>,
    rss_before_bytes: u64,
    rss_peak_bytes: u64,
}

/// `fetchTurns` from the window to the first turn.
#[derive(Serialize)]
struct Pages {
    pages: usize,
    turns: usize,
    seconds: f64,
    page: Percentiles,
    rss_growth_bytes: i64,
}

/// Streaming into a chat.
#[derive(Serialize)]
struct Deltas {
    /// From making a delta to its receipt, one each 2 ms.
    latency: Percentiles,
    full_speed_ns_per_delta: f64,
}

/// Runs the benchmark.
pub fn run(args: &Args) -> Result<Report> {
    on_one_thread(measure(args))
}

async fn measure(args: &Args) -> Result<Report> {
    let host_binary = args.host.host_binary()?;
    let directory = args.host.directory()?;
    let data = directory.path().join("data");
    let turn_bytes = (args.mib << 20) / args.turns.max(1);
    let filling = Instant::now();
    let template = Template::made_by_host(&host_binary, &data, 1).await?;
    template.fill_history(&data, LONG, args.turns, turn_bytes).await?;
    template.fill_history(&data, SHORT, SHOWN, turn_bytes).await?;
    let fill_seconds = filling.elapsed().as_secs_f64();
    eprintln!("{} turns stored in {fill_seconds:.1} s", args.turns);

    let window_short = fresh(&host_binary, &data, SHORT).await?;
    let window_long = fresh(&host_binary, &data, LONG).await?;
    let environment = [("INNKEEPER_TOUR_STAMP", "1")];
    let host = ServerProcess::start_host_with(&host_binary, &environment, Some(&data), LIMITS).await?;
    let used = use_host(args, &host, &data).await.map_err(|error| host.explain(error));
    let (snapshot, pages, [delta_short, delta_long]) = used?;
    host.stop().await?;
    Ok(Report {
        benchmark: "history",
        turns: args.turns,
        turn_bytes,
        file_bytes: directory_bytes(&data)?,
        fill_seconds,
        first_ratio: ratio(window_long.first_ms, window_short.first_ms),
        again_p50_ratio: ratio(window_long.again.p50_us, window_short.again.p50_us),
        bytes_read_ratio: ratio(window_long.bytes_read as f64, window_short.bytes_read as f64),
        window_long,
        window_short,
        snapshot,
        pages,
        delta_p50_ratio: ratio(delta_long.latency.p50_us, delta_short.latency.p50_us),
        delta_full_speed_ratio: ratio(delta_long.full_speed_ns_per_delta, delta_short.full_speed_ns_per_delta),
        delta_long,
        delta_short,
        machine: Machine::current(),
    })
}

/// Opens the end of a chat in a host of its own.
async fn fresh(host_binary: &Path, data: &Path, number: u64) -> Result<Window> {
    forget_pages(data)?;
    let host = ServerProcess::start_host_with(host_binary, &[], Some(data), LIMITS).await?;
    let window = open_window(&host, number).await.map_err(|error| host.explain(error))?;
    host.stop().await?;
    eprintln!(
        "the last {SHOWN} turns: {:.1} ms the first time, {} KiB read, then {}",
        window.first_ms,
        window.bytes_read >> 10,
        window.again
    );
    Ok(window)
}

async fn open_window(host: &ServerProcess, number: u64) -> Result<Window> {
    let mut client = Connection::open(&host.url).await?;
    host_session::initialize(&mut client, "reader", &[]).await?;
    let chat = default_chat(&stored_session(number));
    sleep(Duration::from_millis(300)).await;
    let (rss, read) = (resident_bytes(host.pid())?, read_bytes(host.pid())?);
    let sent = Instant::now();
    let answer_bytes = subscribe(&mut client, &chat, Some(SHOWN)).await?;
    let first_ms = sent.elapsed().as_secs_f64() * 1000.0;
    let bytes_read = read_bytes(host.pid())? - read;
    let rss_growth_bytes = resident_bytes(host.pid())? as i64 - rss as i64;
    let mut again = Vec::new();
    for _ in 0..100 {
        client.notify("unsubscribe", json!({"channel": chat})).await?;
        let sent = Instant::now();
        subscribe(&mut client, &chat, Some(SHOWN)).await?;
        again.push(nanos(sent.elapsed()));
    }
    Ok(Window {
        first_ms,
        bytes_read,
        rss_growth_bytes,
        answer_bytes,
        again: Percentiles::of_nanos(again).context("nothing was measured")?,
    })
}

/// Subscribes to a chat and returns how many bytes its snapshot has.
async fn subscribe(client: &mut Connection, chat: &str, turns: Option<usize>) -> Result<usize> {
    let mut params = json!({"channel": chat, "delivery": {"maxLatencyMs": 0}});
    if let Some(turns) = turns {
        params["view"] = json!({"turns": turns});
    }
    let result = client.request("subscribe", params).await?;
    let shown = result.pointer("/snapshot/state/turns").and_then(Value::as_array);
    let shown = shown.context("subscribe gave no turns")?;
    if turns.is_some_and(|turns| shown.len() != turns) {
        bail!("{} turns came instead of {SHOWN}", shown.len());
    }
    client.forget_unread();
    Ok(shown.iter().map(|turn| turn.to_string().len()).sum())
}

async fn use_host(args: &Args, host: &ServerProcess, data: &Path) -> Result<(Snapshot, Pages, [Deltas; 2])> {
    let snapshot = whole(host, data).await?;
    eprintln!(
        "all turns: {:.0} MiB/s, the file {:.0} MiB/s, memory {:.0} MiB at most",
        snapshot.mib_per_second,
        snapshot.file_mib_per_second,
        snapshot.rss_peak_bytes as f64 / MIB
    );
    let pages = all_pages(args, host).await?;
    eprintln!(
        "{} pages of turns in {:.1} s, each {}",
        pages.pages, pages.seconds, pages.page
    );
    let short = stream(args, host, SHORT).await?;
    let long = stream(args, host, LONG).await?;
    eprintln!(
        "a delta: {} in the long chat, {} in the short one",
        long.latency, short.latency
    );
    Ok((snapshot, pages, [short, long]))
}

/// Reads all turns in one response. The client discards it.
async fn whole(host: &ServerProcess, data: &Path) -> Result<Snapshot> {
    let mut client = Connection::open(&host.url).await?;
    host_session::initialize(&mut client, "whole", &[]).await?;
    let chat = default_chat(&stored_session(LONG));
    // Both read the same file, and both find it in the page cache as far as it fits.
    read_file(data)?;
    let rss_before_bytes = resident_bytes(host.pid())?;
    let started = Instant::now();
    client.send_request("subscribe", json!({"channel": chat})).await?;
    let bytes = client.skip_long_message().await?;
    let seconds = started.elapsed().as_secs_f64();
    let rss_peak_bytes = peak_resident_bytes(host.pid())?;
    let mib_per_second = bytes as f64 / MIB / seconds;
    let file_mib_per_second = read_file(data)?;
    client.close().await?;
    Ok(Snapshot {
        bytes,
        seconds,
        mib_per_second,
        file_mib_per_second,
        ratio: ratio(mib_per_second, file_mib_per_second),
        rss_before_bytes,
        rss_peak_bytes,
    })
}

/// Reads the data file and returns how fast, in MiB/s.
fn read_file(data: &Path) -> Result<f64> {
    let mut file = File::open(data.join(innkeeper_store::FILE_NAME))?;
    let mut buffer = vec![0; 1 << 20];
    let started = Instant::now();
    let mut bytes = 0;
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(bytes as f64 / MIB / started.elapsed().as_secs_f64()),
            count => bytes += count,
        }
    }
}

async fn all_pages(args: &Args, host: &ServerProcess) -> Result<Pages> {
    let mut client = Connection::open(&host.url).await?;
    host_session::initialize(&mut client, "pages", &[]).await?;
    let chat = default_chat(&stored_session(LONG));
    subscribe(&mut client, &chat, Some(SHOWN)).await?;
    let rss = resident_bytes(host.pid())?;
    let started = Instant::now();
    let (mut turns, mut times) = (SHOWN.min(args.turns), Vec::new());
    loop {
        let sent = Instant::now();
        client.send_request("fetchTurns", json!({"channel": chat})).await?;
        let mut has_more = false;
        loop {
            let message = client.next_message().await?;
            if message.get("id").is_some() {
                message
                    .get("result")
                    .with_context(|| format!("fetchTurns: {message}"))?;
                break;
            }
            if let Some(action) = message.pointer("/params/action")
                && action.get("type").and_then(Value::as_str) == Some("chat/turnsLoaded")
            {
                turns += action.get("turns").and_then(Value::as_array).map_or(0, Vec::len);
                has_more = action.get("turnsNextCursor").is_some_and(Value::is_string);
            }
        }
        times.push(nanos(sent.elapsed()));
        if !has_more {
            break;
        }
    }
    if turns != args.turns {
        bail!("{turns} turns were read in pages, and there are {}", args.turns);
    }
    let seconds = started.elapsed().as_secs_f64();
    let rss_growth_bytes = resident_bytes(host.pid())? as i64 - rss as i64;
    client.close().await?;
    Ok(Pages {
        pages: times.len(),
        turns,
        seconds,
        page: Percentiles::of_nanos(times).context("no page was read")?,
        rss_growth_bytes,
    })
}

/// Streams into a chat: at a pace, and at full speed.
async fn stream(args: &Args, host: &ServerProcess, number: u64) -> Result<Deltas> {
    let mut client = Connection::open(&host.url).await?;
    host_session::initialize(&mut client, &format!("streamer-{number}"), &[]).await?;
    let chat = default_chat(&stored_session(number));
    subscribe(&mut client, &chat, Some(1)).await?;
    let mut plan = StreamPlan {
        turn_id: "warm-up".to_owned(),
        client_seq: 1,
        deltas: 500,
        bytes: 40,
        delay_ms: 2,
        stamping: Stamping::Stamped,
    };
    host_session::start_turn(&mut client, &chat, &plan).await?;
    receive_turn(&mut client, &plan).await?;
    plan.turn_id = "paced".to_owned();
    plan.client_seq += 1;
    host_session::start_turn(&mut client, &chat, &plan).await?;
    let paced = receive_turn(&mut client, &plan).await?;
    let mut full_speed = Vec::new();
    for round in 0..3 {
        let plan = StreamPlan {
            turn_id: format!("full-speed-{round}"),
            client_seq: plan.client_seq + 1 + round,
            deltas: args.deltas,
            delay_ms: 0,
            ..plan.clone()
        };
        host_session::start_turn(&mut client, &chat, &plan).await?;
        let delivered = receive_turn(&mut client, &plan).await?;
        full_speed.push((delivered.last - delivered.first).as_nanos() as f64 / args.deltas as f64);
    }
    client.close().await?;
    Ok(Deltas {
        latency: Percentiles::of_nanos(paced.latencies).context("nothing was streamed")?,
        full_speed_ns_per_delta: median(full_speed).context("nothing was streamed")?,
    })
}
