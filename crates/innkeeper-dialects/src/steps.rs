//! The ladder: one step per published version, each the difference to the version above it.
//!
//! Down, a step turns what its upper version says into what its own version says; up, the reverse. The newest step
//! comes first on the way down and last on the way up, so every step sees its neighbours' words only.
//!
//! A step implements the hooks of [`Step`] for the shapes that changed in it; the places where a shape occurs are known
//! to [`crate::walk`]. A new version of the protocol is one more file and one more line in [`LADDER`].

#[cfg(test)]
mod testing;
mod v0_1;
mod v0_2;
mod v0_3;
mod v0_4;
mod v0_5_0;
mod v0_5_1;
mod v0_5_2;
mod v0_6;
mod v0_7;
mod v0_8;
mod v0_9;

use serde_json::Value;

use crate::action::{Action, Situation};
use crate::json::Object;
use crate::memory::Memory;
use crate::state::Around;
use crate::version::Version;
use crate::walk;

/// All steps, the newest first.
const LADDER: [&dyn Step; 11] = [
    &v0_9::V0_9,
    &v0_8::V0_8,
    &v0_7::V0_7,
    &v0_6::V0_6,
    &v0_5_2::V0_5_2,
    &v0_5_1::V0_5_1,
    &v0_5_0::V0_5_0,
    &v0_4::V0_4,
    &v0_3::V0_3,
    &v0_2::V0_2,
    &v0_1::V0_1,
];

/// The steps from 1.0 down to a version.
pub(crate) fn down_to(version: Version) -> impl DoubleEndedIterator<Item = &'static dyn Step> {
    LADDER.into_iter().filter(move |step| step.version() >= version)
}

/// The step that ends at a version; 1.0 has none.
pub(crate) fn last(version: Version) -> impl Iterator<Item = &'static dyn Step> {
    LADDER.into_iter().filter(move |step| step.version() == version)
}

/// The steps from a version up to 1.0.
pub(crate) fn up_from(version: Version) -> impl Iterator<Item = &'static dyn Step> {
    down_to(version).rev()
}

/// The actions that take the place of one below a step, perhaps none.
pub(crate) fn down_action(
    step: &dyn Step,
    action: Action,
    situation: &Situation<'_>,
    memory: &mut Memory,
) -> Vec<Action> {
    let mut below = step.action(action, situation, memory);
    // Also those that the step made of the state before, which is in the words above it.
    below.retain_mut(|action| walk::action(step, action));
    below
}

/// One step between two neighbouring versions. Every hook does nothing unless the step needs it.
///
/// Hooks that take a shape, such as a message, are called for every occurrence of the shape: in a state, a notification
/// or a result before the hook for the whole, in an action after it.
pub(crate) trait Step: Sync {
    /// The version at the lower end.
    fn version(&self) -> Version;

    // Down: shapes.

    /// A message of a user or agent.
    fn message(&self, _message: &mut Object) {}
    /// The attachments of a message, or the one of a completion.
    fn attachments(&self, _attachments: &mut Vec<Value>) {}
    /// A tool call, in a response or in a session's list of awaited input.
    fn tool_call(&self, _call: &mut Object) {}
    /// The content that a tool call has produced.
    fn tool_content(&self, _content: &mut Vec<Value>) {}
    /// A completed turn.
    fn turn(&self, _turn: &mut Object) {}
    /// Customizations of a session or an agent.
    fn customizations(&self, _list: &mut Vec<Value>) {}
    /// An active client.
    fn active_client(&self, _client: &mut Object) {}
    /// An agent in the root state.
    fn agent(&self, _agent: &mut Object) {}
    /// A schema of settings.
    fn config_schema(&self, _schema: &mut Object) {}
    /// A chat in its session's catalogue, whole or the changed members of it.
    fn chat_summary(&self, _summary: &mut Object) {}
    /// A session in the list of sessions, whole or the changed members of it.
    fn summary(&self, _summary: &mut Object) {}
    /// A terminal in the root state.
    fn terminal_info(&self, _terminal: &mut Object) {}

    // Down: states.

    /// The state of the root channel.
    fn root(&self, _state: &mut Object) {}
    /// The state of a session.
    fn session(&self, _state: &mut Object, _around: &Around) {}
    /// The state of a chat.
    fn chat(&self, _chat: &mut Object) {}
    /// The state of a session and of the chat that it shows, which become one in 0.3.
    fn session_with_chat(&self, _session: &mut Object, _chat: &mut Object) {}
    /// The state of another kind of channel.
    fn other(&self, _kind: &str, _state: &mut Object) {}
    /// Leaves out of a chat what clients of exactly this version cannot follow, although older ones can.
    fn finish_chat(&self, _chat: &mut Object) {}

    // Down: messages.

    /// An action; several or none may take its place.
    fn action(&self, action: Action, _situation: &Situation<'_>, _memory: &mut Memory) -> Vec<Action> {
        vec![action]
    }
    /// Returns true for an action that clients of exactly this version cannot follow, although older ones can.
    fn finish_action(&self, _action: &Action) -> bool {
        false
    }
    /// A notification; `None` sends nothing.
    fn notification(&self, notification: Notification) -> Option<Notification> {
        Some(notification)
    }
    /// The result of a request. `method` is its name in 1.0.
    fn result(&self, _method: &str, _result: &mut Object) {}

    // Up.

    /// A message of a user.
    fn up_message(&self, _message: &mut Object) {}
    /// The content that a tool of the client has produced.
    fn up_tool_content(&self, _content: &mut Vec<Value>) {}
    /// The entry of an active client.
    fn up_active_client(&self, _client: &mut Object) {}
    /// The parameters of a request or notification that is not a dispatch.
    fn up_request(&self, _request: &mut Request, _memory: &Memory) {}
    /// A dispatched action; `Err` is the reason for rejecting it.
    fn up_dispatch(&self, _action: &mut Action, _memory: &Memory, _now_ms: i64) -> Result<(), String> {
        Ok(())
    }
}

/// A notification of the host that is not an action.
#[derive(Debug)]
pub(crate) struct Notification {
    pub(crate) method: String,
    pub(crate) params: Object,
}

/// A request or notification of the client that is not a dispatch.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) params: Object,
}
