//! F19: data directories that belong to another user, cannot be written to, or vanish.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;

use innkeeper_testkit::disk::SmallDisk;
use innkeeper_testkit::official::OfficialClient;
use innkeeper_testkit::process::{HostProcess, StoppedHost};
use innkeeper_testkit::raw::get;

use crate::durable::busy_session::title;
use crate::durable::{options, start_with_client, writable_again};

/// A host that has kept a session with a turn, and was stopped.
async fn stopped_with_a_session() -> StoppedHost {
    let (host, client) = start_with_client().await;
    let uris = client.create_session("kept").await;
    client.run_turn(&uris.chat, "t1", "hello").await;
    host.stop().await
}

async fn still_there(host: &HostProcess) {
    let reader = OfficialClient::connect(host.address(), "reader").await;
    let uris = reader.join("ahp-session:/kept").await;
    assert_eq!(reader.chat(&uris.chat).turns.len(), 1);
    reader.assert_converged().await;
}

/// The host refuses to start, says why in these words, and leaves the file as it is.
async fn assert_refused(stopped: &StoppedHost, file: &Path, words: &str) {
    let before = std::fs::read(file).expect("readable");
    let beside = names_beside(file);
    let Err(refused) = stopped.try_start().await else {
        panic!("the host started, and was to say: {words}");
    };
    assert_eq!(refused.status.code(), Some(73), "{}", refused.log);
    assert!(refused.log.contains(words), "{}", refused.log);
    assert!(
        refused.log.contains("sessions.db"),
        "it names the file: {}",
        refused.log
    );
    assert!(!refused.log.contains("panicked"), "{}", refused.log);
    assert!(std::fs::read(file).expect("readable") == before, "the file was touched");
    assert_eq!(names_beside(file), beside, "something appeared or vanished beside it");
}

fn names_beside(file: &Path) -> BTreeSet<OsString> {
    let entries = std::fs::read_dir(file.parent().expect("a directory")).expect("readable");
    entries.map(|entry| entry.expect("readable").file_name()).collect()
}

#[tokio::test]
async fn f19_a_second_host_names_the_owner_of_the_directory() {
    let (host, client) = start_with_client().await;
    let uris = client.create_session("kept").await;
    let second = host.start_second().await.expect_err("a second host is refused");
    assert_eq!(second.status.code(), Some(75), "{}", second.log);
    let holder = std::fs::read_to_string(host.data_path("lock")).expect("readable");
    let holder: serde_json::Value = serde_json::from_str(&holder).expect("JSON");
    let named = format!("is in use by process {}", holder["pid"]);
    assert!(second.log.contains(&named), "{}", second.log);
    client.run_turn(&uris.chat, "t1", "undisturbed").await;
    client.assert_converged().await;
}

#[tokio::test]
async fn f19_a_stale_lock_with_a_reused_pid_is_no_obstacle() {
    let (host, client) = start_with_client().await;
    let uris = client.create_session("kept").await;
    client.run_turn(&uris.chat, "t1", "hello").await;
    let killed = host.kill().await;
    // This very process has the number that the file names.
    let holder = format!(
        "{{\"pid\":{},\"startedAt\":\"2026-01-01T00:00:00Z\"}}\n",
        std::process::id()
    );
    std::fs::write(killed.data_path("lock"), holder).expect("writable");
    still_there(&killed.start().await).await;
}

#[tokio::test]
async fn f19_a_file_of_a_newer_version_is_refused_and_left_alone() {
    let stopped = stopped_with_a_session().await;
    let file = stopped.data_path("sessions.db");
    let good = std::fs::read(&file).expect("readable");
    let mut newer = good.clone();
    newer[60..64].copy_from_slice(&99_u32.to_be_bytes());
    std::fs::write(&file, newer).expect("writable");
    assert_refused(&stopped, &file, "a newer version wrote it").await;
    std::fs::write(&file, good).expect("writable");
    still_there(&stopped.start().await).await;
}

#[tokio::test]
async fn f19_files_of_others_are_refused_and_left_alone() {
    let stopped = stopped_with_a_session().await;
    let file = stopped.data_path("sessions.db");
    let good = std::fs::read(&file).expect("readable");
    let mut foreign = good.clone();
    foreign[68..72].copy_from_slice(b"MINE");
    std::fs::write(&file, foreign).expect("writable");
    assert_refused(&stopped, &file, "it is the database of another program").await;
    std::fs::write(&file, "My diary. Do not read.\n").expect("writable");
    assert_refused(&stopped, &file, "it is not an SQLite database").await;
    std::fs::write(&file, good).expect("writable");
    still_there(&stopped.start().await).await;
}

#[tokio::test]
async fn f19_a_directory_that_vanishes_makes_the_host_read_only_and_not_crash() {
    let (mut host, mut client) = start_with_client().await;
    let uris = client.create_session("kept").await;
    client.run_turn(&uris.chat, "t1", "hello").await;
    let data = host.data_path("");
    std::fs::rename(&data, host.path("elsewhere")).expect("movable");
    client.dispatch(&uris.session, title("never kept")).await;
    let reason = client.refusal(1).await;
    assert!(reason.contains("was removed or replaced"), "{reason}");
    client.disconnected().await;
    let ready = get(host.address(), "/readyz", &[]).await;
    assert_eq!(ready.status, 503, "{}", ready.body);
    assert!(ready.body.contains("was removed or replaced"), "{}", ready.body);
    assert!(host.is_running());
    // Put back, it is used again without a restart.
    std::fs::rename(host.path("elsewhere"), &data).expect("movable");
    writable_again(&host).await;
    client.reconnect().await.expect("the host is there");
    client.run_turn(&uris.chat, "t2", "welcome back").await;
    client.assert_converged().await;
    assert_ne!(client.session(&uris.session).title, "never kept");
}

#[tokio::test]
async fn f19_a_directory_that_cannot_be_written_to_is_refused_or_only_read() {
    let disk = match SmallDisk::new(16 << 10) {
        Ok(disk) => disk,
        Err(reason) => return println!("not tried: no disk can be mounted here ({reason})"),
    };
    let host = HostProcess::start(options().data(disk.path("data"))).await;
    let mut client = OfficialClient::connect(host.address(), "first").await;
    let uris = client.create_session("kept").await;
    client.run_turn(&uris.chat, "t1", "hello").await;
    // It becomes so while the host runs. Files that are open for writing keep a disk writable, so this may be refused.
    let stopped = host.stop().await;
    disk.set_read_only(true);
    let refused = stopped.try_start().await.expect_err("nothing can be kept");
    assert_eq!(refused.status.code(), Some(73), "{}", refused.log);
    assert!(refused.log.to_lowercase().contains("read-only"), "{}", refused.log);
    disk.set_read_only(false);
    let host = stopped.start().await;
    client.disconnected().await;
    client.move_to(host.address());
    client.reconnect().await.expect("known across restarts");
    assert_eq!(client.chat(&uris.chat).turns.len(), 1);
    client.assert_converged().await;
    drop(host);
}
