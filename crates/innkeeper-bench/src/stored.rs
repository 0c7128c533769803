//! A host with very many stored sessions: what starting, listing and opening them costs.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use innkeeper_core::uri::default_chat;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::{
    client::delivery::{Stamping, StreamPlan},
    client::host_session::{self, ROOT},
    client::websocket::Connection,
    filled_data::{Template, forget_pages, stored_session},
    host_options::{HostOptions, on_one_thread},
    report::machine::Machine,
    report::stats::{Percentiles, directory_bytes, median, nanos, ratio},
    server::process::ServerProcess,
    server::usage::resident_bytes,
};

/// Raises the limits of one client, and lets the host evict sessions soon.
const LIMITS: &str = "sessions = 10000000\nmessages_per_second = 1000000\nmessage_burst = 1000000\n\
    idle_session_ms = 1000\ngrace_ms = 0\n";
/// Longer than `idle_session_ms` by enough for a busy machine.
const UNTIL_IDLE: Duration = Duration::from_secs(5);
/// How long a host is left alone before its memory is read.
const SETTLE: Duration = Duration::from_millis(500);
/// Turns of each stored session.
const TURNS: usize = 3;

/// The options of the benchmark.
#[derive(clap::Args)]
pub struct Args {
    /// How many sessions are stored.
    #[arg(long, default_value_t = 100_000)]
    sessions: u64,
    /// How many of them are opened, twice, to see what stays in memory.
    #[arg(long, default_value_t = 1000)]
    touched: u64,
    /// Starts of each host.
    #[arg(long, default_value_t = 5)]
    starts: u64,
    #[command(flatten)]
    host: HostOptions,
}

/// The result.
#[derive(Serialize)]
pub struct Report {
    benchmark: &'static str,
    sessions: u64,
    fill_seconds: f64,
    file_bytes: u64,
    file_bytes_per_session: f64,
    start: Starts,
    memory: Memory,
    /// The first page of 50 sessions.
    list: Percentiles,
    list_while_streaming: Percentiles,
    /// All pages of 1,000 sessions, one after the other.
    all_pages_ms: f64,
    /// Opening a stored session and its chat, from the request to the second snapshot.
    open_session: Percentiles,
    machine: Machine,
}

/// From starting the process to its word that it listens.
#[derive(Serialize)]
struct Starts {
    empty_ms: f64,
    full_ms: f64,
    /// The first start after the system has forgotten the file.
    full_from_disk_ms: f64,
    /// Full to empty.
    ratio: Option<f64>,
}

#[derive(Serialize)]
struct Memory {
    empty_bytes: u64,
    full_bytes: u64,
    /// Memory that one stored session adds to an idle host.
    bytes_per_stored_session: f64,
    after_lists_bytes: u64,
    touched: u64,
    after_touching_bytes: u64,
    after_they_left_bytes: u64,
    /// The same number of other sessions were opened.
    after_touching_others_bytes: u64,
    after_they_left_too_bytes: u64,
}

/// Runs the benchmark.
pub fn run(args: &Args) -> Result<Report> {
    on_one_thread(measure(args))
}

async fn measure(args: &Args) -> Result<Report> {
    let host_binary = args.host.host_binary()?;
    let directory = args.host.directory()?;
    let (empty, full) = (directory.path().join("empty"), directory.path().join("full"));
    let template = Template::made_by_host(&host_binary, &full, TURNS).await?;
    let filling = Instant::now();
    template.fill(&full, args.sessions).await?;
    let fill_seconds = filling.elapsed().as_secs_f64();
    let file_bytes = directory_bytes(&full)?;
    eprintln!("{} sessions stored in {fill_seconds:.1} s", args.sessions);

    let (empty_ms, empty_bytes) = starts(&host_binary, &empty, args.starts).await?;
    forget_pages(&full)?;
    let (full_from_disk_ms, _) = starts(&host_binary, &full, 1).await?;
    let (full_ms, full_bytes) = starts(&host_binary, &full, args.starts).await?;
    eprintln!("start: {empty_ms:.1} ms empty, {full_ms:.1} ms full, {full_from_disk_ms:.1} ms from disk");

    let host = ServerProcess::start_host_with(&host_binary, &[], Some(&full), LIMITS).await?;
    let used = use_host(args, &host).await.map_err(|error| host.explain(error))?;
    host.stop().await?;
    Ok(Report {
        benchmark: "stored",
        sessions: args.sessions,
        fill_seconds,
        file_bytes,
        file_bytes_per_session: file_bytes as f64 / args.sessions as f64,
        start: Starts {
            empty_ms,
            full_ms,
            full_from_disk_ms,
            ratio: ratio(full_ms, empty_ms),
        },
        memory: Memory {
            empty_bytes,
            full_bytes,
            bytes_per_stored_session: (full_bytes as f64 - empty_bytes as f64) / args.sessions as f64,
            touched: args.touched,
            after_lists_bytes: used.after_lists,
            after_touching_bytes: used.touched[0].0,
            after_they_left_bytes: used.touched[0].1,
            after_touching_others_bytes: used.touched[1].0,
            after_they_left_too_bytes: used.touched[1].1,
        },
        list: used.list,
        list_while_streaming: used.list_while_streaming,
        all_pages_ms: used.all_pages_ms,
        open_session: used.open_session,
        machine: Machine::current(),
    })
}

/// The median of some starts in milliseconds, and that of the memory of the idle host.
async fn starts(host_binary: &Path, data: &Path, count: u64) -> Result<(f64, u64)> {
    let (mut times, mut memory) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let host = ServerProcess::start_host_with(host_binary, &[], Some(data), LIMITS).await?;
        times.push(host.start_time.as_secs_f64() * 1_000.0);
        sleep(SETTLE).await;
        memory.push(resident_bytes(host.pid())? as f64);
        host.stop().await?;
    }
    let none = "no start was measured";
    Ok((median(times).context(none)?, median(memory).context(none)? as u64))
}

struct Used {
    list: Percentiles,
    list_while_streaming: Percentiles,
    all_pages_ms: f64,
    after_lists: u64,
    open_session: Percentiles,
    touched: [(u64, u64); 2],
}

async fn use_host(args: &Args, host: &ServerProcess) -> Result<Used> {
    let mut client = Connection::open(&host.url).await?;
    host_session::initialize(&mut client, "reader", &[]).await?;
    let list = first_pages(&mut client).await?;
    eprintln!("first page: {list}");
    let started = Instant::now();
    let listed = all_pages(&mut client).await?;
    let all_pages_ms = started.elapsed().as_secs_f64() * 1_000.0;
    // The template is there as well.
    if listed != args.sessions + 1 {
        bail!("{listed} sessions were listed, and {} are stored", args.sessions + 1);
    }
    let after_lists = resident_bytes(host.pid())?;
    let list_while_streaming = while_streaming(host, &mut client).await?;
    eprintln!("first page while another client streams: {list_while_streaming}");

    let mut opened = Vec::new();
    let mut touched = [(0, 0); 2];
    for (round, figures) in touched.iter_mut().enumerate() {
        for step in 0..args.touched {
            let number = (step * 2 + round as u64) * args.sessions / (args.touched * 2).max(1);
            opened.push(open_and_leave(&mut client, number).await?);
        }
        figures.0 = resident_bytes(host.pid())?;
        sleep(UNTIL_IDLE).await;
        figures.1 = resident_bytes(host.pid())?;
    }
    let open_session = Percentiles::of_nanos(opened).context("no session was opened")?;
    eprintln!("a stored session opened: {open_session}");
    Ok(Used {
        list,
        list_while_streaming,
        all_pages_ms,
        after_lists,
        open_session,
        touched,
    })
}

async fn first_pages(client: &mut Connection) -> Result<Percentiles> {
    let mut times = Vec::new();
    for _ in 0..200 {
        let sent = Instant::now();
        let page = client
            .request("listSessions", json!({"channel": ROOT, "limit": 50}))
            .await?;
        times.push(nanos(sent.elapsed()));
        if page.get("items").and_then(Value::as_array).map_or(0, Vec::len) == 0 {
            bail!("the first page is empty: {page}");
        }
        client.forget_unread();
    }
    Percentiles::of_nanos(times).context("no page was read")
}

async fn all_pages(client: &mut Connection) -> Result<u64> {
    let (mut count, mut cursor) = (0, None);
    loop {
        let mut params = json!({"channel": ROOT, "limit": 1000});
        if let Some(cursor) = cursor {
            params["cursor"] = cursor;
        }
        let mut page = client.request("listSessions", params).await?;
        count += page.get("items").and_then(Value::as_array).map_or(0, Vec::len) as u64;
        cursor = page
            .get_mut("nextCursor")
            .map(Value::take)
            .filter(|cursor| !cursor.is_null());
        if cursor.is_none() {
            return Ok(count);
        }
    }
}

/// Reads first pages while an agent streams a delta each millisecond to another client.
async fn while_streaming(host: &ServerProcess, client: &mut Connection) -> Result<Percentiles> {
    let mut streamer = Connection::open(&host.url).await?;
    host_session::initialize(&mut streamer, "streamer", &[]).await?;
    let chat = host_session::subscribe_session(&mut streamer).await?;
    host_session::subscribe_chat(&mut streamer, &chat, 0).await?;
    let plan = StreamPlan {
        turn_id: "meanwhile".to_owned(),
        client_seq: 1,
        deltas: 10_000_000,
        bytes: 40,
        delay_ms: 1,
        stamping: Stamping::Plain,
    };
    host_session::start_turn(&mut streamer, &chat, &plan).await?;
    let reading = async {
        loop {
            streamer.read_batch(|_, _| Ok(())).await?;
        }
    };
    let pages = tokio::select! {
        pages = first_pages(client) => pages,
        stopped = reading => return stopped,
    }?;
    let cancel = json!({"type": "chat/turnCancelled", "turnId": plan.turn_id, "duration": 1});
    let params = json!({"channel": chat, "clientSeq": 2, "action": cancel});
    streamer.notify("dispatchAction", params).await?;
    host_session::ping(&mut streamer).await?;
    streamer.close().await?;
    Ok(pages)
}

/// Opens a stored session and its chat and leaves both. Returns how long opening took.
async fn open_and_leave(client: &mut Connection, number: u64) -> Result<u64> {
    let session = stored_session(number);
    let chat = default_chat(&session);
    let sent = Instant::now();
    for channel in [&session, &chat] {
        let result = client.request("subscribe", json!({"channel": channel})).await?;
        let state = result
            .pointer("/snapshot/state")
            .with_context(|| format!("no snapshot of {channel}"))?;
        if channel == &chat && state.get("turns").and_then(Value::as_array).map_or(0, Vec::len) != TURNS {
            bail!("{chat} came without its turns: {state}");
        }
    }
    let time = nanos(sent.elapsed());
    for channel in [&session, &chat] {
        client.notify("unsubscribe", json!({"channel": channel})).await?;
    }
    client.forget_unread();
    Ok(time)
}
