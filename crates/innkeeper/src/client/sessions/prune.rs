//! `innkeeper sessions prune`: applies the retention settings now.

use innkeeper_store::Pruned;
use serde_json::json;

use crate::cli::{ConnectArgs, PruneArgs};
use crate::client::connect::Connection;
use crate::confirm::confirm;
use crate::failure::{Failure, Kind};
use crate::text::{Output, note, one_line};

use super::delete;
use super::kept::{self, Place};

/// Deletes the sessions that the settings let go, after saying which.
pub(super) async fn run(args: PruneArgs) -> Result<(), Failure> {
    let place = Place::find(&args.common)?;
    let retention = place.config.retention;
    if !retention.has_limits() {
        note(
            "Nothing goes: the configuration sets neither max_age_days nor max_total_bytes in its section [retention].",
        );
        return Ok(());
    }
    let policy = retention.policy(jiff::Timestamp::now());
    // Nothing is opened for changes before it is known that there is something to change.
    let chosen = place.look()?.prune(&policy, true).map_err(kept::failure)?;
    if chosen.is_empty() {
        note("Nothing goes: no session exceeds the limits of the configuration.");
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
    if !place.has_host() {
        let (_lock, mut archive) = place.change()?;
        for session in &chosen {
            let removed = archive.remove_if(&session.uri, session.only_if);
            if removed.is_ok() {
                place.remove_contents(&session.uri);
            }
            tell(&args, session, removed.map(|_| ()).map_err(kept::failure))?;
        }
        return Ok(());
    }
    let connect = ConnectArgs {
        common: args.common.clone(),
        ..ConnectArgs::default()
    };
    let connection = Connection::open(&connect).await?;
    for session in &chosen {
        let removed = delete::dispose(&connection, &session.uri, delete::Condition::of(session)).await;
        tell(&args, session, removed)?;
    }
    connection.close().await;
    Ok(())
}

/// Says what became of a session. One that stays is no failure: it is not the one that was chosen any more.
fn tell(args: &PruneArgs, session: &Pruned, removed: Result<(), Failure>) -> Result<(), Failure> {
    match removed {
        Ok(()) => show(args, "deleted", session),
        Err(failure) if failure.kind() == Kind::Rejected => {
            note(&format!("{} stays: {failure}", one_line(&session.uri, 200)));
            Ok(())
        }
        Err(failure) => Err(failure),
    }
}

fn show(args: &PruneArgs, what: &str, session: &Pruned) -> Result<(), Failure> {
    let modified =
        jiff::Timestamp::from_millisecond(session.modified_ms).map_or_else(|_| String::new(), |at| at.to_string());
    let Pruned { uri, bytes, reason, .. } = session;
    let line = if args.json {
        json!({ "session": uri, "modified": modified, "bytes": bytes, "reason": reason }).to_string()
    } else {
        format!("{what} {uri} ({bytes} bytes, last changed {modified}): {reason}")
    };
    Output::stdout().show(&format!("{line}\n"))
}
