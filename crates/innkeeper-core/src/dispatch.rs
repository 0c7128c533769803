//! What a client may change: every rule that stands between `dispatchAction` and the reducer.
//!
//! Refusing, doing nothing and ignoring are three different answers (E-01): an unknown channel
//! is silence, a broken rule is a refusal to the author, a repeated decision is an echo.
//!
//! One client re-announces itself with `session/activeClientSet` whenever anything changes, its
//! own echo included. An unchanged announcement is therefore acknowledged to its author once and
//! then met with silence until something else changes in the session: the author's queue drains,
//! nobody else is told, and no loop can form (DSP-15, E-52).

use ahp_types::actions::{ChatTurnCancelledAction, ChatTurnStartedAction, SessionTitleChangedAction, StateAction};
use ahp_types::state::{
    ChatInteractivity, Message, MessageAttachment, MessageKind, PendingMessageKind, ResponsePart, TurnState,
};
use jiff::Timestamp;

use crate::access::Scope;
use crate::action::{self, ChannelKind, Dispatcher};
use crate::chat_state::MAX_CLOCK_SKEW_SECONDS;
use crate::client::Phase;
use crate::commit::Author;
use crate::core::{Cx, HostCore};
use crate::ids::{ChannelId, ConnId};
use crate::input::Dispatch;
use crate::session::Chat;

/// The judgement of a dispatched action.
#[expect(clippy::large_enum_variant, reason = "lives on the stack for the length of one call")]
enum Verdict {
    /// Apply it, possibly in a corrected form that the echo then shows to everybody.
    Accept(StateAction),
    /// It repeats what is already so: tell the author and nobody else.
    Acknowledge,
    /// It repeats what was just acknowledged.
    Silence,
    /// Refuse it with a reason for people.
    Reject(String),
}

impl HostCore {
    pub(crate) fn dispatch(&mut self, cx: &mut Cx<'_>, conn: ConnId, dispatch: Dispatch) {
        let Some(connection) = self.conns.get(&conn) else {
            return;
        };
        let Phase::Ready { client, .. } = &connection.phase else {
            return;
        };
        let scope = connection.principal.scope;
        let author = Author {
            conn,
            client: client.clone(),
            client_seq: dispatch.client_seq,
        };
        let Some(channel) = self.channels.find(&dispatch.channel) else {
            return; // DSP-05
        };
        let verdict = match dispatch.action {
            Err(problem) => Verdict::Reject(problem.to_string()),
            Ok(action) => self.judge(cx, channel, action, &author, scope),
        };
        match verdict {
            Verdict::Accept(action) => self.accept(cx, channel, action, &author),
            Verdict::Acknowledge => {
                if let Ok(action) = serde_json::from_str::<StateAction>(dispatch.raw.get()) {
                    self.acknowledge(cx, channel, &action, &author);
                    self.note_acknowledged(channel, &author);
                }
            }
            Verdict::Silence => {}
            Verdict::Reject(reason) => self.reject(cx, channel, dispatch.raw.get(), &author, &reason),
        }
    }

    fn judge(&self, cx: &Cx<'_>, channel: ChannelId, action: StateAction, author: &Author, scope: Scope) -> Verdict {
        let (Some(rule), Some(entry)) = (action::rule(&action), self.channels.get(channel)) else {
            return Verdict::Reject("unknown action type".to_owned());
        };
        // The reference client renames a chat by sending the session's action to the chat (DSP-07).
        let renames_chat = entry.kind == ChannelKind::Chat && matches!(action, StateAction::SessionTitleChanged(_));
        if rule.kind != entry.kind && !renames_chat {
            return Verdict::Reject(format!("{} does not belong on this kind of channel", rule.name));
        }
        if rule.dispatcher == Dispatcher::HostOnly {
            return Verdict::Reject(format!("only the host may send {}", rule.name));
        }
        if scope < rule.scope {
            return Verdict::Reject(format!(
                "{} needs the scope {} and this connection has {scope}",
                rule.name, rule.scope
            ));
        }
        match entry.kind {
            ChannelKind::Root => Verdict::Reject("this host has no settings that clients may change".to_owned()),
            ChannelKind::Session => self.judge_session(channel, action, author),
            ChannelKind::Chat => self.judge_chat(cx, channel, action),
            ChannelKind::Canvas
            | ChannelKind::Changeset
            | ChannelKind::Annotations
            | ChannelKind::Terminal
            | ChannelKind::ResourceWatch
            | ChannelKind::Automations
            | ChannelKind::AutomationRun => Verdict::Reject("this host has no such channels".to_owned()),
        }
    }

    fn judge_session(&self, channel: ChannelId, action: StateAction, author: &Author) -> Verdict {
        let Some(session) = self.sessions.get(&channel) else {
            return Verdict::Reject("the session is gone".to_owned());
        };
        match &action {
            StateAction::SessionTitleChanged(changed) => match self.check_title(&changed.title) {
                Ok(()) => Verdict::Accept(action),
                Err(reason) => Verdict::Reject(reason),
            },
            StateAction::SessionIsReadChanged(_) | StateAction::SessionIsArchivedChanged(_) => Verdict::Accept(action),
            StateAction::SessionActiveClientSet(set) => {
                if set.active_client.client_id != author.client.as_str() {
                    return Verdict::Reject(
                        "a client may only announce itself: activeClient.clientId is not the dispatcher's".to_owned(),
                    );
                }
                let unchanged = session.state.active_clients.contains(&set.active_client);
                match (unchanged, session.acknowledged.contains(&author.client)) {
                    (false, _) => Verdict::Accept(action),
                    (true, false) => Verdict::Acknowledge,
                    (true, true) => Verdict::Silence,
                }
            }
            StateAction::SessionActiveClientRemoved(removed) if removed.client_id != author.client.as_str() => {
                Verdict::Reject("a client may only remove itself: clientId is not the dispatcher's".to_owned())
            }
            StateAction::SessionActiveClientRemoved(_) => Verdict::Accept(action),
            // An unknown customization is nothing to decide about: the reducer ignores it.
            StateAction::SessionCustomizationToggled(_) => Verdict::Accept(action),
            StateAction::SessionConfigChanged(_) => {
                Verdict::Reject("this session has no settings that clients may change".to_owned())
            }
            StateAction::SessionMcpServerStartRequested(_)
            | StateAction::SessionMcpServerStopRequested(_)
            | StateAction::SessionMcpServerBackgroundRequested(_) => {
                Verdict::Reject("this session has no such MCP server".to_owned())
            }
            StateAction::SessionWorkingDirectorySet(_)
            | StateAction::SessionWorkingDirectoryRemoved(_)
            | StateAction::SessionWorkingDirectoryReplaced(_) => {
                Verdict::Reject("this session's agent cannot change its working directories".to_owned())
            }
            _ => Verdict::Reject("clients may not send this to a session".to_owned()),
        }
    }

    fn judge_chat(&self, cx: &Cx<'_>, channel: ChannelId, action: StateAction) -> Verdict {
        let Some(chat) = self.chats.get(&channel) else {
            return Verdict::Reject("the chat is gone".to_owned());
        };
        let head = chat.model.head();
        let active = head.active_turn.as_ref();
        match action {
            StateAction::ChatTurnStarted(started) => match self.check_turn(cx, chat, &started) {
                Ok(()) => Verdict::Accept(StateAction::ChatTurnStarted(started)),
                Err(reason) => Verdict::Reject(reason),
            },
            StateAction::ChatTurnCancelled(cancelled) => match (active, &chat.run) {
                (Some(turn), Some(run)) if turn.id == cancelled.turn_id => {
                    // TURN-05: durations are measured here; a client's may be anything.
                    let duration = elapsed(cx.now.mono_ms, run.started_ms);
                    Verdict::Accept(StateAction::ChatTurnCancelled(ChatTurnCancelledAction {
                        duration,
                        ..cancelled
                    }))
                }
                (Some(_), _) => Verdict::Reject("another turn is running, not this one".to_owned()),
                (None, _) => Verdict::Reject("no turn is running".to_owned()),
            },
            StateAction::ChatTurnResume(resume) => match (active, chat.model.turns().last()) {
                _ if self.shutting_down => Verdict::Reject("the host is shutting down".to_owned()),
                (Some(_), _) => Verdict::Reject("a turn is already running".to_owned()),
                (None, Some(turn)) if turn.id == resume.turn_id && turn.state == TurnState::Error => {
                    match turn.response_parts.last() {
                        Some(ResponsePart::Error(error)) if error.resumable == Some(true) => {
                            Verdict::Accept(StateAction::ChatTurnResume(resume))
                        }
                        _ => Verdict::Reject("the turn's error cannot be resumed".to_owned()),
                    }
                }
                (None, _) => {
                    Verdict::Reject("only the latest turn can be resumed, and only after a resumable error".to_owned())
                }
            },
            StateAction::ChatPendingMessageSet(set) => {
                let queue = head.queued_messages.as_deref().unwrap_or_default();
                let is_new =
                    set.kind == PendingMessageKind::Queued && !queue.iter().any(|message| message.id == set.id);
                if is_new && queue.len() >= self.config.max_queued_messages {
                    return Verdict::Reject(format!(
                        "a chat queues at most {} messages",
                        self.config.max_queued_messages
                    ));
                }
                match self.check_message(chat, &set.message) {
                    Ok(()) => Verdict::Accept(StateAction::ChatPendingMessageSet(set)),
                    Err(reason) => Verdict::Reject(reason),
                }
            }
            StateAction::ChatPendingMessageRemoved(removed) => {
                let known = match removed.kind {
                    PendingMessageKind::Steering => head
                        .steering_message
                        .as_ref()
                        .is_some_and(|message| message.id == removed.id),
                    PendingMessageKind::Queued => head
                        .queued_messages
                        .iter()
                        .flatten()
                        .any(|message| message.id == removed.id),
                };
                if known {
                    Verdict::Accept(StateAction::ChatPendingMessageRemoved(removed))
                } else {
                    Verdict::Reject("no such pending message".to_owned())
                }
            }
            StateAction::ChatQueuedMessagesReordered(reordered) => Verdict::Accept(
                StateAction::ChatQueuedMessagesReordered(chat.model.complete_order(&reordered)),
            ),
            StateAction::ChatDraftChanged(changed) => match changed
                .draft
                .as_ref()
                .map_or(Ok(()), |draft| self.check_message(chat, draft))
            {
                Ok(()) => Verdict::Accept(StateAction::ChatDraftChanged(changed)),
                Err(reason) => Verdict::Reject(reason),
            },
            StateAction::ChatIsReadChanged(_) | StateAction::ChatIsArchivedChanged(_) => Verdict::Accept(action),
            StateAction::SessionTitleChanged(changed) => match self.check_title(&changed.title) {
                Ok(()) => Verdict::Accept(StateAction::SessionTitleChanged(changed)),
                Err(reason) => Verdict::Reject(reason),
            },
            StateAction::ChatTruncated(_) => Verdict::Reject("this chat's agent cannot rewind its history".to_owned()),
            StateAction::ChatToolCallConfirmed(_)
            | StateAction::ChatToolCallComplete(_)
            | StateAction::ChatToolCallResultConfirmed(_)
            | StateAction::ChatToolCallContentChanged(_) => {
                Verdict::Reject("no such tool call is waiting for this".to_owned())
            }
            StateAction::ChatInputAnswerChanged(_) | StateAction::ChatInputCompleted(_) => {
                Verdict::Reject("no such question is open".to_owned())
            }
            StateAction::ChatWorkingDirectorySet(_) | StateAction::ChatWorkingDirectoryRemoved(_) => {
                Verdict::Reject("this chat's agent cannot change its working directories".to_owned())
            }
            _ => Verdict::Reject("clients may not send this to a chat".to_owned()),
        }
    }

    fn check_title(&self, title: &str) -> Result<(), String> {
        if title.len() > self.config.max_title_bytes {
            return Err(format!("a title has at most {} bytes", self.config.max_title_bytes));
        }
        Ok(())
    }

    fn check_turn(&self, cx: &Cx<'_>, chat: &Chat, started: &ChatTurnStartedAction) -> Result<(), String> {
        if let Some(reason) = self.sessions.get(&chat.session).and_then(|session| session.not_ready()) {
            return Err(reason.to_owned());
        }
        if self.shutting_down {
            return Err("the host is shutting down".to_owned());
        }
        if chat.model.head().active_turn.is_some() {
            return Err("a turn is already running in this chat; cancel it, or queue the message".to_owned());
        }
        if started.turn_id.is_empty() || started.turn_id.len() > 256 {
            return Err("turnId has between 1 and 256 bytes".to_owned());
        }
        if chat.model.knows_turn(&started.turn_id) {
            return Err("this turnId was used before; every turn needs its own".to_owned());
        }
        if started.queued_message_id.is_some() {
            return Err("queuedMessageId is set by the host when it takes a message from the queue".to_owned());
        }
        check_started_at(&started.started_at, cx.now.wall)?;
        self.check_message(chat, &started.message)
    }

    /// The rules for every message a client may write (DSP-18, TURN-17).
    fn check_message(&self, chat: &Chat, message: &Message) -> Result<(), String> {
        if message.origin.kind != MessageKind::User {
            return Err("clients write messages of kind user only".to_owned());
        }
        if matches!(
            chat.model.head().interactivity,
            Some(ChatInteractivity::ReadOnly | ChatInteractivity::Hidden)
        ) {
            return Err("this chat takes no messages from people".to_owned());
        }
        if message.text.len() > self.config.max_message_bytes {
            return Err(format!(
                "a message has at most {} bytes of text",
                self.config.max_message_bytes
            ));
        }
        let attachments = message.attachments.as_deref().unwrap_or_default();
        if attachments.len() > self.config.max_attachments {
            return Err(format!(
                "a message has at most {} attachments",
                self.config.max_attachments
            ));
        }
        for (index, attachment) in attachments.iter().enumerate() {
            match attachment {
                MessageAttachment::Unknown(_) => {
                    return Err(format!(
                        "message.attachments[{index}] is malformed or of an unknown kind"
                    ));
                }
                MessageAttachment::Simple(simple) if simple.model_representation.is_none() && simple.meta.is_none() => {
                    return Err(format!("message.attachments[{index}] needs a modelRepresentation"));
                }
                MessageAttachment::Chat(chat)
                    if self
                        .channels
                        .find(&chat.resource)
                        .is_none_or(|id| !self.chats.contains_key(&id)) =>
                {
                    return Err(format!("message.attachments[{index}] names a chat that does not exist"));
                }
                MessageAttachment::Simple(_)
                | MessageAttachment::EmbeddedResource(_)
                | MessageAttachment::Resource(_)
                | MessageAttachment::Annotations(_)
                | MessageAttachment::Chat(_) => {}
            }
        }
        Ok(())
    }

    /// Applies what was accepted, then does what it asks for: side effects come strictly last,
    /// so that an agent's first word never overtakes the echo of the turn (E-10).
    fn accept(&mut self, cx: &mut Cx<'_>, channel: ChannelId, action: StateAction, author: &Author) {
        match action {
            StateAction::SessionTitleChanged(changed) if self.chats.contains_key(&channel) => {
                self.rename_chat(cx, channel, changed, author)
            }
            StateAction::ChatTurnStarted(started) => {
                let text = started.message.text.clone();
                self.commit(cx, channel, StateAction::ChatTurnStarted(started), Some(author));
                self.title_from(cx, channel, &text);
                self.start_run(cx, channel, false);
            }
            StateAction::ChatTurnResume(resume) => {
                self.commit(cx, channel, StateAction::ChatTurnResume(resume), Some(author));
                self.start_run(cx, channel, true);
            }
            StateAction::ChatTurnCancelled(cancelled) => {
                self.commit(cx, channel, StateAction::ChatTurnCancelled(cancelled), Some(author));
                self.stop_run(cx, channel);
            }
            StateAction::ChatPendingMessageSet(set) => {
                let queue = self
                    .chats
                    .get(&channel)
                    .and_then(|chat| chat.model.head().queued_messages.as_deref());
                let is_edit = queue.unwrap_or_default().iter().any(|message| message.id == set.id);
                self.commit(cx, channel, StateAction::ChatPendingMessageSet(set), Some(author));
                // PEND-03: a new message starts when nothing runs. Editing one that was left
                // waiting, as after a cancel, starts nothing (E-63).
                if !is_edit {
                    self.take_from_queue(cx, channel);
                }
            }
            StateAction::SessionTitleChanged(changed) => {
                if let Some(session) = self.sessions.get_mut(&channel) {
                    session.titled = true;
                }
                self.commit(cx, channel, StateAction::SessionTitleChanged(changed), Some(author));
            }
            other => {
                self.commit(cx, channel, other, Some(author));
            }
        }
    }

    /// A chat's title has no action of its own (E-08): it travels in the session's catalogue, and
    /// the author gets its echo where it asked for it.
    fn rename_chat(
        &mut self,
        cx: &mut Cx<'_>,
        channel: ChannelId,
        changed: SessionTitleChangedAction,
        author: &Author,
    ) {
        if let Some(chat) = self.chats.get_mut(&channel) {
            chat.model.edit(|state| state.title.clone_from(&changed.title));
        }
        self.acknowledge(cx, channel, &StateAction::SessionTitleChanged(changed), author);
        self.sync_chat(cx, channel);
    }

    /// Notes that a client's unchanged announcement was acknowledged.
    fn note_acknowledged(&mut self, channel: ChannelId, author: &Author) {
        if let Some(session) = self.sessions.get_mut(&channel) {
            session.acknowledged.insert(author.client.clone());
        }
    }
}

/// A start time that the reducers can add a duration to (TURN-02, E-12).
fn check_started_at(started_at: &str, wall: Timestamp) -> Result<(), String> {
    let parsed = started_at
        .parse::<Timestamp>()
        .ok()
        .filter(|_| is_plain_rfc3339(started_at));
    let Some(at) = parsed else {
        return Err("startedAt must be an RFC 3339 time, as in 2026-01-31T12:00:00.000Z".to_owned());
    };
    if (at.as_second() - wall.as_second()).abs() > MAX_CLOCK_SKEW_SECONDS {
        return Err(
            "startedAt is more than a day away from the host's clock; check the clock of this device".to_owned(),
        );
    }
    Ok(())
}

/// Whether a time has the form every client reads. The parser accepts more, such as a space for
/// the `T` or a time zone in brackets, and the text is passed on as it is.
fn is_plain_rfc3339(text: &str) -> bool {
    let has_t = text.as_bytes().get(10).is_some_and(|byte| *byte == b'T');
    has_t
        && text
            .bytes()
            .all(|byte| byte.is_ascii_digit() || b"-+:.TZ".contains(&byte))
}

/// Milliseconds between two readings of the monotonic clock, as actions carry them.
pub(crate) fn elapsed(now_ms: u64, started_ms: u64) -> i64 {
    i64::try_from(now_ms.saturating_sub(started_ms)).unwrap_or(i64::MAX)
}
