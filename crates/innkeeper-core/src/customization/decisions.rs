//! Enablement decisions of users: in one session, in a workspace, and everywhere.
//!
//! Decisions refer to ids, which are the same over rescans and restarts (P18), and outlive their customizations: a
//! plugin that is removed and comes back is enabled as before. A session persists its decisions with its document,
//! the host persists the others with its own.

use std::collections::{BTreeMap, HashSet};

use ahp_types::actions::{SessionCustomizationToggledAction, StateAction};
use ahp_types::state::{Customization, CustomizationEnablement};
use serde::{Deserialize, Deserializer, Serialize};

use super::entry::find;
use super::workspaces::key;
use crate::core::never;

/// Most decisions of one session; beyond it the one that is missed least is forgotten.
const MAX_IN_SESSION: usize = 4096;
/// Most decisions for workspaces and for everywhere, together.
const MAX_SHARED: usize = 8192;

/// Decisions of one scope, by the ids of what they are about.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Decisions(BTreeMap<String, Decision>);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Decision {
    enabled: bool,
    /// Tells older ones from newer ones.
    age: u64,
}

impl Decisions {
    pub(super) const fn none() -> Self {
        Self(BTreeMap::new())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn get(&self, id: &str) -> Option<bool> {
        self.0.get(id).map(|decision| decision.enabled)
    }

    /// Takes a decision about something, or takes it back.
    fn set(&mut self, id: &str, enabled: Option<bool>, age: u64) {
        match enabled {
            Some(enabled) => {
                self.0.insert(id.to_owned(), Decision { enabled, age });
            }
            None => {
                self.0.remove(id);
            }
        }
    }

    fn newest(&self) -> u64 {
        self.0.values().map(|decision| decision.age).max().unwrap_or_default()
    }

    /// The decision that matters least, except those of the newest age: first one about something unused, then one
    /// that enables, because everything is on by default; of those the oldest.
    fn least(&self, used: &HashSet<&str>, newest: u64) -> Option<((bool, bool, u64), &String)> {
        let old = self.0.iter().filter(|(_, decision)| decision.age != newest);
        old.map(|(id, decision)| ((used.contains(id.as_str()), !decision.enabled, decision.age), id))
            .min()
    }

    /// Takes a decision in a session. `used` says what the session has, if that is of interest.
    pub(super) fn decide<'a>(&mut self, id: &str, enabled: Option<bool>, used: impl FnOnce() -> HashSet<&'a str>) {
        let age = self.newest() + 1;
        self.set(id, enabled, age);
        if self.0.len() > MAX_IN_SESSION
            && let Some(least) = self.least(&used(), age).map(|(_, id)| id.clone())
        {
            self.0.remove(&least);
        }
    }

    /// Updates a session's decisions with an action that was persisted after them, while the session had this list.
    pub(crate) fn follow(&mut self, action: &StateAction, list: &[Customization]) {
        if let StateAction::SessionCustomizationToggled(SessionCustomizationToggledAction { id, enablement }) = action
            && let Some(place) = find(list, id)
        {
            let known = Enablement {
                session: self.get(id),
                ..Enablement::default()
            };
            let decided = known.after(enablement, place.shows_decisions());
            self.decide(id, decided.session, HashSet::new);
        }
    }
}

/// The decisions that hold beyond one session, for workspaces and for everywhere. Persisted with the host's own state.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EnablementStore {
    global: Decisions,
    /// By the URI of the primary working directory, in the one spelling that stands for all.
    #[serde(deserialize_with = "read_workspaces")]
    workspaces: BTreeMap<String, Decisions>,
}

/// Reads the decisions of workspaces, which earlier versions persisted under the spelling of each URI. Of two
/// decisions about the same id the newer one counts.
fn read_workspaces<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, Decisions>, D::Error> {
    let kept = BTreeMap::<String, Decisions>::deserialize(deserializer)?;
    let mut workspaces: BTreeMap<String, Decisions> = BTreeMap::new();
    for (directory, decisions) in kept {
        let known = workspaces.entry(key(&directory).into_owned()).or_default();
        for (id, decision) in decisions.0 {
            if known.0.get(&id).is_none_or(|known| known.age < decision.age) {
                known.0.insert(id, decision);
            }
        }
    }
    Ok(workspaces)
}

impl EnablementStore {
    pub(super) fn global(&self) -> &Decisions {
        &self.global
    }

    pub(super) fn workspace(&self, directory: &str) -> Option<&Decisions> {
        self.workspaces.get(&*key(directory))
    }

    /// Takes both decisions about something; says which of them are different now.
    pub(super) fn decide<'a>(
        &mut self,
        id: &str,
        decided: &Enablement,
        directory: Option<&str>,
        used: impl FnOnce() -> HashSet<&'a str>,
    ) -> Changed {
        let ages = self.workspaces.values().chain([&self.global]).map(Decisions::newest);
        let age = ages.max().unwrap_or_default() + 1;
        let mut changed = Changed {
            workspace: false,
            global: self.global.get(id) != decided.global,
        };
        if changed.global {
            self.global.set(id, decided.global, age);
        }
        if let Some(directory) = directory.map(key) {
            let directory = &*directory;
            let known = self.workspaces.get(directory).and_then(|known| known.get(id));
            changed.workspace = known != decided.workspace;
            if changed.workspace {
                let known = self.workspaces.entry(directory.to_owned()).or_default();
                known.set(id, decided.workspace, age);
                if known.is_empty() {
                    self.workspaces.remove(directory);
                }
            }
        }
        if changed.any() {
            self.forget_least(used, age);
        }
        changed
    }

    fn count(&self) -> usize {
        let all = self.workspaces.values().chain([&self.global]);
        all.map(|some| some.0.len()).sum()
    }

    /// Forgets decisions above the limit. One toggle adds two decisions at most, so the loop is short.
    fn forget_least<'a>(&mut self, used: impl FnOnce() -> HashSet<&'a str>, newest: u64) {
        if self.count() <= MAX_SHARED {
            return;
        }
        let used = used();
        while self.count() > MAX_SHARED {
            let of_global = self.global.least(&used, newest).map(|(least, id)| (least, None, id));
            let workspaces = self.workspaces.iter();
            let of_workspaces = workspaces.filter_map(|(directory, some)| {
                let (least, id) = some.least(&used, newest)?;
                Some((least, Some(directory), id))
            });
            let least = of_workspaces.chain(of_global).min();
            let Some((directory, id)) = least.map(|(_, directory, id)| (directory.cloned(), id.clone())) else {
                return never!("one decision among many is the least");
            };
            self.forget(directory.as_deref(), &id);
        }
    }

    fn forget(&mut self, directory: Option<&str>, id: &str) {
        let Some(directory) = directory else {
            return self.global.set(id, None, 0);
        };
        if let Some(some) = self.workspaces.get_mut(directory) {
            some.set(id, None, 0);
            if some.is_empty() {
                self.workspaces.remove(directory);
            }
        }
    }
}

/// Which shared decisions are different.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Changed {
    pub(super) workspace: bool,
    pub(super) global: bool,
}

impl Changed {
    pub(super) fn any(self) -> bool {
        self.workspace || self.global
    }
}

/// Every decision about one thing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Enablement {
    pub(super) session: Option<bool>,
    pub(super) workspace: Option<bool>,
    pub(super) global: Option<bool>,
}

impl Enablement {
    /// The most specific decision decides, and without any it is on (CUS-10).
    pub(super) fn is_on(&self) -> bool {
        self.session.unwrap_or_else(|| self.is_on_elsewhere())
    }

    /// Whether it is enabled in a session without a decision of its own.
    pub(super) fn is_on_elsewhere(&self) -> bool {
        self.workspace.or(self.global).unwrap_or(true)
    }

    /// The decisions after a client sent this list. If the entry shows every decision, all of them are replaced
    /// (CUS-12). If it only shows whether it is on, a client cannot repeat the decisions that it does not see, so
    /// those that it does not name stay (E-31); an empty list removes all.
    pub(super) fn after(&self, sent: &[CustomizationEnablement], shows_decisions: bool) -> Self {
        let named = Self::from(sent);
        if shows_decisions || sent.is_empty() {
            return named;
        }
        Self {
            session: named.session.or(self.session),
            workspace: named.workspace.or(self.workspace),
            global: named.global.or(self.global),
        }
    }

    /// As clients see it: the most specific first (CUS-08), and nothing where nothing was decided.
    pub(super) fn shown(&self, directory: Option<&str>) -> Option<Vec<CustomizationEnablement>> {
        let session = self.session.map(|enabled| CustomizationEnablement::Session { enabled });
        let workspace = self.workspace.zip(directory);
        let workspace = workspace.map(|(enabled, uri)| CustomizationEnablement::Workspace {
            uri: uri.to_owned(),
            enabled,
        });
        let global = self.global.map(|enabled| CustomizationEnablement::Global { enabled });
        let shown: Vec<_> = session.into_iter().chain(workspace).chain(global).collect();
        (!shown.is_empty()).then_some(shown)
    }
}

/// The list of a client, in any order; of two decisions for one scope the first counts, as for every reader.
impl From<&[CustomizationEnablement]> for Enablement {
    fn from(sent: &[CustomizationEnablement]) -> Self {
        let mut decided = Self::default();
        for decision in sent {
            let (scope, enabled) = match decision {
                CustomizationEnablement::Session { enabled } => (&mut decided.session, *enabled),
                CustomizationEnablement::Workspace { enabled, .. } => (&mut decided.workspace, *enabled),
                CustomizationEnablement::Global { enabled } => (&mut decided.global, *enabled),
                CustomizationEnablement::Unknown(_) => continue,
            };
            scope.get_or_insert(enabled);
        }
        decided
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decisions_in_a_session_are_bounded_and_the_latest_are_retained() {
        let mut decisions = Decisions::default();
        for n in 0..MAX_IN_SESSION {
            decisions.set(&format!("id{n}"), Some(false), n as u64);
        }
        decisions.decide("new", Some(true), || HashSet::from(["id0", "id1"]));
        assert_eq!(decisions.0.len(), MAX_IN_SESSION);
        assert_eq!((decisions.get("id1"), decisions.get("id2")), (Some(false), None));
        // A repeated decision counts as new.
        decisions.decide("id3", Some(true), HashSet::new);
        decisions.decide("newer", Some(true), HashSet::new);
        // A disabled customization stays disabled: a decision that equals the default is forgotten first.
        assert_eq!((decisions.get("id0"), decisions.get("new")), (Some(false), None));
        assert_eq!((decisions.get("id3"), decisions.get("newer")), (Some(true), Some(true)));
    }

    #[test]
    fn shared_decisions_are_bounded_together() {
        let mut enablement = EnablementStore::default();
        let off = Enablement {
            session: None,
            workspace: Some(false),
            global: Some(false),
        };
        for n in 0..MAX_SHARED / 2 {
            enablement.global.set(&format!("id{n}"), Some(false), n as u64);
            let directory = format!("file:///{}", n % 7);
            let some = enablement.workspaces.entry(directory).or_default();
            some.set(&format!("id{n}"), Some(false), n as u64);
        }
        let directory = Some("file:///new");
        enablement.decide("new", &off, directory, || HashSet::from(["id0"]));
        assert_eq!(enablement.count(), MAX_SHARED, "both scopes of one decision count");
        let kept = |id: &str| {
            let workspaces = enablement.workspaces.values();
            let in_workspaces = workspaces.filter(|some| some.get(id).is_some()).count();
            in_workspaces + usize::from(enablement.global.get(id).is_some())
        };
        assert_eq!((kept("id0"), kept("id1"), kept("id2"), kept("new")), (2, 0, 2, 2));
    }

    #[test]
    fn shared_decisions_for_something_are_forgotten_before_those_against_it() {
        let mut enablement = EnablementStore::default();
        for n in 0..MAX_SHARED {
            let enabled = n == 5;
            enablement.global.set(&format!("id{n}"), Some(enabled), n as u64);
        }
        let off = Enablement {
            global: Some(false),
            ..Enablement::default()
        };
        enablement.decide("new", &off, None, HashSet::new);
        let known = |id: &str| enablement.global.get(id);
        assert_eq!((known("id0"), known("id5")), (Some(false), None));
    }

    #[test]
    fn cus16_revoking_the_last_decision_of_a_workspace_forgets_the_workspace() {
        let mut enablement = EnablementStore::default();
        let off = Enablement {
            workspace: Some(false),
            ..Enablement::default()
        };
        let changed = enablement.decide("p", &off, Some("file:///w"), HashSet::new);
        assert_eq!((changed.workspace, changed.global), (true, false));
        assert!(!enablement.decide("p", &off, Some("file:///w"), HashSet::new).any());
        enablement.decide("p", &Enablement::default(), Some("file:///w"), HashSet::new);
        assert_eq!(enablement, EnablementStore::default());
    }

    #[test]
    fn cus09_decisions_under_several_spellings_belong_to_one_workspace() {
        let off = |age: u64| serde_json::json!({ "enabled": false, "age": age });
        let on = |age: u64| serde_json::json!({ "enabled": true, "age": age });
        let kept = serde_json::json!({
            "workspaces": {
                "file:///inn": { "old": off(1), "both": off(3) },
                "file:///inn/": { "new": off(2), "both": on(4) },
            }
        });
        let enablement: EnablementStore = serde_json::from_value(kept).unwrap();
        let workspace = enablement.workspace("file:///i%6En").unwrap();
        let known = ["old", "new", "both"].map(|id| workspace.get(id));
        assert_eq!(known, [Some(false), Some(false), Some(true)]);
        assert_eq!(enablement.count(), 3);
    }
}
