//! `dispatchAction`: checks and applies the actions of clients.
//!
//! The table of slices below names for each action the functions that check and apply it. A slice is in the file of the
//! state that it changes. Consequences of an action are in its own slice, or in `Host::settle` if they follow from the
//! input as a whole. The four derived actions that must follow their cause directly are in `log/derive.rs` (ADR 0009).
//!
//! Refusing, doing nothing and ignoring are three different answers (E-01): an unknown channel
//! is silence, a broken rule is a refusal to the author, a repeated decision is an echo.
//!
//! One client re-announces itself with `session/activeClientSet` whenever anything changes, its own echo included. An
//! unchanged announcement is therefore acknowledged to its author once and then ignored until the session changes
//! otherwise: the author's queue drains, no other client gets an action, and no loop can form (DSP-15, E-52).

use ahp::reducers::ReduceOutcome;
use ahp_types::actions::StateAction;

use crate::chat::chats::Chat;
use crate::clients::access::Scope;
use crate::clients::client::Phase;
use crate::clients::permissions::read_only_message;
use crate::core::{Cx, Host, never};
use crate::ids::{ChannelId, ConnId};
use crate::input::Dispatch;
use crate::log::commit::Author;
use crate::protocol::action_table::{self, ChannelKind, Dispatcher};
use crate::protocol::dialect::extension::{self, OptIn};
use crate::session::Session;
use crate::session::configure::Change;
use crate::session::settings::Problem;

mod active_client;
mod config;
mod message;
mod pending_message;
mod title;
mod tool_call;
mod turn;

pub(crate) use message::check_model;

/// A dispatched action's author, and the channel it was sent to.
pub(crate) struct Dispatched {
    pub(crate) channel: ChannelId,
    pub(crate) author: Author,
    /// The scope of the author's credential.
    pub(crate) scope: Scope,
    /// The field of `session/activeClientSet` that the published type does not have.
    opt_in: Option<OptIn>,
}

/// The result of checking a dispatched action.
pub(crate) enum Verdict {
    /// Apply it, possibly in a corrected form, and publish it to all subscribers.
    Accept(StateAction),
    /// The client announced itself again without a change: echo it to the author alone, once (E-52).
    Acknowledge(StateAction),
    /// It changes nothing: echo it to the author alone, possibly in a corrected form.
    Echo(StateAction),
    /// It repeats an announcement that was acknowledged: do nothing.
    Silence,
    /// Refuse it with a reason for users.
    Reject(String),
    /// Refuse it, and fail the call it is about: its owner does not know the tool (TOOL-20).
    RejectAndFail { reason: String, call: String },
}

/// Writes the functions that find the slice of an action: the functions that check and apply it, side by side in one
/// file. Without a second function the action is applied by committing it. Actions in `plain` need no check.
macro_rules! slices {
    (
        root { $($root:ident: $check_root:ident $(, $apply_root:ident)?;)* }
        session {
            plain($($plain_session:ident),*);
            $($session:ident: $check_session:ident $(, $apply_session:ident)?;)*
        }
        chat {
            plain($($plain_chat:ident),*);
            $($chat:ident: $check_chat:ident $(, $apply_chat:ident)?;)*
        }
    ) => {
        impl Host {
            fn check_on_root(&self, action: StateAction) -> Verdict {
                match action {
                    $(StateAction::$root(action) => self.$check_root(action),)*
                    _ => Verdict::Reject("clients may not send this to the root channel".to_owned()),
                }
            }

            fn check_on_session(&self, by: &Dispatched, session: &Session, action: StateAction) -> Verdict {
                match action {
                    $(StateAction::$session(action) => self.$check_session(by, session, action),)*
                    $(StateAction::$plain_session(_) => Verdict::Accept(action),)*
                    _ => Verdict::Reject("clients may not send this to a session".to_owned()),
                }
            }

            fn check_on_chat(&self, cx: &Cx<'_>, by: &Dispatched, chat: &Chat, action: StateAction) -> Verdict {
                match action {
                    $(StateAction::$chat(action) => self.$check_chat(cx, by, chat, action),)*
                    $(StateAction::$plain_chat(_) => Verdict::Accept(action),)*
                    _ => Verdict::Reject("clients may not send this to a chat".to_owned()),
                }
            }

            fn apply_on_root(&mut self, cx: &mut Cx<'_>, by: &Dispatched, action: StateAction) {
                match action {
                    $($(StateAction::$root(action) => self.$apply_root(cx, by, action),)?)*
                    action => {
                        self.commit_dispatched(cx, by, action);
                    }
                }
            }

            fn apply_on_session(&mut self, cx: &mut Cx<'_>, by: &Dispatched, action: StateAction) {
                match action {
                    $($(StateAction::$session(action) => self.$apply_session(cx, by, action),)?)*
                    action => {
                        self.commit_dispatched(cx, by, action);
                    }
                }
            }

            fn apply_on_chat(&mut self, cx: &mut Cx<'_>, by: &Dispatched, action: StateAction) {
                match action {
                    $($(StateAction::$chat(action) => self.$apply_chat(cx, by, action),)?)*
                    action => {
                        self.commit_dispatched(cx, by, action);
                    }
                }
            }
        }
    };
}

slices! {
    root {
        RootConfigChanged: check_root_config_changed, apply_root_config_changed;
    }
    session {
        plain(SessionIsReadChanged, SessionIsArchivedChanged);
        SessionTitleChanged: check_session_title, apply_session_title;
        SessionActiveClientSet: check_active_client_set, apply_active_client_set;
        SessionActiveClientRemoved: check_active_client_removed, apply_active_client_removed;
        SessionConfigChanged: check_session_config_changed, apply_session_config_changed;
        SessionCustomizationToggled: check_customization_toggled, apply_customization_toggled;
        SessionMcpServerStartRequested: check_server_start, apply_server_start;
        SessionMcpServerStopRequested: check_server_stop, apply_server_stop;
        SessionMcpServerBackgroundRequested: check_server_background;
        SessionWorkingDirectorySet: check_directory_set, apply_directory_set;
        SessionWorkingDirectoryRemoved: check_directory_removed, apply_directory_removed;
        SessionWorkingDirectoryReplaced: check_directory_replaced, apply_directory_replaced;
    }
    chat {
        plain(ChatIsReadChanged, ChatIsArchivedChanged);
        // The reference client renames a chat by sending the session's action to the chat (DSP-07).
        SessionTitleChanged: check_chat_title, apply_chat_title;
        ChatTurnStarted: check_turn_started, apply_turn_started;
        ChatTurnCancelled: check_turn_cancelled, apply_turn_cancelled;
        ChatTurnResume: check_turn_resume, apply_turn_resume;
        ChatTruncated: check_truncated, apply_truncated;
        ChatPendingMessageSet: check_pending_message_set, apply_pending_message_set;
        ChatPendingMessageRemoved: check_pending_message_removed;
        ChatQueuedMessagesReordered: check_queued_messages_reordered;
        ChatDraftChanged: check_draft_changed;
        ChatToolCallConfirmed: check_tool_call_confirmed, apply_tool_call_confirmed;
        ChatToolCallComplete: check_tool_call_complete, apply_tool_call_complete;
        ChatToolCallResultConfirmed: check_tool_call_result_confirmed, apply_tool_call_result_confirmed;
        ChatToolCallContentChanged: check_tool_call_content_changed;
        ChatInputAnswerChanged: check_input_answer_changed;
        ChatInputCompleted: check_input_completed, apply_input_completed;
        ChatWorkingDirectorySet: check_chat_directory_set, apply_chat_directory_set;
        ChatWorkingDirectoryRemoved: check_chat_directory_removed, apply_chat_directory_removed;
    }
}

impl Verdict {
    /// Accepts an action that passed its check.
    pub(crate) fn from_check(action: StateAction, check: Result<(), String>) -> Self {
        match check {
            Ok(()) => Self::Accept(action),
            Err(reason) => Self::Reject(reason),
        }
    }

    /// Accepts a change of settings that passed its check. A change without effect is echoed to its author alone:
    /// clients that announce their settings on every change would otherwise loop (DSP-15).
    fn from_change<A>(check: Result<Change<A>, Problem>, action: fn(A) -> StateAction) -> Self {
        match check {
            Ok(Change::Apply(change)) => Self::Accept(action(change)),
            Ok(Change::Repeat(change)) => Self::Echo(action(change)),
            Err(problem) => Self::Reject(problem.to_string()),
        }
    }
}

impl Host {
    pub(crate) fn dispatch(&mut self, cx: &mut Cx<'_>, conn: ConnId, dispatch: Dispatch) {
        if self.conns.client(conn).is_none() {
            // A dispatch before the handshake has no author to answer.
            return;
        }
        self.find_or_open(cx, &dispatch.channel);
        let Some(channel) = self.target_of(conn, &dispatch) else {
            // DSP-05: an action for an unknown channel is dropped.
            return;
        };
        let Some(connection) = self.conns.get(&conn) else {
            return never!("the connection is open");
        };
        let Phase::Ready { client, .. } = &connection.phase else {
            return never!("the connection has a client");
        };
        let by = Dispatched {
            channel,
            author: Author {
                conn,
                client: client.clone(),
                client_seq: dispatch.client_seq,
            },
            scope: connection.principal.scope,
            opt_in: match &dispatch.action {
                // `decode` rejected an unreadable opt-in before.
                Ok(StateAction::SessionActiveClientSet(_)) => extension::opt_in_of(&dispatch.raw).unwrap_or_default(),
                Ok(_) | Err(_) => None,
            },
        };
        if let Some(choice) = dispatch.choice {
            if let Err(reason) = self.choose(cx, &by, choice) {
                self.reject(cx, channel, dispatch.raw.get(), &by.author, &reason);
            }
            return;
        }
        let verdict = match dispatch.action {
            _ if self.storage.mode().is_read_only() => Verdict::Reject(self.why_read_only()),
            Err(problem) => Verdict::Reject(problem.to_string()),
            Ok(action) => self.check_dispatch(cx, &by, action),
        };
        let raw = dispatch.raw.get();
        match verdict {
            Verdict::Accept(action) => self.apply_dispatch(cx, &by, action),
            Verdict::Acknowledge(action) => {
                self.acknowledge(cx, channel, &action, &by.author);
                self.note_acknowledged(channel, &by.author);
                self.announced_again(cx, channel, &by.author);
            }
            Verdict::Echo(action) => self.acknowledge(cx, channel, &action, &by.author),
            Verdict::Silence => self.announced_again(cx, channel, &by.author),
            Verdict::Reject(reason) => self.reject(cx, channel, raw, &by.author, &reason),
            Verdict::RejectAndFail { reason, call } => {
                self.reject(cx, channel, raw, &by.author, &reason);
                self.fail_unknown_tool(cx, channel, call);
            }
        }
    }

    /// The channel that an action is for. To a client that knows no chats, the session is its chat; it may dispatch
    /// before the snapshot that shows which one.
    pub(crate) fn target_of(&self, conn: ConnId, dispatch: &Dispatch) -> Option<ChannelId> {
        let channel = self.channels.find(&dispatch.channel)?;
        let rule = dispatch.action.as_ref().ok().and_then(action_table::rule);
        match rule {
            Some(rule) if rule.kind == ChannelKind::Chat => Some(self.chat_meant(conn, channel)),
            Some(_) | None => Some(channel),
        }
    }

    /// The chat that a client means which knows no chats and names a session.
    pub(crate) fn chat_meant(&self, conn: ConnId, channel: ChannelId) -> ChannelId {
        if !self.conns.dialect(conn).version.session_is_chat() || !self.sessions.contains_key(&channel) {
            return channel;
        }
        match self.conns.shown_chat(conn, channel) {
            shown if shown == channel => self.default_chat(channel).unwrap_or(channel),
            shown => shown,
        }
    }

    /// Rejects an action about a session or chat that cannot be loaded.
    pub(crate) fn refuse_dispatch(&mut self, cx: &mut Cx<'_>, conn: ConnId, dispatch: &Dispatch, problem: &str) {
        let Some(client) = self.conns.client(conn).cloned() else {
            // A dispatch before the handshake has no author to answer.
            return;
        };
        let author = Author {
            conn,
            client,
            client_seq: dispatch.client_seq,
        };
        if let Some(channel) = self.channels.find(&dispatch.channel) {
            self.reject(cx, channel, dispatch.raw.get(), &author, problem);
        }
    }

    pub(crate) fn why_read_only(&self) -> String {
        read_only_message(self.storage.mode().read_only_reason().unwrap_or_default())
    }

    /// Checks an action by the action table, then by its own slice.
    fn check_dispatch(&self, cx: &Cx<'_>, by: &Dispatched, action: StateAction) -> Verdict {
        let (Some(rule), Some(entry)) = (action_table::rule(&action), self.channels.get(by.channel)) else {
            return Verdict::Reject("unknown action type".to_owned());
        };
        let renames_chat = entry.kind == ChannelKind::Chat && matches!(action, StateAction::SessionTitleChanged(_));
        if rule.kind != entry.kind && !renames_chat {
            return Verdict::Reject(format!("{} does not belong on this kind of channel", rule.name));
        }
        if rule.dispatcher == Dispatcher::HostOnly {
            return Verdict::Reject(format!("only the host may send {}", rule.name));
        }
        // VS Code sends its own settings to every host when it connects. If they change nothing, no scope is needed.
        if let StateAction::RootConfigChanged(changed) = &action
            && let Ok(Change::Repeat(changed)) = self.check_root_config(changed)
        {
            return Verdict::Echo(StateAction::RootConfigChanged(changed));
        }
        if by.scope < rule.scope {
            return Verdict::Reject(format!(
                "{} needs the scope {} and this connection has {}",
                rule.name, rule.scope, by.scope
            ));
        }
        match entry.kind {
            ChannelKind::Root => self.check_on_root(action),
            ChannelKind::Session => match self.sessions.get(&by.channel) {
                Some(session) => self.check_on_session(by, session, action),
                None => Verdict::Reject("the session is gone".to_owned()),
            },
            ChannelKind::Chat => match self.chats.get(&by.channel) {
                Some(chat) => self.check_on_chat(cx, by, chat, action),
                None => Verdict::Reject("the chat is gone".to_owned()),
            },
            kind => self.check_on_part(cx, by, kind, action),
        }
    }

    /// Applies an accepted action and then its side effects, strictly last, so that an agent's first output never
    /// overtakes the echo of the turn (E-10).
    fn apply_dispatch(&mut self, cx: &mut Cx<'_>, by: &Dispatched, action: StateAction) {
        match self.channels.kind(by.channel) {
            Some(ChannelKind::Root) => self.apply_on_root(cx, by, action),
            Some(ChannelKind::Session) => self.apply_on_session(cx, by, action),
            Some(ChannelKind::Chat) => self.apply_on_chat(cx, by, action),
            Some(kind) => self.apply_on_part(cx, by, kind, action),
            None => never!("the channel was there when the action was checked"),
        }
    }

    /// Commits an action with its author.
    pub(crate) fn commit_dispatched(&mut self, cx: &mut Cx<'_>, by: &Dispatched, action: StateAction) -> ReduceOutcome {
        self.commit(cx, by.channel, action, Some(&by.author))
    }
}

/// Milliseconds between two readings of the monotonic clock, as actions carry them.
pub(crate) fn elapsed(now_ms: u64, started_ms: u64) -> i64 {
    i64::try_from(now_ms.saturating_sub(started_ms)).unwrap_or(i64::MAX)
}
