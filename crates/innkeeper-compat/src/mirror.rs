//! The states of a client of one version, without its client: the published types and reducers alone.
//!
//! Commands and results are JSON like those of [`sdk`](crate::sdk), for the same reason.

/// Defines `Mirror` for one version. The second word is that of [`sdk!`](crate::sdk!). The third is `sign_ins` if a tool
/// call can wait for a sign-in (0.6 and newer): the published types have that state and cannot read it (E-41), and
/// reducers turn a call that was not read into one without an id. So the mirror reads it.
#[macro_export]
macro_rules! mirror {
    ($ahp:ident, $era:ident $(, $reads:ident)?) => {
        use std::collections::BTreeMap;

        use serde_json::{Value, json};
        use $ahp::ahp_types::actions::{ActionEnvelope, StateAction};
        use $ahp::ahp_types::state::{Snapshot, SnapshotState};
        use $ahp::reducers::{self, ReduceOutcome};

        /// The state of each channel.
        #[derive(Debug, Default)]
        pub struct Mirror(BTreeMap<String, SnapshotState>);

        impl Mirror {
            /// Performs a command: `show` a snapshot, `reduce` the params of an `action`, `forget` a channel, or return
            /// the `state` of one. The result of `reduce` says whether the action was `"reduced"`, is `"unknown"` to the
            /// version, or belongs to a channel that is `"elsewhere"`.
            pub fn perform(&mut self, command: &str, argument: &Value) -> Result<Value, String> {
                let channel = argument.as_str().unwrap_or_default();
                match command {
                    "show" => self.show(argument),
                    "reduce" => self.reduce(argument),
                    "forget" => Ok(json!(self.0.remove(channel).is_some())),
                    "state" => Ok(json!(self.0.get(channel))),
                    other => Err(format!("unknown command {other}")),
                }
            }

            fn show(&mut self, snapshot: &Value) -> Result<Value, String> {
                #[allow(unused_mut)]
                let mut decoded: Snapshot =
                    serde_json::from_value(snapshot.clone()).map_err(|error| format!("{error}: {snapshot}"))?;
                $($crate::mirror!(@$reads $ahp, decoded);)?
                self.0.insert(decoded.resource, decoded.state);
                Ok(Value::Null)
            }

            fn reduce(&mut self, params: &Value) -> Result<Value, String> {
                let envelope: ActionEnvelope =
                    serde_json::from_value(params.clone()).map_err(|error| format!("{error}: {params}"))?;
                if matches!(envelope.action, StateAction::Unknown(_)) {
                    return Ok(json!("unknown"));
                }
                let channel = $crate::sdk!(@channel_of $era, envelope);
                let Some(state) = self.0.get_mut(&channel) else {
                    return Ok(json!("elsewhere"));
                };
                let action = &envelope.action;
                let outcome = match state {
                    SnapshotState::Root(state) => reducers::apply_action_to_root(state, action),
                    SnapshotState::Session(state) => reducers::apply_action_to_session(state, action),
                    other => $crate::sdk!(@apply $era, other, action),
                };
                match outcome {
                    ReduceOutcome::Applied | ReduceOutcome::NoOp => Ok(json!("reduced")),
                    other => Err(format!("{other:?}: {params}")),
                }
            }
        }
    };
    (@sign_ins $ahp:ident, $snapshot:ident) => {
        use $ahp::ahp_types::state::{ResponsePart, ToolCallState};

        if let SnapshotState::Chat(chat) = &mut $snapshot.state {
            let parts = chat.active_turn.iter_mut().flat_map(|turn| &mut turn.response_parts);
            for part in parts {
                if let ResponsePart::ToolCall(part) = part
                    && let ToolCallState::Unknown(raw) = &part.tool_call
                    && raw["status"] == "auth-required"
                    && let Ok(call) = serde_json::from_value(raw.clone())
                {
                    part.tool_call = ToolCallState::AuthRequired(call);
                }
            }
        }
    };
}
