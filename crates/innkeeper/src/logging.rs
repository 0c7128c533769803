//! Logs, which always go to standard error.

use std::io::{self, IsTerminal as _};

use tracing_subscriber::EnvFilter;

use crate::failure::{Failure, Kind};

/// Starts logging what the filter lets through. Whoever comes second finds it started.
pub(crate) fn start(filter: &str) -> Result<(), Failure> {
    let filter = EnvFilter::try_new(filter).map_err(|error| {
        Failure::new(Kind::Usage, format!("`{filter}` is not a log filter ({error})"))
            .hint("write for instance --log debug or --log warn,innkeeper_host=trace")
    })?;
    // It fails only where it was started before.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        .try_init();
    Ok(())
}
