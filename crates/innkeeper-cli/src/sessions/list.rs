//! `innkeeper sessions list`.

use ahp_types::commands::{ListSessionsParams, ListSessionsResult};
use ahp_types::common::ROOT_RESOURCE_URI;
use ahp_types::state::{SessionStatus, SessionSummary};

use crate::args::ListArgs;
use crate::connection::Connection;
use crate::failure::{Failure, Kind};
use crate::format::status_in_words;
use crate::terminal::{Output, note, one_line, program};

/// Largest page to request if only some sessions are wanted.
const PAGE: usize = 1000;

/// Lists sessions, the latest first.
pub async fn run(args: &ListArgs, connection: &Connection) -> Result<(), Failure> {
    let wanted = |session: &SessionSummary| {
        !args.archived || SessionStatus::from_bits(session.status).contains(SessionStatus::IsArchived)
    };
    let sessions = some_sessions(connection, args.limit, wanted).await?;
    show(args, &sessions)
}

/// Requests all sessions, page by page.
pub(crate) async fn all_sessions(connection: &Connection) -> Result<Vec<SessionSummary>, Failure> {
    some_sessions(connection, None, |_| true).await
}

/// Requests sessions until enough of them are wanted ones.
async fn some_sessions(
    connection: &Connection,
    enough: Option<usize>,
    is_wanted: impl Fn(&SessionSummary) -> bool,
) -> Result<Vec<SessionSummary>, Failure> {
    let mut sessions: Vec<SessionSummary> = Vec::new();
    let mut cursor = None;
    loop {
        let page = enough.map(|enough| enough.clamp(1, PAGE));
        let params = ListSessionsParams {
            channel: ROOT_RESOURCE_URI.to_owned(),
            meta: None,
            limit: page.and_then(|page| page.try_into().ok()),
            cursor,
        };
        let page: ListSessionsResult = connection.request("listSessions", params).await?;
        let empty = page.items.is_empty();
        sessions.extend(page.items.into_iter().filter(&is_wanted));
        cursor = page.next_cursor;
        let is_enough = enough.is_some_and(|enough| sessions.len() >= enough);
        // An empty page with a cursor would make this loop endless.
        if cursor.is_none() || empty || is_enough {
            sessions.truncate(enough.unwrap_or(usize::MAX));
            return Ok(sessions);
        }
    }
}

fn show(args: &ListArgs, sessions: &[SessionSummary]) -> Result<(), Failure> {
    let mut output = Output::stdout();
    if args.json {
        for session in sessions {
            let line = serde_json::to_string(session).map_err(|error| {
                Failure::new(
                    Kind::Unexpected,
                    format!("a session cannot be written as JSON ({error})"),
                )
            })?;
            output.show(&format!("{line}\n"))?;
        }
        return Ok(());
    }
    if sessions.is_empty() {
        note(&format!(
            "There are no sessions yet. Start one with: {} send \"hello\"",
            program()
        ));
        return Ok(());
    }
    output.show(&table(sessions))
}

fn table(sessions: &[SessionSummary]) -> String {
    let mut rows = vec![["TITLE", "STATUS", "PROVIDER", "MODIFIED", "URI"].map(str::to_owned)];
    rows.extend(sessions.iter().map(|session| {
        [
            one_line(&session.title, 40),
            status_in_words(session.status),
            one_line(&session.provider, 20),
            moment(&session.modified_at),
            // The last column is for copying, so it is never truncated.
            one_line(&session.resource, usize::MAX),
        ]
    }));
    let mut widths = [0; 5];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let mut table = String::new();
    for row in &rows {
        let padded = row
            .iter()
            .zip(widths)
            .map(|(cell, width)| format!("{cell:<width$}"))
            .collect::<Vec<_>>()
            .join("  ");
        table.push_str(padded.trim_end());
        table.push('\n');
    }
    table
}

/// Formats a timestamp for a table; other text is only truncated.
pub(crate) fn moment(timestamp: &str) -> String {
    match timestamp.parse::<jiff::Timestamp>() {
        Ok(moment) => moment.strftime("%Y-%m-%d %H:%M:%SZ").to_string(),
        Err(_) => one_line(timestamp, 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_lines_up_and_cannot_be_broken_by_titles() {
        let session: SessionSummary = serde_json::from_value(serde_json::json!({
            "provider": "tour", "title": "two\nlines\u{1b}[2J", "status": 33, "resource": "ahp-session:/1",
            "createdAt": "2026-01-01T00:00:00Z", "modifiedAt": "2026-01-02T03:04:05.678Z",
        }))
        .unwrap();
        assert_eq!(
            table(&[session]),
            "TITLE               STATUS  PROVIDER  MODIFIED              URI\n\
             two lines\\u{1b}[2J  idle    tour      2026-01-02 03:04:05Z  ahp-session:/1\n"
        );
    }
}
