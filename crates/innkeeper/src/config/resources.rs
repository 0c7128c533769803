//! The `[resources]` section: the files that clients may access besides those of their sessions.

use std::path::{Path, PathBuf};

use innkeeper_host::resources::{BrowsePolicy, RequestPolicy, ResourceRoot};
use serde::Deserialize;

/// The keys of `[resources]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ResourcesSection {
    /// Files and directories that every client may read.
    pub(crate) read: Vec<PathBuf>,
    /// Files and directories that every client may read, and write if it has the scope drive.
    pub(crate) write: Vec<PathBuf>,
    /// The policy for requests for other files.
    pub(crate) requests: Requests,
    /// The connections that may browse directories without a grant.
    pub(crate) browse: Browse,
    /// The directory in which clients start to look for a working directory; the home directory if not set.
    pub(crate) default_directory: Option<PathBuf>,
}

/// The connections that may browse directories without a grant.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Browse {
    /// No connection.
    Deny,
    /// Connections with the admin scope.
    #[default]
    Admin,
}

/// The policy for `resourceRequest`.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Requests {
    /// Every request is denied.
    Deny,
    /// Connections with the admin scope decide.
    #[default]
    Admin,
    /// Every request is granted within the scope of the connection.
    Allow,
}

impl ResourcesSection {
    /// Returns the paths that every client may access.
    pub(crate) fn roots(&self) -> Vec<ResourceRoot> {
        let read = self.read.iter().filter_map(|path| root(path, false));
        read.chain(writable(&self.write)).collect()
    }

    /// Returns the connections that may browse directories without a grant.
    pub(crate) fn browsing(&self) -> BrowsePolicy {
        match self.browse {
            Browse::Deny => BrowsePolicy::Deny,
            Browse::Admin => BrowsePolicy::Admin,
        }
    }

    /// Returns the URI of the directory in which clients start to look for a working directory: the home directory
    /// unless the file names another.
    pub(crate) fn default_directory(&self) -> Option<String> {
        let home = || etcetera::home_dir().ok();
        let directory = self.default_directory.clone().or_else(home)?;
        uri_of(&directory)
    }

    /// Returns the policy for requests.
    pub(crate) fn policy(&self) -> RequestPolicy {
        match self.requests {
            Requests::Deny => RequestPolicy::Deny,
            Requests::Admin => RequestPolicy::Admin,
            Requests::Allow => RequestPolicy::Allow,
        }
    }
}

/// Returns roots that every client may read, and clients with the scope drive may write.
pub(crate) fn writable(paths: &[PathBuf]) -> impl Iterator<Item = ResourceRoot> {
    paths.iter().filter_map(|path| root(path, true))
}

fn root(path: &Path, write: bool) -> Option<ResourceRoot> {
    let uri = uri_of(path)?;
    Some(ResourceRoot { uri, write })
}

fn uri_of(path: &Path) -> Option<String> {
    let full = std::path::absolute(path).ok()?;
    Some(url::Url::from_file_path(full).ok()?.to_string())
}
