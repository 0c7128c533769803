//! Declares how the MCP servers of a session are started, and whether the user allows it.
//!
//! A server of a workspace or of a client's plugin starts only after the user allowed exactly the command that it runs
//! or the address that it connects to (P12, T14).

mod permission;
mod question;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use innkeeper_host::mcp::{Permission, Remote, ServerDeclaration, StartPermission, Transport};
use innkeeper_plugins::{Child, Component, Container, Format, McpServer, Transport as McpTransport};
use sha2::{Digest as _, Sha256};

use self::permission::{Foreign, OriginPermission};
use crate::discovered::{Discovered, DiscoveredContainer, Origin};
use crate::hooks::{NO_BYTECODE, Words, runs_from};
use crate::set::about;
use crate::trust::{Subject, TrustFile, TrustKind};

/// Settings for starting servers, the same for all sessions.
#[derive(Debug, Clone)]
pub struct ServerSettings {
    /// The file with the users' decisions.
    pub trust: Arc<TrustFile>,
    /// The data directory of plugins: each has a directory below, the value of `${PLUGIN_DATA}`.
    pub data: PathBuf,
}

/// Returns the declarations of a session's servers, in the order in which they are published.
pub(crate) fn declarations(discovered: &Discovered, settings: &ServerSettings) -> Vec<Arc<ServerDeclaration>> {
    let found: Vec<(&DiscoveredContainer, &Child, &McpServer)> =
        discovered.containers.iter().flat_map(servers_of).collect();
    // The user decides about all servers of one origin together, as with hooks.
    let mut permissions: BTreeMap<Subject, Arc<OriginPermission>> = BTreeMap::new();
    let mut declared = Vec::new();
    for (part, child, server) in &found {
        let permission = part.origin().subject(TrustKind::McpServer).map(|subject| {
            let asked = permissions.entry(subject.clone()).or_insert_with(|| {
                let of_subject = found.iter().filter(|(part, ..)| {
                    let its_subject = part.origin().subject(TrustKind::McpServer);
                    its_subject.as_ref() == Some(&subject)
                });
                let all = of_subject.map(|(part, child, server)| Foreign::new(part, child, server));
                let all = all.collect();
                Arc::new(OriginPermission::new(subject, all, Arc::clone(&settings.trust)))
            });
            Arc::clone(asked) as Arc<dyn StartPermission>
        });
        declared.push(Arc::new(ServerDeclaration {
            about: about(part, child),
            transport: transport(&server.transport, &part.root(), part.origin(), starts_at_root(part)),
            variables: variables(discovered, part, settings),
            is_trusted: part.origin().is_own(),
            is_isolated: server.treatment.is_isolated,
            permission: Permission(permission),
        }));
    }
    declared
}

fn servers_of(part: &DiscoveredContainer) -> Vec<(&DiscoveredContainer, &Child, &McpServer)> {
    let alone = match part.entry() {
        Container::McpServer(child) => Some(child),
        Container::Plugin(_) | Container::Directory(_) => None,
    };
    let children = alone.into_iter().chain(part.entry().children());
    let servers = children.filter_map(|child| match &child.component {
        Component::McpServer(server) => Some((part, child, server)),
        _ => None,
    });
    servers.collect()
}

/// Whether a process runs in the root of its container by default, as Agent Plugins define it.
fn starts_at_root(part: &DiscoveredContainer) -> bool {
    matches!(part.entry(), Container::Plugin(plugin) if plugin.format == Some(Format::AgentPlugin))
}

fn transport(found: &McpTransport, root: &Path, origin: &Origin, starts_at_root: bool) -> Transport {
    let remote = |remote: &innkeeper_plugins::Remote| Remote {
        url: remote.url.clone(),
        headers: remote.headers.clone(),
        oauth_client_id: remote.oauth_client_id.clone(),
    };
    match found {
        McpTransport::Stdio {
            command,
            args,
            env,
            env_file,
            cwd,
        } => Transport::Stdio {
            // A relative path is relative to the file; a bare name is searched in `PATH`.
            command: match command.starts_with("./") || command.starts_with("../") {
                true => root.join(command).to_string_lossy().into_owned(),
                false => command.clone(),
            },
            args: args.clone(),
            env: environment(env, origin),
            env_file: env_file.as_deref().map(|file| from(root, file)),
            cwd: match (cwd.as_deref(), origin) {
                (Some(cwd), _) => Some(from(root, cwd)),
                (None, _) if starts_at_root => Some(root.to_owned()),
                // The user trusted files of that workspace, and not of the session's first one (P12).
                (None, Origin::Workspace(workspace)) => Some(workspace.to_path_buf()),
                (None, origin) if origin.is_of_client() && runs_own_file(root, command, args) => Some(root.to_owned()),
                (None, _) => None,
            },
        },
        McpTransport::Http(address) => Transport::Http(remote(address)),
        McpTransport::Sse(address) => Transport::Sse(remote(address)),
    }
}

/// Whether a server of a plugin runs a file that it names by its path in the plugin. Then that file runs, which the
/// user trusted, and no file of the same name in the session's directory (P12).
fn runs_own_file(root: &Path, command: &str, args: &[String]) -> bool {
    let mut words = Words::default();
    words.program(std::iter::once(command).chain(args.iter().map(String::as_str)));
    runs_from(root, &words)
}

fn environment(declared: &BTreeMap<String, Option<String>>, origin: &Origin) -> BTreeMap<String, Option<String>> {
    let mut environment = declared.clone();
    if origin.is_of_client() {
        // All files of its plugin count for trust (P12), so a cache that Python writes beside them would cause a
        // question.
        let none = || Some("1".to_owned());
        environment.entry(NO_BYTECODE.to_owned()).or_insert_with(none);
    }
    environment
}

/// Resolves a path against a directory, unless it begins with a variable.
fn from(root: &Path, path: &str) -> PathBuf {
    match path.starts_with("${") {
        true => PathBuf::from(path),
        false => root.join(path),
    }
}

/// Variables for `${…}` besides the environment.
fn variables(
    discovered: &Discovered,
    part: &DiscoveredContainer,
    settings: &ServerSettings,
) -> BTreeMap<String, String> {
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let mut variables = BTreeMap::new();
    let mut add = |name: &str, value: String| variables.insert(name.to_owned(), value);
    let primary = discovered.working_directories.first();
    if let Some(workspace) = part.origin().workspace().or_else(|| primary.map(PathBuf::as_path)) {
        add("workspaceFolder", text(workspace));
        add("CLAUDE_PROJECT_DIR", text(workspace));
    }
    if let Container::Plugin(plugin) = part.entry() {
        let root = part.root();
        add("PLUGIN_ROOT", text(&root));
        // Agent Plugins define the other name only.
        if plugin.format != Some(Format::AgentPlugin) {
            add("CLAUDE_PLUGIN_ROOT", text(&root));
        }
        let digest = Sha256::digest(plugin.id.as_bytes());
        let name: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        add("PLUGIN_DATA", text(&settings.data.join(name)));
    }
    variables
}
