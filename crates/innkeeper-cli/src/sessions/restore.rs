//! `innkeeper sessions restore`: undoes deletions.

use serde_json::json;

use crate::args::RestoreArgs;
use crate::failure::{Failure, Kind};
use crate::terminal::{Output, note, one_line};

use super::choose;
use super::{DeletedSession, SessionBackend};

/// Restores the sessions that the arguments name; without any, lists those that can be restored.
pub async fn run(args: &RestoreArgs, backend: &mut impl SessionBackend) -> Result<(), Failure> {
    let deleted = backend.deleted_sessions().await?;
    if args.sessions.is_empty() {
        return show(args, &deleted);
    }
    for uri in choose(args, &deleted)? {
        let restored = backend.restore(&uri).await?;
        let (chats, turns) = (restored.chats, restored.turns);
        Output::stdout().show(&format!("restored {uri} ({chats} chats, {turns} turns)\n"))?;
    }
    Ok(())
}

fn choose(args: &RestoreArgs, deleted: &[DeletedSession]) -> Result<Vec<String>, Failure> {
    let mut chosen: Vec<String> = Vec::new();
    for wanted in &args.sessions {
        let all = deleted.iter().map(|session| session.session.as_str());
        let uri = choose::choose(wanted, all).map_err(|failure| match failure.kind() {
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

fn show(args: &RestoreArgs, deleted: &[DeletedSession]) -> Result<(), Failure> {
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
                let DeletedSession {
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
