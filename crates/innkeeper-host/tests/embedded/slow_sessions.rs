//! Sessions that take their time to open, beside those that do not.

use std::sync::Arc;
use std::time::Duration;

use ahp_types::state::SessionLifecycle;
use innkeeper_host::completions::{Files, FoundFile};
use innkeeper_host::{Agent, AgentChat, AgentError, AgentInfo, ChatContext, Host, Limits, async_trait};
use innkeeper_testkit::embedded::{Running, TestAgent};
use innkeeper_testkit::official::OfficialClient;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

/// Opens nothing before it is told to.
#[derive(Clone)]
struct Sleeper(Arc<Semaphore>);

#[async_trait]
impl Agent for Sleeper {
    fn info(&self) -> AgentInfo {
        AgentInfo::new("sleeper", "Sleeper", "Takes its time.").with_chats()
    }

    async fn open_chat(&self, cx: ChatContext) -> Result<Box<dyn AgentChat>, AgentError> {
        let permit = self.0.acquire().await;
        permit.map_err(|_| AgentError::Cancelled)?.forget();
        TestAgent.open_chat(cx).await
    }
}

/// Finds nothing before it is told to.
#[derive(Clone)]
struct SlowShelf(Arc<Semaphore>);

#[async_trait]
impl Files for SlowShelf {
    async fn find(&self, _: &[String], _: &str, _: usize) -> Vec<FoundFile> {
        if let Ok(permit) = self.0.acquire().await {
            permit.forget();
        }
        Vec::new()
    }
}

fn is_ready(view: &innkeeper_testkit::official::View, session: &str) -> bool {
    let session = view.session(session);
    session.is_some_and(|session| session.lifecycle == SessionLifecycle::Ready)
}

#[tokio::test]
async fn lesson_37_a_slowly_opening_session_delays_no_request_of_its_connection() {
    let may_open = Arc::new(Semaphore::new(0));
    let limits = Limits {
        open_session_time: Duration::from_secs(60),
        ..Limits::default()
    };
    let builder = Host::builder()
        .agent(TestAgent)
        .agent(Sleeper(Arc::clone(&may_open)))
        .limits(limits);
    let running = Running::start(builder).await;
    let client = OfficialClient::connect(&running.address, "first").await;
    // More than any plausible number of slots.
    let slow: Vec<String> = (0..40).map(|number| format!("ahp-session:/slow-{number}")).collect();
    for session in &slow {
        let params = json!({ "channel": session, "provider": "sleeper" });
        let created: Value = client.request("createSession", params).await.expect("answered at once");
        assert_eq!(created, Value::Null);
        client.subscribe(session).await;
    }
    // Everything else on the same connection goes on.
    client.client().ping().await.expect("answered");
    let uris = client.create_session("quick").await;
    client.run_turn(&uris.chat, "t1", "/stream 3").await;
    client.listed(&uris.session).await;
    let states: Vec<SessionLifecycle> = slow.iter().map(|session| client.session(session).lifecycle).collect();
    assert!(states.iter().all(|state| *state == SessionLifecycle::Creating));
    may_open.add_permits(40);
    for session in &slow {
        client.until("it is ready", |view| is_ready(view, session)).await;
    }
    client.assert_converged().await;
}

#[tokio::test]
async fn lesson_37_slow_completions_delay_no_request_of_their_connection() {
    let may_find = Arc::new(Semaphore::new(0));
    let limits = Limits {
        look_up_time: Duration::from_secs(60),
        ..Limits::default()
    };
    let builder = Host::builder()
        .agent(TestAgent)
        .files(SlowShelf(Arc::clone(&may_find)))
        .limits(limits);
    let running = Running::start(builder).await;
    let client = OfficialClient::connect(&running.address, "first").await;
    let uris = client.create_session("typing").await;
    let params = json!({ "channel": uris.chat, "kind": "userMessage", "text": "@a", "offset": 2 });
    let typing = (0..8).map(|_| client.request::<Value>("completions", params.clone()));
    let typing = futures_util::future::join_all(typing);
    let meanwhile = async {
        client.client().ping().await.expect("answered");
        client.run_turn(&uris.chat, "t1", "/stream 3").await;
        may_find.add_permits(8);
    };
    let (found, ()) = tokio::join!(typing, meanwhile);
    for found in found {
        assert_eq!(found.expect("answered in the end"), json!({ "items": [] }));
    }
    client.assert_converged().await;
}

/// Requests for a session wait until it is open (CHT-10).
#[tokio::test]
async fn cht10_the_first_message_of_a_chat_waits_for_its_session() {
    let may_open = Arc::new(Semaphore::new(0));
    let running = Running::start(Host::builder().agent(Sleeper(Arc::clone(&may_open)))).await;
    let client = OfficialClient::connect(&running.address, "first").await;
    let uris = client.create_session_unready("slow").await;
    let message = innkeeper_testkit::official::message("/stream 2");
    let first = json!({ "initialMessage": message });
    client.create_chat(&uris.session, "ahp-chat:/second", first).await;
    assert!(client.chat("ahp-chat:/second").active_turn.is_none());
    may_open.add_permits(2);
    client
        .until("it had its turn", |view| {
            let chat = view.chat("ahp-chat:/second");
            chat.is_some_and(|chat| chat.turns.len() == 1 && chat.queued_messages.is_none())
        })
        .await;
    let turns = client.chat("ahp-chat:/second").turns;
    assert_eq!(turns[0].message.text, "/stream 2");
    client.assert_converged().await;
}
