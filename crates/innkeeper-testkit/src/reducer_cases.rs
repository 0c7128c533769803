//! Cases for reducers in other languages: a state, actions, and the state that the published reducers make of them.
//!
//! [`recorded`] cases are what a client reads in runs of the simulator. [`random`] cases have actions of every type with
//! ids from small pools, so that most of them fit a state that a host would not reach, or none at all.

mod random;

use std::cell::RefCell;
use std::collections::BTreeMap;

use ahp::reducers::{
    ReduceOutcome, apply_action_to_annotations, apply_action_to_changeset, apply_action_to_chat, apply_action_to_root,
    apply_action_to_session, apply_action_to_terminal,
};
use ahp_types::actions::StateAction;
use ahp_types::state::{AnnotationsState, ChangesetState, ChatState, RootState, SessionState, TerminalState};
use innkeeper_core::Version;
use innkeeper_core::action_table::RULES;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::sim::{Intent, OlderMirror, RunOptions, Violation, bytes_from_seed, run};

pub use self::random::random;

/// One case.
#[derive(Debug, Clone, Serialize)]
pub struct Case {
    /// The state before.
    pub before: Value,
    /// The actions.
    pub actions: Vec<Value>,
    /// The state after.
    pub after: Value,
}

/// Actions of one recorded case; a longer recording becomes several cases.
const ACTIONS_PER_CASE: usize = 16;

/// Bytes per seeded run of the simulator.
const RUN_BYTES: usize = 540;

thread_local! {
    /// The cases of the current run. A run makes its mirrors with a plain function, so they share nothing else.
    static RECORDED: RefCell<Vec<Case>> = const { RefCell::new(Vec::new()) };
}

/// The names of all actions, in the order of the core's table.
pub fn action_names() -> impl Iterator<Item = &'static str> {
    RULES.iter().map(|rule| rule.name)
}

/// Records the two additional clients of a seeded run.
pub fn recorded(seed: u64) -> Result<Vec<Case>, Violation> {
    let options = RunOptions {
        older: &[|| Box::new(Recorder::default())],
        ..RunOptions::PLAIN
    };
    RECORDED.take();
    run(&bytes_from_seed(seed, RUN_BYTES), options)?;
    Ok(RECORDED.take())
}

/// Reduces actions of one channel with the published reducers. Returns the case as the published types write it, without
/// extension fields that they do not have, and the types of the actions that were applied.
fn fold(before: &Value, actions: &[Value]) -> Result<(Case, Vec<String>), String> {
    let kind = actions
        .first()
        .and_then(|action| action["type"].as_str())
        .unwrap_or_default();
    match kind.split('/').next().unwrap_or_default() {
        "root" => fold_with::<RootState>(before, actions, apply_action_to_root),
        "session" => fold_with::<SessionState>(before, actions, apply_action_to_session),
        "chat" => fold_with::<ChatState>(before, actions, apply_action_to_chat),
        "terminal" => fold_with::<TerminalState>(before, actions, apply_action_to_terminal),
        "changeset" => fold_with::<ChangesetState>(before, actions, apply_action_to_changeset),
        "annotations" => fold_with::<AnnotationsState>(before, actions, apply_action_to_annotations),
        other => Err(format!("no reducer for {other}")),
    }
}

fn fold_with<S: DeserializeOwned + Serialize>(
    before: &Value,
    actions: &[Value],
    apply: fn(&mut S, &StateAction) -> ReduceOutcome,
) -> Result<(Case, Vec<String>), String> {
    let mut state: S = read(before)?;
    let mut case = Case {
        before: write(&state)?,
        actions: Vec::new(),
        after: Value::Null,
    };
    let mut applied = Vec::new();
    for action in actions {
        let typed: StateAction = read(action)?;
        if matches!(typed, StateAction::Unknown(_)) {
            return Err(format!("not an action of this version: {action}"));
        }
        case.actions.push(write(&typed)?);
        if apply(&mut state, &typed) == ReduceOutcome::Applied {
            applied.extend(action["type"].as_str().map(str::to_owned));
        }
    }
    case.after = write(&state)?;
    Ok((case, applied))
}

fn read<T: DeserializeOwned>(value: &Value) -> Result<T, String> {
    serde_json::from_value(value.clone()).map_err(|error| format!("{error}: {value}"))
}

fn write(value: &impl Serialize) -> Result<Value, String> {
    serde_json::to_value(value).map_err(|error| error.to_string())
}

/// A client of the newest version that records every channel it reads.
#[derive(Debug, Default)]
struct Recorder {
    channels: BTreeMap<String, Recording>,
}

#[derive(Debug)]
struct Recording {
    before: Value,
    actions: Vec<Value>,
    now: Value,
}

impl Recording {
    /// Turns the actions so far into a case, and goes on from the state that they led to.
    fn cut(&mut self) {
        if self.actions.is_empty() {
            return;
        }
        let before = std::mem::replace(&mut self.before, self.now.clone());
        let actions = std::mem::take(&mut self.actions);
        if let Ok((case, _)) = fold(&before, &actions) {
            RECORDED.with_borrow_mut(|cases| cases.push(case));
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.channels.values_mut().for_each(Recording::cut);
    }
}

impl OlderMirror for Recorder {
    fn version(&self) -> Version {
        Version::V1_0
    }

    fn root(&self) -> &'static str {
        ahp_types::common::ROOT_RESOURCE_URI
    }

    fn show(&mut self, snapshot: &Value) -> Result<(), String> {
        let resource = snapshot["resource"].as_str().ok_or("a snapshot without a resource")?;
        self.forget(resource);
        let (before, now) = (snapshot["state"].clone(), snapshot["state"].clone());
        let actions = Vec::new();
        self.channels
            .insert(resource.to_owned(), Recording { before, actions, now });
        Ok(())
    }

    fn reduce(&mut self, params: &Value) -> Result<(), String> {
        let channel = params["channel"].as_str().unwrap_or_default();
        let recording = self
            .channels
            .get_mut(channel)
            .ok_or("an action on an unknown channel")?;
        recording.actions.push(params["action"].clone());
        let (case, _) = fold(&recording.before, &recording.actions)?;
        recording.now = case.after;
        // The published types cannot read a call that waits for a sign-in (E-41), so no case begins with one.
        let is_readable = !recording.now.to_string().contains("auth-required");
        if recording.actions.len() >= ACTIONS_PER_CASE && is_readable {
            recording.cut();
        }
        Ok(())
    }

    fn forget(&mut self, channel: &str) {
        if let Some(mut recording) = self.channels.remove(channel) {
            recording.cut();
        }
    }

    fn state(&self, channel: &str) -> Option<Value> {
        Some(self.channels.get(channel)?.now.clone())
    }

    fn difference(&self, _mine: Value, _fresh: Value) -> Option<String> {
        // The run compares its own clients of this version already.
        None
    }

    fn action(&self, intent: &Intent) -> Option<Value> {
        let message = |text: &str| json!({ "text": text, "origin": { "kind": "user" } });
        Some(match intent {
            Intent::StartTurn { turn, text } => json!({
                "type": "chat/turnStarted", "turnId": turn, "startedAt": "2026-01-31T12:00:00.000Z",
                "message": message(text),
            }),
            Intent::CancelTurn { turn } => json!({ "type": "chat/turnCancelled", "turnId": turn, "duration": 1 }),
            Intent::Queue { id, text } => json!({
                "type": "chat/pendingMessageSet", "kind": "queued", "id": id, "message": message(text),
            }),
            Intent::Decide {
                turn,
                call,
                is_approved,
            } => json!({
                "type": "chat/toolCallConfirmed", "turnId": turn, "toolCallId": call, "approved": is_approved,
                "confirmed": is_approved.then_some("user-action"), "reason": (!is_approved).then_some("denied"),
            }),
            Intent::Decline { request } => json!({
                "type": "chat/inputCompleted", "requestId": request, "response": "decline",
            }),
            Intent::Rename { title } => json!({ "type": "session/titleChanged", "title": title }),
            Intent::MarkRead { is_read } => json!({ "type": "session/isReadChanged", "isRead": is_read }),
            // Its runs have no views and no annotations.
            Intent::Review { .. }
            | Intent::Annotate { .. }
            | Intent::Resolve { .. }
            | Intent::WriteEntry { .. }
            | Intent::RemoveEntry { .. }
            | Intent::RemoveAnnotation { .. } => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_record_all_channel_kinds_of_the_simulator() {
        let cases: Vec<Case> = (0..3).flat_map(|seed| recorded(seed).expect("no violation")).collect();
        for kind in ["root/", "session/", "chat/"] {
            let is_of_kind = |action: &Value| action["type"].as_str().is_some_and(|name| name.starts_with(kind));
            assert!(cases.iter().any(|case| case.actions.iter().any(is_of_kind)), "{kind}");
        }
    }

    #[test]
    fn every_type_of_action_changes_a_state_in_random_cases() {
        let mut unseen: std::collections::BTreeSet<&str> = random::ACTION_TYPES.iter().copied().collect();
        for seed in 0..2000 {
            let case = random(seed).expect("a valid case");
            let (_, applied) = fold(&case.before, &case.actions).expect("a valid case");
            unseen.retain(|kind| !applied.iter().any(|other| other == kind));
        }
        assert!(unseen.is_empty(), "never applied: {unseen:?}");
    }
}
