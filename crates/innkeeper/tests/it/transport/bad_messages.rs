//! Malformed messages: the exact error, without other effects.

use innkeeper_testkit::official::OfficialClient;
use innkeeper_testkit::process::HostProcess;
use innkeeper_testkit::raw::{Incoming, RawClient, Refusal};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};

use crate::{options, start, start_with_client};

#[tokio::test]
async fn trn_13_every_broken_message_has_its_error_and_no_disconnect() {
    let (host, witness) = start_with_client().await;
    let uris = witness.create_session("undisturbed").await;
    let mut raw = RawClient::initialized(host.address(), "raw").await;
    let null = Value::Null;
    let cases: [(&str, Value, i64, &str); 21] = [
        (
            "{",
            null.clone(),
            -32700,
            "not JSON: EOF while parsing an object at line 1 column 1",
        ),
        (
            "",
            null.clone(),
            -32700,
            "not JSON: EOF while parsing a value at line 1 column 0",
        ),
        (
            "hello",
            null.clone(),
            -32700,
            "not JSON: expected value at line 1 column 1",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"ping"} {}"#,
            null.clone(),
            -32700,
            "not JSON: trailing characters at line 1 column 42",
        ),
        (
            r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#,
            null.clone(),
            -32600,
            "JSON-RPC batches are not part of AHP; send one message at a time",
        ),
        (
            "[]",
            null.clone(),
            -32600,
            "JSON-RPC batches are not part of AHP; send one message at a time",
        ),
        ("{}", null.clone(), -32600, r#"the member jsonrpc must be "2.0""#),
        (
            "5",
            null.clone(),
            -32600,
            "not a JSON-RPC message: invalid type: integer `5`, expected an object",
        ),
        (
            "null",
            null.clone(),
            -32600,
            "not a JSON-RPC message: invalid type: null, expected an object",
        ),
        (
            r#"{"id":1,"method":"ping"}"#,
            json!(1),
            -32600,
            r#"the member jsonrpc must be "2.0""#,
        ),
        (
            r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#,
            json!(1),
            -32600,
            r#"the member jsonrpc must be "2.0""#,
        ),
        (
            r#"{"jsonrpc":"2.0","id":1}"#,
            json!(1),
            -32600,
            "the member method is missing",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":5}"#,
            json!(1),
            -32600,
            "the member method must be a string",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"ping","result":1}"#,
            json!(1),
            -32600,
            "a message has either a method or a result or error, not both",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#,
            null.clone(),
            -32600,
            "not a JSON-RPC message: duplicate field `id`",
        ),
        (
            r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#,
            null.clone(),
            -32600,
            "an id is a non-negative integer or a string",
        ),
        (
            r#"{"jsonrpc":"2.0","id":-1,"method":"ping"}"#,
            json!(-1),
            -32600,
            "an id is a non-negative integer or a string",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#,
            json!(1.5),
            -32600,
            "an id is a non-negative integer or a string",
        ),
        (
            r#"{"jsonrpc":"2.0","id":{"a":1},"method":"ping"}"#,
            null.clone(),
            -32600,
            "an id is a non-negative integer or a string",
        ),
        (
            r#"{"jsonrpc":"2.0","id":9,"method":"shutdown"}"#,
            json!(9),
            -32601,
            r#"this host does not implement the method "shutdown""#,
        ),
        (
            r#"{"jsonrpc":"2.0","id":9,"method":"listSessions","params":[1]}"#,
            json!(9),
            -32602,
            "params: must be an object",
        ),
    ];
    for (text, id, code, message) in cases {
        raw.send(text).await;
        let refused = raw.answer(&id).await.expect_err(text);
        assert_eq!((refused.code, refused.message.as_str()), (code, message), "{text}");
        assert_eq!(refused.data, Value::Null);
        raw.still_works().await;
    }
    assert_eq!(raw.notifications, Vec::<Value>::new());
    witness.run_turn(&uris.chat, "t1", "unimpressed").await;
    witness.assert_converged().await;
}

#[tokio::test]
async fn trap_1_string_ids_are_answered_with_the_very_same_string() {
    let host = start().await;
    let mut raw = RawClient::initialized(host.address(), "raw").await;
    for id in [
        r#""a""#,
        r#""""#,
        r#""with \"quotes\" and \u00e9""#,
        "0",
        "18446744073709551615",
    ] {
        raw.send(format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#))
            .await;
        let expected: Value = serde_json::from_str(id).expect("JSON");
        assert_eq!(raw.answer(&expected).await, Ok(Value::Null), "{id}");
    }
    let long = "x".repeat(300);
    raw.send(format!(r#"{{"jsonrpc":"2.0","id":"{long}","method":"ping"}}"#))
        .await;
    let refused = raw.answer(&Value::Null).await.expect_err("too long");
    assert_eq!(
        (refused.code, refused.message.as_str()),
        (-32600, "a string id has at most 256 bytes")
    );
    raw.still_works().await;
}

#[tokio::test]
async fn deep_and_wide_json_is_refused_and_does_no_harm() {
    let (host, witness) = start_with_client().await;
    let mut raw = RawClient::initialized(host.address(), "raw").await;
    let nested = |depth: usize| {
        let (open, close) = ("[".repeat(depth), "]".repeat(depth));
        format!(r#"{{"jsonrpc":"2.0","id":7,"method":"ping","params":{{"x":{open}{close}}}}}"#)
    };
    raw.send(nested(62)).await;
    assert_eq!(raw.answer(&json!(7)).await, Ok(Value::Null), "64 levels are fine");
    for depth in [63, 127, 128, 200_000] {
        raw.send(nested(depth)).await;
        let refused = raw.answer(&json!(7)).await.expect_err("too deep");
        assert_eq!(refused.code, -32600, "{depth}");
        assert_eq!(refused.message, "the JSON is nested more than 64 levels deep");
    }
    let wide = format!(
        r#"{{"jsonrpc":"2.0","id":8,"method":"ping","params":{{"x":[{}1]}}}}"#,
        "1,".repeat(100_000)
    );
    raw.send(wide).await;
    let refused = raw.answer(&json!(8)).await.expect_err("too wide");
    assert_eq!(
        (refused.code, refused.message.as_str()),
        (-32600, "an object or array has more than 100000 members")
    );
    raw.still_works().await;
    witness.assert_converged().await;
}

#[tokio::test]
async fn trn_03_binary_frames_hold_json_or_get_an_error() {
    let host = start().await;
    let mut raw = RawClient::initialized(host.address(), "raw").await;
    let ping = br#"{"jsonrpc":"2.0","id":3,"method":"ping"}"#;
    raw.send_frame(Message::binary(ping.to_vec())).await;
    assert_eq!(raw.answer(&json!(3)).await, Ok(Value::Null));
    raw.send_frame(Message::binary(vec![0xff, 0xfe, 0x00])).await;
    let expected = Refusal {
        code: -32700,
        message: "not JSON: the message is not UTF-8".to_owned(),
        data: Value::Null,
    };
    assert_eq!(raw.answer(&Value::Null).await, Err(expected));
    raw.still_works().await;
}

#[tokio::test]
async fn an_invalid_utf8_frame_ends_its_own_connection_with_1007() {
    let (host, witness) = start_with_client().await;
    let mut raw = RawClient::initialized(host.address(), "raw").await;
    let frame = Frame::message(vec![b'"', 0xff, b'"'], OpCode::Data(Data::Text), true);
    raw.send_frame(Message::Frame(frame)).await;
    assert_eq!(
        raw.end().await,
        Incoming::Closed(1007, "text frames must be UTF-8".to_owned())
    );
    witness.client().ping().await.expect("unaffected");
    witness.assert_converged().await;
}

#[tokio::test]
async fn lesson_17_a_message_above_the_limit_is_1009_and_the_client_reconnects() {
    let host = HostProcess::start(options().limit("message_bytes", 100_000)).await;
    let witness = OfficialClient::connect(host.address(), "witness").await;
    let uris = witness.create_session("ceiling").await;
    let mut raw = RawClient::initialized(host.address(), "raw").await;
    raw.call("subscribe", json!({ "channel": uris.chat }))
        .await
        .expect("subscribed");
    let frame = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{{"x":"{}"}}}}"#,
        "x".repeat(99_000)
    );
    raw.send(frame).await;
    assert_eq!(raw.answer(&json!(1)).await, Ok(Value::Null), "just below the limit");
    // The host stops in the middle of the message, so sending the rest may fail.
    let _ = raw.try_send_frame(Message::text("x".repeat(3_000_000))).await;
    assert_eq!(
        raw.end().await,
        Incoming::Closed(1009, "the message is larger than this host accepts".to_owned())
    );
    let mut back = RawClient::connect(host.address()).await;
    let params =
        json!({ "clientId": "raw", "lastSeenServerSeq": witness.view().last_seen, "subscriptions": [uris.chat] });
    let resumed = back.call("reconnect", params).await.expect("reconnect succeeds");
    assert_eq!(resumed["type"], "replay");
    witness.run_turn(&uris.chat, "t1", "still here").await;
    witness.assert_converged().await;
}

#[tokio::test]
async fn a_fragmented_message_is_one_message_and_too_many_bytes_are_1009() {
    let host = HostProcess::start(options().limit("message_bytes", 100_000)).await;
    let mut raw = RawClient::initialized(host.address(), "raw").await;
    let text = br#"{"jsonrpc":"2.0","id":5,"method":"ping"}"#;
    for (index, byte) in text.iter().enumerate() {
        let opcode = OpCode::Data(if index == 0 { Data::Text } else { Data::Continue });
        let frame = Frame::message(vec![*byte], opcode, index + 1 == text.len());
        raw.send_frame(Message::Frame(frame)).await;
    }
    assert_eq!(raw.answer(&json!(5)).await, Ok(Value::Null));
    for index in 0..3 {
        let opcode = OpCode::Data(if index == 0 { Data::Text } else { Data::Continue });
        let frame = Frame::message(vec![b'x'; 60_000], opcode, false);
        let _ = raw.try_send_frame(Message::Frame(frame)).await;
    }
    let end = raw.end().await;
    assert!(matches!(end, Incoming::Closed(1009, _)), "{end:?}");
}

/// Two programs that answer each other's errors would never stop.
#[tokio::test]
async fn trn_04_an_error_without_an_id_is_not_answered_with_another() {
    let host = start().await;
    let mut raw = RawClient::initialized(host.address(), "echo").await;
    for text in [
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"not JSON"}}"#,
        r#"{"jsonrpc":"2.0","id":"x","result":null}"#,
        r#"{"jsonrpc":"2.0","id":7777,"result":null}"#,
    ] {
        raw.send(text).await;
    }
    let sent = raw.ask("ping", json!({})).await;
    match raw.receive().await {
        Incoming::Message(first) => {
            assert_eq!(
                first["id"],
                json!(sent),
                "nothing comes before the answer to ping: {first}"
            );
        }
        other => panic!("{other:?}"),
    }
}
