//! Performs the effects on MCP servers: running them, tokens, and requests of apps.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use innkeeper_core::error::code;
use innkeeper_core::mcp::{ServersToRun, ToServer, TokenChange};
use innkeeper_core::{ChannelId, Failure, Input, McpCommand, RpcError};
use serde_json::Value;

use crate::main_loop::Message;
use crate::main_loop::handles::LoopHandles;
use crate::main_loop::requests::{OpenRequest, RequestTickets};
use crate::services::contents::effects::ContentStore;
use crate::services::customizations::CustomizationSet;
use crate::services::customizations::effects::FollowedCustomizations;
use crate::services::mcp::app_requests::sample_for_app;
use crate::services::mcp::{
    AppRequests, CREATE_MESSAGE, DesiredServer, DesiredServers, Mcp, McpError, McpServers, ServerSink, ServerStatus,
    SessionLink, bounds,
};
use crate::services::resources::effects::failure;

/// The servers of all sessions.
pub(crate) struct Servers {
    runner: Arc<dyn McpServers>,
    sessions: HashMap<ChannelId, RunningSession>,
}

struct RunningSession {
    link: Arc<SessionLink>,
    sink: ServerSink,
    /// The servers that the core wants.
    wanted: Box<ServersToRun>,
    /// The last request to the runner.
    wishes: Vec<DesiredServer>,
}

impl Drop for RunningSession {
    fn drop(&mut self) {
        // Turns may hold on to the servers; that is no reason for them to run.
        self.link.set_wanted(Arc::default());
        self.link.servers.want(DesiredServers {
            session: Arc::clone(&self.wanted.session_uri),
            ..DesiredServers::default()
        });
    }
}

/// The parts of the host that MCP servers need.
pub(crate) struct McpParts<'a> {
    pub(crate) customizations: &'a FollowedCustomizations,
    pub(crate) contents: &'a ContentStore,
    pub(crate) app_requests: &'a AppRequests,
}

impl Servers {
    pub(crate) fn new(runner: Arc<dyn McpServers>) -> Self {
        Self {
            runner,
            sessions: HashMap::new(),
        }
    }

    /// Returns the servers that a turn of a session may use.
    pub(crate) fn of(&self, session: ChannelId) -> Mcp {
        let link = self.sessions.get(&session).map(|session| Arc::clone(&session.link));
        link.map(Mcp::new).unwrap_or_default()
    }

    /// No session wants any server, because the core is replaced.
    pub(crate) fn clear(&mut self) {
        self.sessions.clear();
    }

    pub(crate) fn perform(
        &mut self,
        handles: &LoopHandles,
        requests: &mut RequestTickets,
        command: McpCommand,
        parts: McpParts<'_>,
    ) {
        match command {
            McpCommand::SetDesiredServers { session, wanted } => {
                let set = parts.customizations.set(session);
                self.set_desired(handles, parts.contents, &set, session, wanted);
            }
            McpCommand::ReleaseServers { session } => {
                self.sessions.remove(&session);
            }
            McpCommand::SetToken {
                resource,
                change,
                answer,
            } => {
                let request = answer.and_then(|(conn, id)| requests.open(handles, conn, id));
                self.set_token(handles, &resource, change, request);
            }
            McpCommand::Request {
                conn,
                id,
                session,
                message,
            } => {
                let Some(request) = requests.open(handles, conn, id) else {
                    // The host is going away.
                    return;
                };
                if message.method == CREATE_MESSAGE {
                    let set = parts.customizations.set(session);
                    sample_for_app(handles, request, parts.app_requests, &set, session, *message);
                } else {
                    self.app_request(handles, request, session, *message);
                }
            }
            McpCommand::Notify { session, message } => self.app_notification(session, *message),
            McpCommand::ReadResource { conn, id, op, sessions } => {
                if let Some(request) = requests.open(handles, conn, id) {
                    self.resource(handles, request, *op, &sessions);
                }
            }
        }
    }

    /// Runs these servers of a session and no others.
    fn set_desired(
        &mut self,
        handles: &LoopHandles,
        contents: &ContentStore,
        set: &CustomizationSet,
        session: ChannelId,
        wanted: Box<ServersToRun>,
    ) {
        let runner = &self.runner;
        let entry = self.sessions.entry(session).or_insert_with(|| {
            let sink = ServerSink::new(session, handles.weak_inbox());
            RunningSession {
                link: SessionLink::new(
                    runner.open(sink.clone()),
                    Arc::clone(&wanted.session_uri),
                    sink.reported(),
                    contents.of_session(&wanted.session_uri, handles.limits().resource_bytes),
                ),
                sink,
                wanted: wanted.clone(),
                wishes: Vec::new(),
            }
        });
        entry.wanted = wanted;
        self.send_wishes(handles, set, session, true);
    }

    /// Starts servers again whose declarations have changed.
    pub(crate) fn redeclared(&mut self, handles: &LoopHandles, set: &CustomizationSet, session: ChannelId) {
        self.send_wishes(handles, set, session, false);
    }

    fn send_wishes(&mut self, handles: &LoopHandles, set: &CustomizationSet, session: ChannelId, is_asked: bool) {
        let Some(entry) = self.sessions.get_mut(&session) else {
            // The session wants no servers.
            return;
        };
        let (mut wishes, undeclared) = wishes(&entry.wanted, set);
        if !is_asked {
            let redeclared = keep_declared(&mut wishes, &entry.wishes);
            if !redeclared.is_empty() {
                handles.send(Message::Core(Input::McpRedeclared {
                    session,
                    servers: redeclared,
                }));
            }
            if wishes == entry.wishes {
                return;
            }
        }
        for (id, attempt) in undeclared {
            let sink = entry.sink.clone();
            // The inbox may be full, and this is the task that empties it.
            handles.tasks().spawn(async move {
                let message = "nothing says how to start it any more; look at the file that it is declared in";
                let status = ServerStatus::Failed(Failure::new("notDeclared", message));
                sink.status(&id, attempt, status).await;
            });
        }
        let ids = wishes.iter().map(|wish| wish.declaration.about.id.clone());
        entry.link.set_wanted(ids.collect());
        entry.link.forget_changed(&entry.wishes, &wishes);
        entry.wishes.clone_from(&wishes);
        entry.link.servers.want(DesiredServers {
            session: Arc::clone(&entry.wanted.session_uri),
            roots: entry.wanted.roots.clone(),
            servers: wishes,
        });
    }

    /// Passes a token to the servers of a resource. The request is answered after the token is persisted.
    fn set_token(&self, handles: &LoopHandles, resource: &str, change: TokenChange, request: Option<OpenRequest>) {
        let persisted = self.runner.set_token(resource, change);
        let Some(request) = request else {
            // The change comes from the host itself, and no client waits.
            return;
        };
        handles.tasks().spawn(async move {
            if AssertUnwindSafe(persisted).catch_unwind().await.is_err() {
                tracing::error!("storing the token of MCP servers panicked");
            }
            request.respond(Ok(Value::Object(serde_json::Map::new()))).await;
        });
    }

    /// Sends a request of an app to a server, and answers with its result.
    fn app_request(&self, handles: &LoopHandles, request: OpenRequest, session: ChannelId, what: ToServer) {
        let link = self.sessions.get(&session).map(|session| Arc::clone(&session.link));
        let (time, most) = (handles.limits().mcp_request_time, handles.limits().mcp_answer_bytes);
        handles.tasks().spawn(async move {
            let ToServer {
                server,
                attempt,
                method,
                params,
                client: _,
            } = what;
            let asking = async {
                match link {
                    Some(link) => link.servers.app_request(&server, attempt, method, params).await,
                    None => Err(McpError::server_gone()),
                }
            };
            let outcome = in_time(method, time, asking)
                .await
                .and_then(|outcome| outcome.map_err(rpc_error))
                .and_then(|value| fitting(method, value, most));
            request.respond_object(outcome).await;
        });
    }

    /// Sends a notification of an app to a server.
    fn app_notification(&self, session: ChannelId, what: ToServer) {
        if let Some(session) = self.sessions.get(&session) {
            let servers = &session.link.servers;
            servers.app_notification(&what.server, what.attempt, what.method, what.params);
        }
    }
}

/// Waits for a server, which may be slow, and whose implementation may fail.
pub(crate) async fn in_time<T>(
    method: &str,
    time: Duration,
    asking: impl Future<Output = T> + Send,
) -> Result<T, RpcError> {
    match tokio::time::timeout(time, AssertUnwindSafe(asking).catch_unwind()).await {
        Ok(Ok(outcome)) => Ok(outcome),
        Ok(Err(_)) => {
            tracing::error!(method, "asking an MCP server panicked");
            Err(failure(format!("{method} failed; the host's log says more")))
        }
        Err(_) => {
            let seconds = time.as_secs();
            Err(failure(format!(
                "{method}: the MCP server did not answer within {seconds} s"
            )))
        }
    }
}

/// Returns the servers to run, and those without a declaration, with the number of the attempt.
fn wishes(wanted: &ServersToRun, set: &CustomizationSet) -> (Vec<DesiredServer>, Vec<(String, u64)>) {
    let declared: HashMap<&str, _> = set
        .mcp_servers
        .iter()
        .map(|declaration| (declaration.about.id.as_str(), declaration))
        .collect();
    let (mut wishes, mut undeclared) = (Vec::new(), Vec::new());
    for server in &wanted.servers {
        match declared.get(server.id.as_str()) {
            Some(declaration) => wishes.push(DesiredServer {
                attempt: server.attempt,
                declaration: Arc::clone(declaration),
            }),
            None => undeclared.push((server.id.clone(), server.attempt)),
        }
    }
    (wishes, undeclared)
}

/// Leaves starts as they were declared, because no start has two declarations: the core is to say that the
/// server starts anew. Returns what it is to say that of.
fn keep_declared(wishes: &mut Vec<DesiredServer>, before: &[DesiredServer]) -> Vec<(String, u64)> {
    let mut redeclared = Vec::new();
    wishes.retain_mut(|wish| {
        let id = &wish.declaration.about.id;
        let mut before = before.iter();
        let before = before.find(|before| before.declaration.about.id == *id && before.attempt == wish.attempt);
        if before == Some(&*wish) {
            return true;
        }
        redeclared.push((id.clone(), wish.attempt));
        // One that nothing declared for a while does not run, and waits.
        let Some(before) = before else {
            return false;
        };
        wish.clone_from(before);
        true
    });
    redeclared
}

/// The answer as JSON without its closing brace, if it is an object and not too large.
pub(crate) fn fitting(method: &str, value: Value, most: usize) -> Result<Vec<u8>, RpcError> {
    if !value.is_object() {
        return Err(failure(format!(
            "{method}: the MCP server did not answer with an object"
        )));
    }
    let mut object = value.to_string().into_bytes();
    if object.len() > most {
        return Err(failure(format!(
            "{method}: the answer of the MCP server has {} bytes, and {most} are passed on; ask for less",
            object.len()
        )));
    }
    object.pop();
    Ok(object)
}

pub(crate) fn rpc_error(error: McpError) -> RpcError {
    let its_own = error.code.and_then(|code| i32::try_from(code).ok());
    RpcError {
        code: its_own.unwrap_or(code::INTERNAL_ERROR),
        message: bounds::message(error.message),
        data: error.data.and_then(bounds::data),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::services::customizations::About;
    use crate::services::mcp::{Remote, ServerDeclaration, Transport};

    fn wish(id: &str, attempt: u64, url: &str) -> DesiredServer {
        let declaration = ServerDeclaration {
            about: About {
                id: id.to_owned(),
                ..About::default()
            },
            transport: Transport::Http(Remote {
                url: url.to_owned(),
                ..Remote::default()
            }),
            ..ServerDeclaration::default()
        };
        DesiredServer {
            attempt,
            declaration: Arc::new(declaration),
        }
    }

    #[test]
    fn mcp02_no_start_of_a_server_has_two_declarations() {
        let before = [wish("a", 1, "https://a"), wish("b", 2, "https://b")];
        let mut wishes = vec![
            wish("a", 1, "https://a"),
            wish("b", 2, "https://elsewhere"),
            wish("c", 3, "https://c"),
        ];
        let redeclared = keep_declared(&mut wishes, &before);
        assert_eq!(wishes, before);
        assert_eq!(redeclared, [("b".to_owned(), 2), ("c".to_owned(), 3)]);
    }

    #[test]
    fn f17_errors_of_servers_are_bounded() {
        let error = rpc_error(McpError {
            code: Some(-32002),
            message: "ä".repeat(1 << 20),
            data: Some(Value::String("x".repeat(1 << 20))),
        });
        assert!(error.message.len() < 32 << 10, "{}", error.message.len());
        assert!(error.message.ends_with("more bytes]"));
        assert_eq!(error.data, None);
    }
}
