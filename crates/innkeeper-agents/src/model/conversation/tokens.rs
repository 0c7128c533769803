//! Token estimates.

use crate::model::api::{AssistantPart, ModelMessage, UserPart};

/// Estimated tokens of an image. Providers count differently.
const TOKENS_PER_IMAGE: usize = 1500;
/// Estimated tokens of a PDF page, and base64 bytes per page.
const TOKENS_PER_PAGE: usize = 2500;
const BASE64_BYTES_PER_PAGE: usize = 60_000;
/// Estimated bytes per token, until the provider's first count calibrates the estimate.
const BYTES_PER_TOKEN: usize = 4;

/// Estimates the tokens of a text.
pub(in crate::model) fn tokens_in(text: &str) -> usize {
    text.len().div_ceil(BYTES_PER_TOKEN)
}

/// Estimates the tokens of a message.
pub(in crate::model) fn tokens_of(message: &ModelMessage) -> usize {
    let tokens: usize = match message {
        ModelMessage::User(parts) => parts
            .iter()
            .map(|part| match part {
                UserPart::Text(text) => tokens_in(text),
                UserPart::Image(_) => TOKENS_PER_IMAGE,
                UserPart::Document(document) => document.base64.len().div_ceil(BASE64_BYTES_PER_PAGE) * TOKENS_PER_PAGE,
            })
            .sum(),
        ModelMessage::Assistant(parts) => parts
            .iter()
            .map(|part| match part {
                AssistantPart::Text(text) => tokens_in(text),
                AssistantPart::Reasoning(reasoning) => tokens_in(&reasoning.text),
                AssistantPart::Call(call) => tokens_in(&call.input) + tokens_in(&call.name) + 10,
            })
            .sum(),
        ModelMessage::ToolResults(results) => results
            .iter()
            .map(|result| tokens_in(&result.text) + result.images.len() * TOKENS_PER_IMAGE + 10)
            .sum(),
    };
    tokens + 4
}
