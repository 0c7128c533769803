//! One client of an older version: its requests, its messages and its mirror.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use innkeeper_core::{Command, ConnId, Input, RequestId, Version};
use innkeeper_dialects::Up;
use innkeeper_host::rpc::methods::{self, Route};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::{NewOlderMirror, OlderMirror, SimEdge, TranslationBug};
use crate::sim::Violation;
use crate::sim::changes::is_part;
use crate::sim::client::queue::{Marker, Queue, Read};

/// The code of `reconnect` for a client that the host does not know (NEG-22).
const UNKNOWN_CLIENT: i64 = -32008;

/// A client of an older version.
#[derive(Debug)]
pub(in crate::sim) struct OlderClient {
    pub(in crate::sim) id: String,
    pub(in crate::sim) mirror: Box<dyn OlderMirror>,
    /// Its transport, if it has one.
    pub(in crate::sim) conn: Option<ConnId>,
    /// Whether the handshake was answered.
    pub(in crate::sim) is_ready: bool,
    /// Whether it merges adjacent appends.
    pub(in crate::sim) coalesces: bool,
    pub(in crate::sim) queue: Queue,
    /// The channels whose snapshot it has read.
    pub(in crate::sim) channels: BTreeSet<String>,
    bug: Option<TranslationBug>,
    asked: BTreeMap<u64, SentRequest>,
    dispatched: BTreeMap<i64, Dispatched>,
    next_client_seq: i64,
    last_seen: u64,
}

/// A request without an answer.
#[derive(Debug)]
enum SentRequest {
    Initialize,
    Reconnect,
    Subscribe,
    Other,
}

/// An action and how often the host has answered it.
#[derive(Debug)]
struct Dispatched {
    action: Value,
    outcomes: u32,
}

/// The reaction to a message.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::sim) enum Reaction {
    /// Starts over, because the host does not know the client.
    Initialize,
    /// Comes back on another transport, because an answer could not be finished.
    ComeBack,
}

impl OlderClient {
    pub(in crate::sim) fn new(id: String, new_mirror: NewOlderMirror, bug: Option<TranslationBug>) -> Self {
        Self {
            id,
            mirror: new_mirror(),
            conn: None,
            is_ready: false,
            coalesces: false,
            queue: Queue::default(),
            channels: BTreeSet::new(),
            bug,
            asked: BTreeMap::new(),
            dispatched: BTreeMap::new(),
            next_client_seq: 1,
            last_seen: 0,
        }
    }

    pub(in crate::sim) fn version(&self) -> Version {
        self.mirror.version()
    }

    /// Opens a transport.
    pub(in crate::sim) fn open(&mut self, conn: ConnId) {
        self.conn = Some(conn);
        self.is_ready = false;
        self.queue = Queue::default();
        self.queue.translate(SimEdge::new(self.version(), &self.id, self.bug));
        self.asked.clear();
        self.dispatched.clear();
    }

    /// Loses its transport and everything it has not read.
    pub(in crate::sim) fn lose(&mut self) -> Option<ConnId> {
        self.is_ready = false;
        let unread = std::mem::take(&mut self.queue).into_markers();
        for marker in unread {
            if let Marker::Gone(gone) = marker {
                self.forget_gone(&gone);
            }
        }
        self.conn.take()
    }

    pub(in crate::sim) fn forget(&mut self, channel: &str) {
        self.channels.remove(channel);
        self.mirror.forget(channel);
    }

    /// Forgets channels that are gone, and the views and annotations that went with them.
    fn forget_gone(&mut self, gone: &[String]) {
        let is_part_of = |part: &str, owner: &String| {
            let rest = part.strip_prefix(owner.as_str());
            rest.is_some_and(|rest| rest.starts_with('/') && is_part(part))
        };
        let parts = self.channels.iter();
        let parts = parts.filter(|channel| gone.iter().any(|owner| is_part_of(channel, owner)));
        let all: Vec<String> = parts.chain(gone).cloned().collect();
        all.iter().for_each(|channel| self.forget(channel));
    }

    /// `initialize` as its version says it.
    pub(in crate::sim) fn initialize(&mut self, id: u64) -> Result<Input, Violation> {
        let channels: Vec<String> = std::mem::take(&mut self.channels).into_iter().collect();
        channels.iter().for_each(|channel| self.mirror.forget(channel));
        let subscriptions: BTreeSet<&str> = channels
            .iter()
            .map(String::as_str)
            .chain([self.mirror.root()])
            .collect();
        let mut params = json!({ "clientId": self.id, "initialSubscriptions": subscriptions });
        match self.version().has_channels() {
            true => params["protocolVersions"] = json!([self.version().as_str()]),
            false => params["protocolVersion"] = 1.into(),
        }
        self.request(id, SentRequest::Initialize, "initialize", params)
    }

    /// `reconnect` as its version says it.
    pub(in crate::sim) fn reconnect(&mut self, id: u64) -> Result<Input, Violation> {
        let params =
            json!({ "clientId": self.id, "lastSeenServerSeq": self.last_seen, "subscriptions": self.channels });
        self.request(id, SentRequest::Reconnect, "reconnect", params)
    }

    /// `subscribe`, with the latest turns of a chat only if its version can ask for that.
    pub(in crate::sim) fn subscribe(
        &mut self,
        id: u64,
        channel: &str,
        turns: Option<usize>,
    ) -> Result<Input, Violation> {
        let subject = if self.version().has_channels() {
            "channel"
        } else {
            "resource"
        };
        let mut params = json!({ subject: channel });
        if let Some(turns) = turns.filter(|_| self.version().pages_turns()) {
            params["view"] = json!({ "turns": turns });
        }
        self.request(id, SentRequest::Subscribe, "subscribe", params)
    }

    /// The next page of older turns, if its version loads them in pages and there are some.
    pub(in crate::sim) fn fetch_turns(&mut self, id: u64) -> Option<Result<Input, Violation>> {
        if !self.version().pages_turns() {
            return None;
        }
        let (channel, cursor) = self.channels.iter().find_map(|channel| {
            let cursor = self.mirror.state(channel)?.get("turnsNextCursor")?.as_str()?.to_owned();
            Some((channel.clone(), cursor))
        })?;
        let params = json!({ "channel": channel, "cursor": cursor });
        Some(self.request(id, SentRequest::Other, "fetchTurns", params))
    }

    /// Invokes an operation of a view, perhaps on one file.
    pub(in crate::sim) fn invoke(
        &mut self,
        id: u64,
        view: &str,
        operation: &str,
        file: Option<String>,
    ) -> Result<Input, Violation> {
        let mut params = json!({ "channel": view, "operationId": operation });
        if let Some(file) = file {
            params["target"] = json!({ "kind": "resource", "resource": file });
        }
        self.request(id, SentRequest::Other, "invokeChangesetOperation", params)
    }

    fn request(&mut self, id: u64, asked: SentRequest, method: &str, params: Value) -> Result<Input, Violation> {
        let conn = self.conn.ok_or_else(|| Violation::new("no transport"))?;
        self.asked.insert(id, asked);
        let id = RequestId::number(id);
        let params = raw(&params)?;
        let (method, params) = match self.queue.edge() {
            Some(edge) => edge.up_request(&id, method, Some(&params)),
            None => (
                method.to_owned(),
                serde_json::from_str(params.get()).unwrap_or_default(),
            ),
        };
        let command = command(&method, &params).map_err(|problem| self.violation(format!("{method}: {problem}")))?;
        Ok(Input::Request { conn, id, command })
    }

    /// `unsubscribe`.
    pub(in crate::sim) fn unsubscribe(&mut self, channel: &str, now_ms: i64) -> Result<Vec<Input>, Violation> {
        let subject = if self.version().has_channels() {
            "channel"
        } else {
            "resource"
        };
        self.forget(channel);
        self.notify("unsubscribe", &json!({ subject: channel }), now_ms)
    }

    /// Dispatches an action.
    pub(in crate::sim) fn dispatch(
        &mut self,
        channel: &str,
        mut action: Value,
        now_ms: i64,
    ) -> Result<Vec<Input>, Violation> {
        let client_seq = self.next_client_seq;
        self.next_client_seq += 1;
        let mut params = json!({ "clientSeq": client_seq });
        match self.version().has_channels() {
            true => params["channel"] = channel.into(),
            false => action["session"] = channel.into(),
        }
        params["action"] = action.clone();
        self.dispatched.insert(client_seq, Dispatched { action, outcomes: 0 });
        self.notify("dispatchAction", &params, now_ms)
    }

    fn notify(&self, method: &str, params: &Value, now_ms: i64) -> Result<Vec<Input>, Violation> {
        let conn = self.conn.ok_or_else(|| Violation::new("no transport"))?;
        let raw_params = raw(params)?;
        let up = match self.queue.edge() {
            Some(edge) => edge.up_notification(method, Some(&raw_params), now_ms),
            None => Up::Forward {
                method: method.to_owned(),
                params: params.clone(),
            },
        };
        let input = match up {
            Up::Forward { method, params } => notification(conn, &method, &params)
                .map_err(|problem| self.violation(format!("{method} {params}: {problem}")))?,
            Up::Reject {
                channel,
                client_seq,
                action,
                reason,
            } => match methods::rejected_dispatch(channel, client_seq, &action, reason) {
                Some(dispatch) => Input::Dispatch {
                    conn,
                    dispatch: Box::new(dispatch),
                },
                None => return Err(self.violation("a rejection cannot be written".to_owned())),
            },
        };
        Ok(vec![input])
    }

    /// Reads up to `frames` messages.
    pub(in crate::sim) fn read(&mut self, frames: usize) -> Result<Vec<Reaction>, Violation> {
        let mut reactions = Vec::new();
        for read in self.queue.read(frames, self.coalesces) {
            match read {
                Read::Message(bytes) => {
                    let reaction = self.message(&bytes).map_err(|problem| self.violation(problem))?;
                    reactions.extend(reaction);
                }
                Read::Marker(Marker::Gone(channels)) => self.forget_gone(&channels),
                Read::Marker(_) => {}
                Read::Unwritable => reactions.push(Reaction::ComeBack),
            }
        }
        Ok(reactions)
    }

    fn message(&mut self, bytes: &Bytes) -> Result<Option<Reaction>, String> {
        let message: Value = serde_json::from_slice(bytes).map_err(|error| format!("not JSON: {error}"))?;
        if message["method"] == "action" {
            return self.action(&message["params"]).map(|()| None);
        }
        match message["id"].as_u64() {
            Some(id) => self.answer(id, &message),
            // Announcements of sessions.
            None => Ok(None),
        }
    }

    fn answer(&mut self, id: u64, message: &Value) -> Result<Option<Reaction>, String> {
        let asked = self.asked.remove(&id);
        let asked = asked.ok_or_else(|| format!("an answer to nothing: {message}"))?;
        if let Some(error) = message.get("error") {
            return match asked {
                SentRequest::Reconnect if error["code"] == UNKNOWN_CLIENT => Ok(Some(Reaction::Initialize)),
                // The channel, or the cursor, may be gone.
                SentRequest::Subscribe | SentRequest::Other => Ok(None),
                SentRequest::Initialize | SentRequest::Reconnect => Err(format!("a handshake is refused: {message}")),
            };
        }
        let result = &message["result"];
        match asked {
            SentRequest::Initialize => {
                self.is_ready = true;
                self.last_seen = result["serverSeq"].as_u64().unwrap_or_default();
                self.show_all(&result["snapshots"])?;
            }
            SentRequest::Subscribe => self.show(&result["snapshot"])?,
            SentRequest::Reconnect => {
                self.is_ready = true;
                if result["type"] == "replay" {
                    for params in result["actions"].as_array().into_iter().flatten() {
                        self.action(params)?;
                    }
                    for missing in result["missing"].as_array().into_iter().flatten() {
                        self.forget(missing.as_str().unwrap_or_default());
                    }
                } else {
                    for channel in std::mem::take(&mut self.channels) {
                        self.mirror.forget(&channel);
                    }
                    self.show_all(&result["snapshots"])?;
                }
            }
            SentRequest::Other => {}
        }
        Ok(None)
    }

    fn show_all(&mut self, snapshots: &Value) -> Result<(), String> {
        let mut snapshots = snapshots.as_array().into_iter().flatten();
        snapshots.try_for_each(|snapshot| self.show(snapshot))
    }

    fn show(&mut self, snapshot: &Value) -> Result<(), String> {
        let from_seq = snapshot["fromSeq"].as_u64().unwrap_or_default();
        if from_seq < self.last_seen {
            return Err(format!("a snapshot of {from_seq} after {}", self.last_seen));
        }
        self.last_seen = from_seq;
        self.mirror.show(snapshot)?;
        self.channels
            .insert(snapshot["resource"].as_str().unwrap_or_default().to_owned());
        Ok(())
    }

    fn action(&mut self, params: &Value) -> Result<(), String> {
        let seq = params["serverSeq"].as_u64().unwrap_or_default();
        if seq < self.last_seen {
            return Err(format!("serverSeq {seq} after {}: {params}", self.last_seen));
        }
        self.last_seen = seq;
        let is_own = params["origin"]["clientId"] == self.id.as_str();
        let own = params["origin"]["clientSeq"].as_i64().filter(|_| is_own);
        let rejection = params.get("rejectionReason").filter(|reason| !reason.is_null());
        if let Some(dispatched) = own.and_then(|client_seq| self.dispatched.get_mut(&client_seq)) {
            dispatched.outcomes += 1;
            let is_same = match rejection {
                Some(_) => params["action"] == dispatched.action,
                None => params["action"]["type"] == dispatched.action["type"],
            };
            if dispatched.outcomes > 1 || !is_same {
                return Err(format!("{} is answered with {params}", dispatched.action));
            }
        }
        match rejection {
            Some(_) if own.is_some() => Ok(()),
            Some(_) => Err(format!("a rejection of another client's action: {params}")),
            None => self.mirror.reduce(params),
        }
    }

    pub(in crate::sim) fn violation(&self, problem: String) -> Violation {
        Violation::new(format!("{} ({}): {problem}", self.id, self.version()))
    }
}

fn raw(params: &Value) -> Result<Box<RawValue>, Violation> {
    to_raw_value(params).map_err(|error| Violation::new(format!("the simulator wrote bad JSON: {error}")))
}

fn command(method: &str, params: &Value) -> Result<Command, String> {
    let row = methods::find_older(method).ok_or("there is no such method")?;
    let Route::Core(parse) = row.route else {
        return Err("it is not for the core".to_owned());
    };
    let params = to_raw_value(params).map_err(|error| error.to_string())?;
    methods::check_channel(row, &params).map_err(|error| error.message)?;
    parse(&params).map_err(|error| error.message)
}

fn notification(conn: ConnId, method: &str, params: &Value) -> Result<Input, String> {
    let params = to_raw_value(params).map_err(|error| error.to_string())?;
    match method {
        "unsubscribe" => {
            let channel = methods::unsubscribe(&params).map_err(|error| error.message)?;
            Ok(Input::Unsubscribe { conn, channel })
        }
        _ => {
            let dispatch = methods::older_dispatch(&params).map_err(|error| error.message)?;
            Ok(Input::Dispatch {
                conn,
                dispatch: Box::new(dispatch),
            })
        }
    }
}
