//! Signing in to MCP servers end to end: the real program, a real authorization server, and servers that need its
//! tokens.

use std::time::Duration;

use ahp::ClientError;
use innkeeper_testkit::oauth::{AuthorizationServer, MetadataLocation, ProtectedServers, Received, SignInResult, User};
use innkeeper_testkit::official::{OfficialClient, View, markdown, tool_calls_of};
use innkeeper_testkit::process::HostOptions;
use serde_json::{Value, json};

use crate::mcp::support::{McpHost, PROGRAM, find};

/// `SessionStatus.InputNeeded`.
const INPUT_NEEDED: u32 = 24;

/// A host with servers that need a sign-in.
pub(crate) struct Inn {
    pub(crate) login: AuthorizationServer,
    servers: ProtectedServers,
    pub(crate) scene: McpHost,
}

impl Inn {
    /// A session with the server `far`, which needs a sign-in.
    pub(crate) async fn locked() -> Self {
        Self::declaring(
            MetadataLocation::Header,
            |url| json!({ "far": { "type": "http", "url": url("/mcp") } }),
        )
        .await
    }

    pub(crate) async fn declaring(
        pointing: MetadataLocation,
        declare: impl Fn(&dyn Fn(&str) -> String) -> Value,
    ) -> Self {
        Self::on(HostOptions::new(PROGRAM), pointing, declare).await
    }

    pub(crate) async fn on(
        options: HostOptions,
        pointing: MetadataLocation,
        declare: impl Fn(&dyn Fn(&str) -> String) -> Value,
    ) -> Self {
        let login = AuthorizationServer::start().await;
        let servers = ProtectedServers::start(&login, pointing).await;
        let declared = declare(&|path| servers.url(path));
        let options = options.environment("RUST_LOG", "trace");
        let scene = McpHost::declaring(&declared, options).await;
        Self { login, servers, scene }
    }

    /// The same, signed in to what `read` needs.
    pub(crate) async fn open() -> Self {
        let inn = Self::locked().await;
        let needed = inn.needed("far").await;
        give(&inn.scene.client, &User::default().sign_in(&needed).await).await;
        inn.scene.named_is("far", "ready").await;
        inn
    }

    /// Returns the required sign-in of a server.
    pub(crate) async fn needed(&self, name: &str) -> Value {
        self.scene.named_is(name, "authRequired").await["state"].clone()
    }

    /// Starts an approved call, and waits until it needs a sign-in. Returns the wait.
    pub(crate) async fn waiting_call(&self, turn: &str, what: &str) -> Value {
        let (client, uris) = (&self.scene.client, &self.scene.uris);
        client.start_turn(&uris.chat, turn, &format!("/mcp {what}")).await;
        let wait = client.wait_for(&uris.session, "toolConfirmation").await;
        client.decide(&wait, json!({ "approved": true })).await;
        client.wait_for(&uris.session, "toolAuthentication").await
    }

    pub(crate) async fn answer(&self, turn: &str) -> String {
        let turn = self.scene.client.turn_end(&self.scene.uris.chat, turn).await;
        markdown(&turn.response_parts)
    }

    fn status(&self) -> u32 {
        let view = self.scene.client.view();
        let session = view.session(&self.scene.uris.session).expect("the session");
        serde_json::from_value(json!(session.status)).expect("a number")
    }

    /// Checks that no secret is in state or log (AUTH-12).
    pub(crate) async fn assert_discreet(self) {
        let secrets = self.login.secrets();
        assert!(!secrets.is_empty());
        let client = &self.scene.client;
        client.assert_converged().await;
        let seen = {
            let view = client.view();
            let channels = view.channels();
            let states: Vec<Value> = channels.iter().map(|channel| view.comparable(channel)).collect();
            format!("{states:?} {:?} {:?}", view.actions, view.notifications)
        };
        let stopped = self.scene.host.stop().await;
        assert!(stopped.log.len() > 100, "something was logged");
        // A required sign-in is no error, and the state shows it.
        assert!(!stopped.log.contains("rmcp::transport::worker"), "{}", stopped.log);
        for secret in secrets {
            assert!(!seen.contains(&secret), "a client saw a secret");
            assert!(!stopped.log.contains(&secret), "a secret was logged");
        }
    }
}

async fn give(client: &OfficialClient, granted: &SignInResult) {
    let answer: Value = client
        .request("authenticate", granted.authenticate())
        .await
        .expect("accepted");
    assert_eq!(answer, json!({}));
}

#[tokio::test]
async fn mcp07_mcp08_auth10_a_server_is_ready_after_the_sign_in_it_requires() {
    for pointing in [MetadataLocation::Header, MetadataLocation::WellKnown] {
        let inn = Inn::declaring(pointing, |url| json!({ "far": { "type": "http", "url": url("/mcp") } })).await;
        let needed = inn.needed("far").await;
        let expected = json!({
            "kind": "authRequired", "reason": "required", "requiredScopes": ["read"],
            "resource": {
                "resource": inn.servers.url("/mcp"), "authorization_servers": [inn.login.issuer()],
                "scopes_supported": ["read", "admin"], "bearer_methods_supported": ["header"],
                "resource_name": "The register of the inn",
            },
        });
        assert_eq!(needed, expected);
        give(&inn.scene.client, &User::default().sign_in(&needed).await).await;
        inn.scene.named_is("far", "ready").await;
        let words = inn.scene.call("t1", "far read {}").await;
        assert!(words.contains("read done"), "{words}");
        inn.assert_discreet().await;
    }
}

#[tokio::test]
async fn mcp07_a_token_that_expired_is_asked_for_again() {
    let inn = Inn::open().await;
    inn.login.pass(Duration::from_secs(3600));
    let wait = inn.waiting_call("t1", "far read {}").await;
    let needed = inn.needed("far").await;
    assert_eq!(needed["reason"], "expired");
    assert_eq!(needed["requiredScopes"], json!(["read"]));
    assert_eq!(needed["description"], "the token expired");
    assert_eq!(wait["toolCall"]["auth"]["reason"], "expired");
    give(&inn.scene.client, &User::default().sign_in(&needed).await).await;
    inn.scene.named_is("far", "ready").await;
    let words = inn.answer("t1").await;
    assert!(words.contains("read done"), "{words}");
    inn.scene.client.nothing_waits(&inn.scene.uris.session).await;
    inn.assert_discreet().await;
}

#[tokio::test]
async fn mcp09_mcp10_auth10_a_call_continues_after_another_client_signed_in() {
    let inn = Inn::open().await;
    let other = OfficialClient::connect(inn.scene.host.address(), "other").await;
    other.join(&inn.scene.uris.session).await;
    let wait = inn.waiting_call("t1", "far admin {}").await;
    assert_eq!(inn.status() & INPUT_NEEDED, INPUT_NEEDED, "MCP-09");
    let auth = &wait["toolCall"]["auth"];
    assert_eq!(auth["reason"], "insufficientScope");
    assert_eq!(auth["requiredScopes"], json!(["read", "admin"]));
    // The server shows the same while the call waits, with the reason and the scopes (MCP-07).
    inn.scene.named_is("far", "authRequired").await;
    let state = &inn.scene.named("far")["state"];
    assert_eq!(state["reason"], "insufficientScope", "{state}");
    assert_eq!(state["requiredScopes"], json!(["read", "admin"]), "{state}");
    assert_eq!(state["resource"], auth["resource"], "{state}");
    assert_eq!(
        other.wait_for(&inn.scene.uris.session, "toolAuthentication").await,
        wait
    );
    give(&other, &User::default().sign_in(auth).await).await;
    let words = inn.answer("t1").await;
    assert!(words.contains("admin done"), "{words}");
    inn.scene.named_is("far", "ready").await;
    // The server asked for the missing scope; the user was asked for it and the earlier scopes.
    let words = inn.scene.call("t2", "far read {}").await;
    assert!(words.contains("read done"), "{words}");
    for client in [&inn.scene.client, &other] {
        client.nothing_waits(&inn.scene.uris.session).await;
    }
    assert_ne!(inn.status() & INPUT_NEEDED, INPUT_NEEDED);
    let actions = inn.scene.client.view().actions_on(&inn.scene.uris.chat);
    let kinds: Vec<&str> = actions.iter().filter_map(|action| action["type"].as_str()).collect();
    let place = |kind: &str| kinds.iter().position(|other| *other == kind);
    let (asked, resolved) = (place("chat/toolCallAuthRequired"), place("chat/toolCallAuthResolved"));
    assert!(asked.is_some() && asked < resolved, "{kinds:?}");
    inn.assert_discreet().await;
}

#[tokio::test]
async fn auth08_an_app_call_that_needs_more_is_refused_with_the_scopes() {
    let inn = Inn::open().await;
    let host = inn.scene.host.address();
    let session = &inn.scene.uris.session;
    let view = OfficialClient::connect_with_apps(host, "view").await;
    view.join(session).await;
    let shown = || find(&view.view(), session, "far");
    let channel = shown()["channel"].clone();
    assert!(channel.is_string(), "{}", shown());
    let call = |name: &str| json!({ "channel": channel, "name": name, "arguments": {} });
    let read: Value = view.request("tools/call", call("read")).await.expect("called");
    assert_eq!(read["content"][0]["text"], "read done");
    let refused = view.request::<Value>("tools/call", call("admin")).await;
    let Err(ClientError::Rpc(refused)) = refused else {
        panic!("not refused: {refused:?}");
    };
    assert_eq!(refused.code, -32007, "{refused:?}");
    let data = json!(refused.data);
    assert_eq!(data["resources"][0]["resource"], json!(inn.servers.url("/mcp")));
    let auth = &data["_meta"]["innkeeper.auth"];
    assert_eq!(auth["reason"], "insufficientScope", "{data}");
    assert_eq!(auth["requiredScopes"], json!(["read", "admin"]), "{data}");
    // The error alone is enough to sign in, and then the App's call succeeds.
    let needed = json!({ "resource": data["resources"][0], "requiredScopes": auth["requiredScopes"] });
    give(&view, &User::default().sign_in(&needed).await).await;
    let is_ready = |view: &View| find(view, session, "far")["state"]["kind"] == "ready";
    view.until("far is ready with the new token", is_ready).await;
    let call = json!({ "channel": shown()["channel"], "name": "admin", "arguments": {} });
    let done: Value = view.request("tools/call", call).await.expect("called");
    assert_eq!(done["content"][0]["text"], "admin done");
    inn.assert_discreet().await;
}

#[tokio::test]
async fn mcp09_a_call_is_cancelled_while_it_waits_for_a_sign_in() {
    let inn = Inn::open().await;
    inn.waiting_call("t1", "far admin {}").await;
    let cancelled = json!({ "type": "chat/turnCancelled", "turnId": "t1", "duration": 0 });
    let (client, uris) = (&inn.scene.client, &inn.scene.uris);
    client.dispatch(&uris.chat, cancelled).await;
    let turn = client.turn_end(&uris.chat, "t1").await;
    assert_eq!(tool_calls_of(&turn)[0]["status"], "cancelled");
    client.nothing_waits(&uris.session).await;
    assert_ne!(inn.status() & INPUT_NEEDED, INPUT_NEEDED);
    inn.scene.named_is("far", "ready").await;
    let words = inn.scene.call("t2", "far read {}").await;
    assert!(words.contains("read done"), "what it had before is still good: {words}");
    inn.assert_discreet().await;
}

#[tokio::test]
async fn mcp05_stopping_a_server_ends_its_pending_sign_ins() {
    let inn = Inn::open().await;
    inn.waiting_call("t1", "far admin {}").await;
    inn.scene.demand("Stop").await;
    let turn = inn.scene.client.turn_end(&inn.scene.uris.chat, "t1").await;
    let call = tool_calls_of(&turn).remove(0);
    assert_eq!(call["success"], false, "{call}");
    assert_eq!(
        call["error"]["message"],
        "the MCP server was stopped while users were asked to sign in to it"
    );
    inn.scene.named_is("far", "stopped").await;
    inn.scene.client.nothing_waits(&inn.scene.uris.session).await;
    assert_ne!(inn.status() & INPUT_NEEDED, INPUT_NEEDED);
    // After a restart it needs no sign-in: its token works for everything else.
    inn.scene.demand("Start").await;
    inn.scene.named_is("far", "ready").await;
    inn.assert_discreet().await;
}

#[tokio::test]
async fn mcp05_a_server_that_waits_for_a_sign_in_is_stopped_and_started() {
    let inn = Inn::locked().await;
    inn.needed("far").await;
    inn.scene.demand("Stop").await;
    inn.scene.named_is("far", "stopped").await;
    inn.scene.demand("Start").await;
    let needed = inn.needed("far").await;
    give(&inn.scene.client, &User::default().sign_in(&needed).await).await;
    inn.scene.named_is("far", "ready").await;
    inn.assert_discreet().await;
}

#[tokio::test]
async fn auth04_auth12_a_token_goes_to_its_server_and_no_other_of_the_same_host() {
    let inn = Inn::declaring(MetadataLocation::WellKnown, |url| {
        json!({
            "far": { "type": "http", "url": url("/mcp") }, "below": { "type": "http", "url": url("/mcp/below") },
            "beside": { "type": "http", "url": url("/other") },
        })
    })
    .await;
    let client = &inn.scene.client;
    let needed = inn.needed("far").await;
    for name in ["below", "beside"] {
        inn.needed(name).await;
    }
    let mut granted = User::default().sign_in(&needed).await;
    let mine = granted.resource.clone();
    for wrong in [
        inn.servers.url("/nothing"),
        format!("{mine}/"),
        format!("{mine}?x"),
        mine.to_uppercase(),
        "http://127.0.0.1:1/mcp".to_owned(),
    ] {
        granted.resource.clone_from(&wrong);
        let refused: Result<Value, ClientError> = client.request("authenticate", granted.authenticate()).await;
        let refused = refused.expect_err(&wrong).to_string();
        assert!(refused.contains("nothing on this host asks"), "{refused}");
        assert!(!refused.contains(&granted.token), "AUTH-12");
    }
    granted.resource = mine;
    give(client, &granted).await;
    inn.scene.named_is("far", "ready").await;
    // Its own: the first request that they get after the other has its token says that they have none.
    for name in ["below", "beside"] {
        let needed = inn.needed(name).await;
        give(client, &User::default().sign_in(&needed).await).await;
        inn.scene.named_is(name, "ready").await;
    }
    let with = |path: &str| -> Vec<Received> {
        let received = inn.servers.received(path).into_iter();
        received
            .filter(|one| one.token.as_ref() == Some(&granted.token))
            .collect()
    };
    assert!(!with("/mcp").is_empty());
    for path in ["/mcp/below", "/other"] {
        assert!(!inn.servers.received(path).is_empty());
        assert!(with(path).is_empty(), "{path} got a token that is not its own");
    }
    inn.assert_discreet().await;
}

#[tokio::test]
async fn t16_a_server_that_claims_a_foreign_resource_does_not_get_its_token() {
    let inn = Inn::declaring(MetadataLocation::Around, |url| {
        json!({
            "good": { "type": "http", "url": url("/good/mcp") }, "evil": { "type": "http", "url": url("/evil/mcp") },
        })
    })
    .await;
    let (good, evil) = (inn.needed("good").await, inn.needed("evil").await);
    assert_eq!(good["resource"]["resource"], json!(inn.servers.url("/")));
    assert_eq!(evil["resource"]["resource"], json!(inn.servers.url("/evil/mcp")));
    // Both ask at once, and the user signs in to the good one.
    let granted = User::default().sign_in(&good).await;
    give(&inn.scene.client, &granted).await;
    inn.scene.named_is("good", "ready").await;
    // Its own, so that it is known to have begun anew.
    give(&inn.scene.client, &User::default().sign_in(&evil).await).await;
    inn.scene.named_is("evil", "ready").await;
    let has_it = |received: &Received| received.token.as_ref() == Some(&granted.token);
    assert!(inn.servers.received("/good/mcp").iter().any(has_it));
    assert!(!inn.servers.received("/evil/mcp").iter().any(has_it));
    inn.assert_discreet().await;
}

#[tokio::test]
async fn mcp21_a_preregistered_client_id_is_published_without_its_secret() {
    const SECRET: &str = "s3cr3t-of-the-registered-client";
    let inn = Inn::declaring(MetadataLocation::Header, |url| {
        let oauth = json!({ "clientId": "inn-desk", "clientSecret": SECRET });
        json!({ "far": { "type": "http", "url": url("/mcp"), "oauth": oauth } })
    })
    .await;
    inn.login
        .register("inn-desk", Some(SECRET), &["http://127.0.0.1/callback"]);
    inn.login.set(|behaviour| behaviour.registers = false);
    let needed = inn.needed("far").await;
    assert_eq!(needed["oauthClient"], json!({ "clientId": "inn-desk" }));
    let user = User {
        client_secret: Some(SECRET.to_owned()),
    };
    give(&inn.scene.client, &user.sign_in(&needed).await).await;
    inn.scene.named_is("far", "ready").await;
    assert!(inn.login.secrets().contains(&SECRET.to_owned()));
    inn.assert_discreet().await;
}

#[tokio::test]
async fn auth05_auth11_a_token_is_too_narrow_or_taken_back() {
    let inn = Inn::locked().await;
    let needed = inn.needed("far").await;
    inn.login.set(|behaviour| behaviour.grants_at_most = Some(Vec::new()));
    let narrow = User::default().sign_in(&needed).await;
    let client = &inn.scene.client;
    let refused: Result<Value, ClientError> = client.request("authenticate", narrow.authenticate()).await;
    let refused = refused.expect_err("too narrow").to_string();
    assert!(
        refused.contains("scopes read") && !refused.contains(&narrow.token),
        "{refused}"
    );
    inn.login.set(|behaviour| behaviour.grants_at_most = None);
    let granted = User::default().sign_in(&needed).await;
    give(client, &granted).await;
    inn.scene.named_is("far", "ready").await;
    let back = json!({ "channel": "ahp-root://", "resource": granted.resource, "token": "" });
    let _: Value = client.request("authenticate", back).await.expect("taken back");
    let needed = inn.needed("far").await;
    assert_eq!(
        needed["reason"], "required",
        "a user who signs out has to sign in again"
    );
    give(client, &User::default().sign_in(&needed).await).await;
    inn.scene.named_is("far", "ready").await;
    let words = inn.scene.call("t1", "far read {}").await;
    assert!(words.contains("read done"), "{words}");
    inn.assert_discreet().await;
}
