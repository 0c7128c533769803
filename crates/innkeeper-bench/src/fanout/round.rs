//! One round of `fanout`: one fresh server, all clients, one warm-up turn and one measured turn.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use tokio::task::JoinSet;

use crate::{
    client::delivery::{Delivered, Stamping, StreamPlan, receive_turn},
    client::delta_scan::DeltaFrame,
    client::host_session,
    client::websocket::Connection,
    fanout::raw_broadcaster::Broadcast,
    server::process::ServerProcess,
    server::usage,
};

/// The server of a round.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Target<'run> {
    /// The host, from this binary.
    Host(&'run Path),
    /// The raw broadcaster, which sends frames of this shape.
    Raw(&'run DeltaFrame),
}

/// The load that every round of a run has in common.
#[derive(Debug, Clone)]
pub(crate) struct Load {
    /// How many clients receive.
    pub(crate) clients: usize,
    /// The `maxLatencyMs` that clients of the host ask for.
    pub(crate) max_latency_ms: u64,
    /// The version of the protocol that clients of the host speak, except for the first, which starts the turns.
    pub(crate) version: &'static str,
    /// The turn before the measurement.
    pub(crate) warm_up: StreamPlan,
    /// The measured turn.
    pub(crate) measured: StreamPlan,
}

/// The measurements of one round.
pub(crate) struct RoundOutcome {
    /// The turn as each client received it.
    pub(crate) delivered: Vec<Delivered>,
    /// CPU time of the server during the turn.
    pub(crate) server_cpu: Duration,
    /// CPU time of this process during the turn.
    pub(crate) client_cpu: Duration,
    /// Wall time of the turn, from the request for it until every client had it.
    pub(crate) elapsed: Duration,
    /// The server's memory at its highest.
    pub(crate) peak_resident_bytes: u64,
}

/// Runs one round.
pub(crate) async fn run(target: Target<'_>, load: &Load) -> Result<RoundOutcome> {
    let mut server = start(target, load).await?;
    match measure(&mut server, target, load).await {
        Ok(outcome) => {
            server.stop().await?;
            Ok(outcome)
        }
        Err(error) => Err(server.explain(error)),
    }
}

/// Where turns come from.
enum Source<'run> {
    /// The tour agent behind this chat of the host.
    Chat(String),
    /// The raw broadcaster with the shape of its frames.
    Frames(&'run DeltaFrame),
}

async fn start(target: Target<'_>, load: &Load) -> Result<ServerProcess> {
    match target {
        Target::Host(binary) => {
            let environment: &[_] = match load.measured.stamping {
                Stamping::Stamped => &[("INNKEEPER_TOUR_STAMP", "1")],
                Stamping::Plain => &[],
            };
            ServerProcess::start_host(binary, environment).await
        }
        Target::Raw(_) => ServerProcess::start_raw_broadcaster().await,
    }
}

async fn measure(server: &mut ServerProcess, target: Target<'_>, load: &Load) -> Result<RoundOutcome> {
    let mut clients = Vec::with_capacity(load.clients);
    for index in 0..load.clients {
        let connection = Connection::open(&server.url).await;
        clients.push(connection.with_context(|| format!("client {index} cannot connect"))?);
    }
    let source = match target {
        Target::Host(_) => Source::Chat(join_chat(&mut clients, load).await?),
        Target::Raw(frame) => Source::Frames(frame),
    };
    let (_, clients) = stream(server, &source, clients, &load.warm_up)
        .await
        .context("in the warm-up turn")?;
    let (outcome, _) = stream(server, &source, clients, &load.measured).await?;
    Ok(outcome)
}

async fn join_chat(clients: &mut [Connection], load: &Load) -> Result<String> {
    let mut chat = String::new();
    for (index, client) in clients.iter_mut().enumerate() {
        let name = format!("bench-{index}");
        if index == 0 {
            host_session::initialize(client, &name, &[]).await?;
            host_session::create_session(client).await?;
            chat = host_session::subscribe_session(client).await?;
        } else {
            host_session::initialize_as(client, load.version, &name, &[]).await?;
        }
        let channel = match index {
            0 => &chat,
            _ => host_session::channel_of_chat(load.version, &chat),
        };
        host_session::subscribe_chat(client, channel, load.max_latency_ms).await?;
    }
    Ok(chat)
}

/// Streams one turn to all clients, each of which reads in a task of its own.
async fn stream(
    server: &mut ServerProcess,
    source: &Source<'_>,
    mut clients: Vec<Connection>,
    plan: &StreamPlan,
) -> Result<(RoundOutcome, Vec<Connection>)> {
    let server_cpu = usage::cpu_time(server.pid())?;
    let client_cpu = usage::cpu_time(std::process::id())?;
    let started = Instant::now();
    start_turn(server, source, &mut clients, plan).await?;

    let mut readers = JoinSet::new();
    for (index, mut client) in clients.into_iter().enumerate() {
        let plan = plan.clone();
        readers.spawn(async move {
            let delivered = receive_turn(&mut client, &plan).await;
            delivered
                .map(|delivered| (index, client, delivered))
                .with_context(|| format!("client {index}"))
        });
    }
    let mut finished = Vec::new();
    while let Some(reader) = readers.join_next().await {
        finished.push(reader.context("a reader task died")??);
    }
    // The first client starts turns; it has to stay the first.
    finished.sort_by_key(|(index, ..)| *index);
    let elapsed = started.elapsed();
    let (clients, delivered) = finished
        .into_iter()
        .map(|(_, client, delivered)| (client, delivered))
        .unzip();
    let outcome = RoundOutcome {
        delivered,
        elapsed,
        server_cpu: usage::cpu_time(server.pid())?.saturating_sub(server_cpu),
        client_cpu: usage::cpu_time(std::process::id())?.saturating_sub(client_cpu),
        peak_resident_bytes: usage::peak_resident_bytes(server.pid())?,
    };
    Ok((outcome, clients))
}

async fn start_turn(
    server: &mut ServerProcess,
    source: &Source<'_>,
    clients: &mut [Connection],
    plan: &StreamPlan,
) -> Result<()> {
    match source {
        Source::Chat(chat) => {
            let client = clients.first_mut().context("a run needs at least one client")?;
            host_session::start_turn(client, chat, plan).await
        }
        Source::Frames(frame) => {
            let broadcast = Broadcast::new(plan, clients.len(), frame);
            server.write_line(&serde_json::to_string(&broadcast)?).await
        }
    }
}
