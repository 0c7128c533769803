//! Messages from clients to a server on behalf of its MCP Apps (MCP-13 to MCP-18).
//!
//! Requests of MCP arrive on the AHP connection, with the server's channel among their parameters. They are accepted
//! from clients that show MCP Apps and subscribe to the session; for all others the channel does not exist. Only the
//! methods that the published capabilities promise are accepted.

use ahp_types::state::{AhpMcpUiHostCapabilities, McpServerCustomization};
use serde_json::{Map, Value, json};

use super::wire;
use super::{ServerList, ToServer};
use crate::core::{Cx, Host, never};
use crate::effect::{Delivery, McpCommand, Subscriber};
use crate::ids::{ChannelId, ConnId};
use crate::protocol::error::{RpcError, code};
use crate::protocol::frame::encode_notification;
use crate::protocol::method_scopes::scope_of;
use crate::protocol::request::RequestId;

/// A method of MCP that clients may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AppMethod {
    /// Its name on the wire.
    pub name: &'static str,
    /// The capability that has to be published for it.
    promise: Promise,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Promise {
    Tools,
    Resources,
    Logging,
    Sampling,
}

const fn method(name: &'static str, promise: Promise) -> AppMethod {
    AppMethod { name, promise }
}

/// All of them (MCP-15). The last one is a notification.
pub const APP_METHODS: [AppMethod; 8] = [
    method("tools/list", Promise::Tools),
    method("tools/call", Promise::Tools),
    method("resources/list", Promise::Resources),
    method("resources/templates/list", Promise::Resources),
    method("resources/read", Promise::Resources),
    method("logging/setLevel", Promise::Logging),
    method("sampling/createMessage", Promise::Sampling),
    method(MESSAGE, Promise::Logging),
];

/// A line of a log, in either direction.
const MESSAGE: &str = "notifications/message";

impl Promise {
    fn is_given(self, capabilities: &AhpMcpUiHostCapabilities) -> bool {
        match self {
            Self::Tools => capabilities.server_tools.is_some(),
            Self::Resources => capabilities.server_resources.is_some(),
            Self::Logging => capabilities.logging.is_some(),
            Self::Sampling => capabilities.sampling.is_some(),
        }
    }
}

/// A request or a notification of MCP.
#[derive(Debug, Clone, PartialEq)]
pub struct McpRequest {
    /// The server's channel.
    pub channel: String,
    /// The request.
    pub method: AppMethod,
    /// Its parameters, without the channel (MCP-18).
    pub params: Map<String, Value>,
}

impl Host {
    /// Passes a request to its server, whose answer goes to the client.
    pub(crate) fn ask_server(&mut self, cx: &mut Cx<'_>, conn: ConnId, id: &RequestId, request: McpRequest) {
        match self.let_through(conn, request) {
            Ok((session, message)) => cx.emit(McpCommand::Request {
                conn,
                id: id.clone(),
                session,
                message: Box::new(message),
            }),
            Err(error) => cx.answer(conn, id, Err(error)),
        }
    }

    /// Passes a notification to its server. An invalid one is dropped, because a notification has no answer.
    pub(crate) fn tell_server(&mut self, cx: &mut Cx<'_>, conn: ConnId, request: McpRequest) {
        let scope = self.conns.get(&conn).map(|conn| conn.principal.scope);
        let may = scope.is_some_and(|scope| scope >= scope_of(request.method.name));
        if let (true, Ok((session, message))) = (may, self.let_through(conn, request)) {
            let message = Box::new(message);
            cx.emit(McpCommand::Notify { session, message });
        }
    }

    fn let_through(&self, conn: ConnId, request: McpRequest) -> Result<(ChannelId, ToServer), RpcError> {
        let McpRequest {
            channel,
            method,
            params,
        } = request;
        if !self.config.serves_mcp {
            return Err(RpcError::method_not_found(method.name));
        }
        let Some((session_id, server)) = self.server_behind(conn, &channel) else {
            let shown: String = channel.chars().take(256).collect();
            let message = format!(
                "there is no MCP channel {shown:?} for this client; it exists while the server is ready, for clients \
                 that declare capabilities.mcpApps and subscribe to its session"
            );
            return Err(RpcError::new(code::NOT_FOUND, message));
        };
        let capabilities = server.mcp_app.as_ref().map(|apps| &apps.capabilities);
        if !capabilities.is_some_and(|capabilities| method.promise.is_given(capabilities)) {
            // MCP-16
            let message = format!(
                "{} is not served for the MCP server {:?}; its mcpApp.capabilities say what is",
                method.name, server.name
            );
            return Err(RpcError::new(code::METHOD_NOT_FOUND, message));
        }
        check_params(method.name, &params)?;
        let attempt = self
            .sessions
            .get(&session_id)
            .and_then(|session| session.mcp.attempt(&server.id));
        let what = ToServer {
            server: server.id.clone(),
            attempt: attempt.unwrap_or_default(),
            client: self.conns.client(conn).cloned(),
            method: method.name,
            params,
        };
        Ok((session_id, what))
    }

    /// The server that has a channel, for a client that is shown it.
    fn server_behind(&self, conn: ConnId, channel: &str) -> Option<(ChannelId, &McpServerCustomization)> {
        let rest = channel.strip_prefix("mcp://session-")?;
        let (session, _) = rest.split_once('/')?;
        let session_id = ChannelId(session.parse().ok()?);
        let connection = self.conns.get(&conn).filter(|_| self.conns.dialect(conn).mcp_apps)?;
        if !connection.subscriptions.contains(&session_id) {
            return None;
        }
        let session = self.sessions.get(&session_id)?;
        let mut servers = wire::servers(&session.state).map(|(_, server)| server);
        let server = servers.find(|server| server.channel.as_deref() == Some(channel))?;
        Some((session_id, server))
    }

    /// Notifies the clients that see a server's channel that one of its lists changed, if that was promised (MCP-17).
    pub(super) fn list_changed(&mut self, cx: &mut Cx<'_>, session_id: ChannelId, id: &str, list: ServerList) {
        let notification = |capabilities: &AhpMcpUiHostCapabilities| match list {
            ServerList::Tools => {
                wire::notifies_changes(&capabilities.server_tools).then_some("notifications/tools/list_changed")
            }
            ServerList::Resources => {
                wire::notifies_changes(&capabilities.server_resources).then_some("notifications/resources/list_changed")
            }
            // Apps know nothing of prompts.
            ServerList::Prompts => None,
        };
        self.notify_apps(cx, session_id, id, notification, Map::new());
        if list == ServerList::Tools {
            self.touched.note_tools(session_id);
        }
    }

    /// Tells them what a server wrote for its log.
    pub(super) fn server_log(
        &mut self,
        cx: &mut Cx<'_>,
        session_id: ChannelId,
        id: &str,
        level: &str,
        logger: Option<String>,
        data: Value,
    ) {
        let mut params = Map::from_iter([("level".to_owned(), json!(level)), ("data".to_owned(), data)]);
        if let Some(logger) = logger {
            params.insert("logger".to_owned(), Value::String(logger));
        }
        let notification =
            |capabilities: &AhpMcpUiHostCapabilities| Promise::Logging.is_given(capabilities).then_some(MESSAGE);
        self.notify_apps(cx, session_id, id, notification, params);
    }

    fn notify_apps(
        &self,
        cx: &mut Cx<'_>,
        session_id: ChannelId,
        id: &str,
        notification: impl Fn(&AhpMcpUiHostCapabilities) -> Option<&'static str>,
        mut params: Map<String, Value>,
    ) {
        let (Some(session), Some(entry)) = (self.sessions.get(&session_id), self.channels.get(session_id)) else {
            return never!("the session is in memory and has a channel");
        };
        // The server may have been removed from the session since it was asked to run.
        let Some(server) = wire::find(&session.state, id) else {
            return;
        };
        // Only a server with apps has a channel, and only while it is ready.
        let (Some(channel), Some(apps)) = (&server.channel, &server.mcp_app) else {
            return;
        };
        // Clients get only the notifications that the published capabilities promise.
        let Some(method) = notification(&apps.capabilities) else {
            return;
        };
        let to = entry.subscribers().filter(|subscriber| subscriber.dialect.mcp_apps);
        let to: Vec<Subscriber> = to.copied().collect();
        if !to.is_empty() {
            params.insert("channel".to_owned(), Value::String(channel.clone()));
            cx.emit(Delivery::Notify {
                to: to.into(),
                message: encode_notification(method, &params),
            });
        }
    }
}

/// The levels of MCP's log.
const LEVELS: [&str; 8] = [
    "debug",
    "info",
    "notice",
    "warning",
    "error",
    "critical",
    "alert",
    "emergency",
];

/// Whether a request has the parameters that MCP demands: an invalid one need not reach the server.
fn check_params(method: &str, params: &Map<String, Value>) -> Result<(), RpcError> {
    let field = match method {
        "tools/call" => "name",
        "resources/read" => "uri",
        "logging/setLevel" => "level",
        _ => return Ok(()),
    };
    match params.get(field) {
        None => Err(RpcError::invalid_params(field, "is missing")),
        Some(Value::String(level)) if field == "level" && !LEVELS.contains(&level.as_str()) => {
            let problem = format!("must be one of {}", LEVELS.join(", "));
            Err(RpcError::invalid_params(field, problem))
        }
        Some(Value::String(_)) => Ok(()),
        Some(_) => Err(RpcError::invalid_params(field, "must be a string")),
    }
}
