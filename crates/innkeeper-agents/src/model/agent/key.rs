//! Sources of API keys.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use innkeeper_host::AgentError;
use innkeeper_host::agent::Secret;

/// Maximum size of a key file, in bytes.
const MAX_KEY_FILE: u64 = 16 << 10;

/// Source of a provider's API key. A client's own token, given with `authenticate`, takes precedence.
#[derive(Debug, Clone)]
pub enum Key {
    /// The provider needs no key, for example a local server.
    NotNeeded,
    /// The host has the key.
    Known(Secret),
    /// The key is in a file. It is read for every turn, so that it can be replaced while the host runs.
    File(PathBuf),
    /// No key is configured. Users see how to configure one, and clients can authenticate with their own.
    Missing {
        /// Setup instruction, for example "set OPENAI_API_KEY and start the host again".
        how: String,
    },
}

/// Reads the key from a file.
pub(in crate::model) async fn read(path: &Path) -> Result<Secret, AgentError> {
    let path = path.to_owned();
    // Read on a blocking thread: a slow disk must not block the runtime.
    let reading = tokio::task::spawn_blocking(move || read_now(&path));
    reading.await.unwrap_or_else(|_| {
        Err(AgentError::resumable(
            "auth",
            "The file with the key cannot be read. Try again.",
        ))
    })
}

fn read_now(path: &Path) -> Result<Secret, AgentError> {
    let problem = |what: String| {
        let message = format!(
            "The key file {} cannot be used: {what}. Write only the key into the file.",
            path.display()
        );
        AgentError::resumable("auth", message)
    };
    let meta = std::fs::metadata(path).map_err(|error| problem(error.to_string()))?;
    if !meta.is_file() || meta.len() > MAX_KEY_FILE {
        return Err(problem("it is not a small file".to_owned()));
    }
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(|error| problem(error.to_string()))?;
    file.take(MAX_KEY_FILE)
        .read_to_string(&mut text)
        .map_err(|error| problem(error.to_string()))?;
    match text.trim() {
        "" => Err(problem("it is empty".to_owned())),
        key => Ok(Secret::new(key)),
    }
}
