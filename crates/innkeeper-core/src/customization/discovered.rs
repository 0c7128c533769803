//! Compares discovered customizations with the published ones, and publishes the difference.
//!
//! A container is sent whole (CUS-19), so exactly the changed ones are sent. The comparison reads every entry once.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use ahp_types::actions::{
    SessionCustomizationRemovedAction, SessionCustomizationUpdatedAction, SessionCustomizationsChangedAction,
    StateAction,
};
use ahp_types::state::{ChildCustomization, Customization, SessionActiveClient};

use super::enablement::EnablementView;
use super::entry::{child_id, children_mut, children_of, client_of, id_of, take_over_child, take_over_server};
use super::limits::fit;
use super::shadows::{Shadows, mark_shadowed};
use crate::core::{Cx, Host, never};
use crate::ids::ChannelId;

/// Up to this many changes are published one by one, even if nothing else remains.
const FEW: usize = 8;

impl Host {
    /// Publishes what was found.
    pub(crate) fn customizations_found(
        &mut self,
        cx: &mut Cx<'_>,
        session_id: ChannelId,
        mut entries: Vec<Customization>,
        shadows: Shadows,
    ) {
        if !self.follows_customizations() {
            return;
        }
        let Some(session) = self.sessions.get_mut(&session_id) else {
            return never!("the session is in memory");
        };
        let mut left_out = drop_unusable(&mut entries, &session.state.active_clients);
        left_out.extend(fit(&mut entries, &self.config));
        let is_alive = std::mem::replace(&mut session.customization.is_known, true);
        session.customization.left_out = left_out;
        session.customization.shadows = Arc::new(shadows);
        session.customization.off.take();
        let shown = session.state.customizations.as_deref();
        take_over(&mut entries, shown.unwrap_or_default(), is_alive);
        let scopes = EnablementView::of(session, &self.enablement.store);
        for entry in &mut entries {
            scopes.switch(entry);
        }
        let customization = &session.customization;
        mark_shadowed(&mut entries, &customization.shadows, &customization.left_out);
        if entries.is_empty() && shown.is_none() {
            return;
        }
        self.show_customizations(cx, session_id, entries);
    }

    /// Publishes the customizations that are still being read. A session that shows a persisted list continues to
    /// show it: it would lose its children and get them back a moment later.
    pub(crate) fn customizations_announced(
        &mut self,
        cx: &mut Cx<'_>,
        session_id: ChannelId,
        mut entries: Vec<Customization>,
    ) {
        if !self.follows_customizations() {
            return;
        }
        let Some(session) = self.sessions.get_mut(&session_id) else {
            return never!("the session is in memory");
        };
        let customization = &mut session.customization;
        let has_something = session
            .state
            .customizations
            .as_ref()
            .is_some_and(|shown| !shown.is_empty());
        if customization.is_known || (has_something && !customization.is_announced) {
            return;
        }
        drop_unusable(&mut entries, &session.state.active_clients);
        fit(&mut entries, &self.config);
        if entries.is_empty() {
            return;
        }
        session.customization.is_announced = true;
        let scopes = EnablementView::of(session, &self.enablement.store);
        for entry in &mut entries {
            scopes.switch(entry);
        }
        self.show_customizations(cx, session_id, entries);
    }

    /// Publishes the difference between what a session shows and what it is to show.
    pub(super) fn show_customizations(&mut self, cx: &mut Cx<'_>, session_id: ChannelId, list: Vec<Customization>) {
        let Some(session) = self.sessions.get(&session_id) else {
            return never!("the session is in memory");
        };
        match difference(session.state.customizations.as_deref(), &list) {
            Difference::Everything => {
                let action = SessionCustomizationsChangedAction { customizations: list };
                let action = StateAction::SessionCustomizationsChanged(action);
                self.commit(cx, session_id, action, None);
            }
            Difference::Some { removed, updated } => {
                for id in removed {
                    let action = SessionCustomizationRemovedAction { id };
                    let action = StateAction::SessionCustomizationRemoved(action);
                    self.commit(cx, session_id, action, None);
                }
                let updated = list
                    .into_iter()
                    .enumerate()
                    .filter(|(index, _)| updated.contains(index));
                for (_, customization) in updated {
                    let action = SessionCustomizationUpdatedAction { customization };
                    let action = StateAction::SessionCustomizationUpdated(Box::new(action));
                    self.commit(cx, session_id, action, None);
                }
            }
        }
    }
}

/// Removes entries without an id, with a duplicate id, or of an absent client. Returns the removed ids.
fn drop_unusable(entries: &mut Vec<Customization>, clients: &[SessionActiveClient]) -> BTreeSet<String> {
    let mut left_out = BTreeSet::new();
    let mut ids = HashSet::new();
    entries.retain(|entry| {
        let is_here = |id: &str| clients.iter().any(|client| client.client_id == id);
        let has_left = !client_of(entry).is_none_or(is_here);
        let is_named = !has_left && id_of(entry).is_some_and(|id| ids.insert(id.to_owned()));
        if !is_named {
            left_out.extend(id_of(entry).filter(|_| has_left).map(str::to_owned));
            left_out.extend(children_of(entry).iter().filter_map(child_id).map(str::to_owned));
        }
        is_named
    });
    left_out
}

/// Carries the published state over to rescanned entries (P19).
fn take_over(entries: &mut [Customization], shown: &[Customization], is_alive: bool) {
    let shown: HashMap<&str, &Customization> = shown.iter().filter_map(|entry| Some((id_of(entry)?, entry))).collect();
    for entry in entries {
        let Some(shown) = id_of(entry).and_then(|id| shown.get(id)) else {
            continue;
        };
        if let (Customization::McpServer(server), Customization::McpServer(shown), true) =
            (&mut *entry, shown, is_alive)
        {
            take_over_server(server, shown);
        }
        let before = children_of(shown).iter();
        let before: HashMap<&str, &ChildCustomization> =
            before.filter_map(|child| Some((child_id(child)?, child))).collect();
        for child in children_mut(entry).into_iter().flatten() {
            if let Some(shown) = child_id(child).and_then(|id| before.get(id)) {
                take_over_child(child, shown, is_alive);
            }
        }
    }
}

/// The difference to publish.
enum Difference {
    /// The whole list: nothing was shown, the order changed, or most of it changed.
    Everything,
    /// These ids were removed, and the entries at these indexes are new or different.
    Some {
        removed: Vec<String>,
        updated: HashSet<usize>,
    },
}

fn difference(shown: Option<&[Customization]>, list: &[Customization]) -> Difference {
    let Some(shown) = shown else {
        return Difference::Everything;
    };
    let ids: HashSet<&str> = list.iter().filter_map(id_of).collect();
    let known: HashMap<&str, &Customization> = shown.iter().filter_map(|entry| Some((id_of(entry)?, entry))).collect();
    let (stays, goes): (Vec<&str>, Vec<&str>) = shown.iter().filter_map(id_of).partition(|id| ids.contains(id));
    let is_different = |entry: &Customization| id_of(entry).and_then(|id| known.get(id)) != Some(&entry);
    let places = list.iter().enumerate();
    let updated: HashSet<usize> = places
        .filter(|(_, entry)| is_different(entry))
        .map(|(index, _)| index)
        .collect();
    // New entries go to the end, in the order in which they are published.
    let new = list.iter().filter_map(id_of).filter(|id| !known.contains_key(id));
    let would_be = stays.into_iter().chain(new);
    let changes = goes.len() + updated.len();
    let is_most = changes > FEW && changes * 2 > list.len().max(shown.len());
    if is_most || !would_be.eq(list.iter().filter_map(id_of)) {
        return Difference::Everything;
    }
    Difference::Some {
        removed: goes.into_iter().map(str::to_owned).collect(),
        updated,
    }
}
