//! Annotations: conversations of users and agents about files, one channel per session (`<session>/annotations`).
//!
//! The channel exists with its session and is opened by the first input that names it (ANN-09). Its state is part of
//! the session's document, so it is deleted, restored, exported and imported with the session. The counts are in the
//! session's summary (ANN-07). `check.rs` has the rules for the five actions, and `remarks.rs` resolves the
//! annotations that come with a message.

mod check;
mod remarks;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use ahp::reducers::{ReduceOutcome, apply_action_to_annotations};
use ahp_types::actions::{AnnotationsSetAction, StateAction};
use ahp_types::common::StringOrMarkdown;
use ahp_types::state::{
    Annotation, AnnotationEntry, AnnotationOrigin, AnnotationsState, AnnotationsSummary, TextPosition, TextRange,
};
use serde::{Deserialize, Serialize};

pub(crate) use remarks::remarks_in;

use crate::agent::{NewAnnotation, TextSpan};
use crate::clients::channels::Channels;
use crate::core::{ChannelPart, Cx, Host, NoCommand, NoInput, SessionRemoval, never};
use crate::dispatch::{Dispatched, Verdict};
use crate::ids::{ChannelId, ConnId, IdMap, Seq};
use crate::protocol::action_table::ChannelKind;
use crate::protocol::request::RequestId;
use crate::protocol::uri;

/// The end of the URI of a session's annotations.
const SUFFIX: &str = "/annotations";

/// The annotations of one session.
#[derive(Debug)]
struct SessionAnnotations {
    /// The channel, once an input has named it.
    channel: Option<ChannelId>,
    state: Arc<AnnotationsState>,
    /// The last action of the channel before it was opened.
    last: Seq,
}

/// The annotations of all sessions that have some, or that were asked for theirs.
#[derive(Debug, Default)]
pub(crate) struct Annotations {
    by_session: IdMap<ChannelId, SessionAnnotations>,
    /// The session of each open channel.
    sessions: IdMap<ChannelId, ChannelId>,
}

/// The annotations of a session in its document.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AnnotationsDocument {
    /// The last action that is part of the state.
    seq: u64,
    state: Arc<AnnotationsState>,
}

impl Annotations {
    fn of_channel(&self, channel: ChannelId) -> Option<&SessionAnnotations> {
        self.by_session.get(self.sessions.get(&channel)?)
    }

    /// The annotations of a session; `None` if it has none.
    pub(crate) fn of_session(&self, session: ChannelId) -> Option<&AnnotationsState> {
        self.by_session.get(&session).map(|found| &*found.state)
    }

    /// The document of a session's annotations, if there is anything to store.
    pub(crate) fn document(&self, session: ChannelId, channels: &Channels) -> Option<AnnotationsDocument> {
        let found = self.by_session.get(&session)?;
        let channel = found.channel.and_then(|channel| channels.get(channel));
        let seq = channel.map_or(found.last, |channel| channel.last);
        // A channel without actions is as if it had never been opened.
        if found.state.annotations.is_empty() && channel.is_none_or(|channel| channel.last == channel.created) {
            return None;
        }
        Some(AnnotationsDocument {
            seq: seq.0,
            state: Arc::clone(&found.state),
        })
    }

    /// Takes over the annotations of a session that comes into memory.
    pub(crate) fn restore(&mut self, session: ChannelId, document: AnnotationsDocument) {
        let restored = SessionAnnotations {
            channel: None,
            state: document.state,
            last: Seq(document.seq),
        };
        self.by_session.insert(session, restored);
    }
}

impl ChannelPart for Annotations {
    type Command = NoCommand;
    type Input = NoInput;
    type State = AnnotationsState;

    fn state(&self, channel: ChannelId) -> Option<Arc<AnnotationsState>> {
        self.of_channel(channel).map(|found| Arc::clone(&found.state))
    }

    fn reduce(&mut self, channel: ChannelId, action: &StateAction) -> ReduceOutcome {
        let session = self.sessions.get(&channel);
        match session.and_then(|session| self.by_session.get_mut(session)) {
            Some(found) => apply_action_to_annotations(Arc::make_mut(&mut found.state), action),
            None => ReduceOutcome::NoOp,
        }
    }

    fn handle_command(_: &mut Host, _: &mut Cx<'_>, _: ConnId, _: &RequestId, command: NoCommand) {
        match command {}
    }

    fn handle_input(_: &mut Host, _: &mut Cx<'_>, input: NoInput) {
        match input {}
    }

    fn check(host: &Host, _: &Cx<'_>, by: &Dispatched, mut action: StateAction) -> Verdict {
        host.name_annotated_chats(by, &mut action);
        let check = host.check_annotations(by.channel, &action);
        Verdict::from_check(action, check)
    }

    fn apply(host: &mut Host, cx: &mut Cx<'_>, by: &Dispatched, action: StateAction) {
        if host.commit_dispatched(cx, by, action) == ReduceOutcome::Applied {
            host.annotations_changed(by.channel);
        }
    }

    fn open(host: &mut Host, cx: &mut Cx<'_>, uri: &str) -> Option<ChannelId> {
        let session = host.channels.find(Self::session_of(uri)?)?;
        let created = host
            .sessions
            .contains_key(&session)
            .then(|| host.channels.get(session))??
            .created;
        Some(host.open_annotations(cx, session, created))
    }

    fn session_of(uri: &str) -> Option<&str> {
        let session = uri.strip_suffix(SUFFIX)?;
        (uri::looks_like_session_or_chat(session) && !uri::is_chat(session)).then_some(session)
    }

    fn channels_in(&self, session: ChannelId) -> Vec<ChannelId> {
        let found = self.by_session.get(&session).and_then(|found| found.channel);
        found.into_iter().collect()
    }

    fn session_removed(host: &mut Host, _: &mut Cx<'_>, session: ChannelId, removal: SessionRemoval) {
        let removed = host.parts.annotations.by_session.remove(&session);
        let Some(channel) = removed.and_then(|removed| removed.channel) else {
            // No input has named them.
            return;
        };
        host.parts.annotations.sessions.remove(&channel);
        if removal == SessionRemoval::Deleted
            && let Some(uri) = host.channels.get(channel).map(|entry| Arc::clone(&entry.uri))
        {
            host.forget_for_good(&uri);
        }
        host.remove_channel(channel);
    }
}

impl Host {
    /// Opens the channel of a session's annotations. It counts as created with the session, so that a client that
    /// reconnects after a restart can continue.
    fn open_annotations(&mut self, cx: &Cx<'_>, session_id: ChannelId, created: Seq) -> ChannelId {
        let known = self.parts.annotations.by_session.get(&session_id);
        if let Some(channel) = known.and_then(|known| known.channel) {
            return channel;
        }
        let last = known.map_or(created, |known| known.last.max(created));
        let uri = self
            .sessions
            .get(&session_id)
            .map(|session| annotations_uri(&session.uri));
        let uri = uri.unwrap_or_default();
        let channel = self.restore_channel(cx.now, &uri, ChannelKind::Annotations, created, last, &[]);
        let annotations = &mut self.parts.annotations;
        annotations.sessions.insert(channel, session_id);
        let empty = || SessionAnnotations {
            channel: None,
            state: Arc::new(AnnotationsState {
                annotations: Vec::new(),
            }),
            last,
        };
        annotations.by_session.entry(session_id).or_insert_with(empty).channel = Some(channel);
        channel
    }

    /// Updates what follows from a change: the counts in the summary, the document, and the end of a draft.
    fn annotations_changed(&mut self, channel: ChannelId) {
        let Some(session_id) = self.parts.annotations.sessions.get(&channel).copied() else {
            return never!("the channel belongs to a session");
        };
        self.count_annotations(session_id);
        self.touched.note_session(session_id);
        if self.sessions.is_draft(&session_id) {
            self.touched.note_content(session_id);
        }
        self.mark_dirty(session_id);
    }

    /// Writes the counts into the session's state. No action carries them (E-08).
    fn count_annotations(&mut self, session_id: ChannelId) {
        let (Some(state), Some(session)) = (
            self.parts.annotations.of_session(session_id),
            self.sessions.get_mut(&session_id),
        ) else {
            return never!("the session is in memory and has annotations");
        };
        let summary = summary_of(&session.uri, &state.annotations);
        Arc::make_mut(&mut session.state).annotations = Some(summary);
    }

    /// Names the chats in an action whose author's version names none there.
    fn name_annotated_chats(&self, by: &Dispatched, action: &mut StateAction) {
        match action {
            StateAction::AnnotationsSet(set) => {
                let annotation = &mut set.annotation;
                self.name_annotated_chat(by, &annotation.id, &mut annotation.origin);
            }
            StateAction::AnnotationsUpdated(updated) => {
                if let Some(origin) = &mut updated.origin {
                    self.name_annotated_chat(by, &updated.annotation_id, origin);
                }
            }
            _ => {}
        }
    }

    /// Names the chat of the turn that an annotation belongs to, if the version of its author names none: the one that
    /// it belongs to already, or else the chat in which the turn ran.
    fn name_annotated_chat(&self, by: &Dispatched, annotation: &str, origin: &mut AnnotationOrigin) {
        let (None, Some(turn)) = (&origin.chat, &origin.turn_id) else {
            // It names its chat, or belongs to none.
            return;
        };
        if self.conns.dialect(by.author.conn).version.names_chats() {
            return;
        }
        let annotations = &self.parts.annotations;
        let session = annotations
            .sessions
            .get(&by.channel)
            .and_then(|id| self.sessions.get(id));
        let (Some(session), Some(state)) = (session, annotations.of_channel(by.channel).map(|found| &*found.state))
        else {
            // The session is gone, and the action is rejected.
            return;
        };
        let mut known = state.annotations.iter().map(|known| (&known.id, &known.origin));
        let known = known.find(|(id, known)| *id == annotation && known.turn_id.as_ref() == Some(turn));
        let known = known.and_then(|(_, known)| known.chat.clone());
        let mut chats = session.chats.iter().filter_map(|chat| self.chats.get(chat));
        let ran = || {
            chats
                .find(|chat| chat.model.knows_turn(turn))
                .map(|chat| chat.model.head().resource.clone())
        };
        origin.chat = known.or_else(ran).or_else(|| session.state.default_chat.clone());
    }

    /// Adds an annotation that an agent wrote in a turn of a chat.
    pub(crate) fn annotate(&mut self, cx: &mut Cx<'_>, chat_id: ChannelId, written: NewAnnotation) {
        let (Some(chat), Some(turn_id)) = (self.chats.get(&chat_id), self.active_turn_id(chat_id)) else {
            return never!("a run has a chat and an active turn");
        };
        let (session_id, chat_uri) = (chat.session, chat.model.head().resource.clone());
        let (Some(session), Some(created)) = (
            self.sessions.get(&session_id),
            self.channels.get(session_id).map(|entry| entry.created),
        ) else {
            return never!("the session is in memory");
        };
        let origin = AnnotationOrigin {
            session: session.uri.to_string(),
            chat: Some(chat_uri),
            turn_id: Some(turn_id),
        };
        let channel = self.open_annotations(cx, session_id, created);
        // Numbers never repeat, so neither do ids.
        let id = format!("agent-{}", self.log.seq().0);
        let annotation = Annotation {
            origin,
            resource: written.file,
            range: written.span.map(range_of),
            resolved: false,
            entries: vec![AnnotationEntry {
                id: format!("{id}-1"),
                text: StringOrMarkdown::Markdown { markdown: written.text },
                meta: None,
            }],
            id,
            meta: None,
        };
        let action = StateAction::AnnotationsSet(AnnotationsSetAction { annotation });
        // An agent that writes too much is ignored, like one that writes to a full turn.
        if self.check_annotations(channel, &action).is_ok()
            && self.commit(cx, channel, action, None) == ReduceOutcome::Applied
        {
            self.annotations_changed(channel);
        }
    }
}

/// The counts of a session's annotations.
pub(crate) fn summary_of(session: &str, annotations: &[Annotation]) -> AnnotationsSummary {
    let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
    let entries = annotations.iter().map(|annotation| annotation.entries.len());
    AnnotationsSummary {
        resource: annotations_uri(session),
        annotation_count: count(annotations.len()),
        entry_count: count(entries.sum()),
    }
}

/// The URI of a session's annotations.
fn annotations_uri(session: &str) -> String {
    format!("{session}{SUFFIX}")
}

fn range_of(span: TextSpan) -> TextRange {
    let number = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    let position = |line: u64, character: u64| TextPosition {
        line: number(line),
        character: number(character),
    };
    TextRange {
        start: position(span.start_line, span.start_character),
        end: position(span.end_line, span.end_character),
    }
}
