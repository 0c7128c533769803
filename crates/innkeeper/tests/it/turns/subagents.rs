//! Subagents: chats of a tool call, at any depth, and who may stop them.

use ahp_types::state::{
    ChatInteractivity, ChatOrigin, ResponsePart, SessionInputRequest, ToolCallState, ToolResultContent, TurnState,
};
use innkeeper_testkit::official::{OfficialClient, SessionUris, View, markdown};
use serde_json::json;

use crate::start_with_client;

/// The subagent's only turn.
const TURN: &str = "subagent";

/// A session whose chat started nested subagents, `depth` deep, all of them subscribed to, the outermost first.
async fn with_subagents(client: &OfficialClient, name: &str, depth: usize) -> (SessionUris, Vec<String>) {
    let uris = client.create_session(name).await;
    client.start_turn(&uris.chat, "t1", &format!("/subagent {depth}")).await;
    client
        .until("the last subagent asks", |view| waits(view, &uris.session) == 1)
        .await;
    let subagents = client.view().catalogue(&uris.session)[1..].to_vec();
    assert_eq!(subagents.len(), depth);
    for subagent in &subagents {
        client.subscribe(subagent).await;
    }
    (uris, subagents)
}

fn waits(view: &View, session: &str) -> usize {
    let session = view.session(session).expect("mirrored");
    session.input_needed.as_ref().map_or(0, Vec::len)
}

/// The calls of a chat's only turn that name subagents, with the chats they name.
fn sent(view: &View, chat: &str) -> Vec<(String, String)> {
    let chat = view.chat(chat).expect("mirrored");
    let parts = match (&chat.active_turn, chat.turns.first()) {
        (Some(turn), _) => &turn.response_parts,
        (None, Some(turn)) => &turn.response_parts,
        (None, None) => return Vec::new(),
    };
    let mut found = Vec::new();
    for part in parts {
        let ResponsePart::ToolCall(part) = part else { continue };
        let (id, content) = match &part.tool_call {
            ToolCallState::Running(call) => (&call.tool_call_id, &call.content),
            ToolCallState::Completed(call) => (&call.tool_call_id, &call.content),
            _ => continue,
        };
        for content in content.iter().flatten() {
            if let ToolResultContent::Subagent(subagent) = content {
                found.push((id.clone(), subagent.resource.clone()));
            }
        }
    }
    found
}

#[tokio::test]
async fn cht12_a_subagent_and_its_tool_call_refer_to_each_other_at_every_depth() {
    let (host, client) = start_with_client().await;
    let (uris, subagents) = with_subagents(&client, "named", 3).await;
    let parents = [uris.chat.clone(), subagents[0].clone(), subagents[1].clone()];
    for (parent, subagent) in parents.iter().zip(&subagents) {
        let named = sent(&client.view(), parent);
        assert_eq!(named.len(), 1, "{parent}");
        let (call, resource) = &named[0];
        assert_eq!(resource, subagent);
        let origin = ChatOrigin::Tool {
            chat: parent.clone(),
            tool_call_id: call.clone(),
        };
        assert_eq!(client.chat(subagent).origin, Some(origin.clone()));
        let session = client.session(&uris.session);
        let entry = session.chats.iter().find(|chat| chat.resource == *subagent);
        let entry = entry.expect("it is in the catalogue");
        assert_eq!(entry.origin, Some(origin));
        assert_eq!(entry.interactivity, Some(ChatInteractivity::ReadOnly));
        assert_ne!(entry.movable, Some(true));
    }
    // The list shows them as well, with what they do (SES-22).
    let listed = client.listed(&uris.session).await;
    let chats = listed.chats.expect("a catalogue");
    let activity = |index: usize| chats[index].status.expect("a status") & 0b1_1111;
    assert_eq!(chats.len(), 4);
    assert_eq!(activity(3), 24, "the last subagent waits");
    assert_eq!((activity(1), activity(2)), (8, 8), "the others work");
    assert_eq!(listed.status & 0b1_1111, 24);
    // SES-18: the wait names its chat, and another client sees the same.
    let other = OfficialClient::connect(host.address(), "other").await;
    other.subscribe(&uris.session).await;
    let needed = other.session(&uris.session).input_needed.expect("it waits");
    match needed.as_slice() {
        [SessionInputRequest::ToolConfirmation(request)] => {
            assert_eq!(
                (request.chat.as_str(), request.turn_id.as_str()),
                (subagents[2].as_str(), TURN)
            );
        }
        other => panic!("one confirmation was expected: {other:?}"),
    }
    client.cancel_turn(&uris.chat, "t1").await;
    client.assert_converged().await;
    other.assert_converged().await;
}

#[tokio::test]
async fn cht12_cancelling_a_chat_stops_all_its_subagents() {
    let (_host, client) = start_with_client().await;
    let (uris, subagents) = with_subagents(&client, "all-stop", 3).await;
    client.cancel_turn(&uris.chat, "t1").await;
    for subagent in &subagents {
        assert_eq!(
            client.turn_end(subagent, TURN).await.state,
            TurnState::Cancelled,
            "{subagent}"
        );
    }
    client
        .until("no chat waits any more", |view| waits(view, &uris.session) == 0)
        .await;
    let listed = client.listed(&uris.session).await;
    assert_eq!(listed.status & 0b1_1111, 1, "SES-21: {listed:?}");
    // Their responses can still be read, and their tool calls still refer to them.
    assert!(markdown(&client.chat(&subagents[0]).turns[0].response_parts).starts_with("Subagent 1 of 3"));
    client.run_turn(&uris.chat, "t2", "hello").await;
    client.assert_converged().await;
    client.assert_summary_converged(&uris.session).await;
}

#[tokio::test]
async fn turn11_a_subagent_is_stopped_alone() {
    let (_host, client) = start_with_client().await;
    let (uris, subagents) = with_subagents(&client, "one-stop", 3).await;
    client.cancel_turn(&subagents[1], TURN).await;
    let states = [
        client.turn_end(&subagents[2], TURN).await.state,
        client.turn_end(&subagents[1], TURN).await.state,
        client.turn_end(&subagents[0], TURN).await.state,
        client.turn_end(&uris.chat, "t1").await.state,
    ];
    let expected = [
        TurnState::Cancelled,
        TurnState::Cancelled,
        TurnState::Complete,
        TurnState::Complete,
    ];
    assert_eq!(states, expected, "those below it stop, those above it go on");
    assert_eq!(waits(&client.view(), &uris.session), 0);
    client.assert_converged().await;
    client.assert_summary_converged(&uris.session).await;
}

#[tokio::test]
async fn cht13_nested_subagents_have_a_depth_limit() {
    let (_host, client) = start_with_client().await;
    let uris = client.create_session("deep").await;
    let turn = client.run_turn(&uris.chat, "t1", "/subagent 32").await;
    let words = markdown(&turn.response_parts);
    assert!(
        words.contains("No subagent could be started") && words.contains("deep"),
        "{words}"
    );
    client.assert_converged().await;
}

#[tokio::test]
async fn cht21_disposing_of_a_subagent_disposes_of_nested_ones() {
    let (_host, client) = start_with_client().await;
    let (uris, subagents) = with_subagents(&client, "disposed", 2).await;
    let _: serde_json::Value = client
        .request("disposeChat", json!({ "channel": subagents[0] }))
        .await
        .expect("disposed of");
    for subagent in &subagents {
        client.view().forget(subagent);
    }
    client
        .until("both are gone", |view| {
            view.catalogue(&uris.session) == [uris.chat.clone()]
        })
        .await;
    let turn = client.turn_end(&uris.chat, "t1").await;
    assert_eq!(turn.state, TurnState::Complete);
    assert_eq!(waits(&client.view(), &uris.session), 0);
    client.assert_converged().await;
    client.assert_summary_converged(&uris.session).await;
}

#[tokio::test]
async fn trc02_truncation_stops_subagents_of_truncated_turns() {
    let (_host, client) = start_with_client().await;
    let (uris, subagents) = with_subagents(&client, "cut", 2).await;
    client.dispatch(&uris.chat, json!({ "type": "chat/truncated" })).await;
    for subagent in &subagents {
        assert_eq!(client.turn_end(subagent, TURN).await.state, TurnState::Cancelled);
    }
    client
        .until("the chat is empty", |view| {
            let chat = view.chat(&uris.chat).expect("mirrored");
            chat.turns.is_empty() && chat.active_turn.is_none()
        })
        .await;
    client
        .until("no chat waits", |view| waits(view, &uris.session) == 0)
        .await;
    client.run_turn(&uris.chat, "t2", "hello").await;
    client.assert_converged().await;
    client.assert_summary_converged(&uris.session).await;
}
