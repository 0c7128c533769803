//! What a session would get, for people and programs that ask without a session.

use std::collections::HashMap;
use std::sync::Arc;

use ahp_types::state::Customization;
use innkeeper_host::customizations::NoHooks;

use crate::brought::Brought;
use crate::{follow, kit};

/// What was found, as clients would see it, and what is not used.
#[derive(Debug)]
pub struct Shown {
    /// In the words of the protocol, with nothing switched.
    pub entries: Vec<Customization>,
    /// By the id of a customization, that of the one that is used when people say its bare name.
    pub shadowed: HashMap<String, String>,
}

impl Brought {
    /// As a session would show it. Looks at files, to find out which of them are one and the same.
    pub fn show(&self) -> Shown {
        let made = kit::make(self, Arc::new(NoHooks));
        Shown {
            entries: follow::entries(self, &made),
            shadowed: made.shadowed,
        }
    }
}
