//! `innkeeper sessions delete`.

use crate::args::DeleteArgs;
use crate::failure::Failure;
use crate::terminal::{Output, confirm, note, one_line};

use super::choose;
use super::{Deletion, SessionBackend};

/// Deletes sessions, after asking.
pub async fn run(args: &DeleteArgs, backend: &mut impl SessionBackend) -> Result<(), Failure> {
    let mut all = backend.sessions().await?;
    if args.for_good {
        let deleted = backend.deleted_sessions().await?;
        all.extend(deleted.into_iter().map(|session| session.session));
    }
    let chosen = choose(args, all.iter().map(String::as_str))?;
    let deletion = match args.for_good || !backend.keeps_deleted() {
        true => Deletion::ForGood,
        false => Deletion::Restorable,
    };
    confirm(&question(&chosen, deletion), args.yes)?;
    let mut output = Output::stdout();
    for uri in chosen {
        backend.delete(&uri, deletion).await?;
        output.show(&format!("deleted {uri}\n"))?;
    }
    // A host can be configured to keep no deleted sessions.
    if matches!(deletion, Deletion::Restorable) && !backend.deleted_sessions().await?.is_empty() {
        note("`innkeeper sessions restore` undoes this for a while.");
    }
    Ok(())
}

fn question(chosen: &[String], deletion: Deletion) -> String {
    let named: Vec<String> = chosen.iter().map(|uri| one_line(uri, 200)).collect();
    match deletion {
        Deletion::Restorable => format!("Delete {}?", named.join(", ")),
        Deletion::ForGood | Deletion::IfUnchanged(_) => format!("Delete {} for good?", named.join(", ")),
    }
}

/// Returns the sessions that the arguments name, each once.
fn choose<'a>(args: &DeleteArgs, all: impl Iterator<Item = &'a str> + Clone) -> Result<Vec<String>, Failure> {
    let mut chosen: Vec<String> = Vec::new();
    for wanted in &args.sessions {
        let uri = match args.yes {
            true => choose::choose_whole(wanted, all.clone())?,
            false => choose::choose(wanted, all.clone())?,
        };
        if !chosen.iter().any(|known| known == uri) {
            chosen.push(uri.to_owned());
        }
    }
    Ok(chosen)
}
