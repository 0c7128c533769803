//! Misbehaving servers do not disturb the host, other sessions or mirrors.

use innkeeper_testkit::official::SessionUris;
use serde_json::{Value, json};

use crate::mcp_servers::support::{Inn, TestDirectory, TestSession, options};

/// More than a host needs for anything that happens here, and less than what servers try to make it hold.
const MAX_GROWTH: u64 = 64 << 20;

/// A host with an odd server, and a session that has nothing to do with it.
struct Bystanders {
    inn: Inn,
    other: SessionUris,
    memory: u64,
}

impl Bystanders {
    async fn open(kind: &str, settings: &str) -> Self {
        let place = TestDirectory::new();
        let servers = json!({ "odd": place.odd(kind) });
        let inn = Inn::open_with(place, servers, options().setting(settings)).await;
        let other = inn.client.create_session("other").await;
        let memory = inn.host.peak_memory();
        Self { inn, other, memory }
    }

    /// No other server was harmed.
    async fn is_unharmed(&self, room: &TestSession<'_>) {
        let turn = self
            .inn
            .client
            .run_turn(&self.other.chat, "other", "/stream 20 0 40")
            .await;
        assert!(!turn.response_parts.is_empty());
        let grown = self.inn.host.peak_memory().saturating_sub(self.memory);
        assert!(grown < MAX_GROWTH, "{} MiB more than before", grown >> 20);
        room.client.assert_converged().await;
    }

    async fn still_answers(&self, room: &TestSession<'_>, turn: &str) {
        let (words, _) = room.call(turn, r#"odd echo {"text": "hello"}"#).await;
        assert!(words.contains("hello"), "{words}");
    }
}

fn error_of(server: &Value) -> String {
    server["state"]["error"]["message"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

#[tokio::test]
async fn f3_a_server_that_never_answers_is_given_up() {
    let scene = Bystanders::open("silent", "[mcp]\nstart_seconds = 1").await;
    let room = scene.inn.allowed_room("odd", "odd").await;
    let is_given_up = |server: &Value| error_of(server).contains("did not introduce itself within 1 s");
    let session = &room.uris.session;
    room.client
        .until("it is given up", |view| {
            let customizations = view.session(session).and_then(|state| state.customizations.as_ref());
            let list = json!(customizations);
            let mut entries = list.as_array().into_iter().flatten();
            entries.any(|entry| entry["state"]["kind"] == "error" && is_given_up(entry))
        })
        .await;
    scene.is_unharmed(&room).await;
}

#[tokio::test]
async fn f3_a_server_that_dies_mid_call_fails_the_call_and_comes_back_by_itself() {
    let scene = Bystanders::open("plain", "").await;
    let room = scene.inn.ready_room("odd", "odd").await;
    let before = room.client.view().actions_on(&room.uris.session).len();
    let (words, call) = room.call("t1", "odd die").await;
    assert!(words.contains("ended before it answered"), "{words}");
    assert_eq!(call["success"], false, "{call}");
    // That it is ready may be what was said before it died: the turn does not wait for what is said of the server.
    room.was_not_ready(before).await;
    room.server_is("odd", "ready").await;
    assert_eq!(scene.inn.place.pids().len(), 2, "one start anew");
    scene.still_answers(&room, "t2").await;
    scene.is_unharmed(&room).await;
}

#[tokio::test]
async fn f17_a_server_that_floods_is_used_all_the_same() {
    let scene = Bystanders::open("flood", "").await;
    let room = scene.inn.ready_room("odd", "odd").await;
    for turn in ["t1", "t2", "t3"] {
        scene.still_answers(&room, turn).await;
    }
    scene.is_unharmed(&room).await;
}

#[tokio::test]
async fn t26_an_answer_of_100_mb_fails_its_call_and_nothing_else() {
    let scene = Bystanders::open("plain", "").await;
    let room = scene.inn.ready_room("odd", "odd").await;
    let (words, _) = room.call("t1", r#"odd big {"bytes": 100000000}"#).await;
    assert!(words.contains("It failed:") && words.contains("too"), "{words}");
    scene.still_answers(&room, "t2").await;
    assert_eq!(scene.inn.place.pids().len(), 1, "it was not ended for it");
    scene.is_unharmed(&room).await;
}

#[tokio::test]
async fn mcp02_constantly_changing_tools_are_published_at_a_limited_rate() {
    let scene = Bystanders::open("restless", "").await;
    let room = scene.inn.ready_room("odd", "odd").await;
    room.client.caught_up().await;
    let published = || room.client.view().actions_on(&room.uris.session).len();
    let before = published();
    // Tools that were not there before, again and again.
    let mut seen = std::collections::BTreeSet::new();
    for turn in 0.. {
        let list = room.say(&format!("t{turn}"), "/mcp").await;
        let tool = list.split('`').find(|word| word.starts_with("tool_"));
        seen.insert(tool.expect("the newest").to_owned());
        if seen.len() == 4 {
            break;
        }
        assert!(turn < 1000, "it has stopped to change: {seen:?}");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    room.client.caught_up().await;
    let about_servers = |action: &&Value| {
        let kind = action["type"].as_str().unwrap_or_default();
        kind.starts_with("session/mcpServer") || kind.starts_with("session/customization")
    };
    let actions = room.client.view().actions_on(&room.uris.session);
    let news: Vec<&Value> = actions.iter().skip(before).filter(about_servers).collect();
    assert!(news.is_empty(), "no visible state has changed: {news:?}");
    scene.is_unharmed(&room).await;
}

#[tokio::test]
async fn f17_a_server_that_writes_garbage_is_used_all_the_same() {
    let scene = Bystanders::open("garbage", "").await;
    let room = scene.inn.ready_room("odd", "odd").await;
    scene.still_answers(&room, "t1").await;
    scene.still_answers(&room, "t2").await;
    scene.is_unharmed(&room).await;
}

#[tokio::test]
async fn f3_a_server_that_ignores_a_cancel_delays_nothing() {
    let scene = Bystanders::open("plain", "").await;
    let room = scene.inn.ready_room("odd", "odd").await;
    for turn in ["t1", "t2", "t3"] {
        room.begin(turn, "odd wait").await;
        room.client.call_in(&room.uris.chat, "running").await;
        let action = json!({ "type": "chat/turnCancelled", "turnId": turn, "duration": 0 });
        room.client.dispatch(&room.uris.chat, action).await;
        let (_, call) = room.end(turn).await;
        assert_ne!(call["status"], "running", "{call}");
    }
    scene.still_answers(&room, "t4").await;
    scene.is_unharmed(&room).await;
}
