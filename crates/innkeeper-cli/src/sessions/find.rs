//! Finds the session that a command names, or the latest one of the current directory.

use ahp_types::state::SessionSummary;

use super::choose::choose;
use super::list::all_sessions;
use crate::args::{ConnectArgs, SessionArg};
use crate::connection::{Connection, is_here};
use crate::failure::{Failure, Kind};
use crate::terminal::one_line;

/// Returns the URI of the session that the argument selects; without one, of the latest session of this directory.
pub(crate) async fn find(
    connection: &Connection,
    connect: &ConnectArgs,
    wanted: &SessionArg,
) -> Result<String, Failure> {
    match &wanted.session {
        Some(name) => find_named(connection, name).await,
        None => latest_here(connection, connect).await,
    }
}

/// Returns the URI of the session with this URI, or the only one that the beginning of a URI selects.
pub(crate) async fn find_named(connection: &Connection, name: &str) -> Result<String, Failure> {
    if name.starts_with("ahp-chat:") {
        let problem = format!("{} is a chat", one_line(name, 200));
        return Err(Failure::new(Kind::Usage, problem).hint("name its session; `innkeeper sessions` lists them"));
    }
    let sessions = all_sessions(connection).await?;
    let uris = sessions.iter().map(|session| session.resource.as_str());
    match choose(name, uris) {
        Ok(uri) => Ok(uri.to_owned()),
        // A session in which no user has written yet is in no list.
        Err(failure) if failure.kind() == Kind::Rejected && name.contains(":/") => Ok(name.to_owned()),
        Err(failure) => Err(failure),
    }
}

/// Returns the URI of the latest session that works in the current directory. A host on another machine has other
/// directories, so its latest session is meant.
pub(crate) async fn latest_here(connection: &Connection, connect: &ConnectArgs) -> Result<String, Failure> {
    let sessions = all_sessions(connection).await?;
    let is_local = connect.url.as_deref().is_none_or(is_here);
    let here = match is_local {
        true => std::env::current_dir()
            .ok()
            .and_then(|path| url::Url::from_file_path(path).ok()),
        false => None,
    };
    let latest = match &here {
        Some(here) => sessions.iter().find(|session| works_in(session, here.as_str())),
        None => sessions.first(),
    };
    match latest {
        Some(session) => Ok(session.resource.clone()),
        None => Err(Failure::new(Kind::Rejected, "no session works in this directory")
            .hint("name one; `innkeeper sessions` lists them")),
    }
}

fn works_in(session: &SessionSummary, directory: &str) -> bool {
    let directories = session.working_directories.iter().flatten();
    let trimmed = |uri: &str| uri.trim_end_matches('/').to_owned();
    directories.map(|uri| trimmed(uri)).any(|uri| uri == trimmed(directory))
}
