//! Properties of a chat: flags, draft, title, directories, background work and disposal.

use ahp_types::state::{BackgroundWork, TurnState};
use innkeeper_testkit::official::{OfficialClient, ReconnectOutcome, markdown, message, queued};
use serde_json::{Value, json};

use crate::start_with_client;

const SECOND: &str = "ahp-chat:/second";

#[tokio::test]
async fn cht21_disposing_of_a_chat_ends_its_turn_and_default_chats_stay() {
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
    client
        .until("the session is unread as well", |view| {
            let session = view.session(&uris.session).expect("mirrored");
            session.status & read == 0
        })
        .await;
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
    let folder = tempfile::tempdir().expect("a directory");
    let [one, two] = ["one", "two"].map(|name| {
        std::fs::create_dir(folder.path().join(name)).expect("created");
        format!("file://{}/{name}", folder.path().display())
    });
    let directories = json!([one, two]);
    let params = json!({ "channel": session, "workingDirectories": directories });
    let _: Value = client.request("createSession", params).await.expect("created");
    let uris = client.join(session).await;
    let subset = |chat: &str| client.chat(chat).working_directories;
    for (chat, wanted) in [("ahp-chat:/some", json!([two])), ("ahp-chat:/none", json!([]))] {
        client
            .create_chat(session, chat, json!({ "workingDirectories": wanted }))
            .await;
    }
    assert_eq!(subset("ahp-chat:/some"), Some(vec![two.clone()]));
    assert_eq!(subset("ahp-chat:/none"), Some(Vec::new()));
    assert_eq!(subset(&uris.chat), None, "all of them");
    let remove = json!({ "type": "session/workingDirectoryRemoved", "directory": two });
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

#[tokio::test]
async fn cht24_cht25_background_work_outlives_its_turn_until_it_is_done() {
    let (_host, client) = start_with_client().await;
    let uris = client.create_session("background").await;
    let turn = client.run_turn(&uris.chat, "t1", "/background 2").await;
    assert_eq!(turn.state, TurnState::Complete);
    let work = client.chat(&uris.chat).background_work.expect("work goes on");
    let mut watch = None;
    for work in &work {
        match work {
            BackgroundWork::Shell(shell) => {
                assert_eq!(shell.command, "water --for 2s");
                assert_eq!(shell.terminal, None, "there is none to show");
            }
            BackgroundWork::Subagent(subagent) => watch = Some(subagent.chat.clone()),
            BackgroundWork::Unknown(other) => panic!("{other}"),
        }
    }
    let watch = watch.expect("CHT-25: the subagent is listed with its chat");
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
    let turn = client.turn_end(&watch, "subagent").await;
    assert_eq!(turn.state, TurnState::Complete);
    assert!(markdown(&turn.response_parts).ends_with("Good morning."));
    client.assert_converged().await;
    client.assert_summary_converged(&uris.session).await;
}

#[tokio::test]
async fn cht14_a_subagent_rejects_user_messages() {
    let (_host, client) = start_with_client().await;
    let uris = client.create_session("hands-off").await;
    client.start_turn(&uris.chat, "t1", "/subagent").await;
    client
        .until("the subagent is there", |view| view.catalogue(&uris.session).len() == 2)
        .await;
    let subagent = client.view().catalogue(&uris.session)[1].clone();
    client.subscribe(&subagent).await;
    for (number, action) in [
        queued("q1", "psst"),
        json!({ "type": "chat/draftChanged", "draft": message("psst") }),
        json!({ "type": "chat/truncated" }),
    ]
    .into_iter()
    .enumerate()
    {
        client.dispatch(&subagent, action).await;
        let reason = client.refusal(number + 1).await;
        assert!(reason.contains("chat"), "{reason}");
    }
    client.cancel_turn(&uris.chat, "t1").await;
    client.start_turn(&subagent, "t2", "and now?").await;
    assert_eq!(client.refusal(4).await, "this chat takes no messages from users");
    client.assert_converged().await;
}

#[tokio::test]
async fn cht21_rec02_a_chat_that_went_while_its_reader_was_away_is_missing() {
    let (host, client) = start_with_client().await;
    let uris = client.create_session("went").await;
    client.create_chat(&uris.session, SECOND, json!({})).await;
    let mut absent = OfficialClient::connect(host.address(), "absent").await;
    absent.join(&uris.session).await;
    absent.subscribe(SECOND).await;
    absent.cut().await;
    let _: Value = client
        .request("disposeChat", json!({ "channel": SECOND }))
        .await
        .expect("disposed of");
    client.view().forget(SECOND);
    match absent.reconnect().await.expect("resumed") {
        ReconnectOutcome::Replay { missing, .. } => assert_eq!(missing, [SECOND]),
        other => panic!("a replay was expected: {other:?}"),
    }
    assert_eq!(absent.view().catalogue(&uris.session), [uris.chat.as_str()]);
    // Under the same name there may be another one, with nothing of the first.
    client.create_chat(&uris.session, SECOND, json!({})).await;
    absent.subscribe(SECOND).await;
    assert!(absent.chat(SECOND).turns.is_empty());
    absent.assert_converged().await;
    client.assert_converged().await;
}

/// The reference client renames a chat by an action that is named after sessions (DSP-07).
#[tokio::test]
async fn ses14_titles_follow_the_first_message_until_a_client_sets_one() {
    let (_host, client) = start_with_client().await;
    let uris = client.create_session("titles").await;
    client.create_chat(&uris.session, SECOND, json!({})).await;
    client.run_turn(&uris.chat, "t1", "What a day").await;
    client.run_turn(SECOND, "t1", "Something else").await;
    let rename = |title: &str| json!({ "type": "session/titleChanged", "title": title });
    let until_titles = async |session: &str, chats: [&str; 2]| {
        client
            .until("the titles are right", |view| {
                let state = view.session(&uris.session).expect("mirrored");
                let titles: Vec<&str> = state.chats.iter().map(|chat| chat.title.as_str()).collect();
                state.title == session && titles == chats
            })
            .await;
    };
    until_titles("What a day", ["What a day", "Something else"]).await;
    client.dispatch(SECOND, rename("A chat")).await;
    until_titles("What a day", ["What a day", "A chat"]).await;
    client.dispatch(&uris.session, rename("A session")).await;
    until_titles("A session", ["What a day", "A chat"]).await;
    client.run_turn(&uris.chat, "t2", "Another day").await;
    client.run_turn(SECOND, "t2", "Yet another").await;
    until_titles("A session", ["What a day", "A chat"]).await;
    client.dispatch(&uris.chat, rename("Both")).await;
    until_titles("Both", ["Both", "A chat"]).await;
    client.assert_converged().await;
    client.assert_summary_converged(&uris.session).await;
}

#[tokio::test]
async fn ses27_disposing_of_a_session_ends_its_chats_and_subagents() {
    let (_host, client) = start_with_client().await;
    let uris = client.create_session("whole").await;
    let other = client.create_session("other").await;
    client.create_chat(&uris.session, SECOND, json!({})).await;
    client.run_turn(&uris.chat, "t1", "/background 600").await;
    client.start_turn(SECOND, "t1", "/subagent 3").await;
    client
        .until("all subagents are there", |view| {
            view.catalogue(&uris.session).len() == 6
        })
        .await;
    let chats = client.view().catalogue(&uris.session);
    let _: Value = client
        .request("disposeSession", json!({ "channel": uris.session }))
        .await
        .expect("disposed of");
    for chat in &chats {
        assert_eq!(
            client.refused("subscribe", json!({ "channel": chat })).await.0,
            -32001,
            "{chat}"
        );
        client.view().forget(chat);
    }
    client.view().forget(&uris.session);
    client
        .until("it is off the list", |view| view.summary(&uris.session).is_none())
        .await;
    client.run_turn(&other.chat, "t1", "hello").await;
    client.assert_converged().await;
}
