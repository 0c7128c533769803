//! From a configuration to a connection with a server that has introduced itself.

use std::sync::{Arc, OnceLock, PoisonError};
use std::time::Duration;

use rmcp::model::{ProtocolVersion, ServerPeerInfo};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, ClientServiceExt as _, RoleClient, RunningService,
    RunningServiceCancellationToken,
};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::actor::ProcessSlot;
use super::calls::Calls;
use super::connection::{Connection, http_failure, why_ended};
use super::follow::{follow, listen};
use super::peer::OurEnd;
use super::presence::look_after;
use super::{Far, Shared};
use crate::config::{Stdio, Transport};
use crate::icons;
use crate::state::ServerInfo;
use crate::tools::{self, Tool};
use crate::wire::{Challenged, HttpFailure, Messages, Notices, Process, SseTransport, StdioTransport, StreamableHttp};

/// How long the output of a process is read after it has ended: what it left running keeps the pipe
/// open.
const DRAIN_TIME: Duration = Duration::from_millis(300);
/// How long rmcp may take to close a connection.
const CLOSE_TIME: Duration = Duration::from_secs(3);
/// How many requests go over HTTP at once.
const REQUESTS_AT_ONCE: usize = 64;
/// One of each list, and some more that are told already.
const CHANGES: usize = 8;

/// A server that is ready.
pub(super) struct Connected {
    pub(super) connection: Arc<Connection>,
    pub(super) tools: Arc<[Tool]>,
    pub(super) is_old: bool,
    cancel: RunningServiceCancellationToken,
    served: JoinHandle<()>,
}

impl Connected {
    /// Closes the connection.
    pub(super) async fn end(self) {
        self.connection.closed.cancel();
        self.cancel.cancel();
        let _ = tokio::time::timeout(CLOSE_TIME, self.served).await;
    }
}

/// Why there is no connection.
pub(super) enum ConnectFailure {
    SignInNeeded(Box<Challenged>),
    /// It did not take the handshake.
    Refused(String),
    /// It may work another time.
    Crashed(String),
    /// It will not work another time either.
    Failed(String),
}

type Running = RunningService<RoleClient, OurEnd>;

/// Starts a server and waits until it has introduced itself and told its tools.
pub(super) async fn connect(
    shared: &Arc<Shared>,
    is_old: bool,
    slot: &ProcessSlot,
) -> Result<Connected, ConnectFailure> {
    match connect_once(shared, is_old, slot).await {
        // Older servers do not always say that they are: some answer whatever they do not know.
        Err(ConnectFailure::Refused(_)) if !is_old => connect_once(shared, true, slot).await,
        connected => connected,
    }
}

async fn connect_once(shared: &Arc<Shared>, is_old: bool, slot: &ProcessSlot) -> Result<Connected, ConnectFailure> {
    if let Some(permit) = &shared.surroundings.permit {
        permit.check().await.map_err(ConnectFailure::Failed)?;
    }
    let limits = &shared.config.limits;
    let closed = CancellationToken::new();
    let (changes, changed) = mpsc::channel(CHANGES);
    let our_end = OurEnd {
        offer: shared.surroundings.offer,
        asker: shared.asker.clone(),
        calls: Calls::default(),
        events: shared.events.clone(),
        changes,
        log: shared.log(),
        closed: closed.clone(),
    };
    let introducing = introduce(shared, our_end.clone(), is_old, slot, closed.clone());
    let introduced = tokio::time::timeout(limits.start_time, introducing).await;
    let process = slot.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let running = match introduced {
        Ok(running) => running?,
        Err(_) => {
            closed.cancel();
            return Err(ConnectFailure::Failed(never_answered(shared, process.as_deref())));
        }
    };
    let peer = running.peer().clone();
    let (info, is_old) = read_info(peer.peer_info().as_deref());
    let cancel = running.cancellation_token();
    let served = tokio::spawn({
        let closed = closed.clone();
        async move {
            // However it ends, the connection has ended.
            let _ = running.waiting().await;
            closed.cancel();
        }
    });
    let far = shared.remote.as_ref();
    let connection = Arc::new(Connection {
        server: shared.config.name.clone(),
        info,
        peer,
        closed,
        calls: our_end.calls.clone(),
        process,
        scrubber: shared.scrubber.clone(),
        doubts: far.map(|far| far.client.doubts().clone()).unwrap_or_default(),
        gone: OnceLock::new(),
    });
    // Whoever gives up waiting here closes what was opened.
    let unfinished = connection.closed.clone().drop_guard();
    let tools = match tools::list(&connection, limits).await {
        Ok(tools) => tools,
        Err(super::connection::Failed::Challenged(challenged)) => {
            return Err(ConnectFailure::SignInNeeded(challenged));
        }
        Err(super::connection::Failed::Final(error)) if connection.closed.is_cancelled() => {
            return Err(ConnectFailure::Crashed(error.to_string()));
        }
        Err(super::connection::Failed::Final(error)) => {
            // A careless server says the token again (OTL-07).
            let error = shared.scrub(&error.to_string());
            tracing::warn!(server = %shared.config.name, error, "an MCP server does not list its tools");
            Vec::new()
        }
    };
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
        cancel,
        served,
    })
}

async fn introduce(
    shared: &Shared,
    our_end: OurEnd,
    is_old: bool,
    slot: &ProcessSlot,
    closed: CancellationToken,
) -> Result<Running, ConnectFailure> {
    let mode = lifecycle(is_old);
    let noticing = our_end.clone();
    let credentials = shared.remote.as_ref().map(|far| far.credentials.clone());
    let notices = Notices::new(move |notification| noticing.notice(notification));
    let messages = Messages::new(notices, credentials);
    match (&shared.config.transport, &shared.remote) {
        (Transport::Stdio(stdio), _) => {
            let (transport, process) = start_process(shared, stdio, slot, messages, closed)?;
            let running = our_end.serve_with_lifecycle(transport, mode).await;
            match running {
                Ok(running) => Ok(running),
                Err(error) => Err(explain_process(shared, &process, &error).await),
            }
        }
        (Transport::Http(_), Some(far)) => {
            let mut config = StreamableHttpClientTransportConfig::with_uri(far.url.as_str())
                .max_concurrent_requests(REQUESTS_AT_ONCE)
                .reinit_on_expired_session(true);
            config.allow_stateless = true;
            config.max_sse_event_size = shared.config.limits.message_bytes;
            let transport =
                StreamableHttpClientTransport::with_client(StreamableHttp::new(far.client.clone(), messages), config);
            let running = our_end.serve_with_lifecycle(transport, mode).await;
            running.map_err(|error| explain_http(far, &error))
        }
        (Transport::Sse(_), Some(far)) => {
            let transport = SseTransport::open(far.client.clone(), &far.url, messages, closed).await;
            let transport = transport.map_err(|failure| explain_failure(far, &failure))?;
            // That transport is older than any discovery.
            let running = our_end.serve_with_lifecycle(transport, lifecycle(true)).await;
            running.map_err(|error| explain_http(far, &error))
        }
        (Transport::Http(_) | Transport::Sse(_), None) => Err(ConnectFailure::Failed("it has no address".to_owned())),
    }
}

/// Servers since 2026-07-28 are discovered, older ones initialized. Which one it is, is found out
/// once.
fn lifecycle(is_old: bool) -> ClientLifecycleMode {
    if is_old {
        return ClientLifecycleMode::Initialize;
    }
    ClientLifecycleMode::Auto {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
    }
}

fn start_process(
    shared: &Shared,
    stdio: &Stdio,
    slot: &ProcessSlot,
    messages: Messages,
    closed: CancellationToken,
) -> Result<(StdioTransport, Arc<Process>), ConnectFailure> {
    let limits = &shared.config.limits;
    let started = Process::start(stdio, &shared.surroundings.environment, limits, shared.log());
    let (process, pipes) = started.map_err(|error| ConnectFailure::Failed(error.to_string()))?;
    let process = Arc::new(process);
    *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(process.clone());
    let transport = StdioTransport::new(pipes, process.tail(), limits.message_bytes, messages, closed.clone());
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

fn read_info(info: Option<&ServerPeerInfo>) -> (ServerInfo, bool) {
    let Some(info) = info else {
        return (ServerInfo::default(), true);
    };
    let server = info.server_info.as_ref();
    let read = ServerInfo {
        name: server.map(|server| server.name.clone()),
        title: server.and_then(|server| server.title.clone()),
        version: server.map(|server| server.version.clone()),
        instructions: info.instructions.clone(),
        protocol_version: info.protocol_version.to_string(),
        capabilities: serde_json::to_value(&info.capabilities).unwrap_or(Value::Null),
        icons: icons::read(server.and_then(|server| server.icons.as_deref()).unwrap_or_default()),
    };
    (read, info.protocol_version.has_initialize())
}

async fn explain_process(shared: &Shared, process: &Process, error: &ClientInitializeError) -> ConnectFailure {
    match innermost(error) {
        ClientInitializeError::ConnectionClosed(_) | ClientInitializeError::TransportError { .. } => {
            let why = why_ended(process, &shared.scrubber).await;
            ConnectFailure::Crashed(format!("the server ended while it started: {why}"))
        }
        other => ConnectFailure::Refused(refused(other)),
    }
}

fn explain_http(far: &Far, error: &ClientInitializeError) -> ConnectFailure {
    match innermost(error) {
        ClientInitializeError::TransportError { error, .. } => match http_failure(error) {
            Some(failure) => explain_failure(far, failure),
            None => ConnectFailure::Crashed(format!("the server cannot be reached: {}", error.error)),
        },
        ClientInitializeError::ConnectionClosed(_) => {
            ConnectFailure::Crashed("the connection to the server broke while it was made".to_owned())
        }
        other => ConnectFailure::Refused(refused(other)),
    }
}

fn explain_failure(far: &Far, failure: &HttpFailure) -> ConnectFailure {
    match failure {
        HttpFailure::Challenged(challenged) => ConnectFailure::SignInNeeded(challenged.clone()),
        HttpFailure::Connection(_) | HttpFailure::Status { status: 500.., .. } => {
            ConnectFailure::Crashed(not_reached(far, failure))
        }
        other => ConnectFailure::Failed(format!("the server cannot be used: {other}")),
    }
}

/// For people: a server behind an address is not there.
pub(super) fn not_reached(far: &Far, failure: &HttpFailure) -> String {
    let address = crate::secret::without_secrets(far.url.as_str());
    format!("the server at {address} cannot be reached: {failure}")
}

/// What the older handshake says counts, when both were tried.
fn innermost(error: &ClientInitializeError) -> &ClientInitializeError {
    match error {
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => innermost(fallback),
        other => other,
    }
}

fn refused(error: &ClientInitializeError) -> String {
    match error {
        ClientInitializeError::JsonRpcError(error) => format!("the server refused to start: {}", error.message),
        ClientInitializeError::NoCompatibleProtocolVersion { server_supported, .. } => {
            let versions: Vec<_> = server_supported.iter().map(ToString::to_string).collect();
            format!(
                "the server speaks only versions of MCP that are not known here: {}",
                versions.join(", ")
            )
        }
        _ => "the server did not introduce itself as MCP says".to_owned(),
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
