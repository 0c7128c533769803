//! The customizations that a session would get, for users and programs that ask without a session.

use std::sync::Arc;

use ahp_types::state::Customization;
use innkeeper_host::customizations::{NoHooks, Shadows};

use crate::discovered::Discovered;
use crate::{follow, set};

/// Discovered customizations as clients would see them, and those that are shadowed.
#[derive(Debug)]
pub struct Shown {
    /// In the words of the protocol, with nothing switched.
    pub entries: Vec<Customization>,
    /// Which of it stands back behind something else of its name, while that is on.
    pub shadows: Shadows,
}

impl Discovered {
    /// As a session would show it. Looks at files, to find out which of them are one and the same.
    pub fn show(&self) -> Shown {
        let kit = set::build(self, Arc::new(NoHooks));
        Shown {
            entries: follow::entries(self),
            shadows: kit.shadows,
        }
    }
}
