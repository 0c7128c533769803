//! What servers ask, and what they are answered.

use innkeeper_mcp::{Answer, AskSink, Question};
use serde_json::json;

use crate::support::{call, odd, ready};

#[tokio::test]
async fn a_server_of_2026_asks_before_it_answers() {
    let server = ready(odd("modern")).await;
    assert_eq!(server.info().unwrap().protocol_version, "2026-07-28");
    let mut ask = call("ask", json!({}));
    let id = ask.id;
    ask.asks = Some(AskSink::new(move |ask| {
        assert_eq!(ask.call, Some(id));
        assert!(matches!(&ask.question, Question::Form { message, .. } if message == "Who?"));
        ask.answer(Answer::Accepted(Some(json!({ "name": "me" }))));
    }));
    let text = server.call(ask).await.unwrap().text();
    assert_eq!(text, r#""s1" {"action":"accept","content":{"name":"me"}}"#);
}

#[tokio::test]
async fn a_question_that_nobody_takes_is_declined() {
    let server = ready(odd("modern")).await;
    let text = server.call(call("ask", json!({}))).await.unwrap().text();
    assert_eq!(text, r#""s1" {"action":"decline"}"#);
}
