//! State that is persisted with a chat in addition to its history.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Maximum bytes of a persisted summary. The host accepts 64 KiB in total.
const MAX_SUMMARY: usize = 24 << 10;
/// Maximum number of rules and skills in use that are remembered.
const MAX_IN_USE: usize = 32;

/// State that is persisted with a chat.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(in crate::model) struct ChatMemory {
    /// The summary of the compacted beginning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::model) compacted: Option<CompactedHistory>,
    /// Ids of the rules and skills in use, the latest last.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(in crate::model) in_use: Vec<String>,
}

/// A persisted summary, which saves a request after a restart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::model) struct CompactedHistory {
    /// Id of the last turn that the summary covers.
    pub(in crate::model) through: String,
    pub(in crate::model) summary: String,
}

impl ChatMemory {
    /// Deserializes the memory. Invalid data yields an empty memory.
    pub(in crate::model) fn read(value: &Value) -> Self {
        Self::deserialize(value).unwrap_or_default()
    }

    pub(in crate::model) fn to_value(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }

    /// Marks a rule or skill as in use.
    pub(in crate::model) fn mark_in_use(&mut self, id: &str) {
        self.in_use.retain(|used| used != id);
        self.in_use.push(id.to_owned());
        let first = self.in_use.len().saturating_sub(MAX_IN_USE);
        self.in_use.drain(..first);
    }

    /// Keeps only these ids in use. Returns true if any was removed.
    pub(in crate::model) fn retain_in_use(&mut self, ids: &HashSet<String>) -> bool {
        let before = self.in_use.len();
        self.in_use.retain(|used| ids.contains(used));
        self.in_use.len() < before
    }

    /// Stores a summary. One that is too long is not stored and is requested again when needed.
    pub(in crate::model) fn compact(&mut self, through: &str, summary: &str) {
        self.compacted = (summary.len() <= MAX_SUMMARY).then(|| CompactedHistory {
            through: through.to_owned(),
            summary: summary.to_owned(),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_survives_a_round_trip() {
        let mut memory = ChatMemory::default();
        memory.compact("t1", "files were read");
        for id in 0..100 {
            memory.mark_in_use(&format!("rule-{}", id % 50));
        }
        assert_eq!(memory.in_use.last().map(String::as_str), Some("rule-49"));
        assert_eq!(memory.in_use.len(), MAX_IN_USE);
        let value = memory.to_value();
        let read = ChatMemory::read(&value);
        assert_eq!(read, memory);
    }

    #[test]
    fn invalid_memory_is_ignored() {
        for value in [
            serde_json::json!(5),
            serde_json::json!({ "compacted": { "through": 1 } }),
        ] {
            assert_eq!(ChatMemory::read(&value), ChatMemory::default());
        }
    }

    #[test]
    fn a_summary_that_is_too_long_is_not_persisted() {
        let mut memory = ChatMemory::default();
        memory.compact("t1", "short");
        memory.compact("t2", &"x".repeat(MAX_SUMMARY + 1));
        assert_eq!(memory.compacted, None);
    }
}
