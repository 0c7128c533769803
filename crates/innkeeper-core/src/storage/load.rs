//! Loads sessions that are not in memory before an input that names them is handled.
//!
//! An input that names one waits, and so do all later inputs of its connection (DSP-14); other connections continue.
//! Only the store knows which sessions exist, so an unknown URI is asked for as well.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use ahp_types::actions::StateAction;
use ahp_types::commands::ChatSource;
use ahp_types::state::{Message, MessageAttachment};

use crate::clients::client::Conn;
use crate::core::{ChannelCommand, ChannelParts, Cx, Host, json_bytes};
use crate::effect::{CloseReason, Delivery, JournalCommand};
use crate::ids::{ChannelId, ConnId, IdMap};
use crate::input::{ClientInput, Dispatch};
use crate::protocol::error::{RpcError, code};
use crate::protocol::request::{Command, MoveDestination, RequestId};
use crate::protocol::uri;
use crate::resources::ResourceOp;
use crate::storage::records::{RestoredSession, Unreadable};

/// Most inputs of one connection that wait. Loading takes milliseconds, so a client that gets here
/// floods the host.
const MAX_DEFERRED: usize = 4096;

/// Maximum bytes of actions among them. Requests are bounded by their number.
const MAX_DEFERRED_BYTES: usize = 16 << 20;

/// The loads under way, and the connections that wait for them.
#[derive(Debug, Default)]
pub(crate) struct PendingLoads {
    sessions: HashMap<Arc<str>, PendingLoad>,
    turns: IdMap<ChannelId, Vec<ConnId>>,
}

#[derive(Debug, Default)]
struct PendingLoad {
    waiting: Vec<ConnId>,
    /// Whether it was evicted or imported since: the answer may be older than that.
    is_stale: bool,
}

/// The inputs that a connection defers.
#[derive(Debug, Default)]
pub(crate) struct DeferredInputs {
    inputs: VecDeque<ClientInput>,
    /// Bytes of actions among them.
    bytes: usize,
    /// The URIs that the first of them still waits for.
    missing: HashSet<Arc<str>>,
    /// The store's answers about the URIs that they name: the problem with the stored session, if any.
    answers: HashMap<Arc<str>, Option<Unreadable>>,
    /// Why the turns that the first one needs are not to be had.
    turns_problem: Option<String>,
}

impl DeferredInputs {
    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.inputs.is_empty()
    }

    fn is_full(&self, next: &ClientInput) -> bool {
        self.inputs.len() >= MAX_DEFERRED || self.bytes + bytes_of(next) > MAX_DEFERRED_BYTES
    }

    fn push_back(&mut self, input: ClientInput) {
        self.bytes += bytes_of(&input);
        self.inputs.push_back(input);
    }

    fn pop_front(&mut self) -> Option<ClientInput> {
        let input = self.inputs.pop_front()?;
        self.bytes -= bytes_of(&input);
        Some(input)
    }

    fn push_front(&mut self, input: ClientInput) {
        self.bytes += bytes_of(&input);
        self.inputs.push_front(input);
    }
}

fn bytes_of(input: &ClientInput) -> usize {
    match input {
        ClientInput::Dispatch(dispatch) => dispatch.raw.get().len(),
        ClientInput::Request {
            command: Command::Resource(op),
            ..
        } => op.bytes(),
        ClientInput::McpNotification(request) => json_bytes(&request.params),
        ClientInput::Request { .. } | ClientInput::Unsubscribe { .. } | ClientInput::Disconnected => 0,
    }
}

impl Host {
    /// These left memory: what is known or on its way about them may be older than that.
    pub(crate) fn invalidate(&mut self, uris: &[Arc<str>]) {
        for uri in uris {
            if let Some(asked) = self.storage.loads.sessions.get_mut(uri) {
                asked.is_stale = true;
            }
        }
        for connection in self.conns.values_mut() {
            if !connection.deferred.answers.is_empty() {
                for uri in uris {
                    connection.deferred.answers.remove(uri);
                }
            }
        }
    }

    /// A session was imported into the store.
    pub(crate) fn invalidate_all(&mut self) {
        for asked in self.storage.loads.sessions.values_mut() {
            asked.is_stale = true;
        }
        for connection in self.conns.values_mut() {
            connection.deferred.answers.clear();
        }
    }

    /// Handles an input of a connection, now or when everything it names is there.
    pub(crate) fn admit(&mut self, cx: &mut Cx<'_>, conn: ConnId, input: ClientInput) {
        if !self.storage.mode().has_store() {
            return self.handle_client(cx, conn, input);
        }
        // An input of a connection that was closed since it was read.
        let Some(connection) = self.conns.get_mut(&conn) else {
            return;
        };
        let deferred = &mut connection.deferred;
        if !deferred.is_empty() {
            if deferred.is_full(&input) && !matches!(input, ClientInput::Disconnected) {
                let reason = CloseReason::TooMuchWaits;
                return cx.emit(Delivery::Close { conn, reason });
            }
            deferred.push_back(input);
            // Requested at once, so that many in a row wait as long as one.
            let missing = self.missing_for_last(conn);
            return self.ask_for_all(cx, conn, &missing);
        }
        self.handle_or_defer(cx, conn, input);
    }

    /// The store answered.
    pub(crate) fn loaded(
        &mut self,
        cx: &mut Cx<'_>,
        asked_uri: &Arc<str>,
        outcome: Result<Option<Box<RestoredSession>>, Unreadable>,
    ) {
        // The answer to a load that the core before this one asked for, in the same process.
        let Some(mut asked) = self.storage.loads.sessions.remove(asked_uri) else {
            return;
        };
        if asked.is_stale && self.channels.find(asked_uri).is_none() {
            asked.is_stale = false;
            self.storage.loads.sessions.insert(Arc::clone(asked_uri), asked);
            let uri = Arc::clone(asked_uri);
            return cx.emit(JournalCommand::Load { uri });
        }
        let mut installed = None;
        let problem = match outcome {
            Ok(Some(session)) => {
                let uri = session.uri().to_owned();
                self.install(cx, *session);
                installed = self.channels.find(&uri);
                None
            }
            Ok(None) => None,
            Err(problem) => Some(problem),
        };
        self.resume_waiting(cx, asked_uri, asked.waiting, problem.as_ref());
        if let Some(session) = installed {
            self.remove_unsubscribed_members(cx, session);
        }
    }

    /// Turns that an input needs are there, or are not to be had.
    pub(crate) fn resume_after_turns(&mut self, cx: &mut Cx<'_>, chat: ChannelId, problem: Option<&str>) {
        for conn in self.storage.loads.turns.remove(&chat).unwrap_or_default() {
            if let Some(connection) = self.conns.get_mut(&conn) {
                connection.deferred.turns_problem = problem.map(str::to_owned);
            }
            self.resume_deferred(cx, conn);
        }
    }

    /// Loads sessions that have to be recovered.
    pub(crate) fn recover_sessions(&mut self, cx: &mut Cx<'_>, sessions: Vec<String>) {
        for uri in sessions {
            if self.channels.find(&uri).is_none() {
                self.ask_for(cx, uri.into(), None);
            }
        }
    }

    /// Handles what waits, as far as everything it names is there.
    fn resume_deferred(&mut self, cx: &mut Cx<'_>, conn: ConnId) {
        while let Some(connection) = self.conns.get_mut(&conn)
            && let Some(input) = connection.deferred.pop_front()
        {
            if !self.handle_or_defer(cx, conn, input) {
                return;
            }
            // The next input finds the state as if this one had just arrived.
            self.settle(cx);
        }
    }

    /// Handles an input if everything it names is there; otherwise it waits, before everything else
    /// that waits. Returns whether it was handled.
    fn handle_or_defer(&mut self, cx: &mut Cx<'_>, conn: ConnId, input: ClientInput) -> bool {
        if self.must_wait(cx, conn, &input) {
            if let Some(connection) = self.conns.get_mut(&conn) {
                connection.deferred.push_front(input);
            }
            return false;
        }
        self.handle_deferred(cx, conn, input);
        true
    }

    fn handle_deferred(&mut self, cx: &mut Cx<'_>, conn: ConnId, input: ClientInput) {
        // An input of a connection that was closed since it was read.
        let Some(connection) = self.conns.get_mut(&conn) else {
            return;
        };
        let deferred = &mut connection.deferred;
        let turns_problem = deferred.turns_problem.take();
        let mut damaged = None;
        let mut deleted: Vec<String> = Vec::new();
        let mut take = |uri: &str| match deferred.answers.remove(uri).flatten() {
            Some(Unreadable::Deleted) => deleted.push(uri.to_owned()),
            answer => damaged = damaged.take().or(answer),
        };
        named(&input).into_iter().for_each(&mut take);
        if let ClientInput::Request {
            command: Command::CreateSession(create),
            ..
        } = &input
        {
            take(&uri::default_chat(&create.channel));
        }
        if deferred.is_empty() {
            deferred.answers = HashMap::new();
        }
        match (input, damaged.or_else(|| turns_problem.map(Unreadable::Failed))) {
            // These leave out what they cannot have (NEG-11, REC-02).
            (
                input @ ClientInput::Request {
                    command: Command::Initialize(_) | Command::Reconnect(_),
                    ..
                },
                _,
            ) => self.handle_client(cx, conn, input),
            (ClientInput::Request { id, command }, None) if !deleted.is_empty() => {
                self.answer_about_deleted(cx, conn, id, command, &deleted);
            }
            (input, None) => self.handle_client(cx, conn, input),
            (ClientInput::Request { id, command }, Some(Unreadable::Damaged(problem)))
                if matches!(command, Command::DisposeSession { only_if: None, .. }) =>
            {
                self.dispose_damaged(cx, conn, &id, &command, &problem);
            }
            (ClientInput::Request { id, .. }, Some(problem)) => {
                cx.answer(conn, &id, Err(unreadable(&problem)));
            }
            (ClientInput::Dispatch(dispatch), Some(problem)) => {
                self.refuse_dispatch(cx, conn, &dispatch, &problem.to_string())
            }
            (input, Some(_)) => self.handle_client(cx, conn, input),
        }
    }

    /// Answers a request that names something of a deleted session. It is not there, but its URIs are taken.
    fn answer_about_deleted(
        &mut self,
        cx: &mut Cx<'_>,
        conn: ConnId,
        id: RequestId,
        command: Command,
        deleted: &[String],
    ) {
        let taken = |uri: &str, code| {
            let message = format!(
                "{uri:?} belongs to a deleted session; choose another URI, or restore the session with `innkeeper \
                 sessions restore`"
            );
            Err(RpcError::new(code, message))
        };
        match command {
            Command::CreateSession(create)
                if deleted.contains(&create.channel) || deleted.contains(&uri::default_chat(&create.channel)) =>
            {
                cx.answer(conn, &id, taken(&create.channel, code::SESSION_ALREADY_EXISTS))
            }
            Command::CreateChat(create) if deleted.contains(&create.chat) && !deleted.contains(&create.channel) => {
                cx.answer(conn, &id, taken(&create.chat, code::ALREADY_EXISTS));
            }
            Command::DisposeSession { for_good: true, .. } => self.remove_deleted(cx, conn, &id, &command),
            command => self.handle_client(cx, conn, ClientInput::Request { id, command }),
        }
    }

    /// Whether an input has to wait; if so, what it waits for is asked for.
    fn must_wait(&mut self, cx: &mut Cx<'_>, conn: ConnId, input: &ClientInput) -> bool {
        let missing = self.missing_for(conn, input);
        if !missing.is_empty() {
            self.ask_for_all(cx, conn, &missing);
            if let Some(connection) = self.conns.get_mut(&conn) {
                connection.deferred.missing = missing;
            }
            return true;
        }
        let is_hopeless = |connection: &Conn| connection.deferred.turns_problem.is_some();
        if self.conns.get(&conn).is_none_or(is_hopeless) {
            return false;
        }
        let Some((chat, range)) = self.turns_needed(conn, input) else {
            return false;
        };
        let Some(uri) = self.channels.get(chat).map(|entry| Arc::clone(&entry.uri)) else {
            return false;
        };
        self.storage.loads.turns.entry(chat).or_default().push(conn);
        cx.emit(JournalCommand::LoadTurns { chat, uri, range });
        true
    }

    /// The URIs of an input that are not in memory and not known to be absent.
    fn missing_for(&self, conn: ConnId, input: &ClientInput) -> HashSet<Arc<str>> {
        let Some(connection) = self.conns.get(&conn) else {
            return HashSet::new();
        };
        let answers = &connection.deferred.answers;
        let is_missing = |uri: &str| self.channels.find(uri).is_none() && !answers.contains_key(uri);
        let named = named(input);
        let is_stored = |uri: &&&str| uri::looks_like_session_or_chat(uri) || self.is_recallable(uri);
        let named = named.iter().filter(is_stored);
        let mut missing: HashSet<Arc<str>> = named.filter(|uri| is_missing(uri)).map(|uri| Arc::from(*uri)).collect();
        // A default chat is made with its session.
        if let ClientInput::Request {
            command: Command::CreateSession(create),
            ..
        } = input
        {
            let chat = uri::default_chat(&create.channel);
            if is_missing(&chat) {
                missing.insert(chat.into());
            }
        }
        missing
    }

    fn missing_for_last(&self, conn: ConnId) -> HashSet<Arc<str>> {
        let last = self
            .conns
            .get(&conn)
            .and_then(|connection| connection.deferred.inputs.back());
        last.map(|input| self.missing_for(conn, input)).unwrap_or_default()
    }

    fn ask_for_all(&mut self, cx: &mut Cx<'_>, conn: ConnId, missing: &HashSet<Arc<str>>) {
        // In an order that is the same every time.
        let mut missing: Vec<&Arc<str>> = missing.iter().collect();
        missing.sort_unstable();
        for uri in missing {
            self.ask_for(cx, Arc::clone(uri), Some(conn));
        }
    }

    fn ask_for(&mut self, cx: &mut Cx<'_>, uri: Arc<str>, conn: Option<ConnId>) {
        let is_new = !self.storage.loads.sessions.contains_key(&uri);
        let asked = self.storage.loads.sessions.entry(Arc::clone(&uri)).or_default();
        if conn.is_none_or(|conn| !asked.waiting.contains(&conn)) {
            asked.waiting.extend(conn);
        }
        if is_new && !self.recall(cx, &uri) {
            cx.emit(JournalCommand::Load { uri });
        }
    }

    /// A service was asked for a channel that an input names.
    pub(crate) fn resume_after_recall(&mut self, cx: &mut Cx<'_>, uri: &Arc<str>) {
        // The answer to a core before this one, in the same process.
        let Some(asked) = self.storage.loads.sessions.remove(uri) else {
            return;
        };
        self.resume_waiting(cx, uri, asked.waiting, None);
    }

    /// Lets inputs continue that waited for a URI.
    fn resume_waiting(
        &mut self,
        cx: &mut Cx<'_>,
        asked_uri: &Arc<str>,
        waiting: Vec<ConnId>,
        problem: Option<&Unreadable>,
    ) {
        for conn in waiting {
            let Some(connection) = self.conns.get_mut(&conn) else {
                continue;
            };
            let deferred = &mut connection.deferred;
            deferred.answers.insert(Arc::clone(asked_uri), problem.cloned());
            // Looked at again when nothing is missing any more, and not for every answer.
            if deferred.missing.remove(asked_uri) && deferred.missing.is_empty() {
                self.resume_deferred(cx, conn);
            }
        }
    }
}

pub(crate) fn unreadable(problem: &impl std::fmt::Display) -> RpcError {
    RpcError::new(
        code::INTERNAL_ERROR,
        format!("the stored session cannot be read: {problem}; run `innkeeper doctor`"),
    )
}

/// The channels that an input is about. The session stands for a channel that comes into memory with it.
fn named(input: &ClientInput) -> Vec<&str> {
    let named = match input {
        ClientInput::Request { command, .. } => named_by_command(command),
        ClientInput::Dispatch(dispatch) => named_by_dispatch(dispatch),
        ClientInput::McpNotification(_) | ClientInput::Unsubscribe { .. } | ClientInput::Disconnected => Vec::new(),
    };
    let named = named.into_iter();
    named.map(|uri| ChannelParts::session_of(uri).unwrap_or(uri)).collect()
}

fn named_by_command(command: &Command) -> Vec<&str> {
    match command {
        Command::Initialize(initialize) => initialize.initial_subscriptions.iter().map(String::as_str).collect(),
        Command::Reconnect(reconnect) => reconnect.subscriptions.iter().map(String::as_str).collect(),
        Command::Subscribe(subscribe) => vec![&subscribe.channel],
        Command::CreateSession(create) => {
            let source = create.fork.iter().map(|fork| fork.session.as_str());
            source.chain([create.channel.as_str()]).collect()
        }
        Command::DisposeSession { channel, .. }
        | Command::DisposeChat { channel }
        | Command::FetchTurns { channel, .. } => vec![channel],
        Command::Completions(completions) => vec![&completions.channel],
        Command::CreateChat(create) => {
            let mut named: Vec<&str> = vec![&create.channel, &create.chat];
            match &create.source {
                Some(ChatSource::Fork(fork)) => named.push(&fork.chat),
                Some(ChatSource::SideChat(side)) => named.push(&side.chat),
                Some(ChatSource::Unknown(_)) | None => {}
            }
            named.extend(create.initial_message.iter().flat_map(attached));
            named
        }
        Command::MoveChat(moving) => match &moving.destination {
            MoveDestination::Session { session, .. } => vec![&moving.channel, session],
            MoveDestination::NewSession => vec![&moving.channel],
        },
        Command::Resource(op) => match &**op {
            ResourceOp::ImportBlob(keep) => vec![&keep.session],
            _ => Vec::new(),
        },
        Command::Approvals(command) => command.session().into_iter().collect(),
        Command::Part(command) => command.sessions(),
        Command::Ping
        | Command::ImportSession { .. }
        | Command::ListDeletedSessions
        | Command::RestoreSession { .. }
        | Command::ListSessions(_)
        | Command::ResolveSessionConfig(_)
        | Command::SessionConfigCompletions(_)
        | Command::RequestResource { .. }
        | Command::Grants(_)
        // A session with subscribers is in memory.
        | Command::Mcp(_)
        | Command::Authenticate(_) => Vec::new(),
    }
}

fn named_by_dispatch(dispatch: &Dispatch) -> Vec<&str> {
    let mut named: Vec<&str> = vec![&dispatch.channel];
    match &dispatch.action {
        Ok(StateAction::ChatTurnStarted(started)) => named.extend(attached(&started.message)),
        Ok(StateAction::ChatPendingMessageSet(set)) => named.extend(attached(&set.message)),
        _ => {}
    }
    named
}

/// The chats and annotations that come with a message (TURN-17).
fn attached(message: &Message) -> impl Iterator<Item = &str> {
    message
        .attachments
        .iter()
        .flatten()
        .filter_map(|attachment| match attachment {
            MessageAttachment::Chat(chat) => Some(chat.resource.as_str()),
            MessageAttachment::Annotations(annotations) => Some(annotations.resource.as_str()),
            _ => None,
        })
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value};

    use super::*;
    use crate::mcp::{APP_METHODS, McpRequest};

    fn notification(bytes: usize) -> ClientInput {
        ClientInput::McpNotification(Box::new(McpRequest {
            channel: String::new(),
            method: APP_METHODS[0],
            params: Map::from_iter([("text".to_owned(), Value::String("x".repeat(bytes)))]),
        }))
    }

    #[test]
    fn deferred_inputs_are_bounded_in_number() {
        let mut deferred = DeferredInputs::default();
        for _ in 0..MAX_DEFERRED {
            assert!(!deferred.is_full(&ClientInput::Disconnected));
            deferred.push_back(ClientInput::Disconnected);
        }
        assert!(deferred.is_full(&ClientInput::Disconnected));
    }

    #[test]
    fn deferred_inputs_are_bounded_in_bytes_until_they_are_handled() {
        let mut deferred = DeferredInputs::default();
        deferred.push_back(notification(MAX_DEFERRED_BYTES / 2));
        let next = notification(MAX_DEFERRED_BYTES / 2);
        assert!(deferred.is_full(&next));
        let first = deferred.pop_front().expect("one waits");
        assert!(!deferred.is_full(&next));
        deferred.push_front(first);
        assert!(deferred.is_full(&next), "it waits again");
        deferred.pop_front();
        assert_eq!((deferred.is_empty(), deferred.bytes), (true, 0));
    }
}
