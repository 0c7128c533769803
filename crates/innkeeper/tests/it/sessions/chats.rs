//! Several chats in one session: creation, forks, side chats and titles.

use ahp_types::state::{ChatOrigin, TurnState};
use innkeeper_testkit::official::{OfficialClient, markdown, message};
use innkeeper_testkit::process::HostProcess;
use serde_json::{Value, json};

use crate::{options, start_with_client};

const SECOND: &str = "ahp-chat:/second";

/// Returns the history of the guide in a chat.
async fn memories(client: &OfficialClient, chat: &str) -> String {
    let turn = client.run_turn(chat, "recall", "what do you remember?").await;
    markdown(&turn.response_parts)
}

#[tokio::test]
async fn cht01_cht10_a_second_chat_is_listed_before_the_response() {
    let (host, client) = start_with_client().await;
    let uris = client.create_session("two-chats").await;
    let watcher = OfficialClient::connect(host.address(), "watcher").await;
    watcher.join(&uris.session).await;
    let first = json!({ "initialMessage": message("/stream 3") });
    client.create_chat(&uris.session, SECOND, first).await;
    // The answer has come, so the listing has; the mirror may still have to read it.
    client
        .until("the chat is listed", |view| view.catalogue(&uris.session).len() == 2)
        .await;
    client
        .until("the first message was answered", |view| {
            view.chat(SECOND).is_some_and(|chat| chat.turns.len() == 1)
        })
        .await;
    let chat = client.chat(SECOND);
    assert_eq!(chat.turns[0].message.text, "/stream 3");
    assert_eq!(chat.turns[0].state, TurnState::Complete);
    assert_eq!(chat.origin, Some(ChatOrigin::User), "CHT-11");
    assert_eq!(client.chat(&uris.chat).turns.len(), 0, "the other chat is untouched");
    watcher
        .until("the others see it at work", |view| {
            let session = view.session(&uris.session).expect("mirrored");
            session.chats.iter().any(|chat| chat.title == "/stream 3")
        })
        .await;
    client.assert_converged().await;
    watcher.assert_converged().await;
    client.assert_summary_converged(&uris.session).await;
}

#[tokio::test]
async fn cht02_cht04_invalid_chats_are_rejected_by_field() {
    let (_host, client) = start_with_client().await;
    let uris = client.create_session("refusing").await;
    let other = client.create_session("elsewhere").await;
    client.run_turn(&uris.chat, "t1", "hello").await;
    client.run_turn(&other.chat, "t1", "hello").await;
    client.create_chat(&uris.session, SECOND, json!({})).await;
    let create = |chat: &str, more: Value| {
        let mut params = json!({ "channel": uris.session, "chat": chat });
        params
            .as_object_mut()
            .expect("an object")
            .extend(more.as_object().cloned().expect("an object"));
        params
    };
    let source =
        |kind: &str, chat: &str, turn: &str| json!({ "source": { "kind": kind, "chat": chat, "turnId": turn } });
    let (code, text) = client.refused("createChat", create(SECOND, json!({}))).await;
    assert_eq!(code, -32010, "{text}");
    // The session's own chat is there already, and asking for it does no harm.
    let again: Value = client
        .request("createChat", create(&uris.chat, json!({})))
        .await
        .expect("no-op");
    assert_eq!(again, Value::Null);
    let cases = [
        (source("fork", &other.chat, "t1"), "source.chat"),
        (source("fork", &uris.chat, "t9"), "source.turnId"),
        (source("sideChat", &uris.chat, "t9"), "source.turnId"),
        (source("fork", "ahp-chat:/third", "t1"), "source.chat"),
        (source("twin", &uris.chat, "t1"), "source.kind"),
        (
            json!({ "workingDirectories": ["file:///nowhere"] }),
            "workingDirectories[0]",
        ),
        (
            json!({ "initialMessage": { "text": "I am the agent", "origin": { "kind": "agent" } } }),
            "initialMessage",
        ),
    ];
    for (more, field) in cases {
        let (code, text) = client
            .refused("createChat", create("ahp-chat:/third", more.clone()))
            .await;
        assert_eq!(code, -32602, "{more}: {text}");
        assert!(text.contains(field), "{more}: {text}");
    }
    for (chat, field) in [
        ("no uri", "chat"),
        ("ahp-terminal:/x", "chat"),
        ("ahp-chat://default/x", "chat"),
    ] {
        let (code, text) = client.refused("createChat", create(chat, json!({}))).await;
        assert_eq!(code, -32602, "{chat}: {text}");
        assert!(text.contains(field), "{text}");
    }
    let missing = json!({ "channel": "ahp-session:/missing", "chat": "ahp-chat:/third" });
    assert_eq!(client.refused("createChat", missing).await.0, -32001);
    assert_eq!(
        client.listed(&uris.session).await.chats.map(|chats| chats.len()),
        Some(2)
    );
    client.assert_converged().await;
}

#[tokio::test]
async fn cht05_a_fork_has_the_history_through_its_turn_and_then_diverges() {
    let (_host, client) = start_with_client().await;
    let uris = client.create_session("fork").await;
    for (turn, text) in [("t1", "apples"), ("t2", "pears"), ("t3", "plums")] {
        client.run_turn(&uris.chat, turn, text).await;
    }
    let source = json!({ "kind": "fork", "chat": uris.chat, "turnId": "t2" });
    client
        .create_chat(&uris.session, SECOND, json!({ "source": source }))
        .await;
    let fork = client.chat(SECOND);
    let texts: Vec<&str> = fork.turns.iter().map(|turn| turn.message.text.as_str()).collect();
    assert_eq!(texts, ["apples", "pears"]);
    let original = client.chat(&uris.chat);
    assert_eq!(fork.turns, original.turns[..2]);
    let origin = ChatOrigin::Fork {
        chat: uris.chat.clone(),
        turn_id: "t2".to_owned(),
    };
    assert_eq!(fork.origin, Some(origin));
    let words = memories(&client, SECOND).await;
    assert!(words.contains("pears") && !words.contains("plums"), "{words}");
    // The same turn id again: chats do not share them.
    client.run_turn(SECOND, "t3", "figs").await;
    let words = memories(&client, &uris.chat).await;
    assert!(words.contains("plums") && !words.contains("figs"), "{words}");
    client.assert_converged().await;
}

#[tokio::test]
async fn cht06_cht07_cht08_a_side_chat_gets_its_source_and_does_not_show_it() {
    let (_host, client) = start_with_client().await;
    let uris = client.create_session("side").await;
    client.run_turn(&uris.chat, "t1", "/stream 4").await;
    let selection = json!({ "text": "  0 lorem \n", "responsePartId": "whatever" });
    let source = json!({ "kind": "sideChat", "chat": uris.chat, "turnId": "t1", "selection": selection });
    client
        .create_chat(&uris.session, SECOND, json!({ "source": source }))
        .await;
    let side = client.chat(SECOND);
    assert!(side.turns.is_empty(), "CHT-06");
    assert_eq!(
        serde_json::to_value(&side.origin).expect("JSON")["selection"],
        selection,
        "verbatim"
    );
    let words = memories(&client, SECOND).await;
    assert!(words.contains("0 lorem"), "{words}");
    // The fork of a turn that still runs, whose later text does not matter.
    client.start_turn(&uris.chat, "t2", "/stream 1000000 1").await;
    client.running_text(&uris.chat, 64).await;
    let source = json!({ "kind": "sideChat", "chat": uris.chat, "turnId": "t2" });
    client
        .create_chat(&uris.session, "ahp-chat:/third", json!({ "source": source }))
        .await;
    let words = memories(&client, "ahp-chat:/third").await;
    assert!(words.contains("/stream 1000000 1"), "{words}");
    let fork = json!({ "kind": "fork", "chat": uris.chat, "turnId": "t2" });
    let params = json!({ "channel": uris.session, "chat": "ahp-chat:/fourth", "source": fork });
    let (code, text) = client.refused("createChat", params).await;
    assert_eq!(code, -32602);
    assert!(text.contains("source.turnId") && text.contains("running"), "{text}");
    let empty = json!({ "kind": "sideChat", "chat": uris.chat, "turnId": "t1", "selection": { "text": "" } });
    let params = json!({ "channel": uris.session, "chat": "ahp-chat:/fourth", "source": empty });
    assert!(
        client
            .refused("createChat", params)
            .await
            .1
            .contains("source.selection.text")
    );
    client.cancel_turn(&uris.chat, "t2").await;
    client.assert_converged().await;
}

/// The reference client ignores what the host says and computes both spellings by itself.
#[tokio::test]
async fn e49_e50_session_uris_keep_their_spelling_and_chat_uris_follow() {
    let (_host, client) = start_with_client().await;
    let session = "Tour:/7C9E6679-7425-40de-944b-e07fc1f90ae7?q=%C3%A4#x";
    let _: Value = client
        .request("createSession", json!({ "channel": session }))
        .await
        .expect("any scheme will do");
    let computed = "ahp-chat://default/VG91cjovN0M5RTY2NzktNzQyNS00MGRlLTk0NGItZTA3ZmMxZjkwYWU3P3E9JUMzJUE0I3g";
    client.subscribe(computed).await;
    let uris = client.join(session).await;
    assert_eq!(uris.chat, computed);
    client.run_turn(&uris.chat, "t1", "hello").await;
    let state = client.session(session);
    assert_eq!(state.chats[0].resource, computed);
    assert_eq!(client.chat(computed).resource, computed);
    let listed = client.listed(session).await;
    assert_eq!(
        (listed.resource.as_str(), listed.default_chat.as_deref()),
        (session, Some(computed))
    );
    let other_case = json!({ "channel": session.to_lowercase() });
    assert_eq!(client.refused("subscribe", other_case).await.0, -32001, "SUB-17");
    client.assert_converged().await;
}

#[tokio::test]
async fn cht13_a_session_has_so_many_chats_and_the_host_so_many_sessions() {
    let host = HostProcess::start(options().limit("chats", 2).limit("sessions", 2)).await;
    let client = OfficialClient::connect(host.address(), "first").await;
    let uris = client.create_session("small").await;
    let other = client.create_session("other").await;
    client.create_chat(&uris.session, SECOND, json!({})).await;
    let third = json!({ "channel": uris.session, "chat": "ahp-chat:/third" });
    let (code, text) = client.refused("createChat", third).await;
    assert_eq!(code, -32011);
    assert!(text.contains("at most 2 chats"), "{text}");
    // CHT-19: a failed move leaves everything as it was.
    let out = json!({ "channel": SECOND, "destination": { "kind": "newSession" } });
    let (code, text) = client.refused("moveChat", out).await;
    assert_eq!(code, -32011);
    assert!(text.contains("at most 2 sessions"), "{text}");
    client.create_chat(&other.session, "ahp-chat:/fourth", json!({})).await;
    let over = json!({ "channel": SECOND, "destination": { "kind": "session", "session": other.session } });
    assert_eq!(client.refused("moveChat", over).await.0, -32011);
    // A subagent counts as a chat, and its agent gets the error.
    let turn = client.run_turn(SECOND, "t1", "/subagent").await;
    let words = markdown(&turn.response_parts);
    assert!(
        words.contains("No subagent could be started") && words.contains("at most 2 chats"),
        "{words}"
    );
    client.assert_converged().await;
    client.assert_summary_converged(&uris.session).await;
}
