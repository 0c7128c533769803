//! `innkeeper mcp list`.

use std::time::Duration;

use ahp_types::state::SessionState;
use tokio::time::Instant;

use crate::args::McpListArgs;
use crate::discovery::DataDir;
use crate::failure::Failure;
use crate::terminal::StopSignals;
use crate::terminal::{Output, note, one_line};

use super::server::{ListedServer, SessionLifetime, broken, listed};
use super::session::{Session, SessionTarget};
use super::turn;
use crate::connection::Connection;
use crate::sessions::all_sessions;
use crate::terminal::NextCommand;

/// Timeout until an enabled server begins to start: a session that is loaded now is scanned first.
const UNTIL_IT_STARTS: Duration = Duration::from_secs(1);

/// Timeout until a server has started; after it the server is shown as starting.
const START_TIMEOUT: Duration = Duration::from_secs(5);

/// Lists servers.
pub(super) async fn run(dir: &DataDir, args: McpListArgs) -> Result<(), Failure> {
    let mut connection = Connection::open(dir, &args.session.connect).await?;
    let outcome = list(&mut connection, &args).await;
    connection.close().await;
    outcome
}

async fn list(connection: &mut Connection, args: &McpListArgs) -> Result<(), Failure> {
    let again = NextCommand::at(&args.session.connect);
    if args.all {
        let mut count = 0;
        for summary in all_sessions(connection).await? {
            let session = Session::follow(connection, summary.resource).await?;
            let has_some = !listed(&session.state).is_empty() || !broken(&session.state).is_empty();
            count += usize::from(has_some);
            if !args.json && has_some {
                let title = one_line(&summary.title, 100);
                Output::stdout().show(&format!("{} {title}\n", one_line(&session.uri, 500)))?;
            }
            show(&session, args.json, "  ", SessionLifetime::Persistent, &again)?;
            // The host need not send its actions any longer.
            let _ = connection.client.unsubscribe(session.uri.clone()).await;
        }
        if count == 0 && !args.json {
            note("no session has an MCP server.");
        }
        return Ok(());
    }
    let place = SessionTarget::find(connection, &args.session).await?;
    let words = place.describe_new();
    let Some(summary) = place.session else {
        note(&words);
        let session = Session::open(connection, place.directories).await?;
        return describe_new(connection, session, args.json, &again).await;
    };
    let mut session = Session::follow(connection, summary.resource).await?;
    settle(connection, &mut session).await?;
    if !args.json {
        note(&format!("The session {} has:", one_line(&session.uri, 500)));
    }
    show(&session, args.json, "", SessionLifetime::Persistent, &again)
}

/// Waits a moment for servers that are about to change.
async fn settle(connection: &mut Connection, session: &mut Session) -> Result<(), Failure> {
    let begun = Instant::now();
    let all_began = |state: &SessionState| !listed(state).iter().any(ListedServer::is_at_rest);
    session.until(connection, begun + UNTIL_IT_STARTS, all_began).await?;
    let none_starts = |state: &SessionState| !listed(state).iter().any(ListedServer::is_starting);
    session.until(connection, begun + START_TIMEOUT, none_starts).await?;
    Ok(())
}

/// A turn begins after discovery and the start of servers (MCP-03), so after one the list is complete.
async fn describe_new(
    connection: &mut Connection,
    mut session: Session,
    json: bool,
    again: &NextCommand,
) -> Result<(), Failure> {
    let mut signals = StopSignals::listen()?;
    let looked = tokio::select! {
        looked = turn::say(connection, &mut session, "/mcp") => looked.map(drop),
        _ = signals.next() => Err(turn::stopped()),
    };
    let shown = looked.and_then(|()| show(&session, json, "", SessionLifetime::Temporary, again));
    session.leave(connection).await;
    shown
}

/// Shows the servers of a session, and errors in the files that declare them.
fn show(
    session: &Session,
    json: bool,
    indent: &str,
    life: SessionLifetime,
    again: &NextCommand,
) -> Result<(), Failure> {
    let mut output = Output::stdout();
    let servers = listed(&session.state);
    for server in &servers {
        if json {
            output.show(&format!("{}\n", server.json(&session.uri)))?;
            continue;
        }
        for line in server.in_words(life, again) {
            output.show(&format!("{indent}{line}\n"))?;
        }
    }
    let broken = if json { Vec::new() } else { broken(&session.state) };
    for problem in &broken {
        output.show(&format!("{indent}{problem}\n"))?;
    }
    if servers.is_empty() && broken.is_empty() && !json && indent.is_empty() {
        note("no MCP server; .mcp.json of the working directory declares some.");
    }
    Ok(())
}
