//! What a client may change: every rule that stands between `dispatchAction` and the reducer.
//!
//! Refusing, doing nothing and ignoring are three different answers (E-01): an unknown channel
//! is silence, a broken rule is a refusal to the author, a repeated decision is an echo.
//!
//! One client re-announces itself with `session/activeClientSet` whenever anything changes, its
//! own echo included. An unchanged announcement is therefore acknowledged to its author once and
//! then met with silence until something else changes in the session: the author's queue drains,
//! nobody else is told, and no loop can form (DSP-15, E-52).

use std::collections::HashSet;

use ahp_types::actions::{SessionTitleChangedAction, StateAction};
use ahp_types::state::PendingMessageKind;

use crate::chat::approval;
use crate::clients::access::Scope;
use crate::clients::client::Phase;
use crate::clients::permissions::read_only_message;
use crate::core::{Cx, Host};
use crate::ids::{ChannelId, ConnId};
use crate::input::Dispatch;
use crate::log::commit::Author;
use crate::protocol::action_table::{self, ChannelKind, Dispatcher};
use crate::protocol::dialect::extension::{self, OptIn};
use crate::session::TitleSource;
use crate::session::configure::Change;
use crate::session::settings::Problem;

mod chat;
mod message;
mod session;
mod tool;

/// The judgement of a dispatched action.
enum Verdict {
    /// Apply it, possibly in a corrected form that the echo then shows to everybody.
    Accept(StateAction),
    /// The client announced itself again without a change: tell the author and nobody else, once (E-52).
    Acknowledge(StateAction),
    /// It repeats what is already so: tell the author and nobody else, possibly in a corrected form.
    Echo(StateAction),
    /// It repeats what was just acknowledged.
    Silence,
    /// Refuse it with a reason for people.
    Reject(String),
    /// Refuse it, and fail the call it is about: its owner does not know the tool (TOOL-20).
    RejectAndFail { reason: String, call: String },
}

impl Verdict {
    /// Accepts an action that passed its check.
    fn from_check(action: StateAction, check: Result<(), String>) -> Self {
        match check {
            Ok(()) => Self::Accept(action),
            Err(reason) => Self::Reject(reason),
        }
    }

    /// Accepts a change of settings that passed its check. One that changes nothing is for its
    /// author alone: clients that announce their settings on every change would go on for ever
    /// (DSP-15).
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
        let opt_in = match &dispatch.action {
            // What cannot be read was refused where it arrived.
            Ok(StateAction::SessionActiveClientSet(_)) => extension::opt_in_of(&dispatch.raw).unwrap_or_default(),
            Ok(_) | Err(_) => None,
        };
        let verdict = match dispatch.action {
            _ if self.storage.mode().is_read_only() => Verdict::Reject(self.why_read_only()),
            Err(problem) => Verdict::Reject(problem.to_string()),
            Ok(action) => self.judge(cx, channel, action, opt_in.as_ref(), &author, scope),
        };
        match verdict {
            Verdict::Accept(action) => {
                if let StateAction::SessionActiveClientSet(set) = &action {
                    self.set_opt_in(channel, &set.active_client.client_id, opt_in);
                }
                self.accept(cx, channel, action, &author, scope);
            }
            Verdict::Acknowledge(action) => {
                self.acknowledge(cx, channel, &action, &author);
                self.note_acknowledged(channel, &author);
                self.announced_again(cx, channel, &author);
            }
            Verdict::Echo(action) => self.acknowledge(cx, channel, &action, &author),
            Verdict::Silence => self.announced_again(cx, channel, &author),
            Verdict::Reject(reason) => self.reject(cx, channel, dispatch.raw.get(), &author, &reason),
            Verdict::RejectAndFail { reason, call } => {
                self.reject(cx, channel, dispatch.raw.get(), &author, &reason);
                self.fail_unknown_tool(cx, channel, call);
            }
        }
    }

    /// Refuses an action about something that cannot be read.
    pub(crate) fn refuse_dispatch(&mut self, cx: &mut Cx<'_>, conn: ConnId, dispatch: &Dispatch, problem: &str) {
        let Some(client) = self.conns.client(conn).cloned() else {
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

    fn why_read_only(&self) -> String {
        read_only_message(self.storage.mode().read_only_reason().unwrap_or_default())
    }

    fn judge(
        &self,
        cx: &Cx<'_>,
        channel: ChannelId,
        action: StateAction,
        opt_in: Option<&OptIn>,
        author: &Author,
        scope: Scope,
    ) -> Verdict {
        let (Some(rule), Some(entry)) = (action_table::rule(&action), self.channels.get(channel)) else {
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
        // VS Code tells every host its own settings when it connects. As long as that changes
        // nothing, it needs no scope.
        if let StateAction::RootConfigChanged(changed) = &action
            && let Ok(Change::Repeat(changed)) = self.check_root_config(changed)
        {
            return Verdict::Echo(StateAction::RootConfigChanged(changed));
        }
        if scope < rule.scope {
            return Verdict::Reject(format!(
                "{} needs the scope {} and this connection has {scope}",
                rule.name, rule.scope
            ));
        }
        match entry.kind {
            ChannelKind::Root => match action {
                StateAction::RootConfigChanged(changed) => {
                    let check = self.check_root_config(&changed);
                    Verdict::from_change(check, StateAction::RootConfigChanged)
                }
                _ => Verdict::Reject("clients may not send this to the root channel".to_owned()),
            },
            ChannelKind::Session => self.judge_session(channel, action, opt_in, author, scope),
            ChannelKind::Chat => self.judge_chat(cx, channel, action, author),
            ChannelKind::Canvas
            | ChannelKind::Changeset
            | ChannelKind::Annotations
            | ChannelKind::Terminal
            | ChannelKind::ResourceWatch
            | ChannelKind::Automations
            | ChannelKind::AutomationRun => Verdict::Reject("this host has no such channels".to_owned()),
        }
    }

    /// Applies what was accepted, then does what it asks for: side effects come strictly last,
    /// so that an agent's first word never overtakes the echo of the turn (E-10).
    fn accept(&mut self, cx: &mut Cx<'_>, channel: ChannelId, action: StateAction, author: &Author, scope: Scope) {
        match action {
            StateAction::SessionTitleChanged(changed) if self.chats.contains_key(&channel) => {
                self.rename_chat(cx, channel, changed, author)
            }
            StateAction::ChatTurnStarted(started) => {
                let text = started.message.text.clone();
                self.commit(cx, channel, StateAction::ChatTurnStarted(started), Some(author));
                self.title_from(cx, channel, &text);
                self.start_run(cx, channel, false, Some(&author.client));
            }
            StateAction::ChatTurnResume(resume) => {
                self.commit(cx, channel, StateAction::ChatTurnResume(resume), Some(author));
                self.withdraw_questions(cx, channel);
                self.start_run(cx, channel, true, Some(&author.client));
            }
            StateAction::ChatTurnCancelled(cancelled) => {
                self.commit(cx, channel, StateAction::ChatTurnCancelled(cancelled), Some(author));
                self.stop_run(cx, channel);
            }
            StateAction::ChatTruncated(truncated) => self.truncate(cx, channel, truncated, author),
            StateAction::ChatPendingMessageSet(set) => {
                let head = self.chats.get(&channel).map(|chat| chat.model.head());
                let is_steering = set.kind == PendingMessageKind::Steering;
                let is_edit = head.is_some_and(|head| match set.kind {
                    PendingMessageKind::Queued => head.queued_messages.iter().flatten().any(|known| known.id == set.id),
                    PendingMessageKind::Steering => head.steering_message.iter().any(|known| known.id == set.id),
                });
                self.note_writer(channel, &set.id, author);
                self.commit(cx, channel, StateAction::ChatPendingMessageSet(set), Some(author));
                // PEND-03: a new message starts when nothing runs, also one that was to steer a turn
                // that has just ended (PEND-04). Editing one that was left waiting, as after a
                // cancel, starts nothing (E-63).
                if !is_edit {
                    self.take_from_queue(cx, channel, is_steering);
                }
            }
            StateAction::ChatToolCallConfirmed(_)
            | StateAction::ChatToolCallComplete(_)
            | StateAction::ChatToolCallResultConfirmed(_) => self.accept_tool(cx, channel, action, author),
            StateAction::ChatInputCompleted(completed) => {
                let action = StateAction::ChatInputCompleted(completed.clone());
                self.commit(cx, channel, action, Some(author));
                self.answered(cx, channel, &completed);
            }
            StateAction::SessionMcpServerStartRequested(_)
            | StateAction::SessionMcpServerStopRequested(_)
            | StateAction::SessionMcpServerBackgroundRequested(_) => {
                self.accept_server_demand(cx, channel, action, author);
            }
            StateAction::RootConfigChanged(_) => {
                self.commit(cx, channel, action, Some(author));
                self.root_config_changed(cx);
            }
            StateAction::SessionCustomizationToggled(toggled) => self.toggle(cx, channel, toggled, author, scope),
            StateAction::SessionConfigChanged(_) => {
                self.commit(cx, channel, action, Some(author));
                self.approvals_changed(cx, channel);
            }
            StateAction::SessionWorkingDirectorySet(_)
            | StateAction::SessionWorkingDirectoryRemoved(_)
            | StateAction::SessionWorkingDirectoryReplaced(_) => {
                let first = |core: &Self| {
                    let session = core.sessions.get(&channel);
                    session.and_then(approval::workspace).map(str::to_owned)
                };
                let before = first(self);
                self.commit(cx, channel, action.clone(), Some(author));
                self.directories_changed(cx, channel, &action);
                if before.is_some() && first(self) != before {
                    self.forget_rules_of_moved_session(cx, channel);
                }
                self.workspace_changed(cx, channel);
            }
            StateAction::SessionTitleChanged(changed) => {
                if let Some(session) = self.sessions.get_mut(&channel) {
                    session.titled_by = TitleSource::Person;
                }
                self.mark_dirty(channel);
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
            chat.titled_by = TitleSource::Person;
            chat.model.edit(|state| state.title.clone_from(&changed.title));
        }
        self.mark_dirty(channel);
        self.acknowledge(cx, channel, &StateAction::SessionTitleChanged(changed.clone()), author);
        self.sync_catalogue_entry(cx, channel);
        self.rename_session_of_default_chat(cx, channel, changed);
    }

    /// Renames a session together with its default chat: VS Code renames a session by that chat alone.
    fn rename_session_of_default_chat(
        &mut self,
        cx: &mut Cx<'_>,
        channel: ChannelId,
        changed: SessionTitleChangedAction,
    ) {
        let Some(chat) = self.chats.get(&channel) else {
            return;
        };
        let session_id = chat.session;
        let Some(session) = self.sessions.get_mut(&session_id) else {
            return;
        };
        if !session.is_default(&chat.model.head().resource) {
            return;
        }
        session.titled_by = TitleSource::Person;
        let is_new = session.state.title != changed.title;
        self.mark_dirty(session_id);
        if is_new {
            self.commit(cx, session_id, StateAction::SessionTitleChanged(changed), None);
        }
    }

    /// Notes who wrote a message that waits, and forgets the writers of those that no longer do.
    fn note_writer(&mut self, chat: ChannelId, id: &str, author: &Author) {
        if let Some(chat) = self.chats.get_mut(&chat) {
            let head = chat.model.head();
            let waiting: HashSet<&str> = head
                .queued_messages
                .iter()
                .flatten()
                .chain(&head.steering_message)
                .map(|message| message.id.as_str())
                .collect();
            chat.writers.retain(|known, _| waiting.contains(known.as_str()));
            chat.writers.insert(id.to_owned(), author.client.clone());
        }
    }

    /// Follows up on a client that announced itself in a session as it did before.
    fn announced_again(&mut self, cx: &mut Cx<'_>, channel: ChannelId, author: &Author) {
        if self.sessions.contains_key(&channel) {
            self.client_published_again(cx, channel, author.client.as_str());
        }
    }

    /// Notes that a client's unchanged announcement was acknowledged.
    fn note_acknowledged(&mut self, channel: ChannelId, author: &Author) {
        if let Some(session) = self.sessions.get_mut(&channel) {
            session.acknowledged.insert(author.client.clone());
        }
    }
}

/// Milliseconds between two readings of the monotonic clock, as actions carry them.
pub(crate) fn elapsed(now_ms: u64, started_ms: u64) -> i64 {
    i64::try_from(now_ms.saturating_sub(started_ms)).unwrap_or(i64::MAX)
}
