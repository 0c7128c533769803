//! Reads the files of discovered customizations.

use async_trait::async_trait;
use innkeeper_host::customizations::{About, FileAccess, SharedEntry, Texts};
use innkeeper_host::resources::ResourceError;

use crate::discovered::{Discovered, DiscoveredContainer};
use crate::shown_files;

/// The longest text that is read. It goes into a prompt, where a tenth of it would be too long.
const MAX_BYTES: usize = 1024 * 1024;

#[async_trait]
impl Texts for Discovered {
    async fn read(&self, about: &About) -> Result<String, String> {
        let gone = || format!("{} is not there any more", about.uri);
        let mut containers = self.containers.iter();
        let part = containers.find(|part| part.entry().id() == about.container);
        let part = part.ok_or_else(gone)?.clone();
        let mut children = part.entry().children().iter();
        let child = children.find(|child| child.id == about.id).ok_or_else(gone)?;
        let path = part.path_of(child);
        let reading = move || part.reader().body(&path, MAX_BYTES);
        let read = tokio::task::spawn_blocking(reading).await;
        read.unwrap_or_else(|_| Err(format!("{} cannot be read", about.uri)))
    }

    async fn find(&self, uri: &str, access: FileAccess) -> Option<Result<SharedEntry, ResourceError>> {
        let parts: Vec<DiscoveredContainer> = self.by_precedence().cloned().collect();
        let uri = uri.to_owned();
        let finding = move || shown_files::find(&parts, &uri, access);
        tokio::task::spawn_blocking(finding).await.ok().flatten()
    }
}
