//! Tokens between lives of the host: one sealed file, and its key somewhere else (T23).
//!
//! [`TokenKeeper`] is what the runner needs, so that a host can keep tokens in another way or not at all.
//! [`Vault`] is the way of this crate: all tokens are one document, sealed as a whole (`vault/seal.rs`) and
//! replaced as a whole (`vault/file.rs`). The key is meant to lie in another directory than the file: a
//! copy of one of them alone holds nothing that anybody could use.
//!
//! Nothing here keeps a host from starting. Whatever cannot be read is gone, somebody is told why, and
//! people sign in again.

mod file;
mod seal;

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fmt, io};

use serde::{Deserialize, Serialize};

use self::file::{Key, replace};

/// Most bytes of all tokens together. What does not fit is not kept; it can be used all the same.
const MOST_BYTES: usize = 16 << 20;

/// A file that is younger may be somebody's who writes it at this moment.
const BEING_WRITTEN: Duration = Duration::from_secs(60);

/// A token as it is kept. It is shown nowhere (AUTH-12).
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SavedToken {
    /// What it is for.
    pub resource: String,
    /// The token.
    pub token: String,
    /// What it allows, as far as it was told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scopes: Option<Vec<String>>,
    /// Until when it is good: seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<u64>,
    /// The client that gave it.
    pub given_by: String,
    /// The addresses of servers that people signed in to with it. A server whose resource contains more than
    /// itself is given it only if it is among them (T16).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<String>,
    /// Who gives out tokens for the resource.
    #[serde(default)]
    pub authorization_servers: Vec<String>,
    /// How to get the next one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refresh: Option<SavedRefresh>,
}

/// How to get the next token, as it is kept. As secret as the token.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SavedRefresh {
    /// What is traded for the next token. Without it there is none, and this one can be declared void.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refresh_token: Option<String>,
    /// Where.
    pub token_endpoint: String,
    /// Where tokens are declared void.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revocation_endpoint: Option<String>,
    /// The OAuth client that the tokens were given to.
    pub client_id: String,
    /// Its password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_secret: Option<String>,
    /// How it shows who it is, in the words of OAuth: `none`, `client_secret_basic`, `client_secret_post`.
    pub client_auth: String,
}

impl fmt::Debug for SavedToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SavedToken")
            .field("resource", &self.resource)
            .field("expires_at", &self.expires_at)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for SavedRefresh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SavedRefresh")
            .field("token_endpoint", &self.token_endpoint)
            .finish_non_exhaustive()
    }
}

/// Keeps tokens between lives of the host. Its methods may block.
pub trait TokenKeeper: Send + Sync + 'static {
    /// What was kept. Whatever cannot be read is not there, and whoever implements it says why.
    fn load(&self) -> Vec<SavedToken>;

    /// Keeps exactly these, in place of what was kept before.
    ///
    /// # Errors
    ///
    /// When they are not kept. What was kept before then may be there still.
    fn save(&self, tokens: &[SavedToken]) -> io::Result<()>;

    /// Forgets everything, when some of it must not be there any more and could not be replaced.
    ///
    /// # Errors
    ///
    /// When it is there still.
    fn clear(&self) -> io::Result<()>;
}

/// Keeps tokens in a sealed file.
#[derive(Debug, Clone)]
pub struct Vault {
    file: PathBuf,
    key: PathBuf,
}

/// Why kept tokens cannot be read, for people.
#[derive(Debug, thiserror::Error)]
pub enum VaultTrouble {
    /// The key is not there.
    #[error("the key of the kept tokens, {0}, is not there, so {1} cannot be opened")]
    NoKey(PathBuf, PathBuf),
    /// The key is there and is none.
    #[error("{0} is no key of kept tokens")]
    BadKey(PathBuf),
    /// A file cannot be used.
    #[error("{0} cannot be used ({1})")]
    Io(PathBuf, io::Error),
    /// The file does not open.
    #[error("the kept tokens in {0} cannot be opened: {1}")]
    Sealed(PathBuf, &'static str),
}

impl Vault {
    /// Tokens in this file, sealed with this key. Both are made when there is something to keep; the
    /// directory of the file has to exist.
    pub fn new(file: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        Self {
            file: file.into(),
            key: key.into(),
        }
    }

    /// Where the key is.
    pub fn key_file(&self) -> &Path {
        &self.key
    }

    /// Reads what is kept, and changes nothing.
    ///
    /// # Errors
    ///
    /// When there is something, and it cannot be read.
    pub fn read(&self) -> Result<Vec<SavedToken>, VaultTrouble> {
        let most = MOST_BYTES + seal::OVERHEAD;
        let sealed = file::read(&self.file, most).map_err(|error| VaultTrouble::Io(self.file.clone(), error))?;
        let Some(sealed) = sealed else {
            return Ok(Vec::new());
        };
        let key = Key::read(&self.key)?;
        let key = key.ok_or_else(|| VaultTrouble::NoKey(self.key.clone(), self.file.clone()))?;
        let trouble = |what| VaultTrouble::Sealed(self.file.clone(), what);
        let document = seal::open(&key, &sealed).map_err(trouble)?;
        let document: Document =
            serde_json::from_slice(&document).map_err(|_| trouble("what is in it cannot be understood"))?;
        Ok(document.tokens)
    }
}

impl TokenKeeper for Vault {
    fn load(&self) -> Vec<SavedToken> {
        // Nobody else writes where the tokens are; several hosts may have one key.
        file::sweep(&self.file, Duration::ZERO);
        file::sweep(&self.key, BEING_WRITTEN);
        self.read().unwrap_or_else(|trouble| {
            tracing::warn!("{trouble}; people have to sign in to their MCP servers again");
            Vec::new()
        })
    }

    fn save(&self, tokens: &[SavedToken]) -> io::Result<()> {
        if tokens.is_empty() {
            return self.clear();
        }
        let document = fitting(tokens, MOST_BYTES)?;
        let key = Key::read_or_create(&self.key)?;
        replace(&self.file, &seal::seal(&key, &document)?)
    }

    fn clear(&self) -> io::Result<()> {
        file::remove(&self.file)
    }
}

/// What is sealed.
#[derive(Serialize, Deserialize)]
struct Document {
    tokens: Vec<SavedToken>,
}

/// The document with as many tokens as fit, the small ones first.
fn fitting(tokens: &[SavedToken], most: usize) -> io::Result<Vec<u8>> {
    let mut written = Vec::new();
    for token in tokens {
        written.push(serde_json::to_vec(token)?);
    }
    written.sort_by_key(Vec::len);
    let mut document = b"{\"tokens\":[".to_vec();
    let mut kept = 0;
    for token in &written {
        // The comma, and the end of the document.
        if document.len() + token.len() + 3 > most {
            break;
        }
        if kept > 0 {
            document.push(b',');
        }
        document.extend_from_slice(token);
        kept += 1;
    }
    if kept < written.len() {
        let left = written.len() - kept;
        tracing::warn!("{left} tokens of MCP servers are not kept, because together they are too large");
    }
    document.extend_from_slice(b"]}");
    Ok(document)
}

#[cfg(test)]
mod tests;
