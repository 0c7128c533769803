//! Streamed responses: complete, in one part, with any delivery.

use ahp_types::actions::StateAction;
use ahp_types::state::{ResponsePart, TurnState};
use innkeeper_testkit::official::{OfficialClient, View, markdown};

use crate::{options, start_with_client};
use innkeeper_testkit::process::HostProcess;

/// Returns the deltas of `/stream`.
fn stream_text(count: usize, bytes: usize) -> String {
    let delta = |index: usize| -> String {
        let filler = "lorem ipsum dolor sit amet ".chars().cycle();
        format!("{index} ").chars().chain(filler).take(bytes).collect()
    };
    (0..count).map(delta).collect()
}

fn deltas(view: &View) -> usize {
    let deltas = view
        .actions
        .iter()
        .filter(|envelope| matches!(envelope.action, StateAction::ChatDelta(_)));
    deltas.count()
}

#[tokio::test]
async fn a_stream_is_exactly_its_deltas_in_one_markdown_part() {
    let (_host, client) = start_with_client().await;
    let uris = client.create_session("stream").await;
    let turn = client.run_turn(&uris.chat, "t1", "/stream 2000 0 16").await;
    assert_eq!(turn.state, TurnState::Complete);
    match turn.response_parts.as_slice() {
        [ResponsePart::Markdown(part)] => assert_eq!(part.content, stream_text(2000, 16)),
        other => panic!("one markdown part was expected: {other:?}"),
    }
    assert!(deltas(&client.view()) < 2000, "a burst is merged (SUB-11)");
    client.assert_converged().await;
}

#[tokio::test]
async fn sub_10_without_latency_a_paced_stream_arrives_delta_by_delta() {
    let (host, client) = start_with_client().await;
    let uris = client.create_session("paced").await;
    let exact = OfficialClient::connect(host.address(), "exact").await;
    exact.subscribe_without_delay(&uris.chat).await;
    client.start_turn(&uris.chat, "t1", "/stream 100 2 8").await;
    let turn = exact.turn_end(&uris.chat, "t1").await;
    assert_eq!(markdown(&turn.response_parts), stream_text(100, 8));
    assert_eq!(deltas(&exact.view()), 100);
    client.turn_end(&uris.chat, "t1").await;
    client.assert_converged().await;
    exact.assert_converged().await;
}

#[tokio::test]
async fn sub_09_a_long_latency_merges_and_loses_nothing() {
    let host = HostProcess::start(options().limit("default_latency_ms", 200)).await;
    let client = OfficialClient::connect(host.address(), "patient").await;
    let uris = client.create_session("merged").await;
    let turn = client.run_turn(&uris.chat, "t1", "/stream 300 1 12").await;
    assert_eq!(markdown(&turn.response_parts), stream_text(300, 12));
    assert!(deltas(&client.view()) < 150, "{} deltas", deltas(&client.view()));
    client.assert_converged().await;
}

#[tokio::test]
async fn many_clients_watch_one_stream_and_all_agree() {
    let (host, client) = start_with_client().await;
    let uris = client.create_session("audience").await;
    let mut audience = Vec::new();
    for number in 0..10 {
        let watcher = OfficialClient::connect(host.address(), &format!("watcher-{number}")).await;
        watcher.join(&uris.session).await;
        audience.push(watcher);
    }
    client.start_turn(&uris.chat, "t1", "/stream 5000 0 40").await;
    let expected = stream_text(5000, 40);
    for watcher in audience.iter().chain([&client]) {
        let turn = watcher.turn_end(&uris.chat, "t1").await;
        assert_eq!(markdown(&turn.response_parts), expected, "{}", watcher.client_id);
        watcher.assert_converged().await;
    }
}

#[tokio::test]
async fn lesson_03_subscribing_in_the_middle_of_a_stream_gets_every_delta_once() {
    let (host, client) = start_with_client().await;
    let uris = client.create_session("late").await;
    client.start_turn(&uris.chat, "t1", "/stream 400 1 10").await;
    let mut latecomers = Vec::new();
    for number in 0..8 {
        client.running_text(&uris.chat, number * 400).await;
        let latecomer = OfficialClient::connect(host.address(), &format!("late-{number}")).await;
        latecomer.join(&uris.session).await;
        latecomers.push(latecomer);
    }
    let expected = stream_text(400, 10);
    for latecomer in latecomers.iter().chain([&client]) {
        let turn = latecomer.turn_end(&uris.chat, "t1").await;
        assert_eq!(markdown(&turn.response_parts), expected, "{}", latecomer.client_id);
        latecomer.assert_converged().await;
    }
}

#[tokio::test]
async fn turn_03_thinking_and_answering_are_parts_of_their_own() {
    let (_host, client) = start_with_client().await;
    let uris = client.create_session("thoughts").await;
    let turn = client.run_turn(&uris.chat, "t1", "/reason one two three").await;
    match turn.response_parts.as_slice() {
        [ResponsePart::Reasoning(thought), ResponsePart::Markdown(answer)] => {
            assert_eq!(thought.content, "one two three");
            assert_eq!(answer.content, "I have thought about it.");
        }
        other => panic!("a thought and an answer were expected: {other:?}"),
    }
    let turn = client.run_turn(&uris.chat, "t2", "/usage").await;
    let usage = turn.usage.expect("usage was reported");
    assert_eq!((usage.input_tokens, usage.output_tokens), (Some(1200), Some(34)));
    client.assert_converged().await;
}

#[tokio::test]
async fn two_chats_stream_at_once_and_stay_apart() {
    let (_host, client) = start_with_client().await;
    let one = client.create_session("one").await;
    let two = client.create_session("two").await;
    client.start_turn(&one.chat, "t1", "/stream 500 1 20").await;
    client.start_turn(&two.chat, "t1", "/stream 700 1 10").await;
    let first = client.turn_end(&one.chat, "t1").await;
    let second = client.turn_end(&two.chat, "t1").await;
    assert_eq!(markdown(&first.response_parts), stream_text(500, 20));
    assert_eq!(markdown(&second.response_parts), stream_text(700, 10));
    client.assert_converged().await;
}

/// (TRN-21)
#[tokio::test]
async fn trap_8_a_burst_fits_into_the_ring_of_the_published_client() {
    let (host, driver) = start_with_client().await;
    let uris = driver.create_session("burst").await;
    let address = host.address();
    let token = address.token.as_deref().expect("a token");
    let url = format!("ws://{}/?tkn={token}", address.authority());
    let transport = ahp_ws::WebSocketTransport::connect(&url).await.expect("connected");
    // By default it keeps 256 events of a subscription and drops the rest without a word.
    let client = ahp::Client::connect(transport, ahp::ClientConfig::default())
        .await
        .expect("started");
    let versions = vec!["1.0.0".to_owned()];
    client
        .initialize("as-shipped".to_owned(), versions, Vec::new())
        .await
        .expect("initialized");
    let (_, mut events) = client.subscribe(uris.chat.clone()).await.expect("subscribed");
    // The events are not read while they come.
    driver.run_turn(&uris.chat, "t1", "/stream 5000 0 16").await;
    let mut received = 0;
    loop {
        let event = tokio::time::timeout(innkeeper_testkit::process::TIMEOUT, events.recv()).await;
        match event.expect("the turn ends") {
            Some(ahp::SubscriptionEvent::Action(envelope)) => match envelope.action {
                StateAction::ChatDelta(delta) => received += delta.content.len(),
                StateAction::ChatTurnComplete(_) => break,
                _ => {}
            },
            other => panic!("the turn has not ended: {other:?}"),
        }
    }
    assert_eq!(received, 5000 * 16, "nothing was dropped");
    client.shutdown().await;
}
