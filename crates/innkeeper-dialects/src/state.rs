//! States of 1.0 as an older version shows them.

use serde_json::{Map, Value};

use crate::steps;
use crate::version::Version;
use crate::walk;

/// Facts about a session that older states have and the state of 1.0 has not.
#[derive(Debug, Clone, Default)]
pub struct Around {
    /// The session's URI.
    pub resource: String,
    /// When it was created, in RFC 3339.
    pub created_at: String,
    /// When it last changed, in RFC 3339.
    pub modified_at: String,
    /// The client that the state is shown to.
    pub own_client_id: String,
}

/// The state of the root channel.
pub fn root(to: Version, state: &mut Map<String, Value>) {
    steps::down_to(to).for_each(|step| walk::root(step, state));
}

/// The state of a session.
pub fn session(to: Version, state: &mut Map<String, Value>, around: &Around) {
    steps::down_to(to).for_each(|step| walk::session(step, state, around));
}

/// The state of a chat without its completed turns, which the caller writes with [`turn`].
pub fn chat(to: Version, head: &mut Map<String, Value>) {
    steps::down_to(to).for_each(|step| walk::chat(step, head));
    steps::last(to).for_each(|step| step.finish_chat(head));
}

/// The state of a session together with that of the chat which it shows (0.3 and older). The completed turns are
/// written by the caller, as member `turns`.
pub fn session_with_chat(to: Version, session: &mut Map<String, Value>, mut chat: Map<String, Value>, around: &Around) {
    for step in steps::down_to(to) {
        walk::session(step, session, around);
        if step.version().session_is_chat() && chat.is_empty() {
            walk::chat(step, session);
        } else {
            walk::chat(step, &mut chat);
            step.session_with_chat(session, &mut chat);
        }
    }
}

/// One completed turn.
pub fn turn(to: Version, turn: &mut Map<String, Value>) {
    steps::down_to(to).for_each(|step| walk::turn(step, turn));
}

/// The summary of a session, whole or the changed members of one.
pub fn summary(to: Version, summary: &mut Map<String, Value>) {
    steps::down_to(to).for_each(|step| step.summary(summary));
}

/// The state of another kind of channel: `terminal`, `changeset`, `annotations`, `resourceWatch`, `canvas`.
pub fn other(to: Version, kind: &str, state: &mut Map<String, Value>) {
    steps::down_to(to).for_each(|step| step.other(kind, state));
}
