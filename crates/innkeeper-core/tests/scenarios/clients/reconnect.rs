//! `reconnect`: replay or snapshots, nothing lost, nothing doubled (REC).

use innkeeper_core::{AgentEvent, ConnId, CoreConfig, Input, ReplayLimits, Seq, TurnEnd};
use serde_json::{Value, json};

use crate::harness::*;

/// A client on root, session and chat, and another one that writes.
fn reader_and_writer(config: CoreConfig) -> (Stage, ConnId, ConnId, String) {
    let mut stage = Stage::with(config);
    let writer = stage.client("writer", &[]);
    let chat = stage.listed_session(writer, SESSION);
    let reader = stage.client("reader", &[ROOT, SESSION, &chat]);
    (stage, reader, writer, chat)
}

/// A window that retains only this many actions per channel.
fn window(actions: usize) -> CoreConfig {
    let mut stage = Stage::new();
    let conn = stage.client("c", &[]);
    stage.listed_session(conn, SESSION);
    let before = stage.core.replay_bytes();
    stage.dispatch(conn, SESSION, 1, title("0"));
    let cost = stage.core.replay_bytes() - before;
    CoreConfig {
        replay: ReplayLimits {
            channel_bytes: cost * actions + cost / 2,
            ..ReplayLimits::default()
        },
        ..CoreConfig::default()
    }
}

fn seqs(actions: &Value) -> Vec<u64> {
    let actions = actions.as_array().expect("a list").iter();
    actions
        .map(|envelope| envelope["serverSeq"].as_u64().expect("a number"))
        .collect()
}

#[test]
fn rec01_rec03_rec09_lesson03_missed_actions_precede_live_ones() {
    let (mut stage, reader, writer, chat) = reader_and_writer(CoreConfig::default());
    stage.listed_session(writer, "ahp-session:/two");
    stage.dispatch(writer, SESSION, 1, title("seen"));
    let seen = stage.actions(reader).pop().unwrap()["serverSeq"].as_u64().unwrap();
    stage.disconnect(reader);
    stage.dispatch(writer, SESSION, 2, title("missed"));
    stage.start_turn(writer, &chat, "t");
    stage.says(AgentEvent::Text("missed too".into()));
    stage.dispose(writer, "ahp-session:/two");
    let first_missed = seen + 1;
    let last_missed = stage.core.seq().0;

    let again = stage.connect();
    let result = stage.reconnect(again, "reader", seen, &[ROOT, SESSION, &chat])["result"].take();
    assert_eq!(result["type"], "replay");
    assert_eq!(result["missing"], json!([]));
    assert_eq!(
        seqs(&result["actions"]),
        (first_missed..=last_missed).collect::<Vec<_>>()
    );
    let channels: Vec<_> = result["actions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| e["channel"].clone())
        .collect();
    assert!(
        channels.contains(&json!(ROOT)),
        "lesson 4: root actions are replayed like all others"
    );
    stage.says(AgentEvent::Text("live".into()));
    let live = stage.actions(again);
    assert_eq!(live.len(), 1, "REC-08");
    assert_eq!(live[0]["serverSeq"], last_missed + 1);
}

#[test]
fn root13_rec03_changed_summaries_follow_a_replay() {
    let (mut stage, reader, writer, chat) = reader_and_writer(CoreConfig::default());
    stage.listed_session(writer, "ahp-session:/quiet");
    stage.pass(1000);
    let seen = stage.core.seq().0;
    stage.disconnect(reader);
    stage.dispatch(writer, SESSION, 1, title("renamed"));
    stage.start_turn(writer, &chat, "t");
    stage.pass(1000);

    let again = stage.connect();
    let result = stage.reconnect(again, "reader", seen, &[ROOT, SESSION, &chat]);
    assert_eq!(result["result"]["type"], "replay");
    let repeated = stage.notifications(again);
    assert_eq!(repeated.len(), 2, "the quiet session did not change: {repeated:?}");
    assert_eq!(repeated[0]["method"], "root/sessionAdded");
    let summary = &repeated[0]["params"]["summary"];
    assert_eq!(summary["resource"], SESSION);
    assert_eq!(summary["title"], "renamed");
    assert_eq!(summary["status"].as_u64().unwrap() & 8, 8, "a turn runs");
    // VS Code takes changes of sessions that it knows from here alone.
    assert_eq!(repeated[1]["method"], "root/sessionSummaryChanged");
    assert_eq!(repeated[1]["params"]["session"], SESSION);
    let changes = &repeated[1]["params"]["changes"];
    assert_eq!(changes["status"], summary["status"]);
    assert_eq!(changes["activity"], "", "ROOT-14: it has none");
    // Later changes continue from there.
    stage.ends(TurnEnd::Complete);
    stage.pass(1000);
    let told = stage.notifications(again);
    assert!(
        told.iter()
            .any(|message| message["method"] == "root/sessionSummaryChanged")
    );

    let elsewhere = stage.connect();
    stage.disconnect(again);
    stage.dispatch(writer, SESSION, 2, title("once more"));
    stage.pass(1000);
    stage.reconnect(elsewhere, "reader", seen, &[SESSION]);
    assert!(
        stage.notifications(elsewhere).is_empty(),
        "not a subscriber of the root"
    );
}

#[test]
fn root13_rec05_changed_summaries_follow_snapshots() {
    let (mut stage, reader, writer, chat) = reader_and_writer(CoreConfig::default());
    stage.listed_session(writer, "ahp-session:/quiet");
    stage.pass(1000);
    let seen = stage.core.seq().0;
    stage.disconnect(reader);
    stage.dispatch(writer, SESSION, 1, title("renamed"));
    stage.pass(1000);

    // The reader was not subscribed to the quiet session, so a replay cannot continue its state.
    let again = stage.connect();
    let result = stage.reconnect(again, "reader", seen, &[ROOT, SESSION, &chat, "ahp-session:/quiet"]);
    assert_eq!(result["result"]["type"], "snapshot");
    let repeated = stage.notifications(again);
    assert_eq!(repeated.len(), 2, "the quiet session did not change: {repeated:?}");
    assert_eq!(repeated[0]["params"]["summary"]["title"], "renamed");

    // From a number that the host does not know, every session may have changed.
    stage.disconnect(again);
    let again = stage.connect();
    stage.reconnect(again, "reader", 3, &[ROOT, SESSION]);
    let added = stage.notifications(again).into_iter();
    let added = added.filter(|message| message["method"] == "root/sessionAdded");
    assert_eq!(added.count(), 2);
}

#[test]
fn rec02_channels_that_are_gone_are_reported_missing() {
    let (mut stage, reader, writer, chat) = reader_and_writer(CoreConfig::default());
    let seen = stage.core.seq().0;
    stage.disconnect(reader);
    stage.dispose(writer, SESSION);
    let again = stage.connect();
    let result = stage.reconnect(again, "reader", seen, &[ROOT, SESSION, &chat])["result"].take();
    assert_eq!(result["type"], "replay");
    assert_eq!(result["missing"], json!([SESSION, chat]));
    assert_eq!(result["actions"][0]["action"]["type"], "root/activeSessionsChanged");
}

#[test]
fn rec04_the_clients_own_echoes_are_replayed_with_their_origin() {
    let (mut stage, reader, _, chat) = reader_and_writer(CoreConfig::default());
    let seen = stage.core.seq().0;
    stage.dispatch(reader, SESSION, 31, title("mine"));
    stage.disconnect(reader);
    let again = stage.connect();
    let result = stage.reconnect(again, "reader", seen, &[SESSION, &chat])["result"].take();
    assert_eq!(
        result["actions"][0]["origin"],
        json!({ "clientId": "reader", "clientSeq": 31 })
    );
}

#[test]
fn rec05_rec06_lesson05_beyond_the_window_every_channel_is_a_snapshot() {
    let (mut stage, reader, writer, chat) = reader_and_writer(window(3));
    let seen = stage.core.seq().0;
    stage.disconnect(reader);
    for n in 0..9 {
        stage.dispatch(writer, SESSION, n, title(&n.to_string()));
    }
    let again = stage.connect();
    let result = stage.reconnect(again, "reader", seen, &[ROOT, SESSION, "ahp-session:/gone", &chat])["result"].take();
    assert_eq!(result["type"], "snapshot");
    let snapshots = result["snapshots"].as_array().unwrap();
    let resources: Vec<_> = snapshots
        .iter()
        .map(|snapshot| snapshot["resource"].as_str().unwrap())
        .collect();
    assert_eq!(resources, [ROOT, SESSION, &chat], "REC-06: what is gone is left out");
    assert!(
        snapshots
            .iter()
            .all(|snapshot| snapshot["fromSeq"] == stage.core.seq().0)
    );
    assert_eq!(snapshots[1]["state"]["title"], "8");
    stage.dispatch(writer, SESSION, 10, title("live"));
    assert_eq!(stage.actions(again).len(), 1);
}

#[test]
fn rec07_notifications_are_not_replayed() {
    let (mut stage, reader, writer, _) = reader_and_writer(CoreConfig::default());
    let seen = stage.core.seq().0;
    stage.disconnect(reader);
    stage.listed_session(writer, "ahp-session:/two");
    stage.pass(1000);
    stage.dispatch(writer, "ahp-session:/two", 1, title("renamed"));
    stage.pass(1000);
    stage.listed_session(writer, "ahp-session:/gone");
    stage.dispose(writer, "ahp-session:/gone");
    let again = stage.connect();
    stage.reconnect(again, "reader", seen, &[ROOT]);
    let told = stage.inbox(again);
    let methods: Vec<_> = told.iter().map(|message| &message["method"]).collect();
    let present = ["root/sessionAdded", "root/sessionSummaryChanged"];
    assert_eq!(methods, present, "the present state once, not what was sent before");
    assert_eq!(told[0]["params"]["summary"]["title"], "renamed");
    assert_eq!(told[1]["params"]["session"], "ahp-session:/two");
}

#[test]
fn rec10_e06_lesson01_a_gap_as_large_as_the_window_is_still_replayed() {
    for (missed, kind) in [(3, "replay"), (4, "snapshot")] {
        let (mut stage, reader, writer, _) = reader_and_writer(window(3));
        let seen = stage.core.seq().0;
        stage.disconnect(reader);
        for n in 0..missed {
            stage.dispatch(writer, SESSION, n, title(&n.to_string()));
        }
        let again = stage.connect();
        let result = stage.reconnect(again, "reader", seen, &[SESSION])["result"].take();
        assert_eq!(result["type"], kind, "{missed} missed");
    }
}

#[test]
fn lesson02_a_busy_channel_does_not_cost_a_quiet_one_its_replay() {
    let (mut stage, reader, writer, chat) = reader_and_writer(window(3));
    let seen = stage.core.seq().0;
    stage.disconnect(reader);
    stage.dispatch(
        writer,
        SESSION,
        1,
        json!({ "type": "session/isReadChanged", "isRead": false }),
    );
    stage.dispatch(
        writer,
        &chat,
        2,
        json!({ "type": "chat/draftChanged", "draft": message("d") }),
    );
    let other = stage.session(writer, "ahp-session:/busy");
    stage.start_turn(writer, &other, "t");
    for _ in 0..100 {
        stage.says(AgentEvent::Text("x".into()));
    }
    let again = stage.connect();
    let result = stage.reconnect(again, "reader", seen, &[SESSION, &chat])["result"].take();
    assert_eq!(result["type"], "replay");
    assert_eq!(seqs(&result["actions"]).len(), 2);
}

#[test]
fn rec11_e05_an_unknown_sequence_number_is_answered_with_snapshots() {
    let mut stage = Stage::starting_at(CoreConfig::default(), Seq(1000));
    let conn = stage.client("c", &[ROOT]);
    assert!(stage.core.seq() >= Seq(1000));
    stage.disconnect(conn);
    for last_seen in [0, 5, 999, 1001, u64::MAX] {
        let conn = stage.connect();
        let result = stage.reconnect(conn, "c", last_seen, &[ROOT])["result"].take();
        assert_eq!(result["type"], "snapshot", "{last_seen}");
        stage.disconnect(conn);
    }
    let conn = stage.connect();
    assert_eq!(stage.reconnect(conn, "c", 1000, &[ROOT])["result"]["type"], "replay");
}

#[test]
fn sub02_a_client_that_ignores_snapshot_numbers_gets_no_duplicates() {
    // The published client subscribes late, at a number far above the last action it received, and reconnects with
    // the low one. The host does not know whether the snapshot reached it.
    let (mut stage, _, writer, chat) = reader_and_writer(CoreConfig::default());
    let late = stage.client("late", &[ROOT]);
    let last_seen = stage.core.seq().0;
    stage.start_turn(writer, &chat, "t");
    stage.says(AgentEvent::Text("in the snapshot".into()));
    let from_seq = stage.subscribe(late, &chat)["result"]["snapshot"]["fromSeq"]
        .as_u64()
        .unwrap();
    stage.says(AgentEvent::Text("missed".into()));
    stage.disconnect(late);
    for (seen, expected) in [
        (last_seen, "snapshot"),
        (from_seq, "snapshot"),
        (stage.core.seq().0, "replay"),
    ] {
        let again = stage.connect();
        let result = stage.reconnect(again, "late", seen, &[&chat])["result"].take();
        assert_eq!(result["type"], expected, "{seen}");
        stage.disconnect(again);
    }
}

#[test]
fn a_replaced_session_is_not_replayed_into_its_predecessors_state() {
    let (mut stage, reader, writer, _) = reader_and_writer(CoreConfig::default());
    stage.dispose(writer, SESSION);
    stage.listed_session(writer, SESSION);
    let seen = stage.core.seq().0;
    stage.dispatch(writer, SESSION, 1, title("new"));
    stage.disconnect(reader);
    let again = stage.connect();
    let result = stage.reconnect(again, "reader", seen, &[SESSION])["result"].take();
    assert_eq!(result["type"], "snapshot", "the reader never had this session's state");
}

#[test]
fn rec14_act10_e57_membership_survives_only_a_reconnect_that_resumes() {
    for (resumed, members) in [(&[SESSION][..], 1), (&[ROOT], 0)] {
        let (mut stage, reader, writer, _) = reader_and_writer(CoreConfig::default());
        stage.subscribe(writer, SESSION);
        stage.dispatch(reader, SESSION, 1, announce("reader"));
        let seen = stage.core.seq().0;
        stage.disconnect(reader);
        stage.pass(29_000);
        assert_eq!(
            stage.state(SESSION)["activeClients"].as_array().unwrap().len(),
            1,
            "in its grace"
        );
        stage.inbox(writer);
        let again = stage.connect();
        stage.reconnect(again, "reader", seen, resumed);
        stage.pass(120_000);
        assert_eq!(
            stage.state(SESSION)["activeClients"].as_array().unwrap().len(),
            members,
            "{resumed:?}"
        );
        assert_eq!(stage.action_types(writer).len(), 1 - members);
    }
}

#[test]
fn act10_a_client_that_misses_its_grace_period_leaves_its_sessions() {
    let (mut stage, reader, writer, _) = reader_and_writer(CoreConfig::default());
    stage.subscribe(writer, SESSION);
    stage.dispatch(reader, SESSION, 1, announce("reader"));
    stage.inbox(writer);
    stage.disconnect(reader);
    stage.pass(30_000);
    assert_eq!(stage.action_types(writer), ["session/activeClientRemoved"]);
}

#[test]
fn rec17_e59_a_client_seq_that_starts_over_is_not_taken_for_a_repetition() {
    let (mut stage, reader, _, _) = reader_and_writer(CoreConfig::default());
    stage.dispatch(reader, SESSION, 1, title("first"));
    let seen = stage.core.seq().0;
    stage.disconnect(reader);
    let again = stage.connect();
    stage.reconnect(again, "reader", seen, &[SESSION]);
    stage.dispatch(again, SESSION, 1, title("second"));
    assert_eq!(stage.state(SESSION)["title"], "second");
    assert_eq!(stage.actions(again)[0]["origin"]["clientSeq"], 1);
}

#[test]
fn rec19_lesson12_refusals_and_no_op_echoes_are_not_replayed() {
    let (mut stage, reader, writer, chat) = reader_and_writer(CoreConfig::default());
    let seen = stage.core.seq().0;
    stage.disconnect(reader);
    stage.dispatch(writer, SESSION, 1, json!({ "type": "nonsense" }));
    let removed = json!({ "type": "session/activeClientRemoved", "clientId": "writer" });
    stage.dispatch(writer, SESSION, 2, removed);
    stage.dispatch(writer, SESSION, 3, title("real"));
    let again = stage.connect();
    let result = stage.reconnect(again, "reader", seen, &[ROOT, SESSION, &chat])["result"].take();
    let types: Vec<_> = result["actions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| e["action"]["type"].clone())
        .collect();
    assert_eq!(types, ["session/titleChanged"]);
}

#[test]
fn lesson15_after_a_long_absence_the_replay_is_in_order_and_complete() {
    let (mut stage, reader, writer, chat) = reader_and_writer(CoreConfig::default());
    let seen = stage.core.seq().0;
    stage.disconnect(reader);
    for round in 0..20 {
        stage.start_turn(writer, &chat, &format!("t{round}"));
        stage.says(AgentEvent::Text("text".into()));
        stage.pass(100_000);
        stage.ends(TurnEnd::Complete);
    }
    let again = stage.connect();
    let result = stage.reconnect(again, "reader", seen, &[SESSION, &chat])["result"].take();
    assert_eq!(result["type"], "replay", "the grace is over and the window is not");
    let replayed = seqs(&result["actions"]);
    assert!(replayed.is_sorted_by(|a, b| a < b));
    assert_eq!(replayed, (seen + 1..=stage.core.seq().0).collect::<Vec<_>>());
}

#[test]
fn a_recreated_session_is_never_replayed_into_the_old_state() {
    let (mut stage, reader, writer, _) = reader_and_writer(CoreConfig::default());
    let seen = stage.core.seq().0;
    stage.disconnect(reader);
    stage.dispose(writer, SESSION);
    stage.listed_session(writer, SESSION);
    let again = stage.connect();
    let result = stage.reconnect(again, "reader", seen, &[ROOT, SESSION])["result"].take();
    assert_eq!(result["type"], "snapshot");
}

#[test]
fn rec05_a_replay_does_not_repeat_actions_of_the_snapshot() {
    let mut stage = Stage::new();
    let first = stage.client("c", &[]);
    stage.listed_session(first, SESSION);
    stage.subscribe(first, SESSION);
    let counted = stage.core.seq();
    stage.dispatch(first, SESSION, 1, title("in the snapshot"));
    // The published client does not count what a snapshot says, so this connection comes back
    // with an older number than the state it has.
    let second = stage.client("c", &[SESSION]);
    stage.handle(Input::Disconnected { conn: second });
    let third = stage.connect();
    let answer = stage.reconnect(third, "c", counted.0, &[SESSION]);
    assert_eq!(answer["result"]["type"], "snapshot", "{answer}");
}
