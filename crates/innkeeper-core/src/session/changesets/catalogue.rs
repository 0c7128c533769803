//! The views that sessions and chats advertise (CHG-01 to CHG-03).

use ahp_types::actions::{ChatChangesetsChangedAction, SessionChangesetsChangedAction, StateAction};
use ahp_types::state::{Changeset, ChangesetCapabilities, ChatOrigin};

use super::uri;
use crate::core::{Cx, Host, never};
use crate::ids::ChannelId;
use crate::session::repository;

impl Host {
    /// Publishes the views of a session and of its chats, if they differ from those that are published.
    pub(crate) fn advertise_changesets(&mut self, cx: &mut Cx<'_>, session_id: ChannelId) {
        if !self.config.serves_changes || self.storage.mode().is_read_only() {
            return;
        }
        let Some(session) = self.sessions.get(&session_id) else {
            return never!("the session is in memory");
        };
        let has_directories = session
            .state
            .working_directories
            .as_ref()
            .is_some_and(|all| !all.is_empty());
        let has_git = repository::has_repository(session.state.meta.as_ref());
        let views = has_directories.then(|| match session.is_draft {
            true => draft_views(&session.uri, has_git),
            false => session_views(&session.uri, has_git),
        });
        if session.state.changesets != views {
            let action = SessionChangesetsChangedAction { changesets: views };
            self.commit(cx, session_id, StateAction::SessionChangesetsChanged(action), None);
        }
        let chats = self.sessions.get(&session_id).map(|session| session.chats.clone());
        for chat in chats.unwrap_or_default() {
            self.advertise_changesets_of_chat(cx, chat, has_directories, has_git);
        }
    }

    /// Publishes the views of a chat that joined a session, if the session's views are published.
    pub(crate) fn advertise_changesets_of_new_chat(&mut self, cx: &mut Cx<'_>, session_id: ChannelId) {
        let session = self.sessions.get(&session_id);
        if session.is_some_and(|session| session.state.changesets.is_some()) {
            self.advertise_changesets(cx, session_id);
        }
    }

    fn advertise_changesets_of_chat(&mut self, cx: &mut Cx<'_>, chat_id: ChannelId, has_directories: bool, git: bool) {
        let Some(chat) = self.chats.get(&chat_id) else {
            return never!("the chat is in memory");
        };
        let head = chat.model.head();
        // The turn of its parent shows the changes of a subagent.
        if matches!(head.origin, Some(ChatOrigin::Tool { .. })) {
            return;
        }
        let has_own = head.working_directories.is_some();
        let views = has_directories.then(|| chat_views(&head.resource, has_own && git));
        if head.changesets != views {
            let action = ChatChangesetsChangedAction { changesets: views };
            self.commit(cx, chat_id, StateAction::ChatChangesetsChanged(action), None);
        }
    }
}

/// The views of a session before its first message: it has changed nothing yet. A client that lists a session only
/// once it is announced hears of the other views afterwards.
fn draft_views(owner: &str, has_git: bool) -> Vec<Changeset> {
    has_git.then(|| uncommitted(owner)).into_iter().collect()
}

fn uncommitted(owner: &str) -> Changeset {
    view(
        owner,
        uri::UNCOMMITTED,
        "uncommitted",
        "Uncommitted changes",
        "Everything that differs from the last commit",
    )
}

fn session_views(owner: &str, has_git: bool) -> Vec<Changeset> {
    let mut views = draft_views(owner, has_git);
    views.push(view(
        owner,
        uri::SESSION,
        "session",
        "Session changes",
        "Everything that changed since the session began",
    ));
    if has_git {
        views.push(view(
            owner,
            uri::BRANCH,
            "branch",
            "Branch changes",
            "Everything that changed since the branch left its base",
        ));
    }
    views.extend(turn_views(owner));
    views
}

fn chat_views(owner: &str, has_uncommitted: bool) -> Vec<Changeset> {
    let mut views = Vec::new();
    if has_uncommitted {
        views.push(view(
            owner,
            uri::UNCOMMITTED,
            "uncommitted",
            "Uncommitted changes",
            "Everything in the directories of this chat that differs from the last commit",
        ));
    }
    views.extend(turn_views(owner));
    views
}

fn turn_views(owner: &str) -> [Changeset; 2] {
    [
        view(
            owner,
            uri::TURN,
            "turn",
            "Changes of a turn",
            "Everything that changed while the turn ran",
        ),
        view(
            owner,
            uri::TURNS,
            "compare-turns",
            "Changes between two turns",
            "Everything that changed from the end of one turn to the end of another",
        ),
    ]
}

fn view(owner: &str, name: &str, kind: &str, label: &str, description: &str) -> Changeset {
    Changeset {
        label: label.to_owned(),
        uri_template: uri::template(owner, name),
        description: Some(description.to_owned()),
        change_kind: kind.to_owned(),
        capabilities: Some(ChangesetCapabilities {
            review: Some(serde_json::Map::new()),
        }),
    }
}
