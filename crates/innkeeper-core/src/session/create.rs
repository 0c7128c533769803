//! Creating sessions and answering `listSessions`.

use std::sync::Arc;

use ahp_types::actions::{SessionCreationFailedAction, SessionReadyAction, StateAction};
use ahp_types::notifications::SessionAddedParams;
use ahp_types::state::{
    ChatOrigin, ChatState, ErrorInfo, SessionConfigState, SessionLifecycle, SessionState, SessionStatus, SessionSummary,
};
use serde_json::{Map, Value, json};

use crate::agent::{Failure, Setting};
use crate::chat::history::past_turns;
use crate::core::{Cx, Host, ROOT, never};
use crate::effect::{AgentCommand, ChatInfo, Delivery, OpenChat};
use crate::ids::{ChannelId, ClientId, ConnId};
use crate::protocol::action_table::ChannelKind;
use crate::protocol::dialect::{self, Version};
use crate::protocol::error::{RpcError, code};
use crate::protocol::frame::{Outgoing, encode_notification};
use crate::session::working_directories::MAX_DIRECTORIES;

use crate::chat::chats::Chat;
use crate::protocol::request::{CreateSession, ListSessions, RequestId};
use crate::protocol::uri;
use crate::session::choice;
use crate::session::settings::Problem;
use crate::session::{Progress, Session, UNTITLED, summary_of};

/// Maximum sessions on one page of `listSessions`.
const MAX_PAGE: u32 = 1000;

/// The result of a checked request: the provider, and the settings and configuration of the session.
type Checked = (String, Arc<[Setting]>, SessionConfigState);

impl Host {
    pub(crate) fn create_session(&mut self, cx: &mut Cx<'_>, conn: ConnId, id: &RequestId, create: CreateSession) {
        match self.check_create(conn, &create) {
            Ok((provider, settings, config)) => {
                cx.answer(conn, id, Ok(Value::Null));
                self.add_session(cx, conn, create, provider, settings, config);
            }
            Err(error) => cx.answer(conn, id, Err(error)),
        }
    }

    fn check_create(&self, conn: ConnId, create: &CreateSession) -> Result<Checked, RpcError> {
        uri::check_new_session(&create.channel).map_err(|problem| RpcError::invalid_params("channel", problem))?;
        if self.shutting_down {
            return Err(RpcError::new(
                code::CONFLICT,
                "the host is shutting down; try again when it is back",
            ));
        }
        if self.channels.find(&create.channel).is_some()
            || self.channels.find(&uri::default_chat(&create.channel)).is_some()
        {
            // SES-01: also while the first one is being created, and after it failed.
            let message = format!(
                "{:?} exists already; choose another URI or subscribe to it",
                create.channel
            );
            return Err(RpcError::new(code::SESSION_ALREADY_EXISTS, message));
        }
        if self.is_full() {
            let message = format!(
                "this host stores at most {} sessions; dispose of some",
                self.config.max_sessions
            );
            return Err(RpcError::new(code::CONFLICT, message));
        }
        if create.working_directories.len() > MAX_DIRECTORIES {
            let problem = format!("a session works in at most {MAX_DIRECTORIES} directories");
            return Err(RpcError::invalid_params("workingDirectories", problem));
        }
        for (index, directory) in create.working_directories.iter().enumerate() {
            uri::check_directory(directory)
                .map_err(|problem| RpcError::invalid_params(&format!("workingDirectories[{index}]"), problem))?;
        }
        if let Some(active) = &create.active_client
            && self.conns.client(conn).map(ClientId::as_str) != Some(&active.client_id)
        {
            return Err(RpcError::invalid_params(
                "activeClient.clientId",
                "must be this connection's own client id",
            ));
        }
        if let Some(active) = &create.active_client {
            self.check_active_client(active, create.opt_in.as_ref())
                .map_err(|problem| RpcError::invalid_params("activeClient", problem))?;
        }
        let provider = match &create.fork {
            Some(fork) => Some(self.check_fork(fork, create.provider.as_deref())?),
            None => create.provider.clone(),
        };
        let agent = self.agent_named(provider.as_deref())?;
        for choice in &create.choices {
            choice::check(agent, choice).map_err(|problem| RpcError::new(code::INVALID_PARAMS, problem))?;
        }
        let (settings, config) = self
            .session_config(agent, &create.config)
            .map_err(Problem::into_error)?;
        Ok((agent.info.provider.clone(), settings, config))
    }

    fn add_session(
        &mut self,
        cx: &mut Cx<'_>,
        conn: ConnId,
        create: CreateSession,
        provider: String,
        settings: Arc<[Setting]>,
        config: SessionConfigState,
    ) {
        let now = cx.now.rfc3339();
        let chat_uri = uri::default_chat(&create.channel);
        // SES-06: without the capability only the first directory counts.
        let several = self.agent_named(Some(&provider)).is_ok_and(|agent| {
            let capabilities = agent.info.capabilities.as_ref();
            capabilities.is_some_and(|capabilities| capabilities.multiple_working_directories.is_some())
        });
        let most = if several { usize::MAX } else { 1 };
        let mut working_directories: Vec<String> = Vec::new();
        for directory in create.working_directories.into_iter().take(most) {
            if !working_directories.contains(&directory) {
                working_directories.push(directory);
            }
        }
        let source = create.fork.as_ref().and_then(|fork| self.channels.find(&fork.session));
        let source = source.and_then(|source| self.sessions.get(&source));
        if let Some(source) = source.filter(|_| working_directories.is_empty()) {
            working_directories.extend(source.state.working_directories.iter().flatten().cloned());
        }
        let title = source.map_or_else(|| UNTITLED.to_owned(), |source| source.state.title.clone());
        let directories = (!working_directories.is_empty()).then(|| working_directories.clone());
        let mut chat_state = new_chat(&chat_uri, &title, &now, ChatOrigin::User);
        if let Some(fork) = &create.fork
            && let Ok((chat, _)) = self.source_of_fork(fork)
            && let Some(source) = self.channels.get(chat)
        {
            chat_state.origin = Some(ChatOrigin::Fork {
                chat: source.uri.to_string(),
                turn_id: fork.turn_id.clone(),
            });
        }
        let model = self.first_chat(chat_state.clone(), create.fork.as_ref());
        let state = SessionState {
            title,
            meta: choice::meta_of(&create.choices),
            working_directories: directories,
            chats: vec![summary_of(&chat_state)],
            config: Some(config),
            ..new_session(&provider, &chat_uri)
        };
        let session_id = self.add_channel(&create.channel, ChannelKind::Session);
        let mut session = Session::new(&create.channel, state, settings, cx.now);
        session.creator = self.conns.client(conn).cloned();
        session.is_draft = true;
        session.progress = create.progress_token.map(|token| Progress {
            conn,
            token,
            done: 0,
            reported: false,
        });
        self.sessions.insert(session_id, session);
        self.share_workspace_approvals(session_id);
        self.persist_new(cx, session_id);
        let chat_id = self.insert_chat(cx, Chat::new(session_id, model));
        if let Some(session) = self.sessions.get_mut(&session_id) {
            session.chats.push(chat_id);
        }
        self.refresh_server_tools(cx, session_id);
        if let Some(active_client) = create.active_client {
            self.set_opt_in(session_id, &active_client.client_id, create.opt_in);
            self.set_active_client(cx, session_id, active_client, None);
        }
        if create.fork.is_some() {
            self.touched.note_content(session_id);
        }
        if !self.isolate(cx, session_id) {
            let creator = self.conns.client(conn).cloned();
            self.open_first_chat(cx, chat_id, creator.as_ref());
        }
    }

    /// Opens the first chat of a new session.
    pub(crate) fn open_first_chat(&mut self, cx: &mut Cx<'_>, chat_id: ChannelId, creator: Option<&ClientId>) {
        if self.asks_to_sign_in(cx, chat_id, creator) {
            // SES-05: its turns say what to do until then, and its agent is asked to open it with
            // the first that can run.
            self.chat_opened(cx, chat_id, Ok(()));
        } else {
            self.open_chat(cx, chat_id, None);
        }
    }

    /// Makes a channel for a chat.
    pub(crate) fn insert_chat(&mut self, cx: &mut Cx<'_>, mut chat: Chat) -> ChannelId {
        if let Some(turns) = self.storage.turns() {
            chat.model.read_turns_from(Arc::clone(turns));
        }
        let chat_id = self.add_channel(&chat.model.head().resource, ChannelKind::Chat);
        self.chats.insert(chat_id, chat);
        self.persist_new(cx, chat_id);
        chat_id
    }

    /// Makes a channel whose history starts now.
    pub(crate) fn add_channel(&mut self, uri: &str, kind: ChannelKind) -> ChannelId {
        let id = self.channels.create(uri, kind, self.log.seq());
        self.log.open_channel(id);
        id
    }

    /// Opens a chat's back end, with everything that its agent needs of its history, and with the tokens for the
    /// author.
    pub(crate) fn open_chat(&mut self, cx: &mut Cx<'_>, chat_id: ChannelId, author: Option<&ClientId>) {
        if let Some(chat) = self.chats.get_mut(&chat_id) {
            chat.can_resume = false;
            chat.is_open = true;
            chat.undelivered = false;
        }
        // An agent may need its session's customizations at once.
        self.follow_subscribed(cx, chat_id);
        let (Some(chat), Some(channel)) = (self.chats.get(&chat_id), self.channels.get(chat_id)) else {
            return never!("the channel exists");
        };
        let Some(session) = self.sessions.get(&chat.session) else {
            return never!("the session is in memory");
        };
        let info = ChatInfo {
            session: Arc::clone(&session.uri),
            chat: Arc::clone(&channel.uri),
            working_directories: directories_of(session, chat),
            context: chat.side_context.context.to_vec(),
            selection: chat.side_context.selection.clone(),
            settings: settings_of(session),
            memory: chat.memory.clone(),
        };
        cx.emit(AgentCommand::OpenChat(Box::new(OpenChat {
            chat: chat_id,
            session: chat.session,
            provider: session.state.provider.clone(),
            info,
            history: past_turns(&channel.uri, &chat.model),
            credentials: self.credentials_for(cx.now, session, author),
            wants_progress: session.progress.is_some(),
            disabled_ids: crate::customization::disabled_ids(session),
        })));
    }

    pub(crate) fn chat_opened(&mut self, cx: &mut Cx<'_>, chat: ChannelId, outcome: Result<(), Failure>) {
        let Some(chat) = self.chats.get(&chat) else {
            return never!("the chat is in memory");
        };
        let session = chat.session;
        // No client waits for a further chat: its first turn reports the problem.
        let is_awaited = self.sessions.get(&session).is_some_and(|session| {
            session.state.lifecycle == SessionLifecycle::Creating && session.is_default(&chat.model.head().resource)
        });
        if !is_awaited {
            return;
        }
        self.finish_progress(cx, session);
        let action = match outcome {
            Ok(()) => StateAction::SessionReady(SessionReadyAction {}),
            Err(failure) => StateAction::SessionCreationFailed(SessionCreationFailedAction {
                error: error_info(failure),
            }),
        };
        self.commit(cx, session, action, None);
        // Messages that were queued during the creation of the session start now (PEND-03).
        let chats = self.sessions.get(&session).map(|session| session.chats.clone());
        for chat in chats.into_iter().flatten() {
            self.take_from_queue(cx, chat, true);
        }
    }

    /// Reports the progress of a session's creation to its requester (ROOT-17, ROOT-19).
    pub(crate) fn progress(
        &mut self,
        cx: &mut Cx<'_>,
        chat: ChannelId,
        done: u64,
        total: Option<u64>,
        message: Option<String>,
    ) {
        let session = self.chats.get(&chat).map(|chat| chat.session);
        let Some(session) = session.and_then(|id| self.sessions.get_mut(&id)) else {
            return never!("the session is in memory");
        };
        let creating = session.state.lifecycle == SessionLifecycle::Creating;
        if let Some(progress) = session.progress.as_mut().filter(|_| creating) {
            // Never backwards, and never complete: that report is sent when the session is ready.
            progress.done = progress.done.max(done);
            progress.reported = true;
            let total = total.filter(|total| *total > progress.done);
            let params = progress_params(&progress.token, progress.done, total, message);
            cx.send(
                progress.conn,
                Outgoing::Text(encode_notification("root/progress", &params)),
            );
        }
    }

    /// ROOT-18: the last report of a token has reached its total, whatever the outcome.
    pub(crate) fn finish_progress(&mut self, cx: &mut Cx<'_>, session: ChannelId) {
        let progress = self
            .sessions
            .get_mut(&session)
            .and_then(|session| session.progress.take());
        if let Some(progress) = progress.filter(|progress| progress.reported) {
            let end = progress.done + 1;
            let params = progress_params(&progress.token, end, Some(end), None);
            cx.send(
                progress.conn,
                Outgoing::Text(encode_notification("root/progress", &params)),
            );
        }
    }

    /// Ends everything that runs in a chat, forgets it and removes its persisted rows.
    pub(crate) fn drop_chat(&mut self, cx: &mut Cx<'_>, chat_id: ChannelId) {
        self.persist_removal(cx, chat_id);
        self.close_chat(cx, chat_id);
    }

    /// Ends everything that runs in a chat and forgets it. Its persisted rows stay.
    pub(crate) fn close_chat(&mut self, cx: &mut Cx<'_>, chat_id: ChannelId) {
        if let Some(mut chat) = self.chats.remove(&chat_id)
            && let Some(run) = chat.take_run().filter(|run| run.held.is_none())
        {
            cx.emit(AgentCommand::CancelTurn {
                chat: chat_id,
                turn: run.key(),
            });
        }
        cx.emit(AgentCommand::CloseChat { chat: chat_id });
        self.discard_dirty(chat_id);
        if let Some(uri) = self.channels.get(chat_id).map(|entry| Arc::clone(&entry.uri)) {
            self.forget_for_good(&uri);
        }
        self.remove_channel(chat_id);
    }

    /// Subscriptions of a removed channel are never continued, even if a new channel gets its URI.
    pub(crate) fn forget_for_good(&mut self, uri: &Arc<str>) {
        self.invalidate(std::slice::from_ref(uri));
        for client in self.clients.forget_subscriptions(uri) {
            self.mark_client_dirty(&client);
        }
    }

    /// SUB-19: subscriptions end with their channel.
    pub(crate) fn remove_channel(&mut self, channel: ChannelId) {
        for subscriber in self.channels.remove(channel) {
            if let Some(conn) = self.conns.get_mut(&subscriber.conn) {
                conn.subscriptions.remove(&channel);
            }
        }
        self.log.close_channel(channel);
    }

    /// `listSessions`: latest first, in pages if a limit is given (ROOT-10, ROOT-11).
    pub(crate) fn list_sessions(&self, conn: ConnId, list: &ListSessions) -> Result<Value, RpcError> {
        let mut rows: Vec<(i64, ChannelId, &Session)> = self
            .sessions
            .iter()
            .filter(|(_, session)| !session.is_draft)
            .map(|(id, session)| (session.order_ms, *id, session))
            .collect();
        rows.sort_unstable_by_key(|(modified, id, _)| std::cmp::Reverse((*modified, *id)));
        if let Some(cursor) = &list.cursor {
            let after = parse_cursor(cursor).ok_or_else(|| {
                RpcError::invalid_params("cursor", "is not a cursor of this host; start again without one")
            })?;
            rows.retain(|(modified, id, _)| (*modified, *id) < after);
        }
        let more = match list.limit {
            Some(limit) => {
                let limit = limit.min(MAX_PAGE) as usize;
                let more = rows.len() > limit;
                rows.truncate(limit);
                more
            }
            None => false,
        };
        let version = self.conns.dialect(conn).version;
        let items: Vec<SessionSummary> = rows
            .iter()
            .map(|(_, _, session)| dialect::summary(version, session.summary()))
            .collect();
        let mut result = json!({ "items": items });
        if more && let Some((modified, id, _)) = rows.last() {
            result["nextCursor"] = json!(format!("{modified}.{}", id.0));
        }
        Ok(result)
    }

    /// Announces a session to root subscribers, new or again.
    pub(crate) fn announce_added(&mut self, cx: &mut Cx<'_>, session: ChannelId) {
        let Some(session) = self.sessions.get_mut(&session) else {
            return never!("the session is in memory");
        };
        let summary = session.summary();
        session.announced = Some(summary.clone());
        self.notify_root(cx, |version| {
            Some(encode_added(dialect::summary(version, summary.clone())))
        });
    }

    /// Sends a notification to root subscribers only (SUB-05), in the form that each version of the protocol knows.
    /// There are two forms: the newest, and the one that the connections of all older versions translate further.
    pub(crate) fn notify_root(&mut self, cx: &mut Cx<'_>, encode: impl Fn(Version) -> Option<bytes::Bytes>) {
        let Some(root) = self.channels.get_mut(ROOT) else {
            return never!("the channel exists");
        };
        for has_chats in [true, false] {
            let to = root.audience_with(|version| version.summaries_have_chats() == has_chats);
            if let Some(first) = to.first()
                && let Some(message) = encode(first.dialect.version)
            {
                cx.emit(Delivery::Notify { to, message });
            }
        }
    }
}

/// The notification that shows root subscribers a session.
pub(crate) fn encode_added(summary: SessionSummary) -> bytes::Bytes {
    let params = SessionAddedParams {
        channel: uri::ROOT.to_owned(),
        summary,
    };
    encode_notification("root/sessionAdded", &params)
}

pub(crate) fn error_info(failure: Failure) -> ErrorInfo {
    ErrorInfo {
        error_type: failure.kind,
        message: failure.message,
        stack: None,
        meta: None,
    }
}

/// A session that is being created, before its chats are listed.
pub(crate) fn new_session(provider: &str, default_chat: &str) -> SessionState {
    SessionState {
        provider: provider.to_owned(),
        title: UNTITLED.to_owned(),
        status: SessionStatus::Idle.bits() | SessionStatus::IsRead.bits(),
        activity: None,
        origin: None,
        project: None,
        working_directories: None,
        annotations: None,
        lifecycle: SessionLifecycle::Creating,
        creation_error: None,
        server_tools: None,
        active_clients: Vec::new(),
        chats: Vec::new(),
        default_chat: Some(default_chat.to_owned()),
        config: None,
        customizations: None,
        changesets: None,
        input_needed: None,
        meta: None,
    }
}

/// A chat without a past.
pub(crate) fn new_chat(uri: &str, title: &str, now: &str, origin: ChatOrigin) -> ChatState {
    ChatState {
        resource: uri.to_owned(),
        title: title.to_owned(),
        status: SessionStatus::Idle.bits() | SessionStatus::IsRead.bits(),
        activity: None,
        modified_at: now.to_owned(),
        changes: None,
        origin: Some(origin),
        // SES-11: a default chat is never movable.
        movable: None,
        interactivity: None,
        // Absent means all of the session's (CHT-09).
        working_directories: None,
        changesets: None,
        background_work: None,
        canvases: None,
        turns: Vec::new(),
        turns_next_cursor: None,
        active_turn: None,
        steering_message: None,
        queued_messages: None,
        draft: None,
        meta: None,
    }
}

/// Working directories of a chat: its own subset, or all of its session's (CHT-09).
pub(crate) fn directories_of(session: &Session, chat: &Chat) -> Vec<String> {
    let own = chat.model.head().working_directories.as_ref();
    own.or(session.state.working_directories.as_ref())
        .cloned()
        .unwrap_or_default()
}

/// The values of a session's settings.
pub(crate) fn settings_of(session: &Session) -> Map<String, Value> {
    session
        .state
        .config
        .as_ref()
        .map(|config| config.values.clone())
        .unwrap_or_default()
}

fn progress_params(token: &str, done: u64, total: Option<u64>, message: Option<String>) -> Value {
    let mut params = json!({ "channel": uri::ROOT, "progressToken": token, "progress": done });
    if let Some(total) = total {
        params["total"] = json!(total);
    }
    if let Some(message) = message {
        params["message"] = json!(message);
    }
    params
}

fn parse_cursor(cursor: &str) -> Option<(i64, ChannelId)> {
    let (modified, id) = cursor.split_once('.')?;
    Some((modified.parse().ok()?, ChannelId(id.parse().ok()?)))
}
