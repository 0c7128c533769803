//! `[mcp.servers.NAME]`: MCP servers of the operator, which every session gets.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::path::Path;

use innkeeper_plugins::limits::MAX_NAME_CHARS;
use innkeeper_plugins::{Child, Remote, TextRange, Transport, Treatment, configured_server};
use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue};
use url::Url;

use crate::config::MCP;

/// The keys of a server: a command to run, or an address.
#[derive(Clone, Deserialize)]
#[serde(default)]
pub(crate) struct ServerSection {
    /// The program; `./` is the directory of the configuration file.
    pub(crate) command: Option<String>,
    args: Vec<String>,
    /// Environment variables besides a minimal base.
    pub(crate) env: BTreeMap<String, String>,
    /// A file with more environment variables.
    pub(super) env_file: Option<String>,
    /// The working directory; by default the session's first directory.
    cwd: Option<String>,
    /// The address.
    url: Option<String>,
    /// Headers of every request.
    headers: BTreeMap<String, String>,
    /// The transport of the address.
    #[serde(rename = "type")]
    kind: Option<TransportName>,
    /// The registered OAuth client.
    oauth_client_id: Option<String>,
    /// Whether it is enabled by default.
    pub(crate) enabled: bool,
    /// Whether every session has its own process.
    isolate: bool,
    /// The position of the section in the file (CUS-03).
    #[serde(skip)]
    range: Option<TextRange>,
}

/// Transports by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum TransportName {
    Stdio,
    Http,
    Sse,
}

impl Default for ServerSection {
    fn default() -> Self {
        Self {
            command: None,
            args: Vec::new(),
            env: BTreeMap::new(),
            env_file: None,
            cwd: None,
            url: None,
            headers: BTreeMap::new(),
            kind: None,
            oauth_client_id: None,
            enabled: true,
            isolate: false,
            range: None,
        }
    }
}

// Commands, addresses, environments and headers hold secrets (CUS-27).
impl fmt::Debug for ServerSection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { enabled, isolate, .. } = self;
        f.debug_struct("ServerSection")
            .field("enabled", enabled)
            .field("isolate", isolate)
            .finish_non_exhaustive()
    }
}

impl ServerSection {
    /// Checks the keys. The error is the problem.
    pub(super) fn check(&self, name: &str) -> Result<(), String> {
        let is_nameable = !name.trim().is_empty() && name.chars().count() <= MAX_NAME_CHARS;
        if !is_nameable || name.chars().any(char::is_control) {
            return Err(format!(
                "needs a name of 1 to {MAX_NAME_CHARS} characters, none of them invisible"
            ));
        }
        self.transport().map(drop)
    }

    /// Returns the server as sessions get it. `None` if [`Self::check`] fails.
    pub(super) fn declared(&self, file: &Path, name: &str) -> Option<Child> {
        let treatment = Treatment {
            is_isolated: self.isolate,
            is_off_at_first: !self.enabled,
        };
        let transport = self.transport().ok()?;
        Some(configured_server(file, name, self.range, transport, treatment))
    }

    fn transport(&self) -> Result<Transport, String> {
        match (&self.command, &self.url) {
            (None, None) => Err("needs a `command` to run or a `url` to reach".to_owned()),
            (Some(_), Some(_)) => Err("has both `command` and `url`; one is enough".to_owned()),
            (Some(command), None) => self.stdio(command),
            (None, Some(url)) => self.remote(url),
        }
    }

    fn stdio(&self, command: &str) -> Result<Transport, String> {
        if command.trim().is_empty() {
            return Err("has an empty `command`; name the program".to_owned());
        }
        let strangers = [
            ("headers", !self.headers.is_empty()),
            ("oauth_client_id", self.oauth_client_id.is_some()),
            ("type", self.kind.is_some_and(|kind| kind != TransportName::Stdio)),
        ];
        no_strangers(&strangers, "`url`")?;
        Ok(Transport::Stdio {
            command: command.to_owned(),
            args: self.args.clone(),
            env: self
                .env
                .iter()
                .map(|(name, value)| (name.clone(), Some(value.clone())))
                .collect(),
            env_file: self.env_file.clone(),
            cwd: self.cwd.clone(),
        })
    }

    fn remote(&self, url: &str) -> Result<Transport, String> {
        let strangers = [
            ("args", !self.args.is_empty()),
            ("env", !self.env.is_empty()),
            ("env_file", self.env_file.is_some()),
            ("cwd", self.cwd.is_some()),
            ("type", self.kind == Some(TransportName::Stdio)),
        ];
        no_strangers(&strangers, "`command`")?;
        // The value of a variable is known when the server starts.
        let is_address = || Url::parse(url).is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
        if !url.contains("${") && !is_address() {
            return Err("has a `url` that is not http or https".to_owned());
        }
        let remote = Remote {
            url: url.to_owned(),
            headers: self.headers.clone(),
            oauth_client_id: self.oauth_client_id.clone(),
        };
        Ok(match self.kind {
            Some(TransportName::Sse) => Transport::Sse(remote),
            _ => Transport::Http(remote),
        })
    }
}

/// A key without effect is a mistake: its author expects an effect.
fn no_strangers(keys: &[(&str, bool)], owner: &str) -> Result<(), String> {
    match keys.iter().find(|(_, is_there)| *is_there) {
        Some((key, _)) => Err(format!("has a `{key}` that goes only with a {owner}")),
        None => Ok(()),
    }
}

/// Returns the sections of servers in a file, with their names.
pub(in crate::config) fn sections<'a, 'i>(
    root: &'a DeTable<'i>,
) -> impl Iterator<Item = (&'a str, Range<usize>, &'a DeTable<'i>)> {
    let mcp = root.get(MCP).and_then(|mcp| mcp.get_ref().as_table());
    let servers = mcp.and_then(|mcp| mcp.get("servers")?.get_ref().as_table());
    servers.into_iter().flatten().filter_map(|(name, value)| {
        let table = value.get_ref().as_table()?;
        let start = name.span().start;
        Some((
            name.get_ref().as_ref(),
            start..end_of(value).max(name.span().end),
            table,
        ))
    })
}

/// Returns the end of a value with its nested values: the span of a table covers only its header.
fn end_of(value: &Spanned<DeValue<'_>>) -> usize {
    let inside = value.get_ref().as_table().into_iter().flatten();
    let ends = inside.map(|(_, value)| end_of(value));
    ends.chain([value.span().end]).max().unwrap_or_default()
}

/// Remembers the position of each server in the file.
pub(super) fn locate(servers: &mut BTreeMap<String, ServerSection>, root: &DeTable<'_>, text: &str) {
    for (name, span, _) in sections(root) {
        if let Some(server) = servers.get_mut(name) {
            server.range = Some(TextRange::of(text, span));
        }
    }
}
