//! `innkeeper sessions delete`.

use ahp_types::commands::DisposeSessionParams;
use innkeeper_store::OnlyIf;
use serde_json::{Value, json};

use crate::cli::DeleteArgs;
use crate::client::connect::Connection;
use crate::confirm::confirm;
use crate::failure::Failure;
use crate::text::{Output, one_line};

use super::kept::{self, Place};
use super::{list, which};

/// Deletes sessions, after asking.
pub(super) async fn run(args: DeleteArgs) -> Result<(), Failure> {
    let place = Place::find(&args.connect.common)?;
    let mut output = Output::stdout();
    if args.connect.url.is_none() && !place.has_host() {
        let (_lock, mut archive) = place.change()?;
        let all = which::all_kept(&archive)?;
        let chosen = choose(&args.sessions, all.iter().map(String::as_str))?;
        confirm(&question(&chosen), args.yes)?;
        for uri in chosen {
            archive.remove(&uri).map_err(kept::failure)?;
            place.remove_contents(&uri);
            output.show(&format!("deleted {uri}\n"))?;
        }
        return Ok(());
    }
    let connection = Connection::open(&args.connect).await?;
    let all = list::all_sessions(&connection).await?;
    let chosen = choose(&args.sessions, all.iter().map(|session| session.resource.as_str()))?;
    confirm(&question(&chosen), args.yes)?;
    for uri in chosen {
        dispose(&connection, &uri, None).await?;
        output.show(&format!("deleted {uri}\n"))?;
    }
    connection.close().await;
    Ok(())
}

/// Has a host delete a session: whatever goes on in it, or only if it is unused and still what it was when it was
/// chosen.
pub(in crate::client) async fn dispose(
    connection: &Connection,
    uri: &str,
    only_if: Option<OnlyIf>,
) -> Result<(), Failure> {
    let meta = only_if.map(|only_if| {
        let condition = json!({ "modifiedMs": only_if.modified_ms, "isArchived": only_if.is_archived });
        [("innkeeper.onlyIf".to_owned(), condition)].into_iter().collect()
    });
    let params = DisposeSessionParams {
        channel: uri.to_owned(),
        meta,
    };
    let _: Value = connection.request("disposeSession", params).await?;
    Ok(())
}

fn question(chosen: &[String]) -> String {
    let named: Vec<String> = chosen.iter().map(|uri| one_line(uri, 200)).collect();
    format!("Delete {} for good?", named.join(", "))
}

/// The sessions that are meant, each once.
fn choose<'a>(wanted: &[String], all: impl Iterator<Item = &'a str> + Clone) -> Result<Vec<String>, Failure> {
    let mut chosen: Vec<String> = Vec::new();
    for wanted in wanted {
        let uri = which::choose(wanted, all.clone())?;
        if !chosen.iter().any(|known| known == uri) {
            chosen.push(uri.to_owned());
        }
    }
    Ok(chosen)
}
