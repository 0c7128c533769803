//! One connection: a task that reads and a task that writes, so that neither waits for the other.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use innkeeper_core::frame::encode_error;
use innkeeper_core::{Command, ConnId, Input, Outgoing, Principal, RequestId, RpcError, Scope, Wire, error::code};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::Instant;

use crate::host::HostHandle;
use crate::limits::Limits;
use crate::main_loop::Message;
pub use crate::net::close::Close;
use crate::net::outbox::{Next, Outbox};
use crate::net::reverse_requests::ClientRequestError;
use crate::net::transport::{Received, Sink, Source};
use crate::net::working_directories;
use crate::rpc::methods::{self, Route};
use crate::rpc::{self, Shape};
use crate::services::completions::Files;

/// Serves one connection until it ends.
///
/// The reader runs in the caller's task and the writer in its own: the host still reads from a client that does not
/// read, and still answers one that floods it.
pub async fn serve(host: HostHandle, source: impl Source, sink: impl Sink, principal: Principal) {
    let may_drive = principal.scope >= Scope::Drive;
    let Some((conn, outbox)) = host.attach(principal).await else {
        return;
    };
    let writer = Writer {
        sink,
        outbox: Arc::clone(&outbox),
        limits: host.limits(),
    };
    let writing = host.tasks().spawn(writer.run());
    let mut reader = Reader {
        source,
        conn,
        inbox: host.inbox(),
        outbox: Arc::clone(&outbox),
        budget: Budget::new(&host.limits()),
        tickets: Arc::new(Semaphore::new(host.limits().requests_in_flight)),
        limits: host.limits(),
        files: may_drive.then(|| host.files()),
    };
    let close = reader.run().await;
    // A peer that only stopped sending still gets its answers: the main loop, which has everything
    // it sent before, closes the connection when it comes to its end.
    if close != Close::Gone {
        outbox.close(close);
    }
    let _ = host.inbox().send(Message::Core(Input::Disconnected { conn })).await;
    let _ = host.inbox().send(Message::Detached { conn }).await;
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
        let patience = self.limits.ping_interval * 3;
        let answers_pings = self.source.answers_pings();
        loop {
            let received = tokio::select! {
                received = self.source.next() => received,
                close = self.outbox.closed() => return close,
                () = tokio::time::sleep(patience), if answers_pings => return Close::Silent,
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
            Ok(rpc::Message::Request { id, method, params }) => match self.request(&method, params) {
                Ok(command) => {
                    if let Some(files) = &self.files
                        && let Err(error) = working_directories::check_request(&**files, &command).await
                    {
                        self.answer(Some(&id), &error);
                        return Some(());
                    }
                    self.send_request(id, command).await
                }
                Err(error) => {
                    self.answer(Some(&id), &error);
                    Some(())
                }
            },
            Ok(rpc::Message::Notification { method, params }) => match self.notification(&method, params) {
                Some(mut input) => {
                    if let (Input::Dispatch { dispatch, .. }, Some(files)) = (&mut input, &self.files) {
                        working_directories::check_action(&**files, dispatch).await;
                    }
                    self.send(input).await
                }
                None => Some(()),
            },
            Ok(rpc::Message::Response { id, outcome }) => {
                let outcome = match outcome {
                    Ok(result) => serde_json::from_str(result.get()).map_err(|_| ClientRequestError::Disconnected),
                    Err(error) => Err(refusal(error)),
                };
                self.inbox
                    .send(Message::ClientAnswered {
                        conn: self.conn,
                        id,
                        outcome,
                    })
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

    fn request(&self, name: &str, params: Option<&RawValue>) -> Result<Command, RpcError> {
        let method = methods::find(name).ok_or_else(|| RpcError::method_not_found(name))?;
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
        let method = methods::find(name)?;
        let params = params.unwrap_or(RawValue::NULL);
        let parsed = match method.route {
            Route::Dispatch => methods::dispatch(params).map(|dispatch| Input::Dispatch {
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
