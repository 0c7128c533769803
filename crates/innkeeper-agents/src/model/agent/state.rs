//! State that all chats of an agent share: settings, model list, key and client.

use std::sync::Arc;
use std::time::Duration;

use innkeeper_host::agent::Secret;
use innkeeper_host::{AgentError, TurnInput};
use innkeeper_std::sync::RwLock;

use super::key::{self, Key};
use super::models::{Model, merged};
use super::title;
use crate::model::api::{ModelEntry, ModelEvent, ModelRequest, TokenUsage};
use crate::model::client::ModelClient;
use crate::model::error::{ErrorKind, ProviderError};
use crate::model::retry::RetryPolicy;
use crate::model::turn::TurnRun;
use crate::tools::HostTool;

/// Timeout of side requests such as titles and summaries.
const SIDE_REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum bytes of a side answer, so that a model that never stops cannot exhaust memory.
const MAX_SIDE_REQUEST_BYTES: usize = 64 << 10;

/// State that all chats of an agent share.
pub(in crate::model) struct AgentState {
    pub(in crate::model) provider: String,
    pub(in crate::model) display_name: String,
    pub(in crate::model) description: String,
    pub(in crate::model) key: Key,
    /// The protected resource that clients name in `authenticate`.
    pub(in crate::model) resource: String,
    pub(in crate::model) configured_models: Vec<Model>,
    pub(in crate::model) models: RwLock<Vec<Model>>,
    pub(in crate::model) client: ModelClient,
    pub(in crate::model) tools: Vec<Arc<dyn HostTool>>,
    pub(in crate::model) prompt_overrides: Vec<(String, String)>,
    pub(in crate::model) generate_titles: bool,
    pub(in crate::model) max_rounds: usize,
    pub(in crate::model) retry: RetryPolicy,
}

impl AgentState {
    pub(in crate::model) fn add_listed_models(&self, listed: Vec<ModelEntry>) {
        *self.models.write() = merged(&self.configured_models, listed);
    }

    pub(in crate::model) fn offered_models(&self) -> Vec<Model> {
        self.models.read().clone()
    }

    /// Returns the model that a message selected, or the default model.
    pub(in crate::model) async fn model(
        &self,
        chosen: Option<&str>,
        key: Option<&Secret>,
    ) -> Result<Model, AgentError> {
        // The model server may have been down when the host started, or may list models only with a key.
        if self.offered_models().is_empty() && chosen.is_none() {
            match self.client.models(key).await {
                Ok(listed) => self.add_listed_models(listed),
                Err(error) => tracing::debug!(kind = ?error.kind, "could not list models"),
            }
        }
        let offered = self.offered_models();
        match chosen {
            None => offered.into_iter().next().ok_or_else(|| {
                let message = format!(
                    "{} offers no models. Configure one, or check that its server is running.",
                    self.display_name
                );
                AgentError::resumable("noModel", message)
            }),
            Some(id) => match offered.into_iter().find(|model| model.id == id) {
                Some(model) => Ok(model),
                // Providers may serve models that they do not list.
                None => Ok(Model::new(id)),
            },
        }
    }

    /// Returns the key of a turn and whether it is the client's. A client's token takes precedence over the host's
    /// key.
    pub(in crate::model) async fn key_for(&self, turn: &TurnInput) -> Result<(Option<Secret>, bool), AgentError> {
        match turn.token(&self.resource) {
            Some(token) => Ok((Some(token), true)),
            None => Ok((self.host_key().await?, false)),
        }
    }

    pub(in crate::model) async fn host_key(&self) -> Result<Option<Secret>, AgentError> {
        match &self.key {
            Key::NotNeeded => Ok(None),
            Key::Known(key) => Ok(Some(key.clone())),
            Key::File(path) => key::read(path).await.map(Some),
            Key::Missing { how } => Err(AgentError::resumable(
                "auth",
                format!("There is no key for {}: {how}.", self.display_name),
            )),
        }
    }

    /// Finds the offered model that a customization file of another product means: by id, by name, or by a part of
    /// the id such as `sonnet`.
    pub(in crate::model) fn find_model_by_alias(&self, wanted: &str) -> Option<Model> {
        let bare = wanted.split('(').next().unwrap_or_default().trim().to_lowercase();
        let offered = self.offered_models();
        let is_it = |model: &&Model| model.id.to_lowercase() == bare || model.name.to_lowercase() == bare;
        let has_part = |model: &&Model| {
            let id = model.id.to_lowercase();
            id.split(|c: char| !c.is_alphanumeric()).any(|part| part == bare)
        };
        let found = offered.iter().find(is_it).or_else(|| offered.iter().find(has_part));
        found.cloned()
    }

    /// Returns true if the configuration replaces this prompt section.
    pub(in crate::model) fn overrides(&self, section: &str) -> bool {
        self.prompt_overrides.iter().any(|(id, _)| id == section)
    }

    pub(in crate::model) fn today(&self) -> String {
        jiff::Zoned::now().date().to_string()
    }

    /// Sends a side request and returns the answer's text. Users do not see the stream.
    pub(in crate::model) async fn complete_text(
        &self,
        request: &ModelRequest,
        key: Option<&Secret>,
    ) -> Result<(String, TokenUsage), ProviderError> {
        let reading = async {
            let mut stream = self.client.stream(request, key).await?;
            let (mut text, mut usage) = (String::new(), TokenUsage::default());
            while let Some(event) = stream.next().await {
                match event? {
                    ModelEvent::Text(more) if text.len() + more.len() > MAX_SIDE_REQUEST_BYTES => {
                        return Err(ProviderError {
                            kind: ErrorKind::Malformed,
                            message: "The model's answer is too long.".to_owned(),
                            retry_after: None,
                        });
                    }
                    ModelEvent::Text(more) => text.push_str(&more),
                    ModelEvent::Usage(now) => usage = now,
                    ModelEvent::Reasoning(_)
                    | ModelEvent::ReasoningDone(_)
                    | ModelEvent::CallStart { .. }
                    | ModelEvent::CallInput { .. }
                    | ModelEvent::End(_) => {}
                }
            }
            Ok((text, usage))
        };
        match tokio::time::timeout(SIDE_REQUEST_TIMEOUT, reading).await {
            Ok(result) => result,
            Err(_) => Err(ProviderError {
                kind: ErrorKind::Interrupted,
                message: "The model did not answer in time.".to_owned(),
                retry_after: None,
            }),
        }
    }

    /// Sets the session title from the first message. A failure leaves the title as it is.
    pub(in crate::model) async fn suggest_title(&self, turn: &TurnInput, run: &TurnRun<'_>, wanted: bool) {
        if !wanted || turn.text.trim().is_empty() {
            return;
        }
        let request = title::request(&run.choice.model, &turn.text);
        match self.complete_text(&request, run.choice.key.as_ref()).await {
            Ok((answer, _)) => {
                if let Some(title) = title::parse(&answer) {
                    let _ = run.events.title(title).await;
                }
            }
            Err(error) => tracing::debug!(kind = ?error.kind, "could not generate a title"),
        }
    }
}

#[cfg(test)]
mod tests {
    use innkeeper_testkit::model_server::{ModelServer, Reply};

    use super::*;
    use crate::model::agent::{ModelAgent, ModelAgentSettings};
    use crate::model::api::{ModelMessage, UserPart};
    use crate::model::client::{Api, Endpoint};

    #[tokio::test]
    async fn an_endless_title_is_rejected() {
        let server = ModelServer::start([
            Reply::words("on and on ".repeat(10_000)).deltas([1000]),
            Reply::words("A title"),
        ]);
        let server = server.await;
        let endpoint = Endpoint::new(Api::ChatCompletions, server.url().parse().unwrap());
        let settings = ModelAgentSettings::new("m", "M", endpoint, Key::NotNeeded);
        let agent = ModelAgent::new(settings).unwrap();
        let request = ModelRequest {
            model: "m".to_owned(),
            messages: vec![ModelMessage::User(vec![UserPart::Text("Name it.".to_owned())])],
            ..ModelRequest::default()
        };
        let endless = agent.agent_state().complete_text(&request, None).await;
        assert_eq!(endless.unwrap_err().kind, ErrorKind::Malformed);
        assert_eq!(
            agent.agent_state().complete_text(&request, None).await.unwrap().0,
            "A title"
        );
    }
}
