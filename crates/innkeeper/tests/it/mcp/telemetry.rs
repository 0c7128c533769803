//! The log of a real host for clients: logs of MCP servers, ids, and no secrets (OTL).

use innkeeper_testkit::logs::{LogListener, ReceivedRecord};
use innkeeper_testkit::model_server::{ModelServer, Reply, Script};
use innkeeper_testkit::official::OfficialClient;
use innkeeper_testkit::process::HostProcess;
use innkeeper_testkit::raw::RawClient;
use serde_json::json;

use crate::mcp::support::{McpHost, options};

async fn listener(host: &HostProcess, name: &str, level: &str) -> LogListener {
    let client = RawClient::initialized(host.address(), name).await;
    LogListener::subscribe(client, level).await
}

/// Returns the log records of the server, with their severities.
fn words(heard: &[ReceivedRecord]) -> Vec<(u64, &str)> {
    let written = heard.iter().filter(|record| record.body.contains("says="));
    let words = written.map(|record| (record.severity, record.attributes["says"].as_str()));
    words.collect()
}

async fn log(scene: &McpHost, turn: &str, level: &str, data: &str) {
    let message = json!({ "level": level, "logger": "lift", "data": data });
    let answer = scene.call(turn, &format!("odd log {message}")).await;
    assert!(answer.contains("logged"), "{answer}");
}

#[tokio::test]
async fn otl02_otl04_otl06_logs_of_mcp_servers_reach_subscribers() {
    let scene = McpHost::ready("plain").await;
    let host = &scene.host;
    let mut client = RawClient::connect(host.address()).await;
    let answer = client
        .initialize("warned", &["1.0.0"])
        .await
        .expect("initialize succeeds");
    assert_eq!(answer["telemetry"], json!({ "logs": "ahp-otlp://logs/{level}" }));
    let mut warned = LogListener::subscribe(client, "warn").await;
    let mut alarmed = listener(host, "alarmed", "error").await;
    let mut doomed = listener(host, "doomed", "fatal").await;

    log(&scene, "t1", "info", "going up").await;
    log(&scene, "t2", "warning", "creaking").await;
    log(&scene, "t3", "critical", "stuck").await;
    log(&scene, "t4", "emergency", "falling").await;

    let says = |word: &str| {
        let word = json!(word).to_string();
        move |record: &ReceivedRecord| record.attributes.get("says") == Some(&word)
    };
    let warning = warned.until("the warning", says("creaking")).await;
    assert_eq!(warning.channel, "ahp-otlp://logs/warn");
    assert_eq!(warning.attributes["mcp.server.name"], "odd");
    assert_eq!(warning.attributes["logger"], "lift");
    assert!(warning.scope.starts_with("innkeeper_mcp"), "{warning:?}");
    assert!(
        warning.body.contains("an MCP server wrote") && warning.body.contains("creaking"),
        "{warning:?}"
    );
    for listener in [&mut warned, &mut alarmed, &mut doomed] {
        listener.until("the last word", says("falling")).await;
    }
    let (creaking, stuck, falling) = ((13, "\"creaking\""), (18, "\"stuck\""), (21, "\"falling\""));
    assert_eq!(words(&warned.heard), [creaking, stuck, falling]);
    assert_eq!(words(&alarmed.heard), [stuck, falling]);
    assert_eq!(words(&doomed.heard), [falling]);
}

#[tokio::test]
async fn otl06_records_name_turn_and_session_and_standard_error_is_debug() {
    let scene = McpHost::ready("plain").await;
    let mut curious = listener(&scene.host, "curious", "debug").await;
    log(&scene, "t1", "info", "going up").await;
    let ended = |record: &ReceivedRecord| record.body.starts_with("a turn ended");
    let ended = curious.until("the end of the turn", ended).await;
    assert_eq!(ended.attributes["ahp.turn.id"], "t1");
    assert_eq!(ended.attributes["ahp.session.id"], scene.uris.session);
    assert_eq!(ended.attributes["outcome"], "complete");
    let wrote = |record: &ReceivedRecord| record.body.contains("wrote a line");
    let wrote = curious.until("what it wrote to standard error", wrote).await;
    assert_eq!(
        (wrote.severity, wrote.attributes["mcp.server.name"].as_str()),
        (5, "odd")
    );
    // The filter of standard error has nothing to do with it.
    assert!(!scene.host.log().contains("wrote a line"), "{}", scene.host.log());
}

#[tokio::test]
async fn otl05_rec07_a_reconnecting_client_goes_live_also_after_a_restart() {
    let scene = McpHost::ready("plain").await;
    let mut first = listener(&scene.host, "reader", "info").await;
    log(&scene, "t1", "info", "heard once").await;
    let heard = |record: &ReceivedRecord| record.body.contains("heard once");
    first.until("the first word", heard).await;
    drop(first);
    let params = json!({
        "channel": "ahp-root://", "clientId": "reader", "lastSeenServerSeq": 1,
        "subscriptions": ["ahp-otlp://logs/info"],
    });
    let mut again = RawClient::connect(scene.host.address()).await;
    let answer = again.call("reconnect", params.clone()).await.expect("reconnect works");
    assert!(!answer.to_string().contains("heard once"), "{answer}");
    log(&scene, "t2", "info", "heard later").await;
    let mut again = LogListener::of(again);
    let later = |record: &ReceivedRecord| record.body.contains("heard later");
    again.until("what was said later", later).await;
    assert!(!again.heard.iter().any(heard), "{:?}", again.heard);

    let host = scene.host.kill_and_restart().await;
    let mut third = RawClient::connect(host.address()).await;
    third
        .call("reconnect", params)
        .await
        .expect("reconnect works after a restart");
    let mut third = LogListener::of(third);
    // Something that the host itself says.
    host.terminate();
    let stopping = |record: &ReceivedRecord| record.body.contains("stopping");
    third.until("the end", stopping).await;
}

#[tokio::test]
async fn otl02_the_published_client_tolerates_an_unknown_log_channel() {
    let scene = McpHost::ready("plain").await;
    let published = OfficialClient::connect(scene.host.address(), "published").await;
    let subscribed = published.client().subscribe("ahp-otlp://logs/trace".to_owned()).await;
    subscribed.expect("the published client subscribes");
    published.subscribe(&scene.uris.session).await;
    published.subscribe(&scene.uris.chat).await;
    let mut other = listener(&scene.host, "other", "trace").await;
    log(&scene, "t1", "warning", "creaking").await;
    other
        .until("the warning", |record| record.body.contains("creaking"))
        .await;
    published.assert_converged().await;
    scene.client.assert_converged().await;
}

#[tokio::test]
async fn otl01_a_host_that_keeps_its_log_to_itself_offers_none() {
    let host = HostProcess::start(options().setting("[telemetry]\nlogs = false")).await;
    let mut client = RawClient::connect(host.address()).await;
    let answer = client.initialize("c", &["1.0.0"]).await.expect("initialize succeeds");
    assert_eq!(answer.get("telemetry"), None);
    let refused = client
        .call("subscribe", json!({ "channel": "ahp-otlp://logs/info" }))
        .await;
    assert_eq!(refused.expect_err("there is none").code, -32008);
}

#[tokio::test]
async fn otl07_p10_logs_have_no_api_key_prompt_or_response() {
    const KEY: &str = "canary-key-77aa";
    const PROMPT: &str = "canary-prompt-31c0";
    const ANSWER: &str = "canary-answer-9d2e";
    // A provider may repeat what it was asked when it refuses.
    let script = Script::by(|asked| match asked.last_words() {
        Some(words) if words.contains("again") => Reply::new().refuse(400, "odd", format!("{PROMPT} {KEY} {ANSWER}")),
        _ => Reply::words(ANSWER),
    });
    let model = ModelServer::start(script).await;
    let config = format!(
        "[models]\ndiscover = false\ntitles = false\n[[models.providers]]\nid = \"scripted\"\nname = \"Scripted\"\n\
         api = \"chat-completions\"\nbase_url = \"{}\"\nkey_env = \"MODEL_KEY\"\nmodels = [{{ id = \"scripted\" }}]\n",
        model.url()
    );
    let options = options().setting(&config).environment("MODEL_KEY", KEY);
    let host = HostProcess::start(options).await;
    let mut curious = listener(&host, "curious", "trace").await;
    let client = OfficialClient::connect(host.address(), "driver").await;
    let uris = client
        .create_session_with("secret", json!({ "provider": "scripted" }))
        .await;
    client.run_turn(&uris.chat, "t1", PROMPT).await;
    client.start_turn(&uris.chat, "t2", &format!("{PROMPT} again")).await;
    client.turn_end(&uris.chat, "t2").await;
    let is_last =
        |record: &ReceivedRecord| record.body.starts_with("a turn ended") && record.attributes["ahp.turn.id"] == "t2";
    curious.until("the end of the last turn", is_last).await;
    let told = format!("{:?} {:?}", curious.heard, curious.client.notifications);
    for canary in [KEY, PROMPT, ANSWER] {
        assert!(!told.contains(canary), "{canary} stands in the log: {told}");
    }
}
