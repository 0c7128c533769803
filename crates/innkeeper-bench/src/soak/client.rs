//! A client of the soak: a connection, a mirror, and the way back after a cut.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use super::mirror::Mirror;
use crate::{client::host_session::ROOT, client::websocket::Connection};

/// How long anything may take. Far above what it takes on a busy machine, so that only a host that
/// hangs is reported.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A client with an identity that it keeps over reconnects.
pub(crate) struct SoakClient {
    url: String,
    id: String,
    connection: Option<Connection>,
    client_seq: u64,
    pub(crate) mirror: Mirror,
    /// Why the host refused actions of this client.
    pub(crate) refusals: Vec<String>,
}

impl SoakClient {
    /// Connects, introduces itself and mirrors the root.
    pub(crate) async fn connect(url: &str, id: String) -> Result<Self> {
        let mut client = Self {
            url: url.to_owned(),
            id,
            connection: Some(Connection::open(url).await?),
            client_seq: 0,
            mirror: Mirror::default(),
            refusals: Vec::new(),
        };
        let params = json!({"channel": ROOT, "protocolVersions": ["1.0.0"], "clientId": client.id,
            "initialSubscriptions": [ROOT]});
        let result = client.request("initialize", params).await?;
        client.take_snapshots(&result)?;
        Ok(client)
    }

    /// Loses its connection, with or without a word.
    pub(crate) async fn cut(&mut self, politely: bool) -> Result<()> {
        if let Some(connection) = self.connection.take()
            && politely
        {
            connection.close().await?;
        }
        Ok(())
    }

    /// Comes back after a cut. Returns whether what was missed was replayed.
    pub(crate) async fn reconnect(&mut self) -> Result<bool> {
        self.connection = Some(Connection::open(&self.url).await?);
        let params = json!({"channel": ROOT, "clientId": self.id, "lastSeenServerSeq": self.mirror.last_seen,
            "subscriptions": self.mirror.channels()});
        let result = self.request("reconnect", params).await?;
        if result.get("type").and_then(Value::as_str) == Some("snapshot") {
            self.take_snapshots(&result)?;
            return Ok(false);
        }
        let actions = result.get("actions").and_then(Value::as_array);
        for action in actions.context("a replay without actions")? {
            self.mirror.take_action(action)?;
        }
        for missing in result.get("missing").and_then(Value::as_array).into_iter().flatten() {
            self.mirror.forget(missing.as_str().unwrap_or_default());
        }
        Ok(true)
    }

    /// Subscribes to a channel and mirrors it.
    pub(crate) async fn subscribe(&mut self, uri: &str) -> Result<()> {
        let result = self.request("subscribe", json!({"channel": uri})).await?;
        let snapshot = result.get("snapshot").context("subscribe gave no snapshot")?;
        self.mirror.take_snapshot(snapshot)
    }

    /// Stops mirroring a channel.
    pub(crate) async fn unsubscribe(&mut self, uri: &str) -> Result<()> {
        self.connection()?
            .notify("unsubscribe", json!({"channel": uri}))
            .await?;
        self.mirror.forget(uri);
        Ok(())
    }

    /// Dispatches an action.
    pub(crate) async fn dispatch(&mut self, channel: &str, action: Value) -> Result<()> {
        self.client_seq += 1;
        let params = json!({"channel": channel, "clientSeq": self.client_seq, "action": action});
        self.connection()?.notify("dispatchAction", params).await
    }

    /// Sends a request and reads until it is answered, mirroring what comes before the answer.
    pub(crate) async fn request(&mut self, method: &str, params: Value) -> Result<Value> {
        let id = self.connection()?.send_request(method, params).await?;
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let mut message = self.next_message(deadline).await.with_context(|| method.to_owned())?;
            if message.get("id").and_then(Value::as_u64) != Some(id) {
                self.take(&message)?;
                continue;
            }
            if let Some(error) = message.get("error") {
                bail!("{method} was answered with {error}");
            }
            return Ok(message.get_mut("result").map(Value::take).unwrap_or_default());
        }
    }

    /// Reads until the mirror shows something.
    pub(crate) async fn until(&mut self, what: &str, is_so: impl Fn(&Mirror) -> bool) -> Result<()> {
        let deadline = Instant::now() + TIMEOUT;
        while !is_so(&self.mirror) {
            let message = self
                .next_message(deadline)
                .await
                .with_context(|| format!("{} waits for: {what}", self.id))?;
            self.take(&message)?;
        }
        Ok(())
    }

    /// Reads for a while.
    pub(crate) async fn read_for(&mut self, time: Duration) -> Result<()> {
        let deadline = Instant::now() + time;
        loop {
            let Ok(message) = timeout_at(deadline, self.connection()?.next_message()).await else {
                return Ok(());
            };
            self.take(&message?)?;
        }
    }

    async fn next_message(&mut self, deadline: Instant) -> Result<Value> {
        timeout_at(deadline, self.connection()?.next_message())
            .await
            .with_context(|| format!("it did not come within {} s", TIMEOUT.as_secs()))?
    }

    fn take(&mut self, message: &Value) -> Result<()> {
        if message.get("method").and_then(Value::as_str) == Some("action") {
            let envelope = message.get("params").context("an action without params")?;
            self.refusals.extend(self.mirror.take_action(envelope)?);
        }
        Ok(())
    }

    fn take_snapshots(&mut self, result: &Value) -> Result<()> {
        let snapshots = result.get("snapshots").and_then(Value::as_array);
        let taken: Vec<&Value> = snapshots.context("no snapshots came")?.iter().collect();
        for channel in self.mirror.channels() {
            self.mirror.forget(&channel);
        }
        taken
            .into_iter()
            .try_for_each(|snapshot| self.mirror.take_snapshot(snapshot))
    }

    fn connection(&mut self) -> Result<&mut Connection> {
        self.connection.as_mut().context("the client has no connection")
    }
}
