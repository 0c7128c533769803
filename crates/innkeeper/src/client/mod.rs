//! The client commands: ordinary AHP clients on the official crate, with no private door into the host.
//!
//! Where no host runs, `sessions` looks at what is kept: through a host of its own that changes nothing, or, for what is
//! no part of the protocol, through the store.

mod again;
mod answer;
mod approvals;
mod call;
mod choose;
mod connect;
mod describe;
mod edits;
mod grants;
mod local;
mod mcp;
mod pending;
mod send;
mod sessions;
mod switched;
mod target;
mod transport;
mod watch;
mod words;

use std::collections::HashMap;

use innkeeper_host::HostHandle;
use innkeeper_store::Pruned;

use crate::cli::{
    AnswerArgs, ApprovalsArgs, ApproveArgs, CommonArgs, DenyArgs, GrantsArgs, McpArgs, PendingArgs, SendArgs,
    SessionsArgs, WatchArgs,
};
use crate::failure::{Failure, Kind};

pub(crate) use switched::{EVERYWHERE, IN_WORKSPACE, Switch, Switched};

/// Sends a message and streams the answer.
pub(crate) fn send(args: SendArgs) -> Result<(), Failure> {
    block_on(send::run(args))
}

/// Prints a channel's state and actions.
pub(crate) fn watch(args: WatchArgs) -> Result<(), Failure> {
    block_on(watch::run(args))
}

/// Lists sessions, or does something with some of them.
pub(crate) fn sessions(args: SessionsArgs) -> Result<(), Failure> {
    block_on(sessions::run(args))
}

/// Lets the host of this process dispose of sessions that were chosen to go. Returns those that are gone.
pub(crate) async fn dispose_of_chosen(host: &HostHandle, chosen: Vec<Pruned>) -> Result<Vec<Pruned>, Failure> {
    sessions::dispose_of_chosen(host, chosen).await
}

/// Lists what sessions wait for.
pub(crate) fn pending(args: PendingArgs) -> Result<(), Failure> {
    block_on(pending::list(args))
}

/// Lets a tool run.
pub(crate) fn approve(args: ApproveArgs) -> Result<(), Failure> {
    block_on(pending::approve(args))
}

/// Keeps a tool from running.
pub(crate) fn deny(args: DenyArgs) -> Result<(), Failure> {
    block_on(pending::deny(args))
}

/// Answers an agent's questions.
pub(crate) fn answer(args: AnswerArgs) -> Result<(), Failure> {
    block_on(pending::answer(args))
}

/// Asks the host on the data directory, if there is one, what people switched on and off in a workspace. `kept` is what
/// the data directory says about it, if that can be read; it holds where no session says anything else.
pub(crate) fn switched(args: &CommonArgs, workspace: &str, kept: Option<HashMap<String, Switch>>) -> Switched {
    let mut switched = Switched::default();
    let asking = async {
        switched = switched::find(args, workspace).await;
        Ok(())
    };
    // Without an event loop nobody is asked, which is said like any other reason.
    let _ = block_on(asking);
    switched.with_kept(kept)
}

/// Lists MCP servers, changes what they do, or calls their tools.
pub(crate) fn mcp(args: McpArgs) -> Result<(), Failure> {
    block_on(mcp::run(args))
}

/// Lists, gives and takes back grants.
pub(crate) fn grants(args: GrantsArgs) -> Result<(), Failure> {
    block_on(grants::run(args))
}

/// Lists, gives and takes back approvals.
pub(crate) fn approvals(args: ApprovalsArgs) -> Result<(), Failure> {
    block_on(approvals::run(args))
}

/// Runs a client on one thread.
///
/// One thread is also what keeps the official client from dropping events: its reader yields to us after a bounded
/// number of messages, which is far below the size of its event buffer.
fn block_on(command: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| {
            Failure::new(
                Kind::Unexpected,
                format!("the program cannot start its event loop ({error})"),
            )
        })?;
    runtime.block_on(command)
}
