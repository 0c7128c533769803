//! Values derived from chats and sessions: catalogues, aggregates, and the summaries on the root channel.

use ahp_types::actions::{ChatIsReadChangedAction, SessionIsReadChangedAction, StateAction};
use ahp_types::state::{ChatOrigin, SessionStatus};
use serde_json::{Map, Value, json};

use crate::core::{Cx, Host, Timer, never};
use crate::ids::{ChannelId, ConnId, Seq};
use crate::protocol::dialect;
use crate::protocol::frame::{Outgoing, encode_notification};
use crate::protocol::uri;
use crate::session::Session;
use crate::session::choice;
use crate::session::create::encode_added;

impl Host {
    /// Updates the entry of a chat in its session's catalogue, in the same step as the cause.
    pub(crate) fn sync_catalogue_entry(&mut self, cx: &mut Cx<'_>, chat: ChannelId) {
        let Some(chat) = self.chats.get(&chat) else {
            return never!("the chat is in memory");
        };
        let session_id = chat.session;
        let change = self
            .sessions
            .get(&session_id)
            .and_then(|session| session.catalogue_change(chat.model.head()));
        if let Some(change) = change {
            self.commit(cx, session_id, change, None);
        }
    }

    /// Marks a chat and its session as unread at the end of a turn, also if a user marked them as read while it ran.
    /// Subagents are left out: their result is part of the call that started them, and clients show no read state for
    /// them.
    pub(crate) fn mark_unread(&mut self, cx: &mut Cx<'_>, chat_id: ChannelId, action: &StateAction) {
        let ends_turn = matches!(
            action,
            StateAction::ChatTurnComplete(_) | StateAction::ChatTurnCancelled(_) | StateAction::ChatError(_)
        );
        if !ends_turn {
            return;
        }
        let Some(chat) = self.chats.get(&chat_id) else {
            return never!("the chat is in memory");
        };
        if matches!(chat.model.head().origin, Some(ChatOrigin::Tool { .. })) {
            return;
        }
        let is_read = |status: u32| status & SessionStatus::IsRead.bits() != 0;
        let session_id = chat.session;
        if is_read(chat.model.head().status) {
            let action = ChatIsReadChangedAction { is_read: false };
            self.commit(cx, chat_id, StateAction::ChatIsReadChanged(action), None);
        }
        let session = self.sessions.get(&session_id);
        if session.is_some_and(|session| is_read(session.state.status)) {
            let action = SessionIsReadChangedAction { is_read: false };
            self.commit(cx, session_id, StateAction::SessionIsReadChanged(action), None);
        }
    }

    /// Notes when sessions were last used, and schedules their summaries. Changes are collected for a moment, so that
    /// a burst is one notification (ROOT-13).
    pub(crate) fn follow_changed_sessions(&mut self, cx: &mut Cx<'_>) {
        let at_ms = cx.now.mono_ms.saturating_add(self.config.summary_debounce_ms);
        for id in self.touched.take_sessions() {
            // A session that the same input removed has no summary.
            if let Some(session) = self.sessions.get_mut(&id) {
                session.used_ms = cx.now.mono_ms;
                if !session.is_draft && !std::mem::replace(&mut session.summary_due, true) {
                    self.timers.set(at_ms, Timer::AnnounceSummary(id));
                }
            }
        }
    }

    /// Announces every change that is being collected. A list shows the present; a change that is undone before it was
    /// announced would otherwise stay with its reader.
    pub(crate) fn announce_due_summaries(&mut self, cx: &mut Cx<'_>) {
        for session in self.timers.scheduled_summaries() {
            self.announce_summary(cx, session);
        }
    }

    /// Announces the changes of a session's summary since the last announcement to root subscribers (ROOT-12).
    pub(crate) fn announce_summary(&mut self, cx: &mut Cx<'_>, session_id: ChannelId) {
        let Some(session) = self.sessions.get_mut(&session_id) else {
            // Timers are not cancelled when their session is removed.
            return;
        };
        session.summary_due = false;
        let next = session.summary();
        let Some(known) = session.announced.replace(next.clone()) else {
            return self.announce_added(cx, session_id);
        };
        if known == next {
            return;
        }
        self.persist_summary(cx, session_id);
        let Some(session) = self.sessions.get(&session_id) else {
            return never!("the session is in memory");
        };
        let session_uri = session.uri.to_string();
        let is_taken_back = choice::is_taken_back(known.meta.as_ref(), next.meta.as_ref());
        self.notify_root(cx, |version| {
            let (known, next) = (
                dialect::summary(version, known.clone()),
                dialect::summary(version, next.clone()),
            );
            match changed_fields(&known, &next, dialect::not_in_partial_summary(version)) {
                Changes::Fields(changes) if !(is_taken_back && version.session_has_model()) => {
                    let params = json!({ "channel": uri::ROOT, "session": session_uri, "changes": changes });
                    (!changes.is_empty()).then(|| encode_notification("root/sessionSummaryChanged", &params))
                }
                // Neither clearing nor these fields have a portable encoding in the partial form
                // (ROOT-14, E-36), but the published client upserts a repeated sessionAdded.
                Changes::Fields(_) | Changes::NotExpressible => Some(encode_added(next)),
            }
        });
    }

    /// Sends a client that reconnects the summaries of the sessions that changed while it was away. Notifications are
    /// not replayed, and VS Code does not list sessions again: without this, its list shows a turn as running for ever
    /// that ended with the host.
    pub(crate) fn repeat_summaries(&self, cx: &mut Cx<'_>, conn: ConnId, last_seen: Seq) {
        let is_newer = |id: &ChannelId| self.channels.get(*id).is_some_and(|channel| channel.last > last_seen);
        let changed = self
            .sessions
            .iter()
            .filter(|(id, session)| is_newer(id) || session.chats.iter().any(is_newer));
        let mut changed: Vec<(&ChannelId, &Session)> = changed.collect();
        changed.sort_unstable_by_key(|(id, _)| **id);
        let version = self.conns.dialect(conn).version;
        // The announced summary is what later changes are compared with.
        for summary in changed.into_iter().filter_map(|(_, session)| session.announced.clone()) {
            let session = summary.resource.clone();
            let summary = dialect::summary(version, summary);
            let changes = volatile_fields(&summary);
            cx.send(conn, Outgoing::Text(encode_added(summary)));
            // VS Code takes new sessions from `root/sessionAdded`, and changes of known ones from here alone.
            let params = json!({ "channel": uri::ROOT, "session": session, "changes": changes });
            let changed = encode_notification("root/sessionSummaryChanged", &params);
            cx.send(conn, Outgoing::Text(changed));
        }
    }
}

/// The fields of a summary that change while a turn runs. A missing activity is cleared (ROOT-14).
fn volatile_fields(summary: &impl serde::Serialize) -> Map<String, Value> {
    let Ok(Value::Object(mut fields)) = serde_json::to_value(summary) else {
        return Map::new();
    };
    fields.retain(|name, _| ["status", "activity", "modifiedAt"].contains(&name.as_str()));
    fields.entry("activity").or_insert_with(|| Value::from(""));
    fields
}

enum Changes {
    Fields(Map<String, Value>),
    NotExpressible,
}

fn changed_fields(known: &impl serde::Serialize, next: &impl serde::Serialize, not_in_partial: &[&str]) -> Changes {
    let (Ok(Value::Object(known)), Ok(Value::Object(next))) = (serde_json::to_value(known), serde_json::to_value(next))
    else {
        return Changes::NotExpressible;
    };
    let mut changes = Map::new();
    for key in known.keys() {
        if !next.contains_key(key) {
            if key != "activity" {
                return Changes::NotExpressible;
            }
            // ROOT-14: `null` clears for some clients and means "unchanged" for others.
            changes.insert(key.clone(), Value::from(""));
        }
    }
    for (key, value) in next {
        if known.get(&key) != Some(&value) {
            if not_in_partial.contains(&key.as_str()) {
                return Changes::NotExpressible;
            }
            changes.insert(key, value);
        }
    }
    Changes::Fields(changes)
}
