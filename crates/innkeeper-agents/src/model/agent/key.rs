//! Where keys come from.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use innkeeper_host::{AgentError, Secret};

/// The longest file that can hold a key.
const MAX_KEY_FILE: u64 = 16 << 10;

/// Where the key of a provider comes from. Whatever it is, a client's own token, given with
/// `authenticate`, goes before it.
#[derive(Debug, Clone)]
pub enum Key {
    /// It needs none: a server on this machine, for instance.
    NotNeeded,
    /// The host has it.
    Known(Secret),
    /// It is in a file, which is read for every turn, so that it can be changed.
    File(PathBuf),
    /// Nobody has it yet. People are told how to set it up, and clients can bring one.
    Missing {
        /// What to do, as in "set OPENAI_API_KEY and start the host again".
        how: String,
    },
}

/// The key in a file.
pub(in crate::model) async fn read(path: &Path) -> Result<Secret, AgentError> {
    let path = path.to_owned();
    // Beside the tasks of the host: a slow disk must not hold up others.
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
            "The key in {} cannot be used: {what}. Put the key alone into the file.",
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
