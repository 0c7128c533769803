//! API keys: their sources, their precedence, and that they stay secret.

use innkeeper_testkit::model_server::{Api, ModelServer, ReceivedRequest, Reply, Script};
use innkeeper_testkit::official::{OfficialClient, markdown};
use serde_json::{Value, json};

use crate::model::support::{PROVIDER, Setup, create_session, error_of, users};

const NO_KEY: &str = "models = [{ id = \"scripted\" }]";
const SECRET: &str = "sk-0123456789-never-to-be-seen";

/// The key that a request showed.
fn key_of(asked: &ReceivedRequest) -> Option<String> {
    let bearer = asked.headers.get("authorization");
    let bearer = bearer.and_then(|value| value.strip_prefix("Bearer ").map(str::to_owned));
    bearer.or_else(|| asked.headers.get("x-api-key").cloned())
}

fn always() -> Script {
    Script::by(|_| Reply::words("Yes."))
}

async fn sign_in(client: &OfficialClient, server: &ModelServer, token: &str) {
    let params = json!({ "channel": "ahp-root://", "resource": server.url(), "token": token });
    let _: Value = client
        .request("authenticate", params)
        .await
        .expect("the token is taken");
}

#[tokio::test]
async fn auth_without_a_key_the_agent_names_the_remedy_and_a_token_suffices() {
    for api in Api::ALL {
        let server = ModelServer::start(always()).await;
        let host = Setup::new(api).provider(NO_KEY).host(&server).await;
        let client = OfficialClient::connect(host.address(), "first").await;
        let described = client.view().root().map(|root| {
            let agent = root.agents.iter().find(|agent| agent.provider == PROVIDER);
            agent.map(|agent| agent.description.clone())
        });
        let described = described.flatten().expect("the agent is listed");
        assert!(
            described.contains("Not ready yet") && described.contains("key_env"),
            "{described}"
        );

        let directory = tempfile::tempdir().expect("a directory");
        let uris = create_session(&client, "work", directory.path()).await;
        let turn = client.run_turn(&uris.chat, "t1", "Hello?").await;
        let (kind, message, resumable) = error_of(&turn).expect("an error");
        assert_eq!((kind.as_str(), resumable), ("authRequired", true), "{message}");
        assert!(
            message.contains(&server.url()) && message.contains("key_env") && message.contains("resume this turn"),
            "{message}"
        );

        sign_in(&client, &server, "token-of-first").await;
        client
            .dispatch(&uris.chat, json!({ "type": "chat/turnResume", "turnId": "t1" }))
            .await;
        client
            .until("the turn goes on", |view| {
                let turn = view.ended_turn(&uris.chat, "t1");
                turn.is_some_and(|turn| markdown(&turn.response_parts) == "Yes.")
            })
            .await;
        let asked = server.requests().pop().expect("asked");
        assert_eq!(key_of(&asked).as_deref(), Some("token-of-first"), "{api:?}");
        client.assert_converged().await;
    }
}

#[tokio::test]
async fn auth_each_client_s_turn_is_asked_with_that_client_s_token() {
    let server = ModelServer::start(always()).await;
    let host = Setup::new(Api::Messages).provider(NO_KEY).host(&server).await;
    let [ada, bob] = ["ada", "bob"].map(|name| OfficialClient::connect(host.address(), name));
    let (ada, bob) = (ada.await, bob.await);
    sign_in(&ada, &server, "token-of-ada").await;
    sign_in(&bob, &server, "token-of-bob").await;
    let directory = tempfile::tempdir().expect("a directory");
    let uris = create_session(&ada, "work", directory.path()).await;
    bob.join(&uris.session).await;
    for (number, (client, token)) in [(&ada, "token-of-ada"), (&bob, "token-of-bob"), (&ada, "token-of-ada")]
        .into_iter()
        .enumerate()
    {
        client.run_turn(&uris.chat, &format!("t{number}"), "Hello?").await;
        let asked = server.requests().pop().expect("asked");
        assert_eq!(key_of(&asked).as_deref(), Some(token), "turn {number}");
        assert_eq!(users(&asked).len(), number + 1);
    }
    ada.assert_converged().await;
    bob.assert_converged().await;
}

#[tokio::test]
async fn auth09_a_rejected_token_is_requested_again_and_the_turn_continues() {
    let script = Script::by(|asked| match key_of(asked).as_deref() {
        Some("good") => Reply::words("Welcome."),
        _ => Reply::new().refuse(401, "authentication_error", "who are you?"),
    });
    let server = ModelServer::start(script).await;
    let host = Setup::new(Api::Chat).provider(NO_KEY).host(&server).await;
    let client = OfficialClient::connect(host.address(), "first").await;
    sign_in(&client, &server, "bad").await;
    let directory = tempfile::tempdir().expect("a directory");
    let uris = create_session(&client, "work", directory.path()).await;
    let turn = client.run_turn(&uris.chat, "t1", "Hello?").await;
    let (kind, message, resumable) = error_of(&turn).expect("an error");
    assert_eq!((kind.as_str(), resumable), ("auth", true), "{message}");
    client
        .until("the client is asked for a key", |view| {
            let told = format!("{:?}", view.notifications);
            told.contains("AuthRequired") && told.contains(&server.url())
        })
        .await;
    sign_in(&client, &server, "good").await;
    client
        .dispatch(&uris.chat, json!({ "type": "chat/turnResume", "turnId": "t1" }))
        .await;
    client
        .until("the turn is complete", |view| {
            view.ended_turn(&uris.chat, "t1")
                .is_some_and(|turn| markdown(&turn.response_parts) == "Welcome.")
        })
        .await;
    let asked = server.requests().pop().expect("asked");
    assert_eq!(users(&asked), ["Hello?"]);
    client.assert_converged().await;
}

#[tokio::test]
async fn a_key_in_a_file_is_read_for_every_turn() {
    let script = Script::by(|asked| match key_of(asked).as_deref() {
        Some("first" | "second") => Reply::words("Yes."),
        _ => Reply::new().refuse(401, "invalid_api_key", "no"),
    });
    let keys = tempfile::tempdir().expect("a directory");
    let file = keys.path().join("key");
    std::fs::write(&file, "first\n").expect("written");
    let provider = format!("key_file = \"{}\"\n{NO_KEY}", file.display());
    let stage = Setup::new(Api::Responses).provider(&provider).stage(script).await;
    let mut keys = Vec::new();
    for (turn, key) in [("t1", "first\n"), ("t2", "second\n"), ("t3", "third")] {
        std::fs::write(&file, key).expect("written");
        let turn = stage.run_turn(turn, "Hello?").await;
        keys.push((
            key_of(&stage.last_asked()).unwrap_or_default(),
            error_of(&turn).map(|error| error.0),
        ));
    }
    let auth = Some("auth".to_owned());
    assert_eq!(
        keys,
        [
            ("first".into(), None),
            ("second".into(), None),
            ("third".into(), auth.clone())
        ]
    );
    // A missing key is requested before the model request, and the message is not lost.
    std::fs::remove_file(&file).expect("removed");
    let turn = stage.run_turn("t4", "Still there?").await;
    let (kind, message, resumable) = error_of(&turn).expect("an error");
    assert_eq!((Some(kind), resumable), (auth, true), "{message}");
    std::fs::write(&file, "second").expect("written");
    let turn = stage.resume("t4").await;
    assert_eq!(markdown(&turn.response_parts), "Yes.");
    assert_eq!(
        users(&stage.last_asked()).last().map(String::as_str),
        Some("Still there?")
    );
    stage.assert_in_order().await;
}

#[tokio::test]
async fn auth12_a_key_is_in_the_request_and_nowhere_else() {
    // The provider quotes the key in everything that goes wrong.
    let script = Script::by(|asked| match asked.last_words().as_deref() {
        Some("Fail.") => Reply::new().refuse(401, "invalid_api_key", format!("Incorrect API key provided: {SECRET}")),
        Some("Fail later.") => Reply::new()
            .text("So")
            .fail("server_error", format!("key {SECRET} is on fire")),
        _ => Reply::words("Yes."),
    });
    let server = ModelServer::start(script).await;
    let setup = Setup::new(Api::Chat).provider(NO_KEY);
    let host = setup
        .options(|options| options.flags(&["--log", "trace"]))
        .host(&server)
        .await;
    let mut client = OfficialClient::connect(host.address(), "first").await;
    let directory = tempfile::tempdir().expect("a directory");
    sign_in(&client, &server, SECRET).await;
    let uris = create_session(&client, "work", directory.path()).await;
    for (turn, text) in [("t1", "Hello?"), ("t2", "Fail later."), ("t3", "Fail.")] {
        client.run_turn(&uris.chat, turn, text).await;
        assert_eq!(
            key_of(&server.requests().pop().expect("asked")).as_deref(),
            Some(SECRET)
        );
    }
    client.assert_converged().await;
    let seen = {
        let view = client.view();
        format!(
            "{:?} {:?} {:?}",
            view.actions,
            view.notifications,
            view.chat(&uris.chat)
        )
    };
    assert!(!seen.contains(SECRET), "a client was told the key");
    client.cut().await;
    let stopped = host.stop().await;
    assert!(stopped.log.contains("TRACE"), "the log is there");
    assert!(!stopped.log.contains(SECRET), "the key is in the log");
    let files: Vec<_> = std::fs::read_dir(stopped.data_path(""))
        .expect("a directory")
        .flatten()
        .collect();
    assert!(!files.is_empty());
    for file in files.iter().filter(|file| file.path().is_file()) {
        let bytes = std::fs::read(file.path()).expect("read");
        let found = bytes.windows(SECRET.len()).any(|window| window == SECRET.as_bytes());
        assert!(!found, "the key is in {}", file.path().display());
    }
}

#[tokio::test]
async fn a_server_that_lists_models_only_with_a_key_is_asked_once_there_is_one() {
    let server = ModelServer::start(always()).await;
    let host = Setup::new(Api::Chat).provider("").host(&server).await;
    let client = OfficialClient::connect(host.address(), "first").await;
    sign_in(&client, &server, "token").await;
    let directory = tempfile::tempdir().expect("a directory");
    let uris = create_session(&client, "work", directory.path()).await;
    let turn = client.run_turn(&uris.chat, "t1", "Hello?").await;
    assert_eq!(markdown(&turn.response_parts), "Yes.", "{turn:#?}");
    assert_eq!(server.requests()[0].model(), "scripted");
    client.assert_converged().await;
}

#[tokio::test]
async fn auth09_a_token_without_permission_for_one_request_is_kept() {
    let script = Script::by(|asked| match asked.number {
        0 => Reply::new().refuse(403, "permission_error", "not this model"),
        _ => Reply::words("Welcome."),
    });
    let server = ModelServer::start(script).await;
    let host = Setup::new(Api::Messages).provider(NO_KEY).host(&server).await;
    let client = OfficialClient::connect(host.address(), "first").await;
    sign_in(&client, &server, "good").await;
    let directory = tempfile::tempdir().expect("a directory");
    let uris = create_session(&client, "work", directory.path()).await;
    let turn = client.run_turn(&uris.chat, "t1", "Hello?").await;
    let (kind, message, resumable) = error_of(&turn).expect("it may not");
    assert_eq!((kind.as_str(), resumable), ("auth", true), "{message}");
    let turn = client.run_turn(&uris.chat, "t2", "And now?").await;
    assert_eq!(markdown(&turn.response_parts), "Welcome.");
    let asked = server.requests().pop().expect("asked");
    assert_eq!(key_of(&asked).as_deref(), Some("good"));
    client.assert_converged().await;
}
