//! What is learned of a server's ways while talking to it.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use super::endpoint::Api;
use crate::model::error::Failure;

/// What one model of a server does not take, or wants differently.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Quirks {
    /// Chat Completions: it wants the other name for the most tokens.
    pub(super) other_token_field: bool,
    /// Chat Completions: it does not know `stream_options`.
    pub(super) no_stream_options: bool,
    /// Chat Completions: it wants ids of calls that have nine letters or digits.
    pub(super) short_ids: bool,
    /// It does not know how to think more or less hard.
    pub(super) no_effort: bool,
    /// Responses: it has no encrypted thinking to give back.
    pub(super) no_encrypted_reasoning: bool,
    /// Responses: it shows no summary of its thinking.
    pub(super) no_reasoning_summary: bool,
    /// Messages: it chooses its own budget for thinking, within an effort.
    pub(super) adaptive_thinking: bool,
    /// It does not read documents.
    pub(super) no_documents: bool,
    /// It leaves to chance what it wants.
    pub(super) no_temperature: bool,
    /// Messages: the most tokens that it writes.
    pub(super) max_output: Option<u32>,
}

impl Quirks {
    /// Learns from a refusal; whether there was anything to learn, so that another try makes sense.
    pub(super) fn learn(&mut self, api: Api, failure: &Failure) -> bool {
        if !matches!(failure.status, Some(400 | 422)) {
            return false;
        }
        let before = self.clone();
        let said = failure.said.to_ascii_lowercase();
        let names = |part: &str| said.contains(part);
        match api {
            Api::ChatCompletions => {
                if names("max_tokens") || names("max_completion_tokens") {
                    self.other_token_field = true;
                } else if names("tool call id") || names("tool_call_id") || names("tool_call.id") {
                    self.short_ids = true;
                } else if names("stream_options") {
                    self.no_stream_options = true;
                } else if names("reasoning_effort") {
                    self.no_effort = true;
                }
            }
            Api::Responses => {
                if names("encrypted") {
                    self.no_encrypted_reasoning = true;
                } else if names("input_file") || names("file_data") || names("pdf") {
                    self.no_documents = true;
                } else if names("reasoning.summary") || names("reasoning summar") {
                    self.no_reasoning_summary = true;
                } else if names("reasoning.effort") {
                    self.no_effort = true;
                }
            }
            Api::Messages => {
                if refuses_document(&said) {
                    self.no_documents = true;
                } else if names("adaptive") && !self.adaptive_thinking {
                    self.adaptive_thinking = true;
                } else if names("max_tokens") && names("maximum") {
                    self.max_output = self.max_output.or_else(|| named_bound(&said));
                } else if names("thinking") || names("effort") {
                    self.no_effort = true;
                }
            }
        }
        *self != before
    }

    /// Learns that a model does not take the temperature that it was sent, likewise.
    pub(super) fn learn_temperature(&mut self, failure: &Failure) -> bool {
        let is_refused = matches!(failure.status, Some(400 | 422)) && failure.said.contains("temperature");
        is_refused && !std::mem::replace(&mut self.no_temperature, true)
    }
}

/// Whether a refusal is about a document. Refusals also point to the documentation.
fn refuses_document(said: &str) -> bool {
    let parts = ["pdf", "document.source", "'document'", "\"document\"", "`document`"];
    parts.iter().any(|part| said.contains(part))
}

/// The bound in `max_tokens: 64000 > 8192, which is the maximum allowed …`.
fn named_bound(said: &str) -> Option<u32> {
    let (_, after) = said.split_once('>')?;
    let digits: String = after.trim_start().chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

/// What was learned, per model.
#[derive(Debug, Default)]
pub(super) struct QuirksByModel(Mutex<HashMap<String, Quirks>>);

impl QuirksByModel {
    pub(super) fn of(&self, model: &str) -> Quirks {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(model).cloned().unwrap_or_default()
    }

    /// Keeps what made a request work. A model without quirks takes no room.
    pub(super) fn remember(&self, model: &str, quirks: Quirks) {
        if quirks != Quirks::default() {
            let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            known.insert(model.to_owned(), quirks);
        }
    }
}
