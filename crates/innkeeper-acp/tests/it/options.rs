//! Modes and options of sessions: each session has its own, and the value that clients see is the one that counts.

use innkeeper_acp::AcpAgent;
use innkeeper_host::{Agent as _, Host};
use innkeeper_testkit::official::{OfficialClient, SessionUris, View, markdown};
use serde_json::{Value, json};

use crate::support::{Agency, Stage, notices, until, uri};

/// A stage whose host knows the options of the agent, and a session with them.
async fn with_options(agency: &Agency) -> (Stage, SessionUris) {
    let agent = AcpAgent::new(agency.settings());
    let mut changes = agent.changes();
    let stage = agency.open_with(Host::builder().agent(agent)).await;
    assert_eq!(stage.words("t1", "say hi").await, "hi");
    changes.changed().await.expect("the agent told about itself");
    let uris = next_session(&stage, agency, "second").await;
    (stage, uris)
}

async fn next_session(stage: &Stage, agency: &Agency, name: &str) -> SessionUris {
    stage.running.handle().refresh_agents().await;
    stage.client.create_session_in(name, &uri(&agency.work())).await
}

fn mode(client: &OfficialClient, session: &str) -> Value {
    let config = client.session(session).config.expect("a configuration");
    config.values.get("mode").cloned().unwrap_or_default()
}

async fn choose(stage: &Stage, uris: &SessionUris, mode: &str) {
    let change = json!({ "type": "session/configChanged", "config": { "mode": mode } });
    stage.client.dispatch(&uris.session, change).await;
}

async fn until_mode(stage: &Stage, uris: &SessionUris, mode: &str) {
    let has_mode = |view: &View| {
        let config = view.session(&uris.session).and_then(|session| session.config.clone());
        config.is_some_and(|config| config.values.get("mode") == Some(&json!(mode)))
    };
    stage.client.until("the mode", has_mode).await;
}

async fn words(stage: &Stage, uris: &SessionUris, id: &str, text: &str) -> String {
    markdown(&stage.client.run_turn(&uris.chat, id, text).await.response_parts)
}

#[tokio::test]
async fn a_mode_of_one_session_is_not_the_default_of_others() {
    let agency = Agency::new("");
    let (stage, first) = with_options(&agency).await;
    assert_eq!(mode(&stage.client, &first.session), "ask");
    choose(&stage, &first, "code").await;
    assert_eq!(words(&stage, &first, "a1", "mode").await, "code");
    let second = next_session(&stage, &agency, "third").await;
    assert_eq!(mode(&stage.client, &second.session), "ask");
    assert_eq!(words(&stage, &second, "b1", "mode").await, "ask");
    // The same holds after a restart of the host, which knows the options from a file.
    let next = AcpAgent::new(agency.settings());
    assert_eq!(next.learned().options[0].default, "small");
    let info = format!("{:?}", next.info());
    assert!(info.contains(r#"default: Some(String("ask"))"#), "{info}");
    assert!(!info.contains(r#"default: Some(String("code"))"#), "{info}");
}

#[tokio::test]
async fn a_mode_that_the_agent_takes_between_turns_is_shown_and_stays() {
    let agency = Agency::new("");
    let (stage, uris) = with_options(&agency).await;
    assert_eq!(words(&stage, &uris, "a1", "later-mode code").await, "");
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    assert_eq!(words(&stage, &uris, "a2", "mode").await, "code");
    until_mode(&stage, &uris, "code").await;
    assert_eq!(words(&stage, &uris, "a3", "mode").await, "code");
    stage.client.assert_converged().await;
}

/// The agent gets the conversation with its next prompt, also when the turn that restored it was cancelled before.
#[tokio::test]
async fn a_cancel_before_the_prompt_loses_no_conversation() {
    let agency = Agency::new("slow-mode");
    let (stage, uris) = with_options(&agency).await;
    assert_eq!(words(&stage, &uris, "a1", "say one").await, "one");
    stage.client.run_turn(&uris.chat, "a2", "die").await;
    choose(&stage, &uris, "code").await;
    stage.client.start_turn(&uris.chat, "a3", "say never").await;
    until("the mode is being set", || agency.noted("setting").len() == 1).await;
    stage.client.cancel_turn(&uris.chat, "a3").await;
    stage.client.turn_end(&uris.chat, "a3").await;
    assert_eq!(words(&stage, &uris, "a4", "recall").await, "0 messages, told 2: ");
}

#[tokio::test]
async fn a_mode_that_the_agent_refuses_is_not_shown_as_chosen() {
    let agency = Agency::new("stubborn");
    let (stage, uris) = with_options(&agency).await;
    for id in ["a1", "a2"] {
        choose(&stage, &uris, "code").await;
        let turn = stage.client.run_turn(&uris.chat, id, "mode").await;
        assert_eq!(markdown(&turn.response_parts), "ask");
        assert!(notices(&turn).contains("not in this session"), "{turn:?}");
        until_mode(&stage, &uris, "ask").await;
    }
}
