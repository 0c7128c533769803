use innkeeper_host::agent::Secret;
use innkeeper_host::mcp::{ClientAuth, McpServers as _, ServerToken, TokenChange, TokenRefresh};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::hosted::{McpRunner, RunnerSettings};

const RESOURCE: &str = "https://mcp.test/";

/// A host with a token, and the authorization server of the token.
struct SignedInHost {
    runner: McpRunner,
    authorization_server: TcpListener,
}

impl SignedInHost {
    async fn signed_in() -> Self {
        let authorization_server = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = authorization_server.local_addr().unwrap();
        let runner = McpRunner::new(RunnerSettings::default());
        let given = ServerToken {
            secret: Secret::new("first-token"),
            scopes: None,
            expires_in: None,
            number: 7,
            given_by: "ann".to_owned(),
            authorization_servers: Vec::new(),
            refresh: Some(Box::new(TokenRefresh {
                refresh_token: Some(Secret::new("first-refresh")),
                token_endpoint: format!("http://{address}/token"),
                revocation_endpoint: Some(format!("http://{address}/revoke")),
                client_id: "client".to_owned(),
                client_secret: None,
                client_auth: ClientAuth::None,
            })),
        };
        runner.shared.tokens.set(RESOURCE, given);
        Self {
            runner,
            authorization_server,
        }
    }

    /// Asks for another token, and stops waiting once the authorization server got the request.
    async fn asks_and_leaves(&self) -> (TcpStream, String) {
        let shared = &self.runner.shared;
        tokio::select! {
            request = self.next_request() => request,
            _ = shared.renew(RESOURCE, Some(Token::new("first-token"))) => unreachable!("no answer was sent"),
        }
    }

    /// Returns the next request to the authorization server.
    async fn next_request(&self) -> (TcpStream, String) {
        let (mut stream, _) = self.authorization_server.accept().await.unwrap();
        let mut request = String::new();
        // The form comes last, and the client is its last field.
        while !request.contains("client_id=client") {
            let mut piece = [0; 1024];
            let read = stream.read(&mut piece).await.unwrap();
            assert_ne!(read, 0, "{request}");
            request.push_str(&String::from_utf8_lossy(&piece[..read]));
        }
        (stream, request)
    }
}

async fn grants(mut stream: TcpStream) {
    let body = r#"{"access_token":"next-token","token_type":"Bearer","refresh_token":"next-refresh"}"#;
    let answer = format!(
        "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(answer.as_bytes()).await.unwrap();
}

#[tokio::test]
async fn auth10_a_renewal_goes_on_when_the_caller_is_cancelled() {
    let scene = SignedInHost::signed_in().await;
    let (stream, _) = scene.asks_and_leaves().await;
    grants(stream).await;
    let shared = &scene.runner.shared;
    shared.tasks.close();
    shared.tasks.wait().await;
    let held = shared.tokens.get(RESOURCE).unwrap();
    assert_eq!(held.saved.token, "next-token");
    assert_eq!(held.saved.refresh.unwrap().refresh_token.unwrap(), "next-refresh");
}

#[tokio::test]
async fn auth05_a_token_that_is_granted_after_signing_out_is_revoked() {
    let scene = SignedInHost::signed_in().await;
    let (stream, _) = scene.asks_and_leaves().await;
    drop(scene.runner.set_token(RESOURCE, TokenChange::TakenBack));
    let (mut of_the_first, request) = scene.next_request().await;
    assert!(
        request.contains("POST /revoke") && request.contains("first-refresh"),
        "{request}"
    );
    let _ = of_the_first.shutdown().await;
    grants(stream).await;
    let (_, request) = scene.next_request().await;
    assert!(
        request.contains("POST /revoke") && request.contains("next-refresh"),
        "{request}"
    );
    assert!(scene.runner.shared.tokens.get(RESOURCE).is_none());
}
