//! The discovery file: the addresses of the host that runs on a data directory.

use std::fs;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::discovery::{DataDir, unusable, write_atomically};
use crate::failure::Failure;

const FILE_NAME: &str = "endpoint.json";

/// The addresses of a running host. The host writes the file once it listens, and removes it when it ends.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Endpoint {
    /// WebSocket URL, if the host listens on TCP.
    pub url: Option<String>,
    /// Path of the Unix socket, if there is one.
    pub unix: Option<PathBuf>,
    /// File with the token; absent if the host requires none.
    pub token_file: Option<PathBuf>,
    /// The host's process id, for display only: process ids are reused.
    pub pid: u32,
    /// When the host started.
    pub started_at: String,
}

impl Endpoint {
    /// Writes the file; it stays until the returned value is dropped.
    pub fn publish(&self, dir: &DataDir) -> Result<PublishedEndpoint, Failure> {
        let path = dir.file(FILE_NAME);
        let mut json =
            serde_json::to_vec_pretty(self).expect("invariant: an endpoint has only string keys and plain values");
        json.push(b'\n');
        write_atomically(&path, &json).map_err(|error| unusable(&path, &error))?;
        Ok(PublishedEndpoint { path })
    }

    /// Reads the file of the host on this directory, unless that host is gone.
    ///
    /// A host that was killed leaves its file behind. Trusting it could send the token to another process that listens
    /// on that port now, so the file counts only while a process holds the directory's lock.
    pub fn find(dir: &DataDir) -> Option<Self> {
        let text = fs::read_to_string(dir.file(FILE_NAME)).ok()?;
        let endpoint = serde_json::from_str(&text).ok()?;
        dir.is_owned().then_some(endpoint)
    }
}

/// The discovery file of this process; dropping it removes the file.
#[derive(Debug)]
pub struct PublishedEndpoint {
    path: PathBuf,
}

impl Drop for PublishedEndpoint {
    fn drop(&mut self) {
        // A stale file is harmless: clients check the lock first.
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn endpoint_is_found_only_while_the_host_runs() {
        let root = tempfile::tempdir().unwrap();
        let dir = DataDir::prepare(root.path()).unwrap();
        let endpoint = Endpoint {
            url: Some("ws://127.0.0.1:1".to_owned()),
            unix: None,
            token_file: Some(dir.file("token")),
            pid: std::process::id(),
            started_at: "2026-01-01T00:00:00Z".to_owned(),
        };
        let lock = dir.lock().unwrap();
        let published = endpoint.publish(&dir).unwrap();
        let mode = fs::metadata(dir.file(FILE_NAME)).unwrap().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(Endpoint::find(&dir), Some(endpoint));
        drop(lock);
        assert_eq!(Endpoint::find(&dir), None, "stale file trusted");
        drop(published);
        assert!(!dir.file(FILE_NAME).exists());
    }
}
