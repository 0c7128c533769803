//! Listing, adding and revoking approvals from outside of a session, with this host's own methods.

use std::collections::BTreeSet;

use ahp_types::actions::{SessionMetaChangedAction, StateAction};
use serde_json::{Map, Value, json};

use super::rule::Rule;
use super::{DROPPED, MAX_RULES, Rules, SESSION, listed, texts};
use crate::chat::approval_mode;
use crate::core::{Cx, Host, ROOT};
use crate::ids::ChannelId;
use crate::protocol::error::RpcError;

/// Requests about approvals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApprovalCommand {
    /// `innkeeper/listApprovals`: the rules of the host, of workspaces, and of one session or all sessions in memory.
    List {
        /// The session; absent means all that are in memory.
        session: Option<String>,
    },
    /// `innkeeper/allowApproval`.
    Allow {
        /// Where it is to hold.
        target: ApprovalTarget,
        /// The rule.
        rule: String,
    },
    /// `innkeeper/revokeApproval`.
    Revoke {
        /// Where it holds.
        target: ApprovalTarget,
        /// The rule; absent means all of them.
        rule: Option<String>,
    },
}

/// Where an approval holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApprovalTarget {
    /// In a session, by its URI.
    Session(String),
    /// In the sessions of a working directory, by its URI.
    Workspace(String),
    /// In all sessions.
    Everywhere,
}

impl ApprovalCommand {
    /// The session that it is about.
    pub fn session(&self) -> Option<&str> {
        match self {
            Self::List { session } => session.as_deref(),
            Self::Allow { target, .. } | Self::Revoke { target, .. } => match target {
                ApprovalTarget::Session(session) => Some(session),
                ApprovalTarget::Workspace(_) | ApprovalTarget::Everywhere => None,
            },
        }
    }
}

impl Host {
    /// Lists, adds and revokes approvals.
    pub(crate) fn approval_command(&mut self, cx: &mut Cx<'_>, command: ApprovalCommand) -> Result<Value, RpcError> {
        match command {
            ApprovalCommand::List { session } => self.list_approvals(session.as_deref()),
            ApprovalCommand::Allow { target, rule } => {
                Rule::parse(&rule).map_err(|problem| RpcError::invalid_params("rule", problem))?;
                let target = self.rules_at(&target)?;
                let mut rules = self.rules(&target);
                if rules.len() >= MAX_RULES as usize && !rules.contains(&rule) {
                    let problem = format!("there are {MAX_RULES} rules already; revoke some first");
                    return Err(RpcError::invalid_params("rule", problem));
                }
                if rules.insert(rule) {
                    self.set_rules(cx, &target, rules);
                }
                Ok(json!({}))
            }
            ApprovalCommand::Revoke { target, rule } => {
                let target = self.rules_at(&target)?;
                let is_meant = |known: &String| rule.as_ref().is_none_or(|rule| rule == known);
                let (revoked, rules): (BTreeSet<String>, BTreeSet<String>) =
                    self.rules(&target).into_iter().partition(is_meant);
                let mut count = revoked.len();
                if !revoked.is_empty() {
                    self.set_rules(cx, &target, rules);
                }
                if let Rules::Workspace(directory) = &target
                    && let Some(outdated) = self.approvals.outdated.get_mut(directory)
                {
                    let before = outdated.len();
                    outdated.retain(|known| !is_meant(known));
                    count += before - outdated.len();
                    if outdated.is_empty() {
                        self.approvals.outdated.remove(directory);
                    }
                    self.mark_dirty(ROOT);
                }
                if let Rules::Session(session) = &target {
                    count += self.forget_dropped(cx, *session, is_meant);
                }
                Ok(json!({ "revoked": count }))
            }
        }
    }

    /// Removes approvals of earlier versions from the report in a session. Returns how many.
    fn forget_dropped(&mut self, cx: &mut Cx<'_>, session_id: ChannelId, is_meant: impl Fn(&String) -> bool) -> usize {
        let meta = self
            .sessions
            .get(&session_id)
            .and_then(|session| session.state.meta.clone());
        let Some(mut meta) = meta.filter(|meta| meta.contains_key(DROPPED)) else {
            return 0;
        };
        let dropped = meta.remove(DROPPED).map(|list| texts(&list)).unwrap_or_default();
        let (forgotten, rest): (BTreeSet<String>, BTreeSet<String>) = dropped.into_iter().partition(is_meant);
        if forgotten.is_empty() {
            return 0;
        }
        if !rest.is_empty() {
            meta.insert(DROPPED.to_owned(), json!(rest));
        }
        let action = SessionMetaChangedAction {
            meta: (!meta.is_empty()).then_some(meta),
        };
        self.commit(cx, session_id, StateAction::SessionMetaChanged(action), None);
        forgotten.len()
    }

    fn rules_at(&self, target: &ApprovalTarget) -> Result<Rules, RpcError> {
        match target {
            ApprovalTarget::Session(uri) => self.session_named(uri).map(Rules::Session),
            ApprovalTarget::Workspace(directory) => Ok(Rules::Workspace(directory.clone())),
            ApprovalTarget::Everywhere => Ok(Rules::Everywhere),
        }
    }

    fn session_named(&self, uri: &str) -> Result<ChannelId, RpcError> {
        let session = self.channels.find(uri).filter(|id| self.sessions.contains_key(id));
        session.ok_or_else(|| RpcError::session_not_found(uri))
    }

    fn list_approvals(&self, session: Option<&str>) -> Result<Value, RpcError> {
        let mut shown: Vec<ChannelId> = match session {
            Some(uri) => vec![self.session_named(uri)?],
            None => self.sessions.keys().copied().collect(),
        };
        shown.sort_unstable();
        let mut sessions = Vec::new();
        for session in shown.iter().filter_map(|id| self.sessions.get(id)) {
            let rules = listed(session, SESSION);
            let values = session.state.config.as_ref().map(|config| &config.values);
            let allows_all = values.is_some_and(approval_mode::allows_all);
            let dropped = session.state.meta.as_ref().and_then(|meta| meta.get(DROPPED));
            sessions.push(json!({
                "session": &*session.uri,
                "title": session.state.title,
                "allowsEverything": allows_all,
                "rules": rules,
                "dropped": dropped.cloned().unwrap_or_else(|| json!([])),
            }));
        }
        let directories = self.approvals.workspaces.keys().chain(self.approvals.outdated.keys());
        let directories: BTreeSet<&String> = directories.collect();
        let workspaces: Vec<Value> = directories
            .into_iter()
            .map(|directory| {
                let mut workspace = Map::new();
                workspace.insert("directory".to_owned(), json!(directory));
                workspace.insert(
                    "rules".to_owned(),
                    json!(self.approvals.workspaces.get(directory).cloned().unwrap_or_default()),
                );
                workspace.insert(
                    "dropped".to_owned(),
                    json!(self.approvals.outdated.get(directory).cloned().unwrap_or_default()),
                );
                Value::Object(workspace)
            })
            .collect();
        Ok(json!({
            "everywhere": self.approvals.everywhere,
            "workspaces": workspaces,
            "sessions": sessions,
        }))
    }
}
