//! `innkeeper sessions delete`.

use ahp_types::commands::DisposeSessionParams;
use innkeeper_store::{OnlyIf, Pruned};
use serde_json::{Value, json};

use crate::cli::DeleteArgs;
use crate::client::connect::Connection;
use crate::confirm::confirm;
use crate::failure::Failure;
use crate::text::{Output, note, one_line};

use super::kept::{self, Place};
use super::{list, restore, which};

/// Deletes sessions, after asking.
pub(super) async fn run(args: DeleteArgs) -> Result<(), Failure> {
    let place = Place::find(&args.connect.common)?;
    let mut output = Output::stdout();
    let days = place.config.retention.deleted_days;
    if args.connect.url.is_none() && !place.has_host() {
        let (_lock, mut archive) = place.change()?;
        let mut all = which::all_kept(&archive)?;
        if args.for_good {
            let deleted = archive.deleted().map_err(kept::failure)?;
            all.extend(deleted.into_iter().map(|session| session.uri));
        }
        let chosen = choose(&args, all.iter().map(String::as_str))?;
        let for_good = args.for_good || days == 0;
        confirm(&question(&chosen, for_good), args.yes)?;
        for uri in chosen {
            if for_good {
                archive.remove(&uri).map_err(kept::failure)?;
                place.remove_contents(&uri);
            } else {
                archive.delete(&uri).map_err(kept::failure)?;
            }
            output.show(&format!("deleted {uri}\n"))?;
        }
        if !for_good {
            say_how_to_restore();
        }
        return Ok(());
    }
    let connection = Connection::open(&args.connect).await?;
    let all = list::all_sessions(&connection).await?;
    let mut all: Vec<String> = all.into_iter().map(|session| session.resource).collect();
    if args.for_good {
        let deleted = restore::deleted_on(&connection).await?;
        all.extend(deleted.into_iter().map(|session| session.session));
    }
    let chosen = choose(&args, all.iter().map(String::as_str))?;
    confirm(&question(&chosen, args.for_good), args.yes)?;
    let condition = match args.for_good {
        true => Condition::ForGood,
        false => Condition::None,
    };
    for uri in chosen {
        dispose(&connection, &uri, condition).await?;
        output.show(&format!("deleted {uri}\n"))?;
    }
    if !args.for_good && !restore::deleted_on(&connection).await?.is_empty() {
        say_how_to_restore();
    }
    connection.close().await;
    Ok(())
}

fn say_how_to_restore() {
    note("`innkeeper sessions restore` undoes this for a while.");
}

/// On what condition, and how, a session goes.
#[derive(Clone, Copy)]
pub(in crate::client) enum Condition {
    /// Whatever goes on in it; it can be restored.
    None,
    /// Whatever goes on in it, and it cannot be restored.
    ForGood,
    /// Only if it is unused and still what it was when it was chosen; it cannot be restored.
    OnlyIf(OnlyIf),
}

impl Condition {
    /// How a session goes that a policy chose.
    pub(in crate::client) fn of(session: &Pruned) -> Self {
        match session.is_deleted {
            true => Self::ForGood,
            false => Self::OnlyIf(session.only_if),
        }
    }
}

/// Has a host delete a session.
pub(in crate::client) async fn dispose(
    connection: &Connection,
    uri: &str,
    condition: Condition,
) -> Result<(), Failure> {
    let (key, value) = match condition {
        Condition::None => ("", Value::Null),
        Condition::ForGood => ("innkeeper.forGood", json!(true)),
        Condition::OnlyIf(only_if) => (
            "innkeeper.onlyIf",
            json!({ "modifiedMs": only_if.modified_ms, "isArchived": only_if.is_archived }),
        ),
    };
    let params = DisposeSessionParams {
        channel: uri.to_owned(),
        meta: (!key.is_empty()).then(|| [(key.to_owned(), value)].into_iter().collect()),
    };
    let _: Value = connection.request("disposeSession", params).await?;
    Ok(())
}

fn question(chosen: &[String], for_good: bool) -> String {
    let named: Vec<String> = chosen.iter().map(|uri| one_line(uri, 200)).collect();
    match for_good {
        true => format!("Delete {} for good?", named.join(", ")),
        false => format!("Delete {}?", named.join(", ")),
    }
}

/// The sessions that are meant, each once.
fn choose<'a>(args: &DeleteArgs, all: impl Iterator<Item = &'a str> + Clone) -> Result<Vec<String>, Failure> {
    let mut chosen: Vec<String> = Vec::new();
    for wanted in &args.sessions {
        let uri = match args.yes {
            true => which::choose_whole(wanted, all.clone())?,
            false => which::choose(wanted, all.clone())?,
        };
        if !chosen.iter().any(|known| known == uri) {
            chosen.push(uri.to_owned());
        }
    }
    Ok(chosen)
}
