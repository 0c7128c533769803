//! Customizations that another one of the same name, or the same file in another directory, shadows.
//!
//! Discovery reports precedence; the core knows enablement. The mark on an entry follows both: it names the first
//! enabled entry that precedes it, and is removed when all of them are disabled.

use std::collections::{BTreeMap, BTreeSet};

use ahp_types::actions::{SessionCustomizationUpdatedAction, StateAction};
use ahp_types::common::JsonObject;
use ahp_types::state::{ChildCustomization, Customization};
use serde_json::Value;

use super::disabled_ids;
use super::enablement::add_off;
use super::entry::{child_id, children_mut, children_of};
use crate::core::{Cx, Host, never};
use crate::ids::ChannelId;

/// In `_meta`: the id of the customization that is used instead.
pub const SHADOWED_BY: &str = "innkeeper.shadowedBy";

/// By the id of a customization, the ids of those that come before it, in the order in which they win.
pub type Shadows = BTreeMap<String, Vec<String>>;

/// Marks the children of a list that are not used, and removes marks that do not hold any more.
pub(super) fn mark_shadowed(list: &mut [Customization], shadows: &Shadows, left_out: &BTreeSet<String>) {
    if shadows.is_empty() {
        return;
    }
    let mut off = left_out.clone();
    for entry in &*list {
        add_off(entry, &mut off);
    }
    for child in list.iter_mut().filter_map(children_mut).flatten() {
        mark_child(child, shadows, &off);
    }
}

fn mark_child(child: &mut ChildCustomization, shadows: &Shadows, off: &BTreeSet<String>) {
    // Most customizations come first under their name.
    let Some(before) = child_id(child).and_then(|id| shadows.get(id)) else {
        return;
    };
    let winner = before.iter().find(|id| !off.contains(*id));
    // Hooks and MCP servers are all used, so they have no mark.
    let Some(meta) = meta_mut(child) else { return };
    match winner {
        Some(winner) => {
            let mark = Value::String(winner.clone());
            meta.get_or_insert_default().insert(SHADOWED_BY.to_owned(), mark);
        }
        None => {
            if let Some(entries) = meta.as_mut() {
                entries.remove(SHADOWED_BY);
            }
            meta.take_if(|entries| entries.is_empty());
        }
    }
}

fn meta_mut(child: &mut ChildCustomization) -> Option<&mut Option<JsonObject>> {
    match child {
        ChildCustomization::Agent(agent) => Some(&mut agent.meta),
        ChildCustomization::Skill(skill) => Some(&mut skill.meta),
        ChildCustomization::Prompt(prompt) => Some(&mut prompt.meta),
        ChildCustomization::Rule(rule) => Some(&mut rule.meta),
        ChildCustomization::Hook(_) | ChildCustomization::McpServer(_) | ChildCustomization::Unknown(_) => None,
    }
}

impl Host {
    /// Publishes the entries of a session whose marks differ since something was switched.
    pub(super) fn mark_shadowed_again(&mut self, cx: &mut Cx<'_>, session_id: ChannelId) {
        let Some(session) = self.sessions.get(&session_id) else {
            return never!("the session is in memory");
        };
        let shadows = &session.customization.shadows;
        if shadows.is_empty() {
            return;
        }
        let off = disabled_ids(session);
        let has_shadowed = |entry: &&Customization| {
            let mut ids = children_of(entry).iter().filter_map(child_id);
            ids.any(|id| shadows.contains_key(id))
        };
        let entries = session.state.customizations.iter().flatten().filter(has_shadowed);
        let different = entries.filter_map(|entry| {
            let mut marked = entry.clone();
            for child in children_mut(&mut marked).into_iter().flatten() {
                mark_child(child, shadows, &off);
            }
            (marked != *entry).then_some(marked)
        });
        let different: Vec<Customization> = different.collect();
        for customization in different {
            let action = SessionCustomizationUpdatedAction { customization };
            let action = StateAction::SessionCustomizationUpdated(Box::new(action));
            self.commit(cx, session_id, action, None);
        }
    }
}
