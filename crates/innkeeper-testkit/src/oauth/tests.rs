//! Refusals of these servers: a scenario that passes with them passes with real ones.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use url::Url;

use super::http::{ask, fields};
use super::user::post;
use super::{AuthorizationServer, MetadataLocation, ProtectedServers, TokenCheck, User, visit};

const RESOURCE: &str = "http://127.0.0.1:2/mcp";
const BACK: &str = "http://127.0.0.1:1/callback";
const VERIFIER: &str = "0123456789012345678901234567890123456789012";

fn needed(server: &AuthorizationServer, scopes: &[&str]) -> Value {
    json!({
        "resource": { "resource": RESOURCE, "authorization_servers": [server.issuer()] }, "requiredScopes": scopes,
    })
}

/// Asks for a code, with other fields than usual; an empty one is left out.
async fn ask_for_code(server: &AuthorizationServer, other: &[(&str, &str)]) -> super::BrowserPage {
    let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(VERIFIER));
    let usual = [
        ("response_type", "code"),
        ("client_id", "known"),
        ("redirect_uri", BACK),
        ("resource", RESOURCE),
        ("scope", "read"),
        ("state", "s"),
        ("code_challenge", &challenge),
        ("code_challenge_method", "S256"),
    ];
    let mut address = Url::parse(&format!("{}/authorize", server.issuer())).unwrap();
    for (name, value) in usual {
        let value = other
            .iter()
            .find(|(changed, _)| *changed == name)
            .map_or(value, |(_, value)| value);
        if !value.is_empty() {
            address.query_pairs_mut().append_pair(name, value);
        }
    }
    visit(address.as_str()).await
}

fn parameter(visited: &super::BrowserPage, name: &str) -> String {
    let back = Url::parse(visited.location.as_deref().expect("sent back")).unwrap();
    fields(back.query().unwrap_or_default().as_bytes())
        .remove(name)
        .unwrap_or_default()
}

async fn code(server: &AuthorizationServer) -> String {
    parameter(&ask_for_code(server, &[]).await, "code")
}

/// Hands a code in, with other fields than usual.
async fn exchange(server: &AuthorizationServer, code: &str, other: &[(&str, &str)]) -> Value {
    let usual = [
        ("grant_type", "authorization_code"),
        ("code", code),
        ("client_id", "known"),
        ("redirect_uri", BACK),
        ("resource", RESOURCE),
        ("code_verifier", VERIFIER),
    ];
    let changed = |(name, value)| {
        other
            .iter()
            .find(|(changed, _)| *changed == name)
            .copied()
            .unwrap_or((name, value))
    };
    let mut form: Vec<(&str, &str)> = usual.map(changed).to_vec();
    form.extend(
        other
            .iter()
            .filter(|(name, _)| usual.iter().all(|(known, _)| known != name)),
    );
    post(&format!("{}/token", server.issuer()), &form).await
}

async fn server() -> AuthorizationServer {
    let server = AuthorizationServer::start().await;
    server.register("known", None, &["http://127.0.0.1/callback"]);
    server.register("other", None, &["http://127.0.0.1/callback"]);
    server.register("secretive", Some("hush &+="), &["http://127.0.0.1/callback"]);
    server
}

#[tokio::test]
async fn a_user_signs_in_at_every_kind_of_server() {
    for path in ["", "/inn"] {
        for is_openid in [false, true] {
            let server = AuthorizationServer::start_below(path).await;
            server.set(|behaviour| behaviour.is_openid = is_openid);
            let granted = User::default().sign_in(&needed(&server, &["read"])).await;
            let good = TokenCheck::Good(vec!["read".to_owned()]);
            assert_eq!(server.look_at(&granted.token, RESOURCE), good);
            assert_eq!(
                server.look_at(&granted.token, "http://127.0.0.1:2/other"),
                TokenCheck::ForAnother
            );
            assert_eq!(server.registrations(), 1);
            assert!(server.secrets().contains(&granted.token));
        }
    }
}

#[tokio::test]
async fn unregistered_redirect_addresses_are_refused() {
    let server = server().await;
    for redirect in [
        "https://evil.test/callback",
        "http://127.0.0.1:1/callback/more",
        "http://localhost:1/callback",
        "",
    ] {
        let visited = ask_for_code(&server, &[("redirect_uri", redirect)]).await;
        assert_eq!((visited.status, visited.location), (400, None), "{redirect}");
    }
    let stranger = ask_for_code(&server, &[("client_id", "stranger")]).await;
    assert_eq!((stranger.status, stranger.location), (400, None));
}

#[tokio::test]
async fn a_code_needs_a_challenge_a_resource_and_consent() {
    let server = server().await;
    for (field, value, error) in [
        ("code_challenge", "", "invalid_request"),
        ("code_challenge_method", "plain", "invalid_request"),
        ("resource", "", "invalid_target"),
        ("resource", "not an address", "invalid_target"),
        ("response_type", "token", "unsupported_response_type"),
    ] {
        let visited = ask_for_code(&server, &[(field, value)]).await;
        assert_eq!(parameter(&visited, "error"), error, "{field}={value}");
        assert_eq!(parameter(&visited, "state"), "s");
        assert_eq!(parameter(&visited, "iss"), server.issuer());
    }
    server.set(|behaviour| behaviour.consents = false);
    assert_eq!(parameter(&ask_for_code(&server, &[]).await, "error"), "access_denied");
}

#[tokio::test]
async fn a_code_works_once_and_only_for_its_client() {
    let server = server().await;
    for (field, value, error) in [
        ("code_verifier", "another-verifier", "invalid_grant"),
        ("redirect_uri", "http://127.0.0.1:9/callback", "invalid_grant"),
        ("client_id", "other", "invalid_grant"),
        ("resource", "http://127.0.0.1:2/other", "invalid_target"),
        ("client_id", "secretive", "invalid_client"),
        ("grant_type", "password", "unsupported_grant_type"),
        ("code", "guessed", "invalid_grant"),
    ] {
        let answer = exchange(&server, &code(&server).await, &[(field, value)]).await;
        assert_eq!(answer["error"], error, "{field}={value}");
    }
    let code_of_mine = code(&server).await;
    let answer = exchange(&server, &code_of_mine, &[]).await;
    let token = answer["access_token"].as_str().unwrap().to_owned();
    assert_eq!(exchange(&server, &code_of_mine, &[]).await["error"], "invalid_grant");
    assert_eq!(
        server.look_at(&token, RESOURCE),
        TokenCheck::Unknown,
        "what came of it is gone"
    );
    let late = code(&server).await;
    server.pass(Duration::from_secs(61));
    assert_eq!(exchange(&server, &late, &[]).await["error"], "invalid_grant");
}

#[tokio::test]
async fn a_client_with_a_secret_proves_itself() {
    let server = server().await;
    let needed = json!({
        "resource": { "resource": RESOURCE, "authorization_servers": [server.issuer()] },
        "oauthClient": { "clientId": "secretive" },
    });
    let user = User {
        client_secret: Some("hush &+=".to_owned()),
    };
    let granted = user.sign_in(&needed).await;
    assert!(matches!(server.look_at(&granted.token, RESOURCE), TokenCheck::Good(_)));
    let visited = ask_for_code(&server, &[("client_id", "secretive")]).await;
    let wrong = [("client_id", "secretive"), ("client_secret", "guessed")];
    let answer = exchange(&server, &parameter(&visited, "code"), &wrong).await;
    assert_eq!(answer["error"], "invalid_client");
}

#[tokio::test]
async fn tokens_expire_are_refreshed_once_and_revoked() {
    let server = server().await;
    let refresh = async |token: &str| {
        let form = [
            ("grant_type", "refresh_token"),
            ("refresh_token", token),
            ("client_id", "known"),
            ("resource", RESOURCE),
        ];
        post(&format!("{}/token", server.issuer()), &form).await
    };
    let text = |answer: &Value, name: &str| answer[name].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned();
    let first = exchange(&server, &code(&server).await, &[]).await;
    assert_eq!((&first["expires_in"], &first["scope"]), (&json!(3600), &json!("read")));
    server.pass(Duration::from_secs(3600));
    assert_eq!(
        server.look_at(&text(&first, "access_token"), RESOURCE),
        TokenCheck::Expired
    );
    let second = refresh(&text(&first, "refresh_token")).await;
    assert!(matches!(
        server.look_at(&text(&second, "access_token"), RESOURCE),
        TokenCheck::Good(_)
    ));
    assert_eq!(refresh(&text(&first, "refresh_token")).await["error"], "invalid_grant");
    assert_eq!(
        server.look_at(&text(&second, "access_token"), RESOURCE),
        TokenCheck::Unknown,
        "one of them may be stolen"
    );
    let third = exchange(&server, &code(&server).await, &[]).await;
    let revoked = text(&third, "refresh_token");
    post(
        &format!("{}/revoke", server.issuer()),
        &[("token", &revoked), ("client_id", "known")],
    )
    .await;
    assert_eq!(
        server.look_at(&text(&third, "access_token"), RESOURCE),
        TokenCheck::Unknown
    );
    assert_eq!(refresh(&revoked).await["error"], "invalid_grant");
}

#[tokio::test]
async fn a_protected_server_reports_a_missing_token_in_three_ways() {
    for metadata_location in [MetadataLocation::Header, MetadataLocation::WellKnown] {
        let server = AuthorizationServer::start().await;
        let protected = ProtectedServers::start(&server, metadata_location).await;
        let url = protected.url("/mcp");
        let challenge = async |token: Option<&str>, tool: &str| {
            let token = token.map(|token| format!("Bearer {token}"));
            let headers: Vec<_> = token.iter().map(|token| ("authorization", token.as_str())).collect();
            let message = json!({ "id": 1, "method": "tools/call", "params": { "name": tool } });
            let (status, headers, _) = ask("POST", &url, &headers, message.to_string()).await;
            let header = headers
                .get("www-authenticate")
                .map(|value| value.to_str().unwrap().to_owned());
            (status, header.unwrap_or_default())
        };
        let good = server.give_out(&url, &["read"]);
        let elsewhere = server.give_out(&protected.url("/other"), &["read"]);
        let (status, header) = challenge(None, "read").await;
        assert_eq!(status, 401);
        assert!(
            header.contains("scope=\"read\"") && !header.contains("error"),
            "{header}"
        );
        assert_eq!(
            header.contains("resource_metadata"),
            metadata_location == MetadataLocation::Header
        );
        for bad in [elsewhere.as_str(), "guessed"] {
            let (status, header) = challenge(Some(bad), "read").await;
            assert!(status == 401 && header.contains("invalid_token"), "{status} {header}");
        }
        let (status, header) = challenge(Some(&good), "admin").await;
        assert!(status == 403 && header.contains("scope=\"admin\""), "{status} {header}");
        assert_eq!(
            challenge(Some(&good), "read").await.0,
            400,
            "it has no session, but may come in"
        );
        let metadata = match metadata_location {
            MetadataLocation::Header => protected.url("/about/mcp"),
            MetadataLocation::WellKnown | MetadataLocation::Around | MetadataLocation::Nowhere => {
                protected.url("/.well-known/oauth-protected-resource/mcp")
            }
        };
        let metadata: Value = serde_json::from_str(&visit(&metadata).await.page).unwrap();
        assert_eq!(metadata["resource"], json!(url));
        assert_eq!(metadata["authorization_servers"], json!([server.issuer()]));
        server.pass(Duration::from_secs(3600));
        let (status, header) = challenge(Some(&good), "read").await;
        assert!(
            status == 401 && header.contains("the token expired"),
            "{status} {header}"
        );
        assert_eq!(protected.received("/mcp").len(), 6);
        assert!(protected.received("/other").is_empty());
    }
}
