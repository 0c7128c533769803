//! Enablement decisions for workspaces and for everywhere, for readers without a session.

use std::collections::BTreeSet;
use std::sync::Arc;

use ahp_types::state::{Customization, CustomizationEnablement};

use super::decisions::{Enablement, EnablementStore};
use super::enablement::EnablementView;
use super::shadows::{Shadows, mark_shadowed};
use crate::storage::records::{StoredRoot, restore_enablement};

impl EnablementStore {
    /// Reads the decisions of the host's persisted state.
    ///
    /// # Errors
    ///
    /// A sentence, if the state cannot be read.
    pub fn of(host: &StoredRoot) -> Result<Self, String> {
        restore_enablement(host).map(Arc::unwrap_or_clone)
    }

    /// Applies the decisions to the customizations that a new session would get. `directory` is the URI of the
    /// session's working directory; `shadows` are the customizations that others of their name shadow.
    pub fn show(&self, directory: &str, entries: &mut [Customization], shadows: &Shadows) {
        let scopes = EnablementView::of_new(directory, self);
        for entry in &mut *entries {
            scopes.switch(entry);
        }
        mark_shadowed(entries, shadows, &BTreeSet::new());
    }

    /// Returns the decision about a customization that would count in a new session.
    pub fn decision(&self, directory: &str, id: &str) -> Option<CustomizationEnablement> {
        let workspace = self.workspace(directory).and_then(|decisions| decisions.get(id));
        let decided = Enablement {
            session: None,
            workspace,
            global: self.global().get(id),
        };
        decided.shown(Some(directory))?.into_iter().next()
    }
}
