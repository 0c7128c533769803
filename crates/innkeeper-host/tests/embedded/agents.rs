//! Agents that fail, hang, or never start: the host says so and goes on.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ahp_types::state::{ResponsePart, SessionLifecycle, Turn, TurnState};
use innkeeper_host::{
    Agent, AgentChat, AgentError, AgentInfo, ChatContext, EventSink, Host, HostError, Limits, TurnInput, async_trait,
};
use innkeeper_testkit::embedded::{Running, TestAgent};
use innkeeper_testkit::official::{OfficialClient, markdown};
use serde_json::{Value, json};
use tokio::sync::Notify;

/// Misbehaves on command.
#[derive(Clone, Default)]
struct Unruly {
    opened: Arc<AtomicUsize>,
    may_open: Arc<Notify>,
    /// How the next chats open.
    opening: Opening,
}

#[derive(Clone, Copy, Default)]
enum Opening {
    #[default]
    AtOnce,
    WhenTold,
    Never,
    Panics,
    Fails,
}

impl Unruly {
    fn opening(opening: Opening) -> Self {
        Self {
            opening,
            ..Self::default()
        }
    }
}

#[async_trait]
impl Agent for Unruly {
    fn info(&self) -> AgentInfo {
        AgentInfo::new("unruly", "Unruly", "Does what it must not.")
    }

    async fn open_chat(&self, _: ChatContext) -> Result<Box<dyn AgentChat>, AgentError> {
        self.opened.fetch_add(1, Ordering::SeqCst);
        match self.opening {
            Opening::AtOnce => {}
            Opening::WhenTold => self.may_open.notified().await,
            Opening::Never => std::future::pending().await,
            Opening::Panics => panic!("asked for by the test"),
            Opening::Fails => return Err(AgentError::failed("noKey", "there is no key; sign in first")),
        }
        Ok(Box::new(self.clone()))
    }
}

#[async_trait]
impl AgentChat for Unruly {
    async fn run_turn(&mut self, turn: TurnInput, events: EventSink) -> Result<(), AgentError> {
        match turn.text.as_str() {
            "panic" => {
                events.text("so far so good").await?;
                panic!("asked for by the test");
            }
            "ignore" => {
                events.text("you cannot stop me").await?;
                std::future::pending().await
            }
            "parts" => loop {
                events.text("x").await?;
                events.end_part().await?;
            },
            "late" => {
                // Tries to go on after the turn was cancelled.
                events.cancelled().await;
                for _ in 0..10 {
                    if events.text("too late").await.is_ok() {
                        panic!("a cancelled turn took text");
                    }
                }
                Err(AgentError::Cancelled)
            }
            "notice" => {
                events.notice("a guest is at the door").await?;
                events.title("A better title").await?;
                events.text("done").await
            }
            other => events.text(format!("you said {other}")).await,
        }
    }
}

fn quick_limits() -> Limits {
    let mut limits = Limits {
        open_session_time: Duration::from_millis(200),
        cancel_time: Duration::from_millis(50),
        ..Limits::default()
    };
    limits.core.max_parts_per_turn = 5;
    limits
}

async fn start(agent: Unruly) -> (Running, OfficialClient) {
    let builder = Host::builder().agent(agent).agent(TestAgent).limits(quick_limits());
    let running = Running::start(builder).await;
    let client = OfficialClient::connect(&running.address, "first").await;
    (running, client)
}

fn error_type(turn: &Turn) -> &str {
    match turn.response_parts.last() {
        Some(ResponsePart::Error(part)) => &part.error.error_type,
        other => panic!("an error part was expected: {other:?}"),
    }
}

/// Waits until a session's creation is over and returns why it failed.
async fn creation_error(client: &OfficialClient, session: &str) -> (String, String) {
    client
        .until("the creation fails", |view| {
            let state = view.session(session);
            state.is_some_and(|state| state.lifecycle == SessionLifecycle::Failed)
        })
        .await;
    let error = client
        .view()
        .session(session)
        .and_then(|state| state.creation_error.clone());
    let error = error.expect("a reason");
    (error.error_type, error.message)
}

#[tokio::test]
async fn p_9_an_agent_that_panics_ends_its_turn_and_nothing_else() {
    let agent = Unruly::default();
    let opened = Arc::clone(&agent.opened);
    let (_running, client) = start(agent).await;
    let uris = client.create_session("panicking").await;
    let other = client.create_session("other").await;
    client.start_turn(&other.chat, "t1", "ignore").await;
    let turn = client.run_turn(&uris.chat, "t1", "panic").await;
    assert_eq!(turn.state, TurnState::Error);
    assert_eq!(error_type(&turn), "agentDied");
    assert_eq!(markdown(&turn.response_parts), "so far so good", "what was said stays");
    let turn = client.run_turn(&uris.chat, "t2", "hello").await;
    assert_eq!(markdown(&turn.response_parts), "you said hello");
    assert_eq!(opened.load(Ordering::SeqCst), 3, "the dead one was started afresh");
    assert!(
        client.view().chat(&other.chat).expect("mirrored").active_turn.is_some(),
        "the other goes on"
    );
    client.assert_converged().await;
}

#[tokio::test]
async fn e_55_every_failed_open_is_a_failed_session_that_keeps_its_name() {
    for (opening, kind, message) in [
        (
            Opening::Panics,
            "agentDied",
            "the agent failed while opening the chat; see the host's log",
        ),
        (
            Opening::Never,
            "agentTimeout",
            "the agent did not start within 0 s; see the host's log",
        ),
        (Opening::Fails, "noKey", "there is no key; sign in first"),
    ] {
        let (_running, client) = start(Unruly::opening(opening)).await;
        let uris = client.create_session_unready("failing").await;
        let error = creation_error(&client, &uris.session).await;
        assert_eq!(error, (kind.to_owned(), message.to_owned()));
        client.start_turn(&uris.chat, "t1", "hello").await;
        assert_eq!(client.refusal(1).await, "the session failed to start; create a new one");
        let again: Result<Value, _> = client
            .request("createSession", json!({ "channel": uris.session }))
            .await;
        assert!(again.expect_err("taken").to_string().contains("-32003"));
        client.assert_converged().await;
    }
}

#[tokio::test]
async fn lesson_37_a_slow_open_delays_no_other_chat() {
    let agent = Unruly::opening(Opening::WhenTold);
    let may_open = Arc::clone(&agent.may_open);
    let mut limits = quick_limits();
    limits.open_session_time = Duration::from_secs(30);
    let builder = Host::builder().agent(agent).agent(TestAgent).limits(limits);
    let running = Running::start(builder).await;
    let client = OfficialClient::connect(&running.address, "first").await;
    let slow = client.create_session_unready("slow").await;
    assert_eq!(
        client.view().session(&slow.session).expect("mirrored").lifecycle,
        SessionLifecycle::Creating
    );
    client.start_turn(&slow.chat, "t1", "too early").await;
    assert_eq!(
        client.refusal(1).await,
        "the session is still starting; wait for session/ready"
    );
    // The same connection does other things meanwhile.
    let created: Value = client
        .request(
            "createSession",
            json!({ "channel": "ahp-session:/quick", "provider": "test" }),
        )
        .await
        .expect("created");
    assert_eq!(created, Value::Null);
    let quick = client.join("ahp-session:/quick").await;
    client
        .until("the quick one is ready", |view| {
            view.session(&quick.session)
                .is_some_and(|state| state.lifecycle == SessionLifecycle::Ready)
        })
        .await;
    client.run_turn(&quick.chat, "t1", "hello").await;
    // A message may wait for the session.
    let queued = json!({
        "type": "chat/pendingMessageSet", "kind": "queued", "id": "q1",
        "message": { "text": "first in line", "origin": { "kind": "user" } },
    });
    client.dispatch(&slow.chat, queued).await;
    client.client().ping().await.expect("answered");
    may_open.notify_one();
    client
        .until("the slow one is ready", |view| {
            view.session(&slow.session)
                .is_some_and(|state| state.lifecycle == SessionLifecycle::Ready)
        })
        .await;
    client
        .until("the message had its turn", |view| {
            let chat = view.chat(&slow.chat).expect("mirrored");
            chat.turns
                .iter()
                .any(|turn| markdown(&turn.response_parts) == "you said first in line")
        })
        .await;
    client.run_turn(&slow.chat, "t2", "hello").await;
    client.assert_converged().await;
}

#[tokio::test]
async fn an_agent_that_ignores_a_cancel_is_dropped_and_the_next_message_works() {
    let (_running, client) = start(Unruly::default()).await;
    let uris = client.create_session("stubborn").await;
    for (number, text) in ["ignore", "late"].into_iter().enumerate() {
        let turn_id = format!("t{number}");
        client.start_turn(&uris.chat, &turn_id, text).await;
        client
            .until("the turn runs", |view| {
                let chat = view.chat(&uris.chat).expect("mirrored");
                chat.active_turn.as_ref().is_some_and(|turn| turn.id == turn_id)
            })
            .await;
        let cancel = json!({ "type": "chat/turnCancelled", "turnId": turn_id, "duration": 0 });
        client.dispatch(&uris.chat, cancel).await;
        let turn = client.turn_end(&uris.chat, &turn_id).await;
        assert_eq!(turn.state, TurnState::Cancelled);
        let next = client.run_turn(&uris.chat, &format!("next{number}"), "hello").await;
        assert_eq!(markdown(&next.response_parts), "you said hello");
    }
    client.assert_converged().await;
}

#[tokio::test]
async fn p_8_a_turn_with_too_many_parts_is_ended_with_an_error() {
    let (_running, client) = start(Unruly::default()).await;
    let uris = client.create_session("parts").await;
    let turn = client.run_turn(&uris.chat, "t1", "parts").await;
    assert_eq!(error_type(&turn), "tooManyParts");
    assert_eq!(turn.response_parts.len(), 6, "five parts and the error");
    let turn = client.run_turn(&uris.chat, "t2", "hello").await;
    assert_eq!(turn.state, TurnState::Complete);
    client.assert_converged().await;
}

/// (TURN-20)
#[tokio::test]
async fn an_agent_leaves_notices_and_sets_the_title_until_a_user_does() {
    let (_running, client) = start(Unruly::default()).await;
    let uris = client.create_session("notices").await;
    let turn = client.run_turn(&uris.chat, "t1", "notice").await;
    assert!(
        matches!(turn.response_parts.first(), Some(ResponsePart::SystemNotification(_))),
        "{turn:?}"
    );
    client
        .dispatch(
            &uris.session,
            json!({ "type": "session/titleChanged", "title": "Mine" }),
        )
        .await;
    client.run_turn(&uris.chat, "t2", "notice").await;
    assert_eq!(client.view().session(&uris.session).expect("mirrored").title, "Mine");
    client.assert_converged().await;
}

#[tokio::test]
async fn a_host_without_agents_or_with_two_of_one_name_does_not_start() {
    assert!(matches!(Host::builder().start().await, Err(HostError::NoAgents)));
    let twice = Host::builder().agent(TestAgent).agent(TestAgent).start().await;
    assert!(matches!(twice, Err(HostError::DuplicateAgent(name)) if name == "test"));
}

#[tokio::test]
async fn a_shutdown_does_not_wait_for_an_agent_that_hangs() {
    let (running, mut client) = start(Unruly::default()).await;
    let uris = client.create_session("hanging").await;
    client.start_turn(&uris.chat, "t1", "ignore").await;
    client.running_text(&uris.chat, 1).await;
    running.host.shutdown(Duration::from_secs(10)).await;
    client.disconnected().await;
    assert!(
        client
            .view()
            .ended_turn(&uris.chat, "t1")
            .is_some_and(|turn| turn.state == TurnState::Cancelled)
    );
}
