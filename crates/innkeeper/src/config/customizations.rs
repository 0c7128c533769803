//! The `[customizations]` section: the sources of plugins, skills, agents, rules and hooks.

use std::path::PathBuf;

use innkeeper_customizations::SourceDirectories;
use serde::Deserialize;

use crate::full_path::full_path;

/// The keys of `[customizations]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub(crate) struct CustomizationsSection {
    /// Whether sessions get customizations.
    pub(crate) enabled: bool,
    /// Whether they get those of the home directory.
    pub(crate) user: bool,
    /// Plugins that every session gets, each by its directory.
    pub(crate) plugins: Vec<PathBuf>,
    /// Marketplaces, and directories full of plugins.
    pub(crate) collections: Vec<PathBuf>,
}

impl Default for CustomizationsSection {
    fn default() -> Self {
        Self {
            enabled: true,
            user: true,
            plugins: Vec::new(),
            collections: Vec::new(),
        }
    }
}

impl CustomizationsSection {
    /// Returns the sources besides workspaces and clients, or nothing if customizations are off.
    pub(crate) fn directories(&self) -> Option<SourceDirectories> {
        let full = |paths: &[PathBuf]| paths.iter().filter_map(|path| full_path(path).ok()).collect();
        self.enabled.then(|| SourceDirectories {
            plugins: full(&self.plugins),
            collections: full(&self.collections),
            home: etcetera::home_dir().ok().filter(|_| self.user),
            servers: Vec::new(),
        })
    }
}
