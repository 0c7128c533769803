//! Opens a connection with a server and has it introduce itself.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::actor::ProcessSlot;
use super::calls::Calls;
use super::client_handler::ClientHandler;
use super::connection::{AttemptFailure, Connection, why_ended};
use super::follow::{follow, listen};
use super::handshake::{ClientInfo, DiscoveryTimeouts, Handshake, HandshakeFailure, introduce};
use super::presence::watch_presence;
use super::{RemoteServer, ServerShared};
use crate::engine::config::{Limits, Stdio, Transport};
use crate::engine::error::Error;
use crate::engine::state::{List, ServerInfo};
use crate::engine::tools::{self, Tool};
use crate::engine::wire::{
    Challenged, HttpFailure, InboundRequests, Inbox, Peer, Process, Received, RequestFailure, STATELESS_REVISION,
    SseTransport, StdioTransport, StreamableHttp, Transport as Wire,
};

/// The time that the output of an ended process is read: processes that it left running keep the pipe open.
const DRAIN_TIME: Duration = Duration::from_millis(300);
/// The longest time for discovery before the older handshake is tried, and its share of the start time.
const DISCOVERY_TIME: Duration = Duration::from_secs(3);
const DISCOVERY_PART: u32 = 3;
/// The time that the end of a connection may take.
const CLOSE_TIME: Duration = Duration::from_secs(3);
/// The JSON-RPC code for unknown methods.
const NO_SUCH_METHOD: i64 = -32601;
/// One change of each list, and some more that change nothing.
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
    /// The server refused the handshake. `was_late` says that it may be a newer server that is slow to be discovered.
    Refused {
        message: String,
        was_late: bool,
    },
    /// Another try may succeed.
    Crashed(String),
    /// The server has not answered in time. On a busy machine another try may succeed.
    Late(String),
    /// Another try would fail as well.
    Failed(String),
}

/// Starts a server and waits until it has introduced itself and listed its tools.
pub(super) async fn connect(
    shared: &Arc<ServerShared>,
    is_old: bool,
    slot: &ProcessSlot,
) -> Result<Connected, ConnectFailure> {
    let start_time = shared.config.limits.start_time;
    if is_old {
        return connect_once(shared, Handshake::Older, slot).await;
    }
    let timeouts = DiscoveryTimeouts {
        first: DISCOVERY_TIME.min(start_time / DISCOVERY_PART),
        late: start_time / DISCOVERY_PART,
    };
    match connect_once(shared, Handshake::Either(timeouts), slot).await {
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
    handler: ClientHandler,
    info: ServerInfo,
    served: JoinHandle<()>,
}

async fn connect_once(
    shared: &Arc<ServerShared>,
    handshake: Handshake,
    slot: &ProcessSlot,
) -> Result<Connected, ConnectFailure> {
    if let Some(permit) = &shared.server_env.permit {
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
        handler,
        info,
        served,
    } = opened?;
    let is_old = info.protocol_version.as_str() < STATELESS_REVISION;
    let remote = shared.remote.as_ref();
    let connection = Arc::new(Connection {
        server: shared.config.name.clone(),
        info,
        peer,
        closed: handler.closed.clone(),
        calls: handler.calls.clone(),
        process,
        scrubber: shared.scrubber.clone(),
        presence_doubts: remote
            .map(|remote| remote.client.presence_doubts().clone())
            .unwrap_or_default(),
        gone: OnceLock::new(),
    });
    // If the start is given up here, the connection is closed.
    let unfinished = connection.closed.clone().drop_guard();
    let tools = list_tools(&connection, limits).await?;
    unfinished.disarm();
    if !is_old {
        tokio::spawn(listen(connection.clone(), handler.clone()));
    }
    tokio::spawn(follow(shared.clone(), connection.clone(), changed));
    if shared.remote.is_some() {
        tokio::spawn(watch_presence(shared.clone(), connection.clone(), handler));
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
        Err(AttemptFailure::Challenged(challenged)) => Err(ConnectFailure::SignInNeeded(challenged)),
        Err(AttemptFailure::Final(error)) if connection.closed.is_cancelled() => {
            Err(ConnectFailure::Crashed(error.to_string()))
        }
        // It has no tools, although it said so.
        Err(AttemptFailure::Final(Error::Refused {
            code: NO_SUCH_METHOD, ..
        })) => Ok(Vec::new()),
        // A server without its tools would be ready for nothing, without a visible error.
        Err(AttemptFailure::Final(error)) => Err(ConnectFailure::Crashed(without_tools(limits, &error))),
    }
}

/// Opens a connection and has the server introduce itself.
async fn open(
    shared: &ServerShared,
    handshake: Handshake,
    slot: &ProcessSlot,
    changes: &mpsc::Sender<List>,
) -> Result<Opened, ConnectFailure> {
    match (&shared.config.transport, &shared.remote) {
        (Transport::Stdio(stdio), _) => {
            let (handler, inbox, receiver) = new_handler(shared, changes);
            let (transport, process) = start_process(shared, stdio, slot, inbox, handler.closed.clone())?;
            match begin(Wire::Stdio(transport), handler, receiver, handshake).await {
                Ok(opened) => Ok(opened),
                Err(failure) => Err(explain_process(shared, &process, failure).await),
            }
        }
        (Transport::Http(_), Some(remote)) => {
            let (handler, inbox, receiver) = new_handler(shared, changes);
            let transport = StreamableHttp::new(remote.client.clone(), remote.url.clone(), inbox, &handler.closed);
            match begin(Wire::Http(Box::new(transport)), handler, receiver, handshake).await {
                Ok(opened) => Ok(opened),
                Err(failure) if may_be_older(&failure) => match open_sse(shared, remote, changes).await {
                    Ok(opened) => Ok(opened),
                    Err(_) => Err(explain_http(remote, failure)),
                },
                Err(failure) => Err(explain_http(remote, failure)),
            }
        }
        (Transport::Sse(_), Some(remote)) => open_sse(shared, remote, changes).await,
        (Transport::Http(_) | Transport::Sse(_), None) => Err(ConnectFailure::Failed("it has no address".to_owned())),
    }
}

async fn open_sse(
    shared: &ServerShared,
    remote: &RemoteServer,
    changes: &mpsc::Sender<List>,
) -> Result<Opened, ConnectFailure> {
    let (handler, inbox, receiver) = new_handler(shared, changes);
    let unfinished = handler.closed.clone().drop_guard();
    let transport = SseTransport::open(remote.client.clone(), &remote.url, inbox, handler.closed.clone()).await;
    let transport = transport.map_err(|failure| explain_failure(remote, &failure))?;
    unfinished.disarm();
    // That transport is older than discovery.
    let opened = begin(Wire::Sse(Box::new(transport)), handler, receiver, Handshake::Older).await;
    opened.map_err(|failure| explain_http(remote, failure))
}

/// Returns the handler of a connection that is about to be opened, and the channel to it.
fn new_handler(
    shared: &ServerShared,
    changes: &mpsc::Sender<List>,
) -> (ClientHandler, Inbox, mpsc::Receiver<Received>) {
    let requests = Arc::new(InboundRequests::default());
    let credentials = shared.remote.as_ref().map(|remote| remote.credentials.clone());
    let (inbox, receiver) = Inbox::new(requests.clone(), credentials);
    let handler = ClientHandler {
        offer: shared.server_env.offer,
        asker: shared.asker.clone(),
        calls: Calls::default(),
        events: shared.events.clone(),
        changes: changes.clone(),
        log: shared.log(),
        requests,
        acknowledged: watch::Sender::default(),
        closed: CancellationToken::new(),
    };
    (handler, inbox, receiver)
}

async fn begin(
    transport: Wire,
    handler: ClientHandler,
    receiver: mpsc::Receiver<Received>,
    handshake: Handshake,
) -> Result<Opened, HandshakeFailure> {
    // If the start is given up here, the connection is closed.
    let unfinished = handler.closed.clone().drop_guard();
    let peer = Peer::new(transport);
    let served = tokio::spawn(handler.clone().serve(peer.clone(), receiver));
    let client = ClientInfo {
        capabilities: handler.capabilities(),
    };
    let info = introduce(&peer, &client, handshake).await?;
    unfinished.disarm();
    Ok(Opened {
        peer,
        handler,
        info,
        served,
    })
}

/// Returns true if a server at an address may speak only the HTTP transport of 2024-11-05. MCP names these statuses.
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
    shared: &ServerShared,
    stdio: &Stdio,
    slot: &ProcessSlot,
    inbox: Inbox,
    closed: CancellationToken,
) -> Result<(StdioTransport, Arc<Process>), ConnectFailure> {
    let limits = &shared.config.limits;
    let started = Process::start(stdio, &shared.server_env.environment, limits, shared.log());
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

async fn explain_process(shared: &ServerShared, process: &Process, failure: HandshakeFailure) -> ConnectFailure {
    match failure {
        HandshakeFailure::Failed(_) => {
            let why = why_ended(process, &shared.scrubber).await;
            ConnectFailure::Crashed(format!("the server ended while it started: {why}"))
        }
        HandshakeFailure::Refused { message, was_late } => ConnectFailure::Refused { message, was_late },
    }
}

fn explain_http(remote: &RemoteServer, failure: HandshakeFailure) -> ConnectFailure {
    match failure {
        HandshakeFailure::Failed(RequestFailure::Http(failure)) => explain_failure(remote, &failure),
        HandshakeFailure::Failed(_) => {
            ConnectFailure::Crashed("the connection to the server broke while it was made".to_owned())
        }
        HandshakeFailure::Refused { message, was_late } => ConnectFailure::Refused { message, was_late },
    }
}

fn explain_failure(remote: &RemoteServer, failure: &HttpFailure) -> ConnectFailure {
    match failure {
        HttpFailure::Challenged(challenged) => ConnectFailure::SignInNeeded(challenged.clone()),
        // The server has a problem that may pass.
        HttpFailure::Connection(_)
        | HttpFailure::Status {
            status: 408 | 425 | 429 | 500..,
            ..
        } => ConnectFailure::Crashed(not_reached(remote, failure)),
        other => ConnectFailure::Failed(format!("the server cannot be used: {other}")),
    }
}

/// Describes an unreachable address for every subscriber. Its path may contain a key, so only the log has it.
pub(super) fn not_reached(remote: &RemoteServer, failure: &HttpFailure) -> String {
    let address = crate::engine::secret::without_secrets(remote.url.as_str());
    tracing::info!(address, %failure, "an MCP server cannot be reached");
    let host = crate::engine::secret::scheme_and_host(remote.url.as_str());
    format!("the server at {host} cannot be reached: {failure}")
}

/// Describes a server that has the capability `tools` and does not list them.
fn without_tools(limits: &Limits, error: &Error) -> String {
    match error {
        Error::TimeOver { .. } => format!(
            "the server did not tell its tools within {} s: give servers more time to start",
            limits.start_time.as_secs_f32()
        ),
        other => format!("the server does not tell its tools: {other}"),
    }
}

fn never_answered(shared: &ServerShared, process: Option<&Process>) -> String {
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
