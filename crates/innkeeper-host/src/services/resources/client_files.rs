//! Resources that only a client can read: URIs of its own, such as `virtual://editor/untitled-1` (RES-19).
//!
//! The host asks only the client that named them: it reads the attachments of a message, for the agent that answers it.
//! Time and size are bounded, and an unreadable attachment becomes an error text, so that a turn never fails or waits
//! without end because of an attachment.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use innkeeper_core::ClientId;
use innkeeper_core::agent::{Attachment, TextSpan};
use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, oneshot};

use super::{Content, data_uri};
use crate::main_loop::Message;
use crate::main_loop::message::ConnectionMessage;
use crate::net::reverse_requests::{ClientRequestError, ReverseMethod};

/// The scheme of what clients publish.
const VIRTUAL: &str = "virtual:";

/// How what others have is read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadLimits {
    /// For all attachments of one message together.
    pub(crate) time: Duration,
    /// Maximum bytes of one of them.
    pub(crate) bytes: usize,
}

/// Reads clients' own resources for discovery. Nothing here has a time limit of its own, and names are as the client
/// sent them: the caller sets the limits, and trusts nothing.
#[derive(Debug, Clone)]
pub struct ClientFiles {
    /// Weak, because the host owns the discovery.
    inbox: mpsc::WeakSender<Message>,
}

/// Something in a directory of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientEntry {
    /// Its name, as the client sent it.
    pub name: String,
    /// Whether it is a directory; what is neither that nor a file is left out.
    pub is_directory: bool,
}

impl ClientFiles {
    pub(crate) fn new(inbox: mpsc::WeakSender<Message>) -> Self {
        Self { inbox }
    }

    /// Reads a file, and refuses one of more than `most` bytes.
    pub async fn read(&self, client: &ClientId, uri: &str, most: usize) -> Result<Content, ClientRequestError> {
        read(&self.inbox()?, client, uri, most).await
    }

    /// Lists a directory, and refuses one of more than `most` entries.
    pub async fn list(
        &self,
        client: &ClientId,
        uri: &str,
        most: usize,
    ) -> Result<Vec<ClientEntry>, ClientRequestError> {
        let answer = ask(&self.inbox()?, client, ReverseMethod::ResourceList, uri).await?;
        entries(&answer, most)
    }

    fn inbox(&self) -> Result<mpsc::Sender<Message>, ClientRequestError> {
        self.inbox.upgrade().ok_or(ClientRequestError::Disconnected)
    }
}

/// Asks a client for the content of one of its URIs.
pub(crate) async fn read(
    inbox: &mpsc::Sender<Message>,
    client: &ClientId,
    uri: &str,
    most: usize,
) -> Result<Content, ClientRequestError> {
    let answer = ask(inbox, client, ReverseMethod::ResourceRead, uri).await?;
    content(&answer, most)
}

async fn ask(
    inbox: &mpsc::Sender<Message>,
    client: &ClientId,
    method: ReverseMethod,
    uri: &str,
) -> Result<Value, ClientRequestError> {
    let (reply, answer) = oneshot::channel();
    let params = Map::from_iter([("uri".to_owned(), json!(uri))]);
    let ask = ConnectionMessage::RequestClient {
        client: client.clone(),
        method,
        params,
        reply,
    };
    if inbox.send(ask.into()).await.is_err() {
        return Err(ClientRequestError::Disconnected);
    }
    answer.await.map_err(|_| ClientRequestError::Disconnected)?
}

/// Reads a listing of a client, which may be anything.
fn entries(answer: &Value, most: usize) -> Result<Vec<ClientEntry>, ClientRequestError> {
    let unusable = |why: String| ClientRequestError::Unusable(why);
    let listed = answer.get("entries").and_then(Value::as_array);
    let listed = listed.ok_or_else(|| unusable("it has no entries".to_owned()))?;
    if listed.len() > most {
        return Err(unusable(format!("it has more than {most} entries")));
    }
    let mut entries = Vec::with_capacity(listed.len());
    for entry in listed {
        let name = entry.get("name").and_then(Value::as_str);
        let name = name.ok_or_else(|| unusable("an entry has no name".to_owned()))?;
        let is_directory = match entry.get("type").and_then(Value::as_str) {
            Some("file") => false,
            Some("directory") => true,
            _ => continue,
        };
        entries.push(ClientEntry {
            name: name.to_owned(),
            is_directory,
        });
    }
    Ok(entries)
}

/// Reads the answer of a client, which may be anything.
pub(crate) fn content(answer: &Value, most: usize) -> Result<Content, ClientRequestError> {
    let data = answer.get("data").and_then(Value::as_str);
    let data = data.ok_or_else(|| ClientRequestError::Unusable("it has no data".to_owned()))?;
    let bytes = match answer.get("encoding").and_then(Value::as_str) {
        Some("utf-8") => data.as_bytes().to_vec(),
        Some("base64") => STANDARD
            .decode(data)
            .map_err(|_| ClientRequestError::Unusable("its data is not base64".to_owned()))?,
        _ => return Err(ClientRequestError::Unusable("its encoding is unknown".to_owned())),
    };
    if bytes.len() > most {
        return Err(ClientRequestError::Unusable(format!("it is longer than {most} bytes")));
    }
    let content_type = answer.get("contentType").and_then(Value::as_str);
    Ok(Content {
        bytes,
        content_type: content_type.map(str::to_owned),
    })
}

/// Replaces attachments that the agent cannot read by itself with their content, or with words that
/// say why there is none.
pub(crate) async fn fill(
    inbox: &mpsc::Sender<Message>,
    limits: ReadLimits,
    author: Option<&ClientId>,
    attachments: &mut [Attachment],
) {
    let deadline = tokio::time::Instant::now() + limits.time;
    for attachment in attachments {
        let Attachment::Resource {
            label,
            uri,
            content_type,
            selection,
        } = attachment
        else {
            continue;
        };
        let read = if data_uri::is_data(uri) {
            data_uri::read(uri).map_err(|error| error.to_string())
        } else if is_virtual(uri) {
            match author {
                Some(author) => match tokio::time::timeout_at(deadline, read(inbox, author, uri, limits.bytes)).await {
                    Ok(read) => read.map_err(|error| error.to_string()),
                    Err(_) => Err(ClientRequestError::TimedOut.to_string()),
                },
                None => Err("no client is known that could read it".to_owned()),
            }
        } else {
            continue;
        };
        let label = labelled(std::mem::take(label), *selection);
        *attachment = match read {
            Ok(content) => told(label, content, content_type.take()),
            Err(problem) => {
                tracing::info!(problem, "an attachment could not be read");
                let text = format!("(This attachment could not be read: {problem}.)");
                Attachment::Text { label, text }
            }
        };
    }
}

fn is_virtual(uri: &str) -> bool {
    uri.get(..VIRTUAL.len())
        .is_some_and(|scheme| scheme.eq_ignore_ascii_case(VIRTUAL))
}

/// Returns the label of an attachment, with its selected range.
pub(super) fn labelled(label: String, selection: Option<TextSpan>) -> String {
    match selection {
        Some(selection) => format!("{label}, {}", selection.in_words()),
        None => label,
    }
}

pub(super) fn told(label: String, content: Content, named_type: Option<String>) -> Attachment {
    let content_type = content.content_type.or(named_type);
    match String::from_utf8(content.bytes) {
        Ok(text) => Attachment::Text { label, text },
        Err(error) => Attachment::Embedded {
            label,
            data: STANDARD.encode(error.as_bytes()),
            content_type: content_type.unwrap_or_else(|| "application/octet-stream".to_owned()),
            selection: None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listings_of_clients_are_read_and_odd_ones_refused() {
        let listed = json!({ "entries": [
            { "name": "a.md", "type": "file" },
            { "name": "skills", "type": "directory" },
            { "name": "odd", "type": "symlink" },
        ] });
        let entries = entries(&listed, 3).expect("a listing");
        let names: Vec<_> = entries
            .iter()
            .map(|entry| (entry.name.as_str(), entry.is_directory))
            .collect();
        assert_eq!(
            names,
            [("a.md", false), ("skills", true)],
            "what is neither is left out"
        );
        for odd in [json!({}), json!([]), json!({ "entries": [{ "type": "file" }] })] {
            assert!(
                matches!(super::entries(&odd, 3), Err(ClientRequestError::Unusable(_))),
                "{odd}"
            );
        }
        assert!(
            matches!(super::entries(&listed, 2), Err(ClientRequestError::Unusable(why)) if why.contains("more than 2"))
        );
    }
}
