//! Runs one step alone, for its tests.

use serde_json::Value;

use super::Step;
use crate::action::{Action, Situation};
use crate::memory::Memory;
use crate::state::Around;
use crate::walk;

/// The actions that take the place of one. `before` is in the words of the
/// version above the step.
pub(crate) fn down(step: &dyn Step, action: Value, before: Option<Value>) -> Vec<Value> {
    down_with(step, action, before, &mut Memory::new("me"))
}

/// The same with a memory.
pub(crate) fn down_with(step: &dyn Step, action: Value, before: Option<Value>, memory: &mut Memory) -> Vec<Value> {
    let situation = Situation {
        before: before.as_ref().and_then(Value::as_object),
        dispatched: None,
    };
    let actions = super::down_action(step, of(action), &situation, memory);
    actions.into_iter().map(|action| Value::Object(action.body)).collect()
}

/// The state of a chat, with its completed turns.
pub(crate) fn state_chat(step: &dyn Step, mut chat: Value) -> Value {
    walk::chat(step, chat.as_object_mut().expect("an object"));
    chat
}

/// The state of a session that client `me` sees.
pub(crate) fn state_session(step: &dyn Step, mut session: Value) -> Value {
    let around = Around {
        resource: "s".into(),
        created_at: "2026-05-28T00:00:00.001Z".into(),
        modified_at: "2026-05-28T00:00:00.002Z".into(),
        own_client_id: "me".into(),
    };
    walk::session(step, session.as_object_mut().expect("an object"), &around);
    session
}

/// The state of the root channel.
pub(crate) fn state_root(step: &dyn Step, mut root: Value) -> Value {
    walk::root(step, root.as_object_mut().expect("an object"));
    root
}

/// A dispatch of channel `s` on its way up, at 0 ms.
pub(crate) fn up(step: &dyn Step, action: Value) -> Result<Value, String> {
    up_with(step, action, &Memory::new("me")).map(|action| Value::Object(action.body))
}

/// The same with a memory, and the channel.
pub(crate) fn up_with(step: &dyn Step, action: Value, memory: &Memory) -> Result<Action, String> {
    let mut action = of(action);
    walk::up_dispatch(step, &mut action);
    step.up_dispatch(&mut action, memory, 0)?;
    Ok(action)
}

fn of(action: Value) -> Action {
    let Value::Object(body) = action else {
        panic!("an action is an object");
    };
    Action {
        channel: "s".into(),
        body,
        is_extra: false,
    }
}
