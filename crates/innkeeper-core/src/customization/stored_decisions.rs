//! Enablement decisions for workspaces and for everywhere, for readers without a session.

use std::collections::BTreeSet;
use std::sync::Arc;

use ahp_types::state::{Customization, CustomizationEnablement};

use super::decisions::{Enablement, EnablementStore};
use super::enablement::EnablementView;
use super::shadows::{Shadows, mark_shadowed};
use crate::storage::records::{StoredRoot, restore_enablement};

/// The decisions that hold beyond one session, as a host persists them.
#[derive(Debug, Clone, Default)]
pub struct StoredEnablement(Arc<EnablementStore>);

impl StoredEnablement {
    /// Takes them out of the host's own state.
    ///
    /// # Errors
    ///
    /// In a sentence, when it cannot be read.
    pub fn of(host: &StoredRoot) -> Result<Self, String> {
        restore_enablement(host).map(Self)
    }

    /// Shows in what a new session would get what was decided about it. `directory` is the URI of where the
    /// session would work; `shadows` is what stands back behind something else.
    pub fn show(&self, directory: &str, entries: &mut [Customization], shadows: &Shadows) {
        let scopes = EnablementView::of_new(directory, &self.0);
        for entry in &mut *entries {
            scopes.switch(entry);
        }
        mark_shadowed(entries, shadows, &BTreeSet::new());
    }

    /// The decision about something that would count in a new session.
    pub fn decision(&self, directory: &str, id: &str) -> Option<CustomizationEnablement> {
        let workspace = self.0.workspace(directory).and_then(|decisions| decisions.get(id));
        let decided = Enablement {
            session: None,
            workspace,
            global: self.0.global().get(id),
        };
        decided.shown(Some(directory))?.into_iter().next()
    }
}
