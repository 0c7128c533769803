//! From a configuration to a connection with a server that has introduced itself.

use std::sync::{Arc, OnceLock};
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
use super::connection::{Connection, Failed, http_failure, why_ended};
use super::follow::{follow, listen};
use super::peer::OurEnd;
use super::presence::look_after;
use super::{Far, Shared};
use crate::config::{Limits, Stdio, Transport};
use crate::error::Error;
use crate::icons;
use crate::state::ServerInfo;
use crate::tools::{self, Tool};
use crate::wire::{
    Asked, Challenged, Discovery, Guarded, HttpFailure, Messages, Notices, Process, SseTransport, StdioTransport,
    StreamableHttp,
};

/// How long the output of a process is read after it has ended: what it left running keeps the pipe
/// open.
const DRAIN_TIME: Duration = Duration::from_millis(300);
/// The most that a server has to say whether it can be discovered, and which part of the time for its start.
const DISCOVERY_TIME: Duration = Duration::from_secs(3);
const DISCOVERY_PART: u32 = 3;
/// How long rmcp may take to close a connection.
const CLOSE_TIME: Duration = Duration::from_secs(3);
/// What a server answers to a method that it does not have.
const NO_SUCH_METHOD: i64 = -32601;
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
    /// It has not answered yet: on a machine with much to do, it may be in time another time.
    Late(String),
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
    let start_time = shared.config.limits.start_time;
    let unhurried = || Discovery::within(start_time, start_time);
    if is_old {
        return connect_once(shared, Handshake::Older, slot, &unhurried()).await;
    }
    let discovery = Discovery::within(
        DISCOVERY_TIME.min(start_time / DISCOVERY_PART),
        start_time / DISCOVERY_PART,
    );
    match connect_once(shared, Handshake::Either, slot, &discovery).await {
        // It was not waited for, and does not take the older one.
        Err(ConnectFailure::Refused(_)) if discovery.was_given_up() => {
            connect_once(shared, Handshake::Newer, slot, &unhurried()).await
        }
        // Older servers do not always say that they are: some answer whatever they do not know.
        Err(ConnectFailure::Refused(_)) => connect_once(shared, Handshake::Older, slot, &discovery).await,
        connected => connected,
    }
}

/// How a server is asked to introduce itself: those since 2026-07-28 are discovered, older ones initialized. Which one
/// it is, is found out once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Handshake {
    Either,
    Older,
    Newer,
}

impl Handshake {
    fn lifecycle(self) -> ClientLifecycleMode {
        let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
        match self {
            Self::Older => ClientLifecycleMode::Initialize,
            Self::Newer => ClientLifecycleMode::Discover { preferred_versions },
            Self::Either => ClientLifecycleMode::Auto {
                preferred_versions,
                legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
            },
        }
    }
}

async fn connect_once(
    shared: &Arc<Shared>,
    handshake: Handshake,
    slot: &ProcessSlot,
    discovery: &Arc<Discovery>,
) -> Result<Connected, ConnectFailure> {
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
        asked: Arc::new(Asked::default()),
        closed: closed.clone(),
    };
    let introducing = introduce(shared, our_end.clone(), handshake, slot, discovery);
    let introduced = tokio::time::timeout(limits.start_time, introducing).await;
    let process = slot.lock().clone();
    let running = match introduced {
        Ok(running) => running?,
        Err(_) => {
            closed.cancel();
            return Err(ConnectFailure::Late(never_answered(shared, process.as_deref())));
        }
    };
    our_end.asked.begin();
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
    let tools = match tools::list(&connection, limits, limits.start_time).await {
        Ok(tools) => tools,
        Err(Failed::Challenged(challenged)) => return Err(ConnectFailure::SignInNeeded(challenged)),
        Err(Failed::Final(error)) if connection.closed.is_cancelled() => {
            return Err(ConnectFailure::Crashed(error.to_string()));
        }
        // It has none, whatever it said.
        Err(Failed::Final(Error::Refused {
            code: NO_SUCH_METHOD, ..
        })) => Vec::new(),
        // Without its tools it would be ready for nothing, and nobody would know.
        Err(Failed::Final(error)) => return Err(ConnectFailure::Crashed(without_tools(limits, &error))),
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
    handshake: Handshake,
    slot: &ProcessSlot,
    discovery: &Arc<Discovery>,
) -> Result<Running, ConnectFailure> {
    let (asked, closed) = (our_end.asked.clone(), our_end.closed.clone());
    let noticing = our_end.clone();
    let credentials = shared.remote.as_ref().map(|far| far.credentials.clone());
    let notices = Notices::new(move |notification| noticing.notice(notification));
    let messages = Messages::new(notices, asked.clone(), credentials);
    match (&shared.config.transport, &shared.remote) {
        (Transport::Stdio(stdio), _) => {
            let (transport, process) = start_process(shared, stdio, slot, messages, closed)?;
            let transport = Guarded::new(transport, asked, discovery.clone());
            let running = our_end.serve_with_lifecycle(transport, handshake.lifecycle()).await;
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
            let client = StreamableHttp::new(far.client.clone(), messages.clone(), discovery.clone());
            let transport = StreamableHttpClientTransport::with_client(client, config);
            let transport = Guarded::new(transport, asked, discovery.clone());
            let served = our_end.clone();
            match served.serve_with_lifecycle(transport, handshake.lifecycle()).await {
                Ok(running) => Ok(running),
                Err(error) if may_be_older(&error) => match introduce_sse(far, our_end, messages, discovery).await {
                    Ok(running) => Ok(running),
                    Err(_) => Err(explain_http(far, &error)),
                },
                Err(error) => Err(explain_http(far, &error)),
            }
        }
        (Transport::Sse(_), Some(far)) => introduce_sse(far, our_end, messages, discovery).await,
        (Transport::Http(_) | Transport::Sse(_), None) => Err(ConnectFailure::Failed("it has no address".to_owned())),
    }
}

async fn introduce_sse(
    far: &Far,
    our_end: OurEnd,
    messages: Messages,
    discovery: &Arc<Discovery>,
) -> Result<Running, ConnectFailure> {
    let (asked, closed) = (our_end.asked.clone(), our_end.closed.clone());
    let transport = SseTransport::open(far.client.clone(), &far.url, messages, closed).await;
    let transport = transport.map_err(|failure| explain_failure(far, &failure))?;
    let transport = Guarded::new(transport, asked, discovery.clone());
    // That transport is older than any discovery.
    let running = our_end
        .serve_with_lifecycle(transport, Handshake::Older.lifecycle())
        .await;
    running.map_err(|error| explain_http(far, &error))
}

/// Whether a server at an address may be one that speaks only the HTTP with events of 2024-11-05: what it answers
/// then, MCP says.
fn may_be_older(error: &ClientInitializeError) -> bool {
    let ClientInitializeError::TransportError { error, .. } = innermost(error) else {
        return false;
    };
    matches!(
        http_failure(error),
        Some(HttpFailure::Status {
            status: 400 | 404 | 405,
            ..
        })
    )
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
    let (process, pipes) = started.map_err(|error| {
        tracing::warn!(server = %shared.config.name, command = %stdio.command, %error, "an MCP server cannot be started");
        ConnectFailure::Failed(error.to_string())
    })?;
    let process = Arc::new(process);
    *slot.lock() = Some(process.clone());
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
    let address = crate::secret::without_secrets(far.url.as_str());
    tracing::info!(address, %failure, "an MCP server cannot be reached");
    let host = crate::secret::scheme_and_host(far.url.as_str());
    format!("the server at {host} cannot be reached: {failure}")
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
