//! Real servers from the npm registry.

use std::sync::{Arc, Mutex};

use innkeeper_mcp::{
    Allowed, AskOutcome, AskSink, Content, Error, Event, List, Offer, ProgressSink, Question, Remote, Root, Server,
    ServerConfig, ServerEnv, ServerState, Stdio, Transport,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::support::{call, event, eventually, limits, no_arguments, server_env, started_in, until, until_ready};
use innkeeper_testkit::npm_servers::{NpmServer, package, servers};

fn behind_pipes(program: String, argument: Option<&str>) -> ServerConfig {
    let args = [Some(program.as_str()), argument].into_iter().flatten();
    configured(Transport::Stdio(Stdio::new("node", args)))
}

fn configured(transport: Transport) -> ServerConfig {
    let mut config = ServerConfig::new("real", transport);
    config.limits = limits();
    config
}

/// Answers every question.
fn answering(asked: Arc<Mutex<Vec<Question>>>) -> ServerEnv {
    let asks = AskSink::new(move |ask| {
        asked.lock().unwrap().push(ask.question.clone());
        let answer = match &ask.question {
            Question::Sampling(_) => {
                let content = json!({ "type": "text", "text": "sampled words" });
                AskOutcome::Sampled(json!({ "role": "assistant", "model": "m", "content": content }))
            }
            Question::Form { .. } => AskOutcome::Accepted(Some(json!({ "name": "Ada", "color": "red" }))),
            _ => AskOutcome::Declined,
        };
        ask.answer(answer);
    });
    ServerEnv {
        offer: Offer {
            sampling: true,
            elicitation: true,
            apps: true,
        },
        asks: Some(asks),
        roots: vec![Root {
            uri: "file:///somewhere".into(),
            name: Some("somewhere".into()),
        }],
        ..server_env()
    }
}

/// All features of the server "everything", over any transport.
async fn everything(config: ServerConfig) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let server = started_in(config, answering(asked.clone()));
    until_ready(&server).await;
    let has = |name: &str| server.tools().iter().any(|tool| tool.name == name);
    assert!(has("echo"));
    // Some tools appear only after it has read our capabilities.
    eventually(|| has("trigger-sampling-request") && has("trigger-elicitation-request")).await;
    let text = async |tool: &str, arguments: Value| server.call(call(tool, arguments)).await.unwrap().text();

    assert_eq!(text("echo", json!({ "message": "hi" })).await, "Echo: hi");
    let weather = server
        .call(call("get-structured-content", json!({ "location": "New York" })))
        .await
        .unwrap();
    assert!(weather.structured.unwrap().get("temperature").is_some());
    let image = server.call(call("get-tiny-image", json!({}))).await.unwrap();
    assert!(
        image
            .content
            .iter()
            .any(|content| matches!(content, Content::Image { .. }))
    );
    let links = server
        .call(call("get-resource-links", json!({ "count": 2 })))
        .await
        .unwrap();
    assert!(
        links
            .content
            .iter()
            .any(|content| matches!(content, Content::ResourceLink { .. }))
    );
    let sampled = text("trigger-sampling-request", json!({ "prompt": "say", "maxTokens": 10 })).await;
    assert!(sampled.contains("sampled words"), "{sampled}");
    let elicited = text("trigger-elicitation-request", json!({})).await;
    assert!(elicited.contains("Ada"), "{elicited}");
    assert!(text("get-roots-list", json!({})).await.contains("file:///somewhere"));
    assert!(asked.lock().unwrap().len() >= 2);

    let steps = Arc::new(Mutex::new(0));
    let mut long = call("trigger-long-running-operation", json!({ "duration": 0.4, "steps": 4 }));
    let count = steps.clone();
    long.progress = Some(ProgressSink::new(move |_| *count.lock().unwrap() += 1));
    server.call(long).await.unwrap();
    assert_eq!(*steps.lock().unwrap(), 4);

    let resources = server.resources().await.unwrap();
    let read = server.read_resource(&resources[0].uri).await.unwrap();
    assert!(read[0].text.is_some() || read[0].blob.is_some());
    assert!(!server.resource_templates().await.unwrap().is_empty());
    let prompts = server.prompts().await.unwrap();
    let simple = prompts.iter().find(|prompt| prompt.arguments.is_empty()).unwrap();
    assert!(
        !server
            .prompt(&simple.name, no_arguments())
            .await
            .unwrap()
            .messages
            .is_empty()
    );
    server.stop().await;
}

#[tokio::test]
async fn everything_over_pipes() {
    let Some(program) = package("server-everything") else {
        return;
    };
    everything(behind_pipes(program, Some("stdio"))).await;
}

#[tokio::test]
async fn everything_over_streamable_http() {
    let Some(program) = package("server-everything") else {
        return;
    };
    let beside = NpmServer::start(&program, Some("streamableHttp")).await;
    everything(configured(Transport::Http(Remote::new(beside.url("/mcp"))))).await;
}

#[tokio::test]
async fn a_restarted_real_server_gets_a_new_session() {
    let Some(program) = package("server-everything") else {
        return;
    };
    let mode = Some("streamableHttp");
    let beside = NpmServer::start(&program, mode).await;
    let server = ready_with_apps(configured(Transport::Http(Remote::new(beside.url("/mcp"))))).await;
    let _beside = beside.again(&program, mode).await;
    // A slow restart is noticed, and the server is found again; a short one is not noticed.
    let echoed = loop {
        match server.call(call("echo", json!({ "message": "hi" }))).await {
            Ok(echoed) => break echoed,
            Err(Error::NotRunning { .. } | Error::Ended { .. }) => {
                until(&server, |state| *state == ServerState::Ready).await;
            }
            Err(error) => panic!("{error}"),
        }
    };
    assert_eq!(echoed.text(), "Echo: hi");
}

#[tokio::test]
async fn everything_over_the_older_transport() {
    let Some(program) = package("server-everything") else {
        return;
    };
    let beside = NpmServer::start(&program, Some("sse")).await;
    everything(configured(Transport::Sse(Remote::new(beside.url("/sse"))))).await;
}

async fn ready_with_apps(config: ServerConfig) -> Server {
    let server = started_in(config, answering(Arc::default()));
    until_ready(&server).await;
    server
}

#[tokio::test]
async fn mcp20_the_resource_of_an_app_can_be_read() {
    let Some(program) = package("server-budget-allocator") else {
        return;
    };
    let server = ready_with_apps(behind_pipes(program, Some("--stdio"))).await;
    let tools = server.tools();
    let tool = tools.iter().find(|tool| tool.name == "get-budget-data").unwrap();
    let page = tool.ui_resource().unwrap().to_owned();
    assert!(page.starts_with("ui://"), "{page}");
    assert!(
        server
            .call(call("get-budget-data", json!({})))
            .await
            .unwrap()
            .structured
            .is_some()
    );
    // The requests that the client of an App sends over the side channel.
    let allowed = Allowed {
        tools: true,
        resources: true,
        ..Allowed::default()
    };
    let pass = |method: &'static str, params: Value| {
        server.pass(
            allowed,
            None,
            method,
            params.as_object().cloned(),
            CancellationToken::new(),
        )
    };
    let read = pass("resources/read", json!({ "channel": "mcp://a", "uri": page }))
        .await
        .unwrap();
    let contents = &read["contents"][0];
    assert_eq!(contents["mimeType"], "text/html;profile=mcp-app");
    assert!(contents["text"].as_str().unwrap().len() > 100_000, "a whole page");
    pass("tools/call", json!({ "name": "get-budget-data", "arguments": {} }))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_tool_that_is_only_for_its_app_is_hidden_from_models() {
    let Some(program) = package("server-system-monitor") else {
        return;
    };
    let server = ready_with_apps(behind_pipes(program, Some("--stdio"))).await;
    let tools = server.tools();
    let (shown, hidden): (Vec<_>, Vec<_>) = tools.iter().partition(|tool| tool.is_for_model());
    assert!(!shown.is_empty() && !hidden.is_empty(), "{shown:?} {hidden:?}");
    assert!(hidden.iter().all(|tool| tool.is_for_app()));
}

#[tokio::test]
async fn a_server_of_2026_on_the_official_sdk() {
    let Some(folder) = servers() else { return };
    let program = folder.join("modern.mjs").to_str().unwrap().to_owned();
    let beside = NpmServer::start(&program, None).await;
    let far = ready_with_apps(configured(Transport::Http(Remote::new(beside.url("/mcp"))))).await;
    let server = ready_with_apps(behind_pipes(program, None)).await;
    for server in [&far, &server] {
        assert_eq!(server.info().unwrap().protocol_version, "2026-07-28");
        let text = async |tool: &str, arguments: Value| server.call(call(tool, arguments)).await.unwrap().text();
        assert_eq!(text("add", json!({ "a": 1, "b": 2 })).await, "3");
        // The server refuses it over HTTP, unless the argument is sent as a header too.
        assert_eq!(text("where", json!({ "region": "eu" })).await, "eu");
        assert_eq!(text("greet", json!({})).await, "Hello, Ada!");
    }
    let mut events = server.events();
    server.call(call("grow", json!({}))).await.unwrap();
    event(&mut events, |event| {
        matches!(event, Event::ListChanged(List::Tools)).then_some(())
    })
    .await;
    assert!(server.tools().iter().any(|tool| tool.name == "grown"));
}

#[tokio::test]
async fn f3_the_end_of_an_idle_server_of_2026_is_noticed() {
    let Some(folder) = servers() else { return };
    let program = folder.join("modern.mjs").to_str().unwrap().to_owned();
    let mut beside = NpmServer::start(&program, None).await;
    let mut config = configured(Transport::Http(Remote::new(beside.url("/mcp"))));
    config.restart.delay = std::time::Duration::from_millis(100);
    config.restart.away = config.restart.delay;
    let server = ready_with_apps(config).await;
    beside.leave().await;
    until(&server, |state| matches!(state, ServerState::Error { .. })).await;
    let _beside = beside.again(&program, None).await;
    until(&server, |state| *state == ServerState::Ready).await;
    let sum = server.call(call("add", json!({ "a": 1, "b": 2 }))).await.unwrap();
    assert_eq!(sum.text(), "3");
}
