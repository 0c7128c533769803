//! Reads what customizations say, when somebody wants to know it.

use std::collections::HashMap;
use std::path::PathBuf;

use async_trait::async_trait;
use innkeeper_host::customizations::{About, Look, Shown, Texts};
use innkeeper_host::resources::ResourceError;

use crate::discovered::DiscoveredContainer;
use crate::shown_files;

/// The longest text that is read. It goes into a prompt, where a tenth of it would be too long.
const MAX_BYTES: usize = 1024 * 1024;

/// The texts of one session, reached on the way on which they were found.
#[derive(Debug, Default)]
pub(crate) struct LocalTexts {
    /// Also keeps the copies of clients' plugins for as long as a turn may read them.
    containers: Vec<DiscoveredContainer>,
    /// By id, which of the parts it is in, and its file from there.
    files: HashMap<String, (usize, PathBuf)>,
}

impl LocalTexts {
    pub(crate) fn add(&mut self, part: &DiscoveredContainer) -> usize {
        self.containers.push(part.clone());
        self.containers.len() - 1
    }

    pub(crate) fn add_file(&mut self, id: &str, part: usize, path: PathBuf) {
        self.files.insert(id.to_owned(), (part, path));
    }
}

#[async_trait]
impl Texts for LocalTexts {
    async fn read(&self, about: &About) -> Result<String, String> {
        let gone = || format!("{} is not there any more", about.uri);
        let (part, path) = self.files.get(&about.id).cloned().ok_or_else(gone)?;
        let part = self.containers.get(part).cloned().ok_or_else(gone)?;
        let reading = move || part.reader().body(&path, MAX_BYTES);
        let read = tokio::task::spawn_blocking(reading).await;
        read.unwrap_or_else(|_| Err(format!("{} cannot be read", about.uri)))
    }

    async fn find(&self, uri: &str, look: Look) -> Option<Result<Shown, ResourceError>> {
        let (parts, uri) = (self.containers.clone(), uri.to_owned());
        let finding = move || shown_files::find(&parts, &uri, look);
        tokio::task::spawn_blocking(finding).await.ok().flatten()
    }
}
