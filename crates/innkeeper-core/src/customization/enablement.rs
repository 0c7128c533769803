//! Computes the effective enablement of each customization from what was discovered and what users decided.

use std::collections::BTreeSet;

use ahp_types::actions::{SessionCustomizationUpdatedAction, StateAction};
use ahp_types::state::{ClientPluginCustomization, Customization, SessionActiveClient};

use super::decisions::{Decisions, Enablement, EnablementStore};
use super::entry::{
    CustomizationRef, at_first, child_id, child_name, child_switch, children_mut, children_of, client_of, id_of,
    is_child_on, is_on, switch_of,
};
use super::published::show_published;
use super::shadows::mark_shadowed;
use crate::core::{Cx, Host, never};
use crate::ids::ChannelId;
use crate::session::Session;

/// Everything that decides what is on in a session.
#[derive(Debug, Clone, Copy)]
pub(super) struct EnablementView<'a> {
    session: &'a Decisions,
    /// Its primary working directory (CUS-09).
    pub(super) directory: Option<&'a str>,
    workspace: Option<&'a Decisions>,
    global: &'a Decisions,
    /// Their own plugins are for active clients to decide about, as far as everywhere goes (CUS-16).
    clients: &'a [SessionActiveClient],
}

impl<'a> EnablementView<'a> {
    pub(super) fn of(session: &'a Session, enablement: &'a EnablementStore) -> Self {
        let directories = session.state.working_directories.as_ref();
        let directory = directories.and_then(|all| all.first()).map(String::as_str);
        Self {
            session: &session.customization.decisions,
            directory,
            workspace: directory.and_then(|directory| enablement.workspace(directory)),
            global: enablement.global(),
            clients: &session.state.active_clients,
        }
    }

    /// The view of a session that does not exist yet: it has no decisions of its own.
    pub(super) fn of_new(directory: &'a str, enablement: &'a EnablementStore) -> Self {
        static NONE: Decisions = Decisions::none();
        Self {
            session: &NONE,
            directory: Some(directory),
            workspace: enablement.workspace(directory),
            global: enablement.global(),
            clients: &[],
        }
    }

    /// The view for customizations that every session gets.
    pub(super) fn of_host(enablement: &'a EnablementStore) -> Self {
        static NONE: Decisions = Decisions::none();
        Self {
            session: &NONE,
            directory: None,
            workspace: None,
            global: enablement.global(),
            clients: &[],
        }
    }

    /// All stored decisions about an id.
    pub(super) fn known(&self, id: &str) -> Enablement {
        Enablement {
            session: self.session.get(id),
            workspace: self.workspace.and_then(|decisions| decisions.get(id)),
            global: self.global.get(id),
        }
    }

    /// All decisions about an id, including the one that its client published.
    fn resolve(&self, id: &str, asserted: Option<bool>) -> Enablement {
        let known = self.known(id);
        Enablement {
            global: asserted.or(known.global),
            ..known
        }
    }

    /// The same for an entry. If the configuration of the host disables it, that counts as a decision for everywhere
    /// until a user decides otherwise.
    fn resolve_entry(&self, id: &str, entry: &Customization) -> Enablement {
        let mut decided = self.resolve(id, self.published(entry).and_then(asserted));
        decided.global = decided.global.or_else(|| at_first(entry));
        decided
    }

    /// A plugin as the client published it that it comes from.
    fn published(&self, entry: &Customization) -> Option<&'a ClientPluginCustomization> {
        let Customization::Plugin(plugin) = entry else {
            return None;
        };
        let id = plugin.client_id.as_ref()?;
        let client = self.clients.iter().find(|client| client.client_id == *id)?;
        let mut published = client.customizations.iter().flatten();
        published.find(|published| published.uri == plugin.uri)
    }

    /// Every decision about an entry or a child.
    pub(super) fn decided(&self, id: &str, place: CustomizationRef<'_>) -> Enablement {
        let Some(child) = place.child else {
            return self.resolve_entry(id, place.entry);
        };
        let published = self.published(place.entry);
        self.resolve(
            id,
            published.and_then(|published| asserted_child(published, child_name(child)?)),
        )
    }

    /// Shows in an entry and everything in it what was decided about it.
    pub(super) fn switch(&self, entry: &mut Customization) {
        let published = self.published(entry);
        if let Some(published) = published {
            show_published(entry, published);
        }
        let decided = id_of(entry).map(|id| self.resolve_entry(id, entry));
        if let (Some(decided), Some(switch)) = (decided, switch_of(entry)) {
            switch.show(&decided, self.directory);
        }
        for child in children_mut(entry).into_iter().flatten() {
            let asserted = published.and_then(|published| asserted_child(published, child_name(child)?));
            let decided = child_id(child).map(|id| self.resolve(id, asserted));
            if let (Some(decided), Some(switch)) = (decided, child_switch(child)) {
                switch.show(&decided, self.directory);
            }
        }
    }
}

/// The enablement for everywhere that a client published for its plugin.
fn asserted(published: &ClientPluginCustomization) -> Option<bool> {
    Enablement::from(published.enablement.as_deref().unwrap_or_default()).global
}

/// The enablement that it published for a child (CUS-17).
fn asserted_child(published: &ClientPluginCustomization, name: &str) -> Option<bool> {
    let decisions = published.child_enablement.as_ref()?.get(name)?;
    Enablement::from(decisions.as_slice()).global
}

/// Adds the ids that are disabled, also with their container (CUS-11).
pub(super) fn add_off(entry: &Customization, off: &mut BTreeSet<String>) {
    let is_off = !is_on(entry);
    if is_off {
        off.extend(id_of(entry).map(str::to_owned));
    }
    for child in children_of(entry) {
        if is_off || !is_child_on(child) {
            off.extend(child_id(child).map(str::to_owned));
        }
    }
}

impl Host {
    /// Applies global enablement decisions to a host-wide entry.
    pub(crate) fn apply_host_enablement(&self, entry: &mut Customization) {
        EnablementView::of_host(&self.enablement.store).switch(entry);
    }

    /// Shows a session what was decided about its customizations, because other decisions hold in
    /// it now.
    pub(super) fn republish_enablement(&mut self, cx: &mut Cx<'_>, session_id: ChannelId) {
        let Some(session) = self.sessions.get(&session_id) else {
            return never!("the session is in memory");
        };
        // A session without customizations shows no list.
        let Some(mut list) = session.state.customizations.clone() else {
            return;
        };
        let scopes = EnablementView::of(session, &self.enablement.store);
        for entry in &mut list {
            scopes.switch(entry);
        }
        mark_shadowed(
            &mut list,
            &session.customization.shadows,
            &session.customization.left_out,
        );
        self.show_customizations(cx, session_id, list);
    }

    /// Shows the decisions of a client about its own plugins. Other entries are skipped, because clients publish
    /// often.
    pub(super) fn republish_client_enablement(&mut self, cx: &mut Cx<'_>, session_id: ChannelId, client: &str) {
        let Some(session) = self.sessions.get(&session_id) else {
            return never!("the session is in memory");
        };
        let scopes = EnablementView::of(session, &self.enablement.store);
        let shown = session.state.customizations.iter().flatten();
        let its_own = shown.filter(|entry| client_of(entry) == Some(client));
        let different = its_own.filter_map(|entry| {
            let mut switched = entry.clone();
            scopes.switch(&mut switched);
            (switched != *entry).then_some(switched)
        });
        let different: Vec<Customization> = different.collect();
        for customization in different {
            let action = SessionCustomizationUpdatedAction { customization };
            let action = StateAction::SessionCustomizationUpdated(Box::new(action));
            self.commit(cx, session_id, action, None);
        }
        self.mark_shadowed_again(cx, session_id);
    }
}
