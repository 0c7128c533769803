//! The moments that hooks hear of, and what they can do there, for any agent. The hooks are the test's own.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use innkeeper_host::agent::{Confirmation, Invocation, SubagentSpec, ToolResult, Verdict};
use innkeeper_host::customizations::{
    CustomizationSet, CustomizationSources, Customizations, CustomizationsSink, Following, HookCall, HookEvent,
    HookOutcome, Hooks,
};
use innkeeper_host::mcp::{Hints, McpTool};
use innkeeper_host::{AgentError, EventSink, Host, TurnInput, async_trait};
use innkeeper_testkit::embedded::{Scripted, SessionFixture, calls};
use innkeeper_testkit::official::markdown;
use serde_json::{Map, Value, json};
use tokio::sync::Notify;

type Says = Arc<dyn Fn(&HookCall) -> HookOutcome + Send + Sync>;

/// Hooks that hear of everything, note it, and say what the test wants.
#[derive(Clone)]
struct Listening {
    heard: Arc<Mutex<Vec<HookCall>>>,
    news: Arc<Notify>,
    says: Says,
}

impl Listening {
    fn new(says: impl Fn(&HookCall) -> HookOutcome + Send + Sync + 'static) -> Self {
        Self {
            heard: Arc::default(),
            news: Arc::default(),
            says: Arc::new(says),
        }
    }

    fn heard(&self) -> Vec<(HookEvent, String)> {
        let heard = self.heard.lock().expect("no panic");
        heard.iter().map(|call| (call.event, call.subject.clone())).collect()
    }

    fn told(&self, event: HookEvent) -> Vec<Value> {
        let heard = self.heard.lock().expect("no panic");
        let told = heard.iter().filter(|call| call.event == event);
        told.map(|call| Value::Object(call.input.clone())).collect()
    }

    async fn hears(&self, event: HookEvent) {
        self.until(|| !self.told(event).is_empty(), &format!("{event:?}")).await;
    }

    async fn until(&self, has_heard: impl Fn() -> bool, what: &str) {
        let listening = async {
            loop {
                let news = self.news.notified();
                if has_heard() {
                    return;
                }
                news.await;
            }
        };
        let heard = tokio::time::timeout(Duration::from_secs(30), listening).await;
        heard.unwrap_or_else(|_| panic!("no notification of {what}"));
    }

    async fn fixture<F>(&self, script: impl Fn(TurnInput, EventSink) -> F + Send + Sync + 'static) -> SessionFixture
    where
        F: Future<Output = Result<(), AgentError>> + Send + 'static,
    {
        let agent = Scripted::new(script);
        SessionFixture::with(Host::builder().agent(agent).customizations(self.clone())).await
    }
}

#[async_trait]
impl Hooks for Listening {
    fn hear(&self, _: HookEvent, _: &BTreeSet<String>) -> bool {
        true
    }

    async fn run(&self, call: HookCall, _: &BTreeSet<String>, _: Option<&EventSink>) -> HookOutcome {
        let outcome = (self.says)(&call);
        self.heard.lock().expect("no panic").push(call);
        self.news.notify_one();
        outcome
    }
}

impl Customizations for Listening {
    fn follow(&self, _: CustomizationSources, sink: CustomizationsSink) -> Following {
        let set = Arc::new(CustomizationSet {
            hooks: Arc::new(self.clone()),
            ..CustomizationSet::default()
        });
        Following::new(tokio::spawn(async move { sink.report(set).await }))
    }
}

fn at(event: HookEvent, outcome: HookOutcome) -> Listening {
    Listening::new(move |call| {
        if call.event == event {
            outcome.clone()
        } else {
            HookOutcome::default()
        }
    })
}

fn deny(reason: &str) -> HookOutcome {
    HookOutcome {
        deny: Some(reason.to_owned()),
        ..HookOutcome::default()
    }
}

/// Runs a harmless call, and says what came of it.
async fn read(_: TurnInput, events: EventSink) -> Result<(), AgentError> {
    let draft = events.tool("read").id("mine").start().await?;
    match draft.run(Invocation::new("Reads").input("{\"path\":\"a\"}")).await {
        Ok(call) => {
            call.complete(ToolResult::text("Read", "whole")).await?;
            let added = events.context_of("mine").join(", ");
            events.text(format!("read {added}")).await
        }
        Err(error) => match error.denial() {
            Some(reason) => events.text(format!("denied: {reason}")).await,
            None => Err(error),
        },
    }
}

/// Asks, and says what came of it.
async fn write(_: TurnInput, events: EventSink) -> Result<(), AgentError> {
    let editable = Confirmation {
        editable: true,
        ..Confirmation::default()
    };
    let draft = events.tool("write").start().await?;
    match draft.confirm(Invocation::new("Writes").input("{}"), editable).await? {
        Verdict::Approved(call, decision) => {
            call.complete(ToolResult::text("Wrote", "it")).await?;
            let by = decision
                .by
                .map_or_else(|| "no client".to_owned(), |by| by.as_str().to_owned());
            events.text(format!("written, {by} was asked")).await
        }
        Verdict::Denied(decision) => {
            let remark = decision.remark.unwrap_or_default();
            events.text(format!("denied: {remark}")).await
        }
    }
}

async fn says(_: TurnInput, events: EventSink) -> Result<(), AgentError> {
    let added = events.added_context().join(", ");
    events.text(format!("hello {added}")).await
}

fn notices(parts: &[Value]) -> Vec<String> {
    let notices = parts.iter().filter(|part| part["kind"] == "systemNotification");
    notices
        .map(|part| part["content"].as_str().unwrap_or_default().to_owned())
        .collect()
}

#[tokio::test]
async fn hooks_hear_of_a_turn_in_order() {
    let hooks = Listening::new(|_| HookOutcome::default());
    let fixture = hooks.fixture(read).await;
    fixture.begin("go").await;
    fixture.end().await;
    fixture.client.run_turn(&fixture.uris.chat, "t2", "again").await;
    let expected = [
        (HookEvent::SessionStart, "startup"),
        (HookEvent::UserPromptSubmit, ""),
        (HookEvent::PreToolUse, "read"),
        (HookEvent::PostToolUse, "read"),
        (HookEvent::Stop, ""),
        (HookEvent::UserPromptSubmit, ""),
        (HookEvent::PreToolUse, "read"),
        (HookEvent::PostToolUse, "read"),
        (HookEvent::Stop, ""),
    ];
    assert_eq!(
        hooks.heard(),
        expected.map(|(event, subject)| (event, subject.to_owned()))
    );
    assert_eq!(hooks.told(HookEvent::UserPromptSubmit)[0]["prompt"], "go");
    let told = &hooks.told(HookEvent::PostToolUse)[0];
    assert_eq!(told["tool_input"], json!({ "path": "a" }));
    assert_eq!(told["tool_response"]["text"], "whole");
    fixture.client.assert_converged().await;
}

#[tokio::test]
async fn a_hook_refuses_a_call_that_needs_no_permission() {
    let fixture = at(HookEvent::PreToolUse, deny("not that file")).fixture(read).await;
    fixture.begin("go").await;
    let parts = fixture.end().await;
    assert_eq!(fixture.words().await, "denied: not that file");
    let call = calls(&parts).remove(0);
    assert_eq!(
        (&call["status"], &call["success"]),
        (&json!("completed"), &json!(false))
    );
    assert!(call.to_string().contains("A hook refused read"), "{call:#}");
    fixture.client.assert_converged().await;
}

#[tokio::test]
async fn mcp12_a_hook_refuses_a_call_of_a_trusted_server_and_the_turn_goes_on() {
    let harmless = McpTool {
        name: "inn__look".to_owned(),
        server: "inn".to_owned(),
        server_name: "The Inn".to_owned(),
        plugin: Some("travel".to_owned()),
        tool: "look".to_owned(),
        is_trusted: true,
        hints: Hints {
            read_only: Some(true),
            ..Hints::default()
        },
        ..McpTool::default()
    };
    let of_server = harmless.of_server();
    let hooks = at(HookEvent::PreToolUse, deny("not there"));
    let fixture = hooks
        .fixture(move |_, events| {
            let tool = harmless.clone();
            async move {
                let result = events.mcp_tool(&tool).run(Map::new()).await?;
                events.text(format!("{}: {:?}", result.success, result.error)).await
            }
        })
        .await;
    fixture.begin("go").await;
    assert_eq!(fixture.words().await, "false: Some(\"not there\")");
    let heard = hooks.heard.lock().expect("no panic").clone();
    let mut calls = heard.into_iter().filter(|call| call.event == HookEvent::PreToolUse);
    assert_eq!(
        calls.next().and_then(|call| call.mcp),
        Some(of_server),
        "whose tool it is"
    );
    fixture.client.assert_converged().await;
}

#[tokio::test]
async fn a_hook_denies_before_the_user_is_asked() {
    let fixture = at(HookEvent::PreToolUse, deny("no writing")).fixture(write).await;
    fixture.begin("go").await;
    assert_eq!(fixture.words().await, "denied: no writing");
    fixture.client.assert_converged().await;
}

#[tokio::test]
async fn a_user_hook_can_approve_and_any_hook_can_request_a_confirmation() {
    let allow = HookOutcome {
        allow: true,
        ..HookOutcome::default()
    };
    let fixture = at(HookEvent::PreToolUse, allow.clone()).fixture(write).await;
    fixture.begin("go").await;
    let parts = fixture.end().await;
    assert_eq!(fixture.words().await, "written, no client was asked");
    assert_eq!(calls(&parts)[0]["confirmed"], "setting");

    // Also where users approved everything, and for calls that need no confirmation.
    for script in ["write", "read"] {
        let ask = HookOutcome {
            ask: true,
            ..allow.clone()
        };
        let hooks = at(HookEvent::PreToolUse, ask);
        let fixture = hooks
            .fixture(move |turn, events| async move {
                match script {
                    "write" => write(turn, events).await,
                    _ => read(turn, events).await,
                }
            })
            .await;
        let everything = json!({ "type": "session/configChanged", "config": { "autoApprove": "autoApprove" } });
        fixture.client.dispatch(&fixture.uris.session, everything).await;
        fixture.begin("go").await;
        let call = fixture.call("pending-confirmation").await;
        fixture.decide(&call, script == "write").await;
        let words = fixture.words().await;
        let expected = if script == "write" {
            "written, first was asked"
        } else {
            "denied: the user denied this call and gave no reason; do not try the same again, ask or find another way"
        };
        assert_eq!(words, expected);
        fixture.client.assert_converged().await;
    }
}

#[tokio::test]
async fn hooks_check_an_edited_input_before_it_runs() {
    let of = |call: &HookCall| call.input["tool_input"].clone();
    let hooks = Listening::new(move |call| match call.event {
        HookEvent::PreToolUse if of(call)["path"] == "secret" => deny("not that one"),
        // A hook that returns the same input changes nothing; one that would change the user's edited input refuses it.
        HookEvent::PreToolUse if of(call)["path"] == "same" => HookOutcome {
            input: Some(json!({ "path": "same" })),
            ..HookOutcome::default()
        },
        HookEvent::PreToolUse if of(call)["path"] == "other" => HookOutcome {
            input: Some(json!({ "path": "elsewhere" })),
            ..HookOutcome::default()
        },
        _ => HookOutcome::default(),
    });
    for (path, expected) in [
        ("secret", "denied: not that one"),
        ("same", "written, first was asked"),
        (
            "other",
            "denied: a hook wants another input than the one that the user wrote for this call",
        ),
    ] {
        let fixture = hooks.fixture(write).await;
        fixture.begin("go").await;
        let call = fixture.call("pending-confirmation").await;
        let edited = json!({ "path": path }).to_string();
        let action = json!({ "type": "chat/toolCallConfirmed", "approved": true, "editedToolInput": edited });
        fixture.about(&call, action).await;
        assert_eq!(fixture.words().await, expected);
        let told = hooks.told(HookEvent::PreToolUse).pop().expect("heard");
        assert_eq!(told["tool_input"], json!({ "path": path }));
        fixture.client.assert_converged().await;
    }
}

/// (TOOL-03)
#[tokio::test]
async fn a_hook_can_request_a_confirmation_of_an_edited_input() {
    let hooks = Listening::new(|call| HookOutcome {
        ask: call.event == HookEvent::PreToolUse && call.input["tool_input"]["path"] == "asks",
        ..HookOutcome::default()
    });
    for approved in [true, false] {
        let fixture = hooks.fixture(write).await;
        fixture.begin("go").await;
        let call = fixture.call("pending-confirmation").await;
        let edited = json!({ "path": "asks" }).to_string();
        let action = json!({ "type": "chat/toolCallConfirmed", "approved": true, "editedToolInput": edited });
        fixture.about(&call, action).await;
        let chat = &fixture.uris.chat;
        let asks_again = |view: &innkeeper_testkit::official::View| {
            let calls = view.tool_calls(chat);
            calls.last().is_some_and(|call| {
                let title = call["confirmationTitle"].as_str().unwrap_or_default();
                call["status"] == "pending-confirmation" && title.contains("A hook asks about the input")
            })
        };
        fixture.client.until("the call asks again", asks_again).await;
        let call = fixture.call("pending-confirmation").await;
        assert_eq!(call["toolInput"], edited, "users see the input that they approve");
        fixture.decide(&call, approved).await;
        let expected = if approved {
            "written, first was asked"
        } else {
            "denied: "
        };
        assert_eq!(fixture.words().await, expected);
        fixture.client.assert_converged().await;
    }
}

#[tokio::test]
async fn a_hook_changes_the_input_of_an_agent_that_can_take_it_and_of_no_other() {
    let change = HookOutcome {
        input: Some(json!({ "path": "b" })),
        ..HookOutcome::default()
    };
    let hooks = at(HookEvent::PreToolUse, change);
    let fixture = hooks
        .fixture(|_, events| async move {
            let mut draft = events.tool("read").start().await?;
            let input = draft.check("{\"path\":\"a\"}").await?.expect("another input");
            let call = draft.run(Invocation::new("Reads").input(input.clone())).await?;
            call.complete(ToolResult::text("Read", "whole")).await?;
            events.text(input).await
        })
        .await;
    fixture.begin("go").await;
    assert_eq!(fixture.words().await, "{\"path\":\"b\"}");
    let asked = hooks.told(HookEvent::PreToolUse).len();
    assert_eq!(asked, 1, "one call is looked at once");

    let fixture = hooks.fixture(read).await;
    fixture.begin("go").await;
    assert!(fixture.words().await.contains("cannot take one from it"));
}

#[tokio::test]
async fn context_added_by_hooks_reaches_the_agent_at_its_position() {
    let hooks = Listening::new(|call| HookOutcome {
        context: vec![format!("{:?}", call.event)],
        notices: vec!["noticed".to_owned()],
        ..HookOutcome::default()
    });
    let fixture = hooks.fixture(says).await;
    fixture.begin("go").await;
    let parts = fixture.end().await;
    assert_eq!(fixture.words().await, "hello SessionStart, UserPromptSubmit");
    assert_eq!(
        notices(&parts).len(),
        3,
        "one for each event, the last of which is Stop"
    );
    let fixture = hooks.fixture(read).await;
    fixture.begin("go").await;
    assert_eq!(fixture.words().await, "read PreToolUse, PostToolUse");
}

#[tokio::test]
async fn a_refused_message_never_reaches_the_agent() {
    let fixture = at(HookEvent::UserPromptSubmit, deny("no secrets"))
        .fixture(|_, _| async { panic!("the agent has heard it") })
        .await;
    fixture.begin("the password is").await;
    let parts = fixture.end().await;
    let error = &parts[0]["error"];
    assert_eq!(error["errorType"], "refusedByHook");
    assert!(
        error["message"].as_str().expect("words").contains("no secrets"),
        "{error}"
    );
    fixture.client.assert_converged().await;
}

#[tokio::test]
async fn context_of_a_start_hook_waits_for_the_first_accepted_message() {
    let hooks = Listening::new(|call| match call.event {
        HookEvent::SessionStart => HookOutcome {
            context: vec!["the house is old".to_owned()],
            ..HookOutcome::default()
        },
        HookEvent::UserPromptSubmit if call.input["prompt"] == "the password is" => HookOutcome {
            context: vec!["of a refused message".to_owned()],
            ..deny("no secrets")
        },
        _ => HookOutcome::default(),
    });
    let fixture = hooks.fixture(says).await;
    fixture.begin("the password is").await;
    fixture.end().await;
    fixture.client.run_turn(&fixture.uris.chat, "t2", "hello").await;
    let turn = fixture.client.turn_end(&fixture.uris.chat, "t2").await;
    assert_eq!(markdown(&turn.response_parts), "hello the house is old");
}

#[tokio::test]
async fn pend04_hooks_hear_of_steering_messages_and_refuse_them() {
    let hooks = Listening::new(|call| match call.input.get("prompt").and_then(Value::as_str) {
        Some("the password is") => deny("no secrets"),
        Some("hurry") => HookOutcome {
            context: vec!["the inn closes at ten".to_owned()],
            ..HookOutcome::default()
        },
        _ => HookOutcome::default(),
    });
    let fixture = hooks
        .fixture(|_, events| async move {
            let heard = loop {
                if let Some(words) = events.steering().await? {
                    break words;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            };
            let added = events.added_context().join(", ");
            events.text(format!("[{heard}: {added}]")).await
        })
        .await;
    fixture.begin("go").await;
    for (id, text) in [("s1", "the password is"), ("s2", "hurry")] {
        let message = json!({ "text": text, "origin": { "kind": "user" } });
        let action = json!({ "type": "chat/pendingMessageSet", "kind": "steering", "id": id, "message": message });
        fixture.client.dispatch(&fixture.uris.chat, action).await;
        // The next one would take its place until hooks have heard it.
        let has_heard = || {
            let told = hooks.told(HookEvent::UserPromptSubmit);
            told.iter().any(|told| told["prompt"] == text)
        };
        hooks.until(has_heard, "the steering message").await;
    }
    let parts = fixture.end().await;
    assert_eq!(fixture.words().await, "[hurry: the inn closes at ten]");
    let notices = notices(&parts);
    assert!(
        notices.iter().any(|notice| notice.contains("no secrets")),
        "{notices:?}"
    );
    fixture.client.assert_converged().await;
}

#[tokio::test]
async fn a_hook_can_end_the_turn_after_a_call() {
    let stop = HookOutcome {
        stop: Some("enough".to_owned()),
        ..HookOutcome::default()
    };
    let fixture = at(HookEvent::PostToolUse, stop).fixture(read).await;
    fixture.begin("go").await;
    let parts = fixture.end().await;
    let error = parts.last().expect("an error");
    assert_eq!(error["error"]["errorType"], "stoppedByHook");
    assert_eq!(calls(&parts)[0]["success"], json!(true), "the call itself was done");
}

#[tokio::test]
async fn a_hook_sends_an_agent_on_three_times_and_no_more() {
    let hooks = at(HookEvent::Stop, deny("run the tests"));
    let fixture = hooks
        .fixture(|_, events| async move {
            while let Some(reason) = events.may_stop().await? {
                events.text(format!("[{reason}]")).await?;
            }
            Ok(())
        })
        .await;
    fixture.begin("go").await;
    let parts = fixture.end().await;
    assert_eq!(fixture.words().await, "[run the tests]".repeat(3));
    assert!(
        notices(&parts)
            .last()
            .expect("a notice")
            .contains("the limit of one turn")
    );
    let told = hooks.told(HookEvent::Stop);
    let active: Vec<&Value> = told.iter().map(|told| &told["stop_hook_active"]).collect();
    assert_eq!(active, [&json!(false), &json!(true), &json!(true), &json!(true)]);

    // One that cannot be sent on says so.
    let fixture = hooks.fixture(says).await;
    fixture.begin("go").await;
    let parts = fixture.end().await;
    assert!(
        notices(&parts).last().expect("a notice").contains("cannot be sent on"),
        "{parts:#?}"
    );
}

#[tokio::test]
async fn hooks_hear_of_subagents_and_tell_them_something() {
    let hooks = Listening::new(|call| match call.event {
        HookEvent::SubagentStart => HookOutcome {
            context: vec!["be brief".to_owned()],
            ..HookOutcome::default()
        },
        _ => HookOutcome::default(),
    });
    let fixture = hooks
        .fixture(|_, events| async move {
            let mut call = events.tool("send").start().await?.run("Sends").await?;
            let subagent = call
                .subagent(SubagentSpec::new("Help", "Do it").kind("explorer"))
                .await?;
            let told = subagent.events().added_context().join(", ");
            subagent
                .drive(|events| async move { events.text("done").await })
                .await?;
            call.complete(ToolResult::text("Sent", "done")).await?;
            events.text(told).await
        })
        .await;
    fixture.begin("go").await;
    assert_eq!(fixture.words().await, "be brief");
    let subagents: Vec<_> = hooks
        .heard()
        .into_iter()
        .filter(|(_, subject)| subject == "explorer")
        .map(|(event, _)| event)
        .collect();
    assert_eq!(subagents, [HookEvent::SubagentStart, HookEvent::SubagentStop]);
}

#[tokio::test]
async fn hooks_run_when_a_user_is_waited_for() {
    let hooks = Listening::new(|_| HookOutcome::default());
    let fixture = hooks.fixture(write).await;
    fixture.begin("go").await;
    let call = fixture.call("pending-confirmation").await;
    hooks.hears(HookEvent::Notification).await;
    fixture.decide(&call, true).await;
    fixture.end().await;
    let told = &hooks.told(HookEvent::Notification)[0];
    assert_eq!(told["notification_type"], "permission_prompt");
    assert_eq!(told["message"], "Writes");
}

#[tokio::test]
async fn hooks_hear_the_end_of_a_session_that_had_a_turn() {
    let hooks = Listening::new(|_| HookOutcome::default());
    let fixture = hooks.fixture(says).await;
    let unused = fixture.client.create_session("unused").await;
    let dispose = json!({ "channel": unused.session });
    let _: Value = fixture
        .client
        .request("disposeSession", dispose)
        .await
        .expect("disposed of");
    fixture.begin("go").await;
    let turn = fixture.client.turn_end(&fixture.uris.chat, "t1").await;
    assert_eq!(markdown(&turn.response_parts), "hello ");
    assert!(hooks.told(HookEvent::SessionEnd).is_empty());
    let dispose = json!({ "channel": fixture.uris.session });
    let _: Value = fixture
        .client
        .request("disposeSession", dispose)
        .await
        .expect("disposed of");
    hooks.hears(HookEvent::SessionEnd).await;

    let other = Listening::new(|_| HookOutcome::default());
    let fixture = other.fixture(says).await;
    fixture.begin("go").await;
    fixture.end().await;
    fixture.running.host.shutdown(Duration::from_secs(30)).await;
    assert_eq!(other.told(HookEvent::SessionEnd).len(), 1);
}

#[tokio::test]
async fn a_turn_that_is_cancelled_does_not_wait_for_its_hooks() {
    struct Slow;

    #[async_trait]
    impl Hooks for Slow {
        fn hear(&self, event: HookEvent, _: &BTreeSet<String>) -> bool {
            event == HookEvent::UserPromptSubmit
        }

        async fn run(&self, _: HookCall, _: &BTreeSet<String>, _: Option<&EventSink>) -> HookOutcome {
            std::future::pending().await
        }
    }

    impl Customizations for Slow {
        fn follow(&self, _: CustomizationSources, sink: CustomizationsSink) -> Following {
            let set = Arc::new(CustomizationSet {
                hooks: Arc::new(Self),
                ..CustomizationSet::default()
            });
            Following::new(tokio::spawn(async move { sink.report(set).await }))
        }
    }

    let agent = Scripted::new(says);
    let fixture = SessionFixture::with(Host::builder().agent(agent).customizations(Slow)).await;
    fixture.begin("go").await;
    fixture.cancel().await;
    fixture.client.assert_converged().await;
}
