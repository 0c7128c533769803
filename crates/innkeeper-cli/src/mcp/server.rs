//! MCP servers of a session as text.

use ahp_types::state::{
    ChildCustomization, Customization, CustomizationLoadState, CustomizationType, McpAuthRequiredReason,
    McpServerAuthRequiredState, McpServerCustomization, McpServerState, SessionState,
};
use serde_json::{Value, json};

use crate::failure::{Failure, Kind};
use crate::terminal::one_line;

use crate::enablement::{Decision, decided};
use crate::send::plugin_name;
use crate::terminal::NextCommand;

/// Longest line about a server, in characters.
const MOST: usize = 1000;

/// Keys that the host adds in `_meta` of a server. The number of tools that models may call.
const TOOLS: &str = "innkeeper.tools";
/// The tools that cannot be called, because they need MCP tasks.
const TASK_TOOLS: &str = "innkeeper.taskTools";
/// The resource of its token, if it has one.
const RESOURCE: &str = "innkeeper.resource";
/// Whether the token outlives the client that sent it.
const KEPT: &str = "innkeeper.tokenKept";

/// The error types after which a restart may help.
const STARTED_ANEW: [&str; 2] = ["mcpServerFailed", "mcpServerNotStarted"];

/// A server of a session.
pub(super) struct ListedServer<'a> {
    pub(super) server: &'a McpServerCustomization,
    container: Option<Container<'a>>,
    /// The decision that disabled it or its container.
    off: Option<Decision>,
}

/// Whether the session still exists when the user follows the advice.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SessionLifetime {
    /// The user works in it.
    Persistent,
    /// The session is temporary.
    Temporary,
}

/// The container of a server.
struct Container<'a> {
    kind: &'static str,
    name: &'a str,
    uri: &'a str,
}

/// Returns the servers of a session, in its order.
pub(super) fn listed(state: &SessionState) -> Vec<ListedServer<'_>> {
    let decisions = decided(state);
    let off = |ids: [Option<&str>; 2]| {
        let mut switches = ids.into_iter().flatten().filter_map(|id| decisions.get(id));
        switches.find(|switch| !switch.is_on).cloned()
    };
    let mut servers = Vec::new();
    for entry in state.customizations.iter().flatten() {
        let (id, children, container) = match entry {
            Customization::McpServer(server) => {
                servers.push(ListedServer {
                    server,
                    container: None,
                    off: off([Some(&server.id), None]),
                });
                continue;
            }
            Customization::Plugin(plugin) => {
                let (name, uri) = (plugin_name(plugin), plugin.uri.as_str());
                let kind = "plugin";
                (&plugin.id, plugin.children.as_deref(), Container { kind, name, uri })
            }
            Customization::Directory(directory) => {
                let (name, uri) = (directory.name.as_str(), directory.uri.as_str());
                let kind = "directory";
                (
                    &directory.id,
                    directory.children.as_deref(),
                    Container { kind, name, uri },
                )
            }
            Customization::Unknown(_) => continue,
        };
        for child in children.unwrap_or_default() {
            if let ChildCustomization::McpServer(server) = child {
                let Container { kind, name, uri } = container;
                servers.push(ListedServer {
                    server,
                    container: Some(Container { kind, name, uri }),
                    off: off([Some(&server.id), Some(id)]),
                });
            }
        }
    }
    servers
}

/// Returns the errors in files that declare servers, with their paths.
pub(super) fn broken(state: &SessionState) -> Vec<String> {
    let entries = state.customizations.iter().flatten();
    let problems = entries.filter_map(|entry| {
        let Customization::Directory(directory) = entry else {
            return None;
        };
        if directory.contents != CustomizationType::McpServer {
            return None;
        }
        let message = match directory.load.as_ref()? {
            CustomizationLoadState::Degraded(load) => &load.message,
            CustomizationLoadState::Error(load) => &load.message,
            CustomizationLoadState::Loading(_) | CustomizationLoadState::Loaded(_) => return None,
        };
        let uri = one_line(&directory.uri, 500);
        Some(format!("{uri}: {}", one_line(message, MOST)))
    });
    problems.collect()
}

/// Finds a server by its name, its `plugin:name` or its id.
pub(super) fn find<'a>(state: &'a SessionState, wanted: &str) -> Result<Option<ListedServer<'a>>, Failure> {
    let fits = |listed: &ListedServer<'_>| listed.is_called(wanted);
    let mut fitting: Vec<ListedServer<'_>> = listed(state).into_iter().filter(fits).collect();
    if let Some(exact) = fitting.iter().position(|listed| listed.server.id == wanted) {
        return Ok(Some(fitting.swap_remove(exact)));
    }
    if fitting.len() > 1 {
        let ids: Vec<String> = fitting.iter().map(|listed| one_line(&listed.server.id, 200)).collect();
        let message = format!("{} servers are called {}", ids.len(), one_line(wanted, 200));
        return Err(Failure::new(Kind::Usage, message).hint(format!("name one by its id: {}", ids.join(", "))));
    }
    Ok(fitting.pop())
}

/// Returns a failure that lists the servers.
pub(super) fn no_server(state: &SessionState, wanted: &str) -> Failure {
    let message = format!("the session has no MCP server {}", one_line(wanted, 200));
    let failure = Failure::new(Kind::Rejected, message);
    let known: Vec<String> = listed(state)
        .iter()
        .map(|listed| one_line(&listed.server.name, 100))
        .collect();
    match known.is_empty() {
        true => failure.hint("it has none; .mcp.json of the working directory declares some"),
        false => failure.hint(format!("it has: {}", known.join(", "))),
    }
}

impl ListedServer<'_> {
    fn is_called(&self, wanted: &str) -> bool {
        let with_container = || {
            let (container, name) = wanted.split_once(':')?;
            Some(self.container.as_ref()?.name == container && self.server.name == name)
        };
        self.server.id == wanted || self.server.name == wanted || with_container().unwrap_or_default()
    }

    /// Returns whether the server is enabled but stopped: a user stopped it, or it is about to start.
    pub(super) fn is_at_rest(&self) -> bool {
        self.off.is_none() && matches!(self.server.state, McpServerState::Stopped(_))
    }

    /// Returns whether it starts.
    pub(super) fn is_starting(&self) -> bool {
        matches!(self.server.state, McpServerState::Starting(_))
    }

    /// Returns the number of tools, if the host knows it.
    fn tools(&self) -> Option<u64> {
        self.server.meta.as_ref()?.get(TOOLS)?.as_u64()
    }

    /// Describes the tools that cannot be called.
    fn task_tools(&self) -> Option<String> {
        let named = self.server.meta.as_ref()?.get(TASK_TOOLS)?.as_array()?;
        let names: Vec<&str> = named.iter().filter_map(Value::as_str).collect();
        let names = one_line(&names.join(", "), MOST);
        Some(format!("not offered, because they need MCP tasks: {names}"))
    }

    /// Returns the resource of its token, if it has one.
    pub(super) fn resource(&self) -> Option<&str> {
        self.server.meta.as_ref()?.get(RESOURCE)?.as_str()
    }

    /// Returns whether the host drops the token soon after its client disconnects.
    pub(super) fn forgets_token(&self) -> bool {
        let kept = self.server.meta.as_ref().and_then(|meta| meta.get(KEPT));
        kept.and_then(Value::as_bool) == Some(false)
    }

    /// Returns the server as JSON.
    pub(super) fn json(&self, session: &str) -> Value {
        let container = self.container.as_ref();
        let container = container.map(|of| json!({ "type": of.kind, "name": of.name, "uri": of.uri }));
        json!({ "session": session, "container": container, "enabled": self.off.is_none(), "server": self.server })
    }

    /// Returns a line with the status, and lines with origin, reason and advice.
    pub(super) fn in_words(&self, lifetime: SessionLifetime, again: &NextCommand) -> Vec<String> {
        let name = one_line(&self.server.name, 100);
        let mut lines = vec![match &self.off {
            Some(off) => format!("{name}: off, {}", off.by),
            None => match (&self.server.state, self.tools()) {
                (McpServerState::Ready(_), Some(1)) => format!("{name}: ready, 1 tool"),
                (McpServerState::Ready(_), Some(tools)) => format!("{name}: ready, {tools} tools"),
                (state, _) => format!("{name}: {}", in_a_word(state)),
            },
        }];
        lines.push(match &self.container {
            Some(of) => format!(
                "  from the {} {} ({})",
                of.kind,
                one_line(of.name, 100),
                one_line(of.uri, 500)
            ),
            None => format!("  from {}", one_line(&self.server.uri, 500)),
        });
        if self.off.is_none() {
            let is_ready = matches!(self.server.state, McpServerState::Ready(_));
            let task_tools = self.task_tools().filter(|_| is_ready);
            let said = [
                task_tools,
                why(&self.server.state),
                advice(self.server, lifetime, again),
            ];
            lines.extend(said.into_iter().flatten().map(|line| format!("  {line}")));
        }
        lines
    }

    /// Returns why it does not run, as a failure.
    pub(super) fn failure(&self) -> Option<Failure> {
        self.failure_in(SessionLifetime::Persistent, &NextCommand::plain())
    }

    /// Returns why it does not run, with advice for this host.
    pub(super) fn failure_in(&self, lifetime: SessionLifetime, again: &NextCommand) -> Option<Failure> {
        let name = one_line(&self.server.name, 100);
        if let Some(off) = &self.off {
            let message = format!("{name} is switched off {}", off.by);
            return Some(Failure::new(Kind::Unexpected, message).hint("switch it on in your client first"));
        }
        let state = &self.server.state;
        if matches!(state, McpServerState::Ready(_)) {
            return None;
        }
        let message = match why(state) {
            Some(why) => format!("{name}: {}: {why}", in_a_word(state)),
            None => format!("{name}: {}", in_a_word(state)),
        };
        let failure = Failure::new(Kind::Unexpected, message);
        Some(match advice(self.server, lifetime, again) {
            Some(advice) => failure.hint(advice),
            None => failure,
        })
    }
}

fn in_a_word(state: &McpServerState) -> &'static str {
    match state {
        McpServerState::Starting(_) => "starting",
        McpServerState::Ready(_) => "ready",
        McpServerState::AuthRequired(_) => "needs a sign-in",
        McpServerState::Error(_) => "failed",
        McpServerState::Stopped(_) => "stopped",
        McpServerState::Unknown(_) => "in a state that this program does not know",
    }
}

fn why(state: &McpServerState) -> Option<String> {
    match state {
        McpServerState::Error(error) => Some(one_line(&error.error.message, MOST)),
        McpServerState::AuthRequired(auth) => Some(sign_in(auth)),
        _ => None,
    }
}

/// Describes the required sign-in (MCP-07).
fn sign_in(auth: &McpServerAuthRequiredState) -> String {
    let resource = &auth.resource;
    let name = resource.resource_name.as_deref().unwrap_or(&resource.resource);
    let mut words = format!("{}, to {name}", reason(&auth.reason));
    let servers = resource.authorization_servers.as_deref().unwrap_or_default();
    if !servers.is_empty() {
        words.push_str(&format!(" at {}", servers.join(" or ")));
    }
    let scopes = auth.required_scopes.as_deref().unwrap_or_default();
    if !scopes.is_empty() {
        words.push_str(&format!(" for {}", scopes.join(" ")));
    }
    if let Some(description) = &auth.description {
        words.push_str(&format!(" ({description})"));
    }
    one_line(&words, MOST)
}

fn reason(reason: &McpAuthRequiredReason) -> &'static str {
    match reason {
        McpAuthRequiredReason::Required => "not signed in",
        McpAuthRequiredReason::Expired => "the sign-in has expired",
        McpAuthRequiredReason::InsufficientScope => "the sign-in does not grant enough",
        McpAuthRequiredReason::Unknown(_) => "a sign-in is needed",
    }
}

/// Returns the advice. Errors that the user must fix first have their own.
fn advice(server: &McpServerCustomization, lifetime: SessionLifetime, again: &NextCommand) -> Option<String> {
    let name = one_line(&server.name, 100);
    match &server.state {
        McpServerState::AuthRequired(_) => Some(format!("sign in with: {}", again.command("mcp auth", &name))),
        // A temporary session has no server to start.
        _ if lifetime == SessionLifetime::Temporary => None,
        McpServerState::Stopped(_) => Some(format!("start it with: {}", again.command("mcp start", &name))),
        McpServerState::Error(state) if STARTED_ANEW.contains(&state.error.error_type.as_str()) => {
            Some(format!("try it again with: {}", again.command("mcp start", &name)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(id: &str, name: &str, state: Value) -> Value {
        json!({ "type": "mcpServer", "id": id, "uri": "file:///w/.mcp.json", "name": name, "state": state })
    }

    fn state(customizations: Value) -> SessionState {
        serde_json::from_value(json!({
            "provider": "tour", "title": "", "status": 0, "lifecycle": "ready", "activeClients": [], "chats": [],
            "customizations": customizations,
        }))
        .unwrap()
    }

    #[test]
    fn a_required_sign_in_shows_server_and_scopes() {
        let resource = json!({
            "resource": "https://mcp.example/", "resource_name": "Notes",
            "authorization_servers": ["https://login.example"],
        });
        let auth = json!({
            "kind": "authRequired", "reason": "insufficientScope", "resource": resource,
            "requiredScopes": ["read", "write"], "description": "more \u{1b}[2J",
        });
        let state = state(json!([server("1", "notes", auth)]));
        let again = NextCommand::plain();
        let lines = find(&state, "notes")
            .unwrap()
            .unwrap()
            .in_words(SessionLifetime::Temporary, &again);
        let expected = [
            "notes: needs a sign-in",
            "  from file:///w/.mcp.json",
            "  the sign-in does not grant enough, to Notes at https://login.example for read write (more \\u{1b}[2J)",
            "  sign in with: innkeeper mcp auth notes",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn a_failed_server_shows_how_to_restart_it() {
        let here = NextCommand::with("--data /srv/inn");
        let failed = |kind: &str, lifetime: SessionLifetime| {
            let error = json!({ "errorType": kind, "message": "it ended" });
            let state = state(json!([server(
                "1",
                "notes",
                json!({ "kind": "error", "error": error })
            )]));
            find(&state, "notes")
                .unwrap()
                .unwrap()
                .in_words(lifetime, &here)
                .split_off(2)
        };
        let expected = [
            "  it ended",
            "  try it again with: innkeeper mcp start --data /srv/inn notes",
        ];
        assert_eq!(failed("mcpServerFailed", SessionLifetime::Persistent), expected);
        assert_eq!(failed("mcpServerFailed", SessionLifetime::Temporary), ["  it ended"]);
        assert_eq!(
            failed("notTrusted", SessionLifetime::Persistent),
            ["  it ended"],
            "which says itself what to do"
        );
    }

    #[test]
    fn a_server_of_a_disabled_plugin_shows_only_that() {
        let plugin = json!({
            "type": "plugin", "id": "p", "uri": "file:///p", "name": "tools",
            "enablement": [{ "kind": "global", "enabled": false }],
            "children": [server("1", "notes", json!({ "kind": "stopped" }))],
        });
        let state = state(json!([plugin]));
        let found = find(&state, "tools:notes").unwrap().unwrap();
        assert_eq!(
            found.in_words(SessionLifetime::Persistent, &NextCommand::plain()),
            ["notes: off, everywhere", "  from the plugin tools (file:///p)"]
        );
        assert!(!found.is_at_rest());
        assert_eq!(found.json("s")["enabled"], false);
        assert!(found.failure().unwrap().to_string().contains("switched off everywhere"));
    }

    #[test]
    fn a_ready_server_shows_its_number_of_tools() {
        let mut ready = server("1", "notes", json!({ "kind": "ready" }));
        let first_line = |server: &Value| {
            let state = state(json!([server]));
            let found = find(&state, "notes").unwrap().unwrap();
            found
                .in_words(SessionLifetime::Persistent, &NextCommand::plain())
                .swap_remove(0)
        };
        assert_eq!(first_line(&ready), "notes: ready");
        ready["_meta"] = json!({ "innkeeper.tools": 1 });
        assert_eq!(first_line(&ready), "notes: ready, 1 tool");
        ready["_meta"] = json!({ "innkeeper.tools": 12, "innkeeper.resource": "https://mcp.example" });
        assert_eq!(first_line(&ready), "notes: ready, 12 tools");
        ready["state"]["kind"] = json!("stopped");
        assert_eq!(first_line(&ready), "notes: stopped");
    }

    #[test]
    fn tools_that_cannot_be_called_are_named() {
        let mut notes = server("1", "notes", json!({ "kind": "ready" }));
        notes["_meta"] = json!({ "innkeeper.tools": 2, "innkeeper.taskTools": ["research", "a\u{1b}[31mb"] });
        let lines = |server: &Value| {
            let state = state(json!([server]));
            listed(&state)[0].in_words(SessionLifetime::Persistent, &NextCommand::plain())
        };
        let said = lines(&notes).join("\n");
        assert!(
            said.contains("not offered, because they need MCP tasks: research, a"),
            "{said}"
        );
        assert!(!said.contains('\u{1b}'), "{said:?}");
        notes["state"]["kind"] = json!("stopped");
        let said = lines(&notes).join("\n");
        assert!(!said.contains("research"), "{said}");
    }

    #[test]
    fn servers_with_one_name_are_selected_by_id() {
        let ready = || json!({ "kind": "ready" });
        let state = state(json!([server("1", "notes", ready()), server("2", "notes", ready())]));
        let failure = find(&state, "notes").err().unwrap();
        assert!(failure.to_string().contains("1, 2"), "{failure}");
        assert_eq!(find(&state, "2").unwrap().unwrap().server.id, "2");
        assert!(find(&state, "other").unwrap().is_none());
    }

    #[test]
    fn a_file_that_cannot_be_read_is_named_with_the_reason() {
        let directory = |load: Value| {
            json!({
                "type": "directory", "id": "d", "uri": "file:///w", "name": "w", "enabled": true,
                "contents": "mcpServer", "writable": false, "children": [], "load": load,
            })
        };
        let message = ".mcp.json: expected a comma";
        let entries = json!([
            directory(json!({ "kind": "error", "message": message })),
            directory(json!({ "kind": "loaded" })),
        ]);
        assert_eq!(broken(&state(entries)), [format!("file:///w: {message}")]);
    }
}
