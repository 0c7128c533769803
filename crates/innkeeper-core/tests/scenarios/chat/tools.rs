//! Tool calls: the whole state machine, the rights of clients, and the replies to the agent (TOOL).

use innkeeper_core::agent::{
    AuthRequirement, ConfirmOption, Confirmation, Contributor, FileChange, FileSide, Offer, Permission, Risk, Secret,
    ToolContent, ToolReply, ToolResult, ToolStart, ToolStep,
};
use innkeeper_core::request::Authenticate;
use innkeeper_core::{AgentCommand, Command, CoreConfig, Effect, Reply, TurnEnd};
use serde_json::{Value, json};

use crate::harness::working_agent::*;
use crate::harness::*;

#[test]
fn tool01_e17_a_call_streams_its_input_runs_streams_content_and_completes() {
    let (mut stage, conn, chat) = working();
    let start = ToolStart {
        intention: Some("to see what is there".into()),
        ..host_tool("list")
    };
    stage.tool(CALL, ToolStep::Start(start));
    assert_eq!(stage.call_state(&chat, CALL)["status"], "streaming");
    stage.tool(CALL, ToolStep::Input(r#"{"pa"#.into()));
    stage.tool(CALL, ToolStep::Input(r#"th":"."}"#.into()));
    assert_eq!(stage.call_state(&chat, CALL)["partialInput"], r#"{"path":"."}"#);
    stage.tool(CALL, harmless());
    let running = stage.call_state(&chat, CALL);
    assert_eq!(
        (&running["status"], &running["confirmed"]),
        (&json!("running"), &json!("not-needed"))
    );
    assert!(running.get("contributor").is_none(), "a host tool has none");
    stage.tool(CALL, ToolStep::Content(vec![ToolContent::Text("so far".into())]));
    assert_eq!(stage.call_state(&chat, CALL)["content"][0]["text"], "so far");
    stage.tool(CALL, done());
    let completed = stage.call_state(&chat, CALL);
    assert_eq!(
        (&completed["status"], &completed["success"]),
        (&json!("completed"), &json!(true))
    );
    assert_eq!(completed["intention"], "to see what is there");
    let types = stage.action_types(conn);
    let about_calls: Vec<_> = types.iter().filter(|name| !name.starts_with("session/")).collect();
    assert_eq!(
        about_calls,
        [
            "chat/toolCallStart",
            "chat/toolCallDelta",
            "chat/toolCallDelta",
            "chat/toolCallReady",
            "chat/toolCallContentChanged",
            "chat/toolCallComplete"
        ],
        "no responsePart beside them (E-17)"
    );
}

/// The executor of a tool learns that it may begin after the running call is published, and so persisted (P4).
#[test]
fn p4_a_call_begins_after_it_is_kept_that_it_runs() {
    let (mut stage, _, chat) = working();
    stage.call(host_tool("run"), harmless());
    assert_eq!(stage.call_state(&chat, CALL)["status"], "running");
    let started = Reply::Tool {
        call: CALL.to_owned(),
        reply: ToolReply::Started,
    };
    assert_eq!(stage.all_replies(), [started], "told once");
    stage.tool("another", ToolStep::Start(host_tool("run")));
    stage.tool("another", risky());
    assert_eq!(stage.all_replies(), [], "not before a user allows it");
}

#[test]
fn tool10_a_failed_call_is_complete_without_success() {
    let (mut stage, _, chat) = working();
    stage.call(host_tool("list"), harmless());
    let result = ToolResult::failed("Could not list it", "no such directory");
    stage.tool(CALL, ToolStep::Done { result, review: false });
    let state = stage.call_state(&chat, CALL);
    assert_eq!(
        (&state["status"], &state["success"]),
        (&json!("completed"), &json!(false))
    );
    assert_eq!(state["error"]["message"], "no such directory");
}

#[test]
fn tool04_ses18_ses19_ses20_a_risky_call_asks_on_the_chat_and_the_session() {
    let (mut stage, conn, chat) = working();
    stage.call(host_tool("run"), risky());
    let pending = stage.call_state(&chat, CALL);
    assert_eq!(pending["status"], "pending-confirmation");
    assert_eq!(
        (&pending["editable"], &pending["confirmationTitle"]),
        (&json!(true), &json!("Run it?"))
    );
    let waits = stage.waits(SESSION);
    assert_eq!(waits.len(), 1);
    assert_eq!(
        (&waits[0]["kind"], &waits[0]["chat"], &waits[0]["turnId"]),
        (&json!("toolConfirmation"), &json!(chat), &json!("t"))
    );
    assert_eq!(waits[0]["toolCall"], pending, "the full payload");
    assert_eq!(stage.state(&chat)["status"].as_u64().map(|bits| bits & 31), Some(24));
    assert_eq!(stage.state(SESSION)["status"].as_u64().map(|bits| bits & 31), Some(24));
    stage.accepted(conn, &chat, decide(true, None));
    assert!(stage.waits(SESSION).is_empty());
    assert_eq!(stage.state(SESSION)["status"].as_u64().map(|bits| bits & 31), Some(8));
}

#[test]
fn tool09_dsp16_all_clients_see_the_decider_and_the_first_decision_wins() {
    let (mut stage, first, chat) = working();
    let second = stage.client("d", &[]);
    stage.subscribe(second, &chat);
    stage.call(host_tool("run"), risky());
    let labels: Vec<_> = stage.call_state(&chat, CALL)["options"]
        .as_array()
        .expect("options")
        .iter()
        .map(|option| (option["id"].as_str().expect("id").to_owned(), option["group"].as_i64()))
        .collect();
    assert_eq!(
        labels,
        [
            ("allow-once".to_owned(), Some(0)),
            ("allow-session".to_owned(), Some(1)),
            ("allow-session-every".to_owned(), Some(3)),
            ("deny".to_owned(), Some(4))
        ],
        "no workspace without a working directory"
    );
    let echo = stage.accepted(first, &chat, decide(true, Some("allow-once")));
    assert_eq!(echo["action"]["confirmed"], "user-action");
    assert_eq!(echo["action"]["_meta"]["innkeeper.decidedBy"]["clientId"], "c");
    let reason = stage.refused(second, &chat, decide(false, Some("deny")));
    assert!(reason.contains("not waiting for a decision: it is running"), "{reason}");
    let state = stage.call_state(&chat, CALL);
    assert_eq!(state["selectedOption"]["id"], "allow-once");
    assert_eq!(
        state["_meta"]["innkeeper.decidedBy"]["clientId"], "c",
        "also for a client that subscribes later"
    );
    let decision = stage.decision();
    assert!(decision.approved);
    assert_eq!(decision.by.map(|client| client.to_string()), Some("c".into()));
}

/// A client may have a setting of its own; only the host knows that no user had to decide.
#[test]
fn tool04_how_a_client_came_to_approve_is_kept_where_the_client_can_know() {
    for (claimed, kept) in [
        (json!("user-action"), "user-action"),
        (json!("setting"), "setting"),
        (json!("not-needed"), "user-action"),
        (json!("x-future"), "user-action"),
        (Value::Null, "user-action"),
    ] {
        let (mut stage, conn, chat) = working();
        stage.call(host_tool("run"), risky());
        let mut claims = decide(true, Some("allow-once"));
        if !claimed.is_null() {
            claims["confirmed"] = claimed.clone();
        }
        let echo = stage.accepted(conn, &chat, claims);
        assert_eq!(echo["action"]["confirmed"], kept, "{claimed}");
        let state = stage.call_state(&chat, CALL);
        assert_eq!(state["confirmed"], kept);
        assert_eq!(
            state["_meta"]["innkeeper.decidedBy"]["clientId"], "c",
            "whose setting it was"
        );
    }
    // The client that runs a tool knows whether it has to be confirmed.
    let (mut stage, conn, chat) = working();
    stage.accepted(conn, SESSION, crate::clients::active_clients::offer("c", &["open"]));
    stage.call(client_tool("open", "c"), risky());
    let mut claims = decide(true, Some("allow-once"));
    claims["confirmed"] = json!("not-needed");
    stage.accepted(conn, &chat, claims);
    assert_eq!(stage.call_state(&chat, CALL)["confirmed"], "not-needed");
}

/// VS Code confirms calls of its own tools that run already, and calls of a turn that was just
/// cancelled.
#[test]
fn dsp15_dsp16_a_decision_without_effect_is_echoed_to_its_author_alone() {
    let (mut stage, conn, chat) = working();
    let other = stage.client("d", &[&chat]);
    stage.call(host_tool("run"), harmless());
    stage.inbox(conn);
    stage.inbox(other);
    let unchanged = |stage: &mut Stage, action: Value| {
        let before = stage.state(&chat);
        let echo = stage.accepted(conn, &chat, action);
        assert_eq!(echo["origin"]["clientId"], "c");
        assert!(stage.actions(other).is_empty());
        assert_eq!(stage.state(&chat), before);
    };
    unchanged(&mut stage, decide(true, None));
    let denied = stage.refused(conn, &chat, decide(false, None));
    assert!(denied.contains("it is running"), "who said no has to know: {denied}");
    let done = ToolStep::Done {
        result: ToolResult::text("Ran", "done"),
        review: false,
    };
    stage.tool(CALL, done);
    stage.inbox(other);
    unchanged(&mut stage, decide(true, None));
    let denied = stage.refused(conn, &chat, decide(false, None));
    assert!(denied.contains("it is complete"), "{denied}");

    stage.tool("call-2", ToolStep::Start(host_tool("run")));
    stage.tool("call-2", risky());
    let cancelled = json!({ "type": "chat/turnCancelled", "turnId": "t", "duration": 0 });
    stage.accepted(conn, &chat, cancelled);
    stage.inbox(other);
    for approved in [true, false] {
        let mut late = decide(approved, None);
        late["toolCallId"] = json!("call-2");
        unchanged(&mut stage, late);
    }
    let denied = stage.refused(conn, &chat, decide(false, None));
    assert!(denied.contains("it is complete"), "also after its turn: {denied}");
    assert!(stage.replies().is_empty(), "no agent hears of it");
}

#[test]
fn dsp10_lesson_40_a_session_subscriber_can_decide_a_call() {
    let (mut stage, _, chat) = working();
    stage.call(host_tool("run"), risky());
    let late = stage.client("phone", &[]);
    let snapshot = stage.subscribe(late, SESSION);
    let wait = snapshot["result"]["snapshot"]["state"]["inputNeeded"][0].clone();
    assert_eq!(wait["toolCall"]["toolCallId"], CALL);
    let action = json!({ "type": "chat/toolCallConfirmed", "turnId": wait["turnId"], "toolCallId": wait["toolCall"]["toolCallId"], "approved": true });
    stage.dispatch(late, wait["chat"].as_str().expect("a chat"), 1, action);
    assert!(stage.decision().approved);
    assert_eq!(stage.call_state(&chat, CALL)["status"], "running");
}

#[test]
fn tool06_tool08_e22_a_decision_must_match_an_offered_option() {
    let (mut stage, conn, chat) = working();
    stage.call(host_tool("run"), risky());
    let reason = stage.refused(conn, &chat, decide(true, Some("allow-everything")));
    assert!(reason.contains("selectedOptionId"), "{reason}");
    let reason = stage.refused(conn, &chat, decide(true, Some("deny")));
    assert!(reason.contains("does not go with approved: true"), "{reason}");
    let mut edited = decide(true, None);
    edited["editedToolInput"] = json!(r#"{"command":"pwd"}"#);
    stage.accepted(conn, &chat, edited.clone());
    assert_eq!(stage.call_state(&chat, CALL)["toolInput"], r#"{"command":"pwd"}"#);
    assert_eq!(stage.decision().edited_input.as_deref(), Some(r#"{"command":"pwd"}"#));

    stage.tool("call-2", ToolStep::Start(host_tool("run")));
    stage.tool("call-2", ready(Permission::Ask(Box::default())));
    edited["toolCallId"] = json!("call-2");
    let reason = stage.refused(conn, &chat, edited);
    assert!(reason.contains("cannot be edited"), "{reason}");
}

#[test]
fn tool05_a_denial_tells_the_agent_why() {
    let (mut stage, conn, chat) = working();
    stage.call(host_tool("run"), risky());
    let mut action = decide(false, Some("deny"));
    action["userSuggestion"] = message("use the other directory");
    stage.accepted(conn, &chat, action);
    let state = stage.call_state(&chat, CALL);
    assert_eq!(
        (&state["status"], &state["reason"]),
        (&json!("cancelled"), &json!("denied"))
    );
    let decision = stage.decision();
    assert!(!decision.approved);
    assert_eq!(decision.remark.as_deref(), Some("use the other directory"));
}

#[test]
fn tool03_e15_a_running_call_can_ask_again() {
    let (mut stage, conn, chat) = working();
    stage.call(host_tool("run"), harmless());
    stage.tool(CALL, ToolStep::Content(vec![ToolContent::Text("half".into())]));
    stage.tool(CALL, risky());
    assert_eq!(stage.call_state(&chat, CALL)["status"], "pending-confirmation");
    stage.accepted(conn, &chat, decide(true, None));
    assert_eq!(stage.call_state(&chat, CALL)["status"], "running");
    assert!(
        stage.call_state(&chat, CALL).get("content").is_none(),
        "asking again drops it"
    );
}

#[test]
fn tool18_a_late_verdict_keeps_everything_else() {
    let (mut stage, conn, chat) = working();
    let confirmation = Confirmation {
        title: Some("Delete it?".into()),
        risk: Some(Risk::Assessing),
        edits: vec![FileChange {
            before: Some(FileSide::new("file:///a", "git:/a")),
            after: None,
            added: 0,
            removed: 12,
        }],
        ..Confirmation::default()
    };
    stage.call(host_tool("delete"), ready(Permission::Ask(Box::new(confirmation))));
    let before = stage.call_state(&chat, CALL);
    assert_eq!(before["riskAssessment"]["status"], "loading");
    stage.tool(
        CALL,
        ToolStep::Risk(Risk::Assessed {
            reason: "it is under version control".into(),
            safety: 0.75,
        }),
    );
    let after = stage.call_state(&chat, CALL);
    assert_eq!(after["riskAssessment"]["status"], "complete");
    assert_eq!(after["riskAssessment"]["safety"], 0.75);
    for field in [
        "confirmationTitle",
        "edits",
        "options",
        "toolInput",
        "invocationMessage",
    ] {
        assert_eq!(before[field], after[field], "{field}");
    }
    assert_eq!(stage.waits(SESSION)[0]["toolCall"], after, "the session shows it too");
    stage.accepted(conn, &chat, decide(true, None));
    stage.tool(CALL, ToolStep::Risk(Risk::Assessing));
    assert_eq!(stage.call_state(&chat, CALL)["status"], "running", "too late to matter");
}

#[test]
fn tool04_a_hook_forces_a_confirmation_or_decides_in_place_of_the_user() {
    let (mut stage, conn, chat) = working();
    let everything = json!({ "type": "session/configChanged", "config": { "autoApprove": "autoApprove" } });
    stage.accepted(conn, SESSION, everything);
    stage.call(host_tool("run"), ready(Permission::Insist(Box::default())));
    assert_eq!(stage.call_state(&chat, CALL)["status"], "pending-confirmation");
    stage.accepted(conn, &chat, decide(true, None));
    assert_eq!(stage.call_state(&chat, CALL)["status"], "running");

    stage.tool("call-2", ToolStep::Start(host_tool("run")));
    stage.tool("call-2", ready(Permission::Granted));
    let state = stage.call_state(&chat, "call-2");
    assert_eq!(
        (&state["status"], &state["confirmed"]),
        (&json!("running"), &json!("setting"))
    );
}

#[test]
fn tool09_an_agent_offers_its_own_choices() {
    let (mut stage, conn, chat) = working();
    let option = |id: &str, approves, group| ConfirmOption {
        id: id.into(),
        label: id.into(),
        approves,
        group: Some(group),
    };
    let offer = Offer::Own(vec![
        option("here", true, 1),
        option("elsewhere", true, 1),
        option("no", false, 2),
    ]);
    let confirmation = Confirmation {
        offer,
        ..Confirmation::default()
    };
    stage.call(host_tool("write"), ready(Permission::Ask(Box::new(confirmation))));
    stage.accepted(conn, &chat, decide(true, Some("elsewhere")));
    assert_eq!(stage.decision().choice.as_deref(), Some("elsewhere"));
    assert_eq!(stage.call_state(&chat, CALL)["selectedOption"]["group"], 1);
}

#[test]
fn tool04_e18_a_result_waits_for_review_and_a_denied_one_is_withheld() {
    let (mut stage, conn, chat) = working();
    for approved in [true, false] {
        let call = format!("call-{approved}");
        stage.tool(&call, ToolStep::Start(host_tool("fetch")));
        stage.tool(&call, harmless());
        let result = ToolResult::text("Fetched it", "secret page");
        stage.tool(&call, ToolStep::Done { result, review: true });
        assert_eq!(stage.call_state(&chat, &call)["status"], "pending-result-confirmation");
        assert_eq!(stage.waits(SESSION)[0]["kind"], "toolConfirmation");
        let action =
            json!({ "type": "chat/toolCallResultConfirmed", "turnId": "t", "toolCallId": call, "approved": approved });
        stage.accepted(conn, &chat, action.clone());
        let expected = if approved { "completed" } else { "cancelled" };
        assert_eq!(stage.call_state(&chat, &call)["status"], expected);
        assert_eq!(
            stage.replies(),
            [Reply::Tool {
                call: call.clone(),
                reply: ToolReply::Reviewed { approved }
            }]
        );
        let reason = stage.refused(conn, &chat, action);
        assert!(reason.contains("not waiting for a decision"), "{reason}");
    }
    assert_eq!(stage.call_state(&chat, "call-false")["reason"], "result-denied");
    assert!(stage.waits(SESSION).is_empty());
}

#[test]
fn tool12_clients_do_not_complete_calls_that_the_host_runs() {
    let (mut stage, conn, chat) = working();
    stage.call(host_tool("run"), harmless());
    let complete = json!({ "type": "chat/toolCallComplete", "turnId": "t", "toolCallId": CALL, "result": { "success": true, "pastTenseMessage": "done" } });
    let reason = stage.refused(conn, &chat, complete);
    assert!(reason.contains("the host runs this tool"), "{reason}");
    let content = json!({ "type": "chat/toolCallContentChanged", "turnId": "t", "toolCallId": CALL, "content": [] });
    assert!(stage.refused(conn, &chat, content).contains("the host runs this tool"));
    let unknown = json!({ "type": "chat/toolCallConfirmed", "turnId": "t", "toolCallId": "unknown", "approved": true });
    assert!(stage.refused(conn, &chat, unknown).contains("no such tool call"));
    let other_turn =
        json!({ "type": "chat/toolCallConfirmed", "turnId": "other", "toolCallId": CALL, "approved": true });
    assert!(stage.refused(conn, &chat, other_turn).contains("not running"));
}

#[test]
fn turn06_tool20_the_end_of_a_turn_ends_its_calls_without_further_ado() {
    let (mut stage, conn, chat) = working();
    stage.tool("streaming", ToolStep::Start(host_tool("a")));
    stage.tool("running", ToolStep::Start(host_tool("b")));
    stage.tool("running", harmless());
    stage.tool("waiting", ToolStep::Start(host_tool("c")));
    stage.tool("waiting", risky());
    stage.inbox(conn);
    stage.ends(TurnEnd::Complete);
    for call in ["streaming", "running", "waiting"] {
        let state = stage.call_state(&chat, call);
        assert_eq!(
            (&state["status"], &state["reason"]),
            (&json!("cancelled"), &json!("skipped")),
            "{call}"
        );
    }
    let types = stage.action_types(conn);
    assert!(types.iter().all(|name| !name.starts_with("chat/toolCall")), "{types:?}");
    assert!(types.contains(&"session/inputNeededRemoved".to_owned()), "{types:?}");
    assert!(stage.waits(SESSION).is_empty());
}

fn sign_in() -> ToolStep {
    ToolStep::AuthRequired(AuthRequirement {
        resource: "https://mcp.example/".into(),
        resource_name: Some("Example".into()),
        authorization_servers: vec!["https://login.example/".into()],
        scopes: vec!["read".into()],
        description: Some("Sign in to read it".into()),
        ..AuthRequirement::default()
    })
}

fn mcp_tool() -> ToolStart {
    ToolStart {
        contributor: Contributor::Mcp("mcp-1".into()),
        ..host_tool("read")
    }
}

#[test]
fn tool14_tool15_auth10_a_call_waits_for_a_sign_in() {
    let (mut stage, conn, chat) = working();
    stage.call(mcp_tool(), harmless());
    stage.tool(CALL, sign_in());
    let state = stage.call_state(&chat, CALL);
    assert_eq!(
        (&state["status"], &state["auth"]["resource"]["resource"]),
        (&json!("auth-required"), &json!("https://mcp.example/"))
    );
    let waits = stage.waits(SESSION);
    assert_eq!(
        (&waits[0]["kind"], &waits[0]["toolCall"]["status"]),
        (&json!("toolAuthentication"), &json!("auth-required"))
    );
    let authenticate = |resource: &str, token: &str| {
        Command::Authenticate(Box::new(Authenticate {
            resource: resource.into(),
            token: Secret::new(token),
            expires_in: None,
            scopes: None,
            refresh: None,
        }))
    };
    let wrong = stage.request(conn, authenticate("https://elsewhere.example/", "token"));
    assert_eq!(error(&wrong).0, -32602, "AUTH-04");
    assert!(stage.replies().is_empty());
    let answer = stage.request(conn, authenticate("https://mcp.example/", "t0ken"));
    assert_eq!(answer["result"], json!({}));
    let replies = stage.replies();
    let [
        Reply::Tool {
            reply: ToolReply::Authenticated { token },
            ..
        },
    ] = replies.as_slice()
    else {
        panic!("{replies:?}");
    };
    assert_eq!(token.reveal(), "t0ken");
    assert!(!format!("{replies:?}").contains("t0ken"), "AUTH-12");
    stage.tool(CALL, ToolStep::AuthResolved);
    assert_eq!(stage.call_state(&chat, CALL)["status"], "running");
    assert!(stage.waits(SESSION).is_empty());
}

#[test]
fn e25_tool12_any_client_may_abandon_a_sign_in_and_the_call_then_fails() {
    let (mut stage, conn, chat) = working();
    stage.call(mcp_tool(), harmless());
    stage.tool(CALL, ToolStep::Content(vec![ToolContent::Text("half".into())]));
    stage.tool(CALL, sign_in());
    let complete = |success| json!({ "type": "chat/toolCallComplete", "turnId": "t", "toolCallId": CALL, "result": { "success": success, "pastTenseMessage": "gave up" }, "requiresResultConfirmation": true });
    let reason = stage.refused(conn, &chat, complete(true));
    assert!(reason.contains("result.success"), "{reason}");
    stage.accepted(conn, &chat, complete(false));
    let state = stage.call_state(&chat, CALL);
    assert_eq!(
        (&state["status"], &state["content"][0]["text"]),
        (&json!("completed"), &json!("half"))
    );
    assert_eq!(
        stage.replies(),
        [Reply::Tool {
            call: CALL.into(),
            reply: ToolReply::AuthRefused
        }]
    );
}

#[test]
fn tool15_only_mcp_servers_request_a_sign_in() {
    let (mut stage, _, chat) = working();
    stage.call(host_tool("read"), harmless());
    stage.tool(CALL, sign_in());
    assert_eq!(stage.call_state(&chat, CALL)["status"], "running");
}

#[test]
fn e41_a_call_that_waits_for_a_sign_in_is_written_once_and_readable() {
    let (mut stage, _, chat) = working();
    stage.call(mcp_tool(), harmless());
    stage.tool(CALL, sign_in());
    let snapshot = stage.core.snapshot(&chat).expect("the chat");
    let text = serde_json::to_string(&snapshot.state).expect("JSON");
    assert_eq!(text.matches(r#""status":"auth-required""#).count(), 1, "{text}");
}

#[test]
fn upstream_still_writes_the_status_of_a_sign_in_twice() {
    let (mut stage, _, chat) = working();
    stage.call(mcp_tool(), harmless());
    stage.tool(CALL, sign_in());
    let innkeeper_core::snapshot::State::Chat(..) = stage.core.snapshot(&chat).expect("the chat").state else {
        panic!("a chat");
    };
    let wait = stage.waits(SESSION)[0].clone();
    let call: ahp_types::state::ToolCallAuthRequiredState =
        serde_json::from_value(wait["toolCall"].clone()).expect("the plain struct reads fine");
    let text = serde_json::to_string(&ahp_types::state::ToolCallState::AuthRequired(Box::new(call))).expect("JSON");
    assert_eq!(
        text.matches(r#""status""#).count(),
        2,
        "E-41 is fixed upstream: drop our own encoding"
    );
}

#[test]
fn tool21_late_or_wrong_steps_of_an_agent_change_nothing() {
    let (mut stage, conn, chat) = working();
    stage.call(host_tool("run"), risky());
    stage.inbox(conn);
    let before = stage.state(&chat);
    stage.tool(CALL, ToolStep::Start(host_tool("again")));
    stage.tool(CALL, ToolStep::Input("more".into()));
    stage.tool(CALL, ToolStep::Content(Vec::new()));
    stage.tool(CALL, ToolStep::AuthResolved);
    stage.tool("unknown", done());
    stage.tool("unknown", harmless());
    assert_eq!(stage.state(&chat), before);
    assert!(stage.inbox(conn).is_empty());
}

#[test]
fn lesson_39_several_calls_wait_at_once_and_each_is_answered_on_its_own() {
    let (mut stage, conn, chat) = working();
    for index in 0..5 {
        let call = format!("call-{index}");
        stage.tool(&call, ToolStep::Start(host_tool("run")));
        stage.tool(&call, risky());
    }
    assert_eq!(stage.waits(SESSION).len(), 5);
    for index in [3, 0, 4, 1, 2] {
        let mut action = decide(index % 2 == 0, None);
        action["toolCallId"] = json!(format!("call-{index}"));
        stage.accepted(conn, &chat, action);
        assert_eq!(stage.decision().approved, index % 2 == 0);
    }
    assert!(stage.waits(SESSION).is_empty());
}

#[test]
fn a_turn_that_produces_too_much_tool_output_is_ended() {
    let (mut stage, _, chat) = working_with(CoreConfig {
        max_turn_bytes: 10_000,
        ..CoreConfig::default()
    });
    stage.call(host_tool("run"), harmless());
    for _ in 0..100 {
        // Repeated equal content replaces itself and takes no more memory.
        stage.tool(CALL, ToolStep::Content(vec![ToolContent::Text("x".repeat(4000))]));
    }
    assert_eq!(stage.call_state(&chat, CALL)["status"], "running");
    stage.tool(CALL, ToolStep::Content(vec![ToolContent::Text("x".repeat(20_000))]));
    let state = stage.state(&chat);
    assert_eq!(state["turns"][0]["state"], "error");
    assert!(
        stage
            .agent
            .iter()
            .any(|effect| matches!(effect, Effect::Agent(AgentCommand::CancelTurn { .. })))
    );
}

/// (TOOL-16, TOOL-17)
#[test]
fn tool10_every_kind_of_content_decodes_in_the_published_types() {
    let (mut stage, _, chat) = working();
    stage.call(host_tool("all"), harmless());
    let change = FileChange {
        before: Some(FileSide {
            size: Some(2),
            content_type: Some("text/plain".into()),
            ..FileSide::new("file:///a", "data:text/plain,hi")
        }),
        after: Some(FileSide::new("file:///b", "file:///b")),
        added: 3,
        removed: 1,
    };
    let terminal = |exit_code, preview: Option<&str>| ToolContent::Terminal {
        uri: "ahp-terminal:/1".into(),
        title: "make".into(),
        is_pty: true,
        exit_code,
        preview: preview.map(str::to_owned),
    };
    let content = vec![
        ToolContent::Text("words".into()),
        ToolContent::Embedded {
            data: "aGk=".into(),
            content_type: "text/plain".into(),
        },
        ToolContent::Resource {
            uri: "file:///c".into(),
            content_type: Some("text/html".into()),
            size: Some(7),
            mention: None,
        },
        ToolContent::FileEdit(change),
        terminal(None, None),
        terminal(Some(2), Some("error")),
        ToolContent::Subagent {
            chat: "ahp-chat:/w".into(),
            title: "W".into(),
            agent_name: Some("explorer".into()),
            description: None,
        },
    ];
    stage.tool(CALL, ToolStep::Content(content));
    let shown = stage.call_state(&chat, CALL)["content"].clone();
    let read: Vec<ahp_types::state::ToolResultContent> = serde_json::from_value(shown.clone()).expect("decodes");
    let unknown = |content: &ahp_types::state::ToolResultContent| {
        matches!(content, ahp_types::state::ToolResultContent::Unknown(_))
    };
    assert!(!read.iter().any(unknown), "{read:?}");
    let kinds: Vec<_> = shown
        .as_array()
        .expect("a list")
        .iter()
        .map(|one| &one["type"])
        .collect();
    let expected = [
        "text",
        "embeddedResource",
        "resource",
        "fileEdit",
        "terminal",
        "terminal",
        "subagent",
    ];
    assert_eq!(kinds, expected);
    let before = json!({
        "uri": "innkeeper-content://inline-6869/a", "sizeHint": 2, "contentType": "text/plain",
    });
    assert_eq!(
        shown[3]["before"]["content"], before,
        "clients refuse URIs without a path"
    );
    assert!(shown[4].get("result").is_none(), "while it runs");
    assert_eq!(shown[5]["result"], json!({ "exitCode": 2, "preview": "error" }));
}
