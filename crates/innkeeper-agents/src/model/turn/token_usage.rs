//! Token usage of a turn.

use innkeeper_host::agent::{AppliedRule, Usage};

use crate::model::api::TokenUsage;

/// Token usage of a turn so far.
#[derive(Debug, Default)]
pub(in crate::model) struct TurnUsage {
    input: Option<u32>,
    output: Option<u32>,
    cache_read: Option<u32>,
}

impl TurnUsage {
    pub(in crate::model) fn add(&mut self, usage: TokenUsage) {
        let sum = |so_far: Option<u32>, more: Option<u32>| match (so_far, more) {
            (None, None) => None,
            (so_far, more) => Some(so_far.unwrap_or_default().saturating_add(more.unwrap_or_default())),
        };
        self.input = sum(self.input, usage.input);
        self.output = sum(self.output, usage.output);
        self.cache_read = sum(self.cache_read, usage.cache_read);
    }

    pub(in crate::model) fn usage(&self, model: &str, rules: Vec<AppliedRule>) -> Usage {
        Usage {
            input_tokens: self.input,
            output_tokens: self.output,
            cache_read_tokens: self.cache_read,
            model: Some(model.to_owned()),
            rules,
            ..Usage::default()
        }
    }
}
