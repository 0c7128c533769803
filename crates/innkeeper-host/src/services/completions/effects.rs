//! Performs the effects that answer requests with completions or with values of settings.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use innkeeper_core::error::code;
use innkeeper_core::{CompletionQuery, CompletionRequest, RpcError};
use serde_json::{Value, json};

use crate::agent::{Agent, SettingQuery, SettingValue};
use crate::main_loop::agents::Agents;
use crate::main_loop::handles::LoopHandles;
use crate::main_loop::requests::RequestTickets;
use crate::services::completions::{self, CompletionContext, Files};
use crate::services::customizations::TurnCustomizations;
use crate::services::customizations::effects::FollowedCustomizations;
use crate::services::mcp::effects::Servers;

/// Maximum values of a setting in one answer; a longer query finds the rest.
const MAX_VALUES: usize = 1000;

/// The files for completions, and the requests that are answered with them or by an agent.
pub(crate) struct CompletionRequests {
    files: Arc<dyn Files>,
}

/// The parts of the host that take part in a completion.
pub(crate) struct CompletionParts<'a> {
    pub(crate) agents: &'a Agents,
    pub(crate) customizations: &'a mut FollowedCustomizations,
    pub(crate) mcp: &'a Servers,
}

impl CompletionRequests {
    pub(crate) fn new(files: Arc<dyn Files>) -> Self {
        Self { files }
    }

    /// Answers a request with completions or with values of a setting.
    pub(crate) fn perform(
        &self,
        handles: &LoopHandles,
        requests: &mut RequestTickets,
        request: CompletionRequest,
        parts: CompletionParts<'_>,
    ) {
        let CompletionRequest { conn, id, query } = request;
        let Some(request) = requests.open(handles, conn, id) else {
            // The host is going away.
            return;
        };
        let (provider, customizations) = match &*query {
            CompletionQuery::Message {
                provider,
                session,
                disabled_ids,
                ..
            } => {
                let watch = parts.customizations.watch(*session, disabled_ids);
                (provider, watch.with_mcp(parts.mcp.of(*session)).now())
            }
            CompletionQuery::SettingValue { provider, .. } => (provider, TurnCustomizations::default()),
        };
        let agent = parts.agents.get(provider);
        let files = Arc::clone(&self.files);
        let time = handles.limits().look_up_time;
        handles.tasks().spawn(async move {
            let if_nothing = nothing_found(&query);
            let finding = AssertUnwindSafe(find(agent, &*files, &customizations, *query, time / 4)).catch_unwind();
            let outcome = match tokio::time::timeout(time, finding).await {
                Ok(Ok(value)) => Ok(value),
                Ok(Err(_)) => {
                    tracing::error!("a look-up for a client panicked");
                    if_nothing.map_err(|what| failure(&format!("{what}: the look-up failed; the host's log says more")))
                }
                Err(_) => {
                    tracing::warn!(?time, "a look-up for a client took too long");
                    let ms = time.as_millis();
                    if_nothing.map_err(|what| failure(&format!("{what}: nothing was found within {ms} ms; try again")))
                }
            };
            request.respond(outcome).await;
        });
    }
}

fn failure(message: &str) -> RpcError {
    RpcError::new(code::INTERNAL_ERROR, message)
}

/// Returns the answer if nothing can be found. Completions are best effort, so there are none (CMP-01). An empty list
/// of values would mean that the setting has no values, so that is an error.
fn nothing_found(query: &CompletionQuery) -> Result<Value, String> {
    match query {
        CompletionQuery::Message { .. } => Ok(json!({ "items": [] })),
        CompletionQuery::SettingValue { property, .. } => Err(format!("values of {property:?}")),
    }
}

async fn find(
    agent: Option<Arc<dyn Agent>>,
    files: &dyn Files,
    customizations: &TurnCustomizations,
    query: CompletionQuery,
    timeout: Duration,
) -> Value {
    match query {
        CompletionQuery::Message {
            working_directories,
            text,
            offset,
            commands,
            ..
        } => {
            let cursor = CompletionContext {
                directories: &working_directories,
                text: &text,
                offset,
                commands: &commands,
                customizations,
                timeout,
            };
            completions::completions(files, cursor).await
        }
        CompletionQuery::SettingValue {
            property,
            query,
            working_directory,
            values,
            ..
        } => {
            let query = SettingQuery {
                setting: property,
                text: query,
                working_directory,
                settings: values,
            };
            let found = match agent {
                Some(agent) => agent.setting_values(query).await,
                None => Vec::new(),
            };
            let items: Vec<Value> = found.into_iter().take(MAX_VALUES).map(item).collect();
            json!({ "items": items })
        }
    }
}

/// A value as `sessionConfigCompletions` answers it (CMP-06).
fn item(found: SettingValue) -> Value {
    let mut item = json!({ "value": found.value, "label": found.label });
    if let (Some(item), Some(description)) = (item.as_object_mut(), found.description) {
        item.insert("description".to_owned(), Value::String(description));
    }
    item
}
