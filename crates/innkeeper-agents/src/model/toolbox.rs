//! The tools that the model may call in one turn: the host's, the agent's own, and those of MCP servers and clients.

pub(in crate::model) mod agent_tools;
mod partial_json;
mod schema;

use std::collections::HashSet;
use std::sync::Arc;

use innkeeper_host::agent::{ClientDraft, ClientTool, ToolDraft, ToolInfo, ToolResult};
use innkeeper_host::mcp::{McpDraft, McpTool};
use innkeeper_host::{AgentError, EventSink};

use serde_json::Value;

use self::agent_tools::AgentTool;
use super::api::ToolSpec;
use super::customizations::ToolSelection;
use crate::tools::HostTool;

/// Maximum length of a tool name that all providers accept.
const MAX_NAME: usize = 64;

/// Maximum number of tools that all providers accept.
const MAX_TOOLS: usize = 128;
/// Maximum bytes of the definitions of all client tools, and of all MCP tools. They are part of every request.
const MAX_CLIENT_BYTES: usize = 128 << 10;

/// All tools of a turn. Names are unique.
#[derive(Clone, Default)]
pub(super) struct Toolbox {
    offered: Vec<(ToolSpec, ToolSource)>,
    /// Names of client and MCP tools that cannot be offered.
    left_out: Vec<String>,
}

/// The implementation behind a tool.
#[derive(Clone)]
pub(super) enum ToolSource {
    /// A tool of the host.
    Host(Arc<dyn HostTool>),
    /// A tool of the agent itself.
    Own(AgentTool),
    /// A tool of an MCP server.
    Mcp(Box<McpTool>),
    /// A tool of a client.
    Client(ClientTool),
}

/// A call whose input is being streamed.
pub(super) enum CallDraft {
    Host(ToolDraft, Arc<dyn HostTool>),
    Own(ToolDraft, AgentTool),
    Mcp(Box<McpDraft>),
    Client(ClientDraft),
    /// The model called a tool that does not exist.
    Unknown(ToolDraft),
}

impl std::fmt::Debug for CallDraft {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Host(..) => "CallDraft::Host",
            Self::Own(..) => "CallDraft::Own",
            Self::Mcp(..) => "CallDraft::Mcp",
            Self::Client(..) => "CallDraft::Client",
            Self::Unknown(..) => "CallDraft::Unknown",
        })
    }
}

impl Toolbox {
    /// Collects the tools of a turn. Client and MCP tools come last and are renamed if their names are taken
    /// (ACT-04).
    pub(super) fn new(
        host: &[Arc<dyn HostTool>],
        own: Vec<(ToolSpec, AgentTool)>,
        servers: &[McpTool],
        clients: &[ClientTool],
    ) -> Self {
        let mut offered: Vec<(ToolSpec, ToolSource)> = Vec::new();
        offered.extend(
            host.iter()
                .map(|tool| (tool.spec(), ToolSource::Host(Arc::clone(tool)))),
        );
        offered.extend(own.into_iter().map(|(spec, tool)| (spec, ToolSource::Own(tool))));
        let names = offered.iter().map(|(spec, _)| spec.name.clone()).collect();
        let left_out = Vec::new();
        let mut adding = ToolboxBuilder {
            names,
            toolbox: Self { offered, left_out },
        };
        let of_servers = servers.iter().map(|tool| {
            let description = [&tool.description, &tool.title];
            let schema = Some(&tool.input_schema);
            (
                tool.name.as_str(),
                description,
                schema,
                ToolSource::Mcp(Box::new(tool.clone())),
            )
        });
        adding.all(of_servers);
        let of_clients = clients.iter().map(|tool| {
            let description = [&tool.description, &tool.title];
            let schema = tool.input_schema.as_ref();
            (
                tool.name.as_str(),
                description,
                schema,
                ToolSource::Client(tool.clone()),
            )
        });
        adding.all(of_clients);
        adding.toolbox
    }

    /// Restricts the tools to a list in the notation of any supported product. An empty list restricts nothing
    /// (CUS-25).
    pub(super) fn restrict_to(&mut self, wanted: &[String]) -> ToolSelection {
        if wanted.is_empty() {
            return ToolSelection::default();
        }
        let offered = self.offered.iter().map(|(spec, tool)| {
            let of_server = match tool {
                ToolSource::Mcp(tool) => Some(tool.of_server()),
                ToolSource::Host(_) | ToolSource::Own(_) | ToolSource::Client(_) => None,
            };
            (spec.name.clone(), of_server)
        });
        let selection = ToolSelection::select(&offered.collect::<Vec<_>>(), wanted);
        self.offered.retain(|(spec, _)| selection.names.contains(&spec.name));
        selection
    }

    /// Notice about tools that the model is not offered.
    pub(super) fn left_out_notice(&self) -> Option<String> {
        let first: Vec<String> = self
            .left_out
            .iter()
            .take(3)
            .map(|name| provider_safe_name(name))
            .collect();
        let more = match self.left_out.len().checked_sub(first.len())? {
            0 if first.is_empty() => return None,
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        Some(format!(
            "The model is not offered {}{more}: a request has at most {MAX_TOOLS} tools, {} KiB of client tool definitions and as much of MCP tool definitions, and only tools whose input is an object.",
            first.join(", "),
            MAX_CLIENT_BYTES >> 10
        ))
    }

    /// Describes the tools for clients.
    pub(super) fn infos(self) -> Vec<ToolInfo> {
        let info = |(spec, tool): (ToolSpec, ToolSource)| ToolInfo {
            name: spec.name,
            title: match tool {
                ToolSource::Host(tool) => Some(tool.title().to_owned()),
                ToolSource::Own(tool) => Some(tool.title().to_owned()),
                ToolSource::Mcp(tool) => tool.title,
                ToolSource::Client(tool) => tool.title,
            },
            description: Some(spec.description).filter(|description| !description.is_empty()),
            input_schema: Some(spec.input_schema),
        };
        self.offered.into_iter().map(info).collect()
    }

    /// Returns the definitions for the model.
    pub(super) fn specs(&self) -> Vec<ToolSpec> {
        self.offered.iter().map(|(spec, _)| spec.clone()).collect()
    }

    /// Starts the call that the model begins to write.
    pub(super) async fn begin(&self, events: &EventSink, name: &str) -> Result<CallDraft, AgentError> {
        let found = self.offered.iter().find(|(spec, _)| spec.name == name);
        Ok(match found {
            Some((_, ToolSource::Host(tool))) => {
                let call = events.tool(name).display_name(tool.title());
                let call = match tool.kind() {
                    Some(kind) => call.kind(kind),
                    None => call,
                };
                CallDraft::Host(call.start().await?, Arc::clone(tool))
            }
            Some((_, ToolSource::Own(tool))) => {
                let draft = events.tool(name).display_name(tool.title()).start().await?;
                CallDraft::Own(draft, *tool)
            }
            Some((_, ToolSource::Mcp(tool))) => CallDraft::Mcp(Box::new(events.mcp_tool(tool).start().await?)),
            Some((_, ToolSource::Client(tool))) => CallDraft::Client(events.client_tool(tool).start().await?),
            None => {
                let shown: String = name.chars().take(MAX_NAME).collect();
                let draft = events.tool("unknown_tool").display_name(shown).start().await?;
                CallDraft::Unknown(draft)
            }
        })
    }

    /// Returns true if there is a tool of this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.offered.iter().any(|(spec, _)| spec.name == name)
    }

    /// Returns all names, for error messages.
    pub(super) fn names(&self) -> String {
        let names: Vec<&str> = self.offered.iter().map(|(spec, _)| spec.name.as_str()).collect();
        names.join(", ")
    }
}

/// Adds client and MCP tools to a toolbox.
struct ToolboxBuilder {
    names: HashSet<String>,
    toolbox: Toolbox,
}

/// A client or MCP tool: name, candidates for its description, input schema, implementation.
type ExternalTool<'a> = (&'a str, [&'a Option<String>; 2], Option<&'a Value>, ToolSource);

impl ToolboxBuilder {
    /// Adds the tools that all providers accept, up to the size limit.
    fn all<'a>(&mut self, tools: impl Iterator<Item = ExternalTool<'a>>) {
        let mut remaining = MAX_CLIENT_BYTES;
        for (given_name, description, schema, tool) in tools {
            let name = unique(given_name, &self.names);
            let Some(input_schema) = schema::normalize(schema) else {
                self.toolbox.left_out.push(given_name.to_owned());
                continue;
            };
            let description = description.into_iter().flatten().next();
            let spec = ToolSpec {
                name: name.clone(),
                description: description.cloned().unwrap_or_default(),
                input_schema,
            };
            let bytes = spec.description.len() + spec.input_schema.to_string().len();
            if self.toolbox.offered.len() >= MAX_TOOLS || bytes > remaining {
                self.toolbox.left_out.push(given_name.to_owned());
                continue;
            }
            remaining -= bytes;
            self.names.insert(name);
            self.toolbox.offered.push((spec, tool));
        }
    }
}

impl CallDraft {
    /// Streams more input.
    pub(super) async fn input(&mut self, text: String) -> Result<(), AgentError> {
        match self {
            Self::Host(draft, _) | Self::Own(draft, _) | Self::Unknown(draft) => draft.input(text).await,
            Self::Mcp(draft) => draft.input(text).await,
            Self::Client(draft) => draft.input(text).await,
        }
    }

    /// Announces the subject of the call once the partial input contains it. Returns true if there is nothing more to
    /// announce.
    pub(super) async fn announce(&mut self, input: &str) -> Result<bool, AgentError> {
        let Self::Host(draft, tool) = self else {
            return Ok(true);
        };
        let Some(announcement) = tool.announcement() else {
            return Ok(true);
        };
        match partial_json::string_field(input, announcement.field) {
            Some(value) => {
                draft.announce(announcement.text(&value)).await?;
                Ok(true)
            }
            None => Ok(false),
        }
    }

    /// Returns the call's id.
    pub(super) fn id(&self) -> &str {
        match self {
            Self::Host(draft, _) | Self::Own(draft, _) | Self::Unknown(draft) => draft.id(),
            Self::Mcp(draft) => draft.id(),
            Self::Client(draft) => draft.id(),
        }
    }

    /// Returns true if the call may run in parallel with others.
    pub(super) fn is_parallel_safe(&self) -> bool {
        match self {
            Self::Host(_, tool) => tool.is_parallel_safe(),
            Self::Own(_, tool) => tool.is_parallel_safe(),
            Self::Mcp(_) | Self::Client(_) => false,
            Self::Unknown(_) => true,
        }
    }

    /// Ends a call that did not run.
    pub(super) async fn refuse(self, result: ToolResult) -> Result<(), AgentError> {
        match self {
            Self::Host(draft, _) | Self::Own(draft, _) | Self::Unknown(draft) => draft.complete(result).await,
            Self::Mcp(draft) => draft.complete(result).await,
            Self::Client(draft) => draft.complete(result).await,
        }
    }
}

/// Converts a name into one that all providers accept.
pub(super) fn provider_safe_name(name: &str) -> String {
    let fit = |c: char| {
        if c.is_ascii_alphanumeric() || c == '_' || c == '-' {
            c
        } else {
            '_'
        }
    };
    let fitting: String = name.chars().take(MAX_NAME).map(fit).collect();
    if fitting.is_empty() { "tool".to_owned() } else { fitting }
}

/// Converts a name into one that all providers accept and that is not taken.
fn unique(name: &str, taken: &HashSet<String>) -> String {
    let fitting = provider_safe_name(name);
    let mut candidate = fitting.clone();
    for number in 2.. {
        if !taken.contains(&candidate) {
            break;
        }
        let suffix = format!("_{number}");
        let stem: String = fitting.chars().take(MAX_NAME - suffix.len()).collect();
        candidate = stem + &suffix;
    }
    candidate
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client_tool(name: &str, description: &str, schema: Value) -> ClientTool {
        ClientTool {
            client: innkeeper_host::ClientId::new("c"),
            client_name: name.to_owned(),
            name: name.to_owned(),
            title: None,
            description: Some(description.to_owned()),
            input_schema: Some(schema),
        }
    }

    #[test]
    fn unsupported_tools_are_left_out_with_a_notice() {
        let mut tools = vec![
            client_tool("ring", "Rings.", serde_json::json!({ "anyOf": [] })),
            client_tool("count", "Counts.", serde_json::json!({ "type": "number" })),
            client_tool("tell", &"long ".repeat(100_000), serde_json::json!({})),
        ];
        let toolbox = Toolbox::new(&[], Vec::new(), &[], &tools);
        let specs = toolbox.specs();
        assert_eq!(specs.len(), 1);
        assert_eq!(specs[0].input_schema["type"], "object");
        let told = toolbox.left_out_notice().unwrap();
        assert!(told.contains("count, tell:"), "{told}");
        tools.truncate(1);
        assert_eq!(Toolbox::new(&[], Vec::new(), &[], &tools).left_out_notice(), None);
        let many: Vec<ClientTool> = (0..512)
            .map(|n| client_tool(&format!("t{n}"), "", serde_json::json!({})))
            .collect();
        let toolbox = Toolbox::new(&[], AgentTool::ALL.map(|tool| (tool.spec(), tool)).to_vec(), &[], &many);
        assert_eq!(toolbox.specs().len(), MAX_TOOLS);
        assert!(toolbox.left_out_notice().unwrap().contains("more"));
    }

    #[test]
    fn cus25_a_claude_tool_list_selects_mcp_tools() {
        let tool = |tool: &str| McpTool {
            name: format!("srv__{tool}"),
            server_name: "srv".to_owned(),
            tool: tool.to_owned(),
            input_schema: serde_json::json!({ "type": "object" }),
            ..McpTool::default()
        };
        let mut toolbox = Toolbox::new(&[], Vec::new(), &[tool("ping"), tool("pong")], &[]);
        let selection = toolbox.restrict_to(&["Read".to_owned(), "mcp__srv__ping".to_owned()]);
        assert_eq!(selection.unknown, ["Read"]);
        assert!(toolbox.has("srv__ping") && !toolbox.has("srv__pong"));
    }

    #[test]
    fn act04_tool_names_are_valid_for_every_provider_and_unique() {
        let mut taken: HashSet<String> = ["read_file".to_owned()].into();
        for (name, expected) in [
            ("read_file", "read_file_2"),
            ("read.file", "read_file_3"),
            ("", "tool"),
            ("günther", "g_nther"),
        ] {
            let unique = unique(name, &taken);
            assert_eq!(unique, expected);
            taken.insert(unique);
        }
        let long = "x".repeat(100);
        let first = unique(&long, &taken);
        assert_eq!(first.len(), MAX_NAME);
        taken.insert(first);
        let second = unique(&long, &taken);
        assert_eq!((second.len(), second.ends_with("_2")), (MAX_NAME, true));
    }
}
