//! 0.5.1 → 0.5.0.
//!
//! - Turns are fetched by turn, and the answer has them: `fetchTurns {before, limit}` → `{turns, hasMore}`. Chats are not
//!   loaded in pages.
//! - A session does not list the input that its chats wait for.

use super::{Request, Step};
use crate::action::{Action, Situation};
use crate::json::Object;
use crate::memory::Memory;
use crate::state::Around;
use crate::version::Version;

/// Actions that 0.5.0 does not know and that change nothing it shows.
const UNKNOWN: [&str; 3] = [
    "session/inputNeededSet",
    "session/inputNeededRemoved",
    "chat/turnsLoaded",
];

pub(super) struct V0_5_0;

impl Step for V0_5_0 {
    fn version(&self) -> Version {
        Version::V0_5_0
    }

    fn session(&self, state: &mut Object, _around: &Around) {
        state.shift_remove("inputNeeded");
    }

    fn chat(&self, chat: &mut Object) {
        chat.shift_remove("turnsNextCursor");
    }

    fn action(&self, action: Action, _situation: &Situation<'_>, _memory: &mut Memory) -> Vec<Action> {
        match UNKNOWN.contains(&action.kind()) {
            true => Vec::new(),
            false => vec![action],
        }
    }

    fn result(&self, method: &str, result: &mut Object) {
        if method == "listSessions" {
            result.shift_remove("nextCursor");
        }
    }

    fn up_request(&self, request: &mut Request, _memory: &Memory) {
        match request.method.as_str() {
            "fetchTurns" => "innkeeper/fetchTurnsBefore".clone_into(&mut request.method),
            // It never had a meaning.
            "listSessions" => {
                request.params.shift_remove("filter");
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::steps::testing::{down, state_chat, state_session};

    fn up(method: &str, params: Value) -> (String, Value) {
        let mut request = Request {
            method: method.into(),
            params: params.as_object().unwrap().clone(),
        };
        V0_5_0.up_request(&mut request, &Memory::new("me"));
        (request.method, Value::Object(request.params))
    }

    #[test]
    fn turns_are_fetched_by_turn() {
        let params = json!({ "channel": "c", "before": "t", "limit": 5 });
        let expected = ("innkeeper/fetchTurnsBefore".to_owned(), params.clone());
        assert_eq!(up("fetchTurns", params), expected);
        assert_eq!(state_chat(&V0_5_0, json!({ "turnsNextCursor": "x" })), json!({}));
    }

    #[test]
    fn the_filter_of_sessions_never_had_a_meaning() {
        let expected = ("listSessions".to_owned(), json!({ "channel": "ahp-root://" }));
        assert_eq!(
            up("listSessions", json!({ "channel": "ahp-root://", "filter": {} })),
            expected
        );
    }

    #[test]
    fn a_session_does_not_list_awaited_input() {
        assert_eq!(state_session(&V0_5_0, json!({ "inputNeeded": [] })), json!({}));
        for kind in UNKNOWN {
            assert!(down(&V0_5_0, json!({ "type": kind }), None).is_empty());
        }
    }
}
