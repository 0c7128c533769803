//! Isolation: a session that works in a Git worktree of its own.
//!
//! It is a setting of new sessions, off by default. The worktree is made before the agent opens the session's chat; its
//! branch is named after the session. Neither is removed with the session: an operation of its changeset does that on
//! request.

use ahp_types::actions::{SessionCreationFailedAction, SessionWorkingDirectoryReplacedAction, StateAction};
use serde_json::json;

use crate::agent::{Choice, Failure, Setting, SettingKind};
use crate::core::{Cx, Host, never};
use crate::effect::ChangesCommand;
use crate::ids::{ChannelId, ClientId};
use crate::session::Session;
use crate::session::create::error_info;

/// The setting. VS Code has one of the same name, with the same values.
pub(crate) const ISOLATION: &str = "isolation";
const FOLDER: &str = "folder";
const WORKTREE: &str = "worktree";

/// The setting as clients show it.
pub(crate) fn setting() -> Setting {
    let choice = |id: &str, label: &str, description: &str| Choice {
        description: Some(description.to_owned()),
        ..Choice::new(id, label)
    };
    Setting {
        id: ISOLATION.to_owned(),
        title: "Isolation".to_owned(),
        description: Some("Whether the session works in the folder itself or in a Git worktree of its own.".to_owned()),
        kind: SettingKind::Choice(vec![
            choice(FOLDER, "Folder", "The session changes the files of the folder."),
            choice(
                WORKTREE,
                "Worktree",
                "The session gets a Git worktree with a branch of its own, and the folder stays as it is.",
            ),
        ]),
        default: Some(json!(FOLDER)),
        mutable: false,
        read_only: false,
        required: false,
    }
}

/// The directory of a new session for which a worktree is to be made.
fn wanted(session: &Session) -> Option<&String> {
    let value = session.state.config.as_ref()?.values.get(ISOLATION)?;
    let directories = session.state.working_directories.as_ref()?;
    directories.first().filter(|_| value == WORKTREE)
}

impl Host {
    /// Has a worktree made for a new session that wants one. Returns false if the session needs none;
    /// [`Self::isolated`] opens its chat otherwise.
    pub(crate) fn isolate(&mut self, cx: &mut Cx<'_>, session_id: ChannelId) -> bool {
        let Some(session) = self.sessions.get(&session_id) else {
            never!("the session is in memory");
            return false;
        };
        match wanted(session).filter(|_| self.config.serves_changes) {
            Some(directory) => {
                cx.emit(ChangesCommand::Isolate {
                    session: session_id,
                    uri: std::sync::Arc::clone(&session.uri),
                    directory: directory.clone(),
                });
                true
            }
            None => false,
        }
    }

    /// The worktree was made: the session works there. Or it cannot be made: the session fails to start.
    pub(crate) fn isolated(&mut self, cx: &mut Cx<'_>, session_id: ChannelId, outcome: Result<String, String>) {
        let Some(session) = self.sessions.get(&session_id) else {
            // The session was disposed meanwhile. The worktree stays, as it does for any session.
            return;
        };
        let creator: Option<ClientId> = session.creator.clone();
        let chat = session.chats.first().copied();
        let (Some(directory), Some(chat)) = (wanted(session).cloned(), chat) else {
            return never!("the session wanted a worktree");
        };
        match outcome {
            Ok(replacement) => {
                let action = SessionWorkingDirectoryReplacedAction { directory, replacement };
                self.commit(
                    cx,
                    session_id,
                    StateAction::SessionWorkingDirectoryReplaced(action),
                    None,
                );
                self.parts.changesets.recheck();
                self.repository_moved(cx, session_id);
                self.customizations_rescoped(cx, session_id);
                self.open_first_chat(cx, chat, creator.as_ref());
            }
            Err(problem) => {
                self.finish_progress(cx, session_id);
                let error = error_info(Failure::new("worktreeFailed", problem));
                let action = StateAction::SessionCreationFailed(SessionCreationFailedAction { error });
                self.commit(cx, session_id, action, None);
            }
        }
    }
}
