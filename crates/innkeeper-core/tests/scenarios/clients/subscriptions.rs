//! `subscribe` and `unsubscribe` (SUB).

use ahp_types::commands::SubscribeResult;
use innkeeper_core::{AgentEvent, CoreConfig, Failure, TurnEnd};
use serde_json::{Value, json};

use crate::harness::*;

#[test]
fn sub01_sub02_a_snapshot_is_current_and_later_actions_are_above_it() {
    let mut stage = Stage::new();
    let conn = stage.client("c", &[]);
    stage.session(conn, SESSION);
    let snapshot = stage.subscribe(conn, SESSION)["result"]["snapshot"].take();
    assert_eq!(snapshot["resource"], SESSION);
    assert_eq!(snapshot["fromSeq"], stage.core.seq().0);
    stage.dispatch(conn, SESSION, 1, title("later"));
    let later = stage.actions(conn);
    assert_eq!(later.len(), 1);
    assert!(later[0]["serverSeq"].as_u64() > snapshot["fromSeq"].as_u64());
}

#[test]
fn sub03_e04_lesson03_the_response_precedes_the_first_action() {
    let mut stage = Stage::new();
    let owner = stage.client("owner", &[]);
    let chat = stage.session(owner, SESSION);
    stage.start_turn(owner, &chat, "t");
    stage.says(AgentEvent::Text("before ".into()));
    let reader = stage.client("reader", &[]);
    let snapshot = stage.subscribe(reader, &chat)["result"]["snapshot"].take();
    stage.says(AgentEvent::Text("after".into()));
    assert_eq!(
        snapshot["state"]["activeTurn"]["responseParts"][0]["content"],
        "before "
    );
    let actions = stage.actions(reader);
    assert_eq!(actions.len(), 1);
    assert_eq!(actions[0]["action"]["content"], "after");
}

#[test]
fn sub04_lesson10_a_channel_that_is_not_there_is_a_prompt_error() {
    let mut stage = Stage::new();
    let conn = stage.client("c", &[]);
    for (channel, code) in [
        ("ahp-session:/never", -32001),
        ("copilot:/never", -32001),
        ("ahp-chat:/never", -32001),
        ("ahp-terminal:/never", -32008),
        ("ahp-automations://", -32008),
    ] {
        let answer = stage.subscribe(conn, channel);
        assert_eq!(error(&answer).0, code, "{channel}");
        assert!(error(&answer).1.contains(channel), "{answer}");
    }
}

#[test]
fn sub05_lesson19_nothing_reaches_a_connection_that_does_not_subscribe() {
    let mut stage = Stage::new();
    let owner = stage.client("owner", &[ROOT]);
    let bystander = stage.client("bystander", &[]);
    let chat = stage.session(owner, SESSION);
    stage.start_turn(owner, &chat, "t");
    stage.ends(TurnEnd::Complete);
    stage.pass(1000);
    stage.dispose(owner, SESSION);
    assert_eq!(stage.inbox(bystander), Vec::<Value>::new());
    assert!(!stage.inbox(owner).is_empty());
}

#[test]
fn sub06_unsubscribe_stops_delivery_and_ignores_unknown_channels() {
    let mut stage = Stage::new();
    let conn = stage.client("c", &[ROOT]);
    stage.listed_session(conn, SESSION);
    stage.subscribe(conn, SESSION);
    stage.inbox(conn);
    stage.unsubscribe(conn, SESSION);
    stage.unsubscribe(conn, "ahp-session:/never");
    stage.dispatch(conn, SESSION, 1, title("unheard"));
    assert_eq!(stage.inbox(conn), Vec::<Value>::new());
    assert_eq!(
        stage.state(SESSION)["title"],
        "unheard",
        "DSP-10: it was applied all the same"
    );
}

#[test]
fn sub07_lesson09_one_unsubscribe_ends_two_subscriptions() {
    let mut stage = Stage::new();
    let conn = stage.client("c", &[]);
    stage.session(conn, SESSION);
    for _ in 0..2 {
        assert_eq!(
            stage.subscribe(conn, SESSION)["result"]["snapshot"]["resource"],
            SESSION
        );
    }
    stage.dispatch(conn, SESSION, 1, title("once"));
    assert_eq!(stage.actions(conn).len(), 1);
    stage.unsubscribe(conn, SESSION);
    stage.dispatch(conn, SESSION, 2, title("never"));
    assert!(stage.inbox(conn).is_empty());
}

#[test]
fn sub10_the_bound_a_subscription_asks_for_reaches_the_outbox() {
    let mut stage = Stage::new();
    let conn = stage.client("c", &[]);
    stage.session(conn, SESSION);
    for (asked, given) in [
        (Some(0), 0),
        (Some(250), 250),
        (None, CoreConfig::default().default_latency_ms),
    ] {
        stage.subscribe_within(conn, SESSION, asked);
        stage.dispatch(conn, SESSION, 1, title(&format!("{asked:?}")));
        assert_eq!(stage.audience[0].max_latency_ms, given);
    }
}

#[test]
fn sub16_a_session_can_be_subscribed_to_while_it_is_being_created() {
    let mut stage = Stage::new();
    let conn = stage.client("c", &[]);
    stage.create(conn, SESSION);
    let snapshot = stage.subscribe(conn, SESSION)["result"]["snapshot"].take();
    assert_eq!(snapshot["state"]["lifecycle"], "creating");
    stage.opened(Ok(()));
    assert_eq!(stage.action_types(conn), ["session/ready"]);
}

#[test]
fn sub17_e50_uris_are_exact_strings() {
    let mut stage = Stage::new();
    let conn = stage.client("c", &[]);
    stage.session(conn, "copilot:/A%20b");
    assert_eq!(
        stage.subscribe(conn, "copilot:/A%20b")["result"]["snapshot"]["resource"],
        "copilot:/A%20b"
    );
    for other in ["copilot:/a%20b", "copilot:/A b", "copilot:/A%20b/", "COPILOT:/A%20b"] {
        assert_eq!(error(&stage.subscribe(conn, other)).0, -32001, "{other}");
    }
}

#[test]
fn sub18_e45_every_channel_state_decodes_with_the_published_types() {
    let mut stage = Stage::new();
    let conn = stage.client("c", &[]);
    let chat = stage.session(conn, SESSION);
    stage.dispatch(conn, SESSION, 1, announce("c"));
    stage.start_turn(conn, &chat, "t1");
    stage.says(AgentEvent::Reasoning("hm".into()));
    stage.says(AgentEvent::Notice("note".into()));
    stage.says(AgentEvent::Activity(Some("working".into())));
    let running = stage.subscribe(conn, &chat);
    stage.ends(TurnEnd::Failed {
        failure: Failure::new("died", "it died"),
        resumable: true,
    });
    stage.dispatch(
        conn,
        &chat,
        2,
        json!({ "type": "chat/draftChanged", "draft": message("draft") }),
    );
    stage.create(conn, "ahp-session:/failed");
    stage.opened(Err(Failure::new("noAgent", "no agent")));
    for answer in [
        running,
        stage.subscribe(conn, &chat),
        stage.subscribe(conn, SESSION),
        stage.subscribe(conn, "ahp-session:/failed"),
        stage.subscribe(conn, ROOT),
    ] {
        let decoded: SubscribeResult = serde_json::from_value(answer["result"].clone()).expect("decodes");
        assert!(!format!("{decoded:?}").contains("Unknown("), "{decoded:?}");
        assert_eq!(
            serde_json::to_value(&decoded).unwrap(),
            answer["result"],
            "nothing is lost on the way"
        );
    }
}

#[test]
fn sub19_ses27_subscriptions_end_with_their_session() {
    let mut stage = Stage::new();
    let conn = stage.client("c", &[]);
    let chat = stage.session(conn, SESSION);
    stage.subscribe(conn, SESSION);
    stage.subscribe(conn, &chat);
    stage.dispose(conn, SESSION);
    assert_eq!(error(&stage.subscribe(conn, &chat)).0, -32001);
    stage.session(conn, SESSION);
    stage.dispatch(conn, SESSION, 1, title("another life"));
    assert!(stage.inbox(conn).is_empty(), "the old subscription is not taken over");
}

#[test]
fn sub20_a_connection_has_at_most_so_many_subscriptions() {
    let mut stage = Stage::with(CoreConfig {
        max_subscriptions: 2,
        ..CoreConfig::default()
    });
    let conn = stage.client("c", &[ROOT]);
    let chat = stage.session(conn, SESSION);
    assert!(stage.subscribe(conn, SESSION).get("result").is_some());
    assert!(
        stage.subscribe(conn, SESSION).get("result").is_some(),
        "again is not one more"
    );
    let answer = stage.subscribe(conn, &chat);
    assert_eq!(error(&answer).0, -32602);
    assert!(error(&answer).1.starts_with("params.channel: "), "{answer}");
    stage.unsubscribe(conn, ROOT);
    assert!(stage.subscribe(conn, &chat).get("result").is_some());
}
