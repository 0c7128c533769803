//! Mixed company: clients of different versions in one session see the same conversation and do the same things.

use innkeeper_compat::client::CompatClient;
use innkeeper_compat::version::Version;
use innkeeper_compat::words::{Uris, answer_text, conversation, tool_calls};
use innkeeper_testkit::process::HostProcess;
use serde_json::{Value, json};

use crate::start;

/// The members of the session, with their names for it.
struct Company {
    _host: HostProcess,
    clients: Vec<(CompatClient, Uris)>,
}

impl Company {
    /// The first version creates the session, the others join it.
    async fn of(versions: &[Version]) -> Self {
        let host = start().await;
        let url = host.address().url_with_token();
        let mut clients: Vec<(CompatClient, Uris)> = Vec::new();
        for version in versions {
            let client = CompatClient::connect(&url, *version, &format!("guest-{}", version.number())).await;
            let uris = match clients.first() {
                None => client.create_session("company", json!({})).await,
                Some((_, uris)) => client.join(&uris.session).await,
            };
            clients.push((client, uris));
        }
        Self { _host: host, clients }
    }

    fn of_version(&self, version: Version) -> (&CompatClient, &Uris) {
        let found = self.clients.iter().find(|(client, _)| client.version == version);
        found.map(|(client, uris)| (client, uris)).expect("a member")
    }

    /// Waits until every member has seen the turn end, and compares the conversations and the folds.
    async fn agrees_after(&self, turn: &str, step: &str) -> Value {
        let mut shown: Option<(String, Vec<Value>)> = None;
        let mut ended = Value::Null;
        for (client, uris) in &self.clients {
            ended = client.turn_end(uris, turn).await;
            client.assert_converged(step).await;
            let seen = conversation(client.version, &client.state(&uris.chat));
            match &shown {
                None => shown = Some((client.name(), seen)),
                Some((name, first)) => assert_eq!(&seen, first, "{} and {name} after {step}", client.name()),
            }
        }
        ended
    }
}

const OLD_AND_NEW: [Version; 4] = [Version::V0_2, Version::V0_5_2, Version::V0_9, Version::V1_0];

#[tokio::test]
async fn every_member_talks_and_all_see_the_same() {
    let company = Company::of(&Version::ALL).await;
    for (number, (client, uris)) in company.clients.iter().enumerate() {
        let turn = format!("t{number}");
        client.start_turn(uris, &turn, "/stream 5 1 16").await;
        company
            .agrees_after(&turn, &format!("a turn of {}", client.name()))
            .await;
    }
}

#[tokio::test]
async fn any_member_approves_and_answers_for_any_other() {
    let company = Company::of(&OLD_AND_NEW).await;
    let mut number = 0;
    for starter in OLD_AND_NEW {
        for decider in OLD_AND_NEW {
            number += 1;
            let turn = format!("t{number}");
            let (client, uris) = company.of_version(starter);
            client.start_turn(uris, &turn, "/confirm").await;
            let (client, uris) = company.of_version(decider);
            let call = client.call_in(uris, "pending-confirmation").await;
            let decision = match number % 3 == 0 {
                true => json!({ "approved": false, "reason": "denied", "reasonMessage": "not now" }),
                false => json!({ "approved": true, "confirmed": "user-action" }),
            };
            client
                .about_call(uris, &turn, &call, "toolCallConfirmed", decision)
                .await;
            let ended = company
                .agrees_after(&turn, &format!("{starter:?} asks, {decider:?} decides"))
                .await;
            let status = if number % 3 == 0 { "cancelled" } else { "completed" };
            assert_eq!(tool_calls(&ended)[0]["status"], status);
        }
    }
    for (index, answerer) in OLD_AND_NEW.into_iter().enumerate() {
        let turn = format!("q{index}");
        let (client, uris) = company.of_version(OLD_AND_NEW[(index + 1) % OLD_AND_NEW.len()]);
        client.start_turn(uris, &turn, "/ask").await;
        let (client, uris) = company.of_version(answerer);
        let request = client.question(uris).await;
        let name = json!({ "state": "submitted", "value": { "kind": "text", "value": "Ada" } });
        let kind = client.version.of_chat("inputCompleted");
        let completed =
            json!({ "type": kind, "requestId": request["id"], "response": "accept", "answers": { "name": name } });
        client.dispatch(&uris.chat, completed).await;
        let ended = company.agrees_after(&turn, &format!("{answerer:?} answers")).await;
        assert!(answer_text(&ended).contains("name: Ada"), "{ended}");
    }
}

#[tokio::test]
async fn any_member_steers_queues_cancels_and_truncates() {
    let company = Company::of(&OLD_AND_NEW).await;
    for (index, version) in OLD_AND_NEW.into_iter().enumerate() {
        let (starter, theirs) = company.of_version(OLD_AND_NEW[(index + 1) % OLD_AND_NEW.len()]);
        let (client, uris) = company.of_version(version);
        let turn = format!("steered-{index}");
        starter.start_turn(theirs, &turn, "/steer 10").await;
        client
            .until("the turn runs", |view| {
                view.states[&uris.chat]["activeTurn"]["id"] == turn.as_str()
            })
            .await;
        client
            .dispatch(&uris.chat, version.pending("steering", "s", "enough"))
            .await;
        let ended = company.agrees_after(&turn, "steering").await;
        assert!(answer_text(&ended).contains("You said: enough"), "{ended}");

        let turn = format!("cancelled-{index}");
        starter.start_turn(theirs, &turn, "/slow 30").await;
        client
            .until("the turn runs", |view| {
                view.states[&uris.chat]["activeTurn"]["id"] == turn.as_str()
            })
            .await;
        client.dispatch(&uris.chat, version.turn_cancelled(&turn)).await;
        let ended = company.agrees_after(&turn, "a cancelled turn").await;
        assert_eq!(ended["state"], "cancelled");
        client
            .dispatch(
                &uris.chat,
                json!({ "type": version.of_chat("truncated"), "turnId": format!("steered-{index}") }),
            )
            .await;
        for (client, uris) in &company.clients {
            client
                .until("the turn is gone", |view| {
                    let turns = view.states[&uris.chat]["turns"].as_array().cloned().unwrap_or_default();
                    turns.iter().all(|ended| ended["id"] != turn.as_str())
                })
                .await;
            client.assert_converged("truncation").await;
        }
    }
}

#[tokio::test]
async fn a_tool_of_each_member_runs_for_a_turn_of_each_other() {
    let company = Company::of(&OLD_AND_NEW).await;
    for (index, version) in OLD_AND_NEW.into_iter().enumerate() {
        let (client, uris) = company.of_version(version);
        let tool = format!("tool_{index}");
        let entry = version.active_client(&client.id, &[&tool]);
        client.dispatch(&uris.session, version.activated(entry)).await;
        client.caught_up().await;
    }
    for (index, owner) in OLD_AND_NEW.into_iter().enumerate() {
        for starter in OLD_AND_NEW {
            let turn = format!("t-{index}-{starter:?}");
            let (client, uris) = company.of_version(starter);
            client
                .start_turn(uris, &turn, &format!("/client-tool tool_{index} {{\"x\": 1}}"))
                .await;
            let (client, uris) = company.of_version(owner);
            let call = client.call_in(uris, "running").await;
            let result = json!({
                "result": {
                    "success": true, "pastTenseMessage": "Did it",
                    "content": [{ "type": "text", "text": format!("done by {owner:?}") }],
                }
            });
            client.about_call(uris, &turn, &call, "toolCallComplete", result).await;
            let ended = company
                .agrees_after(&turn, &format!("a tool of {owner:?} for {starter:?}"))
                .await;
            assert!(answer_text(&ended).contains(&format!("done by {owner:?}")), "{ended}");
        }
    }
}
