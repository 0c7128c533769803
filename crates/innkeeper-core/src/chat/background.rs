//! Background work beside turns (CHT-24).

use ahp_types::actions::{ChatBackgroundWorkRemovedAction, ChatBackgroundWorkSetAction, StateAction};
use ahp_types::state::{BackgroundShellWork, BackgroundSubagentWork, BackgroundWork};

use crate::agent::BackgroundChange;
use crate::core::{Cx, Host, never};
use crate::ids::ChannelId;

/// Maximum entries of one chat.
const MAX_ENTRIES: usize = 1000;

impl Host {
    /// Publishes background work that an agent reports. The host itself lists subagents, so an agent cannot change
    /// their entries.
    pub(crate) fn background(&mut self, cx: &mut Cx<'_>, chat_id: ChannelId, change: BackgroundChange) {
        let Some(chat) = self.chats.get(&chat_id) else {
            return never!("the chat is in memory");
        };
        let work = chat.model.head().background_work.as_deref().unwrap_or_default();
        match change {
            BackgroundChange::Set {
                id,
                label,
                command,
                terminal,
            } => {
                let started_at = match work.iter().find(|work| id_of(work) == Some(&id)) {
                    Some(BackgroundWork::Shell(known)) => known.started_at.clone(),
                    Some(_) => return,
                    None if id.is_empty() || work.len() >= MAX_ENTRIES => return,
                    None => cx.now.rfc3339(),
                };
                let next = BackgroundWork::Shell(BackgroundShellWork {
                    id,
                    label,
                    started_at,
                    meta: None,
                    command,
                    terminal,
                });
                if !work.contains(&next) {
                    let action = ChatBackgroundWorkSetAction { work: next };
                    self.commit(cx, chat_id, StateAction::ChatBackgroundWorkSet(action), None);
                }
            }
            BackgroundChange::Remove { id } => {
                let is_shell = |work: &BackgroundWork| matches!(work, BackgroundWork::Shell(work) if work.id == id);
                if work.iter().any(is_shell) {
                    let action = ChatBackgroundWorkRemovedAction { id };
                    self.commit(cx, chat_id, StateAction::ChatBackgroundWorkRemoved(action), None);
                }
            }
        }
    }

    /// Lists a subagent that outlives its turn (CHT-25).
    pub(super) fn list_subagent(
        &mut self,
        cx: &mut Cx<'_>,
        parent: ChannelId,
        call: &str,
        label: &str,
        subagent: &str,
    ) {
        let Some(chat) = self.chats.get(&parent) else {
            return never!("the chat is in memory");
        };
        let work = chat.model.head().background_work.as_deref().unwrap_or_default();
        // The entry has the id of the call, unless another entry has it, such as the call's first subagent.
        let is_taken = work.iter().any(|work| id_of(work).is_some_and(|id| id == call));
        let entry = BackgroundSubagentWork {
            id: if is_taken { subagent } else { call }.to_owned(),
            label: label.to_owned(),
            started_at: cx.now.rfc3339(),
            meta: None,
            chat: subagent.to_owned(),
        };
        let action = ChatBackgroundWorkSetAction {
            work: BackgroundWork::Subagent(entry),
        };
        self.commit(cx, parent, StateAction::ChatBackgroundWorkSet(action), None);
    }

    /// The run of a subagent that outlived its turn is over.
    pub(crate) fn unlist_subagent(&mut self, cx: &mut Cx<'_>, parent: ChannelId, subagent: ChannelId) {
        let (Some(chat), Some(uri)) = (self.chats.get(&parent), self.chat_uri(subagent)) else {
            return never!("a chat is removed after its subagents");
        };
        let work = chat.model.head().background_work.as_deref().unwrap_or_default();
        let entry = work.iter().find_map(|work| match work {
            BackgroundWork::Subagent(work) if work.chat == uri => Some(work.id.clone()),
            _ => None,
        });
        if let Some(id) = entry {
            let action = ChatBackgroundWorkRemovedAction { id };
            self.commit(cx, parent, StateAction::ChatBackgroundWorkRemoved(action), None);
        }
    }
}

fn id_of(work: &BackgroundWork) -> Option<&String> {
    match work {
        BackgroundWork::Shell(work) => Some(&work.id),
        BackgroundWork::Subagent(work) => Some(&work.id),
        BackgroundWork::Unknown(_) => None,
    }
}
