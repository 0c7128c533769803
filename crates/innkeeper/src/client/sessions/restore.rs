//! `innkeeper sessions restore`: undoes deletions.

use ahp_types::common::ROOT_RESOURCE_URI;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::cli::RestoreArgs;
use crate::client::connect::Connection;
use crate::failure::{Failure, Kind};
use crate::text::{Output, note, one_line};

use super::kept::{self, Place};
use super::which;

/// A session that can be restored, as a host describes it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Deleted {
    /// Its URI.
    pub(super) session: String,
    /// When it was deleted.
    deleted_at: String,
    /// Until when it can be restored.
    removed_after: String,
    /// What lists showed of it.
    summary: Value,
}

/// Restores the sessions that are named, or lists those that can be restored.
pub(super) async fn run(args: RestoreArgs) -> Result<(), Failure> {
    let place = Place::find(&args.connect.common)?;
    if args.connect.url.is_some() || place.has_host() {
        let connection = Connection::open(&args.connect).await?;
        let deleted = deleted_on(&connection).await?;
        if args.sessions.is_empty() {
            connection.close().await;
            return show(&args, &deleted);
        }
        for uri in choose(&args, &deleted)? {
            let params = json!({ "channel": ROOT_RESOURCE_URI, "session": uri });
            let restored: Restored = connection.request("innkeeper/restoreSession", params).await?;
            tell(&uri, restored.chats, restored.turns)?;
        }
        connection.close().await;
        return Ok(());
    }
    let undo_ms = place.config.retention.undo_delete_ms();
    let deleted = deleted_in(&place.look()?, undo_ms)?;
    if args.sessions.is_empty() {
        return show(&args, &deleted);
    }
    let (_lock, mut archive) = place.change()?;
    for uri in choose(&args, &deleted)? {
        let restored = archive.undo_deletion(&uri).map_err(kept::failure)?;
        tell(&uri, restored.chats, restored.turns)?;
    }
    Ok(())
}

/// What a host answers.
#[derive(Deserialize)]
struct Restored {
    chats: usize,
    turns: usize,
}

/// The sessions that a host can restore.
pub(super) async fn deleted_on(connection: &Connection) -> Result<Vec<Deleted>, Failure> {
    #[derive(Deserialize)]
    struct Answer {
        items: Vec<Deleted>,
    }
    let params = json!({ "channel": ROOT_RESOURCE_URI });
    let answer: Answer = connection.request("innkeeper/listDeletedSessions", params).await?;
    Ok(answer.items)
}

/// The sessions that can be restored without a host.
fn deleted_in(archive: &innkeeper_store::Archive, undo_ms: u64) -> Result<Vec<Deleted>, Failure> {
    let moment = |ms: i64| jiff::Timestamp::from_millisecond(ms).map_or_else(|_| String::new(), |at| at.to_string());
    let undo_ms = i64::try_from(undo_ms).unwrap_or(i64::MAX);
    let deleted = archive.deleted().map_err(kept::failure)?.into_iter();
    let deleted = deleted.map(|session| Deleted {
        deleted_at: moment(session.deleted_ms),
        removed_after: moment(session.deleted_ms.saturating_add(undo_ms)),
        summary: serde_json::from_slice(&session.summary).unwrap_or_default(),
        session: session.uri,
    });
    Ok(deleted.collect())
}

fn choose(args: &RestoreArgs, deleted: &[Deleted]) -> Result<Vec<String>, Failure> {
    let mut chosen: Vec<String> = Vec::new();
    for wanted in &args.sessions {
        let all = deleted.iter().map(|session| session.session.as_str());
        let uri = which::choose(wanted, all).map_err(|failure| match failure.kind() {
            Kind::Rejected => Failure::new(
                Kind::Rejected,
                format!("there is no deleted session {}", one_line(wanted, 200)),
            )
            .hint("`innkeeper sessions restore` lists the sessions that can be restored"),
            _ => failure,
        })?;
        if !chosen.iter().any(|known| known == uri) {
            chosen.push(uri.to_owned());
        }
    }
    Ok(chosen)
}

fn tell(uri: &str, chats: usize, turns: usize) -> Result<(), Failure> {
    Output::stdout().show(&format!("restored {uri} ({chats} chats, {turns} turns)\n"))
}

fn show(args: &RestoreArgs, deleted: &[Deleted]) -> Result<(), Failure> {
    if deleted.is_empty() && !args.json {
        note("There is no deleted session to restore.");
        return Ok(());
    }
    let mut output = Output::stdout();
    for session in deleted {
        let line = match args.json {
            true => json!(session).to_string(),
            false => {
                let title = one_line(session.summary["title"].as_str().unwrap_or_default(), 60);
                let Deleted {
                    session: uri,
                    deleted_at,
                    removed_after,
                    ..
                } = session;
                format!(
                    "{} \"{title}\", deleted at {deleted_at}, removed for good after {removed_after}",
                    one_line(uri, 200)
                )
            }
        };
        output.show(&format!("{line}\n"))?;
    }
    Ok(())
}
