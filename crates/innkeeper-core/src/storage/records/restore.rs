//! Restores state from a document and the actions since.
//!
//! This is done outside the core, which only takes the result.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use ahp::reducers::{ReduceOutcome, apply_action_to_root, apply_action_to_session};
use ahp_types::actions::{ActionEnvelope, StateAction};
use ahp_types::state::{RootState, Turn};

use super::document::{self, ChatDocument, RootDocument, SessionDocument};
use super::upgrade::upgraded_session;
use super::{StoredChat, StoredFrame, StoredRoot, StoredSession, TurnSource};
use crate::chat::approval::{self, WorkspaceApprovals};
use crate::chat::approval_mode;
use crate::chat::chats::SideChatContext;
use crate::chat::model::ChatModel;
use crate::customization::EnablementStore;
use crate::ids::{ClientId, Seq};
use crate::log::gaps::Gaps;
use crate::protocol::dialect::extension::Catalogue;
use crate::protocol::frame::ACTION_HEAD;
use crate::resources::Grants;
use crate::session::TitleSource;

/// A session that can be taken into the core.
#[derive(Debug)]
pub struct RestoredSession {
    pub(crate) uri: String,
    pub(crate) persisted_seq: Seq,
    pub(crate) document: SessionDocument,
    pub(crate) chats: Vec<RestoredChat>,
    pub(crate) log: Vec<StoredFrame>,
    /// Whether its settings are of an earlier version and were converted, which no action carries.
    pub(crate) is_converted: bool,
}

/// One of its chats.
#[derive(Debug)]
pub(crate) struct RestoredChat {
    pub(crate) uri: String,
    pub(crate) persisted_seq: Seq,
    pub(crate) created: Seq,
    pub(crate) model: ChatModel,
    pub(crate) titled_by: TitleSource,
    pub(crate) can_resume: bool,
    pub(crate) parent: Option<String>,
    pub(crate) side_context: SideChatContext,
    pub(crate) writers: HashMap<String, ClientId>,
    pub(crate) memory: Option<Arc<serde_json::Value>>,
}

impl RestoredSession {
    /// Its URI.
    pub fn uri(&self) -> &str {
        &self.uri
    }
}

/// Restores a session as it was after its last persisted action.
///
/// # Errors
///
/// If part of it cannot be read, with a sentence for users that names it.
pub fn restore(stored: StoredSession, turns: &Arc<dyn TurnSource>) -> Result<RestoredSession, String> {
    let stored = upgraded_session(stored);
    let mut document: SessionDocument = document::read(&format!("the session {:?}", stored.uri), &stored.document)?;
    let mut chats = Vec::with_capacity(stored.chats.len());
    for chat in stored.chats {
        chats.push(restore_chat(chat, turns)?);
    }
    let by_uri: HashMap<String, usize> = chats
        .iter()
        .enumerate()
        .map(|(index, chat)| (chat.uri.clone(), index))
        .collect();
    for frame in &stored.log {
        if *frame.channel == stored.uri {
            if frame.seq > stored.seq {
                let envelope = open(frame, stored.seq)?;
                let applied = apply_action_to_session(Arc::make_mut(&mut document.state), &envelope.action);
                check(frame, &applied)?;
                if matches!(envelope.action, StateAction::SessionCustomizationToggled(_))
                    && applied == ReduceOutcome::Applied
                {
                    let list = document.state.customizations.as_deref().unwrap_or_default();
                    Arc::make_mut(&mut document.decisions).follow(&envelope.action, list);
                }
                let followed = Arc::make_mut(&mut document.opt_ins).follow(&envelope.action, envelope_of(frame)?);
                followed.map_err(|problem| unreadable(frame, &problem))?;
            }
        } else if let Some(chat) = by_uri.get(&*frame.channel).and_then(|index| chats.get_mut(*index))
            && frame.seq > chat.persisted_seq
        {
            chat.apply(frame)?;
        }
    }
    let state = Arc::make_mut(&mut document.state);
    let is_converted = match &mut state.config {
        Some(config) => {
            let has_new_mode = approval_mode::convert_session(&mut document.settings, config);
            let has_new_lists = approval::convert_session(&mut document.settings, config);
            if document.imported {
                approval::reset(config);
            }
            has_new_mode || has_new_lists || document.imported
        }
        None => false,
    };
    // The session's catalogue has the fields that no action of the chat carries (SES-14, E-08).
    for chat in &mut chats {
        let Some(entry) = document.state.chats.iter().find(|entry| entry.resource == chat.uri) else {
            return Err(format!(
                "the session {:?} does not list its chat {:?}",
                stored.uri, chat.uri
            ));
        };
        if chat.model.head().title != entry.title {
            chat.model.edit(|head| head.title.clone_from(&entry.title));
        }
    }
    if let Some(lost) = document
        .state
        .chats
        .iter()
        .find(|entry| !by_uri.contains_key(&entry.resource))
    {
        return Err(format!(
            "the session {:?} lists the chat {:?}, which is missing",
            stored.uri, lost.resource
        ));
    }
    Ok(RestoredSession {
        uri: stored.uri,
        persisted_seq: stored.seq,
        document,
        chats,
        log: stored.log,
        is_converted,
    })
}

fn restore_chat(stored: StoredChat, turns: &Arc<dyn TurnSource>) -> Result<RestoredChat, String> {
    let what = format!("the chat {:?}", stored.uri);
    let mut document: ChatDocument = document::read(&what, &stored.document)?;
    document.state.turns_next_cursor = None;
    let mut recent = Vec::with_capacity(stored.recent.len());
    for bytes in &stored.recent {
        let turn: Turn =
            serde_json::from_slice(bytes).map_err(|error| format!("a turn of {what} cannot be read ({error})"))?;
        recent.push(Arc::new(turn));
    }
    let writers = document.writers.iter();
    Ok(RestoredChat {
        uri: stored.uri,
        persisted_seq: stored.seq,
        created: Seq(document.created_seq),
        model: ChatModel::restore(document.state, stored.turns, recent, Arc::clone(turns)),
        titled_by: document.titled_by,
        can_resume: document.can_resume,
        parent: document.parent,
        side_context: SideChatContext {
            context: document.context.into(),
            selection: document.selection,
        },
        writers: writers
            .map(|(id, client)| (id.clone(), ClientId::new(client)))
            .collect(),
        memory: document.memory.map(Arc::new),
    })
}

impl RestoredChat {
    fn apply(&mut self, frame: &StoredFrame) -> Result<(), String> {
        let envelope = open(frame, self.persisted_seq)?;
        if let (StateAction::ChatPendingMessageSet(set), Some(origin)) = (&envelope.action, &envelope.origin) {
            self.writers.insert(set.id.clone(), ClientId::new(&origin.client_id));
        }
        let outcome = self.model.apply(&envelope.action);
        check(frame, &outcome)
    }
}

/// The restored state of the host.
pub(crate) struct RestoredRoot {
    pub(crate) state: RootState,
    pub(crate) catalogue: Catalogue,
    pub(crate) workspace_approvals: WorkspaceApprovals,
    pub(crate) everywhere_approvals: BTreeSet<String>,
    pub(crate) outdated_approvals: WorkspaceApprovals,
    pub(crate) grants: Grants,
    pub(crate) enablement: Arc<EnablementStore>,
    pub(crate) gaps: Gaps,
}

/// Brings the host's own state back.
pub(crate) fn restore_root(stored: &StoredRoot) -> Result<RestoredRoot, String> {
    let document: RootDocument = document::read("the host's own state", &stored.document)?;
    let mut state = Arc::unwrap_or_clone(document.state);
    let mut catalogue = Arc::unwrap_or_clone(document.catalogue);
    for frame in stored.log.iter().filter(|frame| frame.seq > stored.seq) {
        let action = open(frame, stored.seq)?.action;
        let outcome = apply_action_to_root(&mut state, &action);
        check(frame, &outcome)?;
        let followed = catalogue.follow(&action, envelope_of(frame)?);
        followed.map_err(|problem| unreadable(frame, &problem))?;
    }
    Ok(RestoredRoot {
        state,
        catalogue,
        workspace_approvals: document.workspace_approvals,
        everywhere_approvals: document.everywhere_approvals,
        outdated_approvals: document.outdated_approvals,
        grants: document.resource_grants,
        enablement: document.enablement,
        gaps: document.gaps,
    })
}

/// The users' decisions for workspaces and for everywhere. No action in the log carries them: a host writes its
/// document whenever they change.
pub(crate) fn restore_enablement(stored: &StoredRoot) -> Result<Arc<EnablementStore>, String> {
    let document: RootDocument = document::read("the host's own state", &stored.document)?;
    Ok(document.enablement)
}

/// Reads the envelope of a persisted action that is newer than the document at `persisted_seq`.
fn open(frame: &StoredFrame, persisted_seq: Seq) -> Result<ActionEnvelope, String> {
    if frame.first <= persisted_seq {
        return Err(format!(
            "action {} on {:?} is partly in the document persisted at {persisted_seq}",
            frame.seq, frame.channel
        ));
    }
    let envelope: ActionEnvelope =
        serde_json::from_slice(envelope_of(frame)?).map_err(|error| unreadable(frame, &error.to_string()))?;
    if let StateAction::Unknown(_) = envelope.action {
        return Err(unreadable(frame, "its type is unknown to this version"));
    }
    Ok(envelope)
}

/// The envelope of a persisted action, as JSON.
fn envelope_of(frame: &StoredFrame) -> Result<&[u8], String> {
    let envelope = frame
        .bytes
        .strip_prefix(ACTION_HEAD)
        .and_then(|rest| rest.strip_suffix(b"}"));
    envelope.ok_or_else(|| unreadable(frame, "it is not an action"))
}

fn unreadable(frame: &StoredFrame, problem: &str) -> String {
    format!("action {} on {:?} cannot be read ({problem})", frame.seq, frame.channel)
}

/// Checks that the reducer accepts an action again that it accepted once.
fn check(frame: &StoredFrame, outcome: &ReduceOutcome) -> Result<(), String> {
    match outcome {
        ReduceOutcome::Applied | ReduceOutcome::NoOp => Ok(()),
        ReduceOutcome::OutOfScope | ReduceOutcome::Invalid(_) => Err(format!(
            "action {} on {:?} does not fit the state before it",
            frame.seq, frame.channel
        )),
    }
}
