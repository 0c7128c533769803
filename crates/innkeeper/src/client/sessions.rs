//! `innkeeper sessions`: looks after sessions, with the host that runs on a data directory or without one.

mod contents;
mod delete;
mod export;
mod import;
mod kept;
mod list;
mod prune;
mod rename;
mod restore;
mod show;
mod source;
mod which;

use innkeeper_host::HostHandle;
use innkeeper_store::Pruned;

use crate::cli::{SessionsArgs, SessionsCommand};
use crate::failure::Failure;

use super::connect::Connection;

pub(super) use delete::{Condition, dispose};
pub(super) use list::all_sessions;
pub(super) use which::choose as choose_session;

/// Does what the command says; without one, lists the sessions.
pub(super) async fn run(args: SessionsArgs) -> Result<(), Failure> {
    match args.command.unwrap_or(SessionsCommand::List(args.list)) {
        SessionsCommand::List(args) => list::run(args).await,
        SessionsCommand::Show(args) => show::run(args).await,
        SessionsCommand::Export(args) => export::run(&args),
        SessionsCommand::Import(args) => import::run(args).await,
        SessionsCommand::Delete(args) => delete::run(args).await,
        SessionsCommand::Restore(args) => restore::run(args).await,
        SessionsCommand::Prune(args) => prune::run(args).await,
    }
}

/// Lets the host of this process dispose of sessions that were chosen to go, unless somebody uses them or they have
/// changed since. Returns those that are gone.
pub(super) async fn dispose_of_chosen(host: &HostHandle, chosen: Vec<Pruned>) -> Result<Vec<Pruned>, Failure> {
    let connection = Connection::to(host).await?;
    let mut gone = Vec::new();
    for session in chosen {
        match dispose(&connection, &session.uri, Condition::of(&session)).await {
            Ok(()) => gone.push(session),
            Err(failure) => tracing::debug!(session = session.uri, %failure, "a session stays"),
        }
    }
    connection.close().await;
    Ok(gone)
}
