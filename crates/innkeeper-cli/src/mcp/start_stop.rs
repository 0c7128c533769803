//! `innkeeper mcp start` and `innkeeper mcp stop`.

use std::time::Duration;

use ahp_types::actions::{SessionMcpServerStartRequestedAction, SessionMcpServerStopRequestedAction, StateAction};
use ahp_types::state::SessionState;
use tokio::time::Instant;

use crate::args::McpServerArgs;
use crate::discovery::DataDir;
use crate::failure::{Failure, Kind};
use crate::terminal::{Output, one_line};

use super::server::{SessionLifetime, find, no_server};
use super::session::{Session, SessionTarget};
use crate::connection::Connection;
use crate::terminal::NextCommand;

/// Timeout until a session has discovered its servers.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(5);

/// Timeout until a server has started. Some are downloaded first.
const START_TIMEOUT: Duration = Duration::from_secs(300);

/// Starts a server and waits for its status (MCP-04).
pub(super) async fn start(dir: &DataDir, args: McpServerArgs) -> Result<(), Failure> {
    let (mut connection, mut session, id) = open(dir, &args).await?;
    let uri = session.uri.clone();
    let action = StateAction::SessionMcpServerStartRequested(SessionMcpServerStartRequestedAction { id: id.clone() });
    if let Err(failure) = session.dispatch(&mut connection, &uri, action).await {
        // A session that is loaded now discovers its servers first, and then starts them by itself.
        let is_coming = |state: &SessionState| find(state, &id).ok().flatten().is_some_and(|found| found.is_at_rest());
        let begins = |state: &SessionState| !is_coming(state);
        let is_refused = !is_coming(&session.state)
            || !session
                .until(&mut connection, Instant::now() + DISCOVERY_TIMEOUT, begins)
                .await?;
        if is_refused {
            return Err(failure);
        }
    }
    let has_settled = |state: &SessionState| {
        let server = find(state, &id).ok().flatten();
        !server.is_some_and(|server| server.is_starting())
    };
    session
        .until(&mut connection, Instant::now() + START_TIMEOUT, has_settled)
        .await?;
    connection.close().await;
    match find(&session.state, &id)? {
        None => Err(Failure::new(Kind::Unexpected, "the server was removed")),
        Some(server) => match server.failure_in(SessionLifetime::Persistent, &NextCommand::at(&args.session.connect)) {
            Some(failure) => Err(failure),
            None => say(&args, "is ready"),
        },
    }
}

/// Stops a server (MCP-05).
pub(super) async fn stop(dir: &DataDir, args: McpServerArgs) -> Result<(), Failure> {
    let (mut connection, mut session, id) = open(dir, &args).await?;
    let uri = session.uri.clone();
    let action = StateAction::SessionMcpServerStopRequested(SessionMcpServerStopRequestedAction { id });
    session.dispatch(&mut connection, &uri, action).await?;
    connection.close().await;
    say(&args, "is stopped")
}

fn say(args: &McpServerArgs, what: &str) -> Result<(), Failure> {
    Output::stdout().show(&format!("{} {what}\n", one_line(&args.name, 100)))
}

/// Returns the session and the id of its server.
async fn open(dir: &DataDir, args: &McpServerArgs) -> Result<(Connection, Session, String), Failure> {
    let mut connection = Connection::open(dir, &args.session.connect).await?;
    let uri = SessionTarget::find(&connection, &args.session).await?.existing()?;
    let mut session = Session::follow(&connection, uri).await?;
    let is_known = |state: &SessionState| !matches!(find(state, &args.name), Ok(None));
    // A session with customizations has discovered nearly all of them.
    let timeout = match session.state.customizations.is_some() {
        true => Duration::from_secs(1),
        false => DISCOVERY_TIMEOUT,
    };
    session
        .until(&mut connection, Instant::now() + timeout, is_known)
        .await?;
    let id = find(&session.state, &args.name)?.map(|server| server.server.id.clone());
    match id {
        Some(id) => Ok((connection, session, id)),
        None => Err(no_server(&session.state, &args.name)),
    }
}
