//! The listener on this machine that serves the endpoints of all sessions of a host.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use innkeeper_std::sync::Mutex;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{OnceCell, mpsc, oneshot, watch};
use tokio::task::JoinHandle;

use super::bridge::TOKEN_VARIABLE;
use super::{Offered, SERVER_NAME, ToolRequest, http};

/// Calls that wait for a turn to take them.
const WAITING_CALLS: usize = 64;
/// How long an agent may take to fetch tools that have changed.
const FETCH_TIME: Duration = Duration::from_millis(500);

/// The command of a bridge for agents that reach MCP servers on standard input and output only. It calls
/// [`run_bridge`](crate::run_bridge).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BridgeCommand {
    /// The program.
    pub program: PathBuf,
    /// Its arguments, before the address of the endpoint.
    pub arguments: Vec<String>,
}

/// Serves the tools of sessions to their agents. One serves all agents of a host; it listens when the first session opens.
#[derive(Debug)]
pub struct ToolServer {
    bridge: Option<BridgeCommand>,
    endpoints: Arc<Endpoints>,
    listening: OnceCell<Listening>,
}

#[derive(Debug)]
struct Listening {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The endpoints by their paths.
#[derive(Debug, Default)]
pub(super) struct Endpoints(Mutex<HashMap<String, Arc<EndpointState>>>);

impl Endpoints {
    pub(super) fn find(&self, path: &str) -> Option<Arc<EndpointState>> {
        self.0.lock().get(path).map(Arc::clone)
    }
}

/// The part of an endpoint that its connections share with its session.
#[derive(Debug)]
pub(super) struct EndpointState {
    /// The secret that the agent has to show.
    pub(super) token: String,
    pub(super) offered: Mutex<Offered>,
    /// The fingerprint of the tools that the agent fetched last.
    pub(super) fetched: watch::Sender<Option<u64>>,
    /// Counts the changes of the tools that the agent should hear of.
    pub(super) changes: watch::Sender<u64>,
    pub(super) requests: mpsc::Sender<ToolRequest>,
    /// The calls that run, by the ids of their requests.
    pub(super) calls: Mutex<HashMap<String, oneshot::Sender<()>>>,
}

/// The endpoint of a session. Dropped, it is gone.
#[derive(Debug)]
pub(crate) struct Endpoint {
    path: String,
    address: SocketAddr,
    bridge: Option<BridgeCommand>,
    state: Arc<EndpointState>,
    requests: mpsc::Receiver<ToolRequest>,
    endpoints: Arc<Endpoints>,
}

impl ToolServer {
    /// Creates the server. Without a bridge, agents need MCP over HTTP.
    pub fn new(bridge: Option<BridgeCommand>) -> Arc<Self> {
        Arc::new(Self {
            bridge,
            endpoints: Arc::default(),
            listening: OnceCell::new(),
        })
    }

    /// Opens an endpoint for a session.
    pub(crate) async fn open(&self, offered: Offered) -> io::Result<Endpoint> {
        let listening = self.listening.get_or_try_init(|| self.listen()).await?;
        let path = format!("/mcp/{}", secret::<16>()?);
        let (requests, waiting) = mpsc::channel(WAITING_CALLS);
        let state = Arc::new(EndpointState {
            token: secret::<32>()?,
            offered: Mutex::new(offered),
            fetched: watch::Sender::new(None),
            changes: watch::Sender::new(0),
            requests,
            calls: Mutex::default(),
        });
        self.endpoints.0.lock().insert(path.clone(), Arc::clone(&state));
        Ok(Endpoint {
            path,
            address: listening.address,
            bridge: self.bridge.clone(),
            state,
            requests: waiting,
            endpoints: Arc::clone(&self.endpoints),
        })
    }

    async fn listen(&self) -> io::Result<Listening> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let task = tokio::spawn(http::accept(listener, address.port(), Arc::clone(&self.endpoints)));
        Ok(Listening { address, task })
    }
}

impl Endpoint {
    /// Returns the entry of `mcpServers`; `None` if the agent cannot reach the endpoint.
    pub(crate) fn entry(&self, takes_http: bool) -> Option<Value> {
        let url = format!("http://{}{}", self.address, self.path);
        if takes_http {
            let header = json!({ "name": "Authorization", "value": format!("Bearer {}", self.state.token) });
            return Some(json!({ "type": "http", "name": SERVER_NAME, "url": url, "headers": [header] }));
        }
        let bridge = self.bridge.as_ref()?;
        let arguments: Vec<&str> = bridge
            .arguments
            .iter()
            .map(String::as_str)
            .chain([url.as_str()])
            .collect();
        // The arguments of a process can be read by others, its environment cannot.
        let variable = json!({ "name": TOKEN_VARIABLE, "value": self.state.token });
        Some(json!({ "name": SERVER_NAME, "command": bridge.program, "args": arguments, "env": [variable] }))
    }

    /// Returns what the session offers.
    pub(crate) fn offered(&self) -> Offered {
        self.state.offered.lock().clone()
    }

    /// Offers other tools. Returns whether the agent knows them, or will: one that has fetched none yet fetches these.
    pub(crate) async fn offer(&self, offered: Offered) -> bool {
        let wanted = offered.fingerprint();
        *self.state.offered.lock() = offered;
        let mut fetched = self.state.fetched.subscribe();
        let is_known = |fetched: &Option<u64>| fetched.is_none_or(|fetched| fetched == wanted);
        if is_known(&fetched.borrow()) {
            return true;
        }
        self.state.changes.send_modify(|count| *count += 1);
        let caught_up = tokio::time::timeout(FETCH_TIME, fetched.wait_for(is_known)).await;
        matches!(caught_up, Ok(Ok(_)))
    }

    /// Returns the next call of the agent.
    pub(crate) async fn next(&mut self) -> ToolRequest {
        match self.requests.recv().await {
            Some(request) => request,
            // The state has a sender.
            None => std::future::pending().await,
        }
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.endpoints.0.lock().remove(&self.path);
    }
}

fn secret<const BYTES: usize>() -> io::Result<String> {
    let mut bytes = [0; BYTES];
    getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
