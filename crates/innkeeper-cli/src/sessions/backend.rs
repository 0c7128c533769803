//! Where sessions are deleted, restored and imported: a running host, or the store while no host runs.

use std::io::Read;

use ahp_types::commands::DisposeSessionParams;
use ahp_types::common::ROOT_RESOURCE_URI;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::failure::{Failure, Kind};
use crate::terminal::one_line;

use super::Connection;
use super::contents::{ExportedContent, NO_ROOM};
use super::import::{already_exists, unreadable};
use super::list::all_sessions;

/// Hosts reject messages beyond 16 MiB, and some of a message is its envelope.
const MAX_REQUEST_BYTES: u64 = 15 << 20;

/// Changes sessions. [`Connection`] does it through a running host, the program through the store.
pub trait SessionBackend {
    /// Returns the URIs of all sessions, the latest first.
    fn sessions(&self) -> impl Future<Output = Result<Vec<String>, Failure>>;

    /// Returns the deleted sessions that can be restored.
    fn deleted_sessions(&self) -> impl Future<Output = Result<Vec<DeletedSession>, Failure>>;

    /// Returns whether a deleted session can be restored. A running host decides that itself.
    fn keeps_deleted(&self) -> bool {
        true
    }

    /// Deletes a session.
    fn delete(&mut self, uri: &str, deletion: Deletion) -> impl Future<Output = Result<(), Failure>>;

    /// Restores a deleted session.
    fn restore(&mut self, uri: &str) -> impl Future<Output = Result<RestoredSession, Failure>>;

    /// Imports one session of an export.
    fn import_session(&mut self, lines: &mut dyn Read) -> impl Future<Output = Result<ImportedSession, Failure>>;

    /// Imports one content of an imported session. The error says why the content was left out.
    fn import_content(&mut self, session: &str, content: ExportedContent) -> impl Future<Output = Result<(), String>>;
}

/// How a session is deleted.
#[derive(Clone, Copy, Debug)]
pub enum Deletion {
    /// It can be restored for a while.
    Restorable,
    /// It is removed at once.
    ForGood,
    /// It is removed at once, unless it is in use or has changed since it was chosen.
    IfUnchanged(IfUnchanged),
}

/// The condition under which a session is removed.
#[derive(Clone, Copy, Debug)]
pub struct IfUnchanged {
    /// When it last changed, in milliseconds since 1970, if that matters.
    pub modified_ms: Option<i64>,
    /// Whether it is archived.
    pub is_archived: bool,
}

/// A session that can be restored, as a host describes it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeletedSession {
    /// Its URI.
    pub session: String,
    /// When it was deleted.
    pub deleted_at: String,
    /// Until when it can be restored.
    pub removed_after: String,
    /// The summary that lists showed.
    pub summary: Value,
}

/// The size of a session that was restored.
#[derive(Debug, Deserialize)]
pub struct RestoredSession {
    /// The number of chats.
    pub chats: usize,
    /// The number of turns in all chats.
    pub turns: usize,
}

/// A session that was imported.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImportedSession {
    /// Its URI.
    pub session: String,
    /// The number of chats.
    pub chats: usize,
    /// The number of turns in all chats.
    pub turns: usize,
    /// The approvals that it had where it was exported. An import resets them.
    #[serde(default)]
    pub approvals_reset: Vec<String>,
}

impl SessionBackend for Connection {
    async fn sessions(&self) -> Result<Vec<String>, Failure> {
        let all = all_sessions(self).await?;
        Ok(all.into_iter().map(|session| session.resource).collect())
    }

    async fn deleted_sessions(&self) -> Result<Vec<DeletedSession>, Failure> {
        #[derive(Deserialize)]
        struct Response {
            items: Vec<DeletedSession>,
        }
        let params = json!({ "channel": ROOT_RESOURCE_URI });
        let response: Response = self.request("innkeeper/listDeletedSessions", params).await?;
        Ok(response.items)
    }

    async fn delete(&mut self, uri: &str, deletion: Deletion) -> Result<(), Failure> {
        dispose(self, uri, deletion).await
    }

    async fn restore(&mut self, uri: &str) -> Result<RestoredSession, Failure> {
        let params = json!({ "channel": ROOT_RESOURCE_URI, "session": uri });
        self.request("innkeeper/restoreSession", params).await
    }

    async fn import_session(&mut self, lines: &mut dyn Read) -> Result<ImportedSession, Failure> {
        let mut text = String::new();
        lines
            .take(MAX_REQUEST_BYTES + 1)
            .read_to_string(&mut text)
            .map_err(|error| unreadable(&error))?;
        let lines: Vec<&str> = text.lines().collect();
        let params = json!({ "channel": ROOT_RESOURCE_URI, "lines": lines });
        if text.len() as u64 > MAX_REQUEST_BYTES || params.to_string().len() as u64 > MAX_REQUEST_BYTES {
            return Err(Failure::new(
                Kind::Rejected,
                format!(
                    "a session is larger than {} MiB, too large for a running host",
                    MAX_REQUEST_BYTES >> 20
                ),
            )
            .hint("stop the host, import, and start it again"));
        }
        let imported = self.request("innkeeper/importSession", params).await;
        imported.map_err(already_exists)
    }

    async fn import_content(&mut self, session: &str, content: ExportedContent) -> Result<(), String> {
        #[derive(Deserialize)]
        struct Response {
            kept: bool,
        }
        if content.data.len() as u64 > MAX_REQUEST_BYTES {
            let why = "they are too large for a running host; to import them, delete the session, stop the host, import \
                       again, and start it";
            return Err(why.to_owned());
        }
        let params = json!({
            "channel": ROOT_RESOURCE_URI,
            "session": session,
            "name": content.name,
            "contentType": content.content_type,
            "keptMs": content.kept_ms,
            "data": content.data,
        });
        let response: Result<Response, Failure> = self.request("innkeeper/importContent", params).await;
        match response {
            Ok(Response { kept: true }) => Ok(()),
            Ok(Response { kept: false }) => Err(NO_ROOM.to_owned()),
            Err(failure) => Err(one_line(failure.message(), 300)),
        }
    }
}

/// Requests that a host disposes of a session.
pub(crate) async fn dispose(connection: &Connection, uri: &str, deletion: Deletion) -> Result<(), Failure> {
    let meta = match deletion {
        Deletion::Restorable => None,
        Deletion::ForGood => Some(("innkeeper.forGood", json!(true))),
        Deletion::IfUnchanged(IfUnchanged {
            modified_ms,
            is_archived,
        }) => Some((
            "innkeeper.onlyIf",
            json!({ "modifiedMs": modified_ms, "isArchived": is_archived }),
        )),
    };
    let params = DisposeSessionParams {
        channel: uri.to_owned(),
        meta: meta.map(|(key, value)| [(key.to_owned(), value)].into_iter().collect()),
    };
    let _: Value = connection.request("disposeSession", params).await?;
    Ok(())
}
