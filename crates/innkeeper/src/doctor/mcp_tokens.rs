//! Checks whether the persisted tokens of MCP servers can be read, and names their resources. It prints no secret.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use crate::config::ConfigFile;
use crate::mcp_tokens::{TokenPersistence, vault};
use innkeeper_cli::discovery::DataDir;

use super::report::Report;

const SUBJECT: &str = "MCP sign-ins";

/// Maximum resources that are named.
const NAMED: usize = 8;

pub(super) fn check(dir: &DataDir, config: &ConfigFile, report: &mut Report) {
    let key = match config.token_persistence() {
        TokenPersistence::Encrypted(key) => key,
        TokenPersistence::Off => return report.ok(SUBJECT, "not persisted, as configured"),
        TokenPersistence::NoKeyFile => {
            let advice = "set `token_key_file` in [mcp], or `keep_tokens = false`";
            return report.warn(SUBJECT, "there is no directory for the key that encrypts them", advice);
        }
    };
    private(&key, dir.path(), report);
    match vault(dir, key).read() {
        Ok(tokens) if tokens.is_empty() => report.ok(SUBJECT, "none are persisted"),
        Ok(tokens) => {
            let mut names: Vec<&str> = tokens.iter().map(|token| token.resource.as_str()).collect();
            names.sort_unstable();
            let more = match names.len().saturating_sub(NAMED) {
                0 => String::new(),
                more => format!(", and {more} more"),
            };
            names.truncate(NAMED);
            let text = format!("{} persisted, for {}{more}", tokens.len(), names.join(", "));
            report.ok(SUBJECT, text);
        }
        Err(trouble) => report.warn(
            SUBJECT,
            trouble.to_string(),
            "restore what is missing, or sign in to those servers again, which replaces it; a key that is none has \
             to be removed first",
        ),
    }
}

fn private(key: &Path, data: &Path, report: &mut Report) {
    let Ok(found) = fs::metadata(key) else {
        return;
    };
    let shown = key.display();
    if found.mode() & 0o077 != 0 {
        report.warn(
            SUBJECT,
            format!("other users can read the key file of the stored tokens, {shown}"),
            format!("run `chmod 600 {shown}`, and remove it if another user may have read it; a new sign-in is then required"),
        );
    }
    if key.starts_with(data) {
        report.warn(
            SUBJECT,
            format!("the key of the persisted tokens, {shown}, is in the data directory, so every copy of the directory can be read"),
            "set `token_key_file` in [mcp] to a file elsewhere, and move the key there",
        );
    }
}
