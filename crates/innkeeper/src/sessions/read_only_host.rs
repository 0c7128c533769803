//! A host of this process, and a client connected to it by a pipe.

use innkeeper_agents::tour::TourAgent;
use innkeeper_cli::connection::Connection;
use innkeeper_cli::discovery::DataDir;
use innkeeper_cli::failure::{Failure, Kind};
use innkeeper_host::access::Principal;
use innkeeper_host::{Host, HostHandle, stdio};
use innkeeper_store::ReadOnlyJournal;

/// Capacity of the pipe.
const PIPE_BYTES: usize = 64 << 10;

/// Starts a read-only host on a data directory. If no process owns the directory, interrupted work is shown as the next
/// host will recover it.
pub(super) async fn start(dir: &DataDir) -> Result<Host, Failure> {
    let journal = ReadOnlyJournal::new(&dir.file(innkeeper_store::FILE_NAME))
        .map_err(|error| Failure::new(Kind::DataDirectory, error.message))?;
    let builder = Host::builder()
        .agent(TourAgent::new())
        .journal(journal)
        .read_only("no host runs on this data directory");
    let builder = match dir.is_owned() {
        true => builder,
        false => builder.without_owner(),
    };
    builder.start().await.map_err(|error| {
        Failure::new(Kind::DataDirectory, error.to_string()).hint("`innkeeper doctor` checks it and says what to do")
    })
}

/// Connects a client to a host of this process.
pub(super) async fn connect(host: &HostHandle) -> Result<Connection, Failure> {
    let (ours, theirs) = tokio::io::duplex(PIPE_BYTES);
    let (input, output) = tokio::io::split(theirs);
    // It ends with the pipe.
    tokio::spawn(stdio::serve(host.clone(), input, output, Principal::stdio()));
    Connection::over_pipe(ours).await
}
