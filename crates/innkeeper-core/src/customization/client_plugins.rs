//! Plugins that active clients publish in a session, and requests to discover a session's customizations.

use std::collections::HashSet;
use std::sync::Arc;

use ahp_types::actions::{SessionCustomizationRemovedAction, SessionCustomizationsChangedAction, StateAction};
use ahp_types::state::{
    ClientPluginCustomization, Customization, CustomizationEnablement, CustomizationType, SessionActiveClient,
};

use super::entry::{child_id, children_of, client_of, id_of};
use super::{ClientPlugin, CustomizationSources, disabled_ids};
use crate::core::{Cx, Host, never};
use crate::effect::CustomizationCommand;
use crate::ids::{ChannelId, ClientId};
use crate::protocol::uri;
use crate::session::Session;

/// Longest name, nonce or id of what a client publishes.
const MAX_NAME_BYTES: usize = 1024;
/// Maximum plugins that one client publishes in a session: each of them is read by discovery.
const MAX_CLIENT_PLUGINS: usize = 256;
/// Most decisions about one thing: there are three scopes, and a client may be careless.
const MAX_DECISIONS: usize = 16;

impl Host {
    /// Whether customizations are discovered. A host that cannot write does not: it could not publish them.
    pub(super) fn follows_customizations(&self) -> bool {
        self.config.serves_customizations && !self.storage.mode().is_read_only()
    }

    /// Asks to discover the customizations of a session, unless that was asked.
    pub(crate) fn follow_customizations(&mut self, cx: &mut Cx<'_>, session_id: ChannelId) {
        if !self.follows_customizations() {
            return;
        }
        let Some(session) = self.sessions.get_mut(&session_id) else {
            return never!("the session is in memory");
        };
        let wanted = Box::new(wanted(session));
        if session.customization.wanted.as_ref() == Some(&wanted) {
            return;
        }
        session.customization.wanted = Some(wanted.clone());
        cx.emit(CustomizationCommand::Follow {
            session: session_id,
            wanted,
        });
    }

    /// A channel has a subscriber: its session's customizations and repository are needed from now on.
    pub(crate) fn follow_subscribed(&mut self, cx: &mut Cx<'_>, channel: ChannelId) {
        let session = self.chats.get(&channel).map_or(channel, |chat| chat.session);
        // The root and watches belong to no session.
        if self.sessions.contains_key(&session) {
            self.follow_customizations(cx, session);
            self.follow_repository(cx, session);
        }
    }

    /// Ends the discovery of a session's customizations.
    pub(crate) fn forget_customizations(cx: &mut Cx<'_>, session_id: ChannelId, session: &Session) {
        if session.customization.wanted.is_some() {
            cx.emit(CustomizationCommand::Unfollow {
                session: session_id,
                disabled_ids: disabled_ids(session),
            });
        }
    }

    /// Follows up on a session that now works elsewhere: it wants something else, and other decisions
    /// hold in it.
    pub(crate) fn customizations_rescoped(&mut self, cx: &mut Cx<'_>, session_id: ChannelId) {
        self.follow_again(cx, session_id);
        self.republish_enablement(cx, session_id);
    }

    /// Handles a changed entry of an active client: its plugins, and its decisions about them (CUS-16).
    pub(crate) fn client_customizes(&mut self, cx: &mut Cx<'_>, session_id: ChannelId, client: &str) {
        self.count_publication(session_id, client);
        self.follow_again(cx, session_id);
        self.republish_client_enablement(cx, session_id, client);
    }

    /// Handles an unchanged entry of an active client: a plugin without a nonce may have changed all the same, so it
    /// is read again. Nothing is published unless it did, so no client can react to its own echo.
    pub(crate) fn client_published_again(&mut self, cx: &mut Cx<'_>, session_id: ChannelId, client: &str) {
        self.count_publication(session_id, client);
        self.follow_again(cx, session_id);
    }

    fn count_publication(&mut self, session_id: ChannelId, client: &str) {
        if let Some(session) = self.sessions.get_mut(&session_id) {
            let publications = &mut session.customization.publications;
            *publications.entry(client.to_owned()).or_default() += 1;
        }
    }

    /// Sends the session's current sources to discovery, if it is asked for.
    fn follow_again(&mut self, cx: &mut Cx<'_>, session_id: ChannelId) {
        let session = self.sessions.get(&session_id);
        if session.is_some_and(|session| session.customization.wanted.is_some()) {
            self.follow_customizations(cx, session_id);
        }
    }

    /// Removes the plugins of a client from a session that the client has left (ACT-13). Discovery may report them
    /// for a while; until then no agent uses them.
    pub(crate) fn drop_customizations_of(&mut self, cx: &mut Cx<'_>, session_id: ChannelId, client: &str) {
        self.follow_again(cx, session_id);
        let Some(session) = self.sessions.get_mut(&session_id) else {
            return never!("the session is in memory");
        };
        session.customization.publications.remove(client);
        let mut gone = Vec::new();
        for entry in session.state.customizations.iter().flatten() {
            if client_of(entry) == Some(client) {
                gone.extend(id_of(entry).map(str::to_owned));
                let left_out = &mut session.customization.left_out;
                left_out.extend(id_of(entry).map(str::to_owned));
                left_out.extend(children_of(entry).iter().filter_map(child_id).map(str::to_owned));
            }
        }
        for id in gone {
            let action = StateAction::SessionCustomizationRemoved(SessionCustomizationRemovedAction { id });
            self.commit(cx, session_id, action, None);
        }
    }

    /// A session was restored. Until discovery has reported, it shows the persisted list with the current decisions.
    /// Without discovery it shows nothing: no agent would get any of it. The decisions stay persisted for a run with
    /// discovery.
    pub(crate) fn recover_customizations(&mut self, cx: &mut Cx<'_>, session_id: ChannelId) {
        if self.storage.mode().is_read_only() {
            return;
        }
        let Some(session) = self.sessions.get(&session_id) else {
            return never!("the session is in memory");
        };
        let shows_any = session
            .state
            .customizations
            .as_ref()
            .is_some_and(|list| !list.is_empty());
        if !shows_any {
            return;
        }
        if self.config.serves_customizations {
            return self.republish_enablement(cx, session_id);
        }
        let customizations = Vec::new();
        let action = SessionCustomizationsChangedAction { customizations };
        let action = StateAction::SessionCustomizationsChanged(action);
        self.commit(cx, session_id, action, None);
    }
}

/// The customizations of a new session that a chat moves into: those of its old one without the plugins of clients,
/// which are not active clients of the new one.
pub(crate) fn without_clients(list: &Option<Vec<Customization>>) -> Option<Vec<Customization>> {
    let kept = list.as_ref()?.iter().filter(|entry| client_of(entry).is_none());
    Some(kept.cloned().collect())
}

fn wanted(session: &Session) -> CustomizationSources {
    let clients = session.state.active_clients.iter();
    let plugins = clients.flat_map(|client| {
        client
            .customizations
            .iter()
            .flatten()
            .map(move |plugin| (client, plugin))
    });
    let plugins = plugins.map(|(client, plugin)| ClientPlugin {
        client: ClientId::new(&client.client_id),
        uri: plugin.uri.clone(),
        name: plugin.name.clone(),
        nonce: plugin.nonce.clone(),
        publication: match plugin.nonce {
            Some(_) => 0,
            None => session
                .customization
                .publications
                .get(&client.client_id)
                .copied()
                .unwrap_or_default(),
        },
    });
    CustomizationSources {
        session_uri: Arc::clone(&session.uri),
        provider: session.state.provider.clone(),
        working_directories: session.state.working_directories.clone().unwrap_or_default(),
        client_plugins: plugins.collect(),
    }
}

/// The rules for what a client publishes (ACT-02).
pub(crate) fn check_client_plugins(client: &SessionActiveClient) -> Result<(), String> {
    let plugins = client.customizations.as_deref().unwrap_or_default();
    if plugins.len() > MAX_CLIENT_PLUGINS {
        return Err(format!(
            "customizations: a client publishes at most {MAX_CLIENT_PLUGINS} plugins"
        ));
    }
    let mut uris = HashSet::new();
    for (index, plugin) in plugins.iter().enumerate() {
        check_plugin(client, plugin).map_err(|problem| format!("customizations[{index}].{problem}"))?;
        if !uris.insert(&plugin.uri) {
            return Err(format!("customizations[{index}].uri: this plugin is published twice"));
        }
    }
    Ok(())
}

fn check_plugin(client: &SessionActiveClient, plugin: &ClientPluginCustomization) -> Result<(), String> {
    if plugin.r#type != CustomizationType::Plugin {
        return Err("type: clients publish plugins only".to_owned());
    }
    uri::check(&plugin.uri).map_err(|_| "uri: must be a URI, as in virtual://editor/my-plugin".to_owned())?;
    for (field, text) in [("id", &plugin.id), ("name", &plugin.name)] {
        if text.is_empty() || text.len() > MAX_NAME_BYTES {
            return Err(format!("{field}: has between 1 and {MAX_NAME_BYTES} bytes"));
        }
    }
    if plugin.nonce.as_ref().is_some_and(|nonce| nonce.len() > MAX_NAME_BYTES) {
        return Err(format!("nonce: has at most {MAX_NAME_BYTES} bytes"));
    }
    if plugin.client_id.as_ref().is_some_and(|id| *id != client.client_id) {
        return Err("clientId: is not the publishing client's".to_owned());
    }
    check_enablement("enablement", plugin.enablement.as_deref().unwrap_or_default())?;
    for (name, decisions) in plugin.child_enablement.iter().flatten() {
        let name: String = name.chars().take(128).collect();
        check_enablement(&format!("childEnablement.{name}"), decisions)?;
    }
    Ok(())
}

/// Every decision is one that this host understands: what it does not, every reader takes for "off"
/// (E-30).
pub(super) fn check_enablement(field: &str, decisions: &[CustomizationEnablement]) -> Result<(), String> {
    if decisions.len() > MAX_DECISIONS {
        return Err(format!(
            "{field}: has at most {MAX_DECISIONS} decisions, one for each scope"
        ));
    }
    let unknown = |decision: &CustomizationEnablement| matches!(decision, CustomizationEnablement::Unknown(_));
    match decisions.iter().position(unknown) {
        Some(index) => Err(format!(
            "{field}[{index}]: a decision has a kind, which is session, workspace (with its uri) or global, and enabled"
        )),
        None => Ok(()),
    }
}
