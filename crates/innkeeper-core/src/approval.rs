//! What people allow, and what the host remembers of it.
//!
//! Every answer is an ordinary setting of the session, so that it is listed in the session's
//! state, shown by any client, and taken back with `session/configChanged`:
//! - [`approval_mode::MODE`]: ask, or allow everything in this session;
//! - [`SESSION`]: tools allowed for the rest of this session;
//! - [`WORKSPACE`]: tools allowed in this working directory, shared by the sessions in it.
//!
//! Nothing else carries over from one session to another.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ahp_types::actions::{SessionConfigChangedAction, StateAction};
use ahp_types::state::{ConfirmationOption, ConfirmationOptionKind, SessionConfigState};
use serde_json::{Map, Value, json};

use crate::agent::{Offer, Setting, SettingKind};
use crate::approval_mode::{self, ASK, MODE};
use crate::core::{Cx, HostCore, ROOT};
use crate::ids::ChannelId;
use crate::session::Session;
use crate::settings::Problem;
use crate::tool::wire;

/// The setting that lists the tools allowed in this session.
pub(crate) const SESSION: &str = "approvedTools";
/// The setting that lists the tools allowed in this workspace.
pub(crate) const WORKSPACE: &str = "workspaceApprovedTools";

const ONCE: &str = "allow-once";
const FOR_SESSION: &str = "allow-session";
const IN_WORKSPACE: &str = "allow-workspace";
const DENY: &str = "deny";

/// Most workspaces whose approvals are remembered; beyond it, one that no session works in is
/// forgotten.
const MAX_WORKSPACES: usize = 4096;

/// Tools allowed for good, by the URI of the working directory.
pub(crate) type WorkspaceApprovals = BTreeMap<String, BTreeSet<String>>;

/// The settings that hold the policy.
pub(crate) fn settings() -> Vec<Setting> {
    let tools = |id: &str, title: &str, description: &str| Setting {
        id: id.to_owned(),
        title: title.to_owned(),
        description: Some(description.to_owned()),
        kind: SettingKind::TextList {
            min: None,
            max: Some(200),
        },
        default: Some(json!([])),
        mutable: true,
        read_only: false,
        required: false,
    };
    vec![
        approval_mode::setting(),
        tools(
            SESSION,
            "Allowed in this session",
            "Tools that no longer ask in this session. Remove one to be asked again.",
        ),
        tools(
            WORKSPACE,
            "Always allowed in this workspace",
            "Tools that no longer ask in any session of this working directory. Remove one to be asked again.",
        ),
    ]
}

impl HostCore {
    /// Whether the policy lets a call run without asking; if so, the choice to tell the agent.
    pub(crate) fn policy_allows(&self, chat: ChannelId, tool: &str, offer: &Offer) -> Option<Option<String>> {
        let session = self.session_of(chat)?;
        let values = &session.state.config.as_ref()?.values;
        let allows_all = approval_mode::allows_all(values);
        let lists = |setting: &str| {
            let list = values.get(setting).and_then(Value::as_array);
            list.is_some_and(|list| list.iter().any(|allowed| allowed == tool))
        };
        match offer {
            Offer::Standard if allows_all || lists(SESSION) || lists(WORKSPACE) => Some(Some(ONCE.to_owned())),
            // The agent remembers its own choices; only "everything" answers for people here.
            Offer::Own(options) if allows_all => Some(
                options
                    .iter()
                    .find(|option| option.approves)
                    .map(|option| option.id.clone()),
            ),
            Offer::Standard | Offer::Own(_) => None,
        }
    }

    /// The choices that people get, in the order they are shown (TOOL-09).
    pub(crate) fn options_for(&self, chat: ChannelId, offer: Offer, is_client: bool) -> Vec<ConfirmationOption> {
        let option = |id: &str, label: &str, kind, group| ConfirmationOption {
            id: id.to_owned(),
            label: label.to_owned(),
            kind,
            group: Some(group),
        };
        match offer {
            Offer::Own(options) => wire::options(options),
            Offer::Standard => {
                let approve = ConfirmationOptionKind::Approve;
                let mut options = vec![
                    option(ONCE, "Allow once", approve.clone(), 0),
                    option(FOR_SESSION, "Allow in this session", approve.clone(), 1),
                ];
                // A client's tool is known by the client's id, which does not outlive its session.
                let has_workspace = self
                    .session_of(chat)
                    .is_some_and(|session| workspace(session).is_some());
                if has_workspace && !is_client {
                    options.push(option(IN_WORKSPACE, "Always allow in this workspace", approve, 1));
                }
                options.push(option(DENY, "Deny", ConfirmationOptionKind::Deny, 2));
                options
            }
        }
    }

    /// Remembers an answer that was meant for more than one call.
    pub(crate) fn remember(&mut self, cx: &mut Cx<'_>, chat: ChannelId, tool: &str, choice: &str) {
        let Some(session_id) = self.chats.get(&chat).map(|chat| chat.session) else {
            return;
        };
        match choice {
            FOR_SESSION => {
                let mut tools = self
                    .sessions
                    .get(&session_id)
                    .map(|session| listed(session, SESSION))
                    .unwrap_or_default();
                tools.insert(tool.to_owned());
                self.set_session_value(cx, session_id, SESSION, json!(tools));
            }
            IN_WORKSPACE => {
                let Some(directory) = self.sessions.get(&session_id).and_then(workspace).map(str::to_owned) else {
                    return;
                };
                self.workspace_approvals
                    .entry(directory.clone())
                    .or_default()
                    .insert(tool.to_owned());
                self.forget_unused_workspace();
                self.publish_workspace_approvals(cx, &directory);
            }
            _ => {}
        }
    }

    /// Follows up on a client's change of a session's settings: what it allowed or took back for
    /// the workspace holds in every session of the workspace.
    pub(crate) fn approvals_changed(&mut self, cx: &mut Cx<'_>, session_id: ChannelId) {
        let Some(session) = self.sessions.get(&session_id) else {
            return;
        };
        let Some(directory) = workspace(session).map(str::to_owned) else {
            return;
        };
        let tools = listed(session, WORKSPACE);
        let known = self.workspace_approvals.get(&directory).cloned().unwrap_or_default();
        if tools != known {
            if tools.is_empty() {
                self.workspace_approvals.remove(&directory);
            } else {
                self.workspace_approvals.insert(directory.clone(), tools);
            }
            self.forget_unused_workspace();
            self.publish_workspace_approvals(cx, &directory);
        }
    }

    /// Gives a session what is allowed in its workspace, before anybody has seen it.
    pub(crate) fn share_workspace_approvals(&mut self, session_id: ChannelId) {
        let Some(session) = self.sessions.get_mut(&session_id) else {
            return;
        };
        let tools = workspace(session).and_then(|directory| self.workspace_approvals.get(directory));
        let value = json!(tools.cloned().unwrap_or_default());
        if let Some(config) = Arc::make_mut(&mut session.state).config.as_mut() {
            config.values.insert(WORKSPACE.to_owned(), value);
        }
    }

    /// Takes what was allowed in one session out of a copy of its settings.
    pub(crate) fn forget_approvals(&self, config: &mut SessionConfigState) {
        let mode = self.root.config.as_ref().and_then(|config| config.values.get(MODE));
        config
            .values
            .insert(MODE.to_owned(), mode.cloned().unwrap_or_else(|| json!(ASK)));
        config.values.insert(SESSION.to_owned(), json!([]));
    }

    /// Follows up on a session that now works elsewhere: it has that workspace's approvals.
    pub(crate) fn workspace_changed(&mut self, cx: &mut Cx<'_>, session_id: ChannelId) {
        let Some(session) = self.sessions.get(&session_id) else {
            return;
        };
        let tools = workspace(session).and_then(|directory| self.workspace_approvals.get(directory));
        let tools = tools.cloned().unwrap_or_default();
        if listed(session, WORKSPACE) != tools {
            self.set_session_value(cx, session_id, WORKSPACE, json!(tools));
        }
    }

    fn forget_unused_workspace(&mut self) {
        if self.workspace_approvals.len() <= MAX_WORKSPACES {
            return;
        }
        let used: BTreeSet<&str> = self.sessions.values().filter_map(workspace).collect();
        let unused = self
            .workspace_approvals
            .keys()
            .find(|directory| !used.contains(directory.as_str()));
        if let Some(unused) = unused.cloned() {
            self.workspace_approvals.remove(&unused);
        }
    }

    fn publish_workspace_approvals(&mut self, cx: &mut Cx<'_>, directory: &str) {
        // No action carries them; they are kept with the root.
        self.keep_soon(ROOT);
        let tools = self.workspace_approvals.get(directory).cloned().unwrap_or_default();
        let mut sharing: Vec<ChannelId> = self
            .sessions
            .iter()
            .filter(|(_, session)| workspace(session) == Some(directory) && listed(session, WORKSPACE) != tools)
            .map(|(id, _)| *id)
            .collect();
        sharing.sort_unstable();
        for session_id in sharing {
            self.set_session_value(cx, session_id, WORKSPACE, json!(tools));
        }
    }

    fn set_session_value(&mut self, cx: &mut Cx<'_>, session: ChannelId, setting: &str, value: Value) {
        let mut config = Map::new();
        config.insert(setting.to_owned(), value);
        let action = SessionConfigChangedAction { config, replace: None };
        self.commit(cx, session, StateAction::SessionConfigChanged(action), None);
    }
}

/// Without a working directory there is no workspace to allow anything in.
pub(crate) fn check_workspace(session: &Session, changes: &Map<String, Value>) -> Result<(), Problem> {
    let allows = changes
        .get(WORKSPACE)
        .and_then(Value::as_array)
        .is_some_and(|tools| !tools.is_empty());
    if allows && workspace(session).is_none() {
        return Err(Problem::new(
            WORKSPACE,
            "this session works in no directory; allow it in the session instead",
        ));
    }
    Ok(())
}

/// The directory whose approvals a session shares: its primary one.
fn workspace(session: &Session) -> Option<&str> {
    session.state.working_directories.as_ref()?.first().map(String::as_str)
}

fn listed(session: &Session, setting: &str) -> BTreeSet<String> {
    let values = session.state.config.as_ref().map(|config| &config.values);
    let list = values.and_then(|values| values.get(setting)).and_then(Value::as_array);
    list.into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect()
}
