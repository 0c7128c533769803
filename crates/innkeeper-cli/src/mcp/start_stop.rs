//! `innkeeper mcp start` and `innkeeper mcp stop`.

use std::time::Duration;

use ahp_types::actions::{SessionMcpServerStartRequestedAction, SessionMcpServerStopRequestedAction, StateAction};
use ahp_types::state::SessionState;
use tokio::time::Instant;

use crate::args::McpServerArgs;
use crate::discovery::DataDir;
use crate::failure::{Failure, Kind};
use crate::terminal::{Output, one_line};

use super::server::{Life, find, no_server};
use super::session::{Place, Session};
use crate::connection::Connection;
use crate::terminal::Again;

/// How long a session may take to learn of its servers.
const UNTIL_IT_IS_KNOWN: Duration = Duration::from_secs(5);

/// How long a server may take to start. Some are downloaded first.
const UNTIL_IT_RUNS: Duration = Duration::from_secs(300);

/// Starts a server and waits for what becomes of it (MCP-04).
pub(super) async fn start(dir: &DataDir, args: McpServerArgs) -> Result<(), Failure> {
    let (mut connection, mut session, id) = open(dir, &args).await?;
    let uri = session.uri.clone();
    let action = StateAction::SessionMcpServerStartRequested(SessionMcpServerStartRequestedAction { id: id.clone() });
    if let Err(failure) = session.dispatch(&mut connection, &uri, action).await {
        // A session that was not in memory has yet to see what starts its servers, and then starts them by itself.
        let is_coming = |state: &SessionState| find(state, &id).ok().flatten().is_some_and(|found| found.is_at_rest());
        let begins = |state: &SessionState| !is_coming(state);
        let is_refused = !is_coming(&session.state)
            || !session
                .until(&mut connection, Instant::now() + UNTIL_IT_IS_KNOWN, begins)
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
        .until(&mut connection, Instant::now() + UNTIL_IT_RUNS, has_settled)
        .await?;
    connection.close().await;
    match find(&session.state, &id)? {
        None => Err(Failure::new(Kind::Unexpected, "the server was taken away meanwhile")),
        Some(server) => match server.failure_in(Life::Stays, &Again::at(&args.session.connect)) {
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

/// The session that is meant, and the id of its server.
async fn open(dir: &DataDir, args: &McpServerArgs) -> Result<(Connection, Session, String), Failure> {
    let mut connection = Connection::open(dir, &args.session.connect).await?;
    let uri = Place::find(&connection, &args.session).await?.existing()?;
    let mut session = Session::follow(&connection, uri).await?;
    let is_known = |state: &SessionState| !matches!(find(state, &args.name), Ok(None));
    // One that shows something shows nearly everything.
    let patience = match session.state.customizations.is_some() {
        true => Duration::from_secs(1),
        false => UNTIL_IT_IS_KNOWN,
    };
    session
        .until(&mut connection, Instant::now() + patience, is_known)
        .await?;
    let id = find(&session.state, &args.name)?.map(|server| server.server.id.clone());
    match id {
        Some(id) => Ok((connection, session, id)),
        None => Err(no_server(&session.state, &args.name)),
    }
}
