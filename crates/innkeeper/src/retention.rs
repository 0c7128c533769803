//! Sessions that the configuration lets go are deleted by the running host, if it is told to do that.

use std::convert::Infallible;
use std::path::PathBuf;
use std::time::Duration;

use innkeeper_cli::discovery::DataDir;
use innkeeper_host::HostHandle;
use innkeeper_store::{Archive, FILE_NAME, Mode, PrunedSession, StoreError};

use crate::config::Retention;
use crate::sessions;

/// How often the settings are applied.
const INTERVAL: Duration = Duration::from_secs(60 * 60);

/// Applies the settings now and once an hour. Clients hear of every session that goes, and one that somebody uses,
/// or that changed since it was chosen, stays.
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
    // Reading what all sessions take may take a while, and blocks.
    let choosing = tokio::task::spawn_blocking(move || choose(&file, retention));
    let chosen = match choosing.await {
        Ok(Ok(chosen)) => chosen,
        Ok(Err(error)) => return tracing::warn!(%error, "which sessions may go cannot be read; all of them stay"),
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
                    "deleted a session, as [retention] says"
                );
            }
        }
        Err(failure) => tracing::warn!(%failure, "sessions that may go could not be deleted; they stay"),
    }
}

fn choose(file: &std::path::Path, retention: Retention) -> Result<Vec<PrunedSession>, StoreError> {
    let policy = retention.policy(jiff::Timestamp::now());
    Archive::open(file, Mode::ReadOnly)?.prune(&policy, true)
}
