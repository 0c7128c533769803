//! A connection to a host: the handshake, requests and subscriptions.

pub mod contents;
pub(crate) mod edit_contents;
pub mod link;
pub mod mirror;
mod pipe;
mod target;
mod unix_socket;

use std::time::Duration;

use ahp::{Client, ClientConfig, ClientError, ClientEventStream};
use ahp_types::PROTOCOL_VERSION;
use ahp_types::actions::StateAction;
use ahp_types::commands::{
    Implementation, InitializeParams, InitializeResult, ReconnectParams, ReconnectResult, SubscribeParams,
};
use ahp_types::common::ROOT_RESOURCE_URI;
use ahp_types::errors::{ahp_error_codes, json_rpc_error_codes};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::io::DuplexStream;

use crate::args::ConnectArgs;
use crate::discovery::DataDir;
use crate::failure::{Failure, Kind};
use crate::terminal::one_line;

use self::pipe::Pipe;
use self::target::Target;
pub use self::target::is_here;

/// Timeout of connecting and of each request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Size of the official client's event buffer, which drops events silently when it is full.
const EVENT_BUFFER: usize = 4096;

/// An initialized connection that subscribes to the root channel.
pub struct Connection {
    /// The official client.
    pub(crate) client: Client,
    /// Every event since before the handshake.
    pub(crate) events: ClientEventStream,
    /// The identity under which this client's actions are echoed.
    pub(crate) client_id: String,
}

fn fresh_client_id() -> String {
    format!("innkeeper-cli-{}", uuid::Uuid::new_v4())
}

fn client_config() -> ClientConfig {
    ClientConfig {
        default_request_timeout: Some(REQUEST_TIMEOUT),
        subscription_buffer: EVENT_BUFFER,
    }
}

/// A channel's state as the host sent it. Types could drop unknown fields.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RawSnapshot {
    /// The state.
    pub(crate) state: Value,
    /// The sequence number up to which the state is current.
    pub(crate) from_seq: i64,
}

impl Connection {
    /// Connects to the host that `--url` names, or to the one that runs on the data directory.
    pub async fn open(dir: &DataDir, args: &ConnectArgs) -> Result<Self, Failure> {
        Self::open_as(dir, args, fresh_client_id()).await
    }

    /// The same under a client id that outlives this connection.
    pub(crate) async fn open_as(dir: &DataDir, args: &ConnectArgs, client_id: String) -> Result<Self, Failure> {
        let (connection, _) = Self::open_with_result(dir, args, client_id).await?;
        Ok(connection)
    }

    /// The same, with everything that the host said in the handshake.
    pub async fn open_with_result(
        dir: &DataDir,
        args: &ConnectArgs,
        client_id: String,
    ) -> Result<(Self, InitializeResult), Failure> {
        let connection = Self::over(Self::connect(dir, args).await?, client_id);
        let result = connection.send_initialize().await?;
        Ok((connection, result))
    }

    /// Connects again under the same client id, and catches up with everything since `last_seen` on `subscriptions`.
    pub async fn resume(
        dir: &DataDir,
        args: &ConnectArgs,
        client_id: String,
        last_seen: i64,
        subscriptions: Vec<String>,
    ) -> Result<(Self, ReconnectResult), Failure> {
        let connection = Self::over(Self::connect(dir, args).await?, client_id.clone());
        let params = ReconnectParams {
            channel: ROOT_RESOURCE_URI.to_owned(),
            meta: None,
            client_id,
            last_seen_server_seq: last_seen,
            subscriptions,
        };
        let result = connection.request("reconnect", params).await?;
        Ok((connection, result))
    }

    async fn connect(dir: &DataDir, args: &ConnectArgs) -> Result<Client, Failure> {
        let target = Target::find(dir, args)?;
        tokio::time::timeout(REQUEST_TIMEOUT, target.connect(client_config()))
            .await
            .map_err(|_| {
                Failure::new(
                    Kind::Unreachable,
                    format!("{} did not answer within 30 seconds", target.name()),
                )
            })?
    }

    /// Connects to the host at the other end of a pipe: a host of this process.
    pub async fn over_pipe(pipe: DuplexStream) -> Result<Self, Failure> {
        let client = Client::connect(Pipe::new(pipe), client_config())
            .await
            .map_err(|error| request_failure("connect", error))?;
        let connection = Self::over(client, fresh_client_id());
        connection.send_initialize().await?;
        Ok(connection)
    }

    fn over(client: Client, client_id: String) -> Self {
        let events = client.events();
        Self {
            client,
            events,
            client_id,
        }
    }

    /// Returns the official client, and every event since before the handshake.
    pub fn into_parts(self) -> (Client, ClientEventStream) {
        (self.client, self.events)
    }

    async fn send_initialize(&self) -> Result<InitializeResult, Failure> {
        let params = InitializeParams {
            channel: ROOT_RESOURCE_URI.to_owned(),
            meta: None,
            protocol_versions: vec![PROTOCOL_VERSION.to_owned()],
            client_id: self.client_id.clone(),
            client_info: Some(Implementation {
                name: "innkeeper-cli".to_owned(),
                version: Some(env!("CARGO_PKG_VERSION").to_owned()),
                title: None,
            }),
            initial_subscriptions: Some(vec![ROOT_RESOURCE_URI.to_owned()]),
            locale: None,
            capabilities: None,
        };
        self.request("initialize", params).await
    }

    /// Sends a request. A failure names the method.
    pub(crate) async fn request<R: DeserializeOwned>(
        &self,
        method: &str,
        params: impl serde::Serialize,
    ) -> Result<R, Failure> {
        self.client
            .request(method, params)
            .await
            .map_err(|error| request_failure(method, error))
    }

    /// Subscribes to a channel and returns its state, if it has one.
    pub(crate) async fn subscribe(&self, uri: &str) -> Result<Option<Value>, Failure> {
        self.subscribe_with(SubscribeParams::new(uri)).await
    }

    /// Subscribes with all parameters.
    pub(crate) async fn subscribe_with(&self, params: SubscribeParams) -> Result<Option<Value>, Failure> {
        #[derive(Deserialize)]
        struct RawSubscribeResult {
            snapshot: Option<Value>,
        }
        let result: RawSubscribeResult = self.request("subscribe", params).await?;
        Ok(result.snapshot)
    }

    /// Subscribes to a channel whose state has a known type.
    pub(crate) async fn subscribe_to_state<S: DeserializeOwned>(&self, uri: &str) -> Result<(S, i64), Failure> {
        self.subscribe_to_state_with(SubscribeParams::new(uri)).await
    }

    /// The same with all parameters.
    pub(crate) async fn subscribe_to_state_with<S: DeserializeOwned>(
        &self,
        params: SubscribeParams,
    ) -> Result<(S, i64), Failure> {
        let uri = params.channel.clone();
        let unexpected = |problem: String| {
            Failure::new(
                Kind::Unexpected,
                format!("the host sent an invalid state of {uri} ({problem})"),
            )
        };
        let snapshot = self
            .subscribe_with(params)
            .await?
            .ok_or_else(|| unexpected("it has no state".to_owned()))?;
        let snapshot: RawSnapshot = serde_json::from_value(snapshot).map_err(|error| unexpected(error.to_string()))?;
        let state = serde_json::from_value(snapshot.state).map_err(|error| unexpected(error.to_string()))?;
        Ok((state, snapshot.from_seq))
    }

    /// Closes the connection, so that the host does not have to notice.
    pub async fn close(self) {
        self.client.shutdown().await;
        let Self { mut events, .. } = self;
        // The stream ends once the closing frame is out. A host that hangs must not make us hang.
        let drained = async { while events.recv().await.is_some() {} };
        let _ = tokio::time::timeout(Duration::from_secs(1), drained).await;
    }
}

/// Dispatches an action and returns its number.
pub(crate) async fn dispatch(connection: &Connection, channel: &str, action: StateAction) -> Result<i64, Failure> {
    let sent = connection.client.dispatch(channel.to_owned(), action).await;
    sent.map(|handle| handle.client_seq)
        .map_err(|error| request_failure("dispatchAction", error))
}

/// Returns the failure of a request.
pub fn request_failure(method: &str, error: ClientError) -> Failure {
    match error {
        // The official client reports a lost connection under this code, as if the host had responded.
        ClientError::Rpc(error)
            if error.code == -32000 && ["transport closed", "client shut down"].contains(&error.message.as_str()) =>
        {
            connection_lost()
        }
        ClientError::Rpc(error) => {
            let message = match (error.code, error.message.split_once("; send it with authenticate")) {
                // The rest of the message is for clients that can authenticate.
                (ahp_error_codes::AUTH_REQUIRED, Some((who, _))) => who,
                _ => &error.message,
            };
            let failure = Failure::new(
                Kind::Rejected,
                format!(
                    "the host rejected `{method}`: {} (error {})",
                    one_line(message, 500),
                    error.code
                ),
            );
            match error.code {
                ahp_error_codes::SESSION_NOT_FOUND | ahp_error_codes::NOT_FOUND => {
                    failure.hint("`innkeeper sessions` lists the sessions")
                }
                ahp_error_codes::PROVIDER_NOT_FOUND => failure.hint("`innkeeper watch ahp-root://` shows the agents"),
                ahp_error_codes::AUTH_REQUIRED => failure.hint(
                    "set the API key of the provider in the environment of the host, such as ANTHROPIC_API_KEY or \
                     OPENAI_API_KEY, and restart the host",
                ),
                ahp_error_codes::PERMISSION_DENIED => failure.hint("use a token with a wider scope"),
                ahp_error_codes::UNSUPPORTED_PROTOCOL_VERSION => {
                    failure.hint("update the host or this program so that both speak one version")
                }
                json_rpc_error_codes::METHOD_NOT_FOUND => failure.hint("the host does not implement this; update it"),
                _ => failure,
            }
        }
        ClientError::Cancelled => Failure::new(
            Kind::Unreachable,
            format!("the host did not answer `{method}` within 30 seconds"),
        ),
        ClientError::Transport(_) | ClientError::Shutdown => connection_lost(),
        error => Failure::new(
            Kind::Unexpected,
            format!("the host sent an invalid response to `{method}` ({error})"),
        ),
    }
}

/// Returns the failure of a command whose connection ended too early.
pub(crate) fn connection_lost() -> Failure {
    Failure::new(Kind::Unreachable, "the connection to the host ended")
        .hint("check whether the host still runs, then try again")
}
