//! Sessions ask whether the MCP servers of their workspace may run, and any client that may drive them answers.

use std::process::Command;

use ahp_types::state::Turn;
use innkeeper_testkit::official::{OfficialClient, View, markdown};
use innkeeper_testkit::raw::Address;
use serde_json::{Value, json};

use crate::mcp_servers::support::{Inn, TestDirectory, TestSession, options};

/// Two servers, one of them with a key in its environment.
fn two_servers(place: &TestDirectory) -> Value {
    let mut odd = place.odd("plain");
    odd["env"]["API_KEY"] = json!("hunter2");
    json!({ "odd": odd, "even": place.odd("plain") })
}

impl TestSession<'_> {
    /// Waits for the question about servers.
    async fn question(&self) -> Value {
        self.client.wait_for(&self.uris.session, "chatInput").await
    }

    async fn choose(&self, client: &OfficialClient, question: &Value, choice: &str) {
        let value = json!({ "kind": "selected", "value": choice });
        let action = json!({
            "type": "chat/inputCompleted", "requestId": question["request"]["id"], "response": "accept",
            "answers": { "trust": { "state": "submitted", "value": value } },
        });
        client.dispatch(&self.uris.chat, action).await;
    }
}

fn message_of(question: &Value) -> &str {
    question["request"]["message"].as_str().unwrap_or_default()
}

fn questions(turn: &Turn) -> usize {
    let parts = json!(turn.response_parts);
    let parts = parts.as_array().into_iter().flatten();
    parts.filter(|part| part["kind"] == "inputRequest").count()
}

fn notices(turn: &Turn) -> String {
    let parts = json!(turn.response_parts);
    let parts = parts.as_array().into_iter().flatten();
    let notices = parts.filter(|part| part["kind"] == "systemNotification");
    notices.map(Value::to_string).collect()
}

/// The output of `innkeeper trust`.
fn trusted(inn: &Inn) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_innkeeper"))
        .arg("trust")
        .arg("--data")
        .arg(inn.host.data_path(""))
        .env_clear()
        .env("HOME", inn.host.path(""))
        .output()
        .expect("the program runs");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[tokio::test]
async fn p12_a_client_trusts_workspace_servers_and_the_asking_turn_has_them() {
    let place = TestDirectory::new();
    let servers = two_servers(&place);
    let inn = Inn::open(place, servers).await;
    let room = inn.room("one").await;
    room.server_is("odd", "error").await;
    room.client.start_turn(&room.uris.chat, "t1", "/mcp").await;

    // Both servers are in one question, in every client, with everything that would run and no value of a key.
    let question = room.question().await;
    let message = message_of(&question);
    let program = std::env::current_exe().expect("this program");
    let command = format!("`{} --exact odd_server --nocapture`", program.display());
    let workspace = format!("The workspace `{}`", inn.place.workspace().display());
    for part in [
        &workspace,
        "`odd` runs",
        "`even` runs",
        &command,
        "`API_KEY`",
        "declared in `.mcp.json`",
    ] {
        assert!(message.contains(part), "{part} in {message}");
    }
    assert!(!message.contains("hunter2"), "{message}");
    let options = question["request"]["questions"][0]["options"]
        .as_array()
        .expect("options");
    let ids: Vec<&Value> = options.iter().map(|option| &option["id"]).collect();
    assert_eq!(ids, ["allow", "notNow", "never"]);
    // VS Code offers a field for free text otherwise.
    assert_eq!(question["request"]["questions"][0]["allowFreeformInput"], false);
    assert!(inn.place.pids().is_empty(), "nothing ran before");

    let phone = OfficialClient::connect(inn.host.address(), "phone").await;
    phone.join(&room.uris.session).await;
    room.choose(&phone, &question, "allow").await;
    let turn = room.client.turn_end(&room.uris.chat, "t1").await;
    let words = markdown(&turn.response_parts);
    assert!(words.contains("odd") && words.contains("echo"), "{words}");
    room.server_is("odd", "ready").await;
    room.server_is("even", "ready").await;
    assert!(trusted(&inn).contains("MCP server: may run"), "{}", trusted(&inn));

    // It is asked once, also for other sessions, until something changes.
    let other = inn.room("two").await;
    other.server_is("odd", "ready").await;
    let turn = other.client.run_turn(&other.uris.chat, "t1", "/mcp").await;
    assert_eq!(questions(&turn), 0);

    // A user takes the decision back, and the next turn asks again.
    inn.trust("revoke", &inn.place.workspace());
    room.server_is("odd", "error").await;
    room.client.start_turn(&room.uris.chat, "t2", "/mcp").await;
    let question = room.question().await;
    // Allowed with the program instead, the question goes away and the turn goes on.
    inn.allow();
    let turn = room.client.turn_end(&room.uris.chat, "t2").await;
    let words = markdown(&turn.response_parts);
    assert!(words.contains("echo"), "{words}");
    assert!(!message_of(&question).is_empty());
    phone.assert_converged().await;
    inn.client.assert_converged().await;
}

#[tokio::test]
async fn p12_not_now_lasts_until_a_change_or_a_user_starts_the_server() {
    let place = TestDirectory::new();
    let servers = json!({ "odd": place.odd("plain") });
    let inn = Inn::open(place, servers).await;
    let room = inn.room("one").await;
    room.server_is("odd", "error").await;
    room.client.start_turn(&room.uris.chat, "t1", "hello").await;
    let question = room.question().await;
    room.choose(room.client, &question, "notNow").await;
    room.client.turn_end(&room.uris.chat, "t1").await;
    let turn = room.client.run_turn(&room.uris.chat, "t2", "hello").await;
    assert_eq!((questions(&turn), inn.place.pids().len()), (0, 0));
    let server = room.server("odd");
    assert_eq!(server["state"]["error"]["errorType"], "notTrusted", "{server}");

    // A user who starts it wants it.
    let before = room.client.view().actions_on(&room.uris.session).len();
    room.demand("odd", "Start").await;
    room.was_not_ready(before).await;
    room.server_is("odd", "error").await;
    room.client.start_turn(&room.uris.chat, "t3", "hello").await;
    let question = room.question().await;
    room.choose(room.client, &question, "never").await;
    room.client.turn_end(&room.uris.chat, "t3").await;
    assert!(trusted(&inn).contains("MCP server: may not run"), "{}", trusted(&inn));
    let turn = room.client.run_turn(&room.uris.chat, "t4", "hello").await;
    assert_eq!(questions(&turn), 0);

    // Never means that declaration, and no other one.
    let mut changed = inn.place.odd("plain");
    changed["env"]["MORE"] = json!("1");
    inn.place.declare(".mcp.json", &json!({ "odd": changed }));
    let asks_anew = |view: &View| {
        let server = crate::mcp_servers::support::shown(view, &room.uris.session, "odd");
        let message = server["state"]["error"]["message"].as_str().unwrap_or_default();
        message.contains("changed since")
    };
    room.client.until("the change is noticed", asks_anew).await;
    room.client.start_turn(&room.uris.chat, "t5", "/mcp").await;
    let question = room.question().await;
    let message = message_of(&question);
    assert!(message.contains("changed since the decision"), "{message}");
    assert!(
        message.contains("`MORE`") && message.contains("(new or changed)"),
        "{message}"
    );
    room.choose(room.client, &question, "allow").await;
    let turn = room.client.turn_end(&room.uris.chat, "t5").await;
    assert!(markdown(&turn.response_parts).contains("echo"));
    inn.client.assert_converged().await;
}

#[tokio::test]
async fn p12_a_turn_continues_without_undecided_servers() {
    let place = TestDirectory::new();
    let servers = json!({ "odd": place.odd("plain") });
    let inn = Inn::open_with(place, servers, options().limit("mcp_trust_ms", 300)).await;
    let room = inn.room("one").await;
    room.server_is("odd", "error").await;
    let turn = room.client.run_turn(&room.uris.chat, "t1", "hello").await;
    assert_eq!(questions(&turn), 1);
    assert!(
        notices(&turn).contains("continues without the MCP servers"),
        "{}",
        notices(&turn)
    );
    assert!(markdown(&turn.response_parts).contains("Welcome"));
    room.client.nothing_waits(&room.uris.session).await;
    let turn = room.client.run_turn(&room.uris.chat, "t2", "hello").await;
    assert_eq!(questions(&turn), 0, "an unattended session does not wait in each turn");
    assert!(inn.place.pids().is_empty());
    inn.client.assert_converged().await;
}

#[tokio::test]
async fn p12_a_client_that_may_only_look_does_not_decide() {
    let place = TestDirectory::new();
    let servers = json!({ "odd": place.odd("plain") });
    let options = options().setting("view_token_file = \"view\"");
    let inn = Inn::open_with(place, servers, options).await;
    let room = inn.room("one").await;
    room.server_is("odd", "error").await;
    room.client.start_turn(&room.uris.chat, "t1", "/mcp").await;
    let question = room.question().await;
    let token = std::fs::read_to_string(inn.host.path("view")).expect("a token");
    let view = Address {
        url: inn.host.address().url.clone(),
        token: Some(token.trim().to_owned()),
    };
    let visitor = OfficialClient::connect(&view, "visitor").await;
    visitor.join(&room.uris.session).await;
    room.choose(&visitor, &question, "allow").await;
    let refusal = visitor.refusal(1).await;
    assert!(refusal.contains("needs the scope drive"), "{refusal}");
    assert!(inn.place.pids().is_empty());
    room.client.cancel_turn(&room.uris.chat, "t1").await;
    room.client.nothing_waits(&room.uris.session).await;
    assert!(trusted(&inn).contains("asked, not decided"), "{}", trusted(&inn));
}
