//! Serves MCP sampling requests with the model of the turn that called the server. The host has checked that the user
//! allows it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use innkeeper_host::agent::{Secret, Usage};
use innkeeper_host::mcp::{Sampler, SamplingMessage, SamplingPart, SamplingRequest, SamplingResult, SamplingStop};
use innkeeper_std::sync::Mutex;

use super::models::Model;
use super::state::AgentState;
use crate::model::api::{
    AssistantPart, Effort, ModelEvent, ModelMessage, ModelRequest, StopReason, TokenUsage, UserPart,
};
use crate::model::client::ModelStream;
use crate::model::conversation::images;
use crate::model::conversation::tokens::{tokens_in, tokens_of};
use crate::model::error::ProviderError;
use crate::model::retry::jitter;

/// Timeout of one sampling request.
const TIME: Duration = Duration::from_secs(300);
/// Maximum bytes of one answer: some model servers ignore the token limit.
const MAX_BYTES: usize = 256 << 10;

/// Token usage of sampling requests. It counts towards the usage of the turn.
pub(in crate::model) type SamplingUsage = Arc<Mutex<Vec<TokenUsage>>>;

/// Answers sampling requests with the model of a turn.
pub(in crate::model) struct TurnSampler {
    pub(in crate::model) agent_state: Arc<AgentState>,
    pub(in crate::model) model: Model,
    pub(in crate::model) key: Option<Secret>,
    pub(in crate::model) sampling_usage: SamplingUsage,
}

#[async_trait]
impl Sampler for TurnSampler {
    async fn sample(&self, request: &SamplingRequest) -> Result<SamplingResult, String> {
        let model_request = self.request(request)?;
        let sampling = self.sample_text(&model_request, &request.stop_sequences);
        let sampled = match tokio::time::timeout(TIME, sampling).await {
            Ok(sampled) => sampled.map_err(|error| error.message)?,
            Err(_) => return Err(format!("the model did not answer within {} s", TIME.as_secs())),
        };
        if sampled.text.is_empty() && sampled.stop == SamplingStop::Length {
            let limit = request.max_tokens;
            return Err(format!(
                "the model used all {limit} tokens for reasoning; raise `maxTokens`"
            ));
        }
        Ok(sampled)
    }

    fn usage(&self) -> Option<Usage> {
        let sampling_usage = self.sampling_usage.lock();
        let sum = |of: fn(&TokenUsage) -> Option<u32>| {
            let known = sampling_usage.iter().filter_map(of);
            known.fold(None, |sum: Option<u32>, tokens| {
                Some(sum.unwrap_or_default().saturating_add(tokens))
            })
        };
        (!sampling_usage.is_empty()).then(|| Usage {
            input_tokens: sum(|usage| usage.input),
            output_tokens: sum(|usage| usage.output),
            cache_read_tokens: sum(|usage| usage.cache_read),
            model: Some(self.model.id.clone()),
            ..Usage::default()
        })
    }
}

impl TurnSampler {
    fn request(&self, request: &SamplingRequest) -> Result<ModelRequest, String> {
        let messages = request.messages.iter().map(|message| self.message(message));
        let limit = self.model.max_output_tokens.unwrap_or(u32::MAX);
        Ok(ModelRequest {
            model: self.model.id.clone(),
            system: request.system_prompt.iter().cloned().collect(),
            messages: messages.collect::<Result<_, _>>()?,
            max_output_tokens: Some(request.max_tokens.min(limit)),
            temperature: request.temperature,
            effort: self.model.accepts_effort.then_some(Effort::Low),
            ..ModelRequest::default()
        })
    }

    fn message(&self, message: &SamplingMessage) -> Result<ModelMessage, String> {
        if message.is_assistants {
            let parts = message.parts.iter().map(|part| match part {
                SamplingPart::Text(text) => Ok(AssistantPart::Text(text.clone())),
                SamplingPart::Image { .. } => {
                    Err("an assistant message cannot contain images; put them into a user message")
                }
            });
            return Ok(ModelMessage::Assistant(parts.collect::<Result<_, _>>()?));
        }
        let parts = message.parts.iter().map(|part| match part {
            SamplingPart::Text(text) => Ok(UserPart::Text(text.clone())),
            SamplingPart::Image { .. } if !self.model.accepts_images => {
                Err(format!("the model {:?} does not accept images", self.model.id))
            }
            SamplingPart::Image { data, content_type } => images::from_base64(content_type, data)
                .map(UserPart::Image)
                .ok_or_else(|| format!("images of the type {content_type:?} are not supported")),
        });
        Ok(ModelMessage::User(parts.collect::<Result<_, _>>()?))
    }

    async fn sample_text(&self, request: &ModelRequest, stops: &[String]) -> Result<SamplingResult, ProviderError> {
        let client = &self.agent_state.client;
        let asking = client.stream_with_retries(request, self.key.as_ref(), &self.agent_state.retry, jitter, |_| {});
        let stream = asking.await?;
        let mut usage_record = UsageRecord {
            sampling_usage: &self.sampling_usage,
            input: request.messages.iter().map(tokens_of).sum(),
            written: 0,
            reported: None,
        };
        let (text, stop) = read_until_stop(stream, stops, &mut usage_record).await?;
        Ok(SamplingResult {
            text,
            model: self.model.id.clone(),
            stop,
        })
    }
}

/// Reads a stream until it ends or a stop sequence occurs. Not every API supports stop sequences.
async fn read_until_stop(
    mut stream: ModelStream,
    stops: &[String],
    usage_record: &mut UsageRecord<'_>,
) -> Result<(String, SamplingStop), ProviderError> {
    let mut text = String::new();
    let mut stop = SamplingStop::Done;
    while let Some(event) = stream.next().await {
        match event? {
            ModelEvent::Text(more) => {
                text.push_str(&more);
                usage_record.written += tokens_in(&more);
                if let Some(end) = stops.iter().filter_map(|stop| text.find(stop.as_str())).min() {
                    text.truncate(end);
                    return Ok((text, SamplingStop::StopSequence));
                }
                if text.len() > MAX_BYTES {
                    text.truncate(text.floor_char_boundary(MAX_BYTES));
                    return Ok((text, SamplingStop::Length));
                }
            }
            ModelEvent::Usage(now) => usage_record.reported = Some(now),
            ModelEvent::End(StopReason::Length) => stop = SamplingStop::Length,
            ModelEvent::Reasoning(more) => usage_record.written += tokens_in(&more),
            ModelEvent::End(_)
            | ModelEvent::ReasoningDone(_)
            | ModelEvent::CallStart { .. }
            | ModelEvent::CallInput { .. } => {}
        }
    }
    Ok((text, stop))
}

/// Records the token usage when it is dropped, because an abandoned answer is billed too.
struct UsageRecord<'a> {
    sampling_usage: &'a SamplingUsage,
    input: usize,
    written: usize,
    reported: Option<TokenUsage>,
}

impl Drop for UsageRecord<'_> {
    fn drop(&mut self) {
        // Most providers report usage at the end. For an abandoned answer the estimate is used.
        let about = |tokens: usize| Some(u32::try_from(tokens).unwrap_or(u32::MAX));
        let usage = self.reported.unwrap_or_else(|| TokenUsage {
            input: about(self.input),
            output: about(self.written),
            cache_read: None,
        });
        let mut sampling_usage = self.sampling_usage.lock();
        sampling_usage.push(usage);
    }
}

#[cfg(test)]
mod tests {
    use innkeeper_testkit::model_server::{ModelServer, Reply};

    use super::*;
    use crate::model::agent::key::Key;
    use crate::model::agent::{ModelAgent, ModelAgentSettings};
    use crate::model::client::{Api, Endpoint};

    async fn model(server: &ModelServer) -> TurnSampler {
        let endpoint = Endpoint::new(Api::ChatCompletions, server.url().parse().unwrap());
        let settings = ModelAgentSettings::new("m", "M", endpoint, Key::NotNeeded);
        TurnSampler {
            agent_state: Arc::clone(ModelAgent::new(settings).unwrap().agent_state()),
            model: Model::new("m"),
            key: None,
            sampling_usage: SamplingUsage::default(),
        }
    }

    fn request(parts: Vec<SamplingPart>) -> SamplingRequest {
        SamplingRequest {
            messages: vec![SamplingMessage {
                is_assistants: false,
                parts,
            }],
            max_tokens: 50,
            temperature: Some(0.5),
            stop_sequences: vec!["END".to_owned()],
            ..SamplingRequest::default()
        }
    }

    fn text_parts() -> Vec<SamplingPart> {
        vec![SamplingPart::Text("Go on.".to_owned())]
    }

    #[tokio::test]
    async fn mcp12_sampling_ends_at_a_stop_sequence_and_usage_is_counted() {
        let server = ModelServer::start([Reply::words("one END two").deltas([3, 2])]).await;
        let model = model(&server).await;
        let sampled = model.sample(&request(text_parts())).await.unwrap();
        assert_eq!(
            (sampled.text.as_str(), sampled.stop),
            ("one ", SamplingStop::StopSequence)
        );
        let model_request = server.requests().pop().unwrap();
        assert_eq!(model_request.body["temperature"], 0.5);
        assert_eq!(
            model_request.body["max_completion_tokens"]
                .as_u64()
                .or_else(|| model_request.body["max_tokens"].as_u64()),
            Some(50)
        );
        let sampling_usage = model.sampling_usage.lock();
        assert!(
            sampling_usage.iter().all(|usage| usage.output > Some(0)) && sampling_usage.len() == 1,
            "{sampling_usage:?}"
        );
    }

    #[tokio::test]
    async fn mcp12_sampling_rejects_unsupported_images_without_a_request() {
        let server = ModelServer::start([]).await;
        let mut model = model(&server).await;
        let image = |content_type: &str| SamplingPart::Image {
            data: "AAAA".to_owned(),
            content_type: content_type.to_owned(),
        };
        let drawing = model.sample(&request(vec![image("image/svg+xml")])).await;
        assert!(drawing.unwrap_err().contains("image/svg+xml"));
        model.model.accepts_images = false;
        let photo = model.sample(&request(vec![image("image/png")])).await;
        assert!(photo.unwrap_err().contains("does not accept images"));
        assert!(server.requests().is_empty());
    }
}
