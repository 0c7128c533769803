//! Starts an agent once to see whether it works, without a session of a host.

use std::path::PathBuf;
use std::time::Duration;

use crate::agent::AcpAgent;
use crate::learned::Learned;
use crate::session::Session;
use crate::tools::Offered;

/// Quiet time after which an agent is taken to have told everything about a session.
const QUIET: Duration = Duration::from_millis(500);

/// The result of a check.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckReport {
    /// Everything that the agent told about itself.
    pub learned: Learned,
}

/// Starts an agent in a directory, opens a session and ends it.
///
/// # Errors
///
/// With a message for users that says what is wrong and what to do.
pub async fn check(agent: &AcpAgent, directory: PathBuf) -> Result<CheckReport, String> {
    let opened = Session::open(agent.shared(), vec![directory], None, Offered::default()).await;
    let (mut session, _) = opened.map_err(|error| error.message)?;
    // Commands come a moment after a session is open.
    let _ = session.read_until_quiet(QUIET).await;
    agent.shared().learn(&session.learned, &session.options);
    session.end().await;
    Ok(CheckReport {
        learned: agent.shared().learned(),
    })
}
