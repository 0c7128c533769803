//! Clients that rewrite a system prompt, and the fields by which clients see it (SMT).

use innkeeper_core::agent::Section;
use innkeeper_core::request::CreateSession;
use innkeeper_core::{
    AgentCommand, AgentEvent, AgentProfile, ChannelId, Command, ConnId, CoreConfig, Effect, Input, OptIn, PromptPlan,
    Seq, TurnKey,
};
use serde_json::{Value, json};

use crate::harness::*;

/// The sections of every prompt here.
const PRESENT: [&str; 4] = ["identity", "tone", "guidelines", "unpublished"];

fn writer() -> AgentProfile {
    AgentProfile {
        sections: vec![
            Section::new("identity", "Identity")
                .description("Who it is.")
                .restricted(),
            Section::new("tone", "Tone"),
            Section::new("guidelines", "Guidelines"),
        ],
        ..agent("writer").into()
    }
}

fn announce(client: &str, sections: &[&str]) -> Value {
    let mut action = plain(client);
    action["activeClient"]["systemMessageTransform"] = json!({ "sections": sections });
    action
}

fn plain(client: &str) -> Value {
    json!({ "type": "session/activeClientSet", "activeClient": { "clientId": client, "tools": [] } })
}

fn stage_with(config: CoreConfig) -> (Stage, ConnId, String) {
    let mut stage = Stage::with_agents(config, vec![writer()], Seq(1));
    let conn = stage.client("c", &[]);
    let chat = stage.session(conn, SESSION);
    stage.subscribe(conn, SESSION);
    stage.subscribe(conn, &chat);
    stage.inbox(conn);
    (stage, conn, chat)
}

fn stage() -> (Stage, ConnId, String) {
    stage_with(CoreConfig::default())
}

/// Another client that listens to the session and wants to rewrite these.
fn joins(stage: &mut Stage, client: &str, sections: &[&str]) -> ConnId {
    let conn = stage.client(client, &[]);
    stage.subscribe(conn, SESSION);
    stage.accepted(conn, SESSION, announce(client, sections));
    conn
}

fn render(stage: &mut Stage, chat: ChannelId, turn: Option<TurnKey>) -> PromptPlan {
    stage.handle(Input::RenderPrompt {
        chat,
        turn,
        id: 7,
        sections: PRESENT.map(str::to_owned).to_vec(),
    });
    match stage.agent.pop() {
        Some(Effect::Agent(AgentCommand::TransformPrompt { id: 7, plan })) => *plan,
        other => panic!("not answered: {other:?}"),
    }
}

/// Renders the prompt of the turn that runs: who is asked for what.
fn asked(stage: &mut Stage) -> Option<(String, Vec<String>)> {
    let (chat, turn) = stage.run();
    let plan = render(stage, chat, Some(turn));
    let who = plan.transformer?;
    assert_eq!(&*who.session_uri, SESSION);
    Some((who.client.as_str().to_owned(), who.sections))
}

fn target(client: &str, sections: &[&str]) -> Option<(String, Vec<String>)> {
    Some((client.to_owned(), sections.iter().map(|id| (*id).to_owned()).collect()))
}

#[test]
fn smt02_smt14_smt18_only_opted_in_clients_are_asked_and_may_opt_out() {
    let (mut stage, conn, chat) = stage();
    stage.start_turn(conn, &chat, "t");
    assert_eq!(asked(&mut stage), None, "no client is active");
    stage.accepted(conn, SESSION, plain("c"));
    assert_eq!(asked(&mut stage), None, "it said nothing about prompts");
    stage.accepted(conn, SESSION, announce("c", &[]));
    assert_eq!(asked(&mut stage), None, "it wants nothing");
    stage.accepted(conn, SESSION, announce("c", &["tone"]));
    assert_eq!(asked(&mut stage), target("c", &["tone"]));
    stage.accepted(conn, SESSION, plain("c"));
    assert_eq!(asked(&mut stage), None, "it changed its mind");
}

#[test]
fn smt03_smt12_smt13_a_client_gets_only_named_open_sections() {
    let (mut stage, conn, chat) = stage();
    stage.start_turn(conn, &chat, "t");
    let named = ["unpublished", "identity", "safety", "of_tomorrow", "tone", "tone"];
    stage.accepted(conn, SESSION, announce("c", &named));
    assert_eq!(asked(&mut stage), target("c", &["tone", "unpublished"]));
    stage.accepted(conn, SESSION, announce("c", &["identity", "of_tomorrow"]));
    assert_eq!(asked(&mut stage), None, "SMT-05: nothing is left to ask for");
    let (chat, turn) = stage.run();
    assert_eq!(render(&mut stage, chat, Some(turn)).restricted, ["identity"]);
}

#[test]
fn smt12_restrictions_of_the_operator_replace_those_of_the_agent() {
    let config = CoreConfig {
        restricted_sections: Some(vec!["tone".to_owned(), "unpublished".to_owned()]),
        ..CoreConfig::default()
    };
    let (mut stage, conn, chat) = stage_with(config);
    stage.start_turn(conn, &chat, "t");
    stage.accepted(conn, SESSION, announce("c", &PRESENT));
    assert_eq!(asked(&mut stage), target("c", &["identity", "guidelines"]));
    let sections = &stage.state(ROOT)["agents"][0]["systemMessageSections"];
    assert_eq!(sections[0].get("restricted"), None);
    assert_eq!(sections[1]["restricted"], true);
}

#[test]
fn smt05_the_starter_of_the_turn_rewrites_or_else_the_newest_client() {
    let (mut stage, conn, chat) = stage();
    let second = joins(&mut stage, "d", &["tone"]);
    joins(&mut stage, "e", &["guidelines"]);
    stage.start_turn(conn, &chat, "t1");
    assert_eq!(
        asked(&mut stage),
        target("e", &["guidelines"]),
        "the starter did not opt in"
    );
    stage.accepted(conn, SESSION, announce("c", &["tone", "guidelines"]));
    assert_eq!(asked(&mut stage), target("c", &["tone", "guidelines"]), "now it did");
    stage.says(AgentEvent::Text("done".to_owned()));
    stage.ends(innkeeper_core::TurnEnd::Complete);
    stage.start_turn(second, &chat, "t2");
    assert_eq!(
        asked(&mut stage),
        target("d", &["tone"]),
        "another turn, another starter"
    );
}

#[test]
fn smt06_an_opening_chat_is_rewritten_by_the_newest_client() {
    let (mut stage, conn, _) = stage();
    stage.accepted(conn, SESSION, announce("c", &["tone"]));
    joins(&mut stage, "d", &["guidelines"]);
    let opened = stage.agent.iter().find_map(|effect| match effect {
        Effect::Agent(AgentCommand::OpenChat(open)) => Some(open.chat),
        _ => None,
    });
    let plan = render(&mut stage, opened.expect("opened"), None);
    assert_eq!(plan.transformer.expect("a transformer").client.as_str(), "d");
}

#[test]
fn smt08_a_client_without_a_connection_delays_no_turn() {
    let (mut stage, conn, chat) = stage();
    stage.accepted(conn, SESSION, announce("c", &["tone"]));
    let other = joins(&mut stage, "d", &["guidelines"]);
    stage.start_turn(other, &chat, "t");
    assert_eq!(asked(&mut stage), target("d", &["guidelines"]));
    stage.disconnect(other);
    let members = stage.state(SESSION)["activeClients"].as_array().map(Vec::len);
    assert_eq!(members, Some(2), "it is in its grace");
    assert_eq!(asked(&mut stage), target("c", &["tone"]));
    let again = stage.connect();
    stage.reconnect(again, "d", u64::MAX >> 12, &[SESSION]);
    assert_eq!(asked(&mut stage), target("d", &["guidelines"]));
}

#[test]
fn smt05_a_turn_that_is_over_is_not_rendered() {
    let (mut stage, conn, chat) = stage();
    stage.accepted(conn, SESSION, announce("c", &["tone"]));
    stage.start_turn(conn, &chat, "t");
    let (chat, turn) = stage.run();
    stage.ends(innkeeper_core::TurnEnd::Complete);
    assert_eq!(render(&mut stage, chat, Some(turn)), PromptPlan::default());
    assert_eq!(render(&mut stage, ChannelId(999), None), PromptPlan::default());
}

#[test]
fn smt15_the_requested_sections_are_bounded() {
    let config = CoreConfig {
        max_transform_sections: 2,
        ..CoreConfig::default()
    };
    let (mut stage, conn, _) = stage_with(config);
    stage.accepted(conn, SESSION, announce("c", &["a", "b", "a"]));
    let reason = stage.refused(conn, SESSION, announce("c", &["a", "b", "c"]));
    assert_eq!(
        reason,
        "activeClient.systemMessageTransform.sections: a client names at most 2 sections"
    );
    let create = CreateSession {
        active_client: serde_json::from_value(json!({ "clientId": "c", "tools": [] })).ok(),
        opt_in: Some(OptIn {
            sections: vec!["a".to_owned(), "b".to_owned(), "c".to_owned()],
        }),
        ..new_session("ahp-session:/two")
    };
    let answer = stage.request(conn, Command::CreateSession(Box::new(create)));
    let message = answer["error"]["message"].as_str().expect("refused");
    assert!(message.contains("systemMessageTransform.sections"), "{message}");
}

#[test]
fn smt02_a_malformed_opt_in_is_refused_by_the_name_of_its_field() {
    let (mut stage, conn, _) = stage();
    let mut action = plain("c");
    action["activeClient"]["systemMessageTransform"] = json!({ "sections": ["tone", 5] });
    let reason = stage.refused(conn, SESSION, action);
    assert!(
        reason.starts_with("malformed action: action.activeClient.systemMessageTransform.sections[1]: "),
        "{reason}"
    );
    assert_eq!(stage.state(SESSION)["activeClients"], json!([]));
}

#[test]
fn smt17_an_opt_in_is_published_until_its_client_leaves() {
    let (mut stage, conn, _) = stage();
    let watcher = stage.client("w", &[]);
    stage.subscribe(watcher, SESSION);
    let seen = stage.core.seq().0;
    stage.dispatch(conn, SESSION, 1, announce("c", &["tone", "x", "tone"]));
    let opt_in = json!({ "sections": ["tone", "x"] });
    for who in [conn, watcher] {
        let echo = stage.actions(who).remove(0);
        assert_eq!(
            echo["action"]["activeClient"]["systemMessageTransform"], opt_in,
            "{echo}"
        );
        assert_eq!(echo["action"]["type"], "session/activeClientSet");
    }
    let entry = json!({ "clientId": "c", "tools": [], "systemMessageTransform": opt_in });
    assert_eq!(stage.state(SESSION)["activeClients"], json!([entry]));
    stage.disconnect(watcher);
    let again = stage.connect();
    let replay = stage.reconnect(again, "w", seen, &[SESSION]);
    let replayed = &replay["result"]["actions"][0]["action"]["activeClient"];
    assert_eq!(replayed["systemMessageTransform"], opt_in, "{replay}");

    stage.inbox(again);
    stage.dispatch(conn, SESSION, 2, announce("c", &["tone", "x"]));
    let echo = stage.actions(conn).remove(0);
    assert_eq!(echo["action"]["activeClient"]["systemMessageTransform"], opt_in);
    assert!(stage.inbox(again).is_empty(), "DSP-15: nothing changed");
    stage.dispatch(conn, SESSION, 3, announce("c", &["tone"]));
    assert_eq!(
        stage.action_types(again),
        ["session/activeClientSet"],
        "only the opt-in changed"
    );

    let remove = json!({ "type": "session/activeClientRemoved", "clientId": "c" });
    stage.accepted(conn, SESSION, remove);
    stage.accepted(conn, SESSION, plain("c"));
    let entry = &stage.state(SESSION)["activeClients"][0];
    assert_eq!(entry.get("systemMessageTransform"), None, "it went with its client");
}

#[test]
fn smt19_an_opt_in_may_come_with_the_session() {
    let (mut stage, conn, _) = stage();
    let create = CreateSession {
        active_client: serde_json::from_value(json!({ "clientId": "c", "tools": [] })).ok(),
        opt_in: Some(OptIn {
            sections: vec!["tone".to_owned()],
        }),
        ..new_session("ahp-session:/two")
    };
    let answer = stage.request(conn, Command::CreateSession(Box::new(create)));
    assert_eq!(answer["result"], Value::Null, "{answer}");
    let opened = stage.agent.iter().rev().find_map(|effect| match effect {
        Effect::Agent(AgentCommand::OpenChat(open)) => Some(open.chat),
        _ => None,
    });
    let plan = render(&mut stage, opened.expect("opened"), None);
    assert_eq!(plan.transformer.expect("its creator").sections, ["tone"]);
    let entry = &stage.state("ahp-session:/two")["activeClients"][0];
    assert_eq!(entry["systemMessageTransform"], json!({ "sections": ["tone"] }));
}

#[test]
fn smt11_agents_publish_their_sections_and_changes_of_them() {
    let mut stage = Stage::with_agents(CoreConfig::default(), vec![writer()], Seq(1));
    let conn = stage.connect();
    let answer = stage.initialize(conn, "c", &["1.0.0"], &[ROOT]);
    let published = json!([
        { "id": "identity", "label": "Identity", "description": "Who it is.", "restricted": true },
        { "id": "tone", "label": "Tone" },
        { "id": "guidelines", "label": "Guidelines" },
    ]);
    let agent = &answer["result"]["snapshots"][0]["state"]["agents"][0];
    assert_eq!(agent["systemMessageSections"], published);
    let mut changed = writer();
    changed.sections.truncate(1);
    stage.inbox(conn);
    stage.handle(Input::AgentsChanged(vec![changed]));
    let echo = stage.actions(conn).remove(0);
    let agent = &echo["action"]["agents"][0];
    assert_eq!(
        agent["systemMessageSections"].as_array().map(Vec::len),
        Some(1),
        "{echo}"
    );
    assert_eq!(stage.state(ROOT)["agents"][0], *agent);
}
