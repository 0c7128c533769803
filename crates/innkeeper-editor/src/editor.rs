//! An editor: takes its messages and the news of the host, and collects what is to be sent to both. It has no IO.

mod follow;
mod prompts;
mod sessions;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, HashSet};

use ahp_types::ROOT_RESOURCE_URI;
use ahp_types::actions::{ActionEnvelope, StateAction};
use innkeeper_acp_wire::{Incoming, RpcError, code};
use innkeeper_cli::connection::contents::Contents;
use innkeeper_cli::connection::link::{LinkEvent, Order, Ticket};
use innkeeper_cli::connection::mirror::Mirror;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::from_editor::Abilities;
use crate::questions;

use follow::Extent;
use sessions::{Session, Stage};

/// The version of ACP.
const VERSION: u64 = 1;

/// The state of one editor.
#[derive(Debug, Default)]
pub(crate) struct Editor {
    /// The agent of new sessions, if the command line names one.
    provider: Option<String>,
    abilities: Abilities,
    mirror: Mirror,
    contents: Contents,
    /// The sessions that the editor has open, by their URIs.
    sessions: BTreeMap<String, Session>,
    /// The terminals that are subscribed to.
    terminals: HashSet<String>,
    /// The meanings of requests and actions without an outcome.
    purposes: HashMap<Ticket, Purpose>,
    last_ticket: Ticket,
    /// The questions that the editor has not answered, by the ids of its requests: the session and the input.
    asked: HashMap<i64, (String, String)>,
    /// Connections so far.
    connections: u64,
    /// The reason why there is no connection.
    lost: Option<String>,
    orders: Vec<Order>,
    outgoing: Vec<Outgoing>,
}

/// A message for the editor.
#[derive(Debug, PartialEq)]
pub(crate) enum Outgoing {
    /// The answer to a request.
    Answer(Value, Result<Value, RpcError>),
    /// A notification.
    Notify(&'static str, Value),
    /// A request about an input that a session waits for.
    Ask {
        session: String,
        input: String,
        method: &'static str,
        params: Value,
    },
}

/// The meaning of a request to the host, or of an action.
#[derive(Debug)]
enum Purpose {
    /// A session was created.
    Created(String),
    /// The session of another agent makes room for one of the chosen agent.
    Replaced(String),
    /// A page of the list, and the directory whose sessions the editor wants.
    Listed(Value, Option<String>),
    /// A session was deleted.
    Deleted(Value),
    /// A message of the editor.
    Prompted(String, Value),
    /// A setting of a session.
    Set(String, Value),
    /// The contents of a file.
    Content(String),
    /// Earlier turns of a session.
    Fetched(String),
    /// The commands of a session.
    Commands(String),
    /// Nothing follows.
    Ignore,
}

impl Editor {
    /// Creates an editor whose new sessions have the agent that the command line names.
    pub(crate) fn new(provider: Option<String>) -> Self {
        Self {
            provider,
            ..Self::default()
        }
    }

    /// Returns what is to be sent to the host.
    pub(crate) fn take_orders(&mut self) -> Vec<Order> {
        std::mem::take(&mut self.orders)
    }

    /// Returns what is to be sent to the editor.
    pub(crate) fn take_outgoing(&mut self) -> Vec<Outgoing> {
        std::mem::take(&mut self.outgoing)
    }

    /// Remembers the id of a request about an input.
    pub(crate) fn was_asked(&mut self, id: i64, session: String, input: String) {
        if let Some(open) = self.sessions.get_mut(&session) {
            open.asked.insert(input.clone(), Some(id));
        }
        self.asked.insert(id, (session, input));
    }

    /// Takes a message of the editor.
    pub(crate) fn handle_message(&mut self, message: Incoming) {
        match message {
            Incoming::Request { id, method, params } => {
                if let Err(error) = self.handle_request(&id, &method, &params) {
                    self.answer(id, Err(error));
                }
            }
            Incoming::Notification { method, params } => match method.as_str() {
                "session/cancel" => self.cancel(params["sessionId"].as_str().unwrap_or_default()),
                "$/cancel_request" => self.cancel_request(&params["requestId"]),
                _ => {}
            },
            Incoming::Answer { id, outcome } => self.take_answer(id, outcome),
            Incoming::Broken(_) => {}
        }
        self.fetch();
    }

    /// Answers later, or at once with an error.
    fn handle_request(&mut self, id: &Value, method: &str, params: &Value) -> Result<(), RpcError> {
        match method {
            "initialize" => {
                self.abilities = Abilities::read(params);
                self.answer(id.clone(), Ok(initialized()));
                Ok(())
            }
            // There is nothing to sign in to: the host has the accounts of its agents.
            "authenticate" | "logout" => {
                self.answer(id.clone(), Ok(json!({})));
                Ok(())
            }
            "session/new" => self.new_session(id, params),
            "session/load" | "session/resume" => self.load_session(id, method, params),
            "session/list" => self.list_sessions(id, params),
            "session/close" => self.close_session(id, params),
            "session/delete" => self.delete_session(id, params),
            "session/set_mode" => self.set_mode(id, params),
            "session/set_config_option" => self.set_option(id, params),
            "session/prompt" => self.prompt(id, params),
            _ => Err(RpcError::new(
                code::METHOD_NOT_FOUND,
                format!("Innkeeper does not have the method `{method}`"),
            )),
        }
    }

    /// Takes the news of the connection.
    pub(crate) fn handle_link(&mut self, event: LinkEvent) {
        match event {
            LinkEvent::StartingHost | LinkEvent::Connecting => {}
            LinkEvent::Connected(_) => {
                self.lost = None;
                self.connections += 1;
            }
            LinkEvent::Lost(reason) => self.lose(reason),
            LinkEvent::State(snapshot) => {
                let uri = snapshot.resource.clone();
                self.mirror.set(*snapshot);
                self.follow_channel(&uri, Extent::All);
            }
            LinkEvent::Gone(uri) | LinkEvent::SessionRemoved(uri) => self.forget_channel(&uri),
            LinkEvent::Action(envelope) => self.take_action(&envelope),
            LinkEvent::Settled(ticket, rejection) => {
                if let Some(purpose) = self.purposes.remove(&ticket) {
                    self.settle(purpose, rejection);
                }
            }
            LinkEvent::Reply(ticket, result) => {
                if let Some(purpose) = self.purposes.remove(&ticket) {
                    self.take_reply(purpose, result);
                }
            }
            // The list comes behind everything that was missed.
            LinkEvent::Sessions(_) => self.miss_prompts(),
            LinkEvent::SessionAdded(_) | LinkEvent::SessionChanged(..) => {}
        }
        self.fetch();
    }

    fn take_action(&mut self, envelope: &ActionEnvelope) {
        self.mirror.apply(envelope, Timestamp::now());
        if envelope.rejection_reason.is_some() {
            return;
        }
        let scope = match &envelope.action {
            StateAction::ChatTurnStarted(turn) => {
                self.note_start(&envelope.channel, turn);
                Extent::All
            }
            StateAction::ChatTurnComplete(_) | StateAction::ChatTurnCancelled(_) | StateAction::ChatError(_) => {
                Extent::All
            }
            _ if envelope.channel.starts_with("ahp-chat:") || self.terminals.contains(&envelope.channel) => {
                Extent::Chat
            }
            StateAction::SessionCustomizationsChanged(_)
            | StateAction::SessionCustomizationToggled(_)
            | StateAction::SessionCustomizationUpdated(_)
            | StateAction::SessionCustomizationRemoved(_)
            | StateAction::SessionMcpServerStateChanged(_) => {
                self.request_commands(&envelope.channel);
                Extent::All
            }
            _ => Extent::All,
        };
        self.follow_channel(&envelope.channel, scope);
    }

    /// Follows the sessions that a channel belongs to.
    fn follow_channel(&mut self, channel: &str, scope: Extent) {
        let is_everything = channel == ROOT_RESOURCE_URI || self.terminals.contains(channel);
        let concerned: Vec<String> = self
            .sessions
            .iter()
            .filter(|(uri, session)| is_everything || *uri == channel || session.chat.as_deref() == Some(channel))
            .map(|(uri, _)| uri.clone())
            .collect();
        for uri in concerned {
            self.follow(&uri, scope);
        }
    }

    fn follow_all(&mut self) {
        let all: Vec<String> = self.sessions.keys().cloned().collect();
        for uri in all {
            self.follow(&uri, Extent::All);
        }
    }

    /// Requests that were under way have no outcome any more.
    fn lose(&mut self, reason: String) {
        let error = || RpcError::new(code::INTERNAL, reason.clone());
        for (_, purpose) in std::mem::take(&mut self.purposes) {
            match purpose {
                Purpose::Listed(request, _) | Purpose::Deleted(request) | Purpose::Set(_, request) => {
                    self.answer(request, Err(error()));
                }
                Purpose::Commands(session) => {
                    if let Some(session) = self.sessions.get_mut(&session) {
                        session.commands_requested = false;
                    }
                }
                // The turn of a message may run; that is known when the connection is back.
                Purpose::Prompted(..)
                | Purpose::Created(_)
                | Purpose::Replaced(_)
                | Purpose::Content(_)
                | Purpose::Fetched(_)
                | Purpose::Ignore => {}
            }
        }
        let opening = |session: &Session| matches!(session.stage, Stage::Opening { .. });
        let opening: Vec<String> = self
            .sessions
            .iter()
            .filter(|(_, session)| opening(session))
            .map(|(uri, _)| uri.clone())
            .collect();
        for uri in opening {
            self.fail_session(&uri, error());
        }
        // Contents that were on their way are requested again.
        self.contents = Contents::default();
        self.lost = Some(reason);
    }

    /// A channel does not exist any more.
    fn forget_channel(&mut self, channel: &str) {
        self.mirror.forget(channel);
        self.terminals.remove(channel);
        let gone: Vec<String> = self
            .sessions
            .iter()
            .filter(|(uri, session)| *uri == channel || session.chat.as_deref() == Some(channel))
            .filter(|(_, session)| !session.is_being_replaced())
            .map(|(uri, _)| uri.clone())
            .collect();
        for uri in gone {
            let error = RpcError::new(code::NOT_FOUND, format!("the host has no session {uri}"));
            self.fail_session(&uri, error);
        }
    }

    fn settle(&mut self, purpose: Purpose, rejection: Option<String>) {
        match (purpose, rejection) {
            (Purpose::Prompted(session, request), rejection) => self.settle_prompt(&session, &request, rejection),
            (Purpose::Set(session, request), None) => {
                // The action itself follows.
                if let Some(session) = self.sessions.get_mut(&session) {
                    session.due.push(request);
                }
            }
            (Purpose::Set(_, request), Some(reason)) => {
                self.answer(request, Err(RpcError::new(code::INVALID_PARAMS, reason)));
            }
            _ => {}
        }
    }

    fn take_reply(&mut self, purpose: Purpose, result: Result<Value, String>) {
        let error = |reason: String| RpcError::new(code::INTERNAL, reason);
        match (purpose, result) {
            (Purpose::Created(uri), Ok(_)) => self.orders.push(Order::Subscribe(uri)),
            (Purpose::Created(uri), Err(reason)) => {
                let reason = self.lost.clone().unwrap_or(reason);
                self.fail_session(&uri, error(reason));
            }
            // A draft that is gone already is no reason to stop.
            (Purpose::Replaced(uri), _) => self.create(&uri),
            (Purpose::Listed(request, directory), Ok(page)) => {
                self.answer(request, Ok(sessions::page(&page, directory.as_deref())));
            }
            (Purpose::Deleted(request), Ok(_)) => self.answer(request, Ok(json!({}))),
            (Purpose::Listed(request, _) | Purpose::Deleted(request), Err(reason)) => {
                let reason = self.lost.clone().unwrap_or(reason);
                self.answer(request, Err(error(reason)));
            }
            (Purpose::Content(uri), result) => {
                self.contents.take(uri, result.ok());
                self.follow_all();
            }
            // The turns themselves come as an action.
            (Purpose::Fetched(uri), Ok(_)) => self.follow(&uri, Extent::All),
            (Purpose::Fetched(uri), Err(reason)) => self.fail_session(&uri, error(reason)),
            (Purpose::Commands(uri), result) => self.take_commands(&uri, result.ok()),
            (Purpose::Prompted(..) | Purpose::Set(..) | Purpose::Ignore, _) => {}
        }
    }

    /// Takes the answer to a question.
    fn take_answer(&mut self, id: i64, outcome: Result<Value, RpcError>) {
        let Some((session, input)) = self.asked.remove(&id) else {
            return;
        };
        // An editor that cannot ask leaves the question to other clients.
        let Ok(answer) = outcome else {
            return;
        };
        let needed = self
            .mirror
            .sessions
            .get(&session)
            .and_then(|state| state.input_needed.as_deref());
        let request = needed
            .into_iter()
            .flatten()
            .find(|request| questions::input_id(request) == input);
        if let Some((chat, action)) = request.and_then(|request| questions::decision(request, &answer)) {
            self.dispatch(Purpose::Ignore, chat, action);
        }
    }

    /// Requests the contents that updates lacked.
    fn fetch(&mut self) {
        for uri in self.contents.take_wanted() {
            let params = json!({ "channel": ROOT_RESOURCE_URI, "uri": uri });
            self.request(Purpose::Content(uri), "resourceRead", params);
        }
    }

    fn ticket(&mut self, purpose: Purpose) -> Ticket {
        self.last_ticket += 1;
        self.purposes.insert(self.last_ticket, purpose);
        self.last_ticket
    }

    fn request(&mut self, purpose: Purpose, method: &'static str, params: Value) {
        let ticket = self.ticket(purpose);
        self.orders.push(Order::Request(ticket, method, params));
    }

    fn dispatch(&mut self, purpose: Purpose, channel: String, action: StateAction) {
        let ticket = self.ticket(purpose);
        self.orders.push(Order::Dispatch(ticket, channel, Box::new(action)));
    }

    fn answer(&mut self, id: Value, outcome: Result<Value, RpcError>) {
        self.outgoing.push(Outgoing::Answer(id, outcome));
    }
}

/// The answer to `initialize`.
fn initialized() -> Value {
    json!({
        "protocolVersion": VERSION,
        "agentInfo": { "name": "innkeeper", "title": "Innkeeper", "version": env!("CARGO_PKG_VERSION") },
        "agentCapabilities": {
            "loadSession": true,
            "promptCapabilities": { "image": true, "audio": true, "embeddedContext": true },
            "mcpCapabilities": { "http": false, "sse": false },
            "sessionCapabilities": {
                "list": {}, "resume": {}, "close": {}, "delete": {}, "additionalDirectories": {},
            },
        },
        "authMethods": [],
    })
}
