//! Well-formed messages with wrong content: the code and the message name the field.

use innkeeper_host::rpc::methods::{METHODS, Route};
use innkeeper_testkit::raw::{Incoming, RawClient};
use serde_json::{Value, json};

use crate::{start, start_with_client};

#[tokio::test]
async fn neg_01_before_initialize_only_ping_is_answered() {
    let host = start().await;
    let mut raw = RawClient::connect(host.address()).await;
    raw.still_works().await;
    for (method, params) in [
        ("listSessions", json!({})),
        ("subscribe", json!({ "channel": "ahp-root://" })),
        ("createSession", json!({ "channel": "ahp-session:/x" })),
        ("disposeSession", json!({ "channel": "ahp-session:/x" })),
    ] {
        let refused = raw.call(method, params).await.expect_err(method);
        assert_eq!(refused.code, -32600, "{method}");
        assert_eq!(
            refused.message,
            "send initialize or reconnect first; before that only ping is answered"
        );
    }
    let dispatch = json!({ "type": "root/configChanged", "config": {} });
    raw.dispatch("ahp-root://", 1, dispatch).await;
    raw.still_works().await;
    assert_eq!(raw.notifications, Vec::<Value>::new());
    raw.initialize("late", &["1.0.0"]).await.expect("now it works");
    assert_eq!(raw.call("listSessions", json!({})).await, Ok(json!({ "items": [] })));
}

#[tokio::test]
async fn neg_23_a_second_initialize_is_refused_and_the_first_one_holds() {
    let host = start().await;
    let mut raw = RawClient::initialized(host.address(), "twice").await;
    for method in ["initialize", "reconnect"] {
        let params = json!({
            "clientId": "other", "protocolVersions": ["1.0.0"], "lastSeenServerSeq": 0, "subscriptions": [],
        });
        let refused = raw.call(method, params).await.expect_err(method);
        assert_eq!(refused.code, -32600);
        assert_eq!(
            refused.message,
            "this connection is already initialized; open another one to start over"
        );
    }
    raw.call(
        "createSession",
        json!({ "channel": "ahp-session:/x", "activeClient": { "clientId": "twice", "tools": [] } }),
    )
    .await
    .expect("still the first identity");
}

#[tokio::test]
async fn wrong_types_and_missing_fields_are_named_and_the_connection_goes_on() {
    let (host, witness) = start_with_client().await;
    let long_uri = format!("a:/{}", "x".repeat(2048));
    let cases: [(&str, Value, &str); 26] = [
        ("subscribe", json!({}), "params.channel: is missing"),
        (
            "subscribe",
            json!({ "channel": 5 }),
            "params.channel: invalid type: integer `5`, expected a string",
        ),
        ("subscribe", json!({ "channel": null }), "params.channel: is missing"),
        (
            "subscribe",
            json!({ "channel": "no-scheme" }),
            "params.channel: a channel URI starts with a scheme, as in ahp-session:/my-session",
        ),
        (
            "subscribe",
            json!({ "channel": "a:/\u{0}" }),
            "params.channel: a channel URI has no control characters or white space",
        ),
        (
            "subscribe",
            json!({ "channel": long_uri }),
            "params.channel: a channel URI has at most 2048 bytes, this one has 2051",
        ),
        (
            "subscribe",
            json!({ "channel": "ahp-root://", "delivery": { "maxLatencyMs": -1 } }),
            "params.delivery.maxLatencyMs: must not be negative",
        ),
        (
            "subscribe",
            json!({ "channel": "ahp-root://", "delivery": { "maxLatencyMs": "soon" } }),
            "params.delivery.maxLatencyMs: invalid type: string \"soon\", expected i64",
        ),
        (
            "subscribe",
            json!({ "channel": "ahp-root://", "view": { "turns": -1 } }),
            "params.view.turns: must not be negative",
        ),
        (
            "listSessions",
            json!({ "limit": 0 }),
            "params.limit: must be at least 1",
        ),
        (
            "listSessions",
            json!({ "limit": "all" }),
            "params.limit: invalid type: string \"all\", expected i64",
        ),
        (
            "listSessions",
            json!({ "channel": "ahp-session:/x" }),
            "params.channel: listSessions is addressed to ahp-root://",
        ),
        ("createSession", json!({}), "params.channel: is missing"),
        (
            "createSession",
            json!({ "channel": "ahp-chat:/mine" }),
            "params.channel: the scheme ahp-chat: is not for sessions; use ahp-session:/<id>",
        ),
        (
            "createSession",
            json!({ "channel": "ahp-session:/x/annotations" }),
            "params.channel: a session URI does not end in /annotations; that names the session's annotations",
        ),
        (
            "createSession",
            json!({ "channel": "ahp-session:/x", "provider": 7 }),
            "params.provider: invalid type: integer `7`, expected a string",
        ),
        (
            "createSession",
            json!({ "channel": "ahp-session:/x", "workingDirectories": ["file:///ok", 1] }),
            "params.workingDirectories[1]: invalid type: integer `1`, expected a string",
        ),
        (
            "createSession",
            json!({ "channel": "ahp-session:/x", "workingDirectories": ["not a uri"] }),
            "params.workingDirectories[0]: must be a URI, as in file:///home/me/project",
        ),
        (
            "createSession",
            json!({ "channel": "ahp-session:/x", "workingDirectories": ["file:///", "file:///no/such/place"] }),
            "params.workingDirectories[1]: there is no such directory on this host; create it, or choose another",
        ),
        (
            "createSession",
            json!({ "channel": "ahp-session:/x", "workingDirectories": ["file:///dev/null"] }),
            "params.workingDirectories[0]: is a file; a session works in a directory",
        ),
        (
            "createSession",
            json!({ "channel": "ahp-session:/x", "workingDirectories": ["https://example.com/x"] }),
            "params.workingDirectories[0]: must be a directory of the host, as in file:///home/me/project, and not https:",
        ),
        (
            "createSession",
            json!({ "channel": "file:///tmp/x" }),
            "params.channel: the scheme file: is not for sessions; use ahp-session:/<id>",
        ),
        (
            "createSession",
            json!({ "channel": "ahp-session:/x", "activeClient": { "clientId": "raw" } }),
            "params.activeClient: missing field `tools`",
        ),
        (
            "createSession",
            json!({ "channel": "ahp-session:/x", "activeClient": { "clientId": "raw", "tools": [{ "name": 1 }] } }),
            "params.activeClient.tools[0].name: invalid type: integer `1`, expected a string",
        ),
        ("disposeSession", json!({}), "params.channel: is missing"),
        ("listSessions", json!("text"), "params: must be an object"),
    ];
    let mut raw = RawClient::initialized(host.address(), "raw").await;
    for (method, params, message) in cases {
        let refused = raw.call(method, params.clone()).await.expect_err(message);
        assert_eq!(
            (refused.code, refused.message.as_str()),
            (-32602, message),
            "{method} {params}"
        );
    }
    assert_eq!(
        raw.call("listSessions", json!({})).await,
        Ok(json!({ "items": [] })),
        "nothing was created"
    );
    witness.client().ping().await.expect("unaffected");
    witness.assert_converged().await;
}

#[tokio::test]
async fn bad_handshakes_are_named_and_may_be_corrected_on_the_same_connection() {
    let host = start().await;
    let mut raw = RawClient::connect(host.address()).await;
    let long = "c".repeat(257);
    let cases: [(&str, Value, &str); 12] = [
        (
            "initialize",
            json!({ "clientId": "c" }),
            "params: missing field `protocolVersions`",
        ),
        (
            "initialize",
            json!({ "protocolVersions": ["1.0.0"] }),
            "params: missing field `clientId`",
        ),
        (
            "initialize",
            json!({ "protocolVersions": "1.0.0", "clientId": "c" }),
            "params.protocolVersions: invalid type: string \"1.0.0\", expected a sequence",
        ),
        (
            "initialize",
            json!({ "protocolVersions": [], "clientId": "c" }),
            "params.protocolVersions: is empty; offer at least one version, as in [\"1.0.0\"]",
        ),
        (
            "initialize",
            json!({ "protocolVersions": ["1.0.0"], "clientId": "" }),
            "params.clientId: a client id is not empty",
        ),
        (
            "initialize",
            json!({ "protocolVersions": ["1.0.0"], "clientId": long }),
            "params.clientId: a client id has at most 256 bytes, this one has 257",
        ),
        (
            "initialize",
            json!({ "protocolVersions": ["1.0.0"], "clientId": "a\u{7}b" }),
            "params.clientId: a client id has no control characters",
        ),
        (
            "initialize",
            json!({ "channel": "ahp-session:/x", "protocolVersions": ["1.0.0"], "clientId": "c" }),
            "params.channel: initialize is addressed to ahp-root://",
        ),
        (
            "initialize",
            json!({ "protocolVersions": ["1.0.0"], "clientId": "c", "initialSubscriptions": vec!["ahp-root://"; 1025] }),
            "params.initialSubscriptions: has 1025 entries; a connection has at most 1024 subscriptions",
        ),
        (
            "reconnect",
            json!({ "clientId": "c", "subscriptions": [] }),
            "params: missing field `lastSeenServerSeq`",
        ),
        (
            "reconnect",
            json!({ "clientId": "c", "lastSeenServerSeq": -1, "subscriptions": [] }),
            "params.lastSeenServerSeq: must not be negative",
        ),
        (
            "reconnect",
            json!({ "clientId": "c", "lastSeenServerSeq": 1.5, "subscriptions": [] }),
            "params.lastSeenServerSeq: invalid type: floating point `1.5`, expected i64",
        ),
    ];
    for (method, params, message) in cases {
        let refused = raw.call(method, params).await.expect_err(message);
        assert_eq!((refused.code, refused.message.as_str()), (-32602, message));
    }
    let unknown = json!({ "clientId": "c", "lastSeenServerSeq": 1, "subscriptions": [] });
    assert_eq!(raw.call("reconnect", unknown).await.expect_err("unknown").code, -32008);
    raw.initialize("c", &["1.0.0"])
        .await
        .expect("NEG-22: initialize after a failed reconnect");
}

#[tokio::test]
async fn neg_11_unknown_initial_subscriptions_are_left_out() {
    let host = start().await;
    let mut raw = RawClient::connect(host.address()).await;
    let params = json!({
        "channel": "ahp-root://", "clientId": "c", "protocolVersions": ["1.0.0"],
        "initialSubscriptions": ["ahp-session:/nowhere", "ahp-root://", "nonsense", "ahp-root://"],
        "clientInfo": { "name": "vscode-editor-window", "future": true },
        "capabilities": { "unheardOf": {} }, "_meta": { "vscode.telemetryLevel": "all" },
    });
    let result = raw.call("initialize", params).await.expect("initialized");
    assert_eq!(result["protocolVersion"], "1.0.0");
    assert_eq!(result["serverInfo"]["name"], "innkeeper");
    let snapshots = result["snapshots"].as_array().expect("snapshots");
    assert!(
        snapshots.iter().all(|snapshot| snapshot["resource"] == "ahp-root://"),
        "{snapshots:?}"
    );
    assert!(!snapshots.is_empty());
    assert_eq!(snapshots[0]["fromSeq"], result["serverSeq"]);
    assert_eq!(snapshots[0]["state"]["agents"][0]["provider"], "tour");
}

#[tokio::test]
async fn e_54_every_method_without_a_handler_answers_32601_never_empty_success() {
    let host = start().await;
    let mut raw = RawClient::initialized(host.address(), "raw").await;
    let unsupported = METHODS
        .iter()
        .filter(|method| matches!(method.route, Route::Unsupported));
    let known = unsupported.map(|method| method.name);
    let made_up = [
        "shutdown",
        "vscode/diagnosticsFetch",
        "Initialize",
        "action",
        "$/cancelRequest",
        "",
    ];
    let mut tried = 0;
    for name in known.chain(made_up) {
        for params in [json!({}), json!({ "channel": "ahp-root://" }), Value::Null] {
            let refused = raw.call(name, params).await.expect_err(name);
            assert_eq!(refused.code, -32601, "{name}");
            assert_eq!(
                refused.message,
                format!("this host does not implement the method {name:?}")
            );
        }
        tried += 1;
    }
    assert!(tried > made_up.len(), "the table has methods without a handler");
    let long = "m".repeat(5000);
    let refused = raw.call(&long, json!({})).await.expect_err("long");
    assert_eq!(refused.code, -32601);
    assert!(refused.message.len() < 250, "the error does not repeat it all");
    raw.still_works().await;
}

#[tokio::test]
async fn error_answers_hold_no_paths_stacks_or_tokens() {
    let host = start().await;
    let token = host.address().token.clone().expect("a token");
    let home = host.path("").display().to_string();
    let mut raw = RawClient::initialized(host.address(), "raw").await;
    for method in [
        "subscribe",
        "createSession",
        "disposeSession",
        "listSessions",
        "resourceRead",
        "authenticate",
    ] {
        for params in [
            json!({}),
            json!({ "channel": "file:///etc/passwd" }),
            json!({ "channel": 1, "limit": {} }),
        ] {
            if let Err(refused) = raw.call(method, params).await {
                for secret in [token.as_str(), home.as_str(), ".rs:", "panicked"] {
                    assert!(!refused.message.contains(secret), "{}", refused.message);
                }
            }
        }
    }
}

#[tokio::test]
async fn a_clients_close_is_answered_and_leaves_the_host_alone() {
    let (host, witness) = start_with_client().await;
    let mut raw = RawClient::initialized(host.address(), "leaving").await;
    raw.send_frame(tokio_tungstenite::tungstenite::Message::Close(None))
        .await;
    assert!(matches!(raw.end().await, Incoming::Closed(..) | Incoming::Broken(_)));
    witness.client().ping().await.expect("unaffected");
    witness.assert_converged().await;
}
