//! Subagents: chats that a tool call starts (CHT-12 to CHT-14, CHT-24, CHT-25).

use innkeeper_core::agent::{BackgroundChange, ToolContent, ToolReply, ToolResult, ToolStep};
use innkeeper_core::request::CreateChat;
use innkeeper_core::{
    AgentCommand, AgentEvent, ChannelId, ConnId, CoreConfig, Effect, Failure, Input, Reply, TurnEnd, TurnKey,
};
use serde_json::{Value, json};

use crate::harness::*;

fn stage() -> (Stage, ConnId, String, (ChannelId, TurnKey)) {
    with(CoreConfig::default())
}

/// A session with a turn whose tool call `call` is running.
fn with(config: CoreConfig) -> (Stage, ConnId, String, (ChannelId, TurnKey)) {
    on(Stage::with(config))
}

fn on(mut stage: Stage) -> (Stage, ConnId, String, (ChannelId, TurnKey)) {
    let conn = stage.client("c", &[]);
    let chat = stage.session(conn, SESSION);
    for channel in [SESSION, &chat] {
        stage.subscribe(conn, channel);
    }
    stage.start_turn(conn, &chat, "t");
    let run = stage.run();
    stage.runs_tool(run, "call");
    stage.inbox(conn);
    (stage, conn, chat, run)
}

fn content(stage: &Stage, chat: &str) -> Value {
    stage.state(chat)["activeTurn"]["responseParts"][0]["toolCall"]["content"].clone()
}

fn reason(stage: &mut Stage, conn: ConnId) -> String {
    let envelope = stage.actions(conn).pop().expect("an envelope");
    envelope["rejectionReason"]
        .as_str()
        .unwrap_or_else(|| panic!("not refused: {envelope}"))
        .to_owned()
}

/// (E-49, CHT-11)
#[test]
fn cht12_call_and_subagent_name_each_other() {
    let (mut stage, conn, chat, run) = stage();
    let step = Box::new(ToolStep::Content(vec![ToolContent::Text("so far".into())]));
    let call = "call".to_owned();
    stage.says_in(run, AgentEvent::Tool { call, step });
    stage.inbox(conn);
    let subagent = stage.spawns(run, "call", false).expect("a subagent");
    assert_eq!(
        stage.action_types(conn),
        [
            "session/chatAdded",
            "session/chatUpdated",
            "chat/toolCallContentChanged"
        ]
    );
    let name = "ahp-chat://subagent/YWhwLXNlc3Npb246L29uZQ/call";
    let call = stage.state(&chat)["activeTurn"]["responseParts"][0]["toolCall"].clone();
    let shown = json!({
        "toolKind": "subagent", "subagentChatUri": name,
        "subagentAgentName": "explorer", "subagentDescription": "Work of call",
    });
    assert_eq!(call["_meta"], shown);
    assert_eq!(&*subagent.chat_uri, name);
    assert_eq!(subagent.parent, run);
    assert!(
        matches!(stage.agent.last(), Some(Effect::Agent(AgentCommand::StartSubagent(_)))),
        "side effects come last"
    );
    let state = stage.state(&subagent.chat_uri);
    assert_eq!(
        state["origin"],
        json!({ "kind": "tool", "chat": chat, "toolCallId": "call" })
    );
    assert_eq!(state["interactivity"], "read-only");
    assert_eq!(state["title"], "Work of call");
    assert!(state.get("movable").is_none());
    assert_eq!(
        state["activeTurn"]["message"],
        json!({ "text": "Look around", "origin": { "kind": "agent" } })
    );
    let shown = json!({ "type": "subagent", "resource": &*subagent.chat_uri, "title": "Work of call", "agentName": "explorer" });
    assert_eq!(
        content(&stage, &chat),
        json!([{ "type": "text", "text": "so far" }, shown])
    );
    // The subagent is not lost when the call says something else, or ends.
    let step = Box::new(ToolStep::Content(vec![ToolContent::Text("more".into())]));
    let call = "call".to_owned();
    stage.says_in(run, AgentEvent::Tool { call, step });
    assert_eq!(
        content(&stage, &chat),
        json!([{ "type": "text", "text": "more" }, shown])
    );
    stage.says_in((subagent.chat, subagent.turn), AgentEvent::Text("found it".into()));
    stage.ends_in((subagent.chat, subagent.turn), TurnEnd::Complete);
    let step = Box::new(ToolStep::Done {
        result: ToolResult::text("Done", "found it"),
        review: false,
    });
    let call = "call".to_owned();
    stage.says_in(run, AgentEvent::Tool { call, step });
    assert_eq!(
        content(&stage, &chat),
        json!([{ "type": "text", "text": "found it" }, shown])
    );
    assert_eq!(
        stage.state(&subagent.chat_uri)["turns"][0]["responseParts"][0]["content"],
        "found it"
    );
}

#[test]
fn cht12_several_subagents_of_one_call_have_chats_of_their_own() {
    let (mut stage, _, chat, run) = stage();
    let first = stage.spawns(run, "call", false).expect("a subagent");
    let second = stage.spawns(run, "call", false).expect("a subagent");
    assert_ne!(first.chat_uri, second.chat_uri);
    assert_eq!(content(&stage, &chat).as_array().map(Vec::len), Some(2));
}

/// VS Code looks for the subagents in a fork's turns by the URI that it computes from the id of the call, because their
/// chats name the original chat.
#[test]
fn e49_subagents_in_a_forks_turns_are_found_by_the_id_of_their_call() {
    let (mut stage, conn, chat, run) = on(Stage::able(CoreConfig::default()));
    let subagent = stage.spawns(run, "call", false).expect("a subagent");
    stage.says_in((subagent.chat, subagent.turn), AgentEvent::Text("found it".into()));
    stage.ends_in((subagent.chat, subagent.turn), TurnEnd::Complete);
    stage.ends_in(run, TurnEnd::Complete);
    let fork = "ahp-chat:/fork";
    let source = json!({ "kind": "fork", "chat": chat, "turnId": "t" });
    let create = CreateChat {
        source: Some(serde_json::from_value(source).expect("a source")),
        ..new_chat(SESSION, fork)
    };
    let created = stage.create_chat(conn, create);
    assert_eq!(created.get("error"), None, "{created}");
    let call = stage.state(fork)["turns"][0]["responseParts"][0]["toolCall"].clone();
    let computed = "ahp-chat://subagent/YWhwLXNlc3Npb246L29uZQ/call";
    assert_eq!(call["_meta"]["subagentChatUri"], computed, "{call}");
    stage.subscribe(conn, computed);
    let turns = stage.state(computed)["turns"].clone();
    assert_eq!(turns[0]["responseParts"][0]["content"], "found it");
    // An agent that repeats the id of the call in the fork gets another chat.
    stage.start_turn(conn, fork, "t2");
    let run = stage.run();
    stage.runs_tool(run, "call");
    let again = stage.spawns(run, "call", false).expect("a subagent");
    assert_eq!(&*again.chat_uri, &format!("{computed}~2"));
    assert_eq!(stage.state(computed)["turns"], turns);
}

fn refusal(stage: &Stage) -> &str {
    match stage.agent.last() {
        Some(Effect::Agent(AgentCommand::Reply { reply, .. })) => match &**reply {
            Reply::NotSpawned { reason, .. } => reason,
            other => panic!("not a refusal: {other:?}"),
        },
        other => panic!("not a reply: {other:?}"),
    }
}

#[test]
fn cht13_depth_and_number_of_subagents_are_bounded_and_the_agent_is_told() {
    let (mut stage, _, _, run) = with(CoreConfig {
        max_subagent_depth: 2,
        max_chats: 4,
        ..CoreConfig::default()
    });
    let mut above = run;
    for _ in 0..2 {
        let subagent = stage.spawns(above, "call", false).expect("a subagent");
        above = (subagent.chat, subagent.turn);
        stage.runs_tool(above, "call");
    }
    assert!(stage.spawns(above, "call", false).is_none());
    assert!(refusal(&stage).contains("at most 2 deep"), "{}", refusal(&stage));
    assert!(stage.spawns(run, "call", false).is_some());
    assert!(stage.spawns(run, "call", false).is_none());
    assert!(refusal(&stage).contains("at most 4 chats"), "{}", refusal(&stage));
    assert!(stage.spawns(run, "unknown", false).is_none());
    assert!(refusal(&stage).contains("is not running"), "{}", refusal(&stage));
    assert_eq!(stage.catalogue(SESSION).len(), 4);
}

/// (TURN-12)
#[test]
fn cht14_a_user_may_stop_a_subagent_but_not_message_it() {
    let (mut stage, conn, _, run) = stage();
    let subagent = stage.spawns(run, "call", false).expect("a subagent");
    let uri = subagent.chat_uri.to_string();
    stage.subscribe(conn, &uri);
    for action in [
        stage.turn_started("mine"),
        json!({ "type": "chat/pendingMessageSet", "kind": "queued", "id": "q", "message": message("hi") }),
        json!({ "type": "chat/pendingMessageSet", "kind": "steering", "id": "s", "message": message("hi") }),
        json!({ "type": "chat/truncated" }),
    ] {
        stage.dispatch(conn, &uri, 1, action);
        reason(&mut stage, conn);
    }
    let turn = stage.state(&uri)["activeTurn"]["id"].clone();
    let cancel = json!({ "type": "chat/turnCancelled", "turnId": turn, "duration": 0 });
    stage.dispatch(conn, &uri, 2, cancel);
    assert_eq!(stage.state(&uri)["turns"][0]["state"], "cancelled");
    assert_eq!(stage.cancelled(), [(subagent.chat, subagent.turn)]);
    // Its parent continues.
    stage.says_in(run, AgentEvent::Text("never mind".into()));
    stage.ends_in(run, TurnEnd::Complete);
    assert_eq!(stage.state(SESSION)["status"], 1, "unread: a turn ended in it");
}

#[test]
fn cht14_only_its_agent_resumes_a_subagent() {
    let (mut stage, conn, _, run) = stage();
    let subagent = stage.spawns(run, "call", false).expect("a subagent");
    stage.subscribe(conn, &subagent.chat_uri);
    stage.ends_in(
        (subagent.chat, subagent.turn),
        TurnEnd::Failed {
            failure: Failure::new("x", "y"),
            resumable: true,
        },
    );
    let turn = stage.state(&subagent.chat_uri)["turns"][0]["id"].clone();
    let uri = subagent.chat_uri.to_string();
    stage.dispatch(conn, &uri, 1, json!({ "type": "chat/turnResume", "turnId": turn }));
    assert!(reason(&mut stage, conn).contains("only its agent"));
}

/// A case that other agents were seen to lose: an approval two subagents down. (SES-18, SES-20)
#[test]
fn cht12_a_question_of_a_nested_subagent_reaches_session_subscribers() {
    let (mut stage, conn, _, run) = stage();
    let outer = stage.spawns(run, "call", false).expect("a subagent");
    let outer_run = (outer.chat, outer.turn);
    stage.runs_tool(outer_run, "deeper");
    let inner = stage.spawns(outer_run, "deeper", false).expect("a subagent");
    let inner_run = (inner.chat, inner.turn);
    stage.asks_permission(inner_run, "delete");
    let needed = stage.state(SESSION)["inputNeeded"].clone();
    assert_eq!(needed.as_array().map(Vec::len), Some(1));
    assert_eq!(needed[0]["chat"], &*inner.chat_uri);
    assert_eq!(stage.state(SESSION)["status"], 24 | 32, "input needed");
    let confirm = json!({
        "type": "chat/toolCallConfirmed", "turnId": needed[0]["turnId"], "toolCallId": "delete",
        "approved": true, "confirmed": "user-action"
    });
    stage.dispatch(conn, &inner.chat_uri, 1, confirm);
    let decided = stage.agent.iter().any(|effect| match effect {
        Effect::Agent(AgentCommand::Reply { chat, turn, reply }) => {
            (*chat, *turn) == inner_run
                && matches!(&**reply, Reply::Tool { call, reply: ToolReply::Decided(decision) } if call == "delete" && decision.approved)
        }
        _ => false,
    });
    assert!(decided, "{:?}", stage.agent.last());
    assert_eq!(stage.state(SESSION)["inputNeeded"].as_array().map_or(0, Vec::len), 0);
}

#[test]
fn cht12_subagents_end_with_the_turn_that_waits_for_them_at_any_depth() {
    let (mut stage, conn, chat, run) = stage();
    let outer = stage.spawns(run, "call", false).expect("a subagent");
    let outer_run = (outer.chat, outer.turn);
    stage.runs_tool(outer_run, "deeper");
    let inner = stage.spawns(outer_run, "deeper", false).expect("a subagent");
    stage.asks_permission((inner.chat, inner.turn), "delete");
    let cancel = json!({ "type": "chat/turnCancelled", "turnId": "t", "duration": 0 });
    stage.dispatch(conn, &chat, 1, cancel);
    for subagent in [&outer, &inner] {
        assert_eq!(stage.state(&subagent.chat_uri)["turns"][0]["state"], "cancelled");
    }
    assert_eq!(stage.cancelled().len(), 3);
    assert_eq!(stage.state(SESSION)["status"], 1);
    assert_eq!(stage.state(SESSION)["inputNeeded"].as_array().map_or(0, Vec::len), 0);
}

/// (CHT-25)
#[test]
fn cht24_a_detached_subagent_outlives_its_turn_and_stays_listed() {
    let (mut stage, conn, chat, run) = stage();
    let subagent = stage.spawns(run, "call", true).expect("a subagent");
    assert!(subagent.detached);
    let listed = json!([{ "kind": "subagent", "id": "call", "label": "Work of call", "startedAt": stage.now.rfc3339(), "chat": &*subagent.chat_uri }]);
    assert_eq!(stage.state(&chat)["backgroundWork"], listed);
    stage.ends_in(run, TurnEnd::Complete);
    assert_eq!(stage.state(&chat)["backgroundWork"], listed);
    assert_eq!(stage.state(SESSION)["status"], 8, "something is in progress");
    // The entry is the host's: an agent's shell work of the same name changes nothing.
    for change in [
        BackgroundChange::Remove { id: "call".into() },
        BackgroundChange::Set {
            id: "call".into(),
            label: "x".into(),
            command: "x".into(),
            terminal: None,
        },
    ] {
        stage.handle(Input::Background { chat: run.0, change });
    }
    assert_eq!(stage.state(&chat)["backgroundWork"], listed);
    stage.inbox(conn);
    stage.ends_in((subagent.chat, subagent.turn), TurnEnd::Complete);
    assert!(
        stage
            .action_types(conn)
            .contains(&"chat/backgroundWorkRemoved".to_owned())
    );
    assert_eq!(stage.state(&chat)["backgroundWork"].as_array().map_or(0, Vec::len), 0);
    assert_eq!(stage.state(SESSION)["status"], 1);
}
