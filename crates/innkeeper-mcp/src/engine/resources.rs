//! The resources and prompts of a server.

use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use crate::engine::error::Error;
use crate::engine::paging::{Pages, text};
use crate::engine::server::{Request, Server, ServerShared};

/// A resource that a server offers.
#[derive(Clone, Debug, PartialEq)]
pub struct Resource {
    /// The URI; for a template, with `{…}` to fill in.
    pub uri: String,
    /// The name.
    pub name: String,
    /// The title for users.
    pub title: Option<String>,
    /// The description.
    pub description: Option<String>,
    /// The content type.
    pub mime_type: Option<String>,
    /// The size in bytes, if it is known.
    pub size: Option<u64>,
    /// The entry as the server wrote it.
    pub raw: Value,
}

/// The contents of a resource.
#[derive(Clone, Debug, PartialEq)]
pub struct ResourceContents {
    /// The URI.
    pub uri: String,
    /// The content type.
    pub mime_type: Option<String>,
    /// The text, if it is text.
    pub text: Option<String>,
    /// The bytes in base64, if it is not text.
    pub blob: Option<String>,
    /// `_meta`, as the server wrote it.
    pub meta: Option<Value>,
}

/// A prompt that a server offers.
#[derive(Clone, Debug, PartialEq)]
pub struct Prompt {
    /// The name.
    pub name: String,
    /// The title for users.
    pub title: Option<String>,
    /// The description.
    pub description: Option<String>,
    /// The arguments.
    pub arguments: Vec<PromptArgument>,
}

/// An argument of a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptArgument {
    /// The name.
    pub name: String,
    /// The description.
    pub description: Option<String>,
    /// True if it is required.
    pub required: bool,
}

/// A prompt with its arguments filled in.
#[derive(Clone, Debug, PartialEq)]
pub struct PromptMessages {
    /// The description.
    pub description: Option<String>,
    /// The messages, each with `role` and `content`, as the server wrote them.
    pub messages: Vec<Value>,
}

impl Server {
    /// Lists the resources. A server without the capability has none.
    pub async fn resources(&self) -> Result<Vec<Resource>, Error> {
        self.shared().list_resources().await
    }

    /// Lists the resource templates.
    pub async fn resource_templates(&self) -> Result<Vec<Resource>, Error> {
        let entries = self
            .entries("resources", "resources/templates/list", "resourceTemplates")
            .await?;
        let templates = entries.into_iter().filter_map(|entry| resource(entry, "uriTemplate"));
        Ok(templates.collect())
    }

    /// Reads a resource. It can be as large as a message.
    pub async fn read_resource(&self, uri: &str) -> Result<Vec<ResourceContents>, Error> {
        let mut result = self.ask("resources/read", named("uri", uri)).await?;
        let Some(Value::Array(contents)) = result.get_mut("contents").map(Value::take) else {
            return Err(self.not_understood("it has no `contents`"));
        };
        let contents = contents.into_iter().map(|entry| ResourceContents {
            uri: text(&entry, "uri").unwrap_or_else(|| uri.to_owned()),
            mime_type: text(&entry, "mimeType"),
            text: text(&entry, "text"),
            blob: text(&entry, "blob"),
            meta: entry.get("_meta").cloned(),
        });
        Ok(contents.collect())
    }

    /// Subscribes to changes of a resource ([`crate::Event::ResourceUpdated`]).
    pub async fn subscribe_resource(&self, uri: &str) -> Result<(), Error> {
        self.ask("resources/subscribe", named("uri", uri)).await.map(drop)
    }

    /// Ends a subscription.
    pub async fn unsubscribe_resource(&self, uri: &str) -> Result<(), Error> {
        self.ask("resources/unsubscribe", named("uri", uri)).await.map(drop)
    }

    /// Asks for log messages of this level and above ([`crate::Event::Log`]), from `debug` to `emergency`.
    pub async fn set_log_level(&self, level: &str) -> Result<(), Error> {
        self.ask("logging/setLevel", named("level", level)).await.map(drop)
    }

    /// Lists the prompts.
    pub async fn prompts(&self) -> Result<Vec<Prompt>, Error> {
        self.shared().list_prompts().await
    }

    /// Fills in a prompt.
    pub async fn prompt(&self, name: &str, arguments: Map<String, Value>) -> Result<PromptMessages, Error> {
        let mut params = named("name", name);
        params.insert("arguments".to_owned(), Value::Object(arguments));
        let mut result = self.ask("prompts/get", params).await?;
        let Some(Value::Array(messages)) = result.get_mut("messages").map(Value::take) else {
            return Err(self.not_understood("it has no `messages`"));
        };
        Ok(PromptMessages {
            description: text(&result, "description"),
            messages,
        })
    }

    /// Completes an argument of a prompt or of a template. `reference` is a `ref/prompt` or a `ref/resource` of the protocol.
    pub async fn complete(&self, reference: Value, argument: &str, value: &str) -> Result<Vec<String>, Error> {
        if !self.info().is_some_and(|info| info.can("completions")) {
            return Ok(Vec::new());
        }
        let mut written = named("name", argument);
        written.insert("value".to_owned(), Value::String(value.to_owned()));
        let mut params = Map::new();
        params.insert("ref".to_owned(), reference);
        params.insert("argument".to_owned(), Value::Object(written));
        let result = self.ask("completion/complete", params).await?;
        let values = result.get("completion").and_then(|completion| completion.get("values"));
        let values = values.and_then(Value::as_array).into_iter().flatten();
        Ok(values.filter_map(Value::as_str).take(100).map(str::to_owned).collect())
    }

    async fn entries(&self, capability: &str, method: &str, field: &'static str) -> Result<Vec<Value>, Error> {
        self.shared().entries(capability, method, field).await
    }

    async fn ask(&self, method: &str, params: Map<String, Value>) -> Result<Value, Error> {
        let text = self.shared().send_and_wait(method, params).await?;
        serde_json::from_str(&text).map_err(|error| self.not_understood(&error.to_string()))
    }

    fn not_understood(&self, why: &str) -> Error {
        self.shared().not_understood(why)
    }
}

impl ServerShared {
    pub(crate) async fn list_resources(&self) -> Result<Vec<Resource>, Error> {
        let entries = self.entries("resources", "resources/list", "resources").await?;
        Ok(entries.into_iter().filter_map(|entry| resource(entry, "uri")).collect())
    }

    pub(crate) async fn list_prompts(&self) -> Result<Vec<Prompt>, Error> {
        let entries = self.entries("prompts", "prompts/list", "prompts").await?;
        Ok(entries.iter().filter_map(prompt).collect())
    }

    /// Returns all entries of a list, as the server wrote them.
    async fn entries(&self, capability: &str, method: &str, field: &'static str) -> Result<Vec<Value>, Error> {
        let limits = &self.config.limits;
        let mut pages = Pages::new(field, limits.list_entries, limits.list_bytes);
        // The capabilities are known once it is ready; until then the request itself decides.
        let connection = self.connection();
        if connection.is_some_and(|connection| !connection.info.can(capability)) {
            return Ok(Vec::new());
        }
        let mut params = Some(Map::new());
        while let Some(page) = params {
            let page = self.send_and_wait(method, page).await?;
            params = pages
                .take(&page)
                .map_err(|error| self.not_understood(&error.to_string()))?;
        }
        Ok(pages.into_entries())
    }

    async fn send_and_wait(&self, method: &str, params: Map<String, Value>) -> Result<String, Error> {
        let limits = &self.config.limits;
        let request = Request {
            method: method.to_owned(),
            params,
            exact_arguments: None,
            time: limits.request_time,
            time_max: limits.request_time,
            cancel: CancellationToken::new(),
            call: None,
            is_of_app: false,
        };
        self.request(request).await
    }

    fn not_understood(&self, why: &str) -> Error {
        Error::NotUnderstood {
            server: self.config.name.clone(),
            why: why.to_owned(),
        }
    }
}

fn named(field: &str, value: &str) -> Map<String, Value> {
    let mut params = Map::new();
    params.insert(field.to_owned(), Value::String(value.to_owned()));
    params
}

fn resource(entry: Value, uri: &str) -> Option<Resource> {
    let uri = text(&entry, uri)?;
    Some(Resource {
        name: text(&entry, "name").unwrap_or_else(|| uri.clone()),
        title: text(&entry, "title"),
        description: text(&entry, "description"),
        mime_type: text(&entry, "mimeType"),
        size: entry.get("size").and_then(Value::as_u64),
        raw: entry,
        uri,
    })
}

fn prompt(entry: &Value) -> Option<Prompt> {
    let arguments = entry.get("arguments").and_then(Value::as_array).into_iter().flatten();
    let arguments = arguments.filter_map(|argument| {
        Some(PromptArgument {
            name: text(argument, "name")?,
            description: text(argument, "description"),
            required: argument.get("required").and_then(Value::as_bool).unwrap_or_default(),
        })
    });
    Some(Prompt {
        name: text(entry, "name")?,
        title: text(entry, "title"),
        description: text(entry, "description"),
        arguments: arguments.collect(),
    })
}
