//! A silent agent gets a notice, and later its turn ends.

use innkeeper_core::agent::ToolStep;
use innkeeper_core::{AgentCommand, AgentEvent, CoreConfig, Effect, TurnEnd};
use serde_json::Value;

use crate::harness::working_agent::*;
use crate::harness::*;

const MINUTE: u64 = 60_000;

fn activity(stage: &Stage, chat: &str) -> Option<String> {
    stage.state(chat)["activity"].as_str().map(str::to_owned)
}

#[test]
fn a_silent_turn_says_so_and_is_ended_in_the_end() {
    let (mut stage, conn, chat) = working();
    stage.pass(MINUTE - 1);
    assert_eq!(activity(&stage, &chat), None);
    stage.pass(1);
    assert_eq!(
        activity(&stage, &chat).as_deref(),
        Some("No response from the agent for 60 s")
    );
    stage.pass(4 * MINUTE);
    assert_eq!(
        activity(&stage, &chat).as_deref(),
        Some("No response from the agent for 5 min")
    );
    assert!(
        stage.action_types(conn).contains(&"session/chatUpdated".to_owned()),
        "the session shows it too"
    );
    stage.pass(25 * MINUTE);
    let state = stage.state(&chat);
    let error = &state["turns"][0]["responseParts"][0]["error"];
    assert_eq!(error["errorType"], "agentSilent");
    assert!(
        error["message"]
            .as_str()
            .expect("words")
            .contains("said nothing for 30 min")
    );
    assert_eq!(activity(&stage, &chat), None);
    assert!(
        stage
            .agent
            .iter()
            .any(|effect| matches!(effect, Effect::Agent(AgentCommand::CancelTurn { .. })))
    );
}

#[test]
fn an_agent_that_speaks_again_gets_its_own_activity_back() {
    let (mut stage, _, chat) = working();
    stage.says(AgentEvent::Activity(Some("Reading".into())));
    stage.pass(2 * MINUTE);
    assert!(activity(&stage, &chat).expect("words").starts_with("No response"));
    stage.says(AgentEvent::Alive);
    assert_eq!(activity(&stage, &chat).as_deref(), Some("Reading"));
    stage.pass(29 * MINUTE);
    stage.says(AgentEvent::Text("here I am".into()));
    stage.pass(29 * MINUTE);
    assert_ne!(
        stage.state(&chat)["activeTurn"],
        Value::Null,
        "the clock starts again with every word"
    );
}

#[test]
fn waiting_for_a_user_is_not_silence() {
    let (mut stage, conn, chat) = working();
    stage.call(host_tool("run"), risky());
    stage.pass(600 * MINUTE);
    assert_eq!(stage.call_state(&chat, CALL)["status"], "pending-confirmation");
    assert_eq!(activity(&stage, &chat), None);
    stage.accepted(conn, &chat, decide(true, None));
    stage.pass(MINUTE / 2);
    assert_eq!(activity(&stage, &chat), None, "the agent's time starts with the answer");
    stage.pass(31 * MINUTE);
    assert_eq!(stage.state(&chat)["turns"][0]["state"], "error");
}

#[test]
fn the_watchdog_can_be_switched_off_and_leaves_no_timer_behind() {
    let (mut stage, _, chat) = working_with(CoreConfig {
        silence_notice_ms: 0,
        silence_limit_ms: 0,
        ..CoreConfig::default()
    });
    stage.pass(10_000 * MINUTE);
    assert_eq!(activity(&stage, &chat), None);
    assert_ne!(stage.state(&chat)["activeTurn"], Value::Null);
    let (mut stage, conn, chat) = working();
    stage.ends(TurnEnd::Complete);
    stage.pass(120 * MINUTE);
    assert_eq!(stage.core.next_deadline(), None, "nothing runs, nothing is due");
    stage.start_turn(conn, &chat, "t2");
    stage.tool(CALL, ToolStep::Start(host_tool("run")));
    stage.pass(MINUTE);
    assert!(
        activity(&stage, &chat).is_some(),
        "the next turn is looked after as well"
    );
}

#[test]
fn the_agents_timeout_starts_with_the_answer_without_earlier_output() {
    let (mut stage, conn, chat) = working_with(CoreConfig {
        silence_notice_ms: 0,
        silence_limit_ms: 30 * MINUTE,
        ..CoreConfig::default()
    });
    stage.call(host_tool("run"), risky());
    stage.pass(30 * MINUTE - 1);
    stage.accepted(conn, &chat, decide(true, None));
    stage.pass(29 * MINUTE);
    assert_ne!(
        stage.state(&chat)["activeTurn"],
        Value::Null,
        "the user took the time, not the agent"
    );
    stage.pass(2 * MINUTE);
    assert_eq!(stage.state(&chat)["turns"][0]["state"], "error");
}

#[test]
fn the_agents_time_starts_again_when_its_subagent_is_done() {
    let (mut stage, _, chat) = working();
    stage.call(host_tool("task"), harmless());
    let run = stage.run();
    let subagent = stage.spawns(run, CALL, false).expect("a subagent");
    for _ in 0..3 {
        stage.pass(29 * MINUTE + MINUTE / 2);
        let (chat, turn, event) = (subagent.chat, subagent.turn, AgentEvent::Alive);
        stage.handle(innkeeper_core::Input::Agent { chat, turn, event });
    }
    stage.pass(MINUTE / 2);
    stage.ends_in((subagent.chat, subagent.turn), TurnEnd::Complete);
    stage.pass(29 * MINUTE + MINUTE / 2);
    assert_ne!(
        stage.state(&chat)["activeTurn"],
        Value::Null,
        "not half an hour of its own"
    );
    stage.pass(MINUTE);
    assert_eq!(stage.state(&chat)["turns"][0]["state"], "error");
}
