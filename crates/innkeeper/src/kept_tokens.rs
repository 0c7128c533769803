//! Where the tokens of MCP servers are kept: sealed in the data directory, with their key elsewhere (T23).

use std::path::PathBuf;
use std::sync::Arc;

use innkeeper_mcp::{McpRunner, RunnerSettings, TokenKeeper as _, Vault};

use innkeeper_cli::discovery::DataDir;
use innkeeper_cli::terminal;

/// Name of the sealed file in the data directory.
const FILE_NAME: &str = "mcp-tokens";

/// Name of the key, beside the configuration file: a copy of the data directory alone opens nothing.
pub(crate) const KEY_NAME: &str = "mcp-tokens.key";

/// What the configuration says about keeping them.
#[derive(Clone, Debug)]
pub(crate) enum Keeping {
    /// They are in memory only.
    Not,
    /// They are kept, and the key is there.
    With(PathBuf),
    /// They would be kept, but there is no place for the key.
    Nowhere,
}

/// The sealed file of a data directory.
pub(crate) fn vault(dir: &DataDir, key: PathBuf) -> Vault {
    Vault::new(dir.file(FILE_NAME), key)
}

/// Runs MCP servers, with the tokens that were kept.
pub(crate) fn runner(settings: RunnerSettings, dir: &DataDir, keeping: Keeping) -> McpRunner {
    match keeping {
        Keeping::With(key) => McpRunner::keeping(settings, Arc::new(vault(dir, key))),
        Keeping::Not => {
            // Whoever switches it off does not want to find them there.
            if let Err(error) = vault(dir, PathBuf::new()).clear() {
                terminal::warn(&format!(
                    "tokens of MCP servers that were kept cannot be removed: {} ({error})",
                    dir.file(FILE_NAME).display()
                ));
            }
            McpRunner::new(settings)
        }
        Keeping::Nowhere => {
            terminal::warn(
                "tokens of MCP servers are not kept, because there is no configuration directory for their key; set \
                 `token_key_file` in [mcp], or `keep_tokens = false`",
            );
            McpRunner::new(settings)
        }
    }
}
