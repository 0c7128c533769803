//! An action on its way down or up the ladder.

use serde_json::Value;

use crate::json::{Object, text};

/// An action and its channel.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Action {
    /// The channel that it is about; clients of 0.1 find it in the action itself.
    pub(crate) channel: String,
    /// The action: `type` and its members.
    pub(crate) body: Object,
    /// Whether it was added to another one. The origin belongs to that one.
    pub(crate) is_extra: bool,
}

/// The circumstances of an action on its way down.
#[derive(Debug)]
pub(crate) struct Situation<'a> {
    /// The state of the channel before the action, in the words of the version above the step, if it is known.
    pub(crate) before: Option<&'a Object>,
    /// The client's own action if this is the answer to its dispatch, as it was dispatched.
    pub(crate) dispatched: Option<&'a Value>,
}

impl Action {
    /// An action of the same channel that was not asked for.
    pub(crate) fn extra(&self, kind: &str, members: Value) -> Self {
        let mut body = Object::new();
        body.insert("type".to_owned(), kind.into());
        if let Value::Object(members) = members {
            body.extend(members);
        }
        Self {
            channel: self.channel.clone(),
            body,
            is_extra: true,
        }
    }

    /// The same, in the place of this one.
    pub(crate) fn instead(&self, kind: &str, members: Value) -> Self {
        Self {
            is_extra: self.is_extra,
            ..self.extra(kind, members)
        }
    }

    /// Its type, such as `chat/delta`.
    pub(crate) fn kind(&self) -> &str {
        text(&self.body, "type").unwrap_or_default()
    }

    /// Changes its type.
    pub(crate) fn set_kind(&mut self, kind: &str) {
        self.body.insert("type".to_owned(), kind.into());
    }

    /// The text of a member.
    pub(crate) fn text(&self, key: &str) -> &str {
        text(&self.body, key).unwrap_or_default()
    }
}
