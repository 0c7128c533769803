//! Agents that need a key, and clients that have one (AUTH), through the published client.

use std::sync::{Arc, Mutex};

use ahp::{ClientError, SubscriptionEvent};
use ahp_types::messages::JsonRpcError;
use ahp_types::notifications::{AuthRequiredParams, AuthRequiredReason};
use ahp_types::state::{ErrorResponsePart, ResponsePart, TurnState};
use innkeeper_host::agent::{ModelInfo, ProtectedResource, Secret, SubagentSpec, ToolResult};
use innkeeper_host::journal::{CrashSurvivors, JournalError, MemoryJournal};
use innkeeper_host::{
    Agent, AgentChat, AgentError, AgentInfo, ChatContext, EventSink, Host, HostBuilder, TurnInput, async_trait,
};
use innkeeper_testkit::embedded::Running;
use innkeeper_testkit::official::{OfficialClient, View, markdown, queued};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

const API: &str = "https://api.example.com/v1";
const MINE: &str = "sk-mine-0123456789";
const YOURS: &str = "sk-yours-9876543210";

/// Needs a key, and tells which one it got without telling the key.
#[derive(Clone)]
struct Keyed {
    info: Arc<Mutex<AgentInfo>>,
}

impl Keyed {
    fn new(resource: ProtectedResource) -> Self {
        let info = AgentInfo::new("keyed", "Keyed", "Needs a key.")
            .with_resume()
            .with_protected_resource(resource);
        Self {
            info: Arc::new(Mutex::new(info)),
        }
    }
}

fn api() -> ProtectedResource {
    ProtectedResource::new(API)
        .name("Example API")
        .documentation("https://example.com/keys")
        .scopes(["chat"])
}

/// The first four characters of a key's hash.
fn print_of(key: &str) -> String {
    let hash = Sha256::digest(key.as_bytes());
    hash.iter().take(2).map(|byte| format!("{byte:02x}")).collect()
}

fn shown(token: Option<Secret>) -> String {
    token.map_or_else(|| "none".to_owned(), |token| print_of(token.reveal()))
}

#[async_trait]
impl Agent for Keyed {
    fn info(&self) -> AgentInfo {
        self.info.lock().expect("no panic").clone()
    }

    async fn open_chat(&self, cx: ChatContext) -> Result<Box<dyn AgentChat>, AgentError> {
        let opened_with = shown(cx.token(API));
        Ok(Box::new(KeyedChat { opened_with }))
    }
}

struct KeyedChat {
    opened_with: String,
}

#[async_trait]
impl AgentChat for KeyedChat {
    async fn run_turn(&mut self, turn: TurnInput, events: EventSink) -> Result<(), AgentError> {
        let key = shown(turn.token(API));
        match &*turn.text {
            "opened" => events.text(&self.opened_with).await,
            "subagent" => {
                let mut call = events.tool("send").start().await?.run("Sends").await?;
                let subagent = call.subagent(SubagentSpec::new("Subagent", "Use the key")).await?;
                subagent.drive(|below| async move { below.text(key).await }).await?;
                call.complete(ToolResult::text("Sent", "done")).await
            }
            "refused" => {
                if let Some(token) = turn.token(API) {
                    events.token_refused(API, &token).await?;
                }
                Err(AgentError::resumable("keyRefused", "the API does not accept the key"))
            }
            "scopes" => {
                let scopes = turn.credential(API).and_then(|credential| credential.scopes.clone());
                events.text(scopes.unwrap_or_default().join(" ")).await
            }
            _ => events.text(key).await,
        }
    }
}

fn host() -> HostBuilder {
    Host::builder().agent(Keyed::new(api()))
}

async fn connect(running: &Running, name: &str) -> OfficialClient {
    OfficialClient::connect(&running.address, name).await
}

async fn sign_in(client: &OfficialClient, token: &str) {
    let params = json!({ "channel": "ahp-root://", "resource": API, "token": token });
    let answer: Value = client.request("authenticate", params).await.expect("taken");
    assert_eq!(answer, json!({}));
}

fn refused<T: std::fmt::Debug>(answer: Result<T, ClientError>) -> JsonRpcError {
    match answer {
        Err(ClientError::Rpc(error)) => error,
        other => panic!("not refused: {other:?}"),
    }
}

async fn is_ready(running: &Running, ready: bool) {
    while running.handle().is_ready() != ready {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

/// Returns the `auth/required` notifications that a client got.
fn asked(view: &View) -> Vec<AuthRequiredParams> {
    let asked = view.notifications.iter().filter_map(|event| match event {
        SubscriptionEvent::AuthRequired(params) => Some(params.clone()),
        _ => None,
    });
    asked.collect()
}

async fn is_asked(client: &OfficialClient, channel: &str, reason: AuthRequiredReason) {
    client
        .until("it is asked to sign in", |view| !asked(view).is_empty())
        .await;
    let params = asked(&client.view()).pop().expect("it was just there");
    assert_eq!((&*params.channel, params.reason), (channel, Some(reason)));
    assert_eq!(params.resource.resource_name.as_deref(), Some("Example API"));
}

fn error_of(parts: &[ResponsePart]) -> &ErrorResponsePart {
    match parts.last() {
        Some(ResponsePart::Error(error)) => error,
        other => panic!("not an error: {other:?}"),
    }
}

async fn says(client: &OfficialClient, chat: &str, turn: &str, text: &str) -> String {
    let turn = client.run_turn(chat, turn, text).await;
    assert_eq!(turn.state, TurnState::Complete, "{turn:?}");
    markdown(&turn.response_parts)
}

#[tokio::test]
async fn auth02_an_agent_names_its_protected_resource_as_in_rfc_9728() {
    let optional = ProtectedResource::new("https://other.example/")
        .authorization_server("https://login.example/")
        .policy("https://other.example/policy")
        .terms("https://other.example/terms")
        .with(|metadata| metadata.jwks_uri = Some("https://other.example/jwks".to_owned()))
        .optional();
    let agent = Keyed::new(api());
    let both = agent.info().with_protected_resource(optional);
    *agent.info.lock().expect("no panic") = both;
    let running = Running::start(Host::builder().agent(agent)).await;
    let client = connect(&running, "first").await;
    let params = json!({ "channel": "ahp-root://" });
    let root: Value = client.request("subscribe", params).await.expect("subscribed");
    assert_eq!(
        root["snapshot"]["state"]["agents"][0]["protectedResources"],
        json!([
            {
                "resource": API, "resource_name": "Example API", "scopes_supported": ["chat"],
                "resource_documentation": "https://example.com/keys", "required": true,
            },
            {
                "resource": "https://other.example/", "authorization_servers": ["https://login.example/"],
                "jwks_uri": "https://other.example/jwks", "resource_policy_uri": "https://other.example/policy",
                "resource_tos_uri": "https://other.example/terms", "required": false,
            },
        ])
    );
    client.assert_converged().await;
}

#[tokio::test]
async fn ses05_auth09_a_session_without_a_token_starts_its_turn_after_a_sign_in() {
    let running = Running::start(host()).await;
    let client = connect(&running, "first").await;
    let uris = client.create_session("one").await;
    is_asked(&client, "ahp-root://", AuthRequiredReason::Required).await;
    let turn = client.run_turn(&uris.chat, "t1", "which?").await;
    assert_eq!(turn.state, TurnState::Error);
    let part = error_of(&turn.response_parts);
    assert_eq!((&*part.error.error_type, part.resumable), ("authRequired", Some(true)));
    assert!(part.error.message.contains("Example API"), "{}", part.error.message);

    sign_in(&client, MINE).await;
    let resume = json!({ "type": "chat/turnResume", "turnId": "t1" });
    client.dispatch(&uris.chat, resume).await;
    client
        .until("the turn is whole", |view| {
            let turn = view.ended_turn(&uris.chat, "t1");
            turn.is_some_and(|turn| markdown(&turn.response_parts) == print_of(MINE))
        })
        .await;
    assert_eq!(says(&client, &uris.chat, "t2", "opened").await, print_of(MINE));
    client.assert_converged().await;
}

#[tokio::test]
async fn auth07_two_clients_in_one_session_each_use_their_own() {
    let running = Running::start(host()).await;
    let mine = connect(&running, "mine").await;
    sign_in(&mine, MINE).await;
    let uris = mine.create_session("shared").await;
    let yours = connect(&running, "yours").await;
    yours.join(&uris.session).await;
    assert_eq!(
        says(&yours, &uris.chat, "t1", "which?").await,
        print_of(MINE),
        "of the client that created the session, while there is no other"
    );
    sign_in(&yours, YOURS).await;
    assert_eq!(says(&yours, &uris.chat, "t2", "which?").await, print_of(YOURS));
    assert_eq!(says(&mine, &uris.chat, "t3", "which?").await, print_of(MINE));
    // A queued message runs with the token of its author.
    mine.start_turn(&uris.chat, "t4", "subagent").await;
    yours.dispatch(&uris.chat, queued("q1", "which?")).await;
    mine.until("both are done", |view| {
        view.chat(&uris.chat).is_some_and(|chat| chat.turns.len() == 5)
    })
    .await;
    let chat = mine.chat(&uris.chat);
    assert_eq!(markdown(&chat.turns[4].response_parts), print_of(YOURS));
    mine.assert_converged().await;
}

#[tokio::test]
async fn auth07_a_subagent_uses_the_token_of_the_turn_that_started_it() {
    let running = Running::start(host()).await;
    let client = connect(&running, "first").await;
    sign_in(&client, MINE).await;
    let uris = client.create_session("one").await;
    client.run_turn(&uris.chat, "t1", "subagent").await;
    let session = client.session(&uris.session);
    let mut others = session.chats.iter().filter(|chat| chat.resource != uris.chat);
    let subagent = others.next().expect("a subagent's chat").resource.clone();
    client.subscribe(&subagent).await;
    assert_eq!(
        markdown(&client.chat(&subagent).turns[0].response_parts),
        print_of(MINE)
    );
}

#[tokio::test]
async fn auth05_auth09_after_a_revocation_turns_fail_until_a_new_sign_in() {
    let running = Running::start(host()).await;
    let client = connect(&running, "first").await;
    sign_in(&client, MINE).await;
    let uris = client.create_session("one").await;
    // AUTH-05: how long nothing is good for means nothing.
    let revoke = json!({ "channel": "ahp-root://", "resource": API, "token": "", "expiresIn": -1 });
    let _: Value = client.request("authenticate", revoke).await.expect("taken back");
    let turn = client.run_turn(&uris.chat, "t1", "which?").await;
    assert_eq!(turn.state, TurnState::Error);
    let part = error_of(&turn.response_parts);
    assert_eq!((&*part.error.error_type, part.resumable), ("authRequired", Some(true)));
    is_asked(&client, &uris.session, AuthRequiredReason::Expired).await;
    sign_in(&client, YOURS).await;
    client
        .dispatch(&uris.chat, json!({ "type": "chat/turnResume", "turnId": "t1" }))
        .await;
    client
        .until("the turn is whole", |view| {
            let turn = view.ended_turn(&uris.chat, "t1");
            turn.is_some_and(|turn| turn.state == TurnState::Complete)
        })
        .await;
    let turn = client.chat(&uris.chat).turns.pop().expect("a turn");
    assert_eq!(markdown(&turn.response_parts), print_of(YOURS));
    client.assert_converged().await;
}

#[tokio::test]
async fn auth06_a_token_expires_and_its_client_is_told() {
    let running = Running::start(host()).await;
    let client = connect(&running, "first").await;
    let other = connect(&running, "other").await;
    let expiring = |expires_in: Value| json!({ "channel": "ahp-root://", "resource": API, "token": MINE, "expiresIn": expires_in });
    for wrong in [json!(0), json!(-5), json!(1.5), json!("60")] {
        let error = refused::<Value>(client.request("authenticate", expiring(wrong)).await);
        assert_eq!(error.code, -32602);
        assert!(error.message.contains("expiresIn"), "{}", error.message);
        assert!(!error.message.contains(MINE), "AUTH-12");
    }
    for seconds in [i64::MAX, 1] {
        let params = expiring(json!(seconds));
        let _: Value = client.request("authenticate", params).await.expect("taken");
    }
    is_asked(&client, "ahp-root://", AuthRequiredReason::Expired).await;
    // Every notification for it comes before this answer.
    other.client().ping().await.expect("still there");
    assert_eq!(asked(&other.view()), [], "no other client is asked");
}

#[tokio::test]
async fn auth03_a_token_that_none_can_be_is_refused_and_not_repeated() {
    let running = Running::start(host()).await;
    let client = connect(&running, "first").await;
    let long = "x".repeat(100_000);
    for token in ["sk-mine\n", "sk mine", "sk-ключ", &long] {
        let params = json!({ "channel": "ahp-root://", "resource": API, "token": token });
        let error = refused::<Value>(client.request("authenticate", params).await);
        assert_eq!(error.code, -32602);
        assert!(error.message.starts_with("params.token: "), "{}", error.message);
        assert!(!error.message.contains(token), "AUTH-12");
    }
    let params = json!({ "channel": "ahp-root://", "resource": "https://unknown.example/", "token": MINE });
    let error = refused::<Value>(client.request("authenticate", params).await);
    assert_eq!(error.code, -32602);
    assert!(error.message.starts_with("params.resource: "), "{}", error.message);
}

#[tokio::test]
async fn auth07_a_client_that_comes_back_within_its_grace_is_still_signed_in() {
    let running = Running::start(host()).await;
    let mut client = connect(&running, "first").await;
    sign_in(&client, MINE).await;
    let uris = client.create_session("one").await;
    client.cut().await;
    client.reconnect().await.expect("known");
    assert_eq!(says(&client, &uris.chat, "t1", "which?").await, print_of(MINE));
}

#[tokio::test]
async fn auth12_a_host_that_died_has_forgotten_every_token() {
    let journal = MemoryJournal::mortal(innkeeper_core::Seq(1000));
    let running = Running::start(host().journal(journal.clone())).await;
    let mut client = connect(&running, "first").await;
    sign_in(&client, MINE).await;
    let uris = client.create_session("one").await;
    says(&client, &uris.chat, "t1", "which?").await;
    let left = journal.crash(CrashSurvivors::Durable);

    let second = Running::start(host().journal(left)).await;
    client.cut().await;
    client.move_to(&second.address);
    client.reconnect().await.expect("known across restarts");
    let turn = client.run_turn(&uris.chat, "t2", "which?").await;
    assert_eq!(error_of(&turn.response_parts).error.error_type, "authRequired");
    is_asked(&client, &uris.session, AuthRequiredReason::Required).await;
    sign_in(&client, YOURS).await;
    assert_eq!(says(&client, &uris.chat, "t3", "which?").await, print_of(YOURS));
    client.assert_converged().await;
}

#[tokio::test]
async fn p14_auth07_a_failed_journal_loses_no_token() {
    let journal = MemoryJournal::new();
    let running = Running::start(host().journal(journal.clone())).await;
    let mut client = connect(&running, "first").await;
    sign_in(&client, MINE).await;
    let uris = client.create_session("one").await;
    journal.fail_with(JournalError::Full("the disk is full".to_owned()));
    let title = json!({ "type": "session/titleChanged", "title": "never kept" });
    client.dispatch(&uris.session, title).await;
    client.disconnected().await;
    is_ready(&running, false).await;
    journal.recover();
    is_ready(&running, true).await;
    client.reconnect().await.expect("known");
    assert_eq!(says(&client, &uris.chat, "t1", "which?").await, print_of(MINE));
    client.assert_converged().await;
}

#[tokio::test]
async fn auth09_a_key_that_the_api_does_not_accept_is_asked_for_again() {
    let running = Running::start(host()).await;
    let client = connect(&running, "first").await;
    sign_in(&client, MINE).await;
    let uris = client.create_session("one").await;
    let turn = client.run_turn(&uris.chat, "t1", "refused").await;
    assert_eq!(error_of(&turn.response_parts).error.error_type, "keyRefused");
    is_asked(&client, &uris.session, AuthRequiredReason::Expired).await;
    let turn = client.run_turn(&uris.chat, "t2", "which?").await;
    assert_eq!(error_of(&turn.response_parts).error.error_type, "authRequired");
    client.assert_converged().await;
}

#[tokio::test]
async fn auth02_auth11_an_agent_prefers_a_clients_token_and_sees_its_scopes() {
    let running = Running::start(Host::builder().agent(Keyed::new(api().optional()))).await;
    let client = connect(&running, "first").await;
    let uris = client.create_session("one").await;
    assert_eq!(says(&client, &uris.chat, "t1", "which?").await, "none");
    let params = json!({ "channel": "ahp-root://", "resource": API, "token": MINE, "scopes": ["chat", "files"] });
    let _: Value = client.request("authenticate", params).await.expect("taken");
    assert_eq!(says(&client, &uris.chat, "t2", "which?").await, print_of(MINE));
    assert_eq!(says(&client, &uris.chat, "t3", "scopes").await, "chat files");
}

#[tokio::test]
async fn auth12_nothing_that_any_client_sees_has_a_token_in_it() {
    let running = Running::start(host()).await;
    let client = connect(&running, "first").await;
    let other = connect(&running, "other").await;
    sign_in(&client, MINE).await;
    let uris = client.create_session("one").await;
    other.join(&uris.session).await;
    client.run_turn(&uris.chat, "t1", "subagent").await;
    client.run_turn(&uris.chat, "t2", "refused").await;
    other.turn_end(&uris.chat, "t2").await;
    for who in [&client, &other] {
        let seen = {
            let view = who.view();
            format!("{:?} {:?}", view.actions, view.notifications)
        };
        assert!(seen.contains(&uris.chat) && !seen.contains(MINE));
        who.assert_converged().await;
    }
}

#[tokio::test]
async fn root02_agents_that_describe_themselves_anew_reach_every_client() {
    let agent = Keyed::new(api());
    let running = Running::start(Host::builder().agent(agent.clone())).await;
    let client = connect(&running, "first").await;
    running.handle().refresh_agents().await;
    client.client().ping().await.expect("still there");
    assert!(client.view().actions.is_empty(), "nothing changed, nothing is said");
    let quill = ModelInfo::new("quill", "Quill")
        .with_context_window(200_000)
        .with_prompt_tokens(150_000)
        .with_output_tokens(8_000)
        .with_vision(true);
    let mut info = agent.info().with_model_info(quill);
    // Sessions name their agent by its id, so that does not change.
    info.provider = "renamed".to_owned();
    *agent.info.lock().expect("no panic") = info;
    running.handle().refresh_agents().await;
    client
        .until("the model is listed", |view| {
            view.root().is_some_and(|root| root.agents[0].models.len() == 1)
        })
        .await;
    let agents = client.view().root().expect("mirrored").agents.clone();
    assert_eq!(agents[0].provider, "keyed");
    assert_eq!(
        serde_json::to_value(&agents[0].models[0]).expect("JSON"),
        json!({
            "id": "quill", "provider": "keyed", "name": "Quill", "maxContextWindow": 200_000,
            "maxPromptTokens": 150_000, "maxOutputTokens": 8_000, "supportsVision": true,
        })
    );
    client.assert_converged().await;
    running.host.shutdown(std::time::Duration::from_secs(10)).await;
}
