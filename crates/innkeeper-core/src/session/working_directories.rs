//! Where sessions and chats work, and who may change it.
//!
//! An agent is told its directories with every turn, so between turns there is no back end to
//! change before an accepted action is published (DSP-17). During a turn they stand: taking the
//! ground from under a running agent is refused.

use ahp_types::actions::{ChatWorkingDirectoryRemovedAction, ChatWorkingDirectorySetAction, StateAction};
use ahp_types::state::MultipleWorkingDirectoriesCapability;

use crate::core::{Cx, Host};
use crate::ids::ChannelId;
use crate::protocol::uri;
use crate::session::Session;

/// Most directories of one session.
pub(crate) const MAX_DIRECTORIES: usize = 256;

impl Host {
    /// Whether a client may change the directories of a session or chat like this (SES-25).
    pub(crate) fn check_directories(&self, channel: ChannelId, action: &StateAction) -> Result<(), String> {
        let session = self.sessions.get(&channel).or_else(|| self.session_of(channel));
        let Some(session) = session else {
            return Err("the session is gone".to_owned());
        };
        let agent = self.agent_of(session);
        let capabilities = agent.and_then(|agent| agent.info.capabilities.as_ref());
        let capability = capabilities.and_then(|capabilities| capabilities.multiple_working_directories.as_ref());
        let Some(capability) = capability else {
            return Err(
                "this session's agent works in the directory it started in; create another session to work elsewhere"
                    .to_owned(),
            );
        };
        let directories = session.state.working_directories.as_deref().unwrap_or_default();
        let place = |directory: &str| directories.iter().position(|known| known == directory);
        match action {
            StateAction::SessionWorkingDirectorySet(set) => {
                check_uri("directory", &set.directory)?;
                // Adding what is there changes nothing and is fine.
                if place(&set.directory).is_none() && directories.len() >= MAX_DIRECTORIES {
                    return Err(format!(
                        "directory: a session works in at most {MAX_DIRECTORIES} directories"
                    ));
                }
                Ok(())
            }
            StateAction::SessionWorkingDirectoryRemoved(removed) => match place(&removed.directory) {
                Some(0) => check_primary_removal(capability).and_then(|()| self.check_at_rest(session)),
                Some(_) => self.check_at_rest(session),
                None => Ok(()),
            },
            StateAction::SessionWorkingDirectoryReplaced(replaced) => {
                check_uri("replacement", &replaced.replacement)?;
                let Some(index) = place(&replaced.directory) else {
                    return Err("directory: is not one of the session's working directories; \
                                perhaps somebody replaced it first"
                        .to_owned());
                };
                if index == 0 && capability.primary_replacement != Some(true) {
                    return Err("directory: this agent keeps its first directory for the whole session".to_owned());
                }
                self.check_at_rest(session)
            }
            StateAction::ChatWorkingDirectorySet(set) => match place(&set.directory) {
                Some(_) => Ok(()),
                None => {
                    Err("directory: is not one of the session's working directories; add it there first".to_owned())
                }
            },
            StateAction::ChatWorkingDirectoryRemoved(_) => self.check_at_rest(session),
            _ => Err("this does not change directories".to_owned()),
        }
    }

    /// What an agent works in stays as it is while it works.
    fn check_at_rest(&self, session: &Session) -> Result<(), String> {
        if self.has_running_turn(session) {
            return Err(
                "a turn is running, and its agent works in these directories; wait for its end or cancel it".to_owned(),
            );
        }
        Ok(())
    }

    fn has_running_turn(&self, session: &Session) -> bool {
        let mut chats = session.chats.iter().filter_map(|chat| self.chats.get(chat));
        chats.any(|chat| chat.run.is_some())
    }

    /// Follows up on a session's changed directories: what a chat keeps to is a subset of them
    /// (SES-26).
    pub(crate) fn directories_changed(&mut self, cx: &mut Cx<'_>, session_id: ChannelId, action: &StateAction) {
        let (gone, instead) = match action {
            StateAction::SessionWorkingDirectoryRemoved(removed) => (&removed.directory, None),
            StateAction::SessionWorkingDirectoryReplaced(replaced) => {
                (&replaced.directory, Some(&replaced.replacement))
            }
            _ => return,
        };
        let Some(session) = self.sessions.get(&session_id) else {
            return;
        };
        let directories = session.state.working_directories.as_deref().unwrap_or_default();
        if directories.contains(gone) {
            return;
        }
        let names_it = |chat: &ChannelId| {
            let own = self
                .chats
                .get(chat)
                .and_then(|chat| chat.model.head().working_directories.as_ref());
            own.is_some_and(|own| own.contains(gone))
        };
        let affected: Vec<ChannelId> = session.chats.iter().copied().filter(names_it).collect();
        for chat in affected {
            // The new one first: a subset that was empty in between would mean no access at all.
            if let Some(directory) = instead.cloned() {
                let action = StateAction::ChatWorkingDirectorySet(ChatWorkingDirectorySetAction { directory });
                self.commit(cx, chat, action, None);
            }
            let action = ChatWorkingDirectoryRemovedAction {
                directory: gone.clone(),
            };
            self.commit(cx, chat, StateAction::ChatWorkingDirectoryRemoved(action), None);
        }
    }
}

/// A protected first directory is not removed like the others: one kind can only be replaced, the
/// other stays (ROOT-04).
fn check_primary_removal(capability: &MultipleWorkingDirectoriesCapability) -> Result<(), String> {
    if capability.primary_replacement == Some(true) {
        return Err(
            "directory: the first directory can only be replaced, with session/workingDirectoryReplaced".to_owned(),
        );
    }
    if capability.immutable_primary == Some(true) {
        return Err("directory: this agent keeps its first directory for the whole session".to_owned());
    }
    Ok(())
}

fn check_uri(field: &str, directory: &str) -> Result<(), String> {
    uri::check_directory(directory).map_err(|problem| format!("{field}: {problem}"))
}
