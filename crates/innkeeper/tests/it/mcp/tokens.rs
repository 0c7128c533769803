//! Server tokens: persisted for later sessions and the next start, refreshed, revoked, and in no readable file, log or
//! state.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use innkeeper_testkit::logs::{LogListener, ReceivedRecord};
use innkeeper_testkit::official::{OfficialClient, SessionUris, View, markdown};
use innkeeper_testkit::process::{HostOptions, HostProcess, TIMEOUT};
use innkeeper_testkit::raw::RawClient;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::mcp::support::{PROGRAM, allow, find, shown, workspace};
use innkeeper_testkit::misbehaving_http_server::MisbehavingHttpServer;

/// The token of a sign-in, and its refresh data.
const CANARY: &str = "canary-token-5bd1";
const REFRESH_CANARY: &str = "canary-refresh-90fe";

/// A host with a server far away that wants a token.
struct Far {
    server: MisbehavingHttpServer,
    host: HostProcess,
    client: OfficialClient,
    uris: SessionUris,
    directory: TempDir,
}

impl Far {
    /// A session whose server waits for a sign-in.
    async fn waiting(options: HostOptions) -> Self {
        let server = MisbehavingHttpServer::start().await;
        server.set(|behaviour| {
            behaviour.wants_token = true;
            behaviour.tokens.insert(CANARY.to_owned(), vec!["read".to_owned()]);
            let scopes = vec!["read".to_owned()];
            behaviour.refresh_tokens.insert(REFRESH_CANARY.to_owned(), scopes);
        });
        let directory = tempfile::tempdir().expect("a directory");
        fs::create_dir(directory.path().join("w")).expect("made");
        let file = json!({ "mcpServers": { "far": { "type": "http", "url": server.url() } } });
        fs::write(workspace(&directory).join(".mcp.json"), file.to_string()).expect("written");
        let host = HostProcess::start(options).await;
        let client = OfficialClient::connect(host.address(), "first").await;
        let uris = session(&client, "first", &directory).await;
        let far = Self {
            server,
            host,
            client,
            uris,
            directory,
        };
        // It asks first whether it may run.
        far.server_is("error").await;
        allow(&far.host, &workspace(&far.directory));
        far.server_is("authRequired").await;
        far
    }

    /// A session whose server has a token.
    async fn signed_in(options: HostOptions, more: Value) -> Self {
        let far = Self::waiting(options).await;
        far.authenticate(CANARY, more).await;
        far.server_is("ready").await;
        far
    }

    async fn authenticate(&self, token: &str, more: Value) {
        let mut params = json!({ "channel": "ahp-root://", "resource": self.server.url(), "token": token });
        for (name, value) in more.as_object().into_iter().flatten() {
            params[name] = value.clone();
        }
        let _: Value = self.client.request("authenticate", params).await.expect("taken");
    }

    async fn server_is(&self, kind: &str) -> Value {
        server_is(&self.client, &self.uris, kind).await
    }

    /// Calls a tool with approval, and expects success.
    async fn echo(&self, turn: &str) {
        self.client.start_turn(&self.uris.chat, turn, "/mcp far echo {}").await;
        let wait = self.client.wait_for(&self.uris.session, "toolConfirmation").await;
        self.client.decide(&wait, json!({ "approved": true })).await;
        let ended = self.client.turn_end(&self.uris.chat, turn).await;
        let words = markdown(&ended.response_parts);
        assert!(words.contains("echo done"), "{words}");
    }

    /// Waits until the sealed file holds something, or nothing any more.
    async fn is_kept(&self, is_kept: bool) {
        eventually(|| self.host.data_path("mcp-tokens").exists() == is_kept).await;
    }

    /// Kills the host, starts it again, and opens another session in the same place.
    async fn killed_and_started(self) -> Self {
        let host = self.host.kill_and_restart().await;
        let client = OfficialClient::connect(host.address(), "later").await;
        let name = format!("later-{}", host.pid());
        let uris = session(&client, &name, &self.directory).await;
        Self {
            host,
            client,
            uris,
            ..self
        }
    }

    /// Says what the doctor says about tokens.
    fn doctor(&self) -> String {
        let output = Command::new(PROGRAM)
            .args(["doctor", "--data"])
            .arg(self.host.data_path(""))
            .arg("--config")
            .arg(self.host.path("innkeeper.toml"))
            .env_clear()
            .env("HOME", self.host.path(""))
            .output()
            .expect("the program runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_secret(text.as_bytes(), "the doctor");
        let about = text.lines().filter(|line| line.contains("MCP sign-ins"));
        about.collect::<Vec<_>>().join("\n")
    }

    /// No secret stands in the data directory, in the log or in any state.
    async fn assert_secret_everywhere(&self) {
        assert_no_canary(&self.host.data_path(""));
        assert_secret(self.host.log().as_bytes(), "the log");
        self.client.caught_up().await;
        let channels = self.client.view().channels();
        for channel in channels {
            let state = self.client.view().comparable(&channel).to_string();
            assert_secret(state.as_bytes(), &channel);
        }
        let actions = self.client.view().actions_on(&self.uris.session);
        assert_secret(json!(actions).to_string().as_bytes(), "actions");
    }
}

async fn session(client: &OfficialClient, name: &str, directory: &TempDir) -> SessionUris {
    let uri = format!("file://{}", workspace(directory).display());
    let params = json!({ "provider": "tour", "workingDirectories": [uri] });
    client.create_session_with(name, params).await
}

async fn server_is(client: &OfficialClient, uris: &SessionUris, kind: &str) -> Value {
    let is = |view: &View| shown(view, &uris.session)["state"]["kind"] == kind;
    client.until(&format!("the server is {kind}"), is).await;
    shown(&client.view(), &uris.session)
}

/// Polls until a condition without an event is true.
async fn eventually(mut condition: impl FnMut() -> bool) {
    let waiting = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, waiting).await.expect("it happens");
}

fn assert_secret(bytes: &[u8], place: &str) {
    for canary in [CANARY, REFRESH_CANARY, "refreshed-token", "next-refresh"] {
        let found = bytes.windows(canary.len()).any(|part| part == canary.as_bytes());
        assert!(!found, "{canary} stands in {place}");
    }
}

fn assert_no_canary(directory: &Path) {
    for entry in fs::read_dir(directory).expect("there").flatten() {
        let path = entry.path();
        match path.is_dir() {
            true => assert_no_canary(&path),
            // Some come and go.
            false => assert_secret(&fs::read(&path).unwrap_or_default(), &path.display().to_string()),
        }
    }
}

fn refresh(far: &MisbehavingHttpServer) -> Value {
    json!({ "innkeeper.refresh": {
        "refreshToken": REFRESH_CANARY, "clientId": "client",
        "tokenEndpoint": format!("http://{}/as/token", far.address),
        "revocationEndpoint": format!("http://{}/as/revoke", far.address),
    } })
}

fn options() -> HostOptions {
    HostOptions::new(PROGRAM)
}

#[tokio::test]
async fn t23_auth12_a_token_outlives_a_kill_and_can_be_read_nowhere() {
    let far = Far::signed_in(options(), json!({ "scopes": ["read"], "expiresIn": 3600 })).await;
    far.is_kept(true).await;
    let told = far.doctor();
    assert!(told.contains("ok") && told.contains(&far.server.url()), "{told}");
    far.assert_secret_everywhere().await;
    let key = far.host.path("mcp-tokens.key");
    assert!(key.exists() && !key.starts_with(far.host.data_path("")));

    let far = far.killed_and_started().await;
    far.server_is("ready").await;
    far.echo("t1").await;
    far.assert_secret_everywhere().await;
    far.client.assert_converged().await;

    // Its client is gone; it can be revoked all the same (AUTH-04, AUTH-05).
    far.authenticate("", json!({})).await;
    far.is_kept(false).await;
    let far = far.killed_and_started().await;
    let server = far.server_is("authRequired").await;
    assert_eq!(server["state"]["reason"], "required");
    assert!(far.doctor().contains("none are persisted"), "{}", far.doctor());
}

#[tokio::test]
async fn t23_unreadable_tokens_are_reported_and_require_a_new_sign_in() {
    let far = Far::signed_in(options(), json!({})).await;
    far.is_kept(true).await;
    let kept = far.host.data_path("mcp-tokens");
    let mut bytes = fs::read(&kept).expect("kept");
    let last = bytes.last_mut().expect("something");
    *last ^= 1;
    fs::write(&kept, &bytes).expect("written");
    let told = far.doctor();
    assert!(told.contains("warn") && told.contains("damaged"), "{told}");
    let far = far.killed_and_started().await;
    far.server_is("authRequired").await;
    let is_told = |log: &str| log.contains("cannot be decrypted") && log.contains("sign in");
    far.host.logged("an undecryptable vault", is_told).await;
    far.authenticate(CANARY, json!({})).await;
    far.server_is("ready").await;
    eventually(|| fs::read(&kept).is_ok_and(|now| now != bytes)).await;
    assert!(far.doctor().contains("1 persisted"), "{}", far.doctor());
}

#[tokio::test]
async fn auth07_without_persistence_a_token_ends_with_the_host_unwritten() {
    let options = options().setting("[mcp]\nkeep_tokens = false");
    let far = Far::signed_in(options, json!({})).await;
    assert!(far.doctor().contains("not persisted"), "{}", far.doctor());
    let far = far.killed_and_started().await;
    far.server_is("authRequired").await;
    assert!(!far.host.data_path("mcp-tokens").exists());
    assert!(!far.host.path("mcp-tokens.key").exists());
}

#[tokio::test]
async fn auth06_a_token_is_refreshed_before_a_sign_in_is_required() {
    let far = Far::waiting(options()).await;
    far.authenticate(CANARY, json!({ "_meta": refresh(&far.server) })).await;
    far.server_is("ready").await;
    // The server does not accept it any more: the call goes on by itself with the next one.
    far.server.set(|behaviour| {
        behaviour.tokens.clear();
    });
    far.echo("t1").await;
    let asked = far.server.behaviour.lock().expect("no panic").asked.clone();
    assert_eq!(asked.len(), 1, "{asked:?}");
    let (what, form) = &asked[0];
    let field = |name: &str| form.get(name).map(String::as_str).unwrap_or_default();
    assert_eq!(what, "token");
    assert_eq!(field("grant_type"), "refresh_token");
    assert_eq!(field("refresh_token"), REFRESH_CANARY);
    assert_eq!(field("client_id"), "client");
    assert_eq!(field("resource"), far.server.url(), "RFC 8707");
    let shown = json!(far.client.view().actions_on(&far.uris.session)).to_string();
    assert_eq!(
        shown.matches("\"authRequired\"").count(),
        1,
        "no user was asked again: {shown}"
    );
    far.assert_secret_everywhere().await;

    // The refresh token that came with it is the one that is kept: the token expires while no host runs.
    let before = fs::read(far.host.data_path("mcp-tokens")).expect("kept");
    assert!(!before.is_empty());
    let kept = far.host.data_path("mcp-tokens");
    far.server.set(|behaviour| behaviour.tokens.clear());
    let far = far.killed_and_started().await;
    far.server_is("ready").await;
    let asked = far.server.behaviour.lock().expect("no panic").asked.clone();
    assert_eq!(
        asked[1].1.get("refresh_token").map(String::as_str),
        Some("next-refresh-1")
    );
    eventually(|| fs::read(&kept).is_ok_and(|now| now != before)).await;

    // Taken back: forgotten here, and declared void there.
    far.authenticate("", json!({})).await;
    far.is_kept(false).await;
    eventually(|| {
        let behaviour = far.server.behaviour.lock().expect("no panic");
        behaviour.refresh_tokens.is_empty() && behaviour.asked.last().is_some_and(|(what, _)| what == "revoke")
    })
    .await;
    far.assert_secret_everywhere().await;
}

#[tokio::test]
async fn auth06_a_token_is_refreshed_shortly_before_its_time_is_over() {
    let far = Far::waiting(options()).await;
    far.server.set(|behaviour| behaviour.expires_in = Some(3600));
    far.authenticate(CANARY, json!({ "expiresIn": 2, "_meta": refresh(&far.server) }))
        .await;
    far.server_is("ready").await;
    eventually(|| far.server.behaviour.lock().expect("no panic").asked.len() == 1).await;
    far.server.set(|behaviour| {
        behaviour.tokens.remove(CANARY);
    });
    far.echo("t1").await;
    let asked = far.server.behaviour.lock().expect("no panic").asked.len();
    assert_eq!(asked, 1, "it was there before it was needed");
    far.server_is("ready").await;
}

#[tokio::test]
async fn auth06_a_refused_refresh_requires_a_new_sign_in() {
    let far = Far::waiting(options()).await;
    far.authenticate(CANARY, json!({ "_meta": refresh(&far.server) })).await;
    far.server_is("ready").await;
    far.is_kept(true).await;
    far.server.set(|behaviour| {
        behaviour.tokens.clear();
        behaviour.refresh_tokens.clear();
    });
    far.client.start_turn(&far.uris.chat, "t1", "/mcp far echo {}").await;
    let wait = far.client.wait_for(&far.uris.session, "toolConfirmation").await;
    far.client.decide(&wait, json!({ "approved": true })).await;
    let server = far.server_is("authRequired").await;
    assert_eq!(server["state"]["reason"], "expired");
    far.is_kept(false).await;
    // The call continues after the sign-in.
    far.server.set(|behaviour| {
        behaviour.tokens.insert("another".to_owned(), vec!["read".to_owned()]);
    });
    far.authenticate("another", json!({})).await;
    far.client.turn_end(&far.uris.chat, "t1").await;
    far.server_is("ready").await;
    far.assert_secret_everywhere().await;
    far.client.assert_converged().await;
}

#[tokio::test]
async fn auth06_a_token_that_cannot_be_refreshed_is_dropped() {
    let far = Far::waiting(options()).await;
    far.authenticate(CANARY, json!({ "_meta": refresh(&far.server) })).await;
    let server = far.server_is("ready").await;
    assert_eq!(server["_meta"]["innkeeper.tokenKept"], true, "{server}");
    far.server.set(|behaviour| {
        behaviour.tokens.clear();
        behaviour.refresh_tokens.clear();
    });
    far.client.start_turn(&far.uris.chat, "t1", "/mcp far echo {}").await;
    let wait = far.client.wait_for(&far.uris.session, "toolConfirmation").await;
    far.client.decide(&wait, json!({ "approved": true })).await;
    far.server_is("authRequired").await;
    let says_nothing = |view: &View| {
        shown(view, &far.uris.session)["_meta"]
            .get("innkeeper.tokenKept")
            .is_none()
    };
    far.client.until("no token is said to be kept", says_nothing).await;
    assert_eq!(
        far.server_is("authRequired").await["_meta"].get("innkeeper.resource"),
        None
    );

    // A session that never had it knows that there was one.
    let action = json!({ "type": "chat/turnCancelled", "turnId": "t1", "duration": 0 });
    far.client.dispatch(&far.uris.chat, action).await;
    far.client.turn_end(&far.uris.chat, "t1").await;
    let params = json!({ "channel": far.uris.session });
    let _: Value = far.client.request("disposeSession", params).await.expect("gone");
    let later = session(&far.client, "later", &far.directory).await;
    let server = server_is(&far.client, &later, "authRequired").await;
    assert_eq!(server["state"]["reason"], "expired");
    far.server.set(|behaviour| {
        behaviour.tokens.insert("another".to_owned(), vec!["read".to_owned()]);
    });
    far.authenticate("another", json!({})).await;
    let server = server_is(&far.client, &later, "ready").await;
    assert_eq!(server["_meta"]["innkeeper.tokenKept"], true, "{server}");
    // A sign-out is not reported as an expired token.
    far.authenticate("", json!({})).await;
    let server = server_is(&far.client, &later, "authRequired").await;
    assert_eq!(server["state"]["reason"], "required");
    far.client
        .until("no token is said to be kept", |view: &View| {
            shown(view, &later.session)["_meta"]
                .get("innkeeper.tokenKept")
                .is_none()
        })
        .await;
}

#[tokio::test]
async fn t16_a_token_for_a_parent_resource_serves_only_its_server() {
    let mut far = Far::waiting(options()).await;
    // The resource of its tokens is its whole origin.
    let around = format!("http://{}/", far.server.address);
    far.server.set(|behaviour| behaviour.resource = Some(around.clone()));
    let params = json!({ "channel": far.uris.session });
    let _: Value = far.client.request("disposeSession", params).await.expect("gone");
    far.uris = session(&far.client, "around", &far.directory).await;
    let server = far.server_is("authRequired").await;
    assert_eq!(server["state"]["resource"]["resource"], around, "{server}");
    far.authenticate(CANARY, json!({ "resource": around })).await;
    far.server_is("ready").await;
    far.is_kept(true).await;
    // A neighbour says that it is for the same.
    let neighbour = format!("{}?neighbour", far.server.url());
    let declared = json!({ "mcpServers": {
        "far": { "type": "http", "url": far.server.url() }, "neighbour": { "type": "http", "url": neighbour },
    } });
    fs::write(workspace(&far.directory).join(".mcp.json"), declared.to_string()).expect("written");

    let far = far.killed_and_started().await;
    let is = |name: &'static str, kind: &'static str| {
        let session = far.uris.session.clone();
        move |view: &View| find(view, &session, name)["state"]["kind"] == kind
    };
    // The file has changed, so trust is requested again.
    far.client.until("far may not run", is("far", "error")).await;
    far.client
        .until("neither may its neighbour", is("neighbour", "error"))
        .await;
    allow(&far.host, &workspace(&far.directory));
    far.client.until("far is ready", is("far", "ready")).await;
    let wants = is("neighbour", "authRequired");
    far.client.until("the neighbour wants a token of its own", wants).await;
    far.echo("t1").await;
    let far_id = find(&far.client.view(), &far.uris.session, "far")["id"].clone();
    let actions = far.client.view().actions_on(&far.uris.session);
    let was_asked = |action: &&Value| action["id"] == far_id && action["state"]["kind"] == "authRequired";
    assert!(
        !actions.iter().any(|action| was_asked(&action)),
        "no user is asked again"
    );
    far.assert_secret_everywhere().await;
}

#[tokio::test]
async fn auth06_an_unreachable_authorization_server_is_retried() {
    let far = Far::waiting(options()).await;
    far.authenticate(CANARY, json!({ "_meta": refresh(&far.server) })).await;
    far.server_is("ready").await;
    for answer in [
        hyper::StatusCode::SERVICE_UNAVAILABLE,
        hyper::StatusCode::TEMPORARY_REDIRECT,
    ] {
        far.server.set(|behaviour| {
            behaviour.tokens.clear();
            behaviour.as_answers = Some(answer);
        });
        let turn = format!("turn-{}", answer.as_u16());
        far.client.start_turn(&far.uris.chat, &turn, "/mcp far ask {}").await;
        let wait = far.client.wait_for(&far.uris.session, "toolConfirmation").await;
        far.client.decide(&wait, json!({ "approved": true })).await;
        far.server_is("authRequired").await;
        // The server reconnects, and the call continues without a user.
        far.server.set(|behaviour| behaviour.as_answers = None);
        let ended = far.client.turn_end(&far.uris.chat, &turn).await;
        let words = markdown(&ended.response_parts);
        assert!(
            words.contains("null"),
            "the question made no sense, and was refused: {words}"
        );
        far.server_is("ready").await;
        far.client.nothing_waits(&far.uris.session).await;
    }
    let behaviour = far.server.behaviour.lock().expect("no panic");
    assert!(
        behaviour.asked.iter().all(|(what, _)| what == "token"),
        "{:?}",
        behaviour.asked
    );
}

#[tokio::test]
async fn t21_a_token_is_refreshed_at_its_authorization_server_and_nowhere_else() {
    let far = Far::waiting(options()).await;
    let elsewhere = MisbehavingHttpServer::start().await;
    let params = json!({
        "channel": "ahp-root://", "resource": far.server.url(), "token": CANARY, "_meta": refresh(&elsewhere),
    });
    let (code, message) = far.client.refused("authenticate", params).await;
    assert_eq!(code, -32602);
    assert!(message.contains("tokenEndpoint"), "{message}");
    assert_secret(message.as_bytes(), "the refusal");
    far.server_is("authRequired").await;
    assert_eq!(elsewhere.behaviour.lock().expect("no panic").asked.len(), 0);
}

#[tokio::test]
async fn otl07_p10_logs_have_no_sign_in_tokens() {
    let far = Far::waiting(options()).await;
    let client = RawClient::initialized(far.host.address(), "curious").await;
    let mut curious = LogListener::subscribe(client, "trace").await;
    far.authenticate(CANARY, json!({ "_meta": refresh(&far.server) })).await;
    far.server_is("ready").await;
    // Refused, refreshed, used: whatever the host says about each of it.
    far.server.set(|behaviour| behaviour.tokens.clear());
    far.echo("t1").await;
    let refreshed = |record: &ReceivedRecord| record.body.contains("was refreshed");
    curious.until("that it was refreshed", refreshed).await;
    let ended = |record: &ReceivedRecord| record.body.starts_with("a turn ended");
    curious.until("the end of the turn", ended).await;
    let told = format!("{:?} {:?}", curious.heard, curious.client.notifications);
    assert_secret(told.as_bytes(), "what listeners are told");
}
