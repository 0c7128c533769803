//! The wrapper against the published reducer: equal where it is right, and a note on each place
//! where it is not. A failing `upstream_still_...` test means the wrapper can lose that part.

use ahp_types::actions::*;
use ahp_types::common::StringOrMarkdown;
use ahp_types::state::*;
use serde_json::json;

use super::*;

fn empty() -> ChatState {
    serde_json::from_value(json!({
        "resource": "ahp-chat:/a", "title": "A", "status": 1, "modifiedAt": "2026-01-01T00:00:00.000Z", "turns": []
    }))
    .expect("a chat")
}

fn action(value: serde_json::Value) -> StateAction {
    let action: StateAction = serde_json::from_value(value).expect("an action");
    assert!(!matches!(action, StateAction::Unknown(_)), "{action:?}");
    action
}

fn started(turn: &str) -> StateAction {
    started_at(turn, "2026-01-01T00:00:01.000Z")
}

fn started_at(turn: &str, at: &str) -> StateAction {
    action(
        json!({"type": "chat/turnStarted", "turnId": turn, "startedAt": at, "message": {"text": "hi", "origin": {"kind": "user"}}}),
    )
}

fn part(turn: &str, id: &str, kind: &str) -> StateAction {
    action(json!({"type": "chat/responsePart", "turnId": turn, "part": {"kind": kind, "id": id, "content": ""}}))
}

fn delta(turn: &str, part: &str, content: &str) -> StateAction {
    action(json!({"type": "chat/delta", "turnId": turn, "partId": part, "content": content}))
}

fn complete(turn: &str) -> StateAction {
    action(json!({"type": "chat/turnComplete", "turnId": turn, "duration": 5}))
}

fn failed(turn: &str) -> StateAction {
    action(json!({"type": "chat/error", "turnId": turn, "duration": 5,
        "part": {"kind": "error", "error": {"errorType": "x", "message": "m"}, "resumable": true}}))
}

fn as_json(model: &ChatModel) -> serde_json::Value {
    serde_json::to_value(model.snapshot(Window::ALL)).expect("serialises")
}

#[test]
fn a_scripted_chat_equals_the_published_reducer() {
    let script = [
        started("t1"),
        part("t1", "p1", "markdown"),
        delta("t1", "p1", "Hello"),
        part("t1", "p2", "reasoning"),
        action(json!({"type": "chat/reasoning", "turnId": "t1", "partId": "p2", "content": "hm"})),
        delta("t1", "p1", ", world"),
        delta("t1", "nowhere", "lost"),
        delta("other", "p1", "lost"),
        action(
            json!({"type": "chat/toolCallStart", "turnId": "t1", "toolCallId": "c1", "toolName": "n", "displayName": "N"}),
        ),
        action(json!({"type": "chat/toolCallDelta", "turnId": "t1", "toolCallId": "c1", "content": "{"})),
        action(json!({"type": "chat/usage", "turnId": "t1", "usage": {"inputTokens": 3}})),
        complete("t1"),
        started("t2"),
        failed("t2"),
        action(json!({"type": "chat/turnResume", "turnId": "t2"})),
        part("t2", "p1", "markdown"),
        delta("t2", "p1", "again"),
        complete("t2"),
        action(json!({"type": "chat/turnResume", "turnId": "t2"})),
        started("t3"),
        action(json!({"type": "chat/truncated", "turnId": "nowhere"})),
        action(json!({"type": "chat/truncated", "turnId": "t1"})),
        action(json!({"type": "chat/draftChanged", "draft": {"text": "d", "origin": {"kind": "user"}}})),
        action(json!({"type": "chat/isReadChanged", "isRead": true})),
        action(json!({"type": "chat/truncated"})),
    ];
    let mut model = ChatModel::new(empty());
    let mut upstream = empty();
    for (step, action) in script.iter().enumerate() {
        let ours = model.apply(action);
        let theirs = apply_action_to_chat(&mut upstream, action);
        assert_eq!(ours, theirs, "outcome of step {step}: {action:?}");
        assert_eq!(
            as_json(&model),
            serde_json::to_value(&upstream).expect("serialises"),
            "state after step {step}: {action:?}"
        );
    }
}

#[test]
fn a_snapshot_in_flight_does_not_move() {
    let mut model = ChatModel::new(empty());
    model.apply(&started("t1"));
    model.apply(&part("t1", "p1", "markdown"));
    let captured = model.snapshot(Window::ALL);
    let before = serde_json::to_value(&captured).expect("serialises");
    model.apply(&delta("t1", "p1", "later"));
    model.apply(&complete("t1"));
    assert_eq!(serde_json::to_value(&captured).expect("serialises"), before);
    assert_ne!(as_json(&model), before);
}

#[test]
fn e11_a_second_start_does_not_destroy_the_running_turn() {
    let mut model = ChatModel::new(empty());
    model.apply(&started("t1"));
    assert_eq!(model.apply(&started("t2")), ReduceOutcome::NoOp);
    assert_eq!(
        model.head().active_turn.as_ref().map(|turn| turn.id.as_str()),
        Some("t1")
    );
}

#[test]
fn upstream_still_overwrites_a_running_turn() {
    let mut upstream = empty();
    apply_action_to_chat(&mut upstream, &started("t1"));
    apply_action_to_chat(&mut upstream, &started("t2"));
    assert_eq!(upstream.active_turn.map(|turn| turn.id), Some("t2".into()));
    assert!(upstream.turns.is_empty(), "the first turn is gone");
}

#[test]
fn upstream_still_cannot_end_a_turn_with_a_poisoned_start() {
    for poison in ["not-a-date", "", "9999-12-31T23:59:59.999Z"] {
        let mut upstream = empty();
        apply_action_to_chat(&mut upstream, &started_at("t1", poison));
        for end in [
            complete("t1"),
            failed("t1"),
            action(json!({"type": "chat/turnCancelled", "turnId": "t1", "duration": 5})),
        ] {
            assert!(
                matches!(apply_action_to_chat(&mut upstream, &end), ReduceOutcome::Invalid(_)),
                "{poison}"
            );
        }
        assert!(upstream.active_turn.is_some());
    }
}

#[test]
fn upstream_still_says_applied_when_it_drops_text() {
    let mut upstream = empty();
    apply_action_to_chat(&mut upstream, &started("t1"));
    apply_action_to_chat(&mut upstream, &part("t1", "p1", "reasoning"));
    assert_eq!(
        apply_action_to_chat(&mut upstream, &delta("t1", "p1", "x")),
        ReduceOutcome::Applied
    );
    let mut model = ChatModel::new(empty());
    model.apply(&started("t1"));
    model.apply(&part("t1", "p1", "reasoning"));
    assert_eq!(
        model.apply(&delta("t1", "p1", "x")),
        ReduceOutcome::NoOp,
        "E-19: nothing was appended"
    );
    assert_eq!(as_json(&model), serde_json::to_value(&upstream).expect("serialises"));
}

fn queue(ids: &[&str]) -> Vec<StateAction> {
    ids.iter()
        .map(|id| action(json!({"type": "chat/pendingMessageSet", "kind": "queued", "id": id, "message": {"text": "q", "origin": {"kind": "user"}}})))
        .collect()
}

fn order(state: &ChatState) -> Vec<&str> {
    state
        .queued_messages
        .iter()
        .flatten()
        .map(|message| message.id.as_str())
        .collect()
}

#[test]
fn e40_unmentioned_queued_messages_keep_their_order() {
    let reorder = StateAction::ChatQueuedMessagesReordered(ChatQueuedMessagesReorderedAction {
        order: vec!["b".into()],
    });
    let mut model = ChatModel::new(empty());
    let mut upstream = empty();
    for set in queue(&["z", "a", "b"]) {
        model.apply(&set);
        apply_action_to_chat(&mut upstream, &set);
    }
    model.apply(&reorder);
    apply_action_to_chat(&mut upstream, &reorder);
    assert_eq!(order(model.head()), ["b", "z", "a"]);
    assert_eq!(order(&upstream), ["b", "a", "z"], "upstream still sorts the rest by id");
}

#[test]
fn upstream_still_cannot_round_trip_an_auth_required_call() {
    // E-41: the day this decodes, the hand-written form that later features need can go.
    let call = json!({"status": "auth-required", "toolCallId": "c", "toolName": "n", "displayName": "N",
        "invocationMessage": "m", "confirmed": "not-needed", "auth": {"reason": "required", "resource": {"resource": "https://r"}}});
    let decoded: ToolCallState = serde_json::from_value(call).expect("falls back");
    assert!(matches!(decoded, ToolCallState::Unknown(_)), "{decoded:?}");
}

#[test]
fn parts_without_an_id_are_not_addressable() {
    let notice = ResponsePart::SystemNotification(SystemNotificationResponsePart {
        content: StringOrMarkdown::from("n"),
        meta: None,
    });
    assert_eq!(part_key(&notice), None);
}
