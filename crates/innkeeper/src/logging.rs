//! Logs, which always go to standard error, and to clients that listen.

use std::borrow::Cow;
use std::io::{self, IsTerminal as _};

use innkeeper_host::LogSink;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _, fmt};

use innkeeper_cli::failure::{Failure, Kind};

mod clients;

/// Starts logging what the filter lets through. Whoever comes second finds it started.
pub(crate) fn start(filter: &str) -> Result<(), Failure> {
    start_with(filter, None)
}

/// The same, and tells a sink of what clients want to hear, which the filter has nothing to do with.
pub(crate) fn start_with(filter: &str, logs: Option<&LogSink>) -> Result<(), Failure> {
    let filter = EnvFilter::try_new(without_servers_words(filter)).map_err(|error| {
        Failure::new(Kind::Usage, format!("`{filter}` is not a log filter ({error})"))
            .hint("write for instance --log debug or --log warn,innkeeper_host=trace")
    })?;
    let lines = fmt::layer()
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal());
    let lines = tracing_subscriber::registry().with(lines.with_filter(filter));
    // They fail only where it was started before.
    let _ = match logs {
        Some(logs) => lines.with(clients::layer(logs)).try_init(),
        None => lines.try_init(),
    };
    Ok(())
}

/// The MCP library writes what servers say as it is, as long and as often as they like, and with line breaks: a server
/// could write lines that pass for the host's (T15). It is heard only by those who name it; what matters of it,
/// Innkeeper writes itself.
fn without_servers_words(filter: &str) -> Cow<'_, str> {
    match filter.contains("rmcp") {
        true => Cow::Borrowed(filter),
        false if filter.is_empty() => Cow::Borrowed("rmcp=off"),
        false => Cow::Owned(format!("{filter},rmcp=off")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t15_servers_write_to_the_log_only_where_somebody_names_their_library() {
        for (filter, whole) in [
            ("info", "info,rmcp=off"),
            ("debug,innkeeper_host=trace", "debug,innkeeper_host=trace,rmcp=off"),
            ("debug,rmcp=warn", "debug,rmcp=warn"),
            ("", "rmcp=off"),
        ] {
            assert_eq!(without_servers_words(filter), whole);
            assert!(EnvFilter::try_new(whole).is_ok());
        }
    }
}
