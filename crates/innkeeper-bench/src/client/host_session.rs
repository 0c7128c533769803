//! The few protocol steps that bring a benchmark client to a chat of the tour agent.

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::{client::delivery::StreamPlan, client::websocket::Connection};

/// The channel of connection-level commands.
pub(crate) const ROOT: &str = "ahp-root://";
const SESSION: &str = "ahp-session:/bench";

/// The version of the protocol that benchmarks speak unless they are about older ones.
pub(crate) const NEWEST: &str = "1.0.0";

/// Introduces a client and subscribes it to `subscriptions`.
pub(crate) async fn initialize(connection: &mut Connection, client_id: &str, subscriptions: &[&str]) -> Result<()> {
    initialize_as(connection, NEWEST, client_id, subscriptions).await
}

/// Returns the channel on which a client of a version follows a chat of the benchmark's session: up to 0.3 there are
/// no chats.
pub(crate) fn channel_of_chat<'chat>(version: &str, chat: &'chat str) -> &'chat str {
    match version {
        "0.1.0" | "0.2.0" | "0.3.0" => SESSION,
        _ => chat,
    }
}

/// Introduces a client that speaks a version, and subscribes it to `subscriptions`.
pub(crate) async fn initialize_as(
    connection: &mut Connection,
    version: &str,
    client_id: &str,
    subscriptions: &[&str],
) -> Result<()> {
    let params = json!({
        "channel": ROOT,
        "protocolVersions": [version],
        "clientId": client_id,
        "initialSubscriptions": subscriptions,
    });
    let result = connection.request("initialize", params).await?;
    let snapshots = result.get("snapshots").and_then(Value::as_array).map_or(0, Vec::len);
    if snapshots != subscriptions.len() {
        bail!(
            "initialize gave {snapshots} snapshots for {} subscriptions",
            subscriptions.len()
        );
    }
    Ok(())
}

/// Creates the session of the benchmark with the built-in tour agent.
pub(crate) async fn create_session(connection: &mut Connection) -> Result<()> {
    create_session_with(connection, "tour").await
}

/// Creates the session of the benchmark with another agent.
pub(crate) async fn create_session_with(connection: &mut Connection, provider: &str) -> Result<()> {
    connection
        .request("createSession", json!({"channel": SESSION, "provider": provider}))
        .await?;
    Ok(())
}

/// Subscribes to the session, waits until it is ready and returns its default chat.
pub(crate) async fn subscribe_session(connection: &mut Connection) -> Result<String> {
    subscribe_to_session(connection, SESSION).await
}

/// The same for another session than the benchmark's.
pub(crate) async fn subscribe_to_session(connection: &mut Connection, session: &str) -> Result<String> {
    loop {
        let result = connection.request("subscribe", json!({"channel": session})).await?;
        let state = result
            .pointer("/snapshot/state")
            .context("subscribe gave no snapshot of the session")?;
        match state.get("lifecycle").and_then(Value::as_str) {
            Some("ready") => {
                let chat = state.get("defaultChat").and_then(Value::as_str);
                return Ok(chat.context("the session has no default chat")?.to_owned());
            }
            Some("creating") => wait_until_ready(connection).await?,
            other => bail!("the session's lifecycle is {other:?}: {state}"),
        }
    }
}

/// Subscribes to a chat with the given delivery preference.
pub(crate) async fn subscribe_chat(connection: &mut Connection, chat: &str, max_latency_ms: u64) -> Result<()> {
    let params = json!({"channel": chat, "delivery": {"maxLatencyMs": max_latency_ms}});
    connection.request("subscribe", params).await?;
    Ok(())
}

/// Asks the tour agent to stream a turn.
pub(crate) async fn start_turn(connection: &mut Connection, chat: &str, plan: &StreamPlan) -> Result<()> {
    let text = format!("/stream {} {} {}", plan.deltas, plan.delay_ms, plan.bytes);
    say(connection, chat, &plan.turn_id, plan.client_seq, &text).await
}

/// Starts a turn with the given text.
pub(crate) async fn say(
    connection: &mut Connection,
    chat: &str,
    turn_id: &str,
    client_seq: u64,
    text: &str,
) -> Result<()> {
    let action = json!({
        "type": "chat/turnStarted",
        "turnId": turn_id,
        "startedAt": jiff::Timestamp::now().to_string(),
        "message": {"text": text, "origin": {"kind": "user"}},
    });
    let params = json!({"channel": chat, "clientSeq": client_seq, "action": action});
    connection.notify("dispatchAction", params).await
}

/// Makes one round trip through the host's protocol layer.
pub(crate) async fn ping(connection: &mut Connection) -> Result<()> {
    let result = connection.request("ping", json!({"channel": ROOT})).await?;
    if !result.is_null() {
        bail!("ping answered {result} instead of null");
    }
    Ok(())
}

async fn wait_until_ready(connection: &mut Connection) -> Result<()> {
    loop {
        let message = connection
            .next_message()
            .await
            .context("the session did not become ready")?;
        match message.pointer("/params/action/type").and_then(Value::as_str) {
            Some("session/ready") => return Ok(()),
            Some("session/creationFailed") => bail!("the session could not be created: {message}"),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{SinkExt, StreamExt};
    use tokio::net::TcpListener;
    use tokio_tungstenite::accept_async;

    use super::*;
    use crate::client::delivery::Stamping;

    /// Accepts one client, answers each message with the next list of the script, and returns what
    /// the client sent. `ID` in an answer stands for the id of the client's message.
    async fn scripted_server(script: Vec<Vec<String>>) -> (Connection, tokio::task::JoinHandle<Vec<Value>>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("ws://{}", listener.local_addr().unwrap());
        let server = tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let mut socket = accept_async(stream).await.unwrap();
            let mut received = Vec::new();
            for answers in script {
                let message = socket.next().await.unwrap().unwrap();
                let message: Value = serde_json::from_str(message.to_text().unwrap()).unwrap();
                for answer in answers {
                    let answer = answer.replace("ID", &message["id"].to_string());
                    socket.send(answer.into()).await.unwrap();
                }
                received.push(message);
            }
            received
        });
        (Connection::open(&url).await.unwrap(), server)
    }

    fn result(result: &Value) -> String {
        format!(r#"{{"jsonrpc":"2.0","id":ID,"result":{result}}}"#)
    }

    fn action(kind: &str) -> String {
        json!({"method": "action", "params": {"action": {"type": kind}}}).to_string()
    }

    fn session(lifecycle: &str) -> String {
        result(&json!({"snapshot": {"state": {"lifecycle": lifecycle, "defaultChat": "ahp-chat:/c"}}}))
    }

    #[tokio::test]
    async fn a_session_that_is_still_being_created_is_waited_for() {
        let (mut connection, server) = scripted_server(vec![
            vec![action("root/x"), result(&json!({"snapshots": [{}]}))],
            vec![result(&Value::Null)],
            vec![session("creating"), action("session/x"), action("session/ready")],
            vec![session("ready")],
            vec![result(&json!({"snapshot": {}}))],
            vec![result(&Value::Null)],
            vec![],
        ])
        .await;
        initialize(&mut connection, "bench-0", &[ROOT]).await.unwrap();
        create_session(&mut connection).await.unwrap();
        let chat = subscribe_session(&mut connection).await.unwrap();
        assert_eq!(chat, "ahp-chat:/c");
        subscribe_chat(&mut connection, &chat, 5).await.unwrap();
        ping(&mut connection).await.unwrap();
        let plan = StreamPlan {
            turn_id: "t".to_owned(),
            client_seq: 7,
            deltas: 3,
            bytes: 40,
            delay_ms: 1,
            stamping: Stamping::Plain,
        };
        start_turn(&mut connection, &chat, &plan).await.unwrap();

        let received = server.await.unwrap();
        let methods: Vec<_> = received
            .iter()
            .map(|message| message["method"].as_str().unwrap())
            .collect();
        let expected = [
            "initialize",
            "createSession",
            "subscribe",
            "subscribe",
            "subscribe",
            "ping",
            "dispatchAction",
        ];
        assert_eq!(methods, expected);
        assert_eq!(received[4]["params"]["delivery"]["maxLatencyMs"], 5);
        let dispatched = &received[6];
        assert_eq!(dispatched.get("id"), None);
        assert_eq!(dispatched["params"]["clientSeq"], 7);
        assert_eq!(dispatched["params"]["action"]["message"]["text"], "/stream 3 1 40");
    }

    #[tokio::test]
    async fn a_session_that_cannot_be_created_fails() {
        let (mut connection, _server) =
            scripted_server(vec![vec![session("creating"), action("session/creationFailed")]]).await;
        assert!(subscribe_session(&mut connection).await.is_err());
    }

    #[tokio::test]
    async fn a_missing_snapshot_and_a_wrong_ping_fail() {
        let (mut connection, _server) =
            scripted_server(vec![vec![result(&json!({"snapshots": []}))], vec![result(&json!({}))]]).await;
        assert!(initialize(&mut connection, "bench-0", &[ROOT]).await.is_err());
        assert!(ping(&mut connection).await.is_err());
    }
}
