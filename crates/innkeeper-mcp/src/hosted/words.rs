//! The engine's words in those of the host.

use innkeeper_host::mcp::{
    AppCapabilities, AuthReason, CallOutcome as HostOutcome, Failure, Hints, McpError, McpTool, ServerDeclaration,
    ServerStatus,
};
use innkeeper_host::{AuthRequirement, ToolContent};
use serde_json::Value;

use crate::auth::{SignIn, SignInReason};
use crate::call::{CallOutcome, Content};
use crate::channel::Allowed;
use crate::error::Error;
use crate::server::Server;
use crate::state::ServerState;
use crate::tools::Tool;

/// The code of JSON-RPC for what does not exist.
const METHOD_NOT_FOUND: i64 = -32601;

pub(super) fn status(state: &ServerState, server: &Server) -> ServerStatus {
    match state {
        ServerState::Starting { .. } => ServerStatus::Starting,
        ServerState::Ready => ServerStatus::Ready { apps: apps(server) },
        ServerState::AuthRequired(sign_in) => ServerStatus::AuthRequired(Box::new(requirement(sign_in))),
        ServerState::Error { message, restarts_in } => {
            let message = match restarts_in {
                Some(time) => format!("{message}; it is started again in {} s", time.as_secs().max(1)),
                None => message.clone(),
            };
            ServerStatus::Failed(Failure::new("mcpServerFailed", message))
        }
        ServerState::Stopped => ServerStatus::Stopped,
    }
}

/// What clients may say to a server for its apps, if any of its tools has one (MCP-15).
pub(super) fn apps(server: &Server) -> Option<AppCapabilities> {
    let info = server.info()?;
    server.tools().iter().any(|tool| tool.ui_resource().is_some()).then(|| {
        let list = |name: &str| info.can(name).then(|| info.tells_changes(name));
        AppCapabilities {
            tools: list("tools"),
            resources: list("resources"),
            logging: info.can("logging"),
            sampling: None,
        }
    })
}

/// What was promised is what passes.
pub(super) fn allowed(apps: Option<AppCapabilities>) -> Allowed {
    let apps = apps.unwrap_or_default();
    Allowed {
        tools: apps.tools.is_some(),
        resources: apps.resources.is_some(),
        logging: apps.logging,
        sampling: apps.sampling.is_some(),
    }
}

pub(super) fn requirement(sign_in: &SignIn) -> AuthRequirement {
    let resource = &sign_in.resource;
    let name = resource.document.get("resource_name").and_then(Value::as_str);
    AuthRequirement {
        reason: match sign_in.reason {
            SignInReason::Required => AuthReason::Required,
            SignInReason::Expired => AuthReason::Expired,
            SignInReason::InsufficientScope => AuthReason::InsufficientScope,
        },
        resource: resource.resource.clone(),
        resource_name: name.map(str::to_owned),
        authorization_servers: resource.authorization_servers.clone(),
        scopes: sign_in.required_scopes.clone().unwrap_or_default(),
        description: sign_in.description.clone(),
        oauth_client_id: sign_in.oauth_client_id.clone(),
        metadata: Some(resource.document.clone()),
    }
}

/// A tool without its name for models, which depends on the others.
pub(super) fn tool(tool: &Tool, declaration: &ServerDeclaration) -> McpTool {
    let annotations = &tool.annotations;
    McpTool {
        name: String::new(),
        server: declaration.about.id.clone(),
        server_name: declaration.about.name.clone(),
        tool: tool.name.clone(),
        title: tool.title.clone(),
        description: tool.description.clone(),
        input_schema: tool.input_schema.clone(),
        output_schema: tool.output_schema.clone(),
        hints: Hints {
            read_only: annotations.read_only,
            destructive: annotations.destructive,
            idempotent: annotations.idempotent,
            open_world: annotations.open_world,
        },
        is_trusted: declaration.is_trusted,
        ui: tool.ui().and_then(Value::as_object).cloned(),
    }
}

pub(super) fn outcome(outcome: CallOutcome) -> HostOutcome {
    let structured = match outcome.structured {
        Some(Value::Object(object)) => Some(object),
        _ => None,
    };
    HostOutcome {
        is_error: outcome.is_error,
        content: outcome.content.into_iter().flat_map(contents).collect(),
        structured,
    }
}

/// A link says what it leads to before it says where.
fn contents(piece: Content) -> impl Iterator<Item = ToolContent> {
    let about = match &piece {
        Content::ResourceLink { name, description, .. } => {
            let about: Vec<&str> = [name, description].into_iter().flatten().map(String::as_str).collect();
            Some(about.join(": ")).filter(|about| !about.trim().is_empty())
        }
        _ => None,
    };
    about.map(ToolContent::Text).into_iter().chain([content(piece)])
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
        Content::Resource { uri, mime_type, .. } | Content::ResourceLink { uri, mime_type, .. } => {
            ToolContent::Resource {
                uri,
                content_type: mime_type,
                size: None,
            }
        }
        Content::Other(value) => ToolContent::Text(value.to_string()),
    }
}

pub(super) fn error(error: Error) -> McpError {
    let message = error.to_string();
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
        _ => McpError::new(message),
    }
}
