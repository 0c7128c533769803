//! Working directories of sessions and chats, and the rules for changing them.
//!
//! An agent gets its directories with every turn, so between turns there is no back end to change before an accepted
//! action is published (DSP-17). During a turn they cannot change: a running agent must not lose its working
//! directory.

use ahp::reducers::ReduceOutcome;
use ahp_types::actions::{
    ChatWorkingDirectoryRemovedAction, ChatWorkingDirectorySetAction, SessionWorkingDirectoryRemovedAction,
    SessionWorkingDirectoryReplacedAction, SessionWorkingDirectorySetAction, StateAction,
};
use ahp_types::state::MultipleWorkingDirectoriesCapability;

use crate::chat::approval;
use crate::chat::chats::Chat;
use crate::core::{Cx, Host, never};
use crate::dispatch::{Dispatched, Verdict};
use crate::ids::ChannelId;
use crate::protocol::uri;
use crate::session::Session;

/// Maximum directories of one session.
pub(crate) const MAX_DIRECTORIES: usize = 256;

impl Host {
    pub(crate) fn check_directory_set(
        &self,
        _by: &Dispatched,
        session: &Session,
        set: SessionWorkingDirectorySetAction,
    ) -> Verdict {
        let check = self.capability(session).and_then(|_| {
            check_uri("directory", &set.directory)?;
            // Adding what is there changes nothing and is fine.
            let directories = directories_of(session);
            if !directories.contains(&set.directory) && directories.len() >= MAX_DIRECTORIES {
                return Err(format!(
                    "directory: a session works in at most {MAX_DIRECTORIES} directories"
                ));
            }
            Ok(())
        });
        Verdict::from_check(StateAction::SessionWorkingDirectorySet(set), check)
    }

    pub(crate) fn apply_directory_set(
        &mut self,
        cx: &mut Cx<'_>,
        by: &Dispatched,
        set: SessionWorkingDirectorySetAction,
    ) {
        self.change_directories(cx, by, StateAction::SessionWorkingDirectorySet(set), None);
    }

    pub(crate) fn check_directory_removed(
        &self,
        _by: &Dispatched,
        session: &Session,
        removed: SessionWorkingDirectoryRemovedAction,
    ) -> Verdict {
        let check = self
            .capability(session)
            .and_then(|capability| match position(session, &removed.directory) {
                Some(0) => check_primary_removal(capability).and_then(|()| self.check_at_rest(session)),
                Some(_) => self.check_at_rest(session),
                None => Ok(()),
            });
        Verdict::from_check(StateAction::SessionWorkingDirectoryRemoved(removed), check)
    }

    pub(crate) fn apply_directory_removed(
        &mut self,
        cx: &mut Cx<'_>,
        by: &Dispatched,
        removed: SessionWorkingDirectoryRemovedAction,
    ) {
        let gone = removed.directory.clone();
        let action = StateAction::SessionWorkingDirectoryRemoved(removed);
        self.change_directories(cx, by, action, Some((gone, None)));
    }

    pub(crate) fn check_directory_replaced(
        &self,
        _by: &Dispatched,
        session: &Session,
        replaced: SessionWorkingDirectoryReplacedAction,
    ) -> Verdict {
        let check = self.capability(session).and_then(|capability| {
            check_uri("replacement", &replaced.replacement)?;
            let Some(index) = position(session, &replaced.directory) else {
                return Err("directory: is not one of the session's working directories; \
                            perhaps another client replaced it first"
                    .to_owned());
            };
            if index == 0 && capability.primary_replacement != Some(true) {
                return Err("directory: this agent cannot change its first directory during a session".to_owned());
            }
            self.check_at_rest(session)
        });
        Verdict::from_check(StateAction::SessionWorkingDirectoryReplaced(replaced), check)
    }

    pub(crate) fn apply_directory_replaced(
        &mut self,
        cx: &mut Cx<'_>,
        by: &Dispatched,
        replaced: SessionWorkingDirectoryReplacedAction,
    ) {
        let gone = (replaced.directory.clone(), Some(replaced.replacement.clone()));
        let action = StateAction::SessionWorkingDirectoryReplaced(replaced);
        self.change_directories(cx, by, action, Some(gone));
    }

    pub(crate) fn check_chat_directory_set(
        &self,
        _cx: &Cx<'_>,
        by: &Dispatched,
        _chat: &Chat,
        set: ChatWorkingDirectorySetAction,
    ) -> Verdict {
        let check =
            self.session_with_capability(by.channel)
                .and_then(|session| match position(session, &set.directory) {
                    Some(_) => Ok(()),
                    None => {
                        Err("directory: is not one of the session's working directories; add it there first".to_owned())
                    }
                });
        Verdict::from_check(StateAction::ChatWorkingDirectorySet(set), check)
    }

    pub(crate) fn apply_chat_directory_set(
        &mut self,
        cx: &mut Cx<'_>,
        by: &Dispatched,
        set: ChatWorkingDirectorySetAction,
    ) {
        self.commit_dispatched(cx, by, StateAction::ChatWorkingDirectorySet(set));
        self.parts.changesets.recheck();
    }

    pub(crate) fn check_chat_directory_removed(
        &self,
        _cx: &Cx<'_>,
        by: &Dispatched,
        _chat: &Chat,
        removed: ChatWorkingDirectoryRemovedAction,
    ) -> Verdict {
        let check = self.session_with_capability(by.channel);
        let check = check.and_then(|session| self.check_at_rest(session));
        Verdict::from_check(StateAction::ChatWorkingDirectoryRemoved(removed), check)
    }

    pub(crate) fn apply_chat_directory_removed(
        &mut self,
        cx: &mut Cx<'_>,
        by: &Dispatched,
        removed: ChatWorkingDirectoryRemovedAction,
    ) {
        self.commit_dispatched(cx, by, StateAction::ChatWorkingDirectoryRemoved(removed));
        self.parts.changesets.recheck();
    }

    /// Changes the directories of a session, and everything that depends on them: its watches, customizations and
    /// repository, the subsets of its chats, and the approvals of its workspace. `gone` is the removed directory, and
    /// its replacement.
    fn change_directories(
        &mut self,
        cx: &mut Cx<'_>,
        by: &Dispatched,
        action: StateAction,
        gone: Option<(String, Option<String>)>,
    ) {
        let session_id = by.channel;
        let workspace = |host: &Self| {
            let session = host.sessions.get(&session_id);
            session.and_then(approval::workspace).map(str::to_owned)
        };
        let before = workspace(self);
        if self.commit_dispatched(cx, by, action) == ReduceOutcome::Applied {
            self.parts.watches.recheck();
            self.customizations_rescoped(cx, session_id);
            self.repository_moved(cx, session_id);
        }
        self.parts.changesets.recheck();
        if let Some((gone, instead)) = gone {
            self.directory_gone(cx, session_id, &gone, instead.as_ref());
        }
        if before.is_some() && workspace(self) != before {
            self.forget_rules_of_moved_session(cx, session_id);
        }
        self.workspace_changed(cx, session_id);
    }

    /// The capability of a session's agent to work in several directories (SES-25).
    fn capability(&self, session: &Session) -> Result<&MultipleWorkingDirectoriesCapability, String> {
        let agent = self.agent_of(session);
        let capabilities = agent.and_then(|agent| agent.info.capabilities.as_ref());
        let capability = capabilities.and_then(|capabilities| capabilities.multiple_working_directories.as_ref());
        capability.ok_or_else(|| {
            "this session's agent works in the directory it started in; create another session to work elsewhere"
                .to_owned()
        })
    }

    /// The session of a chat, if its agent can work in several directories.
    fn session_with_capability(&self, chat_id: ChannelId) -> Result<&Session, String> {
        let session = self.session_of(chat_id).ok_or("the session is gone")?;
        self.capability(session)?;
        Ok(session)
    }

    /// The directories of a session cannot change while its agent works.
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
        chats.any(|chat| chat.run().is_some())
    }

    /// Updates the chats after a session lost a directory: a chat's directories are a subset of the session's
    /// (SES-26).
    fn directory_gone(&mut self, cx: &mut Cx<'_>, session_id: ChannelId, gone: &String, instead: Option<&String>) {
        let Some(session) = self.sessions.get(&session_id) else {
            return never!("the session is in memory");
        };
        if directories_of(session).contains(gone) {
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

fn directories_of(session: &Session) -> &[String] {
    session.state.working_directories.as_deref().unwrap_or_default()
}

fn position(session: &Session, directory: &str) -> Option<usize> {
    directories_of(session).iter().position(|known| known == directory)
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
        return Err("directory: this agent cannot change its first directory during a session".to_owned());
    }
    Ok(())
}

fn check_uri(field: &str, directory: &str) -> Result<(), String> {
    uri::check_directory(directory).map_err(|problem| format!("{field}: {problem}"))
}
