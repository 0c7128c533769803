//! The persisted decisions about customizations of a workspace and of everywhere.

use std::collections::HashMap;

use ahp_types::state::CustomizationEnablement;
use innkeeper_customizations::{Discovered, DiscoveredContainer};
use innkeeper_host::customizations::EnablementStore;
use innkeeper_store::{Archive, FILE_NAME, Mode};

use crate::config::ConfigFile;
use innkeeper_cli::args::CommonArgs;
use innkeeper_cli::discovery::DataDir;
use innkeeper_cli::enablement::{Decision, EVERYWHERE, IN_WORKSPACE};
use innkeeper_cli::failure::Failure;
use innkeeper_cli::terminal::note;

/// Reads the decisions. If they cannot be read, prints a note and returns `None`.
pub(super) fn stored(config: &ConfigFile, args: &CommonArgs) -> Result<Option<EnablementStore>, Failure> {
    let file = DataDir::existing(config.data_dir(args)?).file(FILE_NAME);
    if !file.exists() {
        return Ok(Some(EnablementStore::default()));
    }
    let host = Archive::open(&file, Mode::ReadOnly).and_then(|archive| archive.host());
    let stored = match host {
        Ok(Some(host)) => EnablementStore::of(&host),
        Ok(None) => Ok(EnablementStore::default()),
        Err(error) => Err(error.to_string()),
    };
    if let Err(problem) = &stored {
        note(&format!(
            "What was decided for this workspace and for everywhere cannot be read ({problem}); nothing counts as \
             decided there."
        ));
    }
    Ok(stored.ok())
}

/// Returns the decision about each customization, by its id.
pub(super) fn decided(store: &EnablementStore, workspace: &str, discovered: &Discovered) -> HashMap<String, Decision> {
    let entries = discovered.containers.iter().map(DiscoveredContainer::entry);
    let ids = entries.flat_map(|entry| {
        let children = entry.children().iter().map(|child| child.id.as_str());
        std::iter::once(entry.id()).chain(children)
    });
    let decided = ids.filter_map(|id| {
        let (is_on, by) = match store.decision(workspace, id)? {
            CustomizationEnablement::Workspace { enabled, .. } => (enabled, IN_WORKSPACE),
            CustomizationEnablement::Global { enabled } => (enabled, EVERYWHERE),
            CustomizationEnablement::Session { .. } | CustomizationEnablement::Unknown(_) => return None,
        };
        Some((id.to_owned(), Decision { is_on, by }))
    });
    decided.collect()
}
