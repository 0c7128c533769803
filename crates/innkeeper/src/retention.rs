//! Deletes sessions that exceed the retention limits, while the host runs.

use std::convert::Infallible;
use std::path::PathBuf;
use std::time::Duration;

use innkeeper_cli::discovery::DataDir;
use innkeeper_host::HostHandle;
use innkeeper_store::{Archive, FILE_NAME, Mode, PrunedSession, StoreError};

use crate::config::Retention;
use crate::sessions;

/// How often the limits are applied.
const INTERVAL: Duration = Duration::from_secs(60 * 60);

/// Applies the limits now and once an hour. Clients are notified of every deleted session. Sessions that are in use, or
/// that changed since they were chosen, stay.
pub(crate) async fn apply(host: &HostHandle, dir: &DataDir, retention: Option<Retention>) -> Infallible {
    let Some(retention) = retention else {
        return std::future::pending().await;
    };
    loop {
        apply_once(host, dir.file(FILE_NAME), retention).await;
        tokio::time::sleep(INTERVAL).await;
    }
}

async fn apply_once(host: &HostHandle, file: PathBuf, retention: Retention) {
    // Reading the sizes of all sessions may take a while, and blocks.
    let choosing = tokio::task::spawn_blocking(move || choose(&file, retention));
    let chosen = match choosing.await {
        Ok(Ok(chosen)) => chosen,
        Ok(Err(error)) => {
            return tracing::warn!(%error, "the sessions that exceed the retention limits cannot be read; all of them stay");
        }
        Err(_) => return,
    };
    if chosen.is_empty() {
        return;
    }
    match sessions::dispose_of_chosen(host, chosen).await {
        Ok(gone) => {
            for session in gone {
                tracing::info!(
                    session = session.uri,
                    bytes = session.bytes,
                    reason = session.reason,
                    "deleted a session that exceeds a limit of [retention]"
                );
            }
        }
        Err(failure) => tracing::warn!(%failure, "sessions that exceed the retention limits could not be deleted"),
    }
}

fn choose(file: &std::path::Path, retention: Retention) -> Result<Vec<PrunedSession>, StoreError> {
    let policy = retention.policy(jiff::Timestamp::now());
    Archive::open(file, Mode::ReadOnly)?.prune(&policy, true)
}
