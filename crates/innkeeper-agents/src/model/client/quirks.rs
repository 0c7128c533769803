//! Quirks of servers, learned from rejected requests.

use std::collections::HashMap;

use innkeeper_std::sync::Mutex;

use super::endpoint::Api;
use crate::model::error::Failure;

/// Parameters that a model of a server rejects, or expects in another form.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Quirks {
    /// Chat Completions: expects the other field for the maximum output tokens.
    pub(super) other_token_field: bool,
    /// Chat Completions: rejects `stream_options`.
    pub(super) no_stream_options: bool,
    /// Chat Completions: requires call ids of nine letters or digits.
    pub(super) short_ids: bool,
    /// Rejects a reasoning effort.
    pub(super) no_effort: bool,
    /// Responses: does not return encrypted reasoning.
    pub(super) no_encrypted_reasoning: bool,
    /// Responses: does not return reasoning summaries.
    pub(super) no_reasoning_summary: bool,
    /// Messages: chooses its own thinking budget for a given effort.
    pub(super) adaptive_thinking: bool,
    /// Rejects documents.
    pub(super) no_documents: bool,
    /// Rejects a temperature.
    pub(super) no_temperature: bool,
    /// Messages: maximum output tokens.
    pub(super) max_output: Option<u32>,
}

impl Quirks {
    /// Learns from a rejected request. Returns true if the request should be changed and sent again.
    pub(super) fn learn(&mut self, api: Api, failure: &Failure) -> bool {
        if !matches!(failure.status, Some(400 | 422)) {
            return false;
        }
        let before = self.clone();
        let detail = failure.detail.to_ascii_lowercase();
        let names = |part: &str| detail.contains(part);
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
                if refuses_document(&detail) {
                    self.no_documents = true;
                } else if names("adaptive") && !self.adaptive_thinking {
                    self.adaptive_thinking = true;
                } else if names("max_tokens") && names("maximum") {
                    self.max_output = self.max_output.or_else(|| named_bound(&detail));
                } else if names("thinking") || names("effort") {
                    self.no_effort = true;
                }
            }
        }
        *self != before
    }

    /// Learns that the model rejects a temperature. Returns true if that is new.
    pub(super) fn learn_temperature(&mut self, failure: &Failure) -> bool {
        let is_refused = matches!(failure.status, Some(400 | 422)) && failure.detail.contains("temperature");
        is_refused && !std::mem::replace(&mut self.no_temperature, true)
    }
}

/// Returns true if an error is about a document. Errors also link to the documentation.
fn refuses_document(detail: &str) -> bool {
    let parts = ["pdf", "document.source", "'document'", "\"document\"", "`document`"];
    parts.iter().any(|part| detail.contains(part))
}

/// Extracts the limit from `max_tokens: 64000 > 8192, which is the maximum allowed …`.
fn named_bound(detail: &str) -> Option<u32> {
    let (_, after) = detail.split_once('>')?;
    let digits: String = after.trim_start().chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

/// Learned quirks per model.
#[derive(Debug, Default)]
pub(super) struct QuirksByModel(Mutex<HashMap<String, Quirks>>);

impl QuirksByModel {
    pub(super) fn of(&self, model: &str) -> Quirks {
        let known = self.0.lock();
        known.get(model).cloned().unwrap_or_default()
    }

    /// Stores the quirks of a successful request. Models without quirks are not stored.
    pub(super) fn remember(&self, model: &str, quirks: Quirks) {
        if quirks != Quirks::default() {
            let mut known = self.0.lock();
            known.insert(model.to_owned(), quirks);
        }
    }
}
