//! Signing in: the three reasons, at the start and during a call.

use std::sync::{Arc, Mutex};

use innkeeper_mcp::{Allowed, Error, Event, Renew, Server, ServerEnv, ServerState, SignIn, SignInReason, Token};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::support::{
    HttpConfig as _, TIMEOUT, call, event, eventually, ready, server_env, settled, started, started_in, until,
};
use innkeeper_testkit::misbehaving_http_server::MisbehavingHttpServer;

fn scopes(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// Signs in as a client of the host would, with the information that it gets.
async fn sign_in(far: &MisbehavingHttpServer, server: &Server, needed: &SignIn) -> String {
    let wanted = needed.required_scopes.clone().unwrap_or_else(|| scopes(&["read"]));
    let token = far.token(&needed.resource.authorization_servers[0], &wanted).await;
    let mut given = Token::new(token.as_str());
    given.scopes = Some(wanted);
    server.sign_in(&needed.resource.resource, given).unwrap();
    token
}

/// A token that grants something.
fn granting(token: String, names: &[&str]) -> Token {
    let mut token = Token::new(token);
    token.scopes = Some(scopes(names));
    token
}

#[tokio::test]
async fn mcp07_a_server_without_a_token_asks_for_a_sign_in_and_starts_after_it() {
    let far = MisbehavingHttpServer::start().await;
    far.set(|behaviour| behaviour.wants_token = true);
    let server = started(far.config());
    let state = settled(&server).await;
    let ServerState::AuthRequired(needed) = state else {
        panic!("{state:?}")
    };
    assert_eq!(needed.reason, SignInReason::Required);
    assert_eq!(needed.resource.resource, far.url());
    assert_eq!(needed.resource.document["resource_name"], "Odd");
    assert_eq!(needed.required_scopes, Some(scopes(&["read"])));
    sign_in(&far, &server, &needed).await;
    until(&server, |state| *state == ServerState::Ready).await;
    assert_eq!(server.call(call("echo", json!({}))).await.unwrap().text(), "echo done");
}

#[tokio::test]
async fn auth10_a_call_that_needs_more_scopes_continues_after_the_sign_in() {
    let far = MisbehavingHttpServer::start().await;
    let server = ready(far.config()).await;
    let mut events = server.events();
    let token = far
        .token(&format!("http://{}/as", far.address), &scopes(&["read"]))
        .await;
    server.sign_in(&far.url(), granting(token, &["read"])).unwrap();
    far.set(|behaviour| behaviour.wants_token = true);

    let admin = call("admin", json!({}));
    let id = admin.id;
    let calling = tokio::spawn({
        let server = server.clone();
        async move { server.call(admin).await }
    });
    let needed = event(&mut events, |event| match event {
        Event::SignInNeeded { call, sign_in } => Some((call, sign_in)),
        _ => None,
    });
    let (of, needed) = needed.await;
    assert_eq!(of, id);
    assert_eq!(needed.reason, SignInReason::InsufficientScope);
    assert_eq!(needed.required_scopes, Some(scopes(&["read", "admin"])));
    assert_eq!(
        server.state(),
        ServerState::Ready,
        "mcp10: the server itself can still be used"
    );
    assert_eq!(server.call(call("echo", json!({}))).await.unwrap().text(), "echo done");

    sign_in(&far, &server, &needed).await;
    assert_eq!(calling.await.unwrap().unwrap().text(), "admin done");
    event(&mut events, |event| {
        matches!(event, Event::SignedIn { call } if call == id).then_some(())
    })
    .await;
}

#[tokio::test]
async fn auth08_a_request_of_an_app_that_needs_a_sign_in_fails_at_once() {
    let far = MisbehavingHttpServer::start().await;
    let server = ready(far.config()).await;
    let token = far
        .token(&format!("http://{}/as", far.address), &scopes(&["read"]))
        .await;
    server.sign_in(&far.url(), granting(token, &["read"])).unwrap();
    far.set(|behaviour| behaviour.wants_token = true);
    let admin = || {
        let allowed = Allowed {
            tools: true,
            ..Allowed::default()
        };
        let params = json!({ "name": "admin" }).as_object().cloned();
        let passing = server.pass(allowed, None, "tools/call", params, CancellationToken::new());
        tokio::time::timeout(TIMEOUT, passing)
    };
    let refused = admin().await.expect("it does not wait").unwrap_err();
    let Error::SignInNeeded { sign_in: needed, .. } = refused else {
        panic!("{refused}")
    };
    assert_eq!(needed.reason, SignInReason::InsufficientScope);
    assert_eq!(needed.required_scopes, Some(scopes(&["read", "admin"])));
    assert_eq!(
        server.state(),
        ServerState::Ready,
        "mcp10: no other session loses the server for it"
    );
    assert_eq!(server.call(call("echo", json!({}))).await.unwrap().text(), "echo done");

    sign_in(&far, &server, &needed).await;
    assert_eq!(server.state(), ServerState::Ready);
    let answer = admin().await.expect("it does not wait").unwrap();
    assert_eq!(answer["content"][0]["text"], "admin done");
}

#[tokio::test]
async fn an_expired_token_is_reported_and_not_shown() {
    let far = MisbehavingHttpServer::start().await;
    far.set(|behaviour| behaviour.wants_token = true);
    let server = started(far.config());
    let ServerState::AuthRequired(needed) = settled(&server).await else {
        panic!()
    };
    let token = sign_in(&far, &server, &needed).await;
    until(&server, |state| *state == ServerState::Ready).await;

    let mut events = server.events();
    far.set(|behaviour| behaviour.tokens.clear());
    let calling = tokio::spawn({
        let server = server.clone();
        async move { server.call(call("echo", json!({}))).await }
    });
    let needed = event(&mut events, |event| match event {
        Event::SignInNeeded { sign_in, .. } => Some(sign_in),
        _ => None,
    });
    let needed = needed.await;
    assert_eq!(needed.reason, SignInReason::Expired);
    assert_eq!(needed.description.as_deref(), Some("[hidden] has expired"));
    let shown = format!("{needed:?} {:?} {server:?}", server.state());
    assert!(!shown.contains(&token), "auth12: {shown}");
    assert!(
        matches!(server.state(), ServerState::AuthRequired(_)),
        "nothing works without a token"
    );

    sign_in(&far, &server, &needed).await;
    assert_eq!(calling.await.unwrap().unwrap().text(), "echo done");
    assert_eq!(server.state(), ServerState::Ready);
}

#[tokio::test]
async fn a_call_waits_while_its_server_waits_for_a_token() {
    let far = MisbehavingHttpServer::start().await;
    far.set(|behaviour| behaviour.wants_token = true);
    let server = started(far.config());
    let mut events = server.events();
    settled(&server).await;
    let calling = tokio::spawn({
        let server = server.clone();
        async move { server.call(call("echo", json!({}))).await }
    });
    let needed = event(&mut events, |event| match event {
        Event::SignInNeeded { sign_in, .. } => Some(sign_in),
        _ => None,
    });
    let needed = needed.await;
    sign_in(&far, &server, &needed).await;
    assert_eq!(calling.await.unwrap().unwrap().text(), "echo done");
    // A list does not wait: users would not see why.
    far.set(|behaviour| behaviour.tokens.clear());
    let refused = server.prompt("a", serde_json::Map::new()).await.unwrap_err();
    assert!(matches!(refused, Error::SignInNeeded { .. }), "{refused}");
}

#[tokio::test]
async fn the_wait_of_a_call_for_a_token_has_a_timeout() {
    let far = MisbehavingHttpServer::start().await;
    let mut config = far.config();
    config.limits.sign_in_time = std::time::Duration::from_millis(50);
    let server = ready(config).await;
    far.set(|behaviour| behaviour.wants_token = true);
    let error = server.call(call("echo", json!({}))).await.unwrap_err();
    assert!(matches!(error, Error::SignInNeeded { .. }), "{error}");
}

#[tokio::test]
async fn mcp05_stopping_a_server_fails_calls_that_wait_for_a_token() {
    let far = MisbehavingHttpServer::start().await;
    let server = ready(far.config()).await;
    let mut events = server.events();
    far.set(|behaviour| behaviour.wants_token = true);
    let calling = tokio::spawn({
        let server = server.clone();
        async move { server.call(call("echo", json!({}))).await }
    });
    event(&mut events, |event| {
        matches!(event, Event::SignInNeeded { .. }).then_some(())
    })
    .await;
    server.stop().await;
    let error = calling.await.unwrap().unwrap_err();
    assert!(matches!(error, Error::NotRunning { .. }), "{error}");
}

#[tokio::test]
async fn t16_a_token_is_sent_to_its_own_server_only() {
    let far = MisbehavingHttpServer::start().await;
    let server = ready(far.config()).await;
    let refused = server
        .sign_in("https://elsewhere.test/mcp", Token::new("s3cr3t-token"))
        .unwrap_err();
    assert_eq!(refused.expected, far.url());
    assert!(!refused.to_string().contains("s3cr3t"));
    server.call(call("echo", json!({}))).await.unwrap();
    let seen = &far.behaviour.lock().unwrap().seen;
    assert!(seen.iter().all(|headers| !headers.contains_key("authorization")));
}

#[tokio::test]
async fn auth12_a_token_that_the_server_repeats_is_hidden() {
    let far = MisbehavingHttpServer::start().await;
    let server = ready(far.config()).await;
    for as_events in [false, true] {
        far.set(|behaviour| behaviour.as_events = as_events);
        server.sign_in(&far.url(), Token::new("s3cr3t-token")).unwrap();
        let outcome = server.call(call("repeat", json!({}))).await.unwrap();
        assert_eq!(outcome.text(), "Bearer [hidden]");
        assert_eq!(outcome.structured, Some(json!({ "sent": "Bearer [hidden]" })));
    }
}

#[tokio::test]
async fn mcp05_a_server_whose_metadata_hangs_can_be_stopped() {
    let far = MisbehavingHttpServer::start().await;
    far.set(|behaviour| {
        behaviour.wants_token = true;
        behaviour.hangs_metadata = true;
    });
    let server = started(far.config());
    eventually(|| far.behaviour.lock().unwrap().hanging > 0).await;
    // Fetching the metadata takes longer than this.
    let stopped = tokio::time::timeout(std::time::Duration::from_secs(5), server.stop()).await;
    assert!(stopped.is_ok());
    assert_eq!(server.state(), ServerState::Stopped);
}

#[tokio::test]
async fn auth05_an_empty_token_signs_out() {
    let far = MisbehavingHttpServer::start().await;
    let server = ready(far.config()).await;
    server.sign_in(&far.url(), Token::new("s3cr3t-token")).unwrap();
    server.call(call("echo", json!({}))).await.unwrap();
    let before = far.behaviour.lock().unwrap().seen.len();
    server.sign_in(&far.url(), Token::new("")).unwrap();
    server.call(call("echo", json!({}))).await.unwrap();
    let behaviour = far.behaviour.lock().unwrap();
    let (earlier, later) = behaviour.seen.split_at(before);
    assert!(earlier.last().unwrap().contains_key("authorization"));
    assert!(later.iter().all(|headers| !headers.contains_key("authorization")));
    assert_eq!(behaviour.sessions.len(), 2, "what was opened with the token was closed");
}

#[tokio::test]
async fn auth10_a_refused_stream_is_opened_again_after_the_sign_in() {
    let far = MisbehavingHttpServer::start().await;
    far.set(|behaviour| {
        behaviour.wants_token = true;
        behaviour.streams = true;
        behaviour.tokens.insert("first".to_owned(), scopes(&["read"]));
    });
    let server = Server::new(far.config(), server_env()).unwrap();
    server.sign_in(&far.url(), Token::new("first")).unwrap();
    server.start(innkeeper_mcp::Start::Blocking);
    eventually(|| far.behaviour.lock().unwrap().opened == 1).await;
    far.set(|behaviour| {
        behaviour.tokens.clear();
        behaviour.tokens.insert("second".to_owned(), scopes(&["read"]));
        behaviour.stream = None;
    });
    eventually(|| far.behaviour.lock().unwrap().refused_streams == 1).await;
    server.sign_in(&far.url(), Token::new("second")).unwrap();
    eventually(|| far.behaviour.lock().unwrap().opened == 2).await;
    assert_eq!(
        far.behaviour.lock().unwrap().sessions.len(),
        1,
        "nothing else was disturbed"
    );
}

#[tokio::test]
async fn t16_only_metadata_of_another_resource_drops_the_token() {
    let far = MisbehavingHttpServer::start().await;
    let around = format!("http://{}", far.address);
    far.set(|behaviour| {
        behaviour.wants_token = true;
        behaviour.resource = Some(around.clone());
    });
    let server = started(far.config());
    let ServerState::AuthRequired(needed) = settled(&server).await else {
        panic!()
    };
    assert_eq!(needed.resource.resource, around);
    assert!(!server.may_be_given_tokens(), "only a user gives it one");
    sign_in(&far, &server, &needed).await;
    until(&server, |state| *state == ServerState::Ready).await;
    assert!(server.may_be_given_tokens(), "the next one as well");

    far.set(|behaviour| {
        behaviour.tokens.clear();
        behaviour.hides_metadata = true;
    });
    let prompt = async || match server.prompt("a", serde_json::Map::new()).await {
        Err(Error::SignInNeeded { sign_in, .. }) => *sign_in,
        other => panic!("{other:?}"),
    };
    let needed = prompt().await;
    assert_eq!(needed.resource.resource, around);
    assert_eq!(needed.reason, SignInReason::Expired);

    far.set(|behaviour| {
        behaviour.hides_metadata = false;
        behaviour.resource = None;
    });
    let needed = prompt().await;
    assert_eq!(needed.resource.resource, far.url());
    assert_eq!(needed.reason, SignInReason::Required);
    let before = far.behaviour.lock().unwrap().seen.len();
    prompt().await;
    let seen = &far.behaviour.lock().unwrap().seen;
    assert!(!seen[before].contains_key("authorization"), "it was for something else");
}

/// The server that is to get tokens.
type Slot = Arc<Mutex<Option<Server>>>;

/// Gives a server the next of these tokens each time it refuses one, and counts the requests.
fn renewing(tokens: &[&str]) -> (ServerEnv, Slot, Arc<Mutex<Vec<String>>>) {
    let (server, asked) = (Arc::new(Mutex::new(None::<Server>)), Arc::new(Mutex::new(Vec::new())));
    let next = Mutex::new(tokens.iter().rev().map(|token| (*token).to_owned()).collect::<Vec<_>>());
    let renew = Renew::new({
        let (server, asked) = (server.clone(), asked.clone());
        move |resource, _| {
            asked.lock().unwrap().push(resource.clone());
            let token = next.lock().unwrap().pop();
            let server = server.lock().unwrap().clone();
            Box::pin(async move {
                let (Some(server), Some(token)) = (server, token) else {
                    return false;
                };
                server.sign_in(&resource, Token::new(token)).is_ok()
            })
        }
    });
    let server_env = ServerEnv {
        renew: Some(renew),
        ..server_env()
    };
    (server_env, server, asked)
}

#[tokio::test]
async fn an_expired_token_is_renewed_before_users_are_asked() {
    let far = MisbehavingHttpServer::start().await;
    far.set(|behaviour| {
        behaviour.wants_token = true;
        behaviour.tokens.insert("second".to_owned(), scopes(&["read"]));
    });
    let (server_env, slot, asked) = renewing(&["second", "third"]);
    let server = Server::new(far.config(), server_env).unwrap();
    *slot.lock().unwrap() = Some(server.clone());
    server.sign_in(&far.url(), Token::new("first")).unwrap();
    let mut events = server.events();
    server.start(innkeeper_mcp::Start::Blocking);
    // At the start.
    let state = settled(&server).await;
    assert_eq!(state, ServerState::Ready);
    assert_eq!(*asked.lock().unwrap(), [far.url()]);
    // And during a call.
    far.set(|behaviour| {
        behaviour.tokens.clear();
        behaviour.tokens.insert("third".to_owned(), scopes(&["read"]));
    });
    assert_eq!(server.call(call("echo", json!({}))).await.unwrap().text(), "echo done");
    assert_eq!(asked.lock().unwrap().len(), 2);
    server.stop().await;
    while let Some(event) = events.next().await {
        let bothers = matches!(
            event,
            Event::SignInNeeded { .. } | Event::State(ServerState::AuthRequired(_))
        );
        assert!(!bothers, "{event:?}");
        if matches!(event, Event::State(ServerState::Stopped)) {
            break;
        }
    }
    *slot.lock().unwrap() = None;
}

#[tokio::test]
async fn a_server_that_accepts_no_token_gets_one_renewal() {
    let far = MisbehavingHttpServer::start().await;
    far.set(|behaviour| behaviour.wants_token = true);
    let (server_env, slot, asked) = renewing(&["a", "b", "c", "d", "e"]);
    let server = Server::new(far.config(), server_env).unwrap();
    *slot.lock().unwrap() = Some(server.clone());
    server.sign_in(&far.url(), Token::new("first")).unwrap();
    server.start(innkeeper_mcp::Start::Blocking);
    let state = settled(&server).await;
    let ServerState::AuthRequired(needed) = state else {
        panic!("{state:?}")
    };
    assert_eq!(needed.reason, SignInReason::Refused, "it never accepted one");
    assert_eq!(asked.lock().unwrap().len(), 1);
    *slot.lock().unwrap() = None;
}

#[tokio::test]
async fn auth06_a_token_on_which_a_server_fails_counts_as_refused() {
    let far = MisbehavingHttpServer::start().await;
    far.set(|behaviour| {
        behaviour.wants_token = true;
        behaviour.fails_on_unknown = true;
    });
    let server = started(far.config());
    let ServerState::AuthRequired(needed) = settled(&server).await else {
        panic!()
    };
    server.sign_in(&far.url(), Token::new("made-up")).unwrap();
    let refused = until(
        &server,
        |state| matches!(state, ServerState::AuthRequired(needed) if needed.reason != SignInReason::Required),
    );
    let ServerState::AuthRequired(refused) = refused.await else {
        panic!()
    };
    assert_eq!((refused.reason, refused.description), (SignInReason::Refused, None));
    sign_in(&far, &server, &needed).await;
    until(&server, |state| *state == ServerState::Ready).await;
    assert_eq!(server.call(call("echo", json!({}))).await.unwrap().text(), "echo done");
}

#[tokio::test]
async fn auth06_a_refused_token_has_expired_only_if_it_was_accepted_before() {
    let far = MisbehavingHttpServer::start().await;
    far.set(|behaviour| behaviour.wants_token = true);
    let server = started(far.config());
    let ServerState::AuthRequired(needed) = settled(&server).await else {
        panic!()
    };
    server.sign_in(&far.url(), Token::new("made-up")).unwrap();
    let refused = until(
        &server,
        |state| matches!(state, ServerState::AuthRequired(needed) if needed.reason != SignInReason::Required),
    );
    let ServerState::AuthRequired(refused) = refused.await else {
        panic!()
    };
    assert_eq!(refused.reason, SignInReason::Refused);
    sign_in(&far, &server, &needed).await;
    until(&server, |state| *state == ServerState::Ready).await;
    far.set(|behaviour| behaviour.tokens.clear());
    let error = server.prompt("a", serde_json::Map::new()).await.unwrap_err();
    let Error::SignInNeeded { sign_in: needed, .. } = error else {
        panic!("{error}")
    };
    assert_eq!(needed.reason, SignInReason::Expired);
}

#[tokio::test]
async fn a_missing_token_is_not_renewed() {
    let far = MisbehavingHttpServer::start().await;
    far.set(|behaviour| behaviour.wants_token = true);
    let (server_env, _, asked) = renewing(&["a"]);
    let server = started_in(far.config(), server_env);
    assert!(matches!(settled(&server).await, ServerState::AuthRequired(_)));
    assert_eq!(asked.lock().unwrap().len(), 0);
}
