//! Requests that are answered from outside the core: by an agent, or by whoever knows the files.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use innkeeper_core::error::code;
use innkeeper_core::{ConnId, LookUp, RequestId, RpcError};
use serde_json::{Value, json};

use crate::agent::{Agent, SettingQuery, SettingValue};
use crate::main_loop::message::Message;
use crate::main_loop::task::HostTask;
use crate::services::completions::{self, CompletionContext, Files};
use crate::services::customizations::TurnCustomizations;

/// Most values of a setting in one answer; whoever types on gets the rest.
const MAX_VALUES: usize = 1000;

impl HostTask {
    /// Looks something up beside the main loop. The answer comes back as a message; when its
    /// connection is gone by then, nobody hears it.
    pub(crate) fn look_up(&mut self, conn: ConnId, id: RequestId, what: LookUp) {
        let ticket = self.requests.take(conn, &id);
        let Some(inbox) = self.inbox.upgrade() else {
            return;
        };
        let agent = match &what {
            LookUp::Completions { provider, .. } | LookUp::SettingValues { provider, .. } => {
                self.agents.get(provider).cloned()
            }
        };
        let customizations = match &what {
            LookUp::Completions {
                session, switched_off, ..
            } => {
                let customizations_watch = self.followed.watch(*session, switched_off);
                customizations_watch.with_mcp(self.servers.of(*session)).now()
            }
            LookUp::SettingValues { .. } => TurnCustomizations::default(),
        };
        let files = Arc::clone(&self.files);
        let time = self.limits.look_up_time;
        self.tasks.spawn(async move {
            let if_nothing = nothing_found(&what);
            let finding = AssertUnwindSafe(find(agent, &*files, &customizations, what, time / 4)).catch_unwind();
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
            let _ = inbox.send(Message::Respond { conn, id, outcome }).await;
            drop(ticket);
        });
    }
}

fn failure(message: &str) -> RpcError {
    RpcError::new(code::INTERNAL_ERROR, message)
}

/// What to answer when nothing can be found: completions are best effort, so there are none
/// (CMP-01); an empty list of values would say that there are none, so that is an error.
fn nothing_found(what: &LookUp) -> Result<Value, String> {
    match what {
        LookUp::Completions { .. } => Ok(json!({ "items": [] })),
        LookUp::SettingValues { property, .. } => Err(format!("values of {property:?}")),
    }
}

async fn find(
    agent: Option<Arc<dyn Agent>>,
    files: &dyn Files,
    customizations: &TurnCustomizations,
    what: LookUp,
    patience: Duration,
) -> Value {
    match what {
        LookUp::Completions {
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
                patience,
            };
            completions::completions(files, cursor).await
        }
        LookUp::SettingValues {
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
