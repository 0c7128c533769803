//! Everything that an agent can say, as clients see it.

use ahp_types::state::ResponsePart;
use innkeeper_testkit::official::{OfficialClient, View, decided_by, markdown};
use serde_json::{Value, json};

use crate::support::{Agency, calls, error_of, notices, uri};

#[tokio::test]
async fn text_and_thoughts_are_streamed() {
    let agency = Agency::new("");
    let stage = agency.open().await;
    assert_eq!(stage.words("t1", "say hello there").await, "hello there");
    let turn = stage.turn("t2", "think deeply").await;
    let thought = turn.response_parts.iter().find_map(|part| match part {
        ResponsePart::Reasoning(reasoning) => Some(reasoning.content.clone()),
        _ => None,
    });
    assert_eq!(thought.as_deref(), Some("deeply"));
    assert_eq!(markdown(&turn.response_parts), "thought about it");
    stage.client.assert_converged().await;
}

#[tokio::test]
async fn a_tool_call_has_its_input_kind_locations_and_result() {
    let agency = Agency::new("");
    let stage = agency.open().await;
    let turn = stage.turn("t1", "tool").await;
    let call = calls(&turn).remove(0);
    assert_eq!(call["status"], "completed");
    assert_eq!(call["displayName"], "Read the book");
    assert_eq!(call["toolInput"], r#"{"path":"/srv/book"}"#);
    assert_eq!(call["_meta"]["toolKind"], "read");
    assert_eq!(
        call["_meta"]["innkeeper.acp"]["locations"],
        json!([{ "path": "/srv/book", "line": 3 }])
    );
    assert_eq!(call["content"][0]["text"], "page one");
    assert_eq!(call["structuredContent"], json!({ "pages": 1 }));
    stage.client.assert_converged().await;
}

#[tokio::test]
async fn permission_options_are_shown_and_answered_from_any_client() {
    for (option, approved) in [("yes", true), ("always", true), ("no", false), ("never", false)] {
        let agency = Agency::new("");
        let stage = agency.open().await;
        let second = OfficialClient::connect(&stage.running.address, "second").await;
        second.join(&stage.uris.session).await;
        stage.begin("t1", "ask").await;
        let call = stage.call("pending-confirmation").await;
        let options = call["options"].as_array().expect("options");
        let ids: Vec<&str> = options.iter().filter_map(|option| option["id"].as_str()).collect();
        assert_eq!(ids, ["yes", "always", "no", "never"]);
        let action = json!({
            "type": "chat/toolCallConfirmed", "turnId": "t1", "toolCallId": call["toolCallId"], "approved": approved,
            "selectedOptionId": option,
        });
        second.dispatch(&stage.uris.chat, action).await;
        let turn = stage.end("t1").await;
        assert_eq!(markdown(&turn.response_parts), format!("you chose {option}"));
        assert_eq!(decided_by(&calls(&turn)[0]), Some("second"));
        stage.client.assert_converged().await;
        second.assert_converged().await;
        let chat = &stage.uris.chat;
        assert_eq!(stage.client.chat(chat).turns, second.chat(chat).turns);
    }
}

#[tokio::test]
async fn a_call_that_runs_can_still_ask() {
    let agency = Agency::new("");
    let stage = agency.open().await;
    stage.begin("t1", "running").await;
    let call = stage.call("pending-confirmation").await;
    stage.decide("t1", &call, true, None).await;
    // Without a choice the option for this one call is taken.
    assert_eq!(markdown(&stage.end("t1").await.response_parts), "you chose yes");
}

#[tokio::test]
async fn an_edit_is_previewed_with_both_sides_before_it_is_made() {
    let agency = Agency::new("");
    let file = agency.work().join("a.txt");
    std::fs::write(&file, "old\n").expect("a file");
    let stage = agency.open().await;
    stage.begin("t1", &format!("edit {}", file.display())).await;
    let call = stage.call("pending-confirmation").await;
    let edit = &call["edits"]["items"][0];
    assert_eq!(edit["after"]["uri"], uri(&agency.work()) + "/a.txt", "{call}");
    assert_eq!(edit["diff"], json!({ "added": 1, "removed": 1 }), "{call}");
    assert_eq!(std::fs::read_to_string(&file).expect("a file"), "old\n");
    stage.decide("t1", &call, true, Some("yes")).await;
    let turn = stage.end("t1").await;
    assert_eq!(calls(&turn)[0]["content"][0]["type"], "fileEdit");
    assert_eq!(std::fs::read_to_string(&file).expect("a file"), "new\n");
}

#[tokio::test]
async fn files_of_the_session_are_served_and_others_refused() {
    let agency = Agency::new("");
    let stage = agency.open().await;
    let inside = agency.work().join("deep/b.txt");
    let said = stage.words("t1", &format!("files {}", inside.display())).await;
    assert_eq!(said, r#"null "by the host\n""#);
    let outside = agency.directory.path().join("c.txt");
    let said = stage.words("t2", &format!("files {}", outside.display())).await;
    assert!(said.contains("outside of the session's working directories"), "{said}");
    assert!(!outside.exists());
}

#[tokio::test]
async fn a_host_without_terminals_says_so_to_the_agent() {
    let agency = Agency::new("");
    let stage = agency.open().await;
    let said = stage.words("t1", "terminal echo hi").await;
    assert!(said.starts_with("no terminal: "), "{said}");
}

#[tokio::test]
async fn a_plan_is_one_call_that_changes() {
    let agency = Agency::new("");
    let stage = agency.open().await;
    let turn = stage.turn("t1", "plan").await;
    let call = calls(&turn).remove(0);
    assert_eq!(call["displayName"], "Plan");
    assert_eq!(call["content"][0]["text"], "- [x] Look around\n- [ ] **Leave**\n");
    assert_eq!(call["pastTenseMessage"], json!("Plan: 1 of 2 steps done"), "{call}");
}

#[tokio::test]
async fn images_go_both_ways() {
    let agency = Agency::new("");
    let stage = agency.open().await;
    let turn = stage.turn("t1", "image").await;
    let parts = serde_json::to_value(&turn.response_parts).expect("JSON");
    assert_eq!(parts[0]["kind"], "contentRef", "{parts}");
    assert_eq!(parts[0]["contentType"], "image/png");
    assert_eq!(notices(&turn), "", "an image is an answer");
    let turn = stage.turn("t1b", "embedded").await;
    assert_eq!(
        (markdown(&turn.response_parts), notices(&turn)),
        ("a note".to_owned(), String::new())
    );
    let image = json!({ "type": "embeddedResource", "label": "a.png", "data": "AAEC", "contentType": "image/png" });
    let file = json!({ "type": "resource", "label": "b.rs", "uri": "file:///srv/b.rs" });
    let message = json!({ "text": "blocks", "origin": { "kind": "user" }, "attachments": [image, file] });
    let action = json!({ "type": "chat/turnStarted", "turnId": "t2", "message": message,
                         "startedAt": innkeeper_testkit::official::now() });
    stage.client.dispatch(&stage.uris.chat, action).await;
    assert_eq!(
        markdown(&stage.end("t2").await.response_parts),
        "text,image,resource_link"
    );
}

#[tokio::test]
async fn titles_usage_and_cost_are_reported() {
    let agency = Agency::new("");
    let stage = agency.open().await;
    let turn = stage.turn("t1", "title A walk").await;
    let usage = serde_json::to_value(turn.usage.as_ref().expect("usage")).expect("JSON");
    assert_eq!(
        (&usage["inputTokens"], &usage["outputTokens"]),
        (&json!(100), &json!(10))
    );
    assert_eq!(usage["model"], "small");
    assert_eq!(
        usage["_meta"]["innkeeper.acp"],
        json!({ "contextTokens": 7, "contextWindow": 100, "cost": { "amount": 0.5, "currency": "USD" }, "thoughtTokens": 3,
                "unmapped": [{ "sessionUpdate": "some_future_update" }] })
    );
    let session = &stage.uris.session;
    stage
        .client
        .until("the title", |view: &View| {
            view.session(session).is_some_and(|state| state.title == "A walk")
        })
        .await;
}

/// The first session learns what the agent offers; the next one is created with it.
#[tokio::test]
async fn modes_models_and_commands_are_learned_and_set() {
    let agency = Agency::new("");
    let agent = innkeeper_acp::AcpAgent::new(agency.settings());
    let mut changes = agent.changes();
    let stage = agency.open_with(innkeeper_host::Host::builder().agent(agent)).await;
    assert_eq!(stage.words("t1", "say hi").await, "hi");
    // The session was opened before the first turn, and its commands came with it.
    changes.changed().await.expect("the agent told about itself");
    stage.running.handle().refresh_agents().await;
    stage
        .client
        .until("the models", |view: &View| {
            let agents = view
                .root()
                .map(|root| serde_json::to_value(&root.agents).expect("JSON"));
            agents.is_some_and(|agents| agents[0]["models"][1]["id"] == "large")
        })
        .await;
    let uris = stage.client.create_session_in("second", &uri(&agency.work())).await;
    let session = stage.client.session(&uris.session);
    let config = serde_json::to_value(session.config).expect("JSON");
    assert_eq!(
        config["schema"]["properties"]["mode"]["enum"],
        json!(["ask", "code"]),
        "{config}"
    );
    assert_eq!(config["values"]["mode"], "ask");
    let change = json!({ "type": "session/configChanged", "config": { "mode": "code" } });
    stage.client.dispatch(&uris.session, change).await;
    let turn = stage.client.run_turn(&uris.chat, "t1", "mode").await;
    assert_eq!(markdown(&turn.response_parts), "code");
    // The agent changes its mode by itself, and keeps it.
    let turn = stage.client.run_turn(&uris.chat, "t2", "mode ask").await;
    assert_eq!(markdown(&turn.response_parts), "changed my mode");
    stage
        .client
        .until("the mode", |view: &View| {
            let session = view.session(&uris.session).and_then(|session| session.config.clone());
            session.is_some_and(|config| config.values.get("mode") == Some(&json!("ask")))
        })
        .await;
    let message = json!({ "text": "say large", "origin": { "kind": "user" }, "model": { "id": "large" } });
    let action = json!({ "type": "chat/turnStarted", "turnId": "t3", "message": message,
                         "startedAt": innkeeper_testkit::official::now() });
    stage.client.dispatch(&uris.chat, action).await;
    stage.client.turn_end(&uris.chat, "t3").await;
    assert_eq!(agency.noted("options"), [r#"model="large""#]);
    let found: Value = stage
        .client
        .request(
            "completions",
            json!({ "channel": uris.chat, "kind": "userMessage", "text": "/pol", "offset": 4 }),
        )
        .await
        .expect("completions");
    assert!(found.to_string().contains("/polish"), "{found}");
    // The next start of the host knows all of it before the agent runs.
    let next = innkeeper_acp::AcpAgent::new(agency.settings());
    assert_eq!(innkeeper_host::Agent::info(&next).models.len(), 2);
}

#[tokio::test]
async fn errors_limits_and_unknown_requests_are_told() {
    let agency = Agency::new("");
    let stage = agency.open().await;
    let failed = error_of(&stage.turn("t1", "fail").await);
    assert_eq!(
        failed["error"]["message"],
        "Scripted reported an error: the model is overloaded"
    );
    let turn = stage.turn("t2", "limit").await;
    assert!(notices(&turn).contains("limit of tokens"), "{turn:?}");
    assert_eq!(stage.words("t3", "vendor").await, "-32601");
    stage.client.assert_converged().await;
}
