//! The published types and reducers of all versions that can be linked into one program, without their clients.
//!
//! 0.5.0 and 0.5.1 cannot be linked beside 0.5.2. Their steps are on the way down to 0.4.

use innkeeper_compat::client::AHEAD_OF_0_9;
use innkeeper_compat::comparison::{comparable, difference, remove};
use innkeeper_compat::version::Version as Words;
use innkeeper_dialects::Version;
use innkeeper_testkit::sim::{Intent, NewOlderMirror, OlderMirror};
use serde_json::{Value, json};

/// The versions, the oldest first.
pub const ALL: [NewOlderMirror; 10] = [
    v0_1::mirror,
    v0_2::mirror,
    v0_3::mirror,
    v0_4::mirror,
    v0_5_2::mirror,
    v0_6::mirror,
    v0_7::mirror,
    v0_8::mirror,
    v0_9::mirror,
    v1_0::mirror,
];

macro_rules! published {
    ($name:ident, $ahp:ident, $version:ident, $era:ident) => {
        pub mod $name {
            use std::collections::BTreeMap;

            use $ahp::ahp_types::actions::{ActionEnvelope, StateAction};
            use $ahp::ahp_types::state::{Snapshot, SnapshotState};
            use $ahp::reducers::{self, ReduceOutcome};

            use super::*;

            pub const VERSION: Version = Version::$version;

            /// The states of a new client.
            pub fn mirror() -> Box<dyn OlderMirror> {
                Box::<Mirror>::default()
            }

            #[derive(Debug, Default)]
            struct Mirror(BTreeMap<String, SnapshotState>);

            impl OlderMirror for Mirror {
                fn version(&self) -> Version {
                    VERSION
                }

                fn root(&self) -> &'static str {
                    Words::$version.root()
                }

                fn show(&mut self, snapshot: &Value) -> Result<(), String> {
                    let decoded: Snapshot =
                        serde_json::from_value(snapshot.clone()).map_err(|error| format!("{error}: {snapshot}"))?;
                    self.0.insert(decoded.resource, decoded.state);
                    Ok(())
                }

                fn reduce(&mut self, params: &Value) -> Result<(), String> {
                    let envelope: ActionEnvelope =
                        serde_json::from_value(params.clone()).map_err(|error| format!("{error}: {params}"))?;
                    if matches!(envelope.action, StateAction::Unknown(_)) {
                        return unknown(VERSION, params);
                    }
                    let channel = innkeeper_compat::sdk!(@channel_of $era, envelope);
                    // Every client of 0.1 gets what happens on the root channel, and ignores it without a subscription.
                    let is_ignored = !VERSION.has_channels() && channel == self.root();
                    let Some(state) = self.0.get_mut(&channel) else {
                        return is_ignored.then_some(()).ok_or_else(|| format!("no state for {params}"));
                    };
                    let action = &envelope.action;
                    let outcome = match state {
                        SnapshotState::Root(state) => reducers::apply_action_to_root(state, action),
                        SnapshotState::Session(state) => reducers::apply_action_to_session(state, action),
                        other => innkeeper_compat::sdk!(@apply $era, other, action),
                    };
                    match outcome {
                        ReduceOutcome::Applied | ReduceOutcome::NoOp => Ok(()),
                        other => Err(format!("{other:?}: {params}")),
                    }
                }

                fn forget(&mut self, channel: &str) {
                    self.0.remove(channel);
                }

                fn state(&self, channel: &str) -> Option<Value> {
                    Some(json!(self.0.get(channel)?))
                }

                fn difference(&self, mine: Value, fresh: Value) -> Option<String> {
                    let (mut mine, mut fresh) = (comparable(Words::$version, mine), comparable(Words::$version, fresh));
                    with_the_same_turns(&mut mine, &mut fresh);
                    if VERSION.session_is_chat() {
                        without_tool_kinds(&mut mine);
                        without_tool_kinds(&mut fresh);
                    }
                    difference(&mine, &fresh)
                }

                fn action(&self, intent: &Intent) -> Value {
                    action(Words::$version, intent)
                }
            }
        }
    };
}

published!(v0_1, ahp_0_1, V0_1, sessions);
published!(v0_2, ahp_0_2, V0_2, channels);
published!(v0_3, ahp_0_3, V0_3, channels);
published!(v0_4, ahp_0_4, V0_4, chats);
published!(v0_5_2, ahp_0_5_2, V0_5_2, chats);
published!(v0_6, ahp_0_6, V0_6, chats);
published!(v0_7, ahp_0_7, V0_7, chats);
published!(v0_8, ahp_0_8, V0_8, chats);
published!(v0_9, ahp_0_9, V0_9, chats);
published!(v1_0, ahp_1_0, V1_0, chats);

/// An action that the types of a version do not know: only those of 0.9 lack some that its clients get.
fn unknown(version: Version, params: &Value) -> Result<(), String> {
    let kind = params["action"]["type"].as_str().unwrap_or_default();
    match version == Version::V0_9 && AHEAD_OF_0_9.contains(&kind) {
        true => Ok(()),
        false => Err(format!("{version} does not know {params}")),
    }
}

/// Leaves out the oldest turns of the chat that has more of them: one of the two was loaded in part.
fn with_the_same_turns(mine: &mut Value, fresh: &mut Value) {
    let count = |state: &Value| state["turns"].as_array().map_or(0, Vec::len);
    let same = count(mine).min(count(fresh));
    for state in [mine, fresh] {
        remove(state, "turnsNextCursor");
        if let Some(turns) = state.get_mut("turns").and_then(Value::as_array_mut) {
            turns.drain(..turns.len() - same);
        }
    }
}

/// Leaves out the kind of tool calls: up to 0.3 a call keeps the `_meta` that it started with, and in the simulator a call
/// of any kind can become that of a subagent.
fn without_tool_kinds(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(without_tool_kinds),
        Value::Object(members) => {
            if members.contains_key("toolCallId")
                && let Some(meta) = members.get_mut("_meta")
            {
                remove(meta, "toolKind");
                if meta.as_object().is_some_and(serde_json::Map::is_empty) {
                    members.shift_remove("_meta");
                }
            }
            members.values_mut().for_each(without_tool_kinds);
        }
        _ => {}
    }
}

fn action(version: Words, intent: &Intent) -> Value {
    match intent {
        Intent::StartTurn { turn, text } => version.turn_started(turn, text),
        Intent::CancelTurn { turn } => version.turn_cancelled(turn),
        Intent::Queue { id, text } => version.pending("queued", id, text),
        Intent::Decide {
            turn,
            call,
            is_approved,
        } => {
            let mut action = json!({ "type": version.of_chat("toolCallConfirmed"), "turnId": turn,
                "toolCallId": call, "approved": is_approved });
            match is_approved {
                true => action["confirmed"] = "user-action".into(),
                false => action["reason"] = "denied".into(),
            }
            action
        }
        Intent::Decline { request } => {
            json!({ "type": version.of_chat("inputCompleted"), "requestId": request, "response": "decline" })
        }
        Intent::Rename { title } => json!({ "type": "session/titleChanged", "title": title }),
        Intent::MarkRead { is_read } => json!({ "type": "session/isReadChanged", "isRead": is_read }),
    }
}
