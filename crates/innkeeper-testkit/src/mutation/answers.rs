//! Bugs in responses: snapshots and replays that are not quite what they claim.

use std::collections::BTreeMap;
use std::sync::Arc;

use innkeeper_core::snapshot::AnswerBody;
use innkeeper_core::{ActionFrame, HostCore};
use serde_json::Value;

use super::Mutation;

/// The parameters of a `reconnect`.
pub struct ReconnectRequest {
    /// The number the client named.
    pub last_seen: u64,
    /// The channels it wants.
    pub channels: Vec<String>,
}

/// The memory of the buggy host.
#[derive(Debug, Default)]
pub struct Memory {
    /// Everything that was published.
    pub frames: Vec<Arc<ActionFrame>>,
    /// Every refusal.
    pub rejections: Vec<Value>,
    latest: BTreeMap<String, Value>,
    previous: BTreeMap<String, Value>,
}

impl Memory {
    /// Remembers each channel as it was before its latest change.
    pub fn watch(&mut self, core: &HostCore, channels: &[String]) {
        for uri in channels {
            let state = core
                .snapshot(uri)
                .and_then(|snapshot| serde_json::to_value(&snapshot.state).ok());
            let Some(state) = state else {
                self.latest.remove(uri);
                self.previous.remove(uri);
                continue;
            };
            if self.latest.get(uri) != Some(&state)
                && let Some(before) = self.latest.insert(uri.clone(), state)
            {
                self.previous.insert(uri.clone(), before);
            }
        }
    }

    /// Bends a response. Returns whether there was something to bend.
    pub fn bend(
        &self,
        mutation: Mutation,
        body: &AnswerBody,
        asked: Option<&ReconnectRequest>,
        message: &mut Value,
    ) -> bool {
        let result = &mut message["result"];
        match (mutation, body) {
            (Mutation::FromSeqTooLow, _) => shift_from_seq(result, -1),
            (Mutation::FromSeqTooHigh, _) => shift_from_seq(result, 1),
            (Mutation::StaleSnapshot, _) => self.make_stale(result),
            (Mutation::ReplayMissesFirst, AnswerBody::Replayed { .. }) => remove(result, "actions", |_| 0),
            (Mutation::ReplayMissesLast, AnswerBody::Replayed { .. }) => remove(result, "actions", |len| len - 1),
            (Mutation::ReplayHidesMissing, AnswerBody::Replayed { .. }) => remove(result, "missing", |_| 0),
            (Mutation::ResyncOmitsChannel, AnswerBody::Resynced { .. }) => remove(result, "snapshots", |_| 0),
            (Mutation::ReplayRepeatsSeen, AnswerBody::Replayed { .. }) => {
                asked.is_some_and(|asked| self.repeat_seen(result, asked))
            }
            (Mutation::ReplayContainsRejections, AnswerBody::Replayed { .. }) => {
                asked.is_some_and(|asked| self.add_rejections(result, asked))
            }
            _ => false,
        }
    }

    fn make_stale(&self, result: &mut Value) -> bool {
        let mut bent = false;
        for snapshot in snapshots(result) {
            let uri = snapshot["resource"].as_str().unwrap_or_default();
            if let Some(before) = self.previous.get(uri) {
                snapshot["state"] = before.clone();
                bent = true;
            }
        }
        bent
    }

    fn repeat_seen(&self, result: &mut Value, asked: &ReconnectRequest) -> bool {
        let seen = self.frames.iter().rev().find_map(|frame| {
            let envelope: Value = serde_json::from_slice(frame.envelope()).ok()?;
            let wanted = asked
                .channels
                .iter()
                .any(|uri| envelope["channel"].as_str() == Some(uri.as_str()));
            (frame.seq.0 <= asked.last_seen && wanted).then_some(envelope)
        });
        match (seen, result["actions"].as_array_mut()) {
            (Some(envelope), Some(actions)) => {
                actions.insert(0, envelope);
                true
            }
            _ => false,
        }
    }

    fn add_rejections(&self, result: &mut Value, asked: &ReconnectRequest) -> bool {
        let Some(actions) = result["actions"].as_array_mut() else {
            return false;
        };
        let before = actions.len();
        for rejection in &self.rejections {
            let params = &rejection["params"];
            let wanted = asked
                .channels
                .iter()
                .any(|uri| params["channel"].as_str() == Some(uri.as_str()));
            if wanted && params["serverSeq"].as_u64() > Some(asked.last_seen) {
                actions.push(params.clone());
            }
        }
        actions.sort_by_key(|envelope| envelope["serverSeq"].as_u64());
        actions.len() > before
    }
}

fn snapshots(result: &mut Value) -> Vec<&mut Value> {
    let mut found = Vec::new();
    if let Some(fields) = result.as_object_mut() {
        for (key, value) in fields.iter_mut() {
            match (key.as_str(), value) {
                ("snapshot", one) => found.push(one),
                ("snapshots", Value::Array(many)) => found.extend(many.iter_mut()),
                _ => {}
            }
        }
    }
    found
}

fn shift_from_seq(result: &mut Value, by: i64) -> bool {
    let mut bent = false;
    for snapshot in snapshots(result) {
        if let Some(from_seq) = snapshot["fromSeq"].as_i64() {
            snapshot["fromSeq"] = Value::from(from_seq + by);
            bent = true;
        }
    }
    bent
}

fn remove(result: &mut Value, list: &str, which: impl FnOnce(usize) -> usize) -> bool {
    match result[list].as_array_mut() {
        Some(items) if !items.is_empty() => {
            let index = which(items.len());
            items.remove(index);
            true
        }
        _ => false,
    }
}
