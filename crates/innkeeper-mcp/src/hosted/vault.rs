//! Persists tokens across restarts of the host: one sealed file, and its key elsewhere (T23).
//!
//! A host can implement [`TokenKeeper`] to persist tokens in another way. [`Vault`] seals all tokens as one document
//! (`vault/seal.rs`) and replaces the file as a whole (`vault/file.rs`). The key should be in another directory than the file:
//! a copy of one of them alone is useless.
//!
//! The host starts even if the vault cannot be read: the log says why, and users sign in again.

mod file;
mod seal;

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fmt, io};

use serde::{Deserialize, Serialize};

use self::file::{Key, replace};

/// The total size of the tokens. Tokens that do not fit are used, and not persisted.
const MAX_BYTES: usize = 16 << 20;

/// A younger temporary file may belong to another host that is writing it.
const BEING_WRITTEN: Duration = Duration::from_secs(60);

/// A persisted token. It is never shown (AUTH-12).
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SavedToken {
    /// The resource.
    pub resource: String,
    /// The token.
    pub token: String,
    /// The granted scopes, if they are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scopes: Option<Vec<String>>,
    /// The expiry in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<u64>,
    /// The client that gave it.
    pub given_by: String,
    /// The addresses of servers that users signed in to with it. A server whose resource is larger than the server itself
    /// gets the token only if it is among them (T16).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<String>,
    /// The authorization servers of the resource.
    #[serde(default)]
    pub authorization_servers: Vec<String>,
    /// How to renew it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refresh: Option<SavedRefresh>,
}

/// The data for renewing a token. As secret as the token.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SavedRefresh {
    /// The refresh token. Without it the token can only be revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refresh_token: Option<String>,
    /// The token endpoint.
    pub token_endpoint: String,
    /// The revocation endpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revocation_endpoint: Option<String>,
    /// The OAuth client that the tokens were issued to.
    pub client_id: String,
    /// Its password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_secret: Option<String>,
    /// Its authentication method, as OAuth names it: `none`, `client_secret_basic`, `client_secret_post`.
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

/// Persists tokens across restarts of the host. The methods may block.
pub trait TokenKeeper: Send + Sync + 'static {
    /// Returns the persisted tokens. Implementations log why tokens cannot be read.
    fn load(&self) -> Vec<SavedToken>;

    /// Persists exactly these tokens.
    ///
    /// # Errors
    ///
    /// When they are not persisted. The earlier tokens may still be there.
    fn save(&self, tokens: &[SavedToken]) -> io::Result<()>;

    /// Deletes everything, when a token must not stay and could not be replaced.
    ///
    /// # Errors
    ///
    /// When it is still there.
    fn clear(&self) -> io::Result<()>;
}

/// Persists tokens in a sealed file.
#[derive(Debug, Clone)]
pub struct Vault {
    file: PathBuf,
    key: PathBuf,
}

/// Why persisted tokens cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum VaultTrouble {
    /// The key does not exist.
    #[error("the key file {0} of the stored tokens is missing, so {1} cannot be decrypted")]
    NoKey(PathBuf, PathBuf),
    /// The key file does not contain a key.
    #[error("{0} is not a key file for stored tokens")]
    BadKey(PathBuf),
    /// A file cannot be used.
    #[error("{0} cannot be used ({1})")]
    Io(PathBuf, io::Error),
    /// The file cannot be decrypted with the key.
    #[error("the stored tokens in {0} cannot be decrypted: {1}")]
    Sealed(PathBuf, &'static str),
}

impl Vault {
    /// Returns a vault with this file and this key. Both are created when there is something to persist; the directory of the
    /// file has to exist.
    pub fn new(file: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        Self {
            file: file.into(),
            key: key.into(),
        }
    }

    /// Returns the path of the key.
    pub fn key_file(&self) -> &Path {
        &self.key
    }

    /// Reads the persisted tokens, and changes nothing.
    ///
    /// # Errors
    ///
    /// When there is a file that cannot be read.
    pub fn read(&self) -> Result<Vec<SavedToken>, VaultTrouble> {
        let most = MAX_BYTES + seal::OVERHEAD;
        let sealed = file::read(&self.file, most).map_err(|error| VaultTrouble::Io(self.file.clone(), error))?;
        let Some(sealed) = sealed else {
            return Ok(Vec::new());
        };
        let key = Key::read(&self.key)?;
        let key = key.ok_or_else(|| VaultTrouble::NoKey(self.key.clone(), self.file.clone()))?;
        let trouble = |what| VaultTrouble::Sealed(self.file.clone(), what);
        let document = seal::open(&key, &sealed).map_err(trouble)?;
        let document: Document =
            serde_json::from_slice(&document).map_err(|_| trouble("its content cannot be parsed"))?;
        Ok(document.tokens)
    }
}

impl TokenKeeper for Vault {
    fn load(&self) -> Vec<SavedToken> {
        // Only this host writes the tokens. Several hosts may share one key.
        file::sweep(&self.file, Duration::ZERO);
        file::sweep(&self.key, BEING_WRITTEN);
        self.read().unwrap_or_else(|trouble| {
            tracing::warn!("{trouble}; users have to sign in to their MCP servers again");
            Vec::new()
        })
    }

    fn save(&self, tokens: &[SavedToken]) -> io::Result<()> {
        if tokens.is_empty() {
            return self.clear();
        }
        let document = fitting(tokens, MAX_BYTES)?;
        let key = Key::read_or_create(&self.key)?;
        replace(&self.file, &seal::seal(&key, &document)?)
    }

    fn clear(&self) -> io::Result<()> {
        file::remove(&self.file)
    }
}

/// The sealed document.
#[derive(Serialize, Deserialize)]
struct Document {
    tokens: Vec<SavedToken>,
}

/// Returns a document with as many tokens as fit, small ones first.
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
        tracing::warn!("{left} tokens of MCP servers are not stored, because together they are too large");
    }
    document.extend_from_slice(b"]}");
    Ok(document)
}

#[cfg(test)]
mod tests;
