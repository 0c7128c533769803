//! Questions of servers, and their answers.

use innkeeper_mcp::{Allowed, Ask, AskOutcome, AskSink, Call, Error, Event, Question, Server};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::support::{call, event, odd, ready};

#[tokio::test]
async fn a_server_of_2026_asks_for_input_before_it_answers() {
    let server = ready(odd("modern")).await;
    assert_eq!(server.info().unwrap().protocol_version, "2026-07-28");
    let mut ask = call("ask", json!({}));
    let id = ask.id;
    ask.asks = Some(AskSink::new(move |ask| {
        assert_eq!(ask.call, Some(id));
        assert!(matches!(&ask.question, Question::Form { message, .. } if message == "Who?"));
        ask.answer(AskOutcome::Accepted(Some(json!({ "name": "me" }))));
    }));
    let text = server.call(ask).await.unwrap().text();
    assert_eq!(text, r#""s1" {"action":"accept","content":{"name":"me"}}"#);
}

#[tokio::test]
async fn a_question_without_a_sink_is_declined() {
    let server = ready(odd("modern")).await;
    let text = server.call(call("ask", json!({}))).await.unwrap().text();
    assert_eq!(text, r#""s1" {"action":"decline"}"#);
}

#[tokio::test]
async fn a_form_keeps_its_order_and_all_members_of_its_fields() {
    let server = ready(odd("plain")).await;
    let (sender, mut asks) = mpsc::unbounded_channel();
    let mut call = call("form", json!({}));
    call.asks = Some(AskSink::new(move |ask| drop(sender.send(ask))));
    let calling = tokio::spawn({
        let server = server.clone();
        async move { server.call(call).await }
    });
    let ask = asks.recv().await.unwrap();
    let Question::Form { schema, .. } = &ask.question else {
        panic!("{ask:?}")
    };
    let fields = schema["properties"].as_object().unwrap();
    let names: Vec<&String> = fields.keys().collect();
    assert_eq!(names, ["room", "nights", "extras"]);
    let room = &fields["room"];
    assert_eq!(room["default"], "s");
    assert_eq!(
        (&room["oneOf"][0]["description"], &room["oneOf"][0]["recommended"]),
        (&json!("Quiet."), &json!(true))
    );
    ask.answer(AskOutcome::Accepted(Some(json!({ "room": "s", "extras": "no" }))));
    let text = calling.await.unwrap().unwrap().text();
    assert_eq!(text, r#"{"action":"accept","content":{"room":"s","extras":"no"}}"#);
}

/// A call during which the server requests a model. Its questions are handed out.
fn sample(session: &str) -> (Call, mpsc::UnboundedReceiver<Ask>) {
    let (sender, asks) = mpsc::unbounded_channel();
    let mut call = call("sample", json!({ "messages": [] }));
    call.session = Some(session.into());
    call.asks = Some(AskSink::new(move |ask| drop(sender.send(ask))));
    (call, asks)
}

#[tokio::test]
async fn t16_a_question_that_could_belong_to_another_session_is_declined() {
    let server = ready(odd("plain")).await;
    let (first, mut of_first) = sample("one");
    let calling = tokio::spawn({
        let server = server.clone();
        async move { server.call(first).await }
    });
    // It waits for its answer.
    let asked = of_first.recv().await.unwrap();
    let (second, mut of_second) = sample("two");
    let text = server.call(second).await.unwrap().text();
    assert!(text.contains("calls of several sessions are under way"), "{text}");
    assert!(of_first.try_recv().is_err() && of_second.try_recv().is_err());

    // Calls of one session may get each other's questions.
    let (third, mut of_third) = sample("one");
    let third = tokio::spawn({
        let server = server.clone();
        async move { server.call(third).await }
    });
    let also_asked = of_third.recv().await.unwrap();
    also_asked.answer(AskOutcome::Declined);
    assert!(third.await.unwrap().unwrap().text().contains("rejected"));
    drop(asked);
    calling.abort();
}

/// An App of a session calls a tool.
fn app_calls(server: &Server, session: &str, tool: &str) -> JoinHandle<Result<Value, Error>> {
    let (server, session) = (server.clone(), Some(session.into()));
    let params = json!({ "name": tool, "arguments": { "messages": [] } })
        .as_object()
        .cloned();
    let allowed = Allowed {
        tools: true,
        ..Allowed::default()
    };
    tokio::spawn(async move {
        let passing = server.pass(allowed, session, "tools/call", params, CancellationToken::new());
        passing.await
    })
}

#[tokio::test]
async fn mcp16_a_waiting_app_does_not_block_questions_of_its_session() {
    let server = ready(odd("plain")).await;
    let mut events = server.events();
    let waiting = app_calls(&server, "one", "wait");
    // The server has the request.
    event(&mut events, |event| matches!(event, Event::Log(_)).then_some(())).await;

    let (first, mut of_first) = sample("one");
    let calling = tokio::spawn({
        let server = server.clone();
        async move { server.call(first).await }
    });
    let asked = of_first.recv().await.expect("the call is asked");
    asked.answer(AskOutcome::Sampled(json!({ "role": "assistant" })));
    let text = calling.await.unwrap().unwrap().text();
    assert!(text.contains("assistant"), "{text}");

    // T16: an App of one session has nothing to do with the calls of another one.
    let (second, mut of_second) = sample("two");
    let text = server.call(second).await.unwrap().text();
    assert!(text.contains("calls of several sessions are under way"), "{text}");
    assert!(of_second.try_recv().is_err());
    waiting.abort();
}

#[tokio::test]
async fn mcp16_questions_during_an_app_request_go_to_a_call_of_its_session() {
    let server = ready(odd("plain")).await;
    let alone = app_calls(&server, "one", "sample").await.unwrap().unwrap();
    let said = alone["content"][0]["text"].as_str().unwrap();
    assert!(said.contains("rejected"), "{said}");

    let (first, mut of_first) = sample("one");
    let calling = tokio::spawn({
        let server = server.clone();
        async move { server.call(first).await }
    });
    let open = of_first.recv().await.expect("the call is asked");
    let app = app_calls(&server, "one", "sample");
    let asked = of_first.recv().await.expect("the call that can be asked, is");
    asked.answer(AskOutcome::Sampled(json!({ "role": "assistant" })));
    let answered = app.await.unwrap().unwrap();
    assert!(answered["content"][0]["text"].as_str().unwrap().contains("assistant"));
    drop(open);
    calling.abort();
}
