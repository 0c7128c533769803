//! Idle sessions leave memory, and are loaded unchanged when a client names them.

use innkeeper_testkit::official::{OfficialClient, SessionUris, queued, tool_calls_of, turn_started};
use innkeeper_testkit::process::HostProcess;
use serde_json::{Value, json};

use crate::durable::busy_session::{allow, draft, mood, title};
use crate::durable::options;

/// A host whose sessions are idle soon.
async fn forgetful() -> HostProcess {
    HostProcess::start(options().limit("idle_session_ms", 50).limit("summary_debounce_ms", 0)).await
}

/// Returns how many sessions have left memory so far.
fn left(log: &str) -> usize {
    let lines = log.lines().filter(|line| line.contains("idle sessions left memory"));
    let counts = lines.filter_map(|line| {
        let (_, rest) = line.split_once("left=")?;
        rest.split_whitespace().next()?.parse::<usize>().ok()
    });
    counts.sum()
}

/// Stops to watch a session, and waits until it has left memory.
async fn let_go(host: &HostProcess, client: &OfficialClient, uris: &SessionUris) {
    let before = left(&host.log());
    client.unsubscribe(&uris.chat).await;
    client.unsubscribe(&uris.session).await;
    host.logged("a session leaves memory", |log| left(log) > before).await;
}

/// Returns the state of a session and its chat.
fn states(client: &OfficialClient, uris: &SessionUris) -> [Value; 2] {
    let view = client.view();
    [view.comparable(&uris.session), view.comparable(&uris.chat)]
}

#[tokio::test]
async fn ses_an_idle_session_comes_back_with_everything_it_had() {
    let host = forgetful().await;
    let client = OfficialClient::connect(host.address(), "first").await;
    std::fs::create_dir(host.path("work")).expect("created");
    let workspace = format!("file://{}", host.path("work").display());
    let uris = client.create_session_in("idle", &workspace).await;
    client.dispatch(&uris.session, title("Remembered")).await;
    client.dispatch(&uris.session, mood("grumpy")).await;
    // Allowed for good: one tool in the session, another one in the workspace.
    client.start_turn(&uris.chat, "t1", "/confirm").await;
    let wait = client.wait_for(&uris.session, "toolConfirmation").await;
    client.decide(&wait, allow("allow-session")).await;
    client.turn_end(&uris.chat, "t1").await;
    client.start_turn(&uris.chat, "t2", "/parallel 1").await;
    let wait = client.wait_for(&uris.session, "toolConfirmation").await;
    client.decide(&wait, allow("allow-workspace")).await;
    client.turn_end(&uris.chat, "t2").await;
    // Something waits, because a turn was cancelled, and something is half written.
    client.start_turn(&uris.chat, "t3", "/slow 600").await;
    client.dispatch(&uris.chat, queued("q1", "later")).await;
    client.cancel_turn(&uris.chat, "t3").await;
    client.dispatch(&uris.chat, draft("not sent yet")).await;
    client.caught_up().await;
    let before = states(&client, &uris);
    for round in 0..3 {
        let_go(&host, &client, &uris).await;
        assert_eq!(client.listed(&uris.session).await.title, "Remembered");
        client.join(&uris.session).await;
        assert_eq!(states(&client, &uris), before, "round {round}");
    }
    let chat = client.chat(&uris.chat);
    assert_eq!(chat.queued_messages.as_ref().map(Vec::len), Some(1));
    assert_eq!(chat.draft.map(|draft| draft.text).as_deref(), Some("not sent yet"));
    assert_eq!(
        client.view().setting(&uris.session, "approvedTools"),
        json!([r#"ring_bell({"times":3})"#])
    );
    assert_eq!(
        client.view().setting(&uris.session, "workspaceApprovedTools"),
        json!([r#"run_errand({"errand":1})"#])
    );
    // Approvals, pending messages and the history of the agent are unchanged.
    let turn = client.run_turn(&uris.chat, "t4", "/confirm").await;
    assert_eq!(tool_calls_of(&turn)[0]["confirmed"], "setting");
    client
        .until("what waited is done", |view| {
            view.chat(&uris.chat).is_some_and(|chat| chat.turns.len() == 5)
        })
        .await;
    client.assert_converged().await;
    let stopped = host.stop().await;
    assert!(!stopped.log.contains("panicked"), "{}", stopped.log);
}

#[tokio::test]
async fn an_evicted_session_accepts_a_dispatch_of_a_client_without_subscription() {
    let host = forgetful().await;
    let client = OfficialClient::connect(host.address(), "first").await;
    let uris = client.create_listed_session("idle").await;
    client.run_turn(&uris.chat, "t1", "hello").await;
    let_go(&host, &client, &uris).await;
    client.dispatch(&uris.session, title("From afar")).await;
    client.dispatch(&uris.chat, turn_started("t2", "and again")).await;
    client.caught_up().await;
    client.join(&uris.session).await;
    client.turn_end(&uris.chat, "t2").await;
    assert_eq!(client.session(&uris.session).title, "From afar");
    assert!(client.view().refusals.is_empty());
    client.assert_converged().await;
}

#[tokio::test]
async fn lesson_21_a_change_after_a_session_left_memory_reaches_every_list() {
    let host = forgetful().await;
    let client = OfficialClient::connect(host.address(), "first").await;
    let watcher = OfficialClient::connect(host.address(), "watcher").await;
    let uris = client.create_listed_session("idle").await;
    client.run_turn(&uris.chat, "t1", "hello").await;
    for round in 0..3 {
        let_go(&host, &client, &uris).await;
        let name = format!("Round {round}");
        client.dispatch(&uris.session, title(&name)).await;
        watcher
            .until("the list hears of it", |view| {
                view.summary(&uris.session).is_some_and(|summary| summary.title == name)
            })
            .await;
        client.join(&uris.session).await;
        client
            .run_turn(&uris.chat, &format!("round-{round}"), "hello again")
            .await;
        watcher.assert_summary_converged(&uris.session).await;
    }
    client.assert_converged().await;
}

#[tokio::test]
async fn a_storm_of_lists_and_subscriptions_converges_during_session_churn() {
    const SESSIONS: usize = 12;
    const CLIENTS: usize = 4;
    const ROUNDS: usize = 40;
    let host = HostProcess::start(options().limit("idle_session_ms", 1)).await;
    let first = OfficialClient::connect(host.address(), "first").await;
    let mut all = Vec::new();
    for number in 0..SESSIONS {
        let uris = first.create_listed_session(&format!("number-{number}")).await;
        first.unsubscribe(&uris.chat).await;
        first.unsubscribe(&uris.session).await;
        all.push(uris);
    }
    let mut storm = Vec::new();
    for number in 0..CLIENTS {
        let (address, all) = (host.address().clone(), all.clone());
        storm.push(tokio::spawn(async move {
            let client = OfficialClient::connect(&address, &format!("client-{number}")).await;
            for round in 0..ROUNDS {
                // Turns only in sessions of its own, because a chat takes one at a time.
                let speaks = round % 4 == number;
                let index = if speaks {
                    number + CLIENTS * (round % 3)
                } else {
                    number * 5 + round * 7
                };
                let uris = &all[index % SESSIONS];
                client.join(&uris.session).await;
                if speaks {
                    client
                        .run_turn(&uris.chat, &format!("{number}-{round}"), "/stream 3")
                        .await;
                }
                if round % 3 == 0 {
                    client.listed(&uris.session).await;
                }
                if round % 8 == 0 {
                    client.assert_converged().await;
                }
                client.unsubscribe(&uris.chat).await;
                client.unsubscribe(&uris.session).await;
            }
        }));
    }
    for client in storm {
        client.await.expect("no panic");
    }
    let mut turns = 0;
    for uris in &all {
        first.join(&uris.session).await;
        turns += first.chat(&uris.chat).turns.len();
    }
    assert_eq!(turns, CLIENTS * ROUNDS / 4, "every turn is there, and each once");
    first.assert_converged().await;
    let gone = left(&host.log());
    assert!(gone > SESSIONS, "sessions came and went: {gone}");
    println!("sessions that left memory and came back: {gone}");
}
