//! Persists the tokens of MCP servers: encrypted in the data directory, with the key elsewhere (T23).

use std::path::PathBuf;
use std::sync::Arc;

use innkeeper_mcp::{McpRunner, RunnerSettings, TokenKeeper as _, Vault};

use innkeeper_cli::discovery::DataDir;
use innkeeper_cli::terminal;

/// Name of the encrypted file in the data directory.
const FILE_NAME: &str = "mcp-tokens";

/// Name of the key file, beside the configuration file: a copy of the data directory alone is useless.
pub(crate) const KEY_NAME: &str = "mcp-tokens.key";

/// Whether tokens are persisted.
#[derive(Clone, Debug)]
pub(crate) enum TokenPersistence {
    /// Tokens are in memory only.
    Off,
    /// Tokens are persisted, and this is the key file.
    Encrypted(PathBuf),
    /// Tokens would be persisted, but there is no path for the key.
    NoKeyFile,
}

/// Returns the encrypted file of a data directory.
pub(crate) fn vault(dir: &DataDir, key: PathBuf) -> Vault {
    Vault::new(dir.file(FILE_NAME), key)
}

/// Returns the runner of MCP servers, with the persisted tokens.
pub(crate) fn runner(settings: RunnerSettings, dir: &DataDir, persistence: TokenPersistence) -> McpRunner {
    match persistence {
        TokenPersistence::Encrypted(key) => McpRunner::keeping(settings, Arc::new(vault(dir, key))),
        TokenPersistence::Off => {
            // A user who switches it off wants no tokens on disk.
            if let Err(error) = vault(dir, PathBuf::new()).clear() {
                terminal::warn(&format!(
                    "persisted tokens of MCP servers cannot be removed: {} ({error})",
                    dir.file(FILE_NAME).display()
                ));
            }
            McpRunner::new(settings)
        }
        TokenPersistence::NoKeyFile => {
            terminal::warn(
                "tokens of MCP servers are not persisted, because there is no configuration directory for their key; set \
                 `token_key_file` in [mcp], or `keep_tokens = false`",
            );
            McpRunner::new(settings)
        }
    }
}
