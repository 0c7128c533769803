//! A server behind the older HTTP transport with server-sent events (2024-11-05).
//!
//! One long GET carries all messages of the server. Its first event names the address that takes ours.

use std::future::Future;

use reqwest::Response;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use url::Url;

use super::client::HttpClient;
use super::events::EventReader;
use super::failure::HttpFailure;
use super::http::{content_type, with_body};
use super::inbox::{Inbox, NotDelivered};
use super::message::Outgoing;
use super::peer::RequestFailure;
use innkeeper_std::event_stream::Parsed;

/// The address that takes our messages.
#[derive(Debug)]
pub(crate) struct SseTransport {
    client: HttpClient,
    endpoint: Url,
}

impl SseTransport {
    /// Opens the stream, and waits for the address that takes messages. `closed` ends the stream, and is cancelled when
    /// the stream ends.
    pub(crate) async fn open(
        client: HttpClient,
        server: &Url,
        inbox: Inbox,
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
        let most = client.most();
        tokio::spawn(async move {
            tokio::select! {
                () = read(response, most, &endpoint_sender, &inbox) => {}
                () = closed.cancelled() => {}
            }
            closed.cancel();
        });
        let named = endpoints.recv().await;
        let named = named.ok_or_else(|| HttpFailure::NotMcp("no endpoint was named".to_owned()))?;
        let endpoint = server.join(&named).ok();
        // Messages, with the token, stay with the server they are for (T16).
        let endpoint = endpoint
            .filter(|endpoint| endpoint.origin() == server.origin())
            .ok_or_else(|| HttpFailure::NotMcp("its endpoint is on another server".to_owned()))?;
        Ok(Self { client, endpoint })
    }

    pub(crate) fn send(&self, message: Outgoing) -> impl Future<Output = Result<(), RequestFailure>> + Send + use<> {
        let client = self.client.clone();
        let request = with_body(client.http().post(self.endpoint.clone()), &message);
        async move {
            let response = client.send(request).await.map_err(RequestFailure::Http)?;
            if response.status().is_success() {
                return Ok(());
            }
            Err(RequestFailure::Http(HttpFailure::Status {
                status: response.status().as_u16(),
                said: None,
            }))
        }
    }
}

async fn read(response: Response, most: usize, endpoints: &mpsc::Sender<String>, inbox: &Inbox) {
    let mut events = EventReader::new(response, most);
    while let Some(parsed) = events.next().await {
        let delivered = match parsed {
            Parsed::Event(event) if event.name.as_deref() == Some("endpoint") => {
                let _ = endpoints.try_send(event.data);
                Ok(())
            }
            Parsed::Event(event) => match inbox.deliver(&event.data, None).await {
                Err(NotDelivered::NoMessage(_)) => Ok(()),
                delivered => delivered.map(drop),
            },
            // All requests share the stream: an event that is too large costs its own request and nothing else (T26).
            Parsed::TooLarge(peek) => inbox.too_large(peek.answered()).await,
        };
        if delivered.is_err() {
            return;
        }
    }
}
