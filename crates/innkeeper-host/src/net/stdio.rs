//! AHP over a pair of byte streams, one message per line: the process that started us is the
//! client.

use innkeeper_core::Principal;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::host::HostHandle;
use crate::net::connection;
use crate::net::transport::lines::{LineSink, LineSource};

/// Serves one client until its input ends.
///
/// ```no_run
/// # async fn run(host: innkeeper_host::Host) {
/// use innkeeper_host::stdio;
/// use innkeeper_host::access::Principal;
/// # let (input, output) = tokio::io::split(tokio::io::duplex(64).0);
/// stdio::serve(host.handle(), input, output, Principal::stdio()).await;
/// # }
/// ```
pub async fn serve<R, W>(host: HostHandle, input: R, output: W, principal: Principal)
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let timeout = host.limits().write_time;
    let source = LineSource::new(input, host.limits().message_bytes);
    connection::serve(host, source, LineSink::new(output, timeout), principal).await;
}
