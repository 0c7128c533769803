//! Sessions come, go, and are listed.

use std::collections::BTreeSet;
use std::sync::Arc;

use ahp_types::actions::{SessionActiveClientSetAction, SessionCreationFailedAction, SessionReadyAction, StateAction};
use ahp_types::notifications::{SessionAddedParams, SessionRemovedParams};
use ahp_types::state::{
    ChatOrigin, ChatState, ErrorInfo, SessionLifecycle, SessionState, SessionStatus, SessionSummary,
};
use serde_json::{Value, json};

use crate::action::{ChannelKind, Since};
use crate::chat_state::ChatModel;
use crate::client::Phase;
use crate::core::{Cx, HostCore, ROOT};
use crate::effect::{Effect, OpenSession};
use crate::error::{RpcError, code};
use crate::frame::encode_notification;
use crate::ids::{ChannelId, ClientId, ConnId};
use crate::input::Failure;
use crate::request::{CreateSession, ListSessions, RequestId};
use crate::session::{Chat, Session, UNTITLED, summary_of};
use crate::uri;

/// Most sessions on one page of `listSessions`.
const MAX_PAGE: u32 = 1000;

impl HostCore {
    pub(crate) fn create_session(&mut self, cx: &mut Cx<'_>, conn: ConnId, id: &RequestId, create: CreateSession) {
        match self.check_create(conn, &create) {
            Ok(provider) => {
                cx.answer(conn, id, Ok(Value::Null));
                self.add_session(cx, create, provider);
            }
            Err(error) => cx.answer(conn, id, Err(error)),
        }
    }

    fn check_create(&self, conn: ConnId, create: &CreateSession) -> Result<String, RpcError> {
        uri::check_new_session(&create.channel).map_err(|problem| RpcError::invalid_params("channel", problem))?;
        if self.shutting_down {
            return Err(RpcError::new(
                code::CONFLICT,
                "the host is shutting down; try again when it is back",
            ));
        }
        if self.channels.find(&create.channel).is_some() {
            // SES-01: also while the first one is being created, and after it failed.
            let message = format!(
                "{:?} exists already; choose another URI or subscribe to it",
                create.channel
            );
            return Err(RpcError::new(code::SESSION_ALREADY_EXISTS, message));
        }
        if self.sessions.len() >= self.config.max_sessions {
            let message = format!(
                "this host keeps at most {} sessions; dispose of some",
                self.config.max_sessions
            );
            return Err(RpcError::new(code::CONFLICT, message));
        }
        for (index, directory) in create.working_directories.iter().enumerate() {
            uri::check(directory)
                .map_err(|problem| RpcError::invalid_params(&format!("workingDirectories[{index}]"), problem))?;
        }
        if let Some(active) = &create.active_client
            && self.client_of(conn).map(ClientId::as_str) != Some(&active.client_id)
        {
            return Err(RpcError::invalid_params(
                "activeClient.clientId",
                "must be this connection's own client id",
            ));
        }
        let agents = &self.root.agents;
        let known = || {
            agents
                .iter()
                .map(|agent| agent.provider.as_str())
                .collect::<Vec<_>>()
                .join(", ")
        };
        match &create.provider {
            Some(wanted) if agents.iter().any(|agent| agent.provider == *wanted) => Ok(wanted.clone()),
            Some(wanted) => {
                let message = format!("there is no agent {wanted:?} on this host; it has: {}", known());
                Err(RpcError::new(code::PROVIDER_NOT_FOUND, message))
            }
            None => match agents.first() {
                Some(agent) => Ok(agent.provider.clone()),
                None => Err(RpcError::new(code::PROVIDER_NOT_FOUND, "this host has no agents")),
            },
        }
    }

    fn add_session(&mut self, cx: &mut Cx<'_>, create: CreateSession, provider: String) {
        let now = cx.now.rfc3339();
        let chat_uri = uri::default_chat(&create.channel);
        // SES-06: without the capability only the first directory counts.
        let working_directories: Vec<String> = create.working_directories.into_iter().take(1).collect();
        let directories = (!working_directories.is_empty()).then(|| working_directories.clone());
        let chat_state = new_chat(&chat_uri, &now, directories.clone());
        let state = SessionState {
            provider: provider.clone(),
            title: UNTITLED.to_owned(),
            status: SessionStatus::Idle.bits() | SessionStatus::IsRead.bits(),
            activity: None,
            origin: None,
            project: None,
            working_directories: directories,
            annotations: None,
            lifecycle: SessionLifecycle::Creating,
            creation_error: None,
            server_tools: None,
            active_clients: Vec::new(),
            chats: vec![summary_of(&chat_state)],
            default_chat: Some(chat_uri.clone()),
            config: None,
            customizations: None,
            changesets: None,
            input_needed: None,
            meta: None,
        };
        let session_id = self.channels.create(&create.channel, ChannelKind::Session);
        let chat_id = self.channels.create(&chat_uri, ChannelKind::Chat);
        self.replay.open(session_id, self.seq);
        self.replay.open(chat_id, self.seq);
        let session_uri: Arc<str> = create.channel.as_str().into();
        let chat_uri: Arc<str> = chat_uri.as_str().into();
        let chat = Chat {
            session: session_id,
            model: ChatModel::new(chat_state),
            run: None,
        };
        self.chats.insert(chat_id, chat);
        let session = Session {
            uri: Arc::clone(&session_uri),
            state: Arc::new(state),
            created_at: now,
            chats: vec![chat_id],
            announced: None,
            titled: false,
            summary_due: false,
            acknowledged: BTreeSet::new(),
            modified_ms: cx.now.wall.as_millisecond(),
        };
        self.sessions.insert(session_id, session);
        self.announce_added(cx, session_id);
        self.publish_active_sessions(cx);
        if let Some(active_client) = create.active_client {
            let action = StateAction::SessionActiveClientSet(SessionActiveClientSetAction { active_client });
            self.commit(cx, session_id, action, None);
        }
        cx.effects.push(Effect::OpenSession(Box::new(OpenSession {
            session: session_id,
            chat: chat_id,
            provider,
            session_uri,
            chat_uri,
            working_directories,
        })));
    }

    pub(crate) fn session_opened(&mut self, cx: &mut Cx<'_>, session: ChannelId, outcome: Result<(), Failure>) {
        let still_creating = self
            .sessions
            .get(&session)
            .is_some_and(|session| session.state.lifecycle == SessionLifecycle::Creating);
        if !still_creating {
            return;
        }
        let action = match outcome {
            Ok(()) => StateAction::SessionReady(SessionReadyAction {}),
            Err(failure) => StateAction::SessionCreationFailed(SessionCreationFailedAction {
                error: error_info(failure),
            }),
        };
        self.commit(cx, session, action, None);
        // What was queued while the session was coming up starts now (PEND-03).
        let chats = self.sessions.get(&session).map(|session| session.chats.clone());
        for chat in chats.into_iter().flatten() {
            self.take_from_queue(cx, chat);
        }
    }

    pub(crate) fn dispose_session(&mut self, cx: &mut Cx<'_>, conn: ConnId, id: &RequestId, uri: &str) {
        let session_id = self
            .channels
            .find(uri)
            .filter(|channel| self.sessions.contains_key(channel));
        let Some((session_id, session)) =
            session_id.and_then(|id| self.sessions.remove(&id).map(|session| (id, session)))
        else {
            return cx.answer(conn, id, Err(RpcError::session_not_found(uri)));
        };
        for chat_id in session.chats.iter().copied() {
            if let Some(chat) = self.chats.remove(&chat_id)
                && let Some(run) = chat.run
            {
                cx.effects.push(Effect::CancelTurn {
                    chat: chat_id,
                    turn: run.key,
                });
            }
            cx.effects.push(Effect::CloseChat { chat: chat_id });
            self.remove_channel(chat_id);
        }
        self.remove_channel(session_id);
        for member in &session.state.active_clients {
            if let Some(client) = self.clients.get_mut(&ClientId::new(&member.client_id)) {
                client.memberships.remove(&session_id);
            }
        }
        cx.answer(conn, id, Ok(Value::Null));
        let params = SessionRemovedParams {
            channel: uri::ROOT.to_owned(),
            session: uri.to_owned(),
        };
        let message = encode_notification("root/sessionRemoved", &params);
        if let Some(root) = self.channels.get_mut(ROOT) {
            cx.effects.push(Effect::Notify {
                to: root.audience(Since::V0_9),
                message,
            });
        }
        self.publish_active_sessions(cx);
    }

    /// SUB-19: subscriptions end with their channel.
    fn remove_channel(&mut self, channel: ChannelId) {
        for subscriber in self.channels.remove(channel) {
            if let Some(conn) = self.conns.get_mut(&subscriber.conn) {
                conn.subscriptions.remove(&channel);
            }
        }
        self.replay.close(channel);
    }

    /// `listSessions`: latest first, in pages if a limit is given (ROOT-10, ROOT-11).
    pub(crate) fn list_sessions(&self, conn: ConnId, list: &ListSessions) -> Result<Value, RpcError> {
        let mut rows: Vec<(i64, ChannelId, &Session)> = self
            .sessions
            .iter()
            .map(|(id, session)| (session.modified_ms, *id, session))
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
        let compact = self
            .conns
            .get(&conn)
            .is_some_and(|conn| matches!(conn.phase, Phase::Ready { line: Since::V0_9, .. }));
        let items: Vec<SessionSummary> = rows
            .iter()
            .map(|(_, _, session)| {
                if compact {
                    for_0_9(session.summary())
                } else {
                    session.summary()
                }
            })
            .collect();
        let mut result = json!({ "items": items });
        if more && let Some((modified, id, _)) = rows.last() {
            result["nextCursor"] = json!(format!("{modified}.{}", id.0));
        }
        Ok(result)
    }

    /// Tells root subscribers of a session, new or to be shown afresh.
    pub(crate) fn announce_added(&mut self, cx: &mut Cx<'_>, session: ChannelId) {
        let Some(session) = self.sessions.get_mut(&session) else {
            return;
        };
        let summary = session.summary();
        session.announced = Some(summary.clone());
        self.notify_root(cx, |line| {
            let summary = if line == Since::V0_9 {
                for_0_9(summary.clone())
            } else {
                summary.clone()
            };
            let params = SessionAddedParams {
                channel: uri::ROOT.to_owned(),
                summary,
            };
            Some(encode_notification("root/sessionAdded", &params))
        });
    }

    /// Sends a notification to root subscribers only (SUB-05), in the form each line of the
    /// protocol knows.
    pub(crate) fn notify_root(&mut self, cx: &mut Cx<'_>, encode: impl Fn(Since) -> Option<bytes::Bytes>) {
        let Some(root) = self.channels.get_mut(ROOT) else {
            return;
        };
        for line in [Since::V1_0, Since::V0_9] {
            let to = root.audience_of(line);
            if !to.is_empty()
                && let Some(message) = encode(line)
            {
                cx.effects.push(Effect::Notify { to, message });
            }
        }
    }

    pub(crate) fn client_of(&self, conn: ConnId) -> Option<&ClientId> {
        match &self.conns.get(&conn)?.phase {
            Phase::Ready { client, .. } => Some(client),
            Phase::Fresh => None,
        }
    }
}

/// ROOT-16: 0.9 knows neither the compact catalogue nor the default chat.
pub(crate) fn for_0_9(mut summary: SessionSummary) -> SessionSummary {
    summary.chats = None;
    summary.default_chat = None;
    summary
}

pub(crate) fn error_info(failure: Failure) -> ErrorInfo {
    ErrorInfo {
        error_type: failure.kind,
        message: failure.message,
        stack: None,
        meta: None,
    }
}

fn new_chat(uri: &str, now: &str, working_directories: Option<Vec<String>>) -> ChatState {
    ChatState {
        resource: uri.to_owned(),
        title: UNTITLED.to_owned(),
        status: SessionStatus::Idle.bits() | SessionStatus::IsRead.bits(),
        activity: None,
        modified_at: now.to_owned(),
        changes: None,
        origin: Some(ChatOrigin::User),
        // SES-11: a default chat is never movable.
        movable: None,
        interactivity: None,
        working_directories,
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

fn parse_cursor(cursor: &str) -> Option<(i64, ChannelId)> {
    let (modified, id) = cursor.split_once('.')?;
    Some((modified.parse().ok()?, ChannelId(id.parse().ok()?)))
}
