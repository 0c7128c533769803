//! 0.6 → 0.5.2.
//!
//! - Open questions are a list of the chat. They enter the response when they are answered, and vanish with their turn.
//! - A tool call that waits for a sign-in runs; a token lets it go on all the same.
//! - A tool call asks once: `chat/toolCallReady` on one that waits for approval becomes an approval and a fresh question.
//! - Turns have no times: up, a turn starts now, and the host measures how long it takes.
//! - `changeset/filesReviewChanged {files}` is `changeset/filesReviewedChanged {fileIds}`.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::Step;
use crate::action::{Action, Situation};
use crate::json::{Object, insert_after, is, list, list_mut, object, object_mut, objects, rename};
use crate::memory::Memory;
use crate::state::Around;
use crate::version::Version;
use crate::walk;

/// The bits of a status that say what a chat is doing, and two of their values.
const ACTIVITY_BITS: u64 = 31;
const IN_PROGRESS: u64 = 8;
const INPUT_NEEDED: u64 = 24;

/// The members of a question that `chat/toolCallReady` takes over from the one before.
const KEPT_IN_QUESTION: [&str; 5] = ["toolInput", "confirmationTitle", "edits", "editable", "options"];

pub(super) struct V0_5_2;

impl Step for V0_5_2 {
    fn version(&self) -> Version {
        Version::V0_5_2
    }

    fn tool_call(&self, call: &mut Object) {
        if is(call, "status", "auth-required") {
            call.insert("status".to_owned(), "running".into());
            call.shift_remove("auth");
        }
    }

    fn turn(&self, turn: &mut Object) {
        take_open_questions(turn);
    }

    fn chat(&self, chat: &mut Object) {
        let Some(active) = object_mut(chat, "activeTurn") else {
            return;
        };
        let questions = take_open_questions(active);
        let waits = !questions.is_empty() || objects(active, "responseParts").any(waits_for_approval);
        if !questions.is_empty() {
            insert_after(chat, "queuedMessages", "inputRequests", Value::Array(questions));
        }
        if let Some(status) = chat.get_mut("status") {
            let activity = if waits { INPUT_NEEDED } else { IN_PROGRESS };
            *status = (status.as_u64().unwrap_or_default() & !ACTIVITY_BITS | activity).into();
        }
    }

    fn session(&self, state: &mut Object, _around: &Around) {
        if let Some(awaited) = list_mut(state, "inputNeeded") {
            awaited.retain(|request| request.get("kind") != Some(&"toolAuthentication".into()));
            if awaited.is_empty() {
                state.shift_remove("inputNeeded");
            }
        }
    }

    fn action(&self, mut action: Action, situation: &Situation<'_>, _memory: &mut Memory) -> Vec<Action> {
        match action.kind() {
            "chat/toolCallAuthRequired" | "chat/toolCallAuthResolved" => return Vec::new(),
            // A paused call ignores these.
            "chat/toolCallReady" | "chat/toolCallContentChanged" if is_paused(&action, situation) => return Vec::new(),
            "chat/toolCallReady" => {
                let call = walk::call_of(&action, situation);
                if let Some(waiting) = call.filter(|call| is(call, "status", "pending-confirmation")) {
                    return asked_again(action, waiting);
                }
            }
            "chat/toolCallComplete" => {
                let call = walk::call_of(&action, situation);
                if let Some(paused) = call.filter(|call| is(call, "status", "auth-required")) {
                    return given_up(action, paused);
                }
            }
            "chat/responsePart" => {
                let part = object(&action.body, "part").filter(|part| is_open_question(part));
                if let Some(part) = part {
                    return vec![action.instead("chat/inputRequested", json!({ "request": part.get("request") }))];
                }
            }
            "session/inputNeededSet" => {
                let request = object(&action.body, "request");
                if let Some(request) = request.filter(|request| is(request, "kind", "toolAuthentication")) {
                    // It may take the place of another wait of the same call.
                    return vec![action.instead("session/inputNeededRemoved", json!({ "id": request.get("id") }))];
                }
            }
            "changeset/filesReviewChanged" => {
                action.set_kind("changeset/filesReviewedChanged");
                rename(&mut action.body, "files", "fileIds");
            }
            _ => {}
        }
        vec![action]
    }

    fn up_dispatch(&self, action: &mut Action, _memory: &Memory, now_ms: i64) -> Result<(), String> {
        match action.kind() {
            "chat/turnStarted" if !action.body.contains_key("startedAt") => {
                insert_after(&mut action.body, "turnId", "startedAt", rfc3339(now_ms).into());
            }
            "chat/turnCancelled" if !action.body.contains_key("duration") => {
                insert_after(&mut action.body, "turnId", "duration", 0.into());
            }
            "changeset/filesReviewedChanged" => {
                action.set_kind("changeset/filesReviewChanged");
                rename(&mut action.body, "fileIds", "files");
            }
            _ => {}
        }
        Ok(())
    }
}

/// Whether the call of an action waits for a sign-in.
fn is_paused(action: &Action, situation: &Situation<'_>) -> bool {
    walk::call_of(action, situation).is_some_and(|call| is(call, "status", "auth-required"))
}

fn is_open_question(part: &Object) -> bool {
    is(part, "kind", "inputRequest") && !part.contains_key("response")
}

fn waits_for_approval(part: &Object) -> bool {
    let call = object(part, "toolCall");
    call.is_some_and(|call| {
        is(call, "status", "pending-confirmation") || is(call, "status", "pending-result-confirmation")
    })
}

/// Removes the questions without an answer from a turn's response.
fn take_open_questions(turn: &mut Object) -> Vec<Value> {
    let mut questions = Vec::new();
    if let Some(parts) = list_mut(turn, "responseParts") {
        parts.retain_mut(|part| {
            let is_open = part.as_object().is_some_and(is_open_question);
            if is_open && let Some(request) = part.get_mut("request") {
                questions.push(request.take());
            }
            !is_open
        });
    }
    questions
}

/// A question about a call that is asked already: it is approved, which lets it be asked again.
fn asked_again(mut action: Action, waiting: &Object) -> Vec<Action> {
    let is_news = |key: &str| {
        action
            .body
            .get(key)
            .is_some_and(|value| waiting.get(key) != Some(value))
    };
    let changes = ["invocationMessage", "confirmed", "_meta"]
        .into_iter()
        .chain(KEPT_IN_QUESTION)
        .any(is_news);
    if !changes {
        return Vec::new();
    }
    let approval =
        json!({ "turnId": action.text("turnId"), "toolCallId": action.text("toolCallId"), "approved": true });
    let approval = action.extra("chat/toolCallConfirmed", approval);
    for key in KEPT_IN_QUESTION {
        if let Some(value) = waiting.get(key)
            && !action.body.contains_key(key)
        {
            action.body.insert(key.to_owned(), value.clone());
        }
    }
    vec![approval, action]
}

/// The end of a call that waits for a sign-in: only a failure ends it, at once, and keeps what the call had produced.
fn given_up(mut action: Action, paused: &Object) -> Vec<Action> {
    action.body.shift_remove("requiresResultConfirmation");
    let Some(result) = object_mut(&mut action.body, "result") else {
        return vec![action];
    };
    if result.get("success") == Some(&Value::Bool(true)) {
        return Vec::new();
    }
    if !result.contains_key("content") && !list(paused, "content").is_empty() {
        result.insert("content".to_owned(), Value::Array(list(paused, "content").to_vec()));
    }
    vec![action]
}

fn rfc3339(ms: i64) -> String {
    let time = Timestamp::from_millisecond(ms).unwrap_or_default();
    format!("{time:.3}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps::testing::{down, state_chat, state_session, up};

    fn question(id: &str) -> Value {
        json!({ "kind": "inputRequest", "request": { "id": id } })
    }

    fn answered(id: &str) -> Value {
        json!({ "kind": "inputRequest", "request": { "id": id }, "response": "accept" })
    }

    fn call(status: &str) -> Value {
        json!({ "kind": "toolCall", "toolCall": { "toolCallId": "1", "status": status } })
    }

    fn active(parts: Value) -> Value {
        json!({ "status": 24, "activeTurn": { "id": "t", "responseParts": parts } })
    }

    #[test]
    fn open_questions_are_a_list_of_the_chat() {
        let chat = state_chat(&V0_5_2, active(json!([answered("a"), question("b"), question("c")])));
        assert_eq!(chat["inputRequests"], json!([{ "id": "b" }, { "id": "c" }]));
        assert_eq!(chat["activeTurn"]["responseParts"], json!([answered("a")]));
        assert_eq!(chat["status"], 24);
    }

    #[test]
    fn a_question_without_answer_vanishes_with_its_turn() {
        let turn = json!({ "id": "t", "responseParts": [question("b"), answered("a")] });
        let chat = state_chat(&V0_5_2, json!({ "status": 1, "turns": [turn] }));
        assert_eq!(chat["turns"][0]["responseParts"], json!([answered("a")]));
        assert_eq!(chat["status"], 1, "nothing is going on");
    }

    #[test]
    fn a_call_that_waits_for_a_sign_in_runs() {
        let chat = state_chat(&V0_5_2, active(json!([call("auth-required")])));
        assert_eq!(chat["activeTurn"]["responseParts"], json!([call("running")]));
        assert_eq!(chat["status"], 8);
        assert!(down(&V0_5_2, json!({ "type": "chat/toolCallAuthRequired" }), None).is_empty());
        assert!(down(&V0_5_2, json!({ "type": "chat/toolCallAuthResolved" }), None).is_empty());
        let chat = state_chat(
            &V0_5_2,
            active(json!([call("auth-required"), call("pending-result-confirmation")])),
        );
        assert_eq!(chat["status"], 24, "another call waits for the user");
    }

    #[test]
    fn a_call_asks_again_after_an_approval() {
        let ready =
            json!({ "type": "chat/toolCallReady", "turnId": "t", "toolCallId": "1", "invocationMessage": "new" });
        let waiting = json!({ "kind": "toolCall", "toolCall": { "toolCallId": "1", "status": "pending-confirmation",
            "invocationMessage": "old", "toolInput": "ls", "options": [] } });
        let actions = down(&V0_5_2, ready, Some(active(json!([waiting]))));
        let approval = json!({ "type": "chat/toolCallConfirmed", "turnId": "t", "toolCallId": "1", "approved": true });
        let ready = json!({ "type": "chat/toolCallReady", "turnId": "t", "toolCallId": "1", "invocationMessage": "new",
            "toolInput": "ls", "options": [] });
        assert_eq!(actions, [approval, ready]);
    }

    #[test]
    fn a_verdict_about_the_risk_is_not_shown() {
        let ready = json!({ "type": "chat/toolCallReady", "turnId": "t", "toolCallId": "1", "invocationMessage": "m",
            "riskAssessment": { "kind": "judge" } });
        let waiting = json!({ "kind": "toolCall", "toolCall": { "toolCallId": "1", "status": "pending-confirmation",
            "invocationMessage": "m" } });
        assert!(down(&V0_5_2, ready.clone(), Some(active(json!([waiting])))).is_empty());
        assert_eq!(
            down(&V0_5_2, ready.clone(), Some(active(json!([call("streaming")])))),
            [ready]
        );
    }

    #[test]
    fn only_a_failure_ends_a_call_that_waits_for_a_sign_in() {
        let paused = || {
            active(
                json!([{ "kind": "toolCall", "toolCall": { "toolCallId": "1", "status": "auth-required",
            "content": [{ "type": "text", "text": "x" }] } }]),
            )
        };
        let complete = |success: bool| {
            json!({ "type": "chat/toolCallComplete", "turnId": "t", "toolCallId": "1",
                "result": { "success": success, "pastTenseMessage": "p" }, "requiresResultConfirmation": true })
        };
        assert!(down(&V0_5_2, complete(true), Some(paused())).is_empty());
        let ended = &down(&V0_5_2, complete(false), Some(paused()))[0];
        assert_eq!(ended["result"]["content"], json!([{ "type": "text", "text": "x" }]));
        assert!(ended.get("requiresResultConfirmation").is_none());
    }

    #[test]
    fn a_question_that_is_a_part_is_asked() {
        let part = json!({ "type": "chat/responsePart", "turnId": "t", "part": question("q") });
        let asked = json!({ "type": "chat/inputRequested", "request": { "id": "q" } });
        assert_eq!(down(&V0_5_2, part, None), [asked]);
        let part = json!({ "type": "chat/responsePart", "turnId": "t", "part": answered("q") });
        assert_eq!(down(&V0_5_2, part.clone(), None), [part]);
    }

    #[test]
    fn a_session_does_not_wait_for_sign_ins() {
        let request = json!({ "kind": "toolAuthentication", "id": "i" });
        let state = state_session(&V0_5_2, json!({ "inputNeeded": [request] }));
        assert_eq!(state, json!({}));
        let set = json!({ "type": "session/inputNeededSet", "request": request });
        assert_eq!(
            down(&V0_5_2, set, None),
            [json!({ "type": "session/inputNeededRemoved", "id": "i" })]
        );
    }

    #[test]
    fn turns_of_old_clients_start_now() {
        let started = json!({ "type": "chat/turnStarted", "turnId": "t", "message": {} });
        assert_eq!(up(&V0_5_2, started).unwrap()["startedAt"], "1970-01-01T00:00:00.000Z");
        let cancelled = json!({ "type": "chat/turnCancelled", "turnId": "t" });
        assert_eq!(up(&V0_5_2, cancelled).unwrap()["duration"], 0);
    }

    #[test]
    fn reviewed_files_have_their_older_name() {
        let old = json!({ "type": "changeset/filesReviewedChanged", "fileIds": ["f"], "reviewed": true });
        let new = json!({ "type": "changeset/filesReviewChanged", "files": ["f"], "reviewed": true });
        assert_eq!(down(&V0_5_2, new.clone(), None), vec![old.clone()]);
        assert_eq!(up(&V0_5_2, old), Ok(new));
    }
}
