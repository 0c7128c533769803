//! The tools and prompts that an agent is offered.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use innkeeper_host::agent::ClientTool;
use innkeeper_host::customizations::TurnCustomizations;
use innkeeper_host::mcp::McpTool;
use serde_json::{Map, Value, json};

/// Longest name of a tool that all models take.
const MAX_NAME: usize = 64;

/// Everything that a session offers its agent. The tools of MCP servers are always the present ones.
#[derive(Clone, Debug, Default)]
pub(crate) struct Offered {
    pub(crate) customizations: TurnCustomizations,
    pub(crate) clients: Vec<ClientTool>,
    /// The working directories, as URIs.
    pub(crate) directories: Vec<String>,
}

/// A tool under the name that the agent knows.
#[derive(Clone, Debug)]
pub(crate) enum OfferedTool {
    /// A tool of an MCP server.
    Mcp(Box<McpTool>),
    /// A tool of a client.
    Client(ClientTool),
}

impl OfferedTool {
    /// Returns the JSON Schema of the input.
    pub(crate) fn input_schema(&self) -> Option<&Value> {
        match self {
            Self::Mcp(tool) => Some(&tool.input_schema),
            Self::Client(tool) => tool.input_schema.as_ref(),
        }
    }

    fn listed(&self, name: &str) -> Value {
        let (title, description) = match self {
            Self::Mcp(tool) => (&tool.title, &tool.description),
            Self::Client(tool) => (&tool.title, &tool.description),
        };
        let mut schema = match self.input_schema() {
            Some(Value::Object(schema)) => schema.clone(),
            Some(_) | None => Map::new(),
        };
        // Agents refuse a list with a tool whose input is no object.
        schema.insert("type".to_owned(), json!("object"));
        let mut listed = json!({ "name": name, "inputSchema": schema });
        for (field, text) in [("title", title), ("description", description)] {
            if let Some(text) = text {
                listed[field] = json!(text);
            }
        }
        if let Self::Mcp(tool) = self {
            let hints = [
                ("readOnlyHint", tool.hints.read_only),
                ("destructiveHint", tool.hints.destructive),
                ("idempotentHint", tool.hints.idempotent),
                ("openWorldHint", tool.hints.open_world),
            ];
            for (hint, value) in hints {
                if let Some(value) = value {
                    listed["annotations"][hint] = json!(value);
                }
            }
        }
        listed
    }
}

impl Offered {
    /// Returns the tools of now, with unique names.
    pub(crate) fn tools(&self) -> Vec<(String, OfferedTool)> {
        let servers = self.customizations.mcp().tools().into_iter();
        let servers = servers.map(|tool| (tool.name.clone(), OfferedTool::Mcp(Box::new(tool))));
        let clients = self.clients.iter();
        let clients = clients.map(|tool| (tool.name.clone(), OfferedTool::Client(tool.clone())));
        let mut taken = HashSet::new();
        let named = servers.chain(clients).map(|(name, tool)| {
            let name = unique(&name, &taken);
            taken.insert(name.clone());
            (name, tool)
        });
        named.collect()
    }

    /// Returns the tool with a name.
    pub(crate) fn tool(&self, name: &str) -> Option<OfferedTool> {
        let mut tools = self.tools().into_iter();
        tools.find(|(known, _)| known == name).map(|(_, tool)| tool)
    }

    /// Returns the tools as `tools/list` has them.
    pub(super) fn list(&self) -> Vec<Value> {
        let tools = self.tools();
        tools.iter().map(|(name, tool)| tool.listed(name)).collect()
    }

    /// Returns the skills and prompts of the session as `prompts/list` has them.
    pub(super) fn prompts(&self) -> Vec<Value> {
        let callable = self.customizations.callable(&[]).into_iter();
        let prompt = |(name, callable): (String, innkeeper_host::customizations::Callable<'_>)| {
            let mut prompt = json!({ "name": name });
            if let Some(description) = &callable.about().description {
                prompt["description"] = json!(description);
            }
            if let Some(hint) = callable.argument_hint() {
                prompt["arguments"] = json!([{ "name": "arguments", "description": hint, "required": false }]);
            }
            prompt
        };
        callable.map(prompt).collect()
    }

    /// Returns the text of a prompt with its arguments.
    pub(super) async fn prompt(&self, name: &str, arguments: &str) -> Result<Value, String> {
        let line = format!("/{name} {arguments}");
        let called = self.customizations.call(line.trim(), &[], &self.directories).await?;
        let called = called.ok_or_else(|| format!("there is no prompt {name:?}"))?;
        let message = json!({ "role": "user", "content": { "type": "text", "text": called.text } });
        Ok(json!({ "messages": [message] }))
    }

    /// Returns a number that differs for other tools.
    pub(crate) fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        for tool in self.list() {
            tool.to_string().hash(&mut hasher);
        }
        hasher.finish()
    }
}

/// Makes a name that every model takes, and that is not taken.
fn unique(name: &str, taken: &HashSet<String>) -> String {
    let fit = |c: char| match c.is_ascii_alphanumeric() || c == '_' || c == '-' {
        true => c,
        false => '_',
    };
    let stem: String = name.chars().take(MAX_NAME).map(fit).collect();
    let stem = if stem.is_empty() { "tool".to_owned() } else { stem };
    let mut candidate = stem.clone();
    for number in 2.. {
        if !taken.contains(&candidate) {
            break;
        }
        let suffix = format!("_{number}");
        let short: String = stem.chars().take(MAX_NAME - suffix.len()).collect();
        candidate = short + &suffix;
    }
    candidate
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client_tool(name: &str, schema: Option<Value>) -> ClientTool {
        ClientTool {
            client: innkeeper_host::ClientId::new("c"),
            client_name: name.to_owned(),
            name: name.to_owned(),
            title: None,
            description: Some("Rings.".to_owned()),
            input_schema: schema,
        }
    }

    #[test]
    fn tools_have_unique_names_and_inputs_that_are_objects() {
        let mut offered = Offered {
            clients: vec![
                client_tool("ring.bell", None),
                client_tool("ring_bell", Some(json!({ "properties": {} }))),
            ],
            ..Offered::default()
        };
        let list = offered.list();
        assert_eq!(
            (&list[0]["name"], &list[1]["name"]),
            (&json!("ring_bell"), &json!("ring_bell_2"))
        );
        assert_eq!(list[0]["inputSchema"], json!({ "type": "object" }));
        assert!(offered.tool("ring_bell_2").is_some() && offered.tool("ring.bell").is_none());
        let before = offered.fingerprint();
        offered.clients.pop();
        assert_ne!(offered.fingerprint(), before);
    }
}
