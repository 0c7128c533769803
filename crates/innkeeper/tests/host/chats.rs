//! Several chats in one session: created, forked, opened beside another, disposed of; what belongs to each of them.

use ahp_types::state::{BackgroundWork, ChatOrigin, TurnState};
use innkeeper_testkit::official::{OfficialClient, markdown, message, queued};
use serde_json::{Value, json};

use crate::start_with_client;

const SECOND: &str = "ahp-chat:/second";

/// What the guide remembers in a chat.
async fn memories(client: &OfficialClient, chat: &str) -> String {
    let turn = client.run_turn(chat, "recall", "what do you remember?").await;
    markdown(&turn.response_parts)
}

#[tokio::test]
async fn cht01_cht10_a_second_chat_is_listed_before_the_answer_and_goes_its_own_way() {
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
async fn cht02_cht04_chats_that_cannot_be_are_refused_with_the_field_and_leave_nothing_behind() {
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
async fn cht05_a_fork_shows_the_history_through_its_turn_and_then_both_go_on_alone() {
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
async fn cht06_cht07_cht08_a_side_chat_knows_what_it_is_about_and_shows_nothing_of_it() {
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
    // Of a turn that still runs, whose later words do not matter.
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

#[tokio::test]
async fn cht21_a_chat_is_disposed_of_with_what_runs_in_it_and_the_default_chat_never() {
    let (host, client) = start_with_client().await;
    let uris = client.create_session("dispose").await;
    client.create_chat(&uris.session, SECOND, json!({})).await;
    let watcher = OfficialClient::connect(host.address(), "watcher").await;
    watcher.join(&uris.session).await;
    client.start_turn(SECOND, "t1", "/slow 600").await;
    client
        .until("it runs", |view| {
            view.chat(SECOND).is_some_and(|chat| chat.active_turn.is_some())
        })
        .await;
    let (code, text) = client.refused("disposeChat", json!({ "channel": uris.chat })).await;
    assert_eq!(code, -32011, "{text}");
    assert!(text.contains("dispose of the session"), "{text}");
    let answer: Value = client
        .request("disposeChat", json!({ "channel": SECOND }))
        .await
        .expect("disposed of");
    assert_eq!(answer, Value::Null, "TRN-09");
    for who in [&client, &watcher] {
        who.until("the chat is gone", |view| {
            view.catalogue(&uris.session) == [uris.chat.clone()]
        })
        .await;
    }
    client.view().forget(SECOND);
    assert_eq!(
        client.refused("subscribe", json!({ "channel": SECOND })).await.0,
        -32001
    );
    assert_eq!(
        client.refused("disposeChat", json!({ "channel": SECOND })).await.0,
        -32001
    );
    // Nothing runs any more, so nothing makes the session look busy.
    let listed = client.listed(&uris.session).await;
    assert_eq!(listed.status & 0b1_1111, 1, "{listed:?}");
    // E-01: to a missing channel, silence.
    client.start_turn(SECOND, "t2", "hello?").await;
    client.run_turn(&uris.chat, "t1", "hello").await;
    assert!(client.view().refusals.is_empty());
    client.assert_converged().await;
    watcher.assert_converged().await;
    client.assert_summary_converged(&uris.session).await;
}

#[tokio::test]
async fn cht22_cht26_e29_read_archived_and_draft_belong_to_one_chat() {
    let (host, client) = start_with_client().await;
    let uris = client.create_session("apart").await;
    client.create_chat(&uris.session, SECOND, json!({})).await;
    let other = OfficialClient::connect(host.address(), "other").await;
    other.join(&uris.session).await;
    other.subscribe(SECOND).await;
    let status = |client: &OfficialClient, chat: &str| client.chat(chat).status;
    let (read, archived) = (32, 64);
    client.run_turn(SECOND, "t1", "hello").await;
    assert_eq!(status(&client, SECOND) & read, 0, "E-28: a turn makes it unread");
    let before = client.session(&uris.session).status & (read | archived);
    for action in [
        json!({ "type": "chat/isReadChanged", "isRead": true }),
        json!({ "type": "chat/isArchivedChanged", "isArchived": true }),
        json!({ "type": "chat/draftChanged", "draft": message("half a thou") }),
    ] {
        client.dispatch(SECOND, action).await;
    }
    other
        .until("the draft arrives", |view| {
            let draft = view.chat(SECOND).and_then(|chat| chat.draft.as_ref());
            draft.is_some_and(|draft| draft.text == "half a thou")
        })
        .await;
    assert_eq!(status(&other, SECOND) & (read | archived), read | archived);
    let sibling = client.chat(&uris.chat);
    assert_eq!(sibling.status & archived, 0);
    assert!(sibling.draft.is_none());
    other
        .until("the catalogue says so", |view| {
            let session = view.session(&uris.session).expect("mirrored");
            session.chats[1].status & archived != 0
        })
        .await;
    assert_eq!(client.session(&uris.session).status & (read | archived), before, "E-29");
    // Archived is not locked.
    other.run_turn(SECOND, "t2", "hello").await;
    client.turn_end(SECOND, "t2").await;
    assert_eq!(status(&client, SECOND) & (read | archived), archived, "E-28");
    client.dispatch(SECOND, json!({ "type": "chat/draftChanged" })).await;
    other
        .until("the draft is cleared", |view| {
            view.chat(SECOND).is_some_and(|chat| chat.draft.is_none())
        })
        .await;
    client.assert_converged().await;
    other.assert_converged().await;
    client.assert_summary_converged(&uris.session).await;
}

#[tokio::test]
async fn cht09_ses26_a_chat_works_in_some_of_its_sessions_directories() {
    let (_host, client) = start_with_client().await;
    let session = "ahp-session:/directories";
    let directories = json!(["file:///srv/one", "file:///srv/two"]);
    let params = json!({ "channel": session, "workingDirectories": directories });
    let _: Value = client.request("createSession", params).await.expect("created");
    let uris = client.join(session).await;
    let subset = |chat: &str| client.chat(chat).working_directories;
    for (chat, wanted) in [
        ("ahp-chat:/some", json!(["file:///srv/two"])),
        ("ahp-chat:/none", json!([])),
    ] {
        client
            .create_chat(session, chat, json!({ "workingDirectories": wanted }))
            .await;
    }
    assert_eq!(subset("ahp-chat:/some"), Some(vec!["file:///srv/two".to_owned()]));
    assert_eq!(subset("ahp-chat:/none"), Some(Vec::new()));
    assert_eq!(subset(&uris.chat), None, "all of them");
    let remove = json!({ "type": "session/workingDirectoryRemoved", "directory": "file:///srv/two" });
    client.dispatch(session, remove).await;
    client
        .until("the chat lost it too", |view| {
            let chat = view.chat("ahp-chat:/some").expect("mirrored");
            chat.working_directories == Some(Vec::new())
        })
        .await;
    let add = json!({ "type": "chat/workingDirectorySet", "directory": "file:///srv/three" });
    client.dispatch("ahp-chat:/some", add).await;
    let reason = client.refusal(1).await;
    assert!(reason.starts_with("directory: "), "{reason}");
    client.assert_converged().await;
    client.assert_summary_converged(session).await;
}

/// The reference client ignores what the host says and computes both spellings by itself.
#[tokio::test]
async fn e49_e50_the_spelling_of_a_session_is_kept_and_that_of_its_chat_follows_from_it() {
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
async fn cht24_cht25_background_work_outlives_its_turn_and_is_gone_when_it_is_done() {
    let (_host, client) = start_with_client().await;
    let uris = client.create_session("background").await;
    let turn = client.run_turn(&uris.chat, "t1", "/background 1").await;
    assert_eq!(turn.state, TurnState::Complete);
    let work = client.chat(&uris.chat).background_work.expect("work goes on");
    let mut watch = None;
    for work in &work {
        match work {
            BackgroundWork::Shell(shell) => {
                assert_eq!(shell.command, "water --for 1s");
                assert_eq!(shell.terminal, None, "there is none to show");
            }
            BackgroundWork::Subagent(worker) => watch = Some(worker.chat.clone()),
            BackgroundWork::Unknown(other) => panic!("{other}"),
        }
    }
    let watch = watch.expect("CHT-25: the worker is listed with its chat");
    assert_eq!(work.len(), 2);
    client.subscribe(&watch).await;
    // The chat is free meanwhile.
    client.run_turn(&uris.chat, "t2", "hello").await;
    client
        .until("the work is done", |view| {
            // The published reducer leaves an empty list behind.
            let work = view.chat(&uris.chat).and_then(|chat| chat.background_work.as_ref());
            work.is_some_and(Vec::is_empty)
        })
        .await;
    let turn = client.turn_end(&watch, "worker").await;
    assert_eq!(turn.state, TurnState::Complete);
    assert!(markdown(&turn.response_parts).ends_with("Good morning."));
    client.assert_converged().await;
    client.assert_summary_converged(&uris.session).await;
}

#[tokio::test]
async fn cht14_a_worker_takes_no_words_from_people() {
    let (_host, client) = start_with_client().await;
    let uris = client.create_session("hands-off").await;
    client.start_turn(&uris.chat, "t1", "/subagent").await;
    client
        .until("the helper is there", |view| view.catalogue(&uris.session).len() == 2)
        .await;
    let worker = client.view().catalogue(&uris.session)[1].clone();
    client.subscribe(&worker).await;
    for (number, action) in [
        queued("q1", "psst"),
        json!({ "type": "chat/draftChanged", "draft": message("psst") }),
        json!({ "type": "chat/truncated" }),
    ]
    .into_iter()
    .enumerate()
    {
        client.dispatch(&worker, action).await;
        let reason = client.refusal(number + 1).await;
        assert!(reason.contains("chat"), "{reason}");
    }
    client.cancel_turn(&uris.chat, "t1").await;
    client.start_turn(&worker, "t2", "and now?").await;
    assert_eq!(client.refusal(4).await, "this chat takes no messages from people");
    client.assert_converged().await;
}
