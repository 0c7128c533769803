//! Users switch customizations on and off (CUS-12 to CUS-16).
//!
//! A decision for a workspace or for everywhere holds in every session it reaches at once. It changes
//! more than the session it was taken in, so it takes the admin scope; so does switching on, in one
//! session, what was switched off for all of them.

use std::sync::Arc;

use ahp_types::actions::{SessionCustomizationToggledAction, SessionCustomizationUpdatedAction, StateAction};
use ahp_types::state::{Customization, CustomizationEnablement};

use super::client_plugins::check_enablement;
use super::decisions::{Changed, Enablement};
use super::enablement::EnablementView;
use super::entry::{child_id, children_of, find, id_of};
use super::published::resolve_published_id;
use super::workspaces::is_same;
use crate::clients::access::Scope;
use crate::core::{Cx, Host, ROOT, never};
use crate::dispatch::{Dispatched, Verdict};
use crate::ids::ChannelId;
use crate::session::Session;

impl Host {
    pub(crate) fn check_customization_toggled(
        &self,
        by: &Dispatched,
        session: &Session,
        toggled: SessionCustomizationToggledAction,
    ) -> Verdict {
        let toggled = resolve_published_id(session, toggled, by.author.client.as_str());
        let check = self.check_toggle(session, &toggled, by.scope);
        Verdict::from_check(StateAction::SessionCustomizationToggled(toggled), check)
    }

    /// Whether a decision can be taken. One about something unknown can: nothing comes of it.
    fn check_toggle(
        &self,
        session: &Session,
        toggled: &SessionCustomizationToggledAction,
        scope: Scope,
    ) -> Result<(), String> {
        check_enablement("enablement", &toggled.enablement)?;
        let scopes = EnablementView::of(session, &self.enablement.store);
        for (index, decision) in toggled.enablement.iter().enumerate() {
            let CustomizationEnablement::Workspace { uri, .. } = decision else {
                continue;
            };
            match scopes.directory {
                Some(directory) if is_same(directory, uri) => {}
                Some(directory) => {
                    return Err(format!(
                        "enablement[{index}].uri: the workspace of this session is {directory:?}, its first directory"
                    ));
                }
                None => {
                    return Err(format!(
                        "enablement[{index}].uri: this session works in no directory; decide for the session or for all"
                    ));
                }
            }
        }
        let list = session.state.customizations.as_deref().unwrap_or_default();
        match find(list, &toggled.id) {
            Some(place) if scope < Scope::Admin => {
                check_drive(&scopes.decided(&toggled.id, place), &toggled.enablement, scope)
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Applies a decision: publishes it as the author sent it, then adds what the author left out.
    pub(crate) fn apply_customization_toggled(
        &mut self,
        cx: &mut Cx<'_>,
        by: &Dispatched,
        toggled: SessionCustomizationToggledAction,
    ) {
        let session_id = by.channel;
        let id = toggled.id.clone();
        let changed = self.decide(session_id, &toggled, by.scope);
        self.commit_dispatched(cx, by, StateAction::SessionCustomizationToggled(toggled));
        self.correct(cx, session_id, &id);
        self.mark_shadowed_again(cx, session_id);
        if changed.any() {
            // All subscribers see it, and only the host's document carries it over a restart.
            self.enablement.mark_changed();
            self.mark_dirty(ROOT);
            self.share_toggle(cx, session_id, &id, changed);
            if changed.global {
                self.publish_agents(cx);
            }
        }
    }

    /// Remembers a decision, unless it is about something unknown.
    fn decide(&mut self, session_id: ChannelId, toggled: &SessionCustomizationToggledAction, scope: Scope) -> Changed {
        let Some(session) = self.sessions.get_mut(&session_id) else {
            return Changed::default();
        };
        let list = session.state.customizations.as_deref().unwrap_or_default();
        let Some(place) = find(list, &toggled.id) else {
            return Changed::default();
        };
        let known = EnablementView::of(session, &self.enablement.store).known(&toggled.id);
        let decided = known.after(&toggled.enablement, place.shows_decisions());
        let decisions = Arc::make_mut(&mut session.customization.decisions);
        decisions.decide(&toggled.id, decided.session, || ids_in(list).collect());
        if scope < Scope::Admin {
            // Decisions that this scope may not change stay, although the client did not repeat them (E-31).
            return Changed::default();
        }
        let directories = session.state.working_directories.clone();
        let directory = directories.as_ref().and_then(|all| all.first()).map(String::as_str);
        // Ids that any session uses count as used, not only those of this one.
        let sessions = &self.sessions;
        let used = || {
            let lists = sessions
                .values()
                .filter_map(|session| session.state.customizations.as_deref());
            lists.flat_map(ids_in).collect()
        };
        Arc::make_mut(&mut self.enablement.store).decide(&toggled.id, &decided, directory, used)
    }

    /// Publishes an entry again where it does not show what was decided: a client sent its decisions
    /// unsorted or twice (CUS-14), spelled its workspace in another way, or left out what it may not decide
    /// about (CUS-16) or cannot see (E-31).
    fn correct(&mut self, cx: &mut Cx<'_>, session_id: ChannelId, id: &str) {
        let Some(session) = self.sessions.get(&session_id) else {
            return never!("the session is in memory");
        };
        let list = session.state.customizations.as_deref().unwrap_or_default();
        let scopes = EnablementView::of(session, &self.enablement.store);
        // A client may decide about a customization that was removed meanwhile.
        let Some(place) = find(list, id) else { return };
        if place.shows(&scopes.decided(id, place), scopes.directory) {
            return;
        }
        let mut customization = place.entry.clone();
        scopes.switch(&mut customization);
        let action = SessionCustomizationUpdatedAction { customization };
        let action = StateAction::SessionCustomizationUpdated(Box::new(action));
        self.commit(cx, session_id, action, None);
    }

    /// Tells the other sessions of a decision that holds in them as well. Only what is decided is
    /// sent, however large the plugin is.
    fn share_toggle(&mut self, cx: &mut Cx<'_>, decided_in: ChannelId, id: &str, changed: Changed) {
        let mut told: Vec<(ChannelId, Vec<CustomizationEnablement>)> = Vec::new();
        let of = |session_id: &ChannelId| {
            let session = self.sessions.get(session_id);
            session.map(|session| EnablementView::of(session, &self.enablement.store))
        };
        let directory = of(&decided_in).and_then(|scopes| scopes.directory).unwrap_or_default();
        let is_there = |scopes: &EnablementView<'_>| scopes.directory.is_some_and(|other| is_same(other, directory));
        for (session_id, session) in self.sessions.iter() {
            let scopes = EnablementView::of(session, &self.enablement.store);
            if *session_id == decided_in || !changed.global && !is_there(&scopes) {
                continue;
            }
            let list = session.state.customizations.as_deref().unwrap_or_default();
            let Some(place) = find(list, id) else {
                continue;
            };
            let decided = scopes.decided(id, place);
            if !place.shows(&decided, scopes.directory) {
                told.push((*session_id, decided.shown(scopes.directory).unwrap_or_default()));
            }
        }
        told.sort_unstable_by_key(|(session_id, _)| *session_id);
        for (session_id, enablement) in told {
            let id = id.to_owned();
            let action = SessionCustomizationToggledAction { id, enablement };
            self.commit(cx, session_id, StateAction::SessionCustomizationToggled(action), None);
            self.mark_shadowed_again(cx, session_id);
        }
    }
}

/// Checks the decisions that need no admin scope.
fn check_drive(before: &Enablement, enablement: &[CustomizationEnablement], scope: Scope) -> Result<(), String> {
    let after = Enablement::from(enablement);
    let needs = |index: usize, what: &str| {
        Err(format!(
            "enablement[{index}]: {what} needs the scope admin and this connection has {scope}: connect with a token \
             of that scope, or decide for this session alone"
        ))
    };
    for (index, decision) in enablement.iter().enumerate() {
        match decision {
            CustomizationEnablement::Workspace { .. } if after.workspace != before.workspace => {
                return needs(index, "deciding for a workspace");
            }
            CustomizationEnablement::Global { .. } if after.global != before.global => {
                return needs(index, "deciding for all sessions");
            }
            CustomizationEnablement::Session { enabled: true } if !before.is_on_elsewhere() => {
                return needs(index, "enabling what is disabled for more than this session");
            }
            _ => {}
        }
    }
    Ok(())
}

/// The ids of everything in a list.
fn ids_in(list: &[Customization]) -> impl Iterator<Item = &str> {
    let children = list.iter().flat_map(children_of).filter_map(child_id);
    list.iter().filter_map(id_of).chain(children)
}
