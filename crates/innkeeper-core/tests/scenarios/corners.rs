//! Corner cases that a second review found: leaks, leftovers, growth.

use innkeeper_core::agent::ToolStep;
use innkeeper_core::{AgentCommand, AgentEvent, ConnId, CoreConfig, Effect, Failure, TurnEnd};
use serde_json::json;

use crate::harness::working_agent::*;
use crate::harness::*;

fn offer(stage: &mut Stage, conn: ConnId, client: &str, tool: &str) {
    stage.dispatch(
        conn,
        SESSION,
        3,
        json!({"type":"session/activeClientSet","activeClient":{"clientId":client,"tools":[{"name":tool}]}}),
    );
}

#[test]
fn pend04_e63_a_new_steer_starts_its_own_turn_not_a_cancelled_one() {
    let (mut stage, conn, chat) = working();
    stage.dispatch(
        conn,
        &chat,
        2,
        json!({"type":"chat/pendingMessageSet","kind":"queued","id":"m1","message":message("later")}),
    );
    stage.dispatch(
        conn,
        &chat,
        3,
        json!({"type":"chat/turnCancelled","turnId":"t","duration":0}),
    );
    assert!(stage.state(&chat).get("activeTurn").is_none());
    stage.dispatch(
        conn,
        &chat,
        4,
        json!({"type":"chat/pendingMessageSet","kind":"steering","id":"s1","message":message("steer")}),
    );
    let state = stage.state(&chat);
    assert_eq!(state["activeTurn"]["message"]["text"], "steer");
    assert_eq!(state["queuedMessages"][0]["id"], "m1");
}

#[test]
fn lesson_42_an_approval_of_a_clients_tool_is_not_one_of_the_hosts() {
    let (mut stage, conn, chat) = working();
    offer(&mut stage, conn, "c", "shell");
    stage.call(client_tool("shell", "c"), risky());
    stage.accepted(conn, &chat, decide(true, Some("allow-session")));
    stage.tool("two", ToolStep::Start(host_tool("shell")));
    stage.tool("two", risky());
    assert_eq!(stage.call_state(&chat, "two")["status"], "pending-confirmation");
}

#[test]
fn act08_a_call_for_an_absent_client_ends_when_it_is_approved() {
    let (mut stage, conn, chat) = working();
    let other = stage.client("d", &[SESSION]);
    offer(&mut stage, other, "d", "open");
    stage.unsubscribe(other, SESSION);
    // The agent learnt of the tool at the start of its turn and calls it now.
    stage.call(client_tool("open", "d"), risky());
    stage.dispatch(conn, &chat, 9, decide(true, None));
    stage.pass(3 * 60 * 60_000);
    assert_eq!(
        stage.call_state(&chat, CALL)["status"],
        "completed",
        "{:#}",
        stage.call_state(&chat, CALL)
    );
}

#[test]
fn an_agent_may_give_a_better_title_than_the_first_message() {
    let (mut stage, conn, _) = working();
    stage.says(AgentEvent::Title("A better title".into()));
    assert_eq!(stage.state(SESSION)["title"], "A better title");
    stage.dispatch(conn, SESSION, 2, title("Mine"));
    stage.says(AgentEvent::Title("Even better".into()));
    assert_eq!(stage.state(SESSION)["title"], "Mine", "a user's choice stands");
}

#[test]
fn cht12_e15_asking_again_does_not_lose_the_subagents_of_a_call() {
    let (mut stage, conn, chat) = working();
    stage.call(host_tool("task"), harmless());
    let run = stage.run();
    let subagent = stage.spawns(run, CALL, false).expect("subagent");
    stage.tool(CALL, risky());
    stage.accepted(conn, &chat, decide(true, None));
    stage.tool(CALL, done());
    let state = stage.call_state(&chat, CALL);
    assert!(
        state["content"]
            .as_array()
            .is_some_and(|c| c.iter().any(|c| c["resource"] == *subagent.chat_uri)),
        "{state:#}"
    );
}

#[test]
fn ses15_a_failed_subagent_does_not_show_its_session_as_failed_for_ever() {
    let (mut stage, conn, chat) = working();
    stage.call(host_tool("task"), harmless());
    let run = stage.run();
    let subagent = stage.spawns(run, CALL, false).expect("subagent");
    stage.ends_in(
        (subagent.chat, subagent.turn),
        TurnEnd::Failed {
            failure: Failure::new("x", "y"),
            resumable: false,
        },
    );
    stage.tool(CALL, done());
    stage.ends_in(run, TurnEnd::Complete);
    stage.start_turn(conn, &chat, "t2");
    assert_eq!(stage.state(SESSION)["status"].as_u64().unwrap() & 31, 8, "running");
    stage.ends(TurnEnd::Complete);
    assert_eq!(stage.state(SESSION)["status"].as_u64().unwrap() & 31, 1, "idle");
}

#[test]
fn dsp15_every_new_connection_hears_the_echo_of_an_unchanged_announcement() {
    let (mut stage, conn, _chat) = working();
    offer(&mut stage, conn, "c", "open");
    for round in 0..3 {
        let next = stage.client("c", &[SESSION]);
        stage.inbox(next);
        offer(&mut stage, next, "c", "open");
        assert!(!stage.actions(next).is_empty(), "round {round}: no echo");
    }
}

#[test]
fn ses25_directories_are_not_taken_away_during_a_turn() {
    let mut stage = Stage::able(CoreConfig::default());
    let conn = stage.client("c", &[]);
    let mut create = new_session(SESSION);
    create.working_directories = vec!["file:///a".into(), "file:///b".into()];
    stage.create_with(conn, create);
    stage.opened(Ok(()));
    let chat = innkeeper_core::uri::default_chat(SESSION);
    stage.subscribe(conn, SESSION);
    stage.start_turn(conn, &chat, "t");
    let why = stage.refused(
        conn,
        SESSION,
        json!({"type":"session/workingDirectoryRemoved","directory":"file:///b"}),
    );
    assert!(why.contains("a turn is running"), "{why}");
}

#[test]
fn root18_progress_has_a_last_frame_when_its_session_is_disposed_of() {
    let mut stage = Stage::new();
    let conn = stage.client("c", &[]);
    let mut create = new_session(SESSION);
    create.progress_token = Some("p".into());
    stage.create_with(conn, create);
    let chat = stage.last_opened().chat;
    stage.handle(innkeeper_core::Input::Progress {
        chat,
        done: 1,
        total: Some(3),
        message: None,
    });
    stage.dispose(conn, SESSION);
    let last = stage
        .notifications(conn)
        .into_iter()
        .rfind(|message| message["method"] == "root/progress")
        .unwrap();
    assert_eq!(last["params"]["progress"], last["params"]["total"], "{last}");
}

#[test]
fn turn18_a_chat_is_attached_once() {
    let (mut stage, conn, chat) = working();
    stage.ends(TurnEnd::Complete);
    let mut action = stage.turn_started("again");
    let attached = json!({ "type": "chat", "label": "this", "resource": chat });
    action["message"]["attachments"] = json!([attached, attached]);
    let why = stage.refused(conn, &chat, action);
    assert!(why.contains("attachments[1] attaches the same chat again"), "{why}");
}

#[test]
fn decisions_for_workspaces_are_bounded() {
    let mut stage = Stage::new();
    let conn = stage.client("c", &[]);
    let dir = |i: usize| format!("file:///x/{i}");
    for i in 0..50 {
        let mut create = new_session(SESSION);
        create.working_directories = vec![dir(i)];
        stage.create_with(conn, create);
        stage.opened(Ok(()));
        stage.dispatch(
            conn,
            SESSION,
            1,
            json!({"type":"session/configChanged","config":{"workspaceApprovedTools":["y".repeat(400_000)]}}),
        );
        stage.dispose(conn, SESSION);
    }
    let kept: usize = (0..50)
        .map(|i| {
            let mut create = new_session(SESSION);
            create.working_directories = vec![dir(i)];
            stage.create_with(conn, create);
            let n = stage.state(SESSION)["config"]["values"]["workspaceApprovedTools"]
                .to_string()
                .len();
            stage.dispose(conn, SESSION);
            n
        })
        .sum();
    assert!(kept < 4 << 20, "{} MiB kept for sessions that are gone", kept >> 20);
}

#[test]
fn tool06_an_edited_input_counts_as_part_of_its_turn() {
    let (mut stage, conn, chat) = working_with(CoreConfig {
        max_turn_bytes: 1 << 20,
        ..CoreConfig::default()
    });
    stage.call(host_tool("run"), risky());
    let mut d = decide(true, None);
    d["editedToolInput"] = json!("z".repeat(8 << 20));
    stage.dispatch(conn, &chat, 5, d);
    let len = stage.call_state(&chat, CALL)["toolInput"].to_string().len();
    assert!(len < 2 << 20, "{} MiB in a turn of at most 1", len >> 20);
}

#[test]
fn turn18_an_agent_hears_that_an_attached_chat_is_gone() {
    let mut stage = Stage::able(CoreConfig::default());
    let conn = stage.client("c", &[]);
    let chat = stage.session(conn, SESSION);
    let source = "ahp-chat:/source";
    stage.create_chat(conn, new_chat(SESSION, source));
    stage.turn(conn, source, "s1", "worth knowing");
    stage.start_turn(conn, &chat, "t");
    let run = stage.run();
    stage.dispatch(conn, &chat, 2, json!({"type":"chat/pendingMessageSet","kind":"queued","id":"m1","message":{"text":"x","origin":{"kind":"user"},"attachments":[{"type":"chat","label":"l","resource":source}]}}));
    stage.dispose_chat(conn, source);
    stage.ends_in(run, TurnEnd::Complete);
    let text = stage
        .agent
        .iter()
        .rev()
        .find_map(|e| match e {
            Effect::Agent(AgentCommand::StartTurn { start, .. }) => Some(format!("{:?}", start.info.attachments)),
            _ => None,
        })
        .unwrap();
    assert!(text.contains("is gone"), "{text}");
}

#[test]
fn tool09_a_choice_of_the_agents_own_is_remembered_by_the_agent_alone() {
    use innkeeper_core::agent::{ConfirmOption, Confirmation, Offer, Permission};
    let (mut stage, conn, chat) = working();
    let own = || {
        ready(Permission::Ask(Box::new(Confirmation {
            offer: Offer::Own(vec![ConfirmOption {
                id: "allow-session".into(),
                label: "Show me the session".into(),
                approves: true,
                group: None,
            }]),
            ..Confirmation::default()
        })))
    };
    stage.call(host_tool("run"), own());
    stage.accepted(conn, &chat, decide(true, Some("allow-session")));
    assert_eq!(stage.state(SESSION)["config"]["values"]["approvedTools"], json!([]));
}

#[test]
fn turn13_a_turn_whose_agent_was_replaced_cannot_be_resumed() {
    let mut stage = Stage::able(CoreConfig::default());
    let conn = stage.client("c", &[]);
    let chat = stage.session(conn, SESSION);
    stage.subscribe(conn, &chat);
    stage.turn(conn, &chat, "a", "x");
    stage.start_turn(conn, &chat, "b");
    stage.ends(TurnEnd::Failed {
        failure: Failure::new("net", "lost"),
        resumable: true,
    });
    stage.turn(conn, &chat, "c", "x");
    stage.agent.clear();
    // Truncated back to the failed turn: the agent is opened again, and the old one's position is lost.
    stage.dispatch(conn, &chat, 4, json!({"type":"chat/truncated","turnId":"b"}));
    assert!(
        stage
            .agent
            .iter()
            .any(|e| matches!(e, Effect::Agent(AgentCommand::OpenChat(_))))
    );
    let why = stage.refused(conn, &chat, json!({"type":"chat/turnResume","turnId":"b"}));
    assert!(why.contains("was replaced"), "{why}");
}
