//! `innkeeper sessions prune`: applies the retention settings now.

use innkeeper_cli::args::{ConnectArgs, PruneArgs};
use innkeeper_cli::connection::Connection;
use innkeeper_cli::failure::{Failure, Kind};
use innkeeper_cli::sessions::{Deletion, IfUnchanged, SessionBackend};
use innkeeper_cli::terminal::{Output, confirm, note, one_line};
use innkeeper_host::HostHandle;
use innkeeper_store::PrunedSession;
use serde_json::json;

use super::offline::{Offline, OfflineSessions, store_failure};
use super::read_only_host;

/// Deletes the sessions that exceed the retention limits, after asking.
pub(super) async fn run(args: PruneArgs) -> Result<(), Failure> {
    let data = Offline::find(&args.common)?;
    let retention = data.config.retention;
    if !retention.has_limits() {
        note(
            "Nothing to delete: the configuration sets neither max_age_days nor max_total_bytes in its section [retention].",
        );
        return Ok(());
    }
    let policy = retention.policy(jiff::Timestamp::now());
    // Open the store for changes only if there is something to change.
    let chosen = data.read()?.prune(&policy, true).map_err(store_failure)?;
    if chosen.is_empty() {
        note("Nothing to delete: no session exceeds the limits of the configuration.");
        return Ok(());
    }
    if args.dry_run {
        return chosen
            .iter()
            .try_for_each(|session| show(&args, "would delete", session));
    }
    let bytes: u64 = chosen.iter().map(|session| session.bytes).sum();
    let question = format!("Delete {} sessions of {bytes} bytes for good?", chosen.len());
    confirm(&question, args.yes)?;
    if !data.has_host() {
        let mut sessions = OfflineSessions::change(data)?;
        for session in &chosen {
            let removed = sessions.delete(&session.uri, if_unchanged(session)).await;
            show_result(&args, session, removed)?;
        }
        return Ok(());
    }
    let connect = ConnectArgs {
        common: args.common.clone(),
        ..ConnectArgs::default()
    };
    let mut connection = Connection::open(&data.dir, &connect).await?;
    for session in &chosen {
        let removed = connection.delete(&session.uri, on_host(session)).await;
        show_result(&args, session, removed)?;
    }
    connection.close().await;
    Ok(())
}

/// Requests that the host of this process deletes sessions that the retention settings chose. The host keeps sessions
/// that are in use or that changed meanwhile. Returns the deleted ones.
pub(crate) async fn dispose_of_chosen(
    host: &HostHandle,
    chosen: Vec<PrunedSession>,
) -> Result<Vec<PrunedSession>, Failure> {
    let mut connection = read_only_host::connect(host).await?;
    let mut deleted = Vec::new();
    for session in chosen {
        match connection.delete(&session.uri, on_host(&session)).await {
            Ok(()) => deleted.push(session),
            Err(failure) => tracing::debug!(session = session.uri, %failure, "a session stays"),
        }
    }
    connection.close().await;
    Ok(deleted)
}

/// A host compares only sessions that are not deleted yet.
fn on_host(session: &PrunedSession) -> Deletion {
    match session.is_deleted {
        true => Deletion::ForGood,
        false => if_unchanged(session),
    }
}

fn if_unchanged(session: &PrunedSession) -> Deletion {
    Deletion::IfUnchanged(IfUnchanged {
        modified_ms: session.only_if.modified_ms,
        is_archived: session.only_if.is_archived,
    })
}

/// Shows whether a session was deleted. A session that changed meanwhile stays, and that is no failure.
fn show_result(args: &PruneArgs, session: &PrunedSession, removed: Result<(), Failure>) -> Result<(), Failure> {
    match removed {
        Ok(()) => show(args, "deleted", session),
        Err(failure) if failure.kind() == Kind::Rejected => {
            note(&format!("{} stays: {failure}", one_line(&session.uri, 200)));
            Ok(())
        }
        Err(failure) => Err(failure),
    }
}

fn show(args: &PruneArgs, what: &str, session: &PrunedSession) -> Result<(), Failure> {
    let modified =
        jiff::Timestamp::from_millisecond(session.modified_ms).map_or_else(|_| String::new(), |at| at.to_string());
    let PrunedSession { uri, bytes, reason, .. } = session;
    let line = if args.json {
        json!({ "session": uri, "modified": modified, "bytes": bytes, "reason": reason }).to_string()
    } else {
        format!("{what} {uri} ({bytes} bytes, last changed {modified}): {reason}")
    };
    Output::stdout().show(&format!("{line}\n"))
}
