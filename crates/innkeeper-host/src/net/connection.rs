//! One connection: a task that reads and a task that writes, so that neither waits for the other.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use innkeeper_core::frame::encode_error;
use innkeeper_core::{
    ClientId, Command, ConnId, Dispatch, Input, Outgoing, Principal, RequestId, RpcError, Scope, Wire, error::code,
};
use innkeeper_dialects::Up;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::Instant;

use crate::host::HostHandle;
use crate::limits::Limits;
use crate::main_loop::Message;
use crate::main_loop::message::ConnectionMessage;
pub use crate::net::close::Close;
use crate::net::dialect::{self, Edge};
use crate::net::outbox::{Next, Outbox};
use crate::net::reverse_requests::ClientRequestError;
use crate::net::transport::{Received, Sink, Source};
use crate::net::working_directories;
use crate::rpc::methods::{self, Method, Route};
use crate::rpc::{self, Shape};
use crate::services::completions::Files;

/// Serves one connection until it ends.
///
/// The reader runs in the caller's task and the writer in its own: the host still reads from a client that does not
/// read, and still answers one that floods it.
pub async fn serve(host: HostHandle, source: impl Source, sink: impl Sink, principal: Principal) {
    serve_until(host, source, sink, principal, std::future::pending()).await;
}

/// Serves one connection until it ends or its credential is revoked.
pub(crate) async fn serve_until(
    host: HostHandle,
    source: impl Source,
    sink: impl Sink,
    principal: Principal,
    revoked: impl Future<Output = ()>,
) {
    let may_drive = principal.scope >= Scope::Drive;
    let Some((conn, outbox, edge)) = host.attach(principal).await else {
        // The host is going away.
        return;
    };
    let writer = Writer {
        sink,
        outbox: Arc::clone(&outbox),
        edge: Arc::clone(&edge),
        limits: host.limits(),
    };
    let writing = host.tasks().spawn(writer.run());
    let mut reader = Reader {
        source,
        conn,
        inbox: host.inbox(),
        outbox: Arc::clone(&outbox),
        edge,
        budget: Budget::new(&host.limits()),
        tickets: Arc::new(Semaphore::new(host.limits().requests_in_flight)),
        limits: host.limits(),
        files: may_drive.then(|| host.files()),
    };
    let close = tokio::select! {
        close = reader.run() => close,
        () = revoked => Close::Revoked,
    };
    // A peer that only stopped sending still gets its answers: the main loop, which has everything
    // it sent before, closes the connection when it comes to its end.
    if close != Close::Gone {
        outbox.close(close);
    }
    let _ = host.inbox().send(Message::Core(Input::Disconnected { conn })).await;
    let _ = host.inbox().send(ConnectionMessage::Detached { conn }.into()).await;
    // The peer must be able to read why before the socket goes away.
    let closing = async {
        let _ = writing.await;
        tokio::time::sleep(CLOSE_TIME).await;
    };
    tokio::select! {
        () = reader.source.drain() => {}
        () = closing => {}
    }
}

struct Reader<S> {
    source: S,
    conn: ConnId,
    inbox: mpsc::Sender<Message>,
    outbox: Arc<Outbox>,
    /// Translates the messages of a client that speaks an older version.
    edge: Arc<Edge>,
    budget: Budget,
    /// Tickets for requests in flight.
    tickets: Arc<Semaphore>,
    limits: Arc<Limits>,
    /// Looks at working directories, for a connection that may name some.
    files: Option<Arc<dyn Files>>,
}

impl<S: Source> Reader<S> {
    async fn run(&mut self) -> Close {
        // The writer pings once an interval, so three without a sign of life mean the peer is gone.
        let timeout = self.limits.ping_interval * 3;
        let answers_pings = self.source.answers_pings();
        loop {
            let received = tokio::select! {
                received = self.source.next() => received,
                close = self.outbox.closed() => return close,
                () = tokio::time::sleep(timeout), if answers_pings => return Close::Silent,
            };
            match received {
                Received::Message(bytes) => {
                    self.budget.spend().await;
                    if self.handle(&bytes).await.is_none() {
                        return Close::GoingAway;
                    }
                }
                Received::Alive => {}
                Received::Closed => return Close::Gone,
                Received::Violation(close) => return close,
            }
        }
    }

    /// Routes one message; `None` when the host is gone.
    async fn handle(&mut self, bytes: &Bytes) -> Option<()> {
        let Ok(text) = std::str::from_utf8(bytes) else {
            self.answer(
                None,
                &RpcError::new(code::PARSE_ERROR, "not JSON: the message is not UTF-8"),
            );
            return Some(());
        };
        let shape = Shape {
            depth: self.limits.json_depth,
            members: self.limits.json_members,
        };
        match rpc::parse(text, shape) {
            Ok(rpc::Message::Request { id, method, params }) => {
                self.choose_version(&method, params).await?;
                match self.edge.is_translated() {
                    true => self.older_request(id, &method, params).await,
                    false => self.route(id, self.request(&method, params)).await,
                }
            }
            Ok(rpc::Message::Notification { method, params }) => match self.edge.is_translated() {
                true => self.older_notification(&method, params).await,
                false => self.take(self.notification(&method, params)).await,
            },
            Ok(rpc::Message::Response { id, outcome }) => {
                let outcome = match outcome {
                    Ok(result) => serde_json::from_str(result.get()).map_err(|_| ClientRequestError::Disconnected),
                    Err(error) => Err(refusal(error)),
                };
                self.inbox
                    .send(
                        ConnectionMessage::ClientAnswered {
                            conn: self.conn,
                            id,
                            outcome,
                        }
                        .into(),
                    )
                    .await
                    .ok()
            }
            // An answer to an answer would start an endless exchange.
            Ok(rpc::Message::Stray) => Some(()),
            Err(rejected) => {
                self.answer(rejected.id.as_ref(), &rejected.error);
                Some(())
            }
        }
    }

    /// Finds out which version a handshake is about to choose: what follows it may arrive before its answer.
    async fn choose_version(&mut self, method: &str, params: Option<&RawValue>) -> Option<()> {
        match method {
            _ if self.edge.is_native() => {}
            "initialize" => {
                if let Some((version, client)) = dialect::chosen(params) {
                    self.edge.begin(version, &client);
                }
            }
            "reconnect" => {
                if let Some(id) = dialect::reconnecting(params) {
                    let (reply, version) = oneshot::channel();
                    let client = ClientId::new(&id);
                    let ask = ConnectionMessage::VersionOf { client, reply };
                    self.inbox.send(ask.into()).await.ok()?;
                    if let Ok(Some(version)) = version.await {
                        self.edge.begin(version, &id);
                    }
                }
            }
            _ => {}
        }
        Some(())
    }

    /// Sends a request that could be read to the core, and answers any other.
    async fn route(&mut self, id: RequestId, command: Result<Command, RpcError>) -> Option<()> {
        let checked = match (command, &self.files) {
            (Ok(command), Some(files)) => {
                let checked = working_directories::check_request(&**files, &command).await;
                checked.map(|()| command)
            }
            (command, _) => command,
        };
        match checked {
            Ok(command) => self.send_request(id, command).await,
            Err(error) => {
                self.answer(Some(&id), &error);
                Some(())
            }
        }
    }

    /// Sends a notification to the core.
    async fn take(&mut self, input: Option<Input>) -> Option<()> {
        let Some(mut input) = input else {
            return Some(());
        };
        if let (Input::Dispatch { dispatch, .. }, Some(files)) = (&mut input, &self.files) {
            working_directories::check_action(&**files, dispatch).await;
        }
        self.send(input).await
    }

    /// Handles a request of a client that speaks an older version.
    async fn older_request(&mut self, id: RequestId, method: &str, params: Option<&RawValue>) -> Option<()> {
        let (method, params) = self.edge.up_request(&id, method, params);
        let command = match to_raw_value(&params) {
            Ok(params) => self.request_of(methods::find_older(&method), &method, Some(&params)),
            Err(_) => Err(RpcError::method_not_found(&method)),
        };
        self.route(id, command).await
    }

    /// Handles a notification of a client that speaks an older version.
    async fn older_notification(&mut self, method: &str, params: Option<&RawValue>) -> Option<()> {
        let input = match self.edge.up_notification(method, params, now_ms()) {
            Up::Forward { method, params } => match to_raw_value(&params) {
                Ok(params) => self.notification_of(&method, Some(&params), methods::older_dispatch),
                Err(_) => None,
            },
            Up::Reject {
                channel,
                client_seq,
                action,
                reason,
            } => {
                let dispatch = methods::rejected_dispatch(channel, client_seq, &action, reason);
                dispatch.map(|dispatch| Input::Dispatch {
                    conn: self.conn,
                    dispatch: Box::new(dispatch),
                })
            }
        };
        self.take(input).await
    }

    fn request(&self, name: &str, params: Option<&RawValue>) -> Result<Command, RpcError> {
        self.request_of(methods::find(name), name, params)
    }

    fn request_of(
        &self,
        method: Option<&'static Method>,
        name: &str,
        params: Option<&RawValue>,
    ) -> Result<Command, RpcError> {
        let method = method.ok_or_else(|| RpcError::method_not_found(name))?;
        let parse = match method.route {
            Route::Core(parse) => parse,
            Route::Mcp => {
                let params = params.unwrap_or(RawValue::NULL);
                methods::check_channel(method, params)?;
                let request = methods::mcp_request(name, params)?;
                return Ok(Command::Mcp(Box::new(request)));
            }
            Route::Dispatch | Route::Unsubscribe | Route::McpNotification => {
                return Err(RpcError::invalid_request(format!(
                    "{name} is a notification; send it without an id"
                )));
            }
            Route::Unsupported => return Err(RpcError::method_not_found(name)),
        };
        let params = params.unwrap_or(RawValue::NULL);
        // `ping` needs nothing and is answered with any parameters (TRN-08).
        if name != "ping" {
            methods::check_channel(method, params)?;
        }
        parse(params)
    }

    /// Notifications are never answered, so what is wrong with one only shows in the log.
    fn notification(&self, name: &str, params: Option<&RawValue>) -> Option<Input> {
        self.notification_of(name, params, methods::dispatch)
    }

    fn notification_of(
        &self,
        name: &str,
        params: Option<&RawValue>,
        dispatch: fn(&RawValue) -> Result<Dispatch, RpcError>,
    ) -> Option<Input> {
        let method = methods::find(name)?;
        let params = params.unwrap_or(RawValue::NULL);
        let parsed = match method.route {
            Route::Dispatch => dispatch(params).map(|dispatch| Input::Dispatch {
                conn: self.conn,
                dispatch: Box::new(dispatch),
            }),
            Route::Unsubscribe => methods::unsubscribe(params).map(|channel| Input::Unsubscribe {
                conn: self.conn,
                channel,
            }),
            Route::McpNotification => methods::mcp_request(name, params).map(|request| Input::McpNotification {
                conn: self.conn,
                request: Box::new(request),
            }),
            Route::Core(_) | Route::Mcp | Route::Unsupported => return None,
        };
        parsed
            .inspect_err(
                |error| tracing::debug!(conn = %self.conn, method = method.name, problem = error.message, "ignored"),
            )
            .ok()
    }

    /// Sends a request once the connection has a free ticket. Until then nothing more is read, and the socket of the
    /// client pushes back.
    async fn send_request(&mut self, id: RequestId, command: Command) -> Option<()> {
        let ticket = Arc::clone(&self.tickets).acquire_owned().await.ok()?;
        self.inbox
            .send(Message::Request {
                conn: self.conn,
                id,
                command,
                ticket,
            })
            .await
            .ok()
    }

    async fn send(&mut self, input: Input) -> Option<()> {
        self.inbox.send(Message::Core(input)).await.ok()
    }

    fn answer(&self, id: Option<&RequestId>, error: &RpcError) {
        self.outbox.push(Outgoing::Text(encode_error(id, error)));
    }
}

/// The wall clock, in milliseconds since 1970.
fn now_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}

fn refusal(error: &RawValue) -> ClientRequestError {
    let error: Value = serde_json::from_str(error.get()).unwrap_or_default();
    ClientRequestError::Refused {
        code: error.get("code").and_then(Value::as_i64).unwrap_or_default(),
        message: error
            .get("message")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .chars()
            .take(1024)
            .collect(),
    }
}

/// A token bucket: beyond the sustained rate the host simply stops reading, and the peer's own
/// socket pushes back.
struct Budget {
    per_second: f64,
    most: f64,
    left: f64,
    counted: Instant,
}

impl Budget {
    fn new(limits: &Limits) -> Self {
        let most = f64::from(limits.message_burst.max(1));
        Self {
            per_second: f64::from(limits.messages_per_second.max(1)),
            most,
            left: most,
            counted: Instant::now(),
        }
    }

    async fn spend(&mut self) {
        self.left -= 1.0;
        if self.left > 0.0 {
            return;
        }
        let now = Instant::now();
        self.left = (self.left + (now - self.counted).as_secs_f64() * self.per_second).min(self.most);
        self.counted = now;
        if self.left < 0.0 {
            tokio::time::sleep(Duration::from_secs_f64(-self.left / self.per_second)).await;
        }
    }
}

struct Writer<S> {
    sink: S,
    outbox: Arc<Outbox>,
    edge: Arc<Edge>,
    limits: Arc<Limits>,
}

impl<S: Sink> Writer<S> {
    async fn run(mut self) {
        let mut last_write = Instant::now();
        // By the clock and not by silence: a client that only listens to a busy chat must be asked too.
        let mut next_ping = last_write + self.limits.ping_interval;
        loop {
            let next = tokio::select! {
                next = self.outbox.next(last_write.elapsed()) => Some(next),
                () = self.sink.urgent() => Some(Next::Write(Vec::new())),
                () = tokio::time::sleep_until(next_ping) => None,
            };
            let result = match next {
                Some(Next::Write(messages)) => self.write(messages).await,
                Some(Next::Close(close)) => {
                    let _ = tokio::time::timeout(CLOSE_TIME, self.sink.close(close)).await;
                    return;
                }
                None => {
                    next_ping = Instant::now() + self.limits.ping_interval;
                    match tokio::time::timeout(self.limits.write_time, self.sink.ping()).await {
                        Ok(Ok(())) => Ok(()),
                        Ok(Err(_)) | Err(_) => Err(Close::Gone),
                    }
                }
            };
            if let Err(close) = result {
                self.outbox.close(close);
                return;
            }
            last_write = Instant::now();
        }
    }

    /// Writes a batch. Once the connection is to be closed, because the peer fell behind beyond
    /// its bound or the host is going down, what is under way has a moment left and no more.
    async fn write(&mut self, messages: Vec<Wire>) -> Result<(), Close> {
        let messages = match self.edge.is_native() {
            true => messages,
            false => self.edge.down(messages),
        };
        let outbox = Arc::clone(&self.outbox);
        let cut_short = async {
            outbox.closed().await;
            tokio::time::sleep(CLOSE_TIME).await;
        };
        tokio::select! {
            written = self.sink.write(messages) => written.map_err(|error| match error.kind() {
                io::ErrorKind::TimedOut => Close::TooSlow,
                io::ErrorKind::InvalidData => {
                    tracing::error!(%error, "an answer could not be read to its end; its connection is closed");
                    Close::Failed
                }
                _ => Close::Gone,
            }),
            // In the middle of a message, so there is no way to say why.
            () = cut_short => Err(Close::TooSlow),
        }
    }
}

/// Time for a last word.
const CLOSE_TIME: Duration = Duration::from_secs(2);
