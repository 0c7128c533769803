//! The translation of one connection, in both directions.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::action::{Action, Situation};
use crate::json::{Object, text};
use crate::memory::{Dispatched, Memory};
use crate::state::Around;
use crate::steps::{self, Notification, Request};
use crate::streamed::StreamedHead;
use crate::version::Version;
use crate::walk;

/// The URI of the root channel.
pub(crate) const ROOT: &str = "ahp-root://";

/// The methods whose results differ between versions, by their names in 1.0.
const TRANSLATED_RESULTS: [&str; 4] = [
    "listSessions",
    "innkeeper/fetchTurnsBefore",
    "resolveSessionConfig",
    "completions",
];

/// One connection whose client speaks an older version: both directions, and what it has to remember between messages.
#[derive(Debug)]
pub struct Translator {
    version: Version,
    memory: Memory,
}

/// The translation of a notification from the client.
#[derive(Debug, Clone, PartialEq)]
pub enum Up {
    /// Handed on as if a client of 1.0 had sent it.
    Forward {
        /// The method.
        method: String,
        /// Its parameters.
        params: Value,
    },
    /// A dispatch that cannot be done. Its author gets a rejection with its own JSON; the core numbers it.
    Reject {
        /// The channel, in the words of 1.0.
        channel: String,
        /// The client's number of the dispatch.
        client_seq: i64,
        /// The action as the client sent it.
        action: Value,
        /// The reason.
        reason: String,
    },
}

impl Translator {
    /// A connection whose client speaks this version and has this id.
    pub fn new(version: Version, client_id: &str) -> Self {
        Self {
            version,
            memory: Memory::new(client_id),
        }
    }

    /// Remembers the sessions of so many subscriptions, which is as many as the client can have.
    pub fn with_subscriptions(mut self, max: usize) -> Self {
        self.memory.set_max_sessions(max);
        self
    }

    /// The version of the client.
    pub fn version(&self) -> Version {
        self.version
    }

    /// From now on the client sees this chat as that session (0.3 and older). Called when the snapshot goes out that
    /// shows them together.
    pub fn shows_chat_as(&mut self, chat: &str, session: &str, is_read: bool) {
        self.memory.show_chat_as(chat, session, is_read, self.version);
    }

    /// Translates streamed output without parsing it, for a chat that is shown as its session (0.3 and older): the bytes
    /// with which the message begins for the client, and the number of bytes that they replace. `message` is a
    /// `chat/delta` or `chat/reasoning` without an origin.
    pub fn streamed_head(&self, message: &[u8]) -> Option<(Arc<[u8]>, usize)> {
        self.memory.streamed_head(message).map(StreamedHead::replacement)
    }

    /// A snapshot of a session goes out, alone or together with its chat: `state` is its state in 1.0. Needed up to 0.4,
    /// where a client may change only the tools of its entry.
    pub fn shows_session(&mut self, session: &str, state: &Map<String, Value>) {
        self.memory.learn_session(session, state);
    }

    /// Translates a request to its method and its parameters in 1.0. `id` is its raw JSON; the answer finds its method
    /// by it.
    pub fn up_request(&mut self, id: &str, method: &str, params: Value) -> (String, Value) {
        let (method, params) = self.up_params(method, params);
        if TRANSLATED_RESULTS.contains(&method.as_str())
            && let Some(id) = plain_id(id)
        {
            self.memory.begin_request(id, method.clone());
        }
        if method == "createSession"
            && self.version.has_one_active_client()
            && let (Some(session), Some(client)) = (params.get("channel"), params.get("activeClient"))
        {
            let session = session.as_str().unwrap_or_default();
            self.memory.learn_client(session, Some(client));
        }
        (method, params)
    }

    /// Translates a notification.
    pub fn up_notification(&mut self, method: &str, params: Value, now_ms: i64) -> Up {
        match (method, params) {
            ("dispatchAction", Value::Object(params)) => self.up_dispatch(params, now_ms),
            (method, params) => {
                let (method, params) = self.up_params(method, params);
                if method == "unsubscribe"
                    && let Some(channel) = params.get("channel").and_then(Value::as_str)
                {
                    self.memory.leave(channel);
                }
                Up::Forward { method, params }
            }
        }
    }

    /// Translates one encoded `action` message into the messages that take its place, perhaps none. `before` is the
    /// state of its channel before it, in 1.0, for actions that need it.
    pub fn down_action(&mut self, message: &[u8], before: Option<&Value>) -> Vec<Vec<u8>> {
        let Some(envelope) = Envelope::parse(message) else {
            // The host encodes its actions itself, so this cannot happen. The client ignores what it does not know.
            return vec![message.to_vec()];
        };
        self.down_envelope(envelope, before.and_then(Value::as_object))
    }

    /// Translates any other encoded message that carries no snapshot: a response, a notification, a rejection, a
    /// request of the host. `None` sends nothing.
    pub fn down_text(&mut self, message: &[u8]) -> Option<Vec<u8>> {
        let Ok(Value::Object(mut text)) = serde_json::from_slice(message) else {
            // A rejection repeats the client's own JSON, which may have numbers that do not fit.
            return Some(message.to_vec());
        };
        let method = text.get("method").and_then(Value::as_str).map(str::to_owned);
        match method {
            None => self.down_response(&mut text),
            Some(_) if text.contains_key("id") => return self.down_reverse_request(message),
            Some(method) if method == "action" => return self.down_rejection(message),
            Some(method) => self.down_notification(method, &mut text)?,
        }
        Some(Value::Object(text).to_string().into_bytes())
    }

    /// Translates the parameters of anything but a dispatch.
    fn up_params(&mut self, method: &str, params: Value) -> (String, Value) {
        let params = match params {
            Value::Object(params) => params,
            // Up to 0.1 there are methods without any.
            Value::Null if !self.version.has_channels() => Object::new(),
            params => return (method.to_owned(), params),
        };
        let mut request = Request {
            method: method.to_owned(),
            params,
        };
        for step in steps::up_from(self.version) {
            walk::up_request(step, &mut request);
            step.up_request(&mut request, &self.memory);
        }
        (request.method, Value::Object(request.params))
    }

    fn up_dispatch(&mut self, mut params: Object, now_ms: i64) -> Up {
        let method = "dispatchAction".to_owned();
        let client_seq = params.get("clientSeq").and_then(Value::as_i64);
        let (Some(client_seq), Some(Value::Object(body))) = (client_seq, params.get("action")) else {
            // The core says which member is wrong.
            let params = Value::Object(params);
            return Up::Forward { method, params };
        };
        let dispatched = Dispatched {
            channel: text(&params, "channel").map(str::to_owned),
            action: Value::Object(body.clone()),
        };
        let mut action = Action {
            channel: dispatched.channel.clone().unwrap_or_default(),
            body: body.clone(),
            is_extra: false,
        };
        self.memory.begin_dispatch(client_seq, dispatched);
        for step in steps::up_from(self.version) {
            walk::up_dispatch(step, &mut action);
            if let Err(reason) = step.up_dispatch(&mut action, &self.memory, now_ms) {
                return Up::Reject {
                    channel: action.channel,
                    client_seq,
                    action: params.shift_remove("action").unwrap_or_default(),
                    reason,
                };
            }
        }
        if self.version.has_one_active_client() {
            self.memory.learn_action(&action);
        }
        if params.contains_key("channel") || !self.version.has_channels() {
            params.insert("channel".to_owned(), action.channel.into());
        }
        params.insert("action".to_owned(), Value::Object(action.body));
        let params = Value::Object(params);
        Up::Forward { method, params }
    }

    fn down_envelope(&mut self, envelope: Envelope, before: Option<&Object>) -> Vec<Vec<u8>> {
        let dispatched = self.dispatched(&envelope);
        if self.version.has_one_active_client() {
            self.memory.learn_action(&envelope.action);
        }
        let own = dispatched.as_ref().map(|dispatched| &dispatched.action);
        let actions = self.down(envelope.action, before, own);
        let envelope = Rest(envelope.rest);
        if actions.is_empty() {
            // Authors wait for their own action, also if it changes nothing that they can see.
            let own =
                dispatched.map(|dispatched| envelope.encode(dispatched.channel, dispatched.action, Origin::Shown));
            return own.into_iter().collect();
        }
        let author = own.and_then(|own| own.get("type")).and_then(Value::as_str);
        let of_author = actions.iter().position(|action| Some(action.kind()) == author);
        let of_author = of_author.or_else(|| actions.iter().position(|action| !action.is_extra));
        let of_author = of_author.unwrap_or(actions.len() - 1);
        let encode = |(index, action): (usize, Action)| {
            let origin = if index == of_author {
                Origin::Shown
            } else {
                Origin::Hidden
            };
            let channel = self.version.has_channels().then_some(action.channel);
            envelope.encode(channel, Value::Object(action.body), origin)
        };
        actions.into_iter().enumerate().map(encode).collect()
    }

    /// Takes an action down the ladder.
    fn down(&mut self, action: Action, before: Option<&Object>, dispatched: Option<&Value>) -> Vec<Action> {
        let mut before = before.cloned();
        let kind = action.kind().split('/').next().unwrap_or_default().to_owned();
        let around = Around {
            own_client_id: self.memory.client_id().to_owned(),
            ..Around::default()
        };
        let mut actions = vec![action];
        for step in steps::down_to(self.version) {
            let situation = Situation {
                before: before.as_ref(),
                dispatched,
            };
            let below = |action| steps::down_action(step, action, &situation, &mut self.memory);
            actions = actions.into_iter().flat_map(below).collect();
            if actions.is_empty() {
                return actions;
            }
            if let Some(before) = &mut before {
                match kind.as_str() {
                    "chat" => walk::chat(step, before),
                    "session" => walk::session(step, before, &around),
                    kind => step.other(kind, before),
                }
            }
        }
        for step in steps::last(self.version) {
            actions.retain(|action| !step.finish_action(action));
        }
        actions
    }

    /// The client's own action that an envelope answers.
    fn dispatched(&mut self, envelope: &Envelope) -> Option<Dispatched> {
        let origin = envelope.rest.get("origin")?.as_object()?;
        let is_own = text(origin, "clientId") == Some(self.memory.client_id());
        let client_seq = origin.get("clientSeq").and_then(Value::as_i64).filter(|_| is_own)?;
        self.memory.end_dispatch(client_seq)
    }

    fn down_rejection(&mut self, message: &[u8]) -> Option<Vec<u8>> {
        let Some(envelope) = Envelope::parse(message) else {
            return Some(message.to_vec());
        };
        let dispatched = self.dispatched(&envelope);
        let rest = Rest(envelope.rest);
        match dispatched {
            Some(Dispatched { channel, action }) => Some(rest.encode(channel, action, Origin::Shown)),
            // Forgotten, because there were too many: the client knows it by its number.
            None => {
                let channel = self.version.has_channels().then_some(envelope.action.channel);
                Some(rest.encode(channel, Value::Object(envelope.action.body), Origin::Shown))
            }
        }
    }

    fn down_notification(&mut self, method: String, message: &mut Object) -> Option<()> {
        let Some(Value::Object(params)) = message.get_mut("params").map(Value::take) else {
            return Some(());
        };
        let mut notification = Notification { method, params };
        for step in steps::down_to(self.version) {
            walk::notification(step, &mut notification);
            notification = step.notification(notification)?;
        }
        message.insert("method".to_owned(), notification.method.into());
        message.insert("params".to_owned(), Value::Object(notification.params));
        Some(())
    }

    fn down_response(&mut self, message: &mut Object) {
        let id = message.get("id").map(Value::to_string);
        let Some(method) = id.and_then(|id| self.memory.end_request(&id)) else {
            return;
        };
        if let Some(Value::Object(result)) = message.get_mut("result") {
            steps::down_to(self.version).for_each(|step| walk::result(step, &method, result));
        }
    }

    fn down_reverse_request(&self, message: &[u8]) -> Option<Vec<u8>> {
        self.version.has_reverse_requests().then(|| message.to_vec())
    }
}

/// The raw JSON of a request's id as a response shows it.
fn plain_id(id: &str) -> Option<String> {
    let id: Value = serde_json::from_str(id).ok()?;
    Some(id.to_string())
}

/// The parameters of an `action` message.
struct Envelope {
    action: Action,
    /// `serverSeq`, `origin`, `rejectionReason`.
    rest: Object,
}

impl Envelope {
    fn parse(message: &[u8]) -> Option<Self> {
        let mut message: Value = serde_json::from_slice(message).ok()?;
        let Value::Object(mut rest) = message.get_mut("params")?.take() else {
            return None;
        };
        let (Value::String(channel), Value::Object(body)) =
            (rest.shift_remove("channel")?, rest.shift_remove("action")?)
        else {
            return None;
        };
        let is_extra = false;
        let action = Action {
            channel,
            body,
            is_extra,
        };
        Some(Self { action, rest })
    }
}

/// Whether an envelope names its author.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    Shown,
    Hidden,
}

/// An envelope without its channel and its action.
struct Rest(Object);

impl Rest {
    fn encode(&self, channel: Option<String>, action: Value, origin: Origin) -> Vec<u8> {
        let mut params = Object::new();
        if let Some(channel) = channel {
            params.insert("channel".to_owned(), channel.into());
        }
        params.insert("action".to_owned(), action);
        for (key, value) in &self.0 {
            if key != "origin" || origin == Origin::Shown {
                params.insert(key.clone(), value.clone());
            }
        }
        let mut message = Object::new();
        message.insert("jsonrpc".to_owned(), "2.0".into());
        message.insert("method".to_owned(), "action".into());
        message.insert("params".to_owned(), Value::Object(params));
        Value::Object(message).to_string().into_bytes()
    }
}

#[cfg(test)]
mod tests;
