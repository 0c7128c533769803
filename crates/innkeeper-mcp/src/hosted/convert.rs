//! Converts the engine's types to those of the host.

use std::time::Duration;

use innkeeper_host::agent::{AuthRequirement, ToolContent};
use innkeeper_host::mcp::{
    AppCapabilities, AuthReason, CallOutcome as HostOutcome, Failure, Hints, McpError, McpTool, ServerDeclaration,
    ServerFacts, ServerIcon, ServerStatus, defused,
};
use innkeeper_std::text::truncate_chars;
use serde_json::{Map, Value, json};

use super::tokens::Tokens;
use crate::engine::app_channel::Allowed;
use crate::engine::auth::{SignIn, SignInReason};
use crate::engine::call::{CallOutcome, Content};
use crate::engine::error::Error;
use crate::engine::server::Server;
use crate::engine::state::{ServerInfo, ServerState};
use crate::engine::tools::Tool;

/// The number of uncallable tools that users are told of, and the longest name.
const MAX_TASK_TOOLS: usize = 32;
const MAX_NAME_CHARS: usize = 200;
/// The JSON-RPC code for unknown methods.
const METHOD_NOT_FOUND: i64 = -32601;
/// The AHP code for a missing sign-in.
const AUTH_REQUIRED: i64 = -32007;

pub(super) fn status(state: &ServerState, server: &Server, tokens: &Tokens) -> ServerStatus {
    match state {
        ServerState::Starting { .. } => ServerStatus::Starting,
        ServerState::Ready => ServerStatus::Ready { apps: apps(server) },
        ServerState::AuthRequired(sign_in) => ServerStatus::AuthRequired(Box::new(requirement(sign_in, tokens))),
        ServerState::Error { message, restarts_in } => {
            // The message may end with the last output of the server.
            let message = defused(message);
            let message = match restarts_in {
                // It ran for longer than the delay between two starts.
                Some(Duration::ZERO) => format!("{message}; it is started again now"),
                Some(time) => format!("{message}; it is started again in {} s", time.as_secs_f64().ceil()),
                None => format!("{message}; it is not restarted until a user starts it"),
            };
            ServerStatus::Failed(Failure::new("mcpServerFailed", message))
        }
        ServerState::Stopped => ServerStatus::Stopped,
    }
}

/// Converts the icons of a server.
pub(super) fn icons(info: ServerInfo) -> Vec<ServerIcon> {
    let icons = info.icons.into_iter().map(|icon| ServerIcon {
        src: icon.src,
        content_type: icon.content_type,
        sizes: icon.sizes,
        theme: icon.theme,
    });
    icons.collect()
}

/// Returns what clients may send to a server for its apps, if any of its tools has one (MCP-15).
pub(super) fn apps(server: &Server) -> Option<AppCapabilities> {
    let info = server.info()?;
    server.tools().iter().any(|tool| tool.ui_resource().is_some()).then(|| {
        let list = |name: &str| info.can(name).then(|| info.tells_changes(name));
        AppCapabilities {
            tools: list("tools"),
            resources: list("resources"),
            logging: info.can("logging"),
            // A model belongs to a turn of an agent, and so do the users who are asked whether it may be used.
            sampling: None,
        }
    })
}

/// Passes exactly what was promised.
pub(super) fn allowed(apps: Option<AppCapabilities>) -> Allowed {
    let apps = apps.unwrap_or_default();
    Allowed {
        tools: apps.tools.is_some(),
        resources: apps.resources.is_some(),
        logging: apps.logging,
    }
}

/// A server that starts does not know that its token expired earlier; the token table does.
pub(super) fn requirement(sign_in: &SignIn, tokens: &Tokens) -> AuthRequirement {
    let resource = &sign_in.resource;
    let name = resource.document.get("resource_name").and_then(Value::as_str);
    AuthRequirement {
        reason: match sign_in.reason {
            SignInReason::Required if tokens.has_lapsed(&resource.resource) => AuthReason::Expired,
            // The protocol has no reason for a token that was never valid: one is still required.
            SignInReason::Required | SignInReason::Refused => AuthReason::Required,
            SignInReason::Expired => AuthReason::Expired,
            SignInReason::InsufficientScope => AuthReason::InsufficientScope,
        },
        resource: resource.resource.clone(),
        resource_name: name.map(str::to_owned),
        authorization_servers: resource.authorization_servers.clone(),
        scopes: sign_in.required_scopes.clone().unwrap_or_default(),
        description: description(sign_in),
        oauth_client_id: sign_in.oauth_client_id.clone(),
        metadata: Some(resource.document.clone()),
    }
}

fn description(sign_in: &SignIn) -> Option<String> {
    let said = sign_in.description.as_deref();
    if sign_in.reason != SignInReason::Refused {
        return said.map(str::to_owned);
    }
    let refused = "the server refused the token that it was given";
    Some(said.map_or_else(|| refused.to_owned(), |said| format!("{refused}: {said}")))
}

/// Returns the protocol's name of a reason.
fn reason_name(reason: SignInReason) -> &'static str {
    match reason {
        SignInReason::Required | SignInReason::Refused => "required",
        SignInReason::Expired => "expired",
        SignInReason::InsufficientScope => "insufficientScope",
    }
}

/// Returns the facts about a server that is ready, except for its resource.
pub(super) fn facts(server: &Server) -> ServerFacts {
    let tools = server.tools();
    let needing = tools.iter().filter(|tool| tool.needs_task);
    ServerFacts {
        resource: None,
        // Tools that only its app may call are not offered to models.
        tools: tools.iter().filter(|tool| tool.is_for_model()).count() as u64,
        task_tools: needing.take(MAX_TASK_TOOLS).map(|tool| one_line(&tool.name)).collect(),
        icons: server.info().map(icons).unwrap_or_default(),
    }
}

/// Shortens a name of a server to one line of bounded length.
fn one_line(name: &str) -> String {
    let plain = defused(&truncate_chars(name, MAX_NAME_CHARS));
    plain.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Converts a tool. Its name for models depends on the other tools and is set later.
pub(super) fn tool(tool: &Tool, declaration: &ServerDeclaration) -> McpTool {
    let annotations = &tool.annotations;
    McpTool {
        name: String::new(),
        server: declaration.about.id.clone(),
        server_name: declaration.about.name.clone(),
        plugin: declaration.about.plugin.clone(),
        tool: tool.name.clone(),
        // Users see the name of a tool without a title.
        title: tool.title.as_deref().map(one_line).or_else(|| {
            let plain = one_line(&tool.name);
            (plain != tool.name).then_some(plain)
        }),
        description: tool.description.as_deref().map(defused),
        input_schema: tool.input_schema.clone(),
        output_schema: tool.output_schema.clone(),
        hints: Hints {
            read_only: annotations.read_only,
            destructive: annotations.destructive,
            idempotent: annotations.idempotent,
            open_world: annotations.open_world,
        },
        is_trusted: declaration.is_trusted,
        ui: ui(tool),
        needs_task: tool.needs_task,
    }
}

/// Returns what clients are told of the view of a tool (MCP-20). The older name has only its address.
fn ui(tool: &Tool) -> Option<Map<String, Value>> {
    let new = tool.ui().and_then(Value::as_object).cloned();
    let Some(resource) = tool.ui_resource() else {
        return new;
    };
    let mut ui = new.unwrap_or_default();
    ui.insert("resourceUri".to_owned(), json!(resource));
    Some(ui)
}

pub(super) fn outcome(outcome: CallOutcome) -> HostOutcome {
    let structured = match outcome.structured {
        Some(Value::Object(object)) => Some(object),
        _ => None,
    };
    HostOutcome {
        is_error: outcome.is_error,
        content: outcome.content.into_iter().map(content).collect(),
        exact_structured: outcome.exact_structured.filter(|_| structured.is_some()),
        structured,
    }
}

fn content(content: Content) -> ToolContent {
    match content {
        Content::Text(text) | Content::Resource { text: Some(text), .. } => ToolContent::Text(text),
        Content::Image { data, mime_type } | Content::Audio { data, mime_type } => ToolContent::Embedded {
            data,
            content_type: mime_type,
        },
        Content::Resource {
            blob: Some(data),
            mime_type,
            ..
        } => ToolContent::Embedded {
            data,
            content_type: mime_type.unwrap_or_else(|| "application/octet-stream".to_owned()),
        },
        Content::Resource { uri, mime_type, .. } => ToolContent::Resource {
            uri,
            content_type: mime_type,
            size: None,
            mention: None,
        },
        Content::ResourceLink {
            uri,
            mime_type,
            name,
            description,
        } => {
            let about: Vec<String> = [name, description].into_iter().flatten().collect();
            ToolContent::Resource {
                uri,
                content_type: mime_type,
                size: None,
                mention: Some(about.join(": ")).filter(|about| !about.trim().is_empty()),
            }
        }
        Content::Other(value) => ToolContent::Text(value.to_string()),
    }
}

/// Makes every text in a value of a server safe for terminals.
pub(super) fn defused_value(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(defused(&text)),
        Value::Array(values) => values.into_iter().map(defused_value).collect(),
        Value::Object(members) => {
            let members = members.into_iter();
            members
                .map(|(name, value)| (defused(&name), defused_value(value)))
                .collect()
        }
        other => other,
    }
}

pub(super) fn error(error: Error) -> McpError {
    let message = defused(&error.to_string());
    match error {
        Error::Refused { code, data, .. } => McpError {
            code: Some(code),
            message,
            data,
        },
        Error::NotOffered { .. } => McpError {
            code: Some(METHOD_NOT_FOUND),
            message,
            data: None,
        },
        // AUTH-08: the caller is told what a token is needed for.
        Error::SignInNeeded { sign_in, .. } => McpError {
            code: Some(AUTH_REQUIRED),
            message,
            data: Some(sign_in_data(&sign_in)),
        },
        _ => McpError::new(message),
    }
}

/// Returns the data of the error that asks for a sign-in. The protocol has a field for the resources only.
fn sign_in_data(sign_in: &SignIn) -> Value {
    let mut about = Map::from_iter([("reason".to_owned(), json!(reason_name(sign_in.reason)))]);
    if let Some(scopes) = &sign_in.required_scopes {
        about.insert("requiredScopes".to_owned(), json!(scopes));
    }
    if let Some(description) = description(sign_in) {
        about.insert("description".to_owned(), json!(description));
    }
    json!({ "resources": [sign_in.resource.document], "_meta": { "innkeeper.auth": about } })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::auth::ResourceMetadata;

    #[test]
    fn auth08_a_missing_token_is_reported_with_its_resource() {
        let document = json!({ "resource": "https://a.test/mcp", "authorization_servers": ["https://login.test"] });
        let sign_in = SignIn {
            reason: SignInReason::InsufficientScope,
            resource: ResourceMetadata {
                resource: "https://a.test/mcp".to_owned(),
                authorization_servers: vec!["https://login.test".to_owned()],
                document: document.clone(),
            },
            required_scopes: Some(vec!["read".to_owned(), "admin".to_owned()]),
            oauth_client_id: None,
            description: Some("more, please".to_owned()),
        };
        let error = error(Error::SignInNeeded {
            server: "inn".to_owned(),
            sign_in: Box::new(sign_in),
        });
        assert_eq!(error.code, Some(-32007));
        let about = json!({
            "reason": "insufficientScope", "requiredScopes": ["read", "admin"], "description": "more, please",
        });
        let expected = json!({ "resources": [document], "_meta": { "innkeeper.auth": about } });
        assert_eq!(error.data, Some(expected));
        assert!(error.message.contains("sign in, then try again"), "{error}");
    }

    #[test]
    fn auth06_a_token_that_was_never_accepted_is_reported_as_required() {
        let mut sign_in = SignIn {
            reason: SignInReason::Refused,
            resource: ResourceMetadata {
                resource: "https://a.test/mcp".to_owned(),
                authorization_servers: Vec::new(),
                document: json!({ "resource": "https://a.test/mcp" }),
            },
            required_scopes: None,
            oauth_client_id: None,
            description: None,
        };
        let needed = requirement(&sign_in, &Tokens::load(None));
        assert_eq!(needed.reason, AuthReason::Required);
        let refused = "the server refused the token that it was given";
        assert_eq!(needed.description.as_deref(), Some(refused));
        sign_in.description = Some("unknown key".to_owned());
        let needed = requirement(&sign_in, &Tokens::load(None));
        assert_eq!(needed.description, Some(format!("{refused}: unknown key")));
    }

    #[tokio::test]
    async fn f3_the_message_of_a_crash_has_the_time_of_the_restart() {
        let transport = crate::engine::config::Transport::Stdio(crate::engine::config::Stdio::default());
        let config = crate::engine::config::ServerConfig::new("inn", transport);
        let server = Server::new(config, crate::engine::server::ServerEnv::default()).expect("a server");
        for (restarts_in, words) in [
            (Some(Duration::ZERO), "it ended; it is started again now"),
            (Some(Duration::from_millis(200)), "it ended; it is started again in 1 s"),
            (
                Some(Duration::from_millis(4200)),
                "it ended; it is started again in 5 s",
            ),
            (None, "it ended; it is not restarted until a user starts it"),
        ] {
            let state = ServerState::Error {
                message: "it ended".to_owned(),
                restarts_in,
            };
            let ServerStatus::Failed(failure) = status(&state, &server, &Tokens::load(None)) else {
                panic!("{state:?}")
            };
            assert_eq!(failure.message, words);
        }
    }

    #[test]
    fn t15_escape_sequences_of_servers_are_removed() {
        let declaration = ServerDeclaration::default();
        let named = |entry: Value| tool(&Tool::read(entry).expect("a tool"), &declaration);
        let coloured = named(json!({
            "name": "a\u{1b}[31m", "description": "\u{1b}]0;x\u{7}Does\nit.", "title": "A\u{1b}[2J\nB",
        }));
        assert_eq!(coloured.tool, "a\u{1b}[31m", "the server knows it by its name");
        assert_eq!(coloured.title.as_deref(), Some("A B"));
        assert_eq!(coloured.description.as_deref(), Some("Does\nit."));
        assert_eq!(named(json!({ "name": "a\u{1b}[31m" })).shown_name(), "a");
        let refused = error(Error::Refused {
            server: "inn".to_owned(),
            code: 1,
            message: "\u{1b}[31mno\u{1b}[0m".to_owned(),
            data: None,
        });
        assert!(refused.message.ends_with(": no"), "{refused}");
        let log = json!({ "\u{7}line": ["\u{1b}[1mbold\u{1b}[0m", 7] });
        assert_eq!(defused_value(log), json!({ "line": ["bold", 7] }));
    }

    #[test]
    fn a_resource_link_is_one_reference_with_its_name_and_description() {
        let link = |name: Option<&str>, description: Option<&str>| {
            let converted = content(Content::ResourceLink {
                uri: "inn://rooms".to_owned(),
                name: name.map(str::to_owned),
                mime_type: Some("text/plain".to_owned()),
                description: description.map(str::to_owned),
            });
            let ToolContent::Resource {
                uri,
                content_type,
                mention,
                ..
            } = converted
            else {
                panic!("not a reference: {converted:?}")
            };
            assert_eq!(
                (uri.as_str(), content_type.as_deref()),
                ("inn://rooms", Some("text/plain"))
            );
            mention
        };
        let both = link(Some("Rooms"), Some("what is free"));
        assert_eq!(both.as_deref(), Some("Rooms: what is free"));
        assert_eq!(link(Some("Rooms"), None).as_deref(), Some("Rooms"));
        assert_eq!(link(None, Some(" ")), None);
        assert_eq!(link(None, None), None);
    }

    #[test]
    fn mcp20_the_older_name_of_a_view_is_read() {
        let read = |meta: Value| {
            let tool = Tool::read(json!({ "name": "a", "_meta": meta })).expect("a tool");
            ui(&tool).map(Value::Object)
        };
        let new = json!({ "resourceUri": "ui://a", "visibility": ["app"] });
        assert_eq!(read(json!({ "ui": new })), Some(new));
        assert_eq!(
            read(json!({ "ui/resourceUri": "ui://a" })),
            Some(json!({ "resourceUri": "ui://a" }))
        );
        assert_eq!(
            read(json!({ "ui": { "visibility": ["app"] }, "ui/resourceUri": "ui://a" })),
            Some(json!({ "resourceUri": "ui://a", "visibility": ["app"] }))
        );
        assert_eq!(read(json!({})), None);
    }
}
