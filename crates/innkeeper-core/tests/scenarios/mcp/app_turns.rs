//! Turns for requests of apps that a model answers (MCP-15).

use innkeeper_core::mcp::AppTurn;
use innkeeper_core::{AgentProfile, was_heard};

use super::*;

impl Stage {
    fn app_asks(&mut self, request: &str) {
        let session = self.wanted_servers().expect("something is wanted").0;
        self.handle(Input::AppTurn {
            session,
            server: "top".to_owned(),
            request: request.to_owned(),
            asked_by: None,
        });
    }

    /// The outcome of the latest request that got no turn of its own.
    fn app_outcome(&self) -> Option<(String, AppTurn)> {
        self.agent.iter().rev().find_map(|effect| match effect {
            Effect::Agent(AgentCommand::ResolveAppRequest { request, outcome }) => {
                Some((request.clone(), outcome.clone()))
            }
            _ => None,
        })
    }

    fn last_start(&self) -> Option<Option<String>> {
        self.agent.iter().rev().find_map(|effect| match effect {
            Effect::Agent(AgentCommand::StartTurn { start, .. }) => Some(start.app_request.clone()),
            _ => None,
        })
    }
}

#[test]
fn mcp15_a_request_of_an_app_gets_a_turn_that_agents_are_not_told_of() {
    let (mut stage, conn, chat) = Stage::serving(two_servers());
    for id in ["top", "inner"] {
        stage.does(id, ready());
    }
    stage.inbox(conn);
    stage.app_asks("r1");
    assert_eq!(stage.last_start(), Some(Some("r1".to_owned())));
    let started = stage.actions(conn);
    let started = started
        .iter()
        .find(|envelope| envelope["channel"] == chat && envelope["action"]["type"] == "chat/turnStarted")
        .expect("every client sees it");
    let message = &started["action"]["message"];
    assert_eq!(message["origin"]["kind"], "tool");
    assert!(
        message["text"].as_str().is_some_and(|text| text.contains("\"top\"")),
        "{message}"
    );
    let turn = json!({
        "id": "t", "message": message, "responseParts": [], "state": "complete",
        "startedAt": "2026-01-01T00:00:00Z", "duration": 0,
    });
    let turn = serde_json::from_value(turn).expect("a turn");
    assert!(!was_heard(&turn), "it is no part of the conversation");

    // Another one joins the turn that runs.
    stage.app_asks("r2");
    let (request, outcome) = stage.app_outcome().expect("an outcome");
    assert_eq!(request, "r2");
    assert!(matches!(outcome, AppTurn::Joins { .. }), "{outcome:?}");
}

#[test]
fn mcp15_sampling_is_offered_where_the_agent_of_the_session_has_a_model() {
    let (mut stage, _, _) = Stage::serving(two_servers());
    let apps = AppCapabilities {
        tools: Some(false),
        ..AppCapabilities::default()
    };
    stage.does("top", ServerStatus::Ready { apps: Some(apps) });
    let capabilities = |stage: &Stage, id: &str| stage.server(id)["mcpApp"]["capabilities"].clone();
    assert_eq!(
        capabilities(&stage, "top"),
        json!({ "serverTools": {} }),
        "this one has none"
    );
    let writer = AgentProfile {
        writes_for_apps: true,
        ..able("tour")
    };
    stage.handle(Input::AgentsChanged(vec![writer]));
    stage.does("inner", ServerStatus::Ready { apps: Some(apps) });
    assert_eq!(
        capabilities(&stage, "inner"),
        json!({ "serverTools": {}, "sampling": {} })
    );
}
