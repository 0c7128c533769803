//! The command line of `innkeeper acp`.

use std::net::SocketAddr;

use clap::Args;
use innkeeper_cli::args::ConnectArgs;

/// Flags of `innkeeper acp`.
#[derive(Args, Clone, Debug)]
pub struct AcpArgs {
    /// Agent of new sessions [default: the host's choice]. The editor can choose another one.
    #[arg(long, value_name = "PROVIDER")]
    pub provider: Option<String>,
    /// Serve editors over WebSocket at this loopback address, as ws://ADDR:PORT/acp, instead of standard input and output.
    ///
    /// Editors send the token of the host: `Authorization: Bearer TOKEN`.
    #[arg(long, value_name = "ADDR:PORT")]
    pub listen: Option<SocketAddr>,
    /// Do not start a host if none runs on the data directory.
    #[arg(long)]
    pub no_start: bool,
    #[command(flatten)]
    pub connect: ConnectArgs,
}
