//! An editor: the official ACP client library at the other end of `innkeeper acp`.

use std::io;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::schema::{
    CancelNotification, ContentBlock, InitializeRequest, InitializeResponse, LoadSessionRequest, LoadSessionResponse,
    NewSessionRequest, NewSessionResponse, PromptRequest, PromptResponse, RequestPermissionOutcome,
    RequestPermissionRequest, RequestPermissionResponse, SelectedPermissionOutcome, SessionNotification, TextContent,
};
use agent_client_protocol::v1::{ConnectionTo, Responder};
use agent_client_protocol::{Agent, Client, JsonRpcRequest, Lines, on_receive_notification, on_receive_request};
use futures_util::{Sink, Stream, sink, stream};
use innkeeper_testkit::process::HostProcess;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;

/// Longer than anything takes.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A permission request, and the way to answer it.
pub(super) struct Permission {
    pub(super) request: RequestPermissionRequest,
    responder: Responder<RequestPermissionResponse>,
}

impl Permission {
    pub(super) fn choose(self, option: &str) {
        let chosen = RequestPermissionOutcome::Selected(SelectedPermissionOutcome::new(option.to_owned()));
        let _ = self.responder.respond(RequestPermissionResponse::new(chosen));
    }
}

#[derive(Default)]
struct Received {
    updates: Mutex<Vec<SessionNotification>>,
    permissions: Mutex<Vec<Permission>>,
    changed: Notify,
}

/// An editor that is connected.
pub(super) struct AcpEditor {
    pub(super) connection: ConnectionTo<Agent>,
    pub(super) initialized: InitializeResponse,
    received: Arc<Received>,
    /// Dropping it ends the program.
    _child: Option<Child>,
    task: JoinHandle<()>,
}

impl Drop for AcpEditor {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Returns the command line of `innkeeper acp` on the data directory of a host.
pub(super) fn command(data: &Path, flags: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_innkeeper"));
    command.arg("acp").arg("--data").arg(data).arg("--no-start").args(flags);
    // The user's own configuration is not part of a test.
    command
        .env("HOME", data)
        .env_remove("XDG_CONFIG_HOME")
        .env_remove("INNKEEPER_URL")
        .kill_on_drop(true);
    command
}

impl AcpEditor {
    /// Starts `innkeeper acp` and shakes hands.
    pub(super) async fn start(host: &HostProcess, flags: &[&str]) -> Self {
        Self::start_on(&host.data_path("."), flags).await
    }

    pub(super) async fn start_on(data: &Path, flags: &[&str]) -> Self {
        let mut command = command(data, flags);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let input = child.stdin.take().expect("a pipe");
        let output = child.stdout.take().expect("a pipe");
        let outgoing = sink::unfold(input, async |mut input, line: String| {
            input.write_all(format!("{line}\n").as_bytes()).await?;
            input.flush().await?;
            Ok::<_, io::Error>(input)
        });
        let lines = BufReader::new(output).lines();
        let incoming = stream::unfold(lines, async |mut lines| {
            let line = lines.next_line().await.transpose()?;
            Some((line, lines))
        });
        Self::connect(outgoing, incoming, Some(child)).await
    }

    /// Shakes hands over any transport of lines.
    pub(super) async fn connect(
        outgoing: impl Sink<String, Error = io::Error> + Send + 'static,
        incoming: impl Stream<Item = io::Result<String>> + Send + 'static,
        child: Option<Child>,
    ) -> Self {
        let received = Arc::new(Received::default());
        let (updates, permissions) = (Arc::clone(&received), Arc::clone(&received));
        let (hand_out, handed_out) = oneshot::channel();
        let running = Client
            .v1()
            .on_receive_notification(
                async move |notification: SessionNotification, _cx| {
                    updates.updates.lock().expect("no panic").push(notification);
                    updates.changed.notify_waiters();
                    Ok(())
                },
                on_receive_notification!(),
            )
            .on_receive_request(
                async move |request: RequestPermissionRequest, responder, _cx| {
                    permissions
                        .permissions
                        .lock()
                        .expect("no panic while it is locked")
                        .push(Permission { request, responder });
                    permissions.changed.notify_waiters();
                    Ok(())
                },
                on_receive_request!(),
            )
            .connect_with(Lines::new(outgoing, incoming), async move |cx: ConnectionTo<Agent>| {
                let _ = hand_out.send(cx.clone());
                cx.incoming_closed().await;
                Ok(())
            });
        let task = tokio::spawn(async move {
            let _ = running.await;
        });
        let connection: ConnectionTo<Agent> = handed_out.await.expect("a connection");
        let initialize = connection
            .send_request(InitializeRequest::new(ProtocolVersion::V1))
            .block_task();
        let initialized = tokio::time::timeout(TIMEOUT, initialize)
            .await
            .expect("in time")
            .expect("initialized");
        Self {
            connection,
            initialized,
            received,
            _child: child,
            task,
        }
    }

    /// Sends a request and waits for its answer.
    pub(super) async fn request<R: JsonRpcRequest>(
        &self,
        request: R,
    ) -> Result<R::Response, agent_client_protocol::Error> {
        let answer = self.connection.send_request(request).block_task();
        tokio::time::timeout(TIMEOUT, answer).await.expect("an answer in time")
    }

    pub(super) async fn new_session(&self, directory: &Path) -> NewSessionResponse {
        self.request(NewSessionRequest::new(directory))
            .await
            .expect("a session")
    }

    pub(super) async fn load(&self, session: &str) -> LoadSessionResponse {
        let request = LoadSessionRequest::new(session.to_owned(), "/");
        self.request(request).await.expect("the session")
    }

    /// Starts a prompt.
    pub(super) fn begin(
        &self,
        session: &str,
        text: &str,
    ) -> impl Future<Output = Result<PromptResponse, agent_client_protocol::Error>> + use<> {
        let prompt = vec![ContentBlock::Text(TextContent::new(text))];
        let sent = self
            .connection
            .send_request(PromptRequest::new(session.to_owned(), prompt));
        async move {
            tokio::time::timeout(TIMEOUT, sent.block_task())
                .await
                .expect("an answer in time")
        }
    }

    pub(super) fn cancel(&self, session: &str) {
        let cancel = CancelNotification::new(session.to_owned());
        self.connection.send_notification(cancel).expect("sent");
    }

    /// Waits for the next permission request.
    pub(super) async fn permission(&self) -> Permission {
        self.until("a permission request", |received| {
            received.permissions.lock().expect("no panic").pop()
        })
        .await
    }

    /// Returns the updates so far, as JSON.
    pub(super) fn updates(&self) -> Vec<Value> {
        let updates = self.received.updates.lock().expect("no panic");
        let json = |notification: &SessionNotification| serde_json::to_value(&notification.update).expect("JSON");
        updates.iter().map(json).collect()
    }

    /// Waits for an update.
    pub(super) async fn update(&self, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        let find = |_: &Received| self.updates().into_iter().find(&fits);
        self.until(what, find).await
    }

    /// Returns the updates of one kind.
    pub(super) fn of_kind(&self, kind: &str) -> Vec<Value> {
        let updates = self.updates();
        updates
            .into_iter()
            .filter(|update| update["sessionUpdate"] == kind)
            .collect()
    }

    /// Returns the text of all chunks of one kind.
    pub(super) fn text(&self, kind: &str) -> String {
        let chunks = self.of_kind(kind);
        chunks
            .iter()
            .filter_map(|chunk| chunk["content"]["text"].as_str())
            .collect()
    }

    /// Returns the fields of a tool call as its updates add up.
    pub(super) fn call(&self) -> Value {
        let mut call = Value::Object(serde_json::Map::new());
        for update in self.updates() {
            if update["sessionUpdate"]
                .as_str()
                .is_some_and(|kind| kind.starts_with("tool_call"))
            {
                for (name, value) in update.as_object().expect("an object") {
                    call[name] = value.clone();
                }
            }
        }
        call
    }

    async fn until<T>(&self, what: &str, find: impl Fn(&Received) -> Option<T>) -> T {
        let waiting = async {
            loop {
                let mut changed = std::pin::pin!(self.received.changed.notified());
                changed.as_mut().enable();
                if let Some(found) = find(&self.received) {
                    return found;
                }
                changed.await;
            }
        };
        let found = tokio::time::timeout(TIMEOUT, waiting).await;
        found.unwrap_or_else(|_| panic!("{what} never came: {:#?}", self.updates()))
    }
}
