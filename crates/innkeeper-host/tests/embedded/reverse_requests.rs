//! Requests from the host to a client: answered, refused, or given up in time.

use std::sync::Arc;
use std::time::Duration;

use ahp_types::messages::JsonRpcError;
use innkeeper_host::reverse_requests::{ClientRequestError, ReverseMethod};
use innkeeper_host::{ClientId, Host, Limits};
use innkeeper_testkit::embedded::{Running, TestAgent};
use innkeeper_testkit::official::OfficialClient;
use innkeeper_testkit::raw::RawClient;
use serde_json::{Map, Value, json};
use tokio_tungstenite::tungstenite::Message;

async fn start() -> Running {
    let limits = Limits {
        reverse_request_time: Duration::from_millis(300),
        reverse_requests: 2,
        ..Limits::default()
    };
    Running::start(Host::builder().agent(TestAgent).limits(limits)).await
}

async fn read(running: &Running, client: &str) -> Result<Value, ClientRequestError> {
    let params = Map::from_iter([("uri".to_owned(), json!("virtual://notes"))]);
    running
        .handle()
        .request_client(&ClientId::new(client), ReverseMethod::ResourceRead, params)
        .await
}

fn is_request(message: &Value) -> bool {
    message["method"] == "resourceRead"
}

#[tokio::test]
async fn trn_18_the_published_client_answers_and_refuses() {
    let running = start().await;
    let client = OfficialClient::connect(&running.address, "first").await;
    let refused = read(&running, "first").await;
    assert!(
        matches!(refused, Err(ClientRequestError::Refused { code: -32601, .. })),
        "{refused:?}"
    );
    client.client().set_server_request_handler(|method, params| async move {
        assert_eq!(params["channel"], "ahp-root://", "TRN-05");
        if method == "resourceRead" {
            Ok(json!({ "data": params["uri"], "encoding": "utf-8" }))
        } else {
            Err(JsonRpcError {
                code: -32009,
                message: "not that one".to_owned(),
                data: None,
            })
        }
    });
    let answer = read(&running, "first").await.expect("answered");
    assert_eq!(answer["data"], "virtual://notes");
    let refused = running
        .handle()
        .request_client(&ClientId::new("first"), ReverseMethod::ResourceWrite, Map::new())
        .await;
    assert_eq!(
        refused,
        Err(ClientRequestError::Refused {
            code: -32009,
            message: "not that one".to_owned()
        })
    );
    client.assert_converged().await;
}

#[tokio::test]
async fn lesson_18_a_client_that_never_answers_is_given_up_in_time() {
    let running = start().await;
    let mut silent = RawClient::initialized(&running.address, "silent").await;
    assert_eq!(read(&running, "silent").await, Err(ClientRequestError::TimedOut));
    let asked = silent.notification("the question", is_request).await;
    // An answer that comes too late answers nothing, and disturbs nothing.
    let late = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": {} });
    silent.send(late.to_string()).await;
    silent.still_works().await;
    assert_eq!(
        read(&running, "unknown").await,
        Err(ClientRequestError::NotConnected(ClientId::new("unknown")))
    );
}

/// The published clients up to 0.5.1 never answer requests of the host, and 0.1 takes none.
#[tokio::test]
async fn lesson_18_clients_of_older_versions_are_waited_for_a_short_time() {
    let limits = Limits {
        reverse_request_time: Duration::from_secs(600),
        unlikely_answer_time: Duration::from_millis(100),
        ..Limits::default()
    };
    let running = Running::start(Host::builder().agent(TestAgent).limits(limits)).await;
    for version in ["0.2.0", "0.5.1"] {
        let mut silent = RawClient::connect(&running.address).await;
        silent.initialize(version, &[version]).await.expect("initialized");
        assert_eq!(
            read(&running, version).await,
            Err(ClientRequestError::TimedOut),
            "{version}"
        );
        silent.notification("the question", is_request).await;
        silent.still_works().await;
    }
    let mut oldest = RawClient::connect(&running.address).await;
    let params = json!({ "clientId": "oldest", "protocolVersion": 1 });
    oldest.call("initialize", params).await.expect("initialized");
    let refused = read(&running, "oldest").await;
    assert!(
        matches!(refused, Err(ClientRequestError::Refused { code: -32601, .. })),
        "{refused:?}"
    );
    // A newer client may take its time.
    let mut newer = RawClient::connect(&running.address).await;
    newer.initialize("newer", &["0.5.2"]).await.expect("initialized");
    let answering = async {
        let asked = newer.notification("the question", is_request).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        let answer = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": { "data": "late" } });
        newer.send(answer.to_string()).await;
    };
    let (outcome, ()) = tokio::join!(read(&running, "newer"), answering);
    assert_eq!(outcome.expect("answered")["data"], "late");
}

#[tokio::test]
async fn trn_19_a_client_that_leaves_is_not_waited_for() {
    let limits = Limits {
        reverse_request_time: Duration::from_secs(600),
        ..Limits::default()
    };
    let running = Running::start(Host::builder().agent(TestAgent).limits(limits)).await;
    let mut leaving = RawClient::initialized(&running.address, "leaving").await;
    let asking = read(&running, "leaving");
    let leave = async {
        leaving.notification("the question", is_request).await;
        drop(leaving);
    };
    let (outcome, ()) = tokio::join!(asking, leave);
    assert_eq!(outcome, Err(ClientRequestError::Disconnected));
}

#[tokio::test]
async fn neg_21_the_newest_connection_is_asked_and_an_older_one_takes_over() {
    let running = start().await;
    let mut older = RawClient::initialized(&running.address, "twin").await;
    let mut newer = RawClient::initialized(&running.address, "twin").await;
    let outcome = tokio::select! {
        outcome = read(&running, "twin") => outcome,
        () = answer_everything(&mut newer, "newer") => unreachable!("it goes on for ever"),
        () = answer_everything(&mut older, "older") => unreachable!("it goes on for ever"),
    };
    assert_eq!(outcome, Ok(json!("newer")));
    newer.send_frame(Message::Close(None)).await;
    newer.end().await;
    // The host may need a moment to see the end of the newer one.
    let outcome = loop {
        let outcome = tokio::select! {
            outcome = read(&running, "twin") => outcome,
            () = answer_everything(&mut older, "older") => unreachable!("it goes on for ever"),
        };
        if outcome != Err(ClientRequestError::Disconnected) {
            break outcome;
        }
    };
    assert_eq!(outcome, Ok(json!("older")));
}

async fn answer_everything(client: &mut RawClient, answer: &str) {
    loop {
        let asked = client.notification("a question", is_request).await;
        let answer = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": answer });
        client.send(answer.to_string()).await;
    }
}

#[tokio::test]
async fn t_10_only_the_connection_that_was_asked_can_answer() {
    let running = Arc::new(start().await);
    let mut asked = RawClient::initialized(&running.address, "asked").await;
    let mut thief = RawClient::initialized(&running.address, "thief").await;
    let asking = read(&running, "asked");
    let stealing = async {
        let question = asked.notification("the question", is_request).await;
        assert!(question["id"].as_u64().is_some(), "TRN-11: {question}");
        let forged = json!({ "jsonrpc": "2.0", "id": question["id"], "result": "forged" });
        thief.send(forged.to_string()).await;
        thief.still_works().await;
        let honest = json!({ "jsonrpc": "2.0", "id": question["id"], "result": "honest" });
        asked.send(honest.to_string()).await;
    };
    let (outcome, ()) = tokio::join!(asking, stealing);
    assert_eq!(outcome, Ok(json!("honest")));
}

#[tokio::test]
async fn too_many_questions_at_once_are_refused_by_the_host_itself() {
    let running = start().await;
    let _silent = RawClient::initialized(&running.address, "silent").await;
    let outcomes = tokio::join!(
        read(&running, "silent"),
        read(&running, "silent"),
        read(&running, "silent")
    );
    let outcomes = [outcomes.0, outcomes.1, outcomes.2];
    let busy = outcomes
        .iter()
        .filter(|outcome| **outcome == Err(ClientRequestError::Busy))
        .count();
    let late = outcomes
        .iter()
        .filter(|outcome| **outcome == Err(ClientRequestError::TimedOut))
        .count();
    assert_eq!((busy, late), (1, 2), "{outcomes:?}");
}
