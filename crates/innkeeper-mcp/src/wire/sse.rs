//! A server behind the older HTTP with server-sent events (2024-11-05).
//!
//! One long GET brings all messages; its first event names the address that takes ours.

mod events;

use std::future::Future;
use std::io;

use futures_util::TryStreamExt as _;
use reqwest::Response;
use rmcp::model::{ClientJsonRpcMessage, ErrorCode, ErrorData, ServerJsonRpcMessage};
use rmcp::service::RoleClient;
use rmcp::transport::Transport;
use tokio::sync::mpsc;
use tokio_util::io::StreamReader;
use tokio_util::sync::CancellationToken;
use url::Url;

use self::events::{Event, next_event};
use super::client::HttpClient;
use super::failure::HttpFailure;
use super::http::{content_type, with_body};
use super::{Messages, TOO_LARGE};

const QUEUE: usize = 64;

/// Both directions.
pub(crate) struct SseTransport {
    client: HttpClient,
    endpoint: Url,
    incoming: mpsc::Receiver<ServerJsonRpcMessage>,
    messages: Messages,
    closed: CancellationToken,
}

impl SseTransport {
    /// Opens the stream, and waits for the address that takes messages. `closed` is cancelled when
    /// the stream ends, and ends it.
    pub(crate) async fn open(
        client: HttpClient,
        server: &Url,
        messages: Messages,
        closed: CancellationToken,
    ) -> Result<Self, HttpFailure> {
        let request = client.http().get(server.clone()).header("accept", "text/event-stream");
        let response = client.send(request).await?;
        if !response.status().is_success() {
            return Err(HttpFailure::Status {
                status: response.status().as_u16(),
                said: None,
            });
        }
        let kind = content_type(&response);
        if !kind.starts_with("text/event-stream") {
            return Err(HttpFailure::NotMcp(kind));
        }
        let (endpoint_sender, mut endpoints) = mpsc::channel(1);
        let (sender, incoming) = mpsc::channel(QUEUE);
        tokio::spawn({
            let (messages, closed, most) = (messages.clone(), closed.clone(), client.most());
            async move {
                tokio::select! {
                    () = read(response, most, &endpoint_sender, &sender, &messages) => {}
                    () = closed.cancelled() => {}
                }
                closed.cancel();
            }
        });
        let told = endpoints.recv().await;
        let told = told.ok_or_else(|| HttpFailure::NotMcp("no endpoint was named".to_owned()))?;
        let endpoint = server.join(&told).ok();
        // Messages, with the token, stay with the server they are for (T16).
        let endpoint = endpoint
            .filter(|endpoint| endpoint.origin() == server.origin())
            .ok_or_else(|| HttpFailure::NotMcp("its endpoint is on another server".to_owned()))?;
        Ok(Self {
            client,
            endpoint,
            incoming,
            messages,
            closed,
        })
    }
}

impl Transport<RoleClient> for SseTransport {
    type Error = HttpFailure;

    fn send(&mut self, item: ClientJsonRpcMessage) -> impl Future<Output = Result<(), HttpFailure>> + Send + 'static {
        self.messages.own.note(&item);
        let client = self.client.clone();
        let request = client.http().post(self.endpoint.clone());
        let request = with_body(request, &item);
        async move {
            let response = client.send(request?).await?;
            if response.status().is_success() {
                return Ok(());
            }
            Err(HttpFailure::Status {
                status: response.status().as_u16(),
                said: None,
            })
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        self.incoming.recv().await
    }

    async fn close(&mut self) -> Result<(), HttpFailure> {
        self.closed.cancel();
        Ok(())
    }
}

async fn read(
    response: Response,
    most: usize,
    endpoints: &mpsc::Sender<String>,
    incoming: &mpsc::Sender<ServerJsonRpcMessage>,
    messages: &Messages,
) {
    let mut reader = StreamReader::new(response.bytes_stream().map_err(io::Error::other));
    while let Some(event) = next_event(&mut reader, most).await {
        let (found, bytes) = match event {
            Event::Endpoint(endpoint) => {
                let _ = endpoints.try_send(endpoint);
                continue;
            }
            Event::Message(data) => (messages.decode(&data).unwrap_or_default(), data.len()),
            Event::TooLarge(Some(id)) => {
                let error = ErrorData::new(ErrorCode(TOO_LARGE), "too large", None);
                (vec![ServerJsonRpcMessage::error(error, Some(id))], 0)
            }
            Event::TooLarge(None) => {
                tracing::warn!("a message of an MCP server is too large and was left out");
                continue;
            }
        };
        for message in found {
            if messages.admit(&message, bytes).await && incoming.send(message).await.is_err() {
                return;
            }
        }
    }
}
