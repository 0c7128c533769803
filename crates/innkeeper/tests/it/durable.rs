//! Durability of the real program: it is killed, stopped, starved, frozen, denied its disk and given damaged files, and
//! recovers everything that any client was sent.
//!
//! Promises and faults are named by their ids, and `lesson_NN` names a failure that other hosts were reported for.

#[cfg(target_os = "linux")]
mod boundaries;
mod busy_session;
mod creations;
mod damage;
mod data_dir;
mod deletion;
mod earlier_versions;
mod full_disk;
mod idle;
mod kills;
mod process_faults;
mod prompt_transform_opt_ins;
mod restarts;

use std::str::FromStr;
use std::time::Duration;

use innkeeper_testkit::official::OfficialClient;
use innkeeper_testkit::process::{HostOptions, HostProcess, TIMEOUT};
use innkeeper_testkit::raw::get;

/// A host that also says which tools of the tour execute, and which sessions leave memory.
fn options() -> HostOptions {
    HostOptions::new(env!("CARGO_BIN_EXE_innkeeper")).flags(&["--log", "info,innkeeper_host=debug"])
}

/// A host and one published client.
async fn start_with_client() -> (HostProcess, OfficialClient) {
    let host = HostProcess::start(options()).await;
    let client = OfficialClient::connect(host.address(), "first").await;
    (host, client)
}

/// Waits until a host that could not write says that it can.
async fn writable_again(host: &HostProcess) {
    let asking = async {
        while get(host.address(), "/readyz", &[]).await.status != 200 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let asked = tokio::time::timeout(TIMEOUT, asking).await;
    assert!(asked.is_ok(), "the host stays read-only: {}", host.log());
}

/// Returns a number that an environment variable may override.
fn chosen<T: FromStr>(name: &str, usual: T) -> T {
    let chosen = std::env::var(name).ok();
    chosen.map_or(usual, |text| {
        let number = text.parse();
        number.unwrap_or_else(|_| panic!("{name} is to be a number, and is {text:?}"))
    })
}
