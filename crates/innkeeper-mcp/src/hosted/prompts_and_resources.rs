//! Prompts and resources, in the types of the host.

use std::sync::Arc;

use innkeeper_host::mcp::{
    McpError, McpPrompt, McpPromptArgument, McpResource, PartData, PromptContent, PromptMessage, PromptMessages,
    ResourcePart, ServerDeclaration,
};
use serde_json::{Map, Value};

use super::convert;
use super::session_server::{ServerLease, SessionServer};
use crate::engine::resources::{self, Prompt, Resource};
use crate::engine::state::ServerState;

/// The content type of content without one.
const UNKNOWN_KIND: &str = "application/octet-stream";

pub(super) async fn prompts(server: &SessionServer) -> Vec<McpPrompt> {
    let Some(lease) = ready(server) else {
        return Vec::new();
    };
    let listed = tokio::select! {
        listed = lease.known_prompts() => listed,
        () = lease.gone.cancelled() => return Vec::new(),
    };
    let listed = listed.iter();
    listed.map(|entry| prompt(entry, &server.wish.declaration)).collect()
}

pub(super) async fn fill_in(
    server: &SessionServer,
    prompt: &str,
    arguments: Map<String, Value>,
) -> Result<PromptMessages, McpError> {
    let lease = server.lease().ok_or_else(|| McpError::no_server(server.name()))?;
    let filled = tokio::select! {
        filled = lease.prompt(prompt, arguments) => filled.map_err(convert::error)?,
        () = lease.gone.cancelled() => return Err(server.was_stopped()),
    };
    let messages = filled.messages.into_iter().filter_map(message);
    Ok(PromptMessages {
        messages: messages.collect(),
    })
}

pub(super) async fn resources(server: &SessionServer) -> Vec<McpResource> {
    let Some(lease) = ready(server) else {
        return Vec::new();
    };
    let listed = tokio::select! {
        listed = lease.known_resources() => listed,
        () = lease.gone.cancelled() => return Vec::new(),
    };
    let listed = listed.iter();
    listed.map(|entry| resource(entry, &server.wish.declaration)).collect()
}

pub(super) async fn read(server: &SessionServer, uri: &str) -> Result<Vec<ResourcePart>, McpError> {
    let lease = server.lease().ok_or_else(|| McpError::no_server(server.name()))?;
    let read = tokio::select! {
        read = lease.read_resource(uri) => read.map_err(convert::error)?,
        () = lease.gone.cancelled() => return Err(server.was_stopped()),
    };
    Ok(read.into_iter().filter_map(part).collect())
}

fn ready(server: &SessionServer) -> Option<Arc<ServerLease>> {
    server.lease().filter(|lease| lease.state() == ServerState::Ready)
}

/// Converts a prompt. The name that users type depends on the other prompts and is set later.
fn prompt(prompt: &Prompt, declaration: &ServerDeclaration) -> McpPrompt {
    let arguments = prompt.arguments.iter().map(|argument| McpPromptArgument {
        name: argument.name.clone(),
        description: argument.description.clone(),
        required: argument.required,
    });
    McpPrompt {
        name: String::new(),
        server: declaration.about.id.clone(),
        server_name: declaration.about.name.clone(),
        prompt: prompt.name.clone(),
        title: prompt.title.clone(),
        description: prompt.description.clone(),
        arguments: arguments.collect(),
    }
}

fn resource(resource: &Resource, declaration: &ServerDeclaration) -> McpResource {
    McpResource {
        server: declaration.about.id.clone(),
        server_name: declaration.about.name.clone(),
        uri: resource.uri.clone(),
        name: resource.name.clone(),
        title: resource.title.clone(),
        description: resource.description.clone(),
        content_type: resource.mime_type.clone(),
        size: resource.size,
    }
}

fn part(read: resources::ResourceContents) -> Option<ResourcePart> {
    let data = match (read.text, read.blob) {
        (Some(text), _) => PartData::Text(text),
        (None, Some(blob)) => PartData::Blob(blob),
        (None, None) => return None,
    };
    Some(ResourcePart {
        content_type: read.mime_type,
        data,
    })
}

/// Reads a message of a prompt, however its server wrote it.
fn message(mut message: Value) -> Option<PromptMessage> {
    let content = message.get_mut("content").map(Value::take)?;
    let role = text(&message, "role").unwrap_or_else(|| "user".to_owned());
    Some(PromptMessage {
        role,
        content: content_of(&content),
    })
}

fn content_of(content: &Value) -> PromptContent {
    let kind = |value: &Value| text(value, "mimeType").unwrap_or_else(|| UNKNOWN_KIND.to_owned());
    match (text(content, "type").as_deref(), content.get("resource")) {
        (Some("text"), _) => PromptContent::Text(text(content, "text").unwrap_or_default()),
        (Some("image" | "audio"), _) => PromptContent::Embedded {
            data: text(content, "data").unwrap_or_default(),
            content_type: kind(content),
        },
        (Some("resource"), Some(resource)) => match (text(resource, "text"), text(resource, "blob")) {
            (Some(words), _) => PromptContent::Resource {
                uri: text(resource, "uri").unwrap_or_default(),
                text: words,
            },
            (None, blob) => PromptContent::Embedded {
                data: blob.unwrap_or_default(),
                content_type: kind(resource),
            },
        },
        (Some("resource_link"), _) => {
            let name = text(content, "name").unwrap_or_default();
            let uri = text(content, "uri").unwrap_or_default();
            PromptContent::Text(format!("(See the resource {name} at {uri}.)"))
        }
        // A kind of content that is newer than this code.
        _ => PromptContent::Text(content.to_string()),
    }
}

fn text(value: &Value, field: &str) -> Option<String> {
    value.get(field).and_then(Value::as_str).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn prompt_messages_of_every_kind_are_read() {
        let said = |content: Value| message(json!({ "role": "user", "content": content })).map(|said| said.content);
        let text = |text: &str| Some(PromptContent::Text(text.to_owned()));
        assert_eq!(said(json!({ "type": "text", "text": "hello" })), text("hello"));
        let expected = Some(PromptContent::Embedded {
            data: "AAAA".to_owned(),
            content_type: "image/png".to_owned(),
        });
        let image = json!({ "type": "image", "data": "AAAA", "mimeType": "image/png" });
        assert_eq!(said(image), expected);
        let blob = json!({ "type": "resource", "resource": { "uri": "a:b", "blob": "AAAA", "mimeType": "image/png" } });
        assert_eq!(said(blob), expected);
        let words = json!({ "type": "resource", "resource": { "uri": "a:b", "text": "c" } });
        let resource = PromptContent::Resource {
            uri: "a:b".to_owned(),
            text: "c".to_owned(),
        };
        assert_eq!(said(words), Some(resource));
        assert_eq!(said(json!({ "type": "dance" })), text(r#"{"type":"dance"}"#));
        assert_eq!(said(json!("words")), text(r#""words""#));
        assert_eq!(message(json!({ "role": 1 })), None);
    }
}
