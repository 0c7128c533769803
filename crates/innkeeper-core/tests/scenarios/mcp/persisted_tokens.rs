//! Tokens that are persisted, and tokens that are refreshed (AUTH-04 to AUTH-07, T21).

use innkeeper_core::agent::Secret;
use innkeeper_core::mcp::{ClientAuth, ServerFacts, StoredTokenInfo, TokenRefresh};
use innkeeper_core::request::Authenticate;

use super::signing_in::{RESOURCE, TOKEN, driver, sign_in};
use super::*;

fn keeping() -> (Stage, ConnId) {
    let config = CoreConfig {
        persists_mcp_tokens: true,
        ..config()
    };
    let (stage, conn, _) = Stage::serving_with(config, json!([server("top")]));
    (stage, conn)
}

fn kept(given_by: &str, expires_in: Option<u64>) -> StoredTokenInfo {
    StoredTokenInfo {
        resource: RESOURCE.to_owned(),
        given_by: given_by.to_owned(),
        expires_in,
        authorization_servers: vec!["https://login.example.com".to_owned()],
        scopes: None,
    }
}

fn refreshing(endpoint: &str) -> Authenticate {
    Authenticate {
        resource: RESOURCE.to_owned(),
        token: Secret::new(TOKEN),
        expires_in: Some(60),
        scopes: None,
        refresh: Some(Box::new(TokenRefresh {
            refresh_token: Some(Secret::new("refresh-token")),
            token_endpoint: endpoint.to_owned(),
            revocation_endpoint: None,
            client_id: "client".to_owned(),
            client_secret: None,
            client_auth: ClientAuth::None,
        })),
    }
}

#[test]
fn auth07_a_kept_token_outlives_its_giver_and_is_anybodys_then() {
    let (mut stage, _) = keeping();
    let (ann, bob) = (driver(&mut stage, "ann"), driver(&mut stage, "bob"));
    stage.does("top", sign_in(&[]));
    stage.signs_in_to(ann, RESOURCE, TOKEN, None);
    stage.does("top", ready());
    assert_eq!(error(&stage.signs_in_to(bob, RESOURCE, "", None)).0, -32009);
    stage.disconnect(ann);
    stage.pass(config().grace_ms - 1);
    assert_eq!(error(&stage.signs_in_to(bob, RESOURCE, "bobs", None)).0, -32009);
    stage.pass(1);
    assert_eq!(stage.tokens().len(), 1, "it stays");
    let answer = stage.signs_in_to(bob, RESOURCE, "", None);
    assert_eq!(answer["result"], json!({}), "{answer}");
    assert_eq!(stage.tokens()[1..], [(RESOURCE, None)]);
}

#[test]
fn auth04_a_persisted_token_can_be_revoked_without_a_request_for_it() {
    let (mut stage, conn) = keeping();
    let now = stage.now;
    stage.core.restore_server_tokens(now, vec![kept("gone", None)]);
    assert_eq!(stage.tokens(), [], "the service that persisted it has it");
    let answer = stage.signs_in_to(conn, RESOURCE, "", None);
    assert_eq!(answer["result"], json!({}), "{answer}");
    assert_eq!(stage.tokens(), [(RESOURCE, None)]);
    let answer = stage.signs_in_to(conn, RESOURCE, "", None);
    assert_eq!(error(&answer).0, -32602, "there is none any more");
}

#[test]
fn auth06_a_kept_token_expires_when_it_would_have() {
    let (mut stage, _) = keeping();
    let now = stage.now;
    let mut odd = kept("", None);
    odd.resource.push('x');
    stage.core.restore_server_tokens(now, vec![kept("gone", Some(60)), odd]);
    stage.pass(59_999);
    assert_eq!(stage.tokens(), []);
    stage.pass(1);
    assert_eq!(stage.tokens(), [(RESOURCE, None)]);
}

#[test]
fn auth06_the_core_does_not_expire_a_refreshed_token() {
    let (mut stage, conn) = keeping();
    stage.does("top", sign_in(&[]));
    let refreshing = refreshing("https://login.example.com/token");
    let refresh = refreshing.refresh.clone();
    let answer = stage.request(conn, Command::Authenticate(Box::new(refreshing)));
    assert_eq!(answer["result"], json!({}), "{answer}");
    let handed = stage.tokens()[0].1.cloned().expect("a token");
    assert_eq!((handed.refresh, handed.expires_in), (refresh, Some(60)));
    stage.does("top", ready());
    stage.pass(120_000);
    assert_eq!(stage.tokens().len(), 1);
    let shown = format!("{:?} {}", stage.agent, stage.state(SESSION));
    assert!(!shown.contains("refresh-token") && !shown.contains(TOKEN), "{shown}");
}

#[test]
fn auth06_a_token_lost_by_its_owner_is_not_reported_and_the_next_one_is() {
    let (mut stage, conn) = keeping();
    stage.does("top", sign_in(&[]));
    let give = || Command::Authenticate(Box::new(refreshing("https://login.example.com/token")));
    let facts = || {
        let resource = Some(RESOURCE.to_owned());
        ServerReport::Facts(ServerFacts {
            resource,
            tools: 1,
            ..ServerFacts::default()
        })
    };
    let lost = |number| Input::McpTokenLost {
        resource: RESOURCE.to_owned(),
        number,
    };
    stage.request(conn, give());
    let attempt = stage.attempt("top");
    stage.reports("top", attempt, facts());
    stage.does("top", ready());
    assert_eq!(stage.server("top")["_meta"]["innkeeper.tokenKept"], true);
    stage.handle(lost(1));
    assert_eq!(stage.server("top")["_meta"], json!({ "innkeeper.tools": 1 }));
    let answer = stage.signs_in_to(conn, RESOURCE, "", None);
    assert_eq!(error(&answer).0, -32602, "there is none to take back");
    // A user signs in again before the loss of the first token is reported once more.
    stage.does("top", sign_in(&[]));
    stage.request(conn, give());
    stage.reports("top", attempt, facts());
    stage.handle(lost(1));
    assert_eq!(stage.server("top")["_meta"]["innkeeper.tokenKept"], true);
    assert_eq!(stage.tokens().len(), 2, "a dropped token is not dropped again");
}

#[test]
fn t21_a_token_is_refreshed_at_an_authorization_server_of_its_resource() {
    let (mut stage, conn) = keeping();
    stage.does("top", sign_in(&[]));
    let elsewhere = || Command::Authenticate(Box::new(refreshing("https://elsewhere.example/token")));
    let answer = stage.request(conn, elsewhere());
    let (code, message) = error(&answer);
    assert_eq!(code, -32602);
    assert!(
        message.contains("innkeeper.refresh") && message.contains("tokenEndpoint"),
        "{message}"
    );
    assert_eq!(stage.tokens(), []);
    // Also when no server asks any more, and the host was restarted.
    let now = stage.now;
    stage.core.restore_server_tokens(now, vec![kept("gone", None)]);
    stage.does("top", ready());
    let answer = stage.request(conn, elsewhere());
    assert_eq!(error(&answer).0, -32602);
    let there = refreshing("https://login.example.com/token");
    let answer = stage.request(conn, Command::Authenticate(Box::new(there)));
    assert_eq!(answer["result"], json!({}), "{answer}");
}
