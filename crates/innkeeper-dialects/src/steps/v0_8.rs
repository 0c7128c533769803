//! 0.9 → 0.8.
//!
//! - An error is a member of the turn and of `chat/error`, not a response part.
//! - A failed turn cannot be resumed. When another client resumes one, it is taken back, started again with what it
//!   had, and goes on.
//! - A session whose creation failed has the lifecycle `creationFailed`. Sessions have no origin.
//! - Message kinds are closed: a message of an automation is shown as one of the user.
//! - Background work, canvases, chat flags and changesets of chats do not exist, nor do automations.
//! - Terminals have an exit code instead of a lifecycle, and are claimed for a session without a chat; annotations belong
//!   to a turn.
//! - `changeset/contentChanged` sets the error, so it repeats the one that stays.
//! - `createSession` has a `fork`.

use serde_json::{Value, json};

use super::{Request, Step};
use crate::action::{Action, Situation};
use crate::json::{
    Object, insert_after, is, list, list_mut, object, object_mut, objects, objects_mut, rename, replace, text,
};
use crate::memory::Memory;
use crate::state::Around;
use crate::version::Version;

/// The end of the URI of a session's annotations.
const ANNOTATIONS_SUFFIX: &str = "/annotations";

/// The name of the `fork` of a new session on the way up.
const FORK: &str = "innkeeper.fork";

/// The kinds of messages that 0.8 knows.
const MESSAGE_KINDS: [&str; 4] = ["user", "agent", "tool", "systemNotification"];

/// Actions that 0.8 does not know and that change nothing it shows.
const UNKNOWN: [&str; 8] = [
    "session/mcpServerBackgroundRequested",
    "chat/backgroundWorkSet",
    "chat/backgroundWorkRemoved",
    "chat/movableChanged",
    "chat/changesetsChanged",
    "chat/isReadChanged",
    "chat/isArchivedChanged",
    "chat/canvasesChanged",
];

pub(super) struct V0_8;

impl Step for V0_8 {
    fn version(&self) -> Version {
        Version::V0_8
    }

    fn message(&self, message: &mut Object) {
        if let Some(origin) = object_mut(message, "origin")
            && text(origin, "kind").is_some_and(|kind| !MESSAGE_KINDS.contains(&kind))
        {
            origin.insert("kind".to_owned(), "user".into());
        }
    }

    fn turn(&self, turn: &mut Object) {
        let error = without_errors(turn);
        if is(turn, "state", "error")
            && let Some(error) = error
        {
            turn.insert("error".to_owned(), error);
        }
    }

    fn session(&self, state: &mut Object, _around: &Around) {
        if is(state, "lifecycle", "failed") {
            state.insert("lifecycle".to_owned(), "creationFailed".into());
        }
        state.shift_remove("origin");
    }

    fn summary(&self, summary: &mut Object) {
        summary.shift_remove("origin");
    }

    fn chat(&self, chat: &mut Object) {
        if let Some(active) = object_mut(chat, "activeTurn") {
            without_errors(active);
        }
    }

    fn terminal_info(&self, terminal: &mut Object) {
        with_exit_code(terminal);
    }

    fn other(&self, kind: &str, state: &mut Object) {
        match kind {
            "terminal" => with_exit_code(state),
            "annotations" => objects_mut(state, "annotations").for_each(of_turn),
            _ => {}
        }
    }

    fn action(&self, mut action: Action, situation: &Situation<'_>, _memory: &mut Memory) -> Vec<Action> {
        let kind = action.kind();
        if UNKNOWN.contains(&kind) || kind.starts_with("automation") {
            return Vec::new();
        }
        match kind {
            "chat/error" => replace(&mut action.body, "part", "error", |part| part.get("error").cloned()),
            "chat/responsePart" if object(&action.body, "part").is_some_and(|part| is(part, "kind", "error")) => {
                return Vec::new();
            }
            "chat/turnResume" => {
                let resumed = situation.before.and_then(|before| resumed(&action, before));
                return resumed.unwrap_or_default();
            }
            "annotations/set" => {
                if let Some(annotation) = object_mut(&mut action.body, "annotation") {
                    of_turn(annotation);
                }
            }
            "annotations/updated" => of_turn(&mut action.body),
            "changeset/contentChanged" => {
                let error = situation.before.and_then(|before| before.get("error"));
                if let Some(error) = error {
                    action.body.insert("error".to_owned(), error.clone());
                }
            }
            _ => {}
        }
        vec![action]
    }

    fn up_request(&self, request: &mut Request, _memory: &Memory) {
        match request.method.as_str() {
            "createTerminal" => name_claimed_chat(&mut request.params),
            // 1.0 has no such parameter; the host has.
            "createSession" => rename(&mut request.params, "fork", FORK),
            _ => {}
        }
    }

    fn up_dispatch(&self, action: &mut Action, _memory: &Memory, _now_ms: i64) -> Result<(), String> {
        let session = action
            .channel
            .strip_suffix(ANNOTATIONS_SUFFIX)
            .unwrap_or(&action.channel);
        let origin = |turn: Value| match turn.as_str() {
            // An annotation of no turn is shown with an empty one.
            Some("") => Some(json!({ "session": session })),
            _ => Some(json!({ "session": session, "turnId": turn })),
        };
        match text(&action.body, "type").unwrap_or_default() {
            "annotations/set" => {
                if let Some(annotation) = object_mut(&mut action.body, "annotation") {
                    replace(annotation, "turnId", "origin", origin);
                }
            }
            "annotations/updated" => replace(&mut action.body, "turnId", "origin", origin),
            "terminal/claimed" => name_claimed_chat(&mut action.body),
            _ => {}
        }
        Ok(())
    }
}

/// Names no chat in the claim of a terminal for a session. The core takes the default chat.
fn name_claimed_chat(holder: &mut Object) {
    if let Some(claim) = object_mut(holder, "claim")
        && is(claim, "kind", "session")
        && !claim.contains_key("chat")
    {
        insert_after(claim, "session", "chat", "".into());
    }
}

/// Removes the errors from a turn's response. Returns the last one.
fn without_errors(turn: &mut Object) -> Option<Value> {
    let parts = list_mut(turn, "responseParts")?;
    let mut last = None;
    parts.retain_mut(|part| {
        let is_error = part.get("kind").and_then(Value::as_str) == Some("error");
        if is_error {
            last = part.get_mut("error").map(Value::take);
        }
        !is_error
    });
    last
}

/// The turn that failed last, taken back and started again with what it had.
fn resumed(action: &Action, before: &Object) -> Option<Vec<Action>> {
    let mut turns = objects(before, "turns").rev();
    let turn = turns.next().filter(|turn| is(turn, "id", action.text("turnId")))?;
    // The same conditions as in the published reducer.
    let error = list(turn, "responseParts").last()?.as_object()?;
    let is_resumable = is(error, "kind", "error") && error.get("resumable") == Some(&Value::Bool(true));
    let can_resume = !before.contains_key("activeTurn") && is(turn, "state", "error") && is_resumable;
    if !can_resume {
        return None;
    }
    let id = action.text("turnId");
    let taken_back = match turns.next() {
        Some(earlier) => json!({ "turnId": earlier.get("id") }),
        None => json!({}),
    };
    let started_at = turn.get("startedAt").or_else(|| before.get("modifiedAt"));
    let started = json!({ "turnId": id, "startedAt": started_at, "message": turn.get("message") });
    let mut actions = vec![
        action.extra("chat/truncated", taken_back),
        action.extra("chat/turnStarted", started),
    ];
    for part in objects(turn, "responseParts") {
        match text(part, "kind") {
            Some("error") => {}
            // A question without an answer waits for one again, which a part alone does not say.
            Some("inputRequest") if !part.contains_key("response") => {
                actions.push(action.extra("chat/inputRequested", json!({ "request": part.get("request") })));
            }
            _ => actions.push(action.extra("chat/responsePart", json!({ "turnId": id, "part": part }))),
        }
    }
    if let Some(usage) = turn.get("usage") {
        actions.push(action.extra("chat/usage", json!({ "turnId": id, "usage": usage })));
    }
    Some(actions)
}

fn with_exit_code(terminal: &mut Object) {
    replace(terminal, "lifecycle", "exitCode", |lifecycle| {
        lifecycle.get("exitCode").cloned()
    });
}

/// Replaces the origin of an annotation by its turn, which is empty if it has none.
fn of_turn(annotation: &mut Object) {
    replace(annotation, "origin", "turnId", |origin| {
        Some(origin.get("turnId").cloned().unwrap_or_else(|| "".into()))
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps::testing::{down, state_chat, state_root, state_session, up};

    fn failed() -> Value {
        json!({
            "id": "t2", "startedAt": "T", "duration": 5, "message": { "text": "hi" }, "state": "error",
            "responseParts": [
                { "kind": "markdown", "id": "p", "content": "x" },
                { "kind": "inputRequest", "request": { "id": "q1" }, "response": "accept" },
                { "kind": "inputRequest", "request": { "id": "q2" } },
                { "kind": "error", "error": { "errorType": "e", "message": "m" }, "resumable": true },
            ],
            "usage": { "inputTokens": 1 },
        })
    }

    #[test]
    fn the_error_of_a_turn_is_its_member() {
        let chat = state_chat(&V0_8, json!({ "turns": [failed()] }));
        let turn = &chat["turns"][0];
        assert_eq!(turn["error"], json!({ "errorType": "e", "message": "m" }));
        assert_eq!(turn["responseParts"].as_array().unwrap().len(), 3);
    }

    #[test]
    fn the_error_before_a_resume_is_not_shown() {
        let mut active = failed();
        active.as_object_mut().unwrap().shift_remove("state");
        let chat = state_chat(&V0_8, json!({ "turns": [], "activeTurn": active }));
        assert_eq!(chat["activeTurn"]["responseParts"].as_array().unwrap().len(), 3);
        assert!(chat["activeTurn"].get("error").is_none());
    }

    #[test]
    fn chat_error_carries_the_error_alone() {
        let action = json!({ "type": "chat/error", "turnId": "t", "duration": 1,
            "part": { "kind": "error", "error": { "message": "m" }, "resumable": true } });
        let expected = json!({ "type": "chat/error", "turnId": "t", "duration": 1, "error": { "message": "m" } });
        assert_eq!(down(&V0_8, action, None), [expected]);
    }

    #[test]
    fn a_resumed_turn_is_taken_back_and_started_again() {
        let before = json!({ "turns": [{ "id": "t1" }, failed()] });
        let actions = down(
            &V0_8,
            json!({ "type": "chat/turnResume", "turnId": "t2" }),
            Some(before),
        );
        let expected = [
            json!({ "type": "chat/truncated", "turnId": "t1" }),
            json!({ "type": "chat/turnStarted", "turnId": "t2", "startedAt": "T", "message": { "text": "hi" } }),
            json!({ "type": "chat/responsePart", "turnId": "t2",
                "part": { "kind": "markdown", "id": "p", "content": "x" } }),
            json!({ "type": "chat/responsePart", "turnId": "t2",
                "part": { "kind": "inputRequest", "request": { "id": "q1" }, "response": "accept" } }),
            json!({ "type": "chat/inputRequested", "request": { "id": "q2" } }),
            json!({ "type": "chat/usage", "turnId": "t2", "usage": { "inputTokens": 1 } }),
        ];
        assert_eq!(actions, expected);
    }

    #[test]
    fn the_only_turn_is_taken_back_without_a_name() {
        let before = json!({ "turns": [failed()] });
        let actions = down(
            &V0_8,
            json!({ "type": "chat/turnResume", "turnId": "t2" }),
            Some(before),
        );
        assert_eq!(actions[0], json!({ "type": "chat/truncated" }));
    }

    #[test]
    fn a_resume_that_changes_nothing_is_not_sent() {
        let resume = || json!({ "type": "chat/turnResume", "turnId": "t2" });
        let running = json!({ "turns": [failed()], "activeTurn": { "id": "t3" } });
        assert!(down(&V0_8, resume(), Some(running)).is_empty());
        assert!(
            down(
                &V0_8,
                resume(),
                Some(json!({ "turns": [{ "id": "t2", "state": "complete" }] }))
            )
            .is_empty()
        );
        assert!(down(&V0_8, resume(), None).is_empty());
    }

    #[test]
    fn a_failed_session_has_the_older_lifecycle() {
        let state = state_session(
            &V0_8,
            json!({ "lifecycle": "failed", "origin": { "kind": "automation" } }),
        );
        assert_eq!(state, json!({ "lifecycle": "creationFailed" }));
    }

    #[test]
    fn a_message_of_an_automation_is_shown_as_the_users() {
        let action =
            json!({ "type": "chat/turnStarted", "message": { "text": "", "origin": { "kind": "automation" } } });
        assert_eq!(down(&V0_8, action, None)[0]["message"]["origin"]["kind"], "user");
        let action = json!({ "type": "chat/turnStarted", "message": { "text": "", "origin": { "kind": "agent" } } });
        assert_eq!(down(&V0_8, action, None)[0]["message"]["origin"]["kind"], "agent");
    }

    #[test]
    fn terminals_have_an_exit_code() {
        let root = json!({ "agents": [], "terminals": [
            { "resource": "a", "lifecycle": { "status": "exited", "exitCode": 3 } },
            { "resource": "b", "lifecycle": { "status": "running" } },
        ] });
        let expected = json!({ "agents": [], "terminals": [{ "resource": "a", "exitCode": 3 }, { "resource": "b" }] });
        assert_eq!(state_root(&V0_8, root), expected);
    }

    #[test]
    fn an_annotation_belongs_to_a_turn() {
        let action = json!({ "type": "annotations/set", "annotation": { "id": "a", "origin": { "session": "s" } } });
        assert_eq!(
            down(&V0_8, action, None)[0]["annotation"],
            json!({ "id": "a", "turnId": "" })
        );
        let action = json!({ "type": "annotations/updated", "origin": { "session": "s", "turnId": "t" } });
        assert_eq!(
            down(&V0_8, action, None),
            [json!({ "type": "annotations/updated", "turnId": "t" })]
        );
        let updated = |more: Value| {
            let mut action = json!({ "type": "annotations/updated", "resolved": true });
            action
                .as_object_mut()
                .unwrap()
                .extend(more.as_object().unwrap().clone());
            action
        };
        let to_no_turn = updated(json!({ "origin": { "session": "s" } }));
        assert_eq!(down(&V0_8, to_no_turn, None), [updated(json!({ "turnId": "" }))]);
        let resolved = updated(json!({}));
        assert_eq!(down(&V0_8, resolved.clone(), None), [resolved]);
    }

    #[test]
    fn an_annotation_of_a_turn_goes_up_with_the_session_as_its_origin() {
        let up = |body: Value| {
            let mut action = Action {
                channel: "ahp-session:/one/annotations".into(),
                body: body.as_object().unwrap().clone(),
                is_extra: false,
            };
            V0_8.up_dispatch(&mut action, &Memory::new("me"), 0).unwrap();
            Value::Object(action.body)
        };
        let set = up(json!({ "type": "annotations/set", "annotation": { "id": "a", "turnId": "t" } }));
        assert_eq!(
            set["annotation"],
            json!({ "id": "a", "origin": { "session": "ahp-session:/one", "turnId": "t" } })
        );
        let updated = up(json!({ "type": "annotations/updated", "annotationId": "a", "turnId": "" }));
        assert_eq!(updated["origin"], json!({ "session": "ahp-session:/one" }));
        let resolved = json!({ "type": "annotations/updated", "annotationId": "a", "resolved": true });
        assert_eq!(up(resolved.clone()), resolved);
    }

    #[test]
    fn a_terminal_is_claimed_for_a_session_without_a_chat() {
        let claim = |kind: &str| json!({ "kind": kind, "session": "s" });
        let claimed = |claim: Value| json!({ "type": "terminal/claimed", "claim": claim });
        let up = |claim: Value| up(&V0_8, claimed(claim)).unwrap();
        assert_eq!(
            up(claim("session"))["claim"],
            json!({ "kind": "session", "session": "s", "chat": "" })
        );
        assert_eq!(up(claim("client")), claimed(claim("client")));
        let params = json!({ "channel": "terminal:1", "claim": claim("session") });
        let mut request = Request {
            method: "createTerminal".into(),
            params: params.as_object().unwrap().clone(),
        };
        V0_8.up_request(&mut request, &Memory::new("me"));
        assert_eq!(request.params["claim"]["chat"], "");
    }

    #[test]
    fn a_fork_of_a_session_goes_up_under_the_hosts_own_name() {
        let params = json!({ "channel": "s", "fork": { "session": "x", "turnId": "t" } });
        let mut request = Request {
            method: "createSession".into(),
            params: params.as_object().unwrap().clone(),
        };
        V0_8.up_request(&mut request, &Memory::new("me"));
        let above = json!({ "channel": "s", "innkeeper.fork": { "session": "x", "turnId": "t" } });
        assert_eq!(Value::Object(request.params), above);
    }

    #[test]
    fn new_content_of_a_changeset_keeps_its_error() {
        let action = || json!({ "type": "changeset/contentChanged", "files": [] });
        let before = json!({ "status": "error", "error": { "message": "m" } });
        assert_eq!(
            down(&V0_8, action(), Some(before))[0]["error"],
            json!({ "message": "m" })
        );
        assert_eq!(down(&V0_8, action(), Some(json!({ "status": "ready" }))), [action()]);
    }

    #[test]
    fn fields_that_0_8_lacks_are_not_sent() {
        for kind in UNKNOWN {
            assert!(down(&V0_8, json!({ "type": kind }), None).is_empty(), "{kind}");
        }
        assert!(down(&V0_8, json!({ "type": "automation/removed" }), None).is_empty());
    }
}
