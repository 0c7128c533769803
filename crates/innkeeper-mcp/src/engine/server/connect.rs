//! From a configuration to a connection with a server that has introduced itself.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::actor::ProcessSlot;
use super::calls::Calls;
use super::connection::{Connection, Failed, why_ended};
use super::follow::{follow, listen};
use super::handshake::{ClientInfo, Handshake, HandshakeFailure, Patience, introduce};
use super::peer::OurEnd;
use super::presence::look_after;
use super::{Far, Shared};
use crate::engine::config::{Limits, Stdio, Transport};
use crate::engine::error::Error;
use crate::engine::state::{List, ServerInfo};
use crate::engine::tools::{self, Tool};
use crate::engine::wire::{
    Challenged, HttpFailure, InboundRequests, Inbox, Peer, Process, Received, RequestFailure, STATELESS_REVISION,
    SseTransport, StdioTransport, StreamableHttp, Transport as Wire,
};

/// How long the output of a process is read after it has ended: what it left running keeps the pipe
/// open.
const DRAIN_TIME: Duration = Duration::from_millis(300);
/// The most that a server has to say whether it can be discovered, and which part of the time for its start.
const DISCOVERY_TIME: Duration = Duration::from_secs(3);
const DISCOVERY_PART: u32 = 3;
/// How long the end of a connection may take.
const CLOSE_TIME: Duration = Duration::from_secs(3);
/// What a server answers to a method that it does not have.
const NO_SUCH_METHOD: i64 = -32601;
/// One of each list, and some more that are told already.
const CHANGES: usize = 8;

/// A server that is ready.
pub(super) struct Connected {
    pub(super) connection: Arc<Connection>,
    pub(super) tools: Arc<[Tool]>,
    pub(super) is_old: bool,
    served: JoinHandle<()>,
}

impl Connected {
    /// Closes the connection.
    pub(super) async fn end(self) {
        self.connection.closed.cancel();
        let peer = &self.connection.peer;
        let ending = async { tokio::join!(self.served, peer.end_session()) };
        let _ = tokio::time::timeout(CLOSE_TIME, ending).await;
    }
}

/// Why there is no connection.
pub(super) enum ConnectFailure {
    SignInNeeded(Box<Challenged>),
    /// It did not take the handshake. `was_late` says that it may be a newer server that is slow to be discovered.
    Refused {
        message: String,
        was_late: bool,
    },
    /// It may work another time.
    Crashed(String),
    /// It has not answered yet: on a machine with much to do, it may be in time another time.
    Late(String),
    /// It will not work another time either.
    Failed(String),
}

/// Starts a server and waits until it has introduced itself and told its tools.
pub(super) async fn connect(
    shared: &Arc<Shared>,
    is_old: bool,
    slot: &ProcessSlot,
) -> Result<Connected, ConnectFailure> {
    let start_time = shared.config.limits.start_time;
    if is_old {
        return connect_once(shared, Handshake::Older, slot).await;
    }
    let patience = Patience {
        first: DISCOVERY_TIME.min(start_time / DISCOVERY_PART),
        late: start_time / DISCOVERY_PART,
    };
    match connect_once(shared, Handshake::Either(patience), slot).await {
        // Discovery was not answered in time, and the server does not take the older handshake.
        Err(ConnectFailure::Refused { was_late: true, .. }) => connect_once(shared, Handshake::Newer, slot).await,
        // A server that is confused by discovery gets the older handshake alone.
        Err(ConnectFailure::Refused { .. }) => connect_once(shared, Handshake::Older, slot).await,
        connected => connected,
    }
}

/// A connection with a server that has introduced itself.
struct Opened {
    peer: Arc<Peer>,
    our_end: OurEnd,
    info: ServerInfo,
    served: JoinHandle<()>,
}

async fn connect_once(
    shared: &Arc<Shared>,
    handshake: Handshake,
    slot: &ProcessSlot,
) -> Result<Connected, ConnectFailure> {
    if let Some(permit) = &shared.surroundings.permit {
        permit.check().await.map_err(ConnectFailure::Failed)?;
    }
    let limits = &shared.config.limits;
    let (changes, changed) = mpsc::channel(CHANGES);
    let opened = tokio::time::timeout(limits.start_time, open(shared, handshake, slot, &changes)).await;
    let process = slot.lock().clone();
    let Ok(opened) = opened else {
        return Err(ConnectFailure::Late(never_answered(shared, process.as_deref())));
    };
    let Opened {
        peer,
        our_end,
        info,
        served,
    } = opened?;
    let is_old = info.protocol_version.as_str() < STATELESS_REVISION;
    let far = shared.remote.as_ref();
    let connection = Arc::new(Connection {
        server: shared.config.name.clone(),
        info,
        peer,
        closed: our_end.closed.clone(),
        calls: our_end.calls.clone(),
        process,
        scrubber: shared.scrubber.clone(),
        doubts: far.map(|far| far.client.doubts().clone()).unwrap_or_default(),
        gone: OnceLock::new(),
    });
    // Whoever gives up waiting here closes what was opened.
    let unfinished = connection.closed.clone().drop_guard();
    let tools = list_tools(&connection, limits).await?;
    unfinished.disarm();
    if !is_old {
        tokio::spawn(listen(connection.clone(), our_end.clone()));
    }
    tokio::spawn(follow(shared.clone(), connection.clone(), changed));
    if shared.remote.is_some() {
        tokio::spawn(look_after(shared.clone(), connection.clone(), our_end));
    }
    Ok(Connected {
        connection,
        tools: tools.into(),
        is_old,
        served,
    })
}

async fn list_tools(connection: &Connection, limits: &Limits) -> Result<Vec<Tool>, ConnectFailure> {
    match tools::list(connection, limits, limits.start_time).await {
        Ok(tools) => Ok(tools),
        Err(Failed::Challenged(challenged)) => Err(ConnectFailure::SignInNeeded(challenged)),
        Err(Failed::Final(error)) if connection.closed.is_cancelled() => {
            Err(ConnectFailure::Crashed(error.to_string()))
        }
        // It has none, whatever it said.
        Err(Failed::Final(Error::Refused {
            code: NO_SUCH_METHOD, ..
        })) => Ok(Vec::new()),
        // Without its tools it would be ready for nothing, and nobody would know.
        Err(Failed::Final(error)) => Err(ConnectFailure::Crashed(without_tools(limits, &error))),
    }
}

/// Opens a connection and has the server introduce itself.
async fn open(
    shared: &Shared,
    handshake: Handshake,
    slot: &ProcessSlot,
    changes: &mpsc::Sender<List>,
) -> Result<Opened, ConnectFailure> {
    match (&shared.config.transport, &shared.remote) {
        (Transport::Stdio(stdio), _) => {
            let (our_end, inbox, receiver) = our_end(shared, changes);
            let (transport, process) = start_process(shared, stdio, slot, inbox, our_end.closed.clone())?;
            match begin(Wire::Stdio(transport), our_end, receiver, handshake).await {
                Ok(opened) => Ok(opened),
                Err(failure) => Err(explain_process(shared, &process, failure).await),
            }
        }
        (Transport::Http(_), Some(far)) => {
            let (our_end, inbox, receiver) = our_end(shared, changes);
            let transport = StreamableHttp::new(far.client.clone(), far.url.clone(), inbox, &our_end.closed);
            match begin(Wire::Http(transport), our_end, receiver, handshake).await {
                Ok(opened) => Ok(opened),
                Err(failure) if may_be_older(&failure) => match open_sse(shared, far, changes).await {
                    Ok(opened) => Ok(opened),
                    Err(_) => Err(explain_http(far, failure)),
                },
                Err(failure) => Err(explain_http(far, failure)),
            }
        }
        (Transport::Sse(_), Some(far)) => open_sse(shared, far, changes).await,
        (Transport::Http(_) | Transport::Sse(_), None) => Err(ConnectFailure::Failed("it has no address".to_owned())),
    }
}

async fn open_sse(shared: &Shared, far: &Far, changes: &mpsc::Sender<List>) -> Result<Opened, ConnectFailure> {
    let (our_end, inbox, receiver) = our_end(shared, changes);
    let unfinished = our_end.closed.clone().drop_guard();
    let transport = SseTransport::open(far.client.clone(), &far.url, inbox, our_end.closed.clone()).await;
    let transport = transport.map_err(|failure| explain_failure(far, &failure))?;
    unfinished.disarm();
    // That transport is older than discovery.
    let opened = begin(Wire::Sse(transport), our_end, receiver, Handshake::Older).await;
    opened.map_err(|failure| explain_http(far, failure))
}

/// The client's end of a connection that is about to be opened, and the way messages of the server take to it.
fn our_end(shared: &Shared, changes: &mpsc::Sender<List>) -> (OurEnd, Inbox, mpsc::Receiver<Received>) {
    let requests = Arc::new(InboundRequests::default());
    let credentials = shared.remote.as_ref().map(|far| far.credentials.clone());
    let (inbox, receiver) = Inbox::new(requests.clone(), credentials);
    let our_end = OurEnd {
        offer: shared.surroundings.offer,
        asker: shared.asker.clone(),
        calls: Calls::default(),
        events: shared.events.clone(),
        changes: changes.clone(),
        log: shared.log(),
        requests,
        acknowledged: watch::Sender::default(),
        closed: CancellationToken::new(),
    };
    (our_end, inbox, receiver)
}

async fn begin(
    transport: Wire,
    our_end: OurEnd,
    receiver: mpsc::Receiver<Received>,
    handshake: Handshake,
) -> Result<Opened, HandshakeFailure> {
    // Whoever gives up waiting here closes what was opened.
    let unfinished = our_end.closed.clone().drop_guard();
    let peer = Peer::new(transport);
    let served = tokio::spawn(our_end.clone().serve(peer.clone(), receiver));
    let client = ClientInfo {
        capabilities: our_end.capabilities(),
    };
    let info = introduce(&peer, &client, handshake).await?;
    unfinished.disarm();
    Ok(Opened {
        peer,
        our_end,
        info,
        served,
    })
}

/// Whether a server at an address may be one that speaks only the HTTP with events of 2024-11-05: what it answers
/// then, MCP says.
fn may_be_older(failure: &HandshakeFailure) -> bool {
    matches!(
        failure,
        HandshakeFailure::Failed(RequestFailure::Http(HttpFailure::Status {
            status: 400 | 404 | 405,
            ..
        }))
    )
}

fn start_process(
    shared: &Shared,
    stdio: &Stdio,
    slot: &ProcessSlot,
    inbox: Inbox,
    closed: CancellationToken,
) -> Result<(StdioTransport, Arc<Process>), ConnectFailure> {
    let limits = &shared.config.limits;
    let started = Process::start(stdio, &shared.surroundings.environment, limits, shared.log());
    let (process, pipes) = started.map_err(|error| {
        tracing::warn!(server = %shared.config.name, command = %stdio.command, %error, "an MCP server cannot be started");
        ConnectFailure::Failed(error.to_string())
    })?;
    let process = Arc::new(process);
    *slot.lock() = Some(process.clone());
    let transport = StdioTransport::new(pipes, process.tail(), limits.message_bytes, inbox, closed.clone());
    tokio::spawn({
        let process = process.clone();
        async move {
            tokio::select! {
                _ = process.ended() => tokio::time::sleep(DRAIN_TIME).await,
                () = closed.cancelled() => {}
            }
            closed.cancel();
        }
    });
    Ok((transport, process))
}

async fn explain_process(shared: &Shared, process: &Process, failure: HandshakeFailure) -> ConnectFailure {
    match failure {
        HandshakeFailure::Failed(_) => {
            let why = why_ended(process, &shared.scrubber).await;
            ConnectFailure::Crashed(format!("the server ended while it started: {why}"))
        }
        HandshakeFailure::Refused { message, was_late } => ConnectFailure::Refused { message, was_late },
    }
}

fn explain_http(far: &Far, failure: HandshakeFailure) -> ConnectFailure {
    match failure {
        HandshakeFailure::Failed(RequestFailure::Http(failure)) => explain_failure(far, &failure),
        HandshakeFailure::Failed(_) => {
            ConnectFailure::Crashed("the connection to the server broke while it was made".to_owned())
        }
        HandshakeFailure::Refused { message, was_late } => ConnectFailure::Refused { message, was_late },
    }
}

fn explain_failure(far: &Far, failure: &HttpFailure) -> ConnectFailure {
    match failure {
        HttpFailure::Challenged(challenged) => ConnectFailure::SignInNeeded(challenged.clone()),
        // It is in trouble, or has too much to do: later it may not be.
        HttpFailure::Connection(_)
        | HttpFailure::Status {
            status: 408 | 425 | 429 | 500..,
            ..
        } => ConnectFailure::Crashed(not_reached(far, failure)),
        other => ConnectFailure::Failed(format!("the server cannot be used: {other}")),
    }
}

/// For everybody who watches: a server behind an address is not there. The path of an address may be a key, so that
/// only the log has it.
pub(super) fn not_reached(far: &Far, failure: &HttpFailure) -> String {
    let address = crate::engine::secret::without_secrets(far.url.as_str());
    tracing::info!(address, %failure, "an MCP server cannot be reached");
    let host = crate::engine::secret::scheme_and_host(far.url.as_str());
    format!("the server at {host} cannot be reached: {failure}")
}

/// For people: a server that says that it has tools does not say which.
fn without_tools(limits: &Limits, error: &Error) -> String {
    match error {
        Error::TimeOver { .. } => format!(
            "the server did not tell its tools within {} s: give servers more time to start",
            limits.start_time.as_secs_f32()
        ),
        other => format!("the server does not tell its tools: {other}"),
    }
}

fn never_answered(shared: &Shared, process: Option<&Process>) -> String {
    let seconds = shared.config.limits.start_time.as_secs_f32();
    let last = process.map(Process::last_lines).unwrap_or_default();
    let message = format!(
        "the server did not introduce itself within {seconds} s: check that it is an MCP server, or give servers more \
         time to start"
    );
    if last.is_empty() {
        message
    } else {
        format!("{message}. It last wrote:\n{last}")
    }
}
