//! Shared code of the provider tests.

use std::time::Duration;

use innkeeper_agents::model::api::{
    AssistantPart, ModelEvent, ModelMessage, ModelRequest, Reasoning, StopReason, TokenUsage, ToolUse, UserPart,
};
use innkeeper_agents::model::client::{AnswerDecoder, Api, Endpoint, ModelClient, ModelStream, ProofOrigin};
use innkeeper_agents::model::error::{Provider, ProviderError};
use innkeeper_host::agent::Secret;
use innkeeper_testkit::model_server::{Api as Wire, ModelServer};

/// A key that must never be shown.
pub const KEY: &str = "k3y-of-the-realm-0123456789";

pub fn key() -> Secret {
    Secret::new(KEY)
}

/// Returns the API as the client names it.
pub fn api_of(wire: Wire) -> Api {
    match wire {
        Wire::Chat => Api::ChatCompletions,
        Wire::Responses => Api::Responses,
        Wire::Messages => Api::Messages,
    }
}

pub fn endpoint(wire: Wire, server: &ModelServer) -> Endpoint {
    let mut endpoint = Endpoint::new(api_of(wire), server.url().parse().expect("the address of a server"));
    // Long enough for a loaded machine, short enough for a failing test.
    endpoint.idle_time = Duration::from_secs(60);
    endpoint
}

pub fn client(wire: Wire, server: &ModelServer) -> ModelClient {
    ModelClient::new(endpoint(wire, server)).expect("a client")
}

pub fn ask(text: &str) -> ModelRequest {
    ModelRequest {
        model: "scripted".into(),
        messages: vec![ModelMessage::User(vec![UserPart::Text(text.into())])],
        ..ModelRequest::default()
    }
}

/// Creates the decoder of one API.
pub fn decoder(wire: Wire) -> AnswerDecoder {
    let endpoint = Endpoint::new(api_of(wire), "https://models.example/v1".parse().expect("an address"));
    let provider = Provider {
        host: endpoint.host(),
        model: "scripted".into(),
        ..Provider::default()
    };
    AnswerDecoder::new(api_of(wire), provider, ProofOrigin::new(&endpoint, "scripted"), "made")
}

/// Returns all events of a stream and its error, if any.
pub async fn drain(mut stream: ModelStream) -> (Vec<ModelEvent>, Option<ProviderError>) {
    let mut events = Vec::new();
    while let Some(event) = stream.next().await {
        match event {
            Ok(event) => events.push(event),
            Err(error) => {
                assert!(stream.next().await.is_none(), "nothing follows an error");
                return (events, Some(error));
            }
        }
    }
    (events, None)
}

/// The content of an answer, independent of how it was split.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AnswerContent {
    /// Reasoning, text and calls in order; adjacent text is merged.
    pub parts: Vec<AssistantPart>,
    pub usage: Option<TokenUsage>,
    pub stop: Option<StopReason>,
}

impl AnswerContent {
    /// Combines events and checks their order.
    pub fn of(events: &[ModelEvent]) -> Self {
        let mut answer = Self::default();
        let mut thinking = String::new();
        let mut calls: Vec<ToolUse> = Vec::new();
        for event in events {
            assert!(answer.stop.is_none(), "nothing follows the end: {event:?}");
            match event {
                ModelEvent::Text(text) => match answer.parts.last_mut() {
                    Some(AssistantPart::Text(before)) => before.push_str(text),
                    _ => answer.parts.push(AssistantPart::Text(text.clone())),
                },
                ModelEvent::Reasoning(text) => thinking.push_str(text),
                ModelEvent::ReasoningDone(reasoning) => {
                    assert_eq!(reasoning.text, std::mem::take(&mut thinking), "all that was streamed");
                    answer.parts.push(AssistantPart::Reasoning(reasoning.clone()));
                }
                ModelEvent::CallStart { index, id, name } => {
                    assert_eq!(*index, calls.len(), "calls are counted from 0");
                    calls.push(ToolUse {
                        id: id.clone(),
                        name: name.clone(),
                        input: String::new(),
                    });
                }
                ModelEvent::CallInput { index, text } => calls[*index].input.push_str(text),
                ModelEvent::Usage(usage) => answer.usage = Some(*usage),
                ModelEvent::End(stop) => answer.stop = Some(stop.clone()),
            }
        }
        assert_eq!(thinking, "", "thinking that did not end");
        answer.parts.extend(calls.into_iter().map(AssistantPart::Call));
        answer
    }

    /// Removes the proofs, which differ between APIs.
    pub fn without_proofs(mut self) -> Self {
        for part in &mut self.parts {
            if let AssistantPart::Reasoning(Reasoning { proof, .. }) = part {
                *proof = None;
            }
        }
        self
    }
}
