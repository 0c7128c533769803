//! What the model may call in one turn: tools of the host, the agent's own, and those of clients.

use std::collections::HashSet;
use std::sync::Arc;

use innkeeper_host::{AgentError, ClientDraft, ClientTool, EventSink, ToolDraft, ToolResult};

use super::api::ToolSpec;
use super::own_tools::OwnTool;
use super::schema;
use crate::tools::HostTool;

/// The longest name of a tool that all providers take.
const MAX_NAME: usize = 64;

/// Most tools that all providers take.
const MAX_TOOLS: usize = 128;
/// Most bytes of what clients say of their tools. It is part of every request, and the model has to
/// read it.
const MAX_CLIENT_BYTES: usize = 128 << 10;

/// Everything that can be called, each name once.
#[derive(Clone, Default)]
pub(super) struct Toolbox {
    offered: Vec<(ToolSpec, Offered)>,
    /// Clients' tools that no model could be offered, by name.
    left_out: Vec<String>,
}

/// Something that can be called.
#[derive(Clone)]
pub(super) enum Offered {
    /// A tool of the host.
    Host(Arc<dyn HostTool>),
    /// One that needs the agent itself.
    Own(OwnTool),
    /// A client's.
    Client(ClientTool),
}

/// A call whose input is being written.
pub(super) enum Draft {
    Host(ToolDraft, Arc<dyn HostTool>),
    Own(ToolDraft, OwnTool),
    Client(ClientDraft),
    /// There is no such tool.
    Unknown(ToolDraft),
}

impl std::fmt::Debug for Draft {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Host(..) => "Draft::Host",
            Self::Own(..) => "Draft::Own",
            Self::Client(..) => "Draft::Client",
            Self::Unknown(..) => "Draft::Unknown",
        })
    }
}

impl Toolbox {
    /// The tools of a turn. Clients' tools come last, under names that nothing else has (ACT-04).
    pub(super) fn new(host: &[Arc<dyn HostTool>], own: &[OwnTool], clients: &[ClientTool]) -> Self {
        let mut offered: Vec<(ToolSpec, Offered)> = Vec::new();
        offered.extend(host.iter().map(|tool| (tool.spec(), Offered::Host(Arc::clone(tool)))));
        offered.extend(own.iter().map(|tool| (tool.spec(), Offered::Own(*tool))));
        let mut names: HashSet<String> = offered.iter().map(|(spec, _)| spec.name.clone()).collect();
        let mut left_out = Vec::new();
        let mut room = MAX_CLIENT_BYTES;
        for tool in clients {
            let name = unique(&tool.name, &names);
            let Some(input_schema) = schema::fit(tool.input_schema.as_ref()) else {
                left_out.push(tool.name.clone());
                continue;
            };
            let spec = ToolSpec {
                name: name.clone(),
                description: tool
                    .description
                    .clone()
                    .or_else(|| tool.title.clone())
                    .unwrap_or_default(),
                input_schema,
            };
            let bytes = spec.description.len() + spec.input_schema.to_string().len();
            if offered.len() >= MAX_TOOLS || bytes > room {
                left_out.push(tool.name.clone());
                continue;
            }
            room -= bytes;
            names.insert(name);
            offered.push((spec, Offered::Client(tool.clone())));
        }
        Self { offered, left_out }
    }

    /// What people are told of tools that the model is not offered.
    pub(super) fn left_out(&self) -> Option<String> {
        let first: Vec<String> = self.left_out.iter().take(3).map(|name| fit_name(name)).collect();
        let more = match self.left_out.len().checked_sub(first.len())? {
            0 if first.is_empty() => return None,
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        Some(format!(
            "The model is not offered {}{more}: models take at most {MAX_TOOLS} tools, {} KiB of clients' descriptions \
             together, and only tools whose input is an object.",
            first.join(", "),
            MAX_CLIENT_BYTES >> 10
        ))
    }

    /// The tools as the model sees them.
    pub(super) fn specs(&self) -> Vec<ToolSpec> {
        self.offered.iter().map(|(spec, _)| spec.clone()).collect()
    }

    /// Shows a call that the model begins.
    pub(super) async fn begin(&self, events: &EventSink, name: &str) -> Result<Draft, AgentError> {
        let found = self.offered.iter().find(|(spec, _)| spec.name == name);
        Ok(match found {
            Some((_, Offered::Host(tool))) => {
                let draft = events.tool(name).display_name(tool.title()).start().await?;
                Draft::Host(draft, Arc::clone(tool))
            }
            Some((_, Offered::Own(tool))) => {
                let draft = events.tool(name).display_name(tool.title()).start().await?;
                Draft::Own(draft, *tool)
            }
            Some((_, Offered::Client(tool))) => Draft::Client(events.client_tool(tool).start().await?),
            None => {
                let shown: String = name.chars().take(MAX_NAME).collect();
                let draft = events.tool("unknown_tool").display_name(shown).start().await?;
                Draft::Unknown(draft)
            }
        })
    }

    /// The names, for a model that called something else.
    pub(super) fn names(&self) -> String {
        let names: Vec<&str> = self.offered.iter().map(|(spec, _)| spec.name.as_str()).collect();
        names.join(", ")
    }
}

impl Draft {
    /// Streams more of the input.
    pub(super) async fn input(&mut self, text: String) -> Result<(), AgentError> {
        match self {
            Self::Host(draft, _) | Self::Own(draft, _) | Self::Unknown(draft) => draft.input(text).await,
            Self::Client(draft) => draft.input(text).await,
        }
    }

    /// Whether the call may run beside others.
    pub(super) fn is_harmless(&self) -> bool {
        match self {
            Self::Host(_, tool) => tool.is_harmless(),
            Self::Own(_, tool) => tool.is_harmless(),
            Self::Client(_) => false,
            Self::Unknown(_) => true,
        }
    }

    /// Ends the call before it ran.
    pub(super) async fn refuse(self, result: ToolResult) -> Result<(), AgentError> {
        match self {
            Self::Host(draft, _) | Self::Own(draft, _) | Self::Unknown(draft) => draft.complete(result).await,
            Self::Client(draft) => draft.complete(result).await,
        }
    }
}

/// A name like the given one that all providers take.
pub(super) fn fit_name(name: &str) -> String {
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

/// A name like the given one that all providers take and nothing else has.
fn unique(name: &str, taken: &HashSet<String>) -> String {
    let fitting = fit_name(name);
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

    fn client_tool(name: &str, description: &str, schema: serde_json::Value) -> ClientTool {
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
    fn what_no_provider_takes_is_left_out_and_said() {
        let mut tools = vec![
            client_tool("ring", "Rings.", serde_json::json!({ "anyOf": [] })),
            client_tool("count", "Counts.", serde_json::json!({ "type": "number" })),
            client_tool("tell", &"long ".repeat(100_000), serde_json::json!({})),
        ];
        let toolbox = Toolbox::new(&[], &[], &tools);
        let specs = toolbox.specs();
        assert_eq!(specs.len(), 1);
        assert_eq!(specs[0].input_schema["type"], "object");
        let told = toolbox.left_out().unwrap();
        assert!(told.contains("count, tell:"), "{told}");
        tools.truncate(1);
        assert_eq!(Toolbox::new(&[], &[], &tools).left_out(), None);
        let many: Vec<ClientTool> = (0..512)
            .map(|n| client_tool(&format!("t{n}"), "", serde_json::json!({})))
            .collect();
        let toolbox = Toolbox::new(&[], &OwnTool::ALL, &many);
        assert_eq!(toolbox.specs().len(), MAX_TOOLS);
        assert!(toolbox.left_out().unwrap().contains("more"));
    }

    #[test]
    fn act04_names_are_fit_for_every_provider_and_unique() {
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
