//! `listSessions` on a host with a store (ROOT-10): the store has all summaries, the core has the latest changes.
//! Nothing is read but summaries.

use std::collections::HashSet;

use ahp_types::state::SessionSummary;
use bytes::Bytes;
use serde_json::value::RawValue;

use crate::core::{Cx, Host};
use crate::effect::JournalCommand;
use crate::ids::ConnId;
use crate::protocol::dialect::{self, Version};
use crate::protocol::error::{RpcError, code};
use crate::protocol::frame::{Outgoing, encode_result};
use crate::protocol::request::{ListSessions, RequestId};
use crate::storage::records::{ListPage, StoredSummary};

/// Maximum sessions on one page that was asked for with a limit.
const MAX_PAGE: usize = 1000;

/// Maximum sessions in an answer without a limit. Clients of today ask for everything and ignore the
/// cursor (ROOT-11); the published one reads no message beyond 64 MiB.
const MAX_LIST: usize = 5000;

/// The changes while the store reads a list.
#[derive(Debug, Default)]
pub(crate) struct PendingLists {
    asked: usize,
    removed: HashSet<String>,
}

impl PendingLists {
    /// A session was removed; an answer of the store may still have it.
    pub(crate) fn removed(&mut self, uri: &str) {
        if self.asked > 0 {
            self.removed.insert(uri.to_owned());
        }
    }
}

/// One line of the answer.
struct Line {
    modified_ms: i64,
    uri: String,
    summary: Box<RawValue>,
}

impl Host {
    /// Asks the store for a page, and one session more to know whether there are more.
    pub(crate) fn ask_for_list(&mut self, cx: &mut Cx<'_>, conn: ConnId, id: &RequestId, list: &ListSessions) {
        let limit = match list.limit {
            Some(limit) => (limit as usize).min(MAX_PAGE),
            None => MAX_LIST,
        };
        let after = match list.cursor.as_deref().map(parse_cursor) {
            Some(None) => {
                let problem = "is not a cursor of this host; start again without one";
                return cx.answer(conn, id, Err(RpcError::invalid_params("cursor", problem)));
            }
            Some(after) => after,
            None => None,
        };
        self.announce_due_summaries(cx);
        self.storage.lists.asked += 1;
        cx.emit(JournalCommand::List {
            conn,
            id: id.clone(),
            page: ListPage {
                after,
                limit: limit + 1,
            },
        });
    }

    /// Answers with what the store found, as it is now.
    pub(crate) fn listed(
        &mut self,
        cx: &mut Cx<'_>,
        conn: ConnId,
        id: &RequestId,
        page: &ListPage,
        outcome: Result<Vec<StoredSummary>, String>,
    ) {
        self.storage.lists.asked = self.storage.lists.asked.saturating_sub(1);
        let removed = match self.storage.lists.asked {
            0 => std::mem::take(&mut self.storage.lists.removed),
            _ => self.storage.lists.removed.clone(),
        };
        let mut rows = match outcome {
            Ok(rows) => rows,
            Err(problem) => {
                let message = format!("the sessions cannot be listed: {problem}");
                return cx.answer(conn, id, Err(RpcError::new(code::INTERNAL_ERROR, message)));
            }
        };
        // The summaries that were announced equal those of the list, and nothing is announced twice.
        self.announce_due_summaries(cx);
        let limit = page.limit.saturating_sub(1);
        let has_more = rows.len() > limit;
        rows.truncate(limit);
        let version = self.conns.dialect(conn).version;
        let last = rows
            .last()
            .filter(|_| has_more)
            .map(|last| (last.modified_ms, last.uri.clone()));
        let mut lines = self.overlay(rows, page.after.as_ref(), &removed, version);
        if page.after.is_none() {
            self.add_latest(&mut lines, last.as_ref(), version);
        }
        lines.sort_by(|a, b| (b.modified_ms, &b.uri).cmp(&(a.modified_ms, &a.uri)));
        // Added sessions may have moved others to the next page.
        let is_cut = lines.len() > limit;
        lines.truncate(limit);
        let end = match lines.last() {
            Some(line) if is_cut => Some((line.modified_ms, line.uri.clone())),
            _ => last,
        };
        let cursor = end.map(|(modified_ms, uri)| format!("{modified_ms}.{uri}"));
        let answer = ListAnswer {
            items: lines.iter().map(|line| &*line.summary).collect(),
            next_cursor: cursor,
        };
        cx.send(conn, Outgoing::Text(encode_result(id, &answer)));
    }

    /// The lines of a page, those of sessions in memory as they are now.
    fn overlay(
        &self,
        rows: Vec<StoredSummary>,
        after: Option<&(i64, String)>,
        removed: &HashSet<String>,
        version: Version,
    ) -> Vec<Line> {
        // A session that moved to the front since was on an earlier page, or was announced.
        let is_shown = |modified_ms: i64, uri: &str| {
            after.is_some_and(|(after_ms, after_uri)| (modified_ms, uri) >= (*after_ms, after_uri.as_str()))
        };
        let mut lines = Vec::with_capacity(rows.len());
        for row in rows {
            let live = self.channels.find(&row.uri).and_then(|id| self.sessions.get(&id));
            let line = match live {
                Some(session) if session.is_draft() || is_shown(session.order_ms(), &session.uri) => None,
                Some(session) => line(session.order_ms(), session.summary(), version),
                None if removed.contains(&row.uri) => None,
                None => stored_line(row, version),
            };
            lines.extend(line);
        }
        lines
    }

    /// Adds sessions that were created, or moved to the front, since the store was asked: those before the last one
    /// of the page.
    fn add_latest(&self, lines: &mut Vec<Line>, last: Option<&(i64, String)>, version: Version) {
        let known: HashSet<&str> = lines.iter().map(|line| line.uri.as_str()).collect();
        let is_before = |modified_ms: i64, uri: &str| {
            let last = last.map(|(modified_ms, uri)| (*modified_ms, uri.as_str()));
            last.is_none_or(|last| (modified_ms, uri) > last)
        };
        let new: Vec<Line> = self
            .sessions
            .values()
            .filter(|session| {
                !session.is_draft() && is_before(session.order_ms(), &session.uri) && !known.contains(&*session.uri)
            })
            .filter_map(|session| line(session.order_ms(), session.summary(), version))
            .collect();
        lines.extend(new);
    }
}

#[derive(serde::Serialize)]
#[serde(rename_all = "camelCase")]
struct ListAnswer<'a> {
    items: Vec<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

fn line(modified_ms: i64, summary: SessionSummary, version: Version) -> Option<Line> {
    let summary = dialect::summary(version, summary);
    Some(Line {
        modified_ms,
        uri: summary.resource.clone(),
        summary: serde_json::value::to_raw_value(&summary).ok()?,
    })
}

/// A stored summary is sent as it was persisted; it is only parsed for an older version of the protocol.
fn stored_line(row: StoredSummary, version: Version) -> Option<Line> {
    if !version.summaries_have_chats() {
        return line(row.modified_ms, serde_json::from_slice(&row.summary).ok()?, version);
    }
    Some(Line {
        modified_ms: row.modified_ms,
        uri: row.uri,
        summary: raw(&row.summary)?,
    })
}

fn raw(json: &Bytes) -> Option<Box<RawValue>> {
    serde_json::from_slice(json).ok()
}

fn parse_cursor(cursor: &str) -> Option<(i64, String)> {
    let (modified, uri) = cursor.split_once('.')?;
    Some((modified.parse().ok()?, uri.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removals_are_noted_only_while_a_list_is_read() {
        let mut lists = PendingLists::default();
        lists.removed("ahp-session:/a");
        assert!(lists.removed.is_empty());
        lists.asked = 1;
        lists.removed("ahp-session:/b");
        assert!(lists.removed.contains("ahp-session:/b"));
    }
}
