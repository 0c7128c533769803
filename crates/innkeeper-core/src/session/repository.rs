//! The Git repository that a session works in: project, branch, changes.
//!
//! The repository service reports its state ([`Input::RepositorySeen`](crate::Input::RepositorySeen)). All of it is
//! in the session's `_meta`, because `session/metaChanged` is the one action that carries such facts: so a client's
//! mirror equals a snapshot, and a restored session still has it. The summary takes `project`, `changes` and the part
//! of `_meta` that clients show in their lists from there.

use ahp_types::actions::{SessionMetaChangedAction, StateAction};
use ahp_types::common::JsonObject;
use ahp_types::state::{ChangesSummary, ProjectInfo};
use serde_json::{Map, Value, json};

use crate::core::{Cx, Host, never};
use crate::effect::RepositoryCommand;
use crate::ids::ChannelId;
use crate::session::Session;
use crate::session::choice;

/// In `_meta`: the state of the repository, as VS Code reads it.
const GIT: &str = "git";
/// In `_meta`: where the repository is on GitHub, as VS Code reads it.
const GITHUB: &str = "github";
/// In `_meta`: the project of the session. Its summary has it as `project`, for which there is no action.
const PROJECT: &str = "innkeeper.project";
/// In `_meta`: how much is changed. The session's summary has it as `changes`, for which there is no action.
const CHANGES: &str = "innkeeper.changes";

/// Everything in `_meta` that comes from the repository.
const OWN_KEYS: [&str; 4] = [GIT, GITHUB, PROJECT, CHANGES];
/// The keys of `_meta` that a summary shows. Versions up to 0.4 have the choices in their summaries.
const SUMMARY_KEYS: [&str; 4] = [GIT, GITHUB, choice::MODEL, choice::AGENT];

/// The state of a repository. Unknown parts are absent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RepositoryState {
    /// The main work tree of the repository.
    pub project_uri: String,
    /// Display name.
    pub project_name: String,
    /// The branch that is checked out.
    pub branch: Option<String>,
    /// The branch that others are merged into.
    pub base_branch: Option<String>,
    /// The branch elsewhere that this one follows.
    pub upstream: Option<String>,
    /// Number of commits that the upstream has and this branch lacks.
    pub incoming: Option<u64>,
    /// How many commits this branch has that would be pushed.
    pub outgoing: Option<u64>,
    /// How many files differ from the last commit.
    pub uncommitted: Option<u64>,
    /// Whether any remote is on GitHub.
    pub has_github_remote: bool,
    /// The repository on GitHub.
    pub github: Option<GitHubRepository>,
    /// The owner of the repository on GitHub that this branch is pushed to.
    pub github_head_owner: Option<String>,
    /// How much differs from the last commit.
    pub changes: Option<RepositoryChanges>,
}

/// A repository on GitHub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitHubRepository {
    /// The owner's name.
    pub owner: String,
    /// Its name.
    pub repo: String,
}

/// How much differs from the last commit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RepositoryChanges {
    /// Lines that are new.
    pub additions: u64,
    /// Removed lines.
    pub deletions: u64,
    /// Files that differ.
    pub files: u64,
}

impl Host {
    /// Asks to follow the repository of a session, unless that was asked.
    pub(crate) fn follow_repository(&mut self, cx: &mut Cx<'_>, session_id: ChannelId) {
        if !self.config.serves_repositories || self.storage.mode().is_read_only() {
            return;
        }
        let Some(session) = self.sessions.get_mut(&session_id) else {
            return never!("the session is in memory");
        };
        let directories = session.state.working_directories.as_ref();
        let directory = directories.and_then(|all| all.first()).cloned();
        if session.repository == directory {
            return;
        }
        session.repository.clone_from(&directory);
        match directory {
            Some(directory) => cx.emit(RepositoryCommand::Follow {
                session: session_id,
                directory,
            }),
            None => {
                cx.emit(RepositoryCommand::Unfollow { session: session_id });
                self.show_repository(cx, session_id, None);
                self.advertise_changesets(cx, session_id);
            }
        }
    }

    /// Follows the repository of a session that works elsewhere now.
    pub(crate) fn repository_moved(&mut self, cx: &mut Cx<'_>, session_id: ChannelId) {
        let session = self.sessions.get(&session_id);
        if session.is_some_and(|session| session.repository.is_some()) {
            self.follow_repository(cx, session_id);
        }
    }

    /// Asks to read the repository again, because a turn may have changed files.
    pub(crate) fn refresh_repository(&mut self, cx: &mut Cx<'_>, chat_id: ChannelId) {
        let Some(chat) = self.chats.get(&chat_id) else {
            return never!("the chat is in memory");
        };
        self.refresh_repository_of(cx, chat.session);
    }

    /// Asks to read the repository of a session and its changes again.
    pub(crate) fn refresh_repository_of(&mut self, cx: &mut Cx<'_>, session_id: ChannelId) {
        let session = self.sessions.get(&session_id);
        if session.is_some_and(|session| session.repository.is_some()) {
            cx.emit(RepositoryCommand::Refresh { session: session_id });
        }
        self.refresh_changesets(cx, session_id);
    }

    /// Ends the follow of a session that leaves memory.
    pub(crate) fn forget_repository(cx: &mut Cx<'_>, session_id: ChannelId, session: &Session) {
        if session.repository.is_some() {
            cx.emit(RepositoryCommand::Unfollow { session: session_id });
        }
    }

    /// Shows what was seen, unless the session works elsewhere by now.
    pub(crate) fn repository_seen(
        &mut self,
        cx: &mut Cx<'_>,
        session_id: ChannelId,
        directory: &str,
        state: Option<&RepositoryState>,
    ) {
        let session = self.sessions.get(&session_id);
        if session.is_some_and(|session| session.repository.as_deref() == Some(directory)) {
            self.show_repository(cx, session_id, state);
            self.advertise_changesets(cx, session_id);
        }
    }

    /// Publishes the state of the repository if it differs from what is shown. All other entries of `_meta` stay
    /// (SES-24).
    fn show_repository(&mut self, cx: &mut Cx<'_>, session_id: ChannelId, state: Option<&RepositoryState>) {
        if self.storage.mode().is_read_only() {
            return;
        }
        let Some(session) = self.sessions.get(&session_id) else {
            return never!("the session is in memory");
        };
        let mut meta = session.state.meta.clone().unwrap_or_default();
        for key in OWN_KEYS {
            meta.remove(key);
        }
        if let Some(state) = state {
            meta.extend(entries(state));
        }
        let meta = (!meta.is_empty()).then_some(meta);
        if session.state.meta != meta {
            let action = StateAction::SessionMetaChanged(SessionMetaChangedAction { meta });
            self.commit(cx, session_id, action, None);
        }
    }
}

/// Whether a repository was seen around the session's directory.
pub(crate) fn has_repository(meta: Option<&JsonObject>) -> bool {
    meta.is_some_and(|meta| meta.contains_key(GIT))
}

/// The project of a session, for its summary.
pub(crate) fn project(meta: Option<&JsonObject>) -> Option<ProjectInfo> {
    serde_json::from_value(meta?.get(PROJECT)?.clone()).ok()
}

/// The uncommitted changes in a session's repository, for its summary.
pub(crate) fn changes(meta: Option<&JsonObject>) -> Option<ChangesSummary> {
    serde_json::from_value(meta?.get(CHANGES)?.clone()).ok()
}

/// The part of a session's `_meta` that its summary shows: summaries are sent often, so they are small.
pub(crate) fn summary_meta(meta: Option<&JsonObject>) -> Option<JsonObject> {
    let meta = meta?;
    let shown = SUMMARY_KEYS
        .iter()
        .filter_map(|key| Some(((*key).to_owned(), meta.get(*key)?.clone())));
    let shown: JsonObject = shown.collect();
    (!shown.is_empty()).then_some(shown)
}

fn entries(state: &RepositoryState) -> Vec<(String, Value)> {
    let mut git = Map::new();
    let mut add = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            git.insert(key.to_owned(), value);
        }
    };
    add("hasGitHubRemote", Some(json!(state.has_github_remote)));
    add("branchName", state.branch.as_ref().map(|name| json!(name)));
    add("baseBranchName", state.base_branch.as_ref().map(|name| json!(name)));
    add("upstreamBranchName", state.upstream.as_ref().map(|name| json!(name)));
    add("incomingChanges", state.incoming.map(|count| json!(count)));
    add("outgoingChanges", state.outgoing.map(|count| json!(count)));
    add("uncommittedChanges", state.uncommitted.map(|count| json!(count)));
    add("githubOwner", state.github.as_ref().map(|github| json!(github.owner)));
    add(
        "githubHeadOwner",
        state.github_head_owner.as_ref().map(|owner| json!(owner)),
    );
    add("githubRepo", state.github.as_ref().map(|github| json!(github.repo)));
    let mut entries = vec![(GIT.to_owned(), Value::Object(git))];
    if let Some(github) = &state.github {
        let github = json!({ "owner": github.owner, "repo": github.repo });
        entries.push((GITHUB.to_owned(), github));
    }
    let project = json!({ "uri": state.project_uri, "displayName": state.project_name });
    entries.push((PROJECT.to_owned(), project));
    if let Some(changes) = state.changes {
        // Clients read them as signed numbers.
        let signed = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        let changes = json!({
            "additions": signed(changes.additions),
            "deletions": signed(changes.deletions),
            "files": signed(changes.files),
        });
        entries.push((CHANGES.to_owned(), changes));
    }
    entries
}
