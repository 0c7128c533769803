//! Tools of servers, and what happens while one is called.

use async_trait::async_trait;
use innkeeper_core::agent::{AuthRequirement, ToolInfo};
use serde_json::{Map, Value};

use crate::agent::ToolContent;

/// A tool that a server of the session offers.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct McpTool {
    /// The name for the model, unique among the tools of all servers of the session.
    pub name: String,
    /// The server, by the id of its customization (MCP-12).
    pub server: String,
    /// The display name of the server.
    pub server_name: String,
    /// The plugin that contains the server.
    pub plugin: Option<String>,
    /// The server's own name of the tool.
    pub tool: String,
    /// A title for users.
    pub title: Option<String>,
    /// The server's description of the tool.
    pub description: Option<String>,
    /// The JSON Schema of its input, always an object.
    pub input_schema: Value,
    /// The JSON Schema of its structured result.
    pub output_schema: Option<Value>,
    /// The server's hints about the effects of the tool.
    pub hints: Hints,
    /// Whether the user trusts the server, so that its hints count.
    pub is_trusted: bool,
    /// `_meta.ui`, if a view of its calls can be shown (MCP-20).
    pub ui: Option<Map<String, Value>>,
    /// The tool can be called only as a task of MCP, which is not supported: it is not offered to models.
    pub needs_task: bool,
}

impl McpTool {
    /// Returns the name that users see.
    pub fn shown_name(&self) -> &str {
        self.title.as_deref().unwrap_or(&self.tool)
    }

    /// The tool as clients are shown what an agent offers.
    pub fn info(&self) -> ToolInfo {
        ToolInfo {
            name: self.name.clone(),
            title: self.title.clone(),
            description: self.description.clone(),
            input_schema: Some(self.input_schema.clone()),
        }
    }

    /// Which tool of which server it is.
    pub fn of_server(&self) -> ServerTool {
        ServerTool {
            server: self.server_name.clone(),
            plugin: self.plugin.clone(),
            tool: self.tool.clone(),
        }
    }

    /// Whether it runs without asking: only what a trusted server calls harmless does.
    pub fn runs_unasked(&self) -> bool {
        self.is_trusted && self.hints.read_only == Some(true) && self.hints.destructive != Some(true)
    }

    /// Whether models are to know of it; some tools are only for the views of other ones.
    pub fn is_for_models(&self) -> bool {
        if self.needs_task {
            return false;
        }
        let visibility = self.ui.as_ref().and_then(|ui| ui.get("visibility"));
        match visibility.and_then(Value::as_array) {
            Some(readers) => readers.iter().any(|reader| reader == "model"),
            None => true,
        }
    }
}

/// The identity of a tool and its server. Models know it by a name of ours; files written for other agents, such as
/// hooks, know it by the names that those agents make of these.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerTool {
    /// The display name of the server.
    pub server: String,
    /// The plugin that contains the server.
    pub plugin: Option<String>,
    /// The server's own name of the tool.
    pub tool: String,
}

impl ServerTool {
    /// Returns the names in Claude Code and compatible agents: `mcp__server__tool`. The usual name comes first: that of
    /// a plugin's server has the plugin in it.
    pub fn for_claude(&self) -> Vec<String> {
        let tool = as_in_names(&self.tool);
        let servers = self.servers_for_claude().into_iter();
        servers.map(|server| format!("{server}__{tool}")).collect()
    }

    /// Returns the names in Claude Code for all tools of its server together: `mcp__server`.
    pub fn servers_for_claude(&self) -> Vec<String> {
        let server = as_in_names(&self.server);
        let plugin = self.plugin.as_deref().map(as_in_names);
        let of_plugin = plugin.map(|plugin| format!("mcp__plugin_{plugin}_{server}"));
        of_plugin.into_iter().chain([format!("mcp__{server}")]).collect()
    }

    /// Returns the names in Copilot: `server-tool` on its command line, `mcp_server_tool` in its editor.
    pub fn for_copilot(&self) -> Vec<String> {
        let (server, tool) = (as_in_names(&self.server), as_in_names(&self.tool));
        vec![format!("{server}-{tool}"), format!("mcp_{server}_{tool}")]
    }

    /// Returns the names in Cursor: `MCP:tool`.
    pub fn for_cursor(&self) -> Vec<String> {
        vec![format!("MCP:{}", self.tool)]
    }
}

/// Replaces characters that names of tools cannot have.
fn as_in_names(text: &str) -> String {
    let fit = |c: char| match c.is_ascii_alphanumeric() || matches!(c, '_' | '-') {
        true => c,
        false => '_',
    };
    text.chars().map(fit).collect()
}

/// The server's hints about the effects of a tool. Hints of an untrusted server are ignored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Hints {
    /// It changes nothing.
    pub read_only: Option<bool>,
    /// It may destroy something.
    pub destructive: Option<bool>,
    /// Doing it twice is as doing it once.
    pub idempotent: Option<bool>,
    /// It reaches out into the world.
    pub open_world: Option<bool>,
}

/// The result of a tool call.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CallOutcome {
    /// Whether the tool says that it failed.
    pub is_error: bool,
    /// The content of the result.
    pub content: Vec<ToolContent>,
    /// The same for programs.
    pub structured: Option<Map<String, Value>>,
    /// The same as it was written, if it has numbers that the object above does not hold exactly.
    pub exact_structured: Option<String>,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct McpError {
    /// The code of JSON-RPC, if the server answered with an error.
    pub code: Option<i64>,
    /// The problem and its remedy, without secrets.
    pub message: String,
    /// Additional data of the server.
    pub data: Option<Value>,
}

impl McpError {
    /// Something other than an answer of the server.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            code: None,
            message: message.into(),
            data: None,
        }
    }

    /// A server that is not wanted any more, and whose name is not known any more either.
    pub fn server_gone() -> Self {
        Self::new("the MCP server does not run in this session any more; start it and try again")
    }

    /// No such server runs; the error has its display name.
    pub fn no_server(server: &str) -> Self {
        Self::new(format!(
            "the MCP server {server:?} does not run in this session; start it and try again"
        ))
    }
}

/// Handles the requests of a server during one of its tool calls.
#[async_trait]
pub trait CallHandler: Send + Sync {
    /// The server reports its progress as text.
    async fn progress(&self, message: String);

    /// Asks users to sign in; the call continues by itself once a token for the resource was set. Returns whether a
    /// user signed in; if not, the call is to be cancelled.
    async fn sign_in(&self, requirement: AuthRequirement) -> bool;

    /// It asks something.
    async fn ask(&self, question: Question) -> QuestionAnswer;
}

/// A question of a server.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Question {
    /// The user should fill in a form (`elicitation/create`).
    Form {
        /// The server's message.
        message: String,
        /// The fields, as the JSON Schema of an object.
        schema: Value,
    },
    /// The user should visit an address.
    Url {
        /// The server's message.
        message: String,
        /// The address.
        url: String,
    },
    /// A sampling request (`sampling/createMessage`). These are its parameters.
    Sampling(Map<String, Value>),
}

/// The answer to a server.
#[derive(Debug, Clone, PartialEq)]
pub enum QuestionAnswer {
    /// The user accepted, with the fields of the form.
    Accepted(Map<String, Value>),
    /// The result of `sampling/createMessage`.
    Sampled(Map<String, Value>),
    /// The user or the host declined.
    Declined,
    /// It cannot be answered, for this reason.
    Refused {
        /// The code of JSON-RPC.
        code: i64,
        /// In words for the server.
        message: String,
    },
    /// The user dismissed it.
    Cancelled,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn other_agents_have_their_own_names_for_a_tool() {
        let alone = ServerTool {
            server: "my files".to_owned(),
            plugin: None,
            tool: "read/file".to_owned(),
        };
        assert_eq!(alone.for_claude(), ["mcp__my_files__read_file"]);
        assert_eq!(alone.for_copilot(), ["my_files-read_file", "mcp_my_files_read_file"]);
        assert_eq!(alone.for_cursor(), ["MCP:read/file"]);
        let of_plugin = ServerTool {
            plugin: Some("desk".to_owned()),
            ..alone
        };
        let names = ["mcp__plugin_desk_my_files__read_file", "mcp__my_files__read_file"];
        assert_eq!(of_plugin.for_claude(), names);
    }

    #[test]
    fn mcp12_hints_of_an_untrusted_server_are_ignored() {
        let harmless = McpTool {
            hints: Hints {
                read_only: Some(true),
                ..Hints::default()
            },
            ..McpTool::default()
        };
        assert!(!harmless.runs_unasked());
        let trusted = McpTool {
            is_trusted: true,
            ..harmless
        };
        assert!(trusted.runs_unasked());
        let contradictory = McpTool {
            hints: Hints {
                destructive: Some(true),
                ..trusted.hints
            },
            ..trusted
        };
        assert!(!contradictory.runs_unasked());
    }

    #[test]
    fn mcp20_app_only_tools_are_not_offered_to_models() {
        let tool = |ui: Value| McpTool {
            ui: ui.as_object().cloned(),
            ..McpTool::default()
        };
        assert!(tool(Value::Null).is_for_models());
        assert!(tool(json!({ "resourceUri": "ui://x" })).is_for_models());
        assert!(tool(json!({ "visibility": ["app", "model"] })).is_for_models());
        assert!(!tool(json!({ "visibility": ["app"] })).is_for_models());
    }
}
