//! Logs, which go to standard error and to clients that subscribe.

use std::io::{self, IsTerminal as _};

use innkeeper_host::telemetry::LogSink;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _, fmt};

use innkeeper_cli::failure::{Failure, Kind};

mod clients;

/// Starts logging with a filter. A second call has no effect.
pub(crate) fn start(filter: &str) -> Result<(), Failure> {
    start_with(filter, None)
}

/// Starts logging, and sends records to clients through the sink, independently of the filter.
pub(crate) fn start_with(filter: &str, logs: Option<&LogSink>) -> Result<(), Failure> {
    let filter = EnvFilter::try_new(filter).map_err(|error| {
        Failure::new(Kind::Usage, format!("`{filter}` is not a log filter ({error})"))
            .hint("write for instance --log debug or --log warn,innkeeper_host=trace")
    })?;
    let lines = fmt::layer()
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal());
    let lines = tracing_subscriber::registry().with(lines.with_filter(filter));
    // This fails only if logging was started before.
    let _ = match logs {
        Some(logs) => lines.with(clients::layer(logs)).try_init(),
        None => lines.try_init(),
    };
    Ok(())
}
