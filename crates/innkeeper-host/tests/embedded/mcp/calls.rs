//! Servers start with their session, and agents call their tools.

use super::*;

#[tokio::test]
async fn mcp03_mcp12_the_first_turn_has_the_tools_of_a_starting_server() {
    let inn = Inn::new();
    let fixture = fixture(&inn).await;
    fixture.begin("list").await;
    inn.does(ServerStatus::Starting).await;
    inn.is_ready().await;
    let words = fixture.words().await;
    assert!(words.starts_with("inn__echo inn__locked"), "{words}");
    assert!(!words.contains("app_only"), "MCP-20: that is for its views");
    fixture.client.assert_converged().await;
}

#[tokio::test]
async fn mcp12_an_mcp_call_is_an_ordinary_tool_call_with_confirmation() {
    let inn = Inn::new();
    let fixture = fixture(&inn).await;
    inn.is_ready().await;
    fixture.begin("inn__echo hello").await;
    let call = fixture.call("pending-confirmation").await;
    assert_eq!(call["contributor"], json!({ "kind": "mcp", "customizationId": "inn" }));
    assert_eq!(call["toolName"], "inn__echo");
    fixture.decide(&call, true).await;
    assert_eq!(fixture.words().await, r#"{"text":"hello"}"#);
    fixture.client.assert_converged().await;
}

#[tokio::test]
async fn the_session_shows_the_tools_that_its_model_may_call_and_no_others() {
    let inn = Inn::new();
    let fixture = fixture(&inn).await;
    let session = &fixture.uris.session;
    let names = |view: &View| {
        let tools = view.session(session).and_then(|session| session.server_tools.clone());
        let tools = tools.unwrap_or_default().into_iter();
        tools.map(|tool| tool.name).collect::<Vec<_>>()
    };
    let other = innkeeper_testkit::official::OfficialClient::connect(&fixture.running.address, "second").await;
    other.join(session).await;
    inn.is_ready().await;
    let has_echo = |view: &View| names(view).contains(&"inn__echo".to_owned());
    for client in [&fixture.client, &other] {
        client.until("the tools of the server are shown", has_echo).await;
    }
    let stop = json!({ "type": "session/mcpServerStopRequested", "id": "inn" });
    fixture.client.dispatch(session, stop).await;
    let has_none = |view: &View| names(view).is_empty();
    other.until("they are gone with it", has_none).await;
    fixture.client.until("they are gone with it", has_none).await;
    let sent = other.view().actions_on(session);
    assert!(sent.iter().any(|action| action["type"] == "session/serverToolsChanged"));
    fixture.client.assert_converged().await;
    other.assert_converged().await;
}

#[tokio::test]
async fn mcp12_a_denied_or_edited_call_is_denied_or_edited_at_the_server() {
    let inn = Inn::new();
    let denied = fixture(&inn).await;
    inn.is_ready().await;
    denied.begin("inn__echo hello").await;
    let call = denied.call("pending-confirmation").await;
    denied.decide(&call, false).await;
    assert_eq!(
        denied.words().await,
        "failed: the user denied this call and gave no reason; do not try the same again, ask or find another way"
    );
    let inn = Inn::new();
    let edited = fixture(&inn).await;
    inn.is_ready().await;
    edited.begin("inn__echo hello").await;
    let call = edited.call("pending-confirmation").await;
    let action = json!({ "type": "chat/toolCallConfirmed", "approved": true, "editedToolInput": r#"{"text":"bye"}"# });
    edited.about(&call, action).await;
    assert_eq!(edited.words().await, r#"{"text":"bye"}"#);
}

#[tokio::test]
async fn mcp20_tool19_a_call_with_a_view_says_where_it_is() {
    let inn = Inn::new();
    let fixture = fixture(&inn).await;
    inn.is_ready().await;
    fixture.begin("inn__view x").await;
    let call = fixture.call("pending-confirmation").await;
    assert_eq!(call["_meta"]["ui"], json!({ "resourceUri": "ui://inn/rooms" }));
    assert_eq!(
        (&call["_meta"]["mcpServerName"], &call["_meta"]["mcpToolName"]),
        (&json!("inn"), &json!("view"))
    );
    fixture.decide(&call, true).await;
    let parts = fixture.end().await;
    let call = innkeeper_testkit::embedded::calls(&parts).remove(0);
    assert_eq!(call["_meta"]["ui"]["resourceUri"], "ui://inn/rooms", "until its end");
}

#[tokio::test]
async fn mcp12_failures_of_a_tool_and_of_its_server_are_told_apart_and_told() {
    for (tool, words) in [
        ("fails", "failed: no rooms left"),
        ("broken", "failed: the MCP server ended before it answered"),
    ] {
        let inn = Inn::new();
        let fixture = fixture(&inn).await;
        inn.is_ready().await;
        fixture.begin(&format!("inn__{tool} x")).await;
        let call = fixture.call("pending-confirmation").await;
        fixture.decide(&call, true).await;
        assert_eq!(fixture.words().await, words);
        fixture.client.assert_converged().await;
    }
}

#[tokio::test]
async fn mcp09_auth10_a_call_requests_a_sign_in_and_continues_by_itself() {
    let inn = Inn::new();
    let fixture = fixture(&inn).await;
    inn.is_ready().await;
    fixture.begin("inn__locked x").await;
    let call = fixture.call("pending-confirmation").await;
    fixture.decide(&call, true).await;
    let call = fixture.call("auth-required").await;
    assert_eq!(call["auth"]["requiredScopes"], json!(["rooms"]));
    let wait = fixture
        .client
        .wait_for(&fixture.uris.session, "toolAuthentication")
        .await;
    assert_eq!(wait["toolCall"]["toolCallId"], call["toolCallId"]);
    let params = json!({ "channel": "ahp-root://", "resource": RESOURCE, "token": "t0k3n", "scopes": ["rooms"] });
    let _: Value = fixture.client.request("authenticate", params).await.expect("accepted");
    assert_eq!(fixture.words().await, "unlocked");
    fixture.client.nothing_waits(&fixture.uris.session).await;
    fixture.client.assert_converged().await;
}

#[tokio::test]
async fn mcp05_stopping_a_server_ends_the_call_that_waits_for_it() {
    let inn = Inn::new();
    let fixture = fixture(&inn).await;
    inn.is_ready().await;
    fixture.begin("inn__locked x").await;
    let call = fixture.call("pending-confirmation").await;
    fixture.decide(&call, true).await;
    fixture.call("auth-required").await;
    let stop = json!({ "type": "session/mcpServerStopRequested", "id": "inn" });
    fixture.client.dispatch(&fixture.uris.session, stop).await;
    let words = fixture.words().await;
    assert!(words.starts_with("failed: "), "{words}");
    inn.is_let_go().await;
    fixture.client.nothing_waits(&fixture.uris.session).await;
    fixture.client.assert_converged().await;
}

#[tokio::test]
async fn inp07_an_elicitation_is_a_question_of_the_session() {
    let inn = Inn::new();
    let fixture = fixture(&inn).await;
    inn.is_ready().await;
    fixture.begin("inn__asks x").await;
    let call = fixture.call("pending-confirmation").await;
    fixture.decide(&call, true).await;
    let question = fixture.question().await;
    assert_eq!(question["message"], "The MCP server \"inn\" asks: How long?");
    assert_eq!(question["questions"][0]["kind"], "integer");
    let answer = json!({
        "type": "chat/inputCompleted", "requestId": question["id"], "response": "accept",
        "answers": { "nights": { "state": "submitted", "value": { "kind": "number", "value": 3 } } },
    });
    fixture.client.dispatch(&fixture.uris.chat, answer).await;
    assert_eq!(fixture.words().await, r#"Accepted({"nights": Number(3)})"#);
    fixture.client.assert_converged().await;
}

#[tokio::test]
async fn mcp12_an_agent_without_a_model_declines_sampling() {
    let inn = Inn::new();
    let fixture = fixture(&inn).await;
    inn.is_ready().await;
    fixture.begin("inn__samples x").await;
    let call = fixture.call("pending-confirmation").await;
    fixture.decide(&call, true).await;
    assert_eq!(fixture.words().await, "no model for me");
}

#[tokio::test]
async fn mcp12_progress_is_visible_and_a_cancelled_turn_cancels_the_call() {
    let inn = Inn::new();
    let fixture = fixture(&inn).await;
    inn.is_ready().await;
    fixture.begin("inn__slow x").await;
    let call = fixture.call("pending-confirmation").await;
    fixture.decide(&call, true).await;
    fixture
        .client
        .until("the progress is shown", |view| {
            let chat = serde_json::to_value(view.chat(&fixture.uris.chat)).expect("JSON");
            chat.to_string().contains("1 of 2 rooms")
        })
        .await;
    fixture.cancel().await;
    inn.given_up.notified().await;
    fixture.client.assert_converged().await;
}

#[tokio::test]
async fn mcp04_cus18_users_start_stop_and_toggle_servers() {
    let inn = Inn::new();
    let fixture = fixture(&inn).await;
    inn.is_ready().await;
    fixture.server_is("ready").await;
    let first = inn.attempt().await;
    let session = &fixture.uris.session;
    let toggle = |enabled: bool| {
        let decision = json!({ "kind": "session", "enabled": enabled });
        json!({ "type": "session/customizationToggled", "id": "p", "enablement": [decision] })
    };
    fixture.client.dispatch(session, toggle(false)).await;
    inn.is_let_go().await;
    fixture.server_is("stopped").await;
    fixture.client.dispatch(session, toggle(true)).await;
    assert!(inn.attempt().await > first);
    fixture.server_is("starting").await;
    inn.is_ready().await;
    fixture.server_is("ready").await;
    let dispose = json!({ "channel": session });
    let _: Value = fixture
        .client
        .request("disposeSession", dispose)
        .await
        .expect("disposed of");
    inn.is_let_go().await;
}

#[tokio::test]
async fn mcp11_auth12_a_token_reaches_the_server_and_nothing_that_is_shown() {
    let inn = Inn::new();
    let fixture = fixture(&inn).await;
    let requirement = AuthRequirement {
        resource: RESOURCE.to_owned(),
        ..AuthRequirement::default()
    };
    inn.does(ServerStatus::AuthRequired(Box::new(requirement))).await;
    let server = fixture.server_is("authRequired").await;
    assert_eq!(server["state"]["resource"]["resource"], RESOURCE);
    let params = json!({ "channel": "ahp-root://", "resource": RESOURCE, "token": "t0k3n" });
    let _: Value = fixture.client.request("authenticate", params).await.expect("accepted");
    let given = inn.tokens.borrow().get(RESOURCE).cloned().flatten().expect("a token");
    assert_eq!(given.secret.reveal(), "t0k3n");
    inn.is_ready().await;
    let server = fixture.server_is("ready").await;
    assert!(!server.to_string().contains("t0k3n"));
    fixture.client.assert_converged().await;
}

#[tokio::test]
async fn auth05_a_sign_in_or_out_is_answered_once_it_is_persisted() {
    let inn = Inn::new();
    let fixture = fixture(&inn).await;
    let requirement = AuthRequirement {
        resource: RESOURCE.to_owned(),
        ..AuthRequirement::default()
    };
    inn.does(ServerStatus::AuthRequired(Box::new(requirement))).await;
    fixture.server_is("authRequired").await;
    for token in ["t0k3n", ""] {
        let nothing_is_kept = inn.kept.write().await;
        let params = json!({ "channel": "ahp-root://", "resource": RESOURCE, "token": token });
        let asking = fixture.client.request::<Value>("authenticate", params);
        tokio::pin!(asking);
        let mut tokens = inn.tokens.subscribe();
        let arrives = tokens.wait_for(|tokens| {
            tokens
                .get(RESOURCE)
                .is_some_and(|given| given.is_none() == token.is_empty())
        });
        tokio::select! {
            _ = &mut asking => panic!("it is not kept yet"),
            arrived = arrives => drop(arrived.expect("alive")),
        }
        // The host goes on meanwhile, and what it had said before would come before this.
        tokio::select! {
            _ = &mut asking => panic!("it is not kept yet"),
            () = fixture.client.caught_up() => {}
        }
        drop(nothing_is_kept);
        asking.await.expect("accepted");
    }
}
