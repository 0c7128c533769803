//! Calls to a server behind pipes.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use innkeeper_mcp::{Allowed, Error, ProgressSink};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::support::{TIMEOUT, call, no_arguments, odd, ready, settles, with_env};
use innkeeper_testkit::misbehaving_server::PLAIN_TOOLS;

#[tokio::test]
async fn a_call_returns_everything_that_the_server_wrote() {
    let server = ready(odd("plain")).await;
    let info = server.info().unwrap();
    assert_eq!(info.protocol_version, "2025-06-18");
    assert_eq!(info.instructions.as_deref(), Some("Be odd."));
    assert_eq!(info.icons[0].src, "https://odd.test/icon.png");

    let mut echo = call("echo", json!({ "text": "hello" }));
    echo.meta = Some(serde_json::Map::from_iter([("mine".to_owned(), json!(7))]));
    let outcome = server.call(echo).await.unwrap();
    assert_eq!(outcome.text(), "hello");
    assert_eq!(outcome.structured, Some(json!({ "text": "hello" })));
    assert_eq!(outcome.meta.unwrap()["seen"], 7);
    assert!(!outcome.is_error);
    server.stop().await;
}

#[tokio::test]
async fn a_tool_that_fails_is_not_a_server_that_refuses() {
    let server = ready(odd("plain")).await;
    let failed = server.call(call("fail", json!({}))).await.unwrap();
    assert!(failed.is_error);
    let refused = server.call(call("refuse", json!({}))).await.unwrap_err();
    let Error::Refused { code, message, .. } = refused else {
        panic!("{refused}")
    };
    assert_eq!(code, -32602);
    assert_eq!(
        message, "not with [hidden]",
        "secrets of the configuration do not stand in errors"
    );
}

#[tokio::test]
async fn t15_a_server_does_not_get_the_environment_of_the_host() {
    let server = ready(odd("plain")).await;
    let names = server.call(call("env", json!({}))).await.unwrap().text();
    let names: Vec<&str> = names.split(' ').collect();
    assert!(names.contains(&"ODD_SECRET") && names.contains(&"PATH"), "{names:?}");
    assert!(std::env::var("CARGO_MANIFEST_DIR").is_ok(), "the tests have it");
    assert!(!names.iter().any(|name| name.starts_with("CARGO")), "{names:?}");
}

#[tokio::test]
async fn a_cancelled_call_ends_and_the_server_is_told() {
    let server = ready(odd("plain")).await;
    let wait = call("wait", json!({}));
    let cancel = wait.cancel.clone();
    let calling = tokio::spawn({
        let server = server.clone();
        async move { server.call(wait).await }
    });
    // The next call is answered after the first one was sent.
    server.call(call("echo", json!({}))).await.unwrap();
    cancel.cancel();
    assert!(matches!(calling.await.unwrap(), Err(Error::Cancelled)));
    // The same for a call that was dropped. It is sent first.
    tokio::select! {
        biased;
        _ = server.call(call("wait", json!({}))) => panic!("it is never answered"),
        echo = server.call(call("echo", json!({}))) => drop(echo.unwrap()),
    }
    server.call(call("echo", json!({}))).await.unwrap();
    // Both are on its standard error, which is shown when it crashes.
    let died = server.call(call("die", json!({}))).await.unwrap_err().to_string();
    assert_eq!(died.matches("told to stop").count(), 2, "{died}");
}

#[tokio::test]
async fn a_call_that_takes_too_long_fails_alone() {
    let server = ready(odd("plain")).await;
    let mut wait = call("wait", json!({}));
    wait.time = Some(Duration::from_millis(50));
    let error = server.call(wait).await.unwrap_err();
    assert!(matches!(error, Error::TimeOver { .. }), "{error}");
    assert_eq!(
        server.call(call("echo", json!({ "text": "a" }))).await.unwrap().text(),
        "a"
    );
}

#[tokio::test]
async fn progress_is_reported_and_keeps_a_call_alive() {
    let server = ready(odd("plain")).await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let mut slow = call("progress", json!({ "steps": 20 }));
    // Each step is far within the timeout, also on a busy machine; all of them are not.
    slow.time = Some(Duration::from_secs(5));
    let take = seen.clone();
    slow.progress = Some(ProgressSink::new(move |progress| take.lock().unwrap().push(progress)));
    assert_eq!(server.call(slow).await.unwrap().text(), "done");
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 20);
    assert_eq!(seen[19].message.as_deref(), Some("step 20"));
    assert_eq!(seen[19].total, Some(20.0));
}

#[tokio::test]
async fn a_large_result_is_shown_in_part_and_kept_whole() {
    let server = ready(odd("plain")).await;
    let outcome = server.call(call("big", json!({ "bytes": 1_000_000 }))).await.unwrap();
    assert!(outcome.text().len() < 200_000);
    let whole: Value = serde_json::from_slice(&outcome.whole.unwrap()).unwrap();
    assert_eq!(whole["content"][0]["text"].as_str().unwrap().len(), 1_000_000);
}

/// Returns the peak memory of this process; nothing where that is unknown.
fn max_memory() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<usize>().ok());
    kilobytes.unwrap_or_default() << 10
}

#[tokio::test]
async fn t26_a_hundred_megabytes_fail_their_call_and_nothing_else() {
    let server = ready(odd("plain")).await;
    let before = max_memory();
    let big = server.call(call("big", json!({ "bytes": 100_000_000 })));
    let error = tokio::time::timeout(TIMEOUT, big).await.unwrap().unwrap_err();
    assert!(matches!(error, Error::TooLarge { .. }), "{error}");
    // A message has 16 MiB at most, and growing the buffer may take as much again. If the test has a process of its own,
    // nothing else is counted.
    let grown = max_memory().saturating_sub(before);
    assert!(
        std::env::var_os("NEXTEST").is_none() || grown < 64 << 20,
        "{grown} bytes"
    );
    assert_eq!(
        server.call(call("echo", json!({ "text": "a" }))).await.unwrap().text(),
        "a"
    );
}

#[tokio::test]
async fn t26_long_messages_that_are_no_answers_fail_no_call() {
    let server = ready(odd("plain")).await;
    let outcome = tokio::time::timeout(TIMEOUT, server.call(call("long-request", json!({}))));
    assert_eq!(outcome.await.unwrap().unwrap().text(), "the answer");
}

#[tokio::test]
async fn malformed_answers_are_read_or_fail_their_call_at_once() {
    let server = ready(odd("plain")).await;
    let text = async |tool: &str| server.call(call(tool, json!({}))).await.map(|outcome| outcome.text());
    assert_eq!(text("latin").await.unwrap(), "caf\u{fffd}");
    assert_eq!(text("batch").await.unwrap(), "in a batch");
    let error = tokio::time::timeout(TIMEOUT, text("error-text"));
    let error = error.await.unwrap().unwrap_err();
    assert!(matches!(error, Error::NotUnderstood { .. }), "{error}");
}

#[tokio::test]
async fn p7_requests_of_a_server_that_never_reads_are_bounded() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("count");
    let server = ready(with_env(odd("deaf"), "ODD_COUNT", file.to_str().unwrap())).await;
    let asked = settles(|| {
        let count = std::fs::read_to_string(&file).unwrap_or_default();
        count.parse().unwrap_or_default()
    });
    // The open requests, the queues, the pipes and the buffers: half a kilobyte each.
    let asked = asked.await;
    assert!(asked < 5000, "{asked} questions were taken");
    server.stop().await;
}

#[tokio::test]
async fn p7_a_server_that_floods_can_be_called() {
    let server = ready(odd("flood")).await;
    for _ in 0..20 {
        let echo = server.call(call("echo", json!({ "text": "a" })));
        let outcome = tokio::time::timeout(TIMEOUT, echo).await.unwrap().unwrap();
        assert_eq!(outcome.text(), "a");
    }
    server.stop().await;
}

#[tokio::test]
async fn resources_and_prompts_are_listed_and_read() {
    let server = ready(odd("plain")).await;
    let resources = server.resources().await.unwrap();
    assert_eq!(resources.len(), 2, "a cursor that comes again ends the list");
    let contents = server.read_resource("odd://one").await.unwrap();
    assert_eq!(contents[0].text.as_deref(), Some("words"));
    let prompt = server.prompt("greet", no_arguments()).await.unwrap();
    assert_eq!(prompt.messages[0]["content"]["text"], "greet");
    let refused = server.resource_templates().await.unwrap_err();
    assert!(matches!(refused, Error::Refused { code: -32601, .. }), "{refused}");
}

#[tokio::test]
async fn mcp16_an_app_reaches_promised_methods_only() {
    let server = ready(odd("plain")).await;
    let allowed = Allowed {
        tools: true,
        ..Allowed::default()
    };
    let params = |value: Value| match value {
        Value::Object(params) => Some(params),
        _ => None,
    };
    let pass = |method: &'static str, value: Value| {
        server.pass(allowed, None, method, params(value), CancellationToken::new())
    };
    let echo = json!({ "channel": "mcp://x", "name": "echo", "arguments": { "text": "a" }, "_meta": { "mine": 1 } });
    let result = pass("tools/call", echo).await.unwrap();
    assert_eq!(result["unknown"], "kept", "what is not known here passes as well");
    assert_eq!(result["_meta"]["seen"], 1);
    assert_eq!(
        pass("tools/list", json!({})).await.unwrap()["tools"]
            .as_array()
            .unwrap()
            .len(),
        PLAIN_TOOLS.len() + 2
    );
    pass("tools/call", json!({ "name": "shown" })).await.unwrap();
    for (method, value) in [
        ("tools/call", json!({ "name": "hidden" })),
        ("tools/call", json!({ "name": "made up" })),
        ("resources/read", json!({ "uri": "odd://one" })),
        ("prompts/get", json!({ "name": "a" })),
        ("initialize", json!({})),
    ] {
        let refused = pass(method, value).await.unwrap_err();
        assert!(matches!(refused, Error::NotOffered { .. }), "{method}: {refused}");
    }
}

#[tokio::test]
async fn f17_lists_are_cached_and_a_silent_server_is_asked_once() {
    let server = ready(odd("new-prompts")).await;
    let names = async || {
        let prompts = server.known_prompts().await;
        prompts.iter().map(|prompt| prompt.name.clone()).collect::<Vec<_>>()
    };
    let first = names().await;
    assert_eq!(first, names().await, "each list of its would be another one");
    server
        .prompt(first.last().unwrap(), serde_json::Map::new())
        .await
        .unwrap();
    // It reported a change.
    while names().await == first {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    server.stop().await;
    assert!(names().await.is_empty(), "what does not run offers nothing");
    let directory = tempfile::tempdir().unwrap();
    let lists = directory.path().join("lists");
    let mute = ready(with_env(odd("mute"), "ODD_LISTS", lists.to_str().unwrap())).await;
    for _ in 0..3 {
        let waiting = tokio::time::timeout(Duration::from_millis(50), mute.known_prompts());
        assert!(waiting.await.is_err(), "it does not answer");
    }
    // It reads one message after the other: earlier requests have been counted.
    mute.call(call("echo", json!({}))).await.unwrap();
    assert_eq!(std::fs::read_to_string(&lists).unwrap(), "x");
}

#[tokio::test]
async fn numbers_keep_all_digits_in_both_directions() {
    let server = ready(odd("plain")).await;
    let exact = r#"{"z":123456789012345678901234567890,"a":110000.00000000001,"m":1.10}"#;
    let mut line = call("line", serde_json::from_str(exact).unwrap());
    line.exact_arguments = Some(exact.to_owned());
    let sent = server.call(line).await.unwrap().text();
    assert!(sent.contains(&format!(r#""arguments":{exact}"#)), "{sent}");
    // Without the text, everything that the object holds.
    let sent = server
        .call(call("line", json!({ "z": 110000.00000000001, "a": u64::MAX })))
        .await;
    let sent = sent.unwrap().text();
    assert!(
        sent.contains(r#"{"z":110000.00000000001,"a":18446744073709551615}"#),
        "{sent}"
    );

    let outcome = server.call(call("digits", json!({}))).await.unwrap();
    let exact = r#"{"z":123456789012345678901234567890,"a":110000.00000000001}"#;
    assert_eq!(outcome.exact_structured.as_deref(), Some(exact));
    let structured = outcome.structured.unwrap();
    let names: Vec<&String> = structured.as_object().unwrap().keys().collect();
    assert_eq!(names, ["z", "a"]);
    assert_eq!(structured["a"].to_string(), "110000.00000000001");
    // A number that is held exactly needs no text.
    let outcome = server
        .call(call("echo", json!({ "text": "x", "n": 0.1 })))
        .await
        .unwrap();
    assert_eq!(outcome.exact_structured, None);
}

#[tokio::test]
async fn mcp18_messages_of_an_app_keep_their_order() {
    let server = ready(odd("wild")).await;
    let allowed = Allowed {
        tools: true,
        ..Allowed::default()
    };
    let params = json!({ "channel": "mcp://x", "name": "line", "arguments": { "z": 1, "a": 2 } });
    let params = params.as_object().cloned();
    let passed = server
        .pass(allowed, None, "tools/call", params, CancellationToken::new())
        .await;
    let passed = passed.unwrap();
    let sent: Value = serde_json::from_str(passed["content"][0]["text"].as_str().unwrap()).unwrap();
    let names = |object: &Value| -> Vec<String> {
        let names = object.as_object().unwrap().keys().cloned();
        names.filter(|name| name != "_meta").collect()
    };
    assert_eq!(
        names(&sent["params"]),
        ["name", "arguments"],
        "MCP-18: the channel stays here"
    );
    assert_eq!(names(&sent["params"]["arguments"]), ["z", "a"]);
}
