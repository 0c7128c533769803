//! The description that a client publishes with its plugin, in addition to the plugin's own files.

use ahp_types::actions::SessionCustomizationToggledAction;
use ahp_types::state::{ClientPluginCustomization, Customization, Icon, PluginCustomization};
use serde_json::Value;

use super::entry::{find, id_of};
use crate::session::Session;

/// In `_meta` of a plugin: the name that its customizations are called by, where it shows another one.
pub const PLUGIN_NAME: &str = "innkeeper.name";

/// Maximum icons that are taken from a client.
const MAX_ICONS: usize = 8;
/// Longest URI of such an icon: a small image fits into a `data:` URI.
const MAX_ICON_BYTES: usize = 16 << 10;

/// Shows a plugin under the name and with the icons that its client published it with. Its customizations are called
/// by the plugin's own name, which stays in `_meta`.
pub(super) fn show_published(entry: &mut Customization, published: &ClientPluginCustomization) {
    // Clients publish nothing else, but the service that reads their files decides what it reports.
    let Customization::Plugin(plugin) = entry else { return };
    if plugin.name != published.name {
        keep_own_name(plugin);
        plugin.name.clone_from(&published.name);
    }
    let icons = published.icons.iter().flatten();
    let icons = icons.filter(|icon| icon.src.len() <= MAX_ICON_BYTES).take(MAX_ICONS);
    let icons: Vec<Icon> = icons.cloned().collect();
    if !icons.is_empty() {
        plugin.icons = Some(icons);
    }
}

fn keep_own_name(plugin: &mut PluginCustomization) {
    let own = Value::String(plugin.name.clone());
    let meta = plugin.meta.get_or_insert_default();
    meta.entry(PLUGIN_NAME).or_insert(own);
}

/// Resolves the id that a client published a plugin with to the id that the session shows it under. Every other id
/// stays as it is. Where several clients publish the same id, the author's own plugin is chosen.
pub(super) fn resolve_published_id(
    session: &Session,
    mut toggled: SessionCustomizationToggledAction,
    author: &str,
) -> SessionCustomizationToggledAction {
    let list = session.state.customizations.as_deref().unwrap_or_default();
    if find(list, &toggled.id).is_some() {
        return toggled;
    }
    let clients = &session.state.active_clients;
    let own = clients.iter().filter(|client| client.client_id == author);
    let others = clients.iter().filter(|client| client.client_id != author);
    let shown = own.chain(others).find_map(|client| {
        let mut plugins = client.customizations.iter().flatten();
        let published = plugins.find(|published| published.id == toggled.id)?;
        list.iter().find(|entry| match entry {
            Customization::Plugin(plugin) => {
                plugin.client_id.as_ref() == Some(&client.client_id) && plugin.uri == published.uri
            }
            _ => false,
        })
    });
    if let Some(id) = shown.and_then(id_of) {
        id.clone_into(&mut toggled.id);
    }
    toggled
}
