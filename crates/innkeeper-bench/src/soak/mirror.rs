//! The mirror of a soak client, built with the published reducers.

use std::collections::BTreeMap;

use ahp::reducers::{apply_action_to_chat, apply_action_to_root, apply_action_to_session};
use ahp_types::{
    actions::ActionEnvelope,
    state::{ChatState, RootState, SessionState, Snapshot, SnapshotState},
};
use anyhow::{Context, Result, bail};
use serde_json::Value;

/// Bits 0 to 4 of a session's status: derived from its chats and carried by no action (E-08).
const ACTIVITY_BITS: u64 = 0b1_1111;

/// The channels that a client mirrors.
#[derive(Debug, Default)]
pub(crate) struct Mirror {
    channels: BTreeMap<String, Mirrored>,
    /// The highest number seen, as `reconnect` reports it.
    pub(crate) last_seen: u64,
    /// How many actions were applied.
    pub(crate) applied: u64,
}

#[derive(Debug)]
struct Mirrored {
    /// The last number that is part of the state.
    seq: u64,
    state: Channel,
}

#[derive(Debug)]
enum Channel {
    Root(Box<RootState>),
    Session(Box<SessionState>),
    Chat(Box<ChatState>),
}

impl Mirror {
    /// The mirrored channels.
    pub(crate) fn channels(&self) -> Vec<String> {
        self.channels.keys().cloned().collect()
    }

    /// Stops mirroring a channel.
    pub(crate) fn forget(&mut self, uri: &str) {
        self.channels.remove(uri);
    }

    /// A session's state.
    pub(crate) fn session(&self, uri: &str) -> Option<&SessionState> {
        match &self.channels.get(uri)?.state {
            Channel::Session(state) => Some(state),
            Channel::Root(_) | Channel::Chat(_) => None,
        }
    }

    /// A chat's state.
    pub(crate) fn chat(&self, uri: &str) -> Option<&ChatState> {
        match &self.channels.get(uri)?.state {
            Channel::Chat(state) => Some(state),
            Channel::Root(_) | Channel::Session(_) => None,
        }
    }

    /// Takes a snapshot as it came.
    pub(crate) fn take_snapshot(&mut self, snapshot: &Value) -> Result<()> {
        let snapshot: Snapshot = serde_json::from_value(snapshot.clone()).context("a snapshot cannot be read")?;
        let seq = u64::try_from(snapshot.from_seq).context("a snapshot's number is negative")?;
        let state = match snapshot.state {
            SnapshotState::Root(state) => Channel::Root(state),
            SnapshotState::Session(state) => Channel::Session(state),
            SnapshotState::Chat(state) => Channel::Chat(state),
            other => bail!("a snapshot of something that was not subscribed to: {other:?}"),
        };
        self.last_seen = self.last_seen.max(seq);
        self.channels.insert(snapshot.resource, Mirrored { seq, state });
        Ok(())
    }

    /// Applies an action as it came. Returns why the host refused it, if it did.
    pub(crate) fn take_action(&mut self, envelope: &Value) -> Result<Option<String>> {
        let envelope: ActionEnvelope = serde_json::from_value(envelope.clone()).context("an action cannot be read")?;
        self.last_seen = self.last_seen.max(envelope.server_seq);
        if let Some(reason) = envelope.rejection_reason {
            return Ok(Some(reason));
        }
        if let Some(channel) = self.channels.get_mut(&envelope.channel)
            && envelope.server_seq > channel.seq
        {
            channel.seq = envelope.server_seq;
            self.applied += 1;
            match &mut channel.state {
                Channel::Root(state) => apply_action_to_root(state, &envelope.action),
                Channel::Session(state) => apply_action_to_session(state, &envelope.action),
                Channel::Chat(state) => apply_action_to_chat(state, &envelope.action),
            };
        }
        Ok(None)
    }

    /// Says in which channels another mirror has something else.
    pub(crate) fn differences(&self, other: &Self) -> Result<Vec<String>> {
        let mut differences = Vec::new();
        for (uri, theirs) in &other.channels {
            let ours = self
                .channels
                .get(uri)
                .with_context(|| format!("{uri} is not mirrored"))?;
            let (ours, theirs) = (comparable(&ours.state)?, comparable(&theirs.state)?);
            if ours != theirs {
                differences.push(format!("{uri}: {ours} is not {theirs}"));
            }
        }
        Ok(differences)
    }
}

/// A state without the fields that no action carries (E-08): a session's activity, a chat's title.
fn comparable(channel: &Channel) -> Result<Value> {
    let mut value = match channel {
        Channel::Root(state) => serde_json::to_value(state),
        Channel::Session(state) => serde_json::to_value(state),
        Channel::Chat(state) => serde_json::to_value(state),
    }?;
    if let Some(fields) = value.as_object_mut() {
        match channel {
            Channel::Root(_) => {}
            Channel::Chat(_) => {
                fields.remove("title");
            }
            Channel::Session(_) => {
                fields.remove("activity");
                let status = fields.get("status").and_then(Value::as_u64).unwrap_or_default();
                fields.insert("status".to_owned(), Value::from(status & !ACTIVITY_BITS));
            }
        }
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn snapshot(title: &str, status: u32) -> Value {
        json!({"resource": "ahp-session:/s", "fromSeq": 5, "state": {
            "provider": "tour", "title": title, "status": status, "lifecycle": "ready", "chats": [],
            "activeClients": [], "createdAt": "1970-01-01T00:00:00Z", "modifiedAt": "1970-01-01T00:00:00Z",
        }})
    }

    fn titled(seq: u64, title: &str) -> Value {
        json!({"channel": "ahp-session:/s", "serverSeq": seq,
            "action": {"type": "session/titleChanged", "title": title}})
    }

    #[test]
    fn a_mirror_applies_actions_newer_than_its_snapshot() {
        let mut mirror = Mirror::default();
        mirror.take_snapshot(&snapshot("first", 1)).unwrap();
        assert_eq!(mirror.take_action(&titled(5, "old")).unwrap(), None);
        assert_eq!(mirror.take_action(&titled(6, "second")).unwrap(), None);
        assert_eq!(mirror.session("ahp-session:/s").unwrap().title, "second");
        assert_eq!((mirror.last_seen, mirror.applied), (6, 1));
    }

    #[test]
    fn mirrors_are_compared_by_the_fields_that_actions_carry() {
        let [mut ours, mut theirs] = [Mirror::default(), Mirror::default()];
        ours.take_snapshot(&snapshot("same", 1)).unwrap();
        theirs.take_snapshot(&snapshot("same", 2)).unwrap();
        assert!(ours.differences(&theirs).unwrap().is_empty());
        theirs.take_action(&titled(6, "another")).unwrap();
        assert_eq!(ours.differences(&theirs).unwrap().len(), 1);
    }
}
