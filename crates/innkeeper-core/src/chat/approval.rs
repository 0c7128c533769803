//! Approvals: the rules by which a tool call needs no confirmation.
//!
//! The host remembers exactly what it showed: a [rule](rule::Rule) for a command, a file, a server, a tool
//! of an MCP server or of a client. Rules are ordinary settings of the session, so that they are
//! listed in the session's state, shown by any client, and edited or taken back with
//! `session/configChanged`:
//! - [`approval_mode::MODE`]: ask, or allow everything in this session;
//! - [`SESSION`]: rules for the rest of this session;
//! - [`WORKSPACE`]: rules for this working directory, shared by the sessions in it;
//! - [`EVERYWHERE`]: rules for all sessions of the host.
//!
//! Nothing else carries over from one session to another.

mod command;
mod command_line;
mod options;
mod rule;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ahp_types::actions::{SessionConfigChangedAction, SessionMetaChangedAction, StateAction};
use ahp_types::state::SessionConfigState;
use serde_json::{Map, Value, json};

pub use self::command::{ApprovalCommand, ApprovalTarget};
use self::options::ONCE;
pub(crate) use self::options::{Offered, RuleScope, call_of, edited_rule};
pub(crate) use self::rule::Call;
use self::rule::Rule;
use crate::agent::{Offer, Setting, SettingKind};
use crate::chat::approval_mode::{self, ASK, MODE};
use crate::clients::access::Scope;
use crate::core::{Cx, Host, ROOT, never};
use crate::ids::ChannelId;
use crate::session::Session;
use crate::session::settings::{self, Problem};

/// The setting with the rules of this session.
pub(crate) const SESSION: &str = "approvedTools";
/// The setting with the rules of this workspace.
pub(crate) const WORKSPACE: &str = "workspaceApprovedTools";
/// The setting with the rules of all sessions.
pub(crate) const EVERYWHERE: &str = "everywhereApprovedTools";

/// Maximum rules of one list.
const MAX_RULES: u32 = 200;

/// Key in the `_meta` of a call: the rule that approved it, and the rule that was remembered.
pub(crate) const APPROVAL: &str = "innkeeper.approval";
/// Key in the `_meta` of a session: the approvals of earlier versions that were dropped.
const DROPPED: &str = "innkeeper.droppedApprovals";

/// Maximum workspaces whose approvals are remembered; beyond it, one that no session works in is
/// forgotten.
const MAX_WORKSPACES: usize = 4096;

/// Rules by the URI of the working directory.
pub(crate) type WorkspaceApprovals = BTreeMap<String, BTreeSet<String>>;

/// Rules that outlive sessions: those of a workspace, and those that hold everywhere.
#[derive(Debug, Default)]
pub(crate) struct Approvals {
    workspaces: WorkspaceApprovals,
    everywhere: BTreeSet<String>,
    /// Approvals of earlier versions that hold no longer, by workspace, for reports.
    outdated: WorkspaceApprovals,
}

impl Approvals {
    pub(crate) fn workspaces(&self) -> &WorkspaceApprovals {
        &self.workspaces
    }

    pub(crate) fn everywhere(&self) -> &BTreeSet<String> {
        &self.everywhere
    }

    pub(crate) fn outdated(&self) -> &WorkspaceApprovals {
        &self.outdated
    }

    /// Replaces the rules of a workspace. A workspace without rules has no entry.
    fn set_workspace(&mut self, directory: &str, rules: BTreeSet<String>) {
        match rules.is_empty() {
            true => self.workspaces.remove(directory),
            false => self.workspaces.insert(directory.to_owned(), rules),
        };
    }

    /// Drops the rules of one workspace beyond [`MAX_WORKSPACES`] that no session uses.
    fn drop_unused_workspace(&mut self, used: &BTreeSet<String>) {
        if self.workspaces.len() <= MAX_WORKSPACES {
            return;
        }
        let unused = self.workspaces.keys().find(|directory| !used.contains(*directory));
        if let Some(unused) = unused.cloned() {
            self.workspaces.remove(&unused);
        }
    }
}

/// The settings that hold the policy.
pub(crate) fn settings() -> Vec<Setting> {
    let rules = |id: &str, title: &str, description: &str| Setting {
        id: id.to_owned(),
        title: title.to_owned(),
        description: Some(description.to_owned()),
        kind: SettingKind::TextList {
            min: None,
            max: Some(MAX_RULES),
        },
        default: Some(json!([])),
        mutable: true,
        read_only: false,
        required: false,
    };
    vec![
        approval_mode::setting(),
        rules(
            SESSION,
            "Allowed in this session",
            "Calls that no longer ask in this session, for example run_command(cargo test *) or edit(src/). Remove one to be asked again.",
        ),
        rules(
            WORKSPACE,
            "Always allowed in this workspace",
            "Calls that no longer ask in any session of this working directory. Remove one to be asked again.",
        ),
        rules(
            EVERYWHERE,
            "Always allowed everywhere",
            "Calls that no longer ask in any session of this host. Remove one to be asked again.",
        ),
    ]
}

/// The reason why a call runs without a confirmation.
#[derive(Debug)]
pub(crate) struct Allowance {
    /// The choice that the agent gets.
    pub(crate) choice: Option<String>,
    /// The reason, as clients see it.
    pub(crate) shown: Value,
}

impl Host {
    /// Returns the reason if the policy approves a call without a confirmation.
    pub(crate) fn policy_allows(&self, chat: ChannelId, call: &Call, offer: &Offer) -> Option<Allowance> {
        let session = self.session_of(chat)?;
        let values = &session.state.config.as_ref()?.values;
        let allows_all = approval_mode::allows_all(values);
        let by_mode = |choice: Option<String>| Allowance {
            choice,
            shown: json!({ "setting": MODE }),
        };
        match offer {
            Offer::Standard if allows_all => Some(by_mode(Some(ONCE.to_owned()))),
            Offer::Standard => {
                let (reach, rule) = self.covering_rule(session, call)?;
                Some(Allowance {
                    choice: Some(ONCE.to_owned()),
                    shown: json!({ "rule": rule, "scope": reach.name() }),
                })
            }
            // The agent remembers its own choices; here only "allow everything" answers for the user.
            Offer::Own(options) if allows_all => {
                let yes = options.iter().find(|option| option.approves);
                Some(by_mode(yes.map(|option| option.id.clone())))
            }
            Offer::Own(_) => None,
        }
    }

    fn covering_rule(&self, session: &Session, call: &Call) -> Option<(RuleScope, String)> {
        let covering = |rules: BTreeSet<String>| {
            let covers = |text: &String| Rule::parse(text).is_ok_and(|rule| rule.covers(call));
            rules.into_iter().find(covers)
        };
        let in_session = || Some((RuleScope::Session, covering(listed(session, SESSION))?));
        let in_workspace = || Some((RuleScope::Workspace, covering(listed(session, WORKSPACE))?));
        let everywhere = || Some((RuleScope::Everywhere, covering(self.approvals.everywhere.clone())?));
        in_session().or_else(in_workspace).or_else(everywhere)
    }

    /// Whether a chat's session has a workspace to allow something in.
    pub(crate) fn has_workspace(&self, chat: ChannelId) -> bool {
        self.session_of(chat)
            .is_some_and(|session| workspace(session).is_some())
    }

    /// Remembers an answer that was meant for more than one call.
    pub(crate) fn remember(&mut self, cx: &mut Cx<'_>, chat: ChannelId, reach: RuleScope, rule: &str) {
        let Some(session_id) = self.chats.get(&chat).map(|chat| chat.session) else {
            return never!("the chat is in memory");
        };
        let target = match reach {
            RuleScope::Session => Rules::Session(session_id),
            RuleScope::Workspace => match self.sessions.get(&session_id).and_then(workspace) {
                Some(directory) => Rules::Workspace(directory.to_owned()),
                None => return,
            },
            RuleScope::Everywhere => Rules::Everywhere,
        };
        let mut rules = self.rules(&target);
        // A full list stays unchanged, and the next call asks again.
        if rules.len() < MAX_RULES as usize && rules.insert(rule.to_owned()) {
            self.set_rules(cx, &target, rules);
        }
    }

    /// The rules of one list.
    fn rules(&self, target: &Rules) -> BTreeSet<String> {
        match target {
            Rules::Session(session) => self
                .sessions
                .get(session)
                .map(|session| listed(session, SESSION))
                .unwrap_or_default(),
            Rules::Workspace(directory) => self.approvals.workspaces.get(directory).cloned().unwrap_or_default(),
            Rules::Everywhere => self.approvals.everywhere.clone(),
        }
    }

    fn set_rules(&mut self, cx: &mut Cx<'_>, target: &Rules, rules: BTreeSet<String>) {
        match target {
            Rules::Session(session) => self.set_session_value(cx, *session, SESSION, json!(rules)),
            Rules::Workspace(directory) => {
                self.approvals.set_workspace(directory, rules);
                self.drop_unused_workspace();
                self.publish_shared(cx);
            }
            Rules::Everywhere => {
                self.approvals.everywhere = rules;
                self.publish_shared(cx);
            }
        }
    }

    /// Follows a client's change of a session's settings: rules of the workspace and of all sessions change in every
    /// session that shares them.
    pub(crate) fn approvals_changed(&mut self, cx: &mut Cx<'_>, session_id: ChannelId) {
        let Some(session) = self.sessions.get(&session_id) else {
            return never!("the session is in memory");
        };
        let mut changed: Vec<(Rules, BTreeSet<String>)> = Vec::new();
        if let Some(directory) = workspace(session) {
            changed.push((Rules::Workspace(directory.to_owned()), listed(session, WORKSPACE)));
        }
        if settings::find(&session.settings, EVERYWHERE).is_some() {
            changed.push((Rules::Everywhere, listed(session, EVERYWHERE)));
        }
        for (target, rules) in changed {
            if rules != self.rules(&target) {
                self.set_rules(cx, &target, rules);
            }
        }
    }

    /// Copies the rules of the workspace and of the host into a new session, before its first snapshot.
    pub(crate) fn share_workspace_approvals(&mut self, session_id: ChannelId) {
        let Some(session) = self.sessions.get(&session_id) else {
            return never!("the session is in memory");
        };
        let shared = self.shared_with(session);
        let session = self.sessions.get_mut(&session_id);
        let config = session.and_then(|session| Arc::make_mut(&mut session.state).config.as_mut());
        if let Some(config) = config {
            for (setting, rules) in shared {
                config.values.insert(setting.to_owned(), json!(rules));
            }
        }
    }

    /// The rules that a session shares with others, by the setting that lists them.
    fn shared_with(&self, session: &Session) -> [(&'static str, BTreeSet<String>); 2] {
        let directory = workspace(session);
        let here = directory.and_then(|directory| self.approvals.workspaces.get(directory));
        [
            (WORKSPACE, here.cloned().unwrap_or_default()),
            (EVERYWHERE, self.approvals.everywhere.clone()),
        ]
    }

    /// Removes the rules of one session from a copy of its settings.
    pub(crate) fn forget_approvals(&self, config: &mut SessionConfigState) {
        let mode = self.root.value(MODE);
        config
            .values
            .insert(MODE.to_owned(), mode.cloned().unwrap_or_else(|| json!(ASK)));
        config.values.insert(SESSION.to_owned(), json!([]));
    }

    /// Updates a session that has another workspace now, or that was loaded from the store: it gets the rules of its
    /// workspace and of the host.
    pub(crate) fn workspace_changed(&mut self, cx: &mut Cx<'_>, session_id: ChannelId) {
        let Some(session) = self.sessions.get(&session_id) else {
            return never!("the session is in memory");
        };
        for (setting, rules) in self.shared_with(session) {
            let session = self.sessions.get(&session_id);
            let differs = session.is_some_and(|session| {
                settings::find(&session.settings, setting).is_some() && listed(session, setting) != rules
            });
            if differs {
                self.set_session_value(cx, session_id, setting, json!(rules));
            }
        }
    }

    /// Removes the rules of a session whose primary directory changed: they are about files and commands of the old
    /// one.
    pub(crate) fn forget_rules_of_moved_session(&mut self, cx: &mut Cx<'_>, session_id: ChannelId) {
        let has_rules = self
            .sessions
            .get(&session_id)
            .is_some_and(|session| !listed(session, SESSION).is_empty());
        if has_rules {
            self.set_session_value(cx, session_id, SESSION, json!([]));
        }
    }

    /// Drops approvals of earlier versions: the bare name of a tool, which allowed every call of it. Publishes the
    /// change in the session.
    pub(crate) fn drop_bare_approvals(&mut self, cx: &mut Cx<'_>, session_id: ChannelId) {
        let Some(session) = self.sessions.get(&session_id) else {
            return never!("the session is in memory");
        };
        let (rules, dropped): (BTreeSet<String>, BTreeSet<String>) = listed(session, SESSION)
            .into_iter()
            .partition(|text| Rule::parse(text).is_ok());
        if dropped.is_empty() {
            return;
        }
        let mut meta = session.state.meta.clone().unwrap_or_default();
        meta.insert(DROPPED.to_owned(), json!(dropped));
        self.set_session_value(cx, session_id, SESSION, json!(rules));
        let action = SessionMetaChangedAction { meta: Some(meta) };
        self.commit(cx, session_id, StateAction::SessionMetaChanged(action), None);
    }

    /// Restores the rules of workspaces and of the host after a restart. Approvals of earlier versions, the bare names
    /// of tools, are dropped and reported.
    pub(crate) fn restore_approvals(
        &mut self,
        workspaces: WorkspaceApprovals,
        everywhere: BTreeSet<String>,
        outdated: WorkspaceApprovals,
        warnings: &mut Vec<String>,
    ) {
        self.approvals.everywhere = everywhere;
        self.approvals.outdated = outdated;
        for (directory, approved) in workspaces {
            let (rules, dropped): (BTreeSet<String>, BTreeSet<String>) =
                approved.into_iter().partition(|text| Rule::parse(text).is_ok());
            self.approvals.set_workspace(&directory, rules);
            if !dropped.is_empty() {
                let names: Vec<&str> = dropped.iter().map(String::as_str).collect();
                warnings.push(format!(
                    "an earlier version allowed every call of {} in {directory}; these approvals hold no longer, so \
                     users are asked again. `innkeeper approvals` lists them",
                    names.join(", ")
                ));
                self.approvals.outdated.entry(directory).or_default().extend(dropped);
                self.mark_dirty(ROOT);
            }
        }
    }

    fn drop_unused_workspace(&mut self) {
        if self.approvals.workspaces.len() > MAX_WORKSPACES {
            let used = self.sessions.values().filter_map(workspace).map(str::to_owned);
            let used: BTreeSet<String> = used.collect();
            self.approvals.drop_unused_workspace(&used);
        }
    }

    /// Copies shared rules into every session that shares them.
    fn publish_shared(&mut self, cx: &mut Cx<'_>) {
        // No action carries them; they are persisted with the root.
        self.mark_dirty(ROOT);
        let mut sessions: Vec<ChannelId> = self.sessions.keys().copied().collect();
        sessions.sort_unstable();
        for session_id in sessions {
            self.workspace_changed(cx, session_id);
        }
    }

    fn set_session_value(&mut self, cx: &mut Cx<'_>, session: ChannelId, setting: &str, value: Value) {
        let mut config = Map::new();
        config.insert(setting.to_owned(), value);
        let action = SessionConfigChangedAction { config, replace: None };
        self.commit(cx, session, StateAction::SessionConfigChanged(action), None);
    }
}

/// Where a list of rules is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Rules {
    Session(ChannelId),
    Workspace(String),
    Everywhere,
}

/// Removes every approval from the settings of an imported session. Returns the removed rules.
pub(crate) fn reset(config: &mut SessionConfigState) -> Vec<String> {
    let values = &mut config.values;
    approval_mode::convert_values(values);
    let mut taken = Vec::new();
    if values.get(MODE).is_some_and(|mode| mode != ASK) {
        taken.push("everything, by the session's approval mode".to_owned());
        values.insert(MODE.to_owned(), json!(ASK));
    }
    for setting in [SESSION, WORKSPACE, EVERYWHERE] {
        if let Some(value) = values.get_mut(setting) {
            taken.extend(texts(value));
            *value = json!([]);
        }
    }
    taken
}

/// Updates the settings of a session that an earlier version stored: the lists and their descriptions. Returns whether
/// anything changed; no action carries a schema, so clients then need a snapshot.
pub(crate) fn convert_session(stored: &mut Arc<[Setting]>, config: &mut SessionConfigState) -> bool {
    let lists: Vec<Setting> = settings().into_iter().filter(|setting| setting.id != MODE).collect();
    let is_list = |setting: &&Setting| lists.iter().any(|list| list.id == setting.id);
    if stored.iter().filter(is_list).eq(lists.iter()) {
        return false;
    }
    let mut current: Vec<Setting> = stored.iter().filter(|setting| !is_list(setting)).cloned().collect();
    let mode = current.iter().position(|setting| setting.id == MODE);
    let place = mode.map_or(0, |mode| mode + 1);
    current.splice(place..place, lists);
    *stored = current.into();
    config.schema = settings::session_schema(stored);
    config.values.entry(EVERYWHERE).or_insert_with(|| json!([]));
    true
}

/// Checks rules that a client adds: every entry is a rule, workspace rules need a workspace, and only a client that may
/// change the host adds rules for all sessions.
pub(crate) fn check_change(session: &Session, changes: &Map<String, Value>, scope: Scope) -> Result<(), Problem> {
    check_rules(changes)?;
    let allows = changes
        .get(WORKSPACE)
        .and_then(Value::as_array)
        .is_some_and(|rules| !rules.is_empty());
    if allows && workspace(session).is_none() {
        return Err(Problem::new(
            WORKSPACE,
            "this session works in no directory; allow it in the session instead",
        ));
    }
    let wanted: Option<BTreeSet<String>> = changes.get(EVERYWHERE).map(texts);
    if wanted.is_some_and(|wanted| wanted != listed(session, EVERYWHERE)) && scope < Scope::Admin {
        return Err(Problem::new(
            EVERYWHERE,
            format!("holds in every session, so changing it needs the scope admin and this connection has {scope}"),
        ));
    }
    Ok(())
}

/// Checks that the entries of lists are rules.
pub(crate) fn check_rules(changes: &Map<String, Value>) -> Result<(), Problem> {
    for setting in [SESSION, WORKSPACE, EVERYWHERE] {
        for text in changes.get(setting).map(texts).unwrap_or_default() {
            if let Err(problem) = Rule::parse(&text) {
                let shown: String = text.chars().take(128).flat_map(char::escape_debug).collect();
                return Err(Problem::new(setting, format!("`{shown}` {problem}")));
            }
        }
    }
    Ok(())
}

/// The directory whose approvals a session shares: its primary one.
pub(crate) fn workspace(session: &Session) -> Option<&str> {
    session.state.working_directories.as_ref()?.first().map(String::as_str)
}

fn listed(session: &Session, setting: &str) -> BTreeSet<String> {
    let values = session.state.config.as_ref().map(|config| &config.values);
    let list = values.and_then(|values| values.get(setting));
    list.map(texts).unwrap_or_default()
}

fn texts(list: &Value) -> BTreeSet<String> {
    let list = list.as_array().into_iter().flatten();
    list.filter_map(Value::as_str).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(texts: &[&str]) -> BTreeSet<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn a_workspace_without_rules_has_no_entry() {
        let mut approvals = Approvals::default();
        approvals.set_workspace("file:///w", rules(&["edit(src/)"]));
        assert_eq!(approvals.workspaces()["file:///w"], rules(&["edit(src/)"]));
        approvals.set_workspace("file:///w", rules(&[]));
        assert!(approvals.workspaces().is_empty());
    }

    #[test]
    fn workspaces_are_bounded_and_used_ones_stay() {
        let mut approvals = Approvals::default();
        let directory = |number: usize| format!("file:///{number:05}");
        for number in 0..MAX_WORKSPACES {
            approvals.set_workspace(&directory(number), rules(&["run"]));
        }
        approvals.drop_unused_workspace(&BTreeSet::new());
        assert_eq!(
            approvals.workspaces().len(),
            MAX_WORKSPACES,
            "the limit itself is allowed"
        );

        approvals.set_workspace(&directory(MAX_WORKSPACES), rules(&["run"]));
        approvals.drop_unused_workspace(&BTreeSet::from([directory(0)]));
        assert_eq!(approvals.workspaces().len(), MAX_WORKSPACES);
        assert!(approvals.workspaces().contains_key(&directory(0)), "a session uses it");
        assert!(!approvals.workspaces().contains_key(&directory(1)));
    }
}
