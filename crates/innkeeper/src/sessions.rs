//! `innkeeper sessions`: through the host that runs on the data directory, or on the store if none runs.

mod contents;
mod export;
pub(crate) mod files;
mod offline;
mod prune;
mod read_only_host;

use innkeeper_cli::args::{ConnectArgs, ImportArgs, SessionsArgs, SessionsCommand};
use innkeeper_cli::connection::Connection;
use innkeeper_cli::failure::{Failure, Kind};
use innkeeper_cli::sessions::ImportSource;
use innkeeper_host::Host;

use offline::{Offline, OfflineSessions};

pub(crate) use prune::dispose_of_chosen;

/// Runs the subcommand; without one, lists the sessions.
pub(crate) fn run(args: SessionsArgs) -> Result<(), Failure> {
    innkeeper_cli::block_on(async move {
        match args.command.unwrap_or(SessionsCommand::List(args.list)) {
            SessionsCommand::List(args) => {
                let (connection, _host) = open_to_read(&args.connect).await?;
                innkeeper_cli::sessions::list(&args, &connection).await?;
                connection.close().await;
            }
            SessionsCommand::Show(args) => {
                let (connection, _host) = open_to_read(&args.connect).await?;
                innkeeper_cli::sessions::show(&args, &connection).await?;
                connection.close().await;
            }
            SessionsCommand::Export(args) => export::run(&args)?,
            SessionsCommand::Import(args) => import(&args).await?,
            SessionsCommand::Delete(args) => match open_host(&args.connect).await? {
                Found::Host(mut connection) => {
                    innkeeper_cli::sessions::delete(&args, &mut connection).await?;
                    connection.close().await;
                }
                Found::NoHost(data) => {
                    innkeeper_cli::sessions::delete(&args, &mut OfflineSessions::change(*data)?).await?;
                }
            },
            SessionsCommand::Rename(args) => {
                let mut connection = running_host(&args.connect).await?;
                innkeeper_cli::sessions::change_title(&args, &mut connection).await?;
                connection.close().await;
            }
            SessionsCommand::Archive(args) => {
                let mut connection = running_host(&args.connect).await?;
                innkeeper_cli::sessions::archive(&args, &mut connection).await?;
                connection.close().await;
            }
            SessionsCommand::Restore(args) => match open_host(&args.connect).await? {
                Found::Host(mut connection) => {
                    innkeeper_cli::sessions::restore(&args, &mut connection).await?;
                    connection.close().await;
                }
                // Listing needs no lock.
                Found::NoHost(data) if args.sessions.is_empty() => {
                    innkeeper_cli::sessions::restore(&args, &mut OfflineSessions::read(*data)?).await?;
                }
                Found::NoHost(data) => {
                    innkeeper_cli::sessions::restore(&args, &mut OfflineSessions::change(*data)?).await?;
                }
            },
            SessionsCommand::Prune(args) => prune::run(args).await?,
        }
        Ok(())
    })
}

/// The host of a command, if there is one.
enum Found {
    Host(Connection),
    NoHost(Box<Offline>),
}

/// Connects to the host that the arguments name, or to the one that runs on the data directory, if there is one.
async fn open_host(args: &ConnectArgs) -> Result<Found, Failure> {
    let data = Offline::find(&args.common)?;
    match args.url.is_some() || data.has_host() {
        true => Connection::open(&data.dir, args).await.map(Found::Host),
        false => Ok(Found::NoHost(Box::new(data))),
    }
}

/// Connects to the host that the arguments name, or to the one that runs on the data directory.
async fn running_host(args: &ConnectArgs) -> Result<Connection, Failure> {
    Connection::open(&Offline::find(&args.common)?.dir, args).await
}

/// Connects like `open_host`. If no host runs but sessions are persisted, connects to a read-only host of this process,
/// which runs as long as the returned value lives.
async fn open_to_read(args: &ConnectArgs) -> Result<(Connection, Option<Host>), Failure> {
    match open_host(args).await? {
        Found::Host(connection) => Ok((connection, None)),
        Found::NoHost(data) if data.has_store() => {
            let host = read_only_host::start(&data.dir).await?;
            let connection = read_only_host::connect(&host.handle()).await?;
            Ok((connection, Some(host)))
        }
        Found::NoHost(data) => Ok((Connection::open(&data.dir, args).await?, None)),
    }
}

async fn import(args: &ImportArgs) -> Result<(), Failure> {
    if let Some(uri) = &args.rename {
        check_new_uri(uri)?;
    }
    let source = ImportSource::open(args)?;
    match open_host(&args.connect).await? {
        Found::Host(mut connection) => {
            innkeeper_cli::sessions::import(source, &mut connection).await?;
            connection.close().await;
            Ok(())
        }
        Found::NoHost(data) => {
            let mut sessions = OfflineSessions::create(*data)?;
            innkeeper_cli::sessions::import(source, &mut sessions).await
        }
    }
}

/// Checks the URI of `--as`. Imports accept every URI, so that an export can be imported again.
fn check_new_uri(uri: &str) -> Result<(), Failure> {
    innkeeper_host::uri::check_new_session(uri).map_err(|problem| {
        Failure::new(Kind::Usage, format!("--as {uri}: {problem}")).hint("write it like ahp-session:/my-session")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_session_uri_must_be_a_session_uri() {
        assert!(check_new_uri("ahp-session:/copy").is_ok());
        for uri in ["not a uri", "file:///tmp", "ahp-chat:/x"] {
            assert_eq!(check_new_uri(uri).unwrap_err().kind(), Kind::Usage, "{uri}");
        }
    }

    #[test]
    fn client_reads_the_plugin_name_that_the_host_writes() {
        assert_eq!(innkeeper_cli::PLUGIN_NAME, innkeeper_host::customizations::PLUGIN_NAME);
    }
}
