//! Session files of earlier versions of the program.

use std::collections::BTreeMap;

use ahp_types::commands::ListSessionsResult;
use innkeeper_testkit::official::OfficialClient;
use innkeeper_testkit::process::{HostOptions, HostProcess};
use innkeeper_testkit::raw::RawClient;
use serde_json::json;

use crate::durable::options;

/// A file of format 1, written by a version that listed every session from its creation. Besides two empty sessions
/// it has one with a turn, one with a name, one with unsent text, one whose turn was truncated, and an archived one.
const FORMAT_1: &[u8] = include_bytes!("format_1.db");

async fn start_with_earlier_file(configure: impl FnOnce(HostOptions) -> HostOptions) -> HostProcess {
    let stopped = HostProcess::start(configure(options())).await.stop().await;
    for name in ["sessions.db-wal", "sessions.db-shm"] {
        let _ = std::fs::remove_file(stopped.data_path(name));
    }
    std::fs::write(stopped.data_path("sessions.db"), FORMAT_1).expect("writable");
    stopped.start().await
}

/// Titles by session.
async fn listed(host: &HostProcess) -> BTreeMap<String, String> {
    let mut client = RawClient::initialized(host.address(), "reader").await;
    let list = client.call("listSessions", json!({ "channel": "ahp-root://" })).await;
    let list: ListSessionsResult = serde_json::from_value(list.expect("listed")).expect("a list");
    let lines = list.items.into_iter();
    lines.map(|summary| (summary.resource, summary.title)).collect()
}

fn expected() -> BTreeMap<String, String> {
    let sessions = [
        ("archived", "New session"),
        ("named", "Garden"),
        ("truncated", "undo me"),
        ("typed", "New session"),
        ("written", "hello there"),
    ];
    let titled = sessions.map(|(name, title)| (format!("ahp-session:/{name}"), title.to_owned()));
    titled.into()
}

#[tokio::test]
async fn ses34_empty_sessions_of_an_earlier_version_are_not_listed() {
    let host = start_with_earlier_file(|options| options).await;
    assert_eq!(listed(&host).await, expected());
    let client = OfficialClient::connect(host.address(), "again").await;
    let uris = client.join("ahp-session:/written").await;
    assert_eq!(client.chat(&uris.chat).turns.len(), 1);
    client.run_turn(&uris.chat, "t9", "still here").await;
    // A window that has an empty session open still finds it, and the first message lists it.
    let empty = client.join("ahp-session:/empty").await;
    client.run_turn(&empty.chat, "t1", "hello at last").await;
    client.assert_converged().await;
    let mut now_expected = expected();
    now_expected.insert("ahp-session:/empty".to_owned(), "hello at last".to_owned());
    assert_eq!(listed(&host).await, now_expected);
    let host = host.stop().await.start().await;
    assert_eq!(listed(&host).await, now_expected);
}

#[tokio::test]
async fn ses35_empty_sessions_of_an_earlier_version_end_with_their_grace_period() {
    let host = start_with_earlier_file(|options| options.limit("grace_ms", 200)).await;
    let mut client = RawClient::initialized(host.address(), "looking").await;
    for attempt in 0.. {
        let opened = client
            .call("subscribe", json!({ "channel": "ahp-session:/empty-too" }))
            .await;
        if opened.is_err() {
            break;
        }
        assert!(attempt < 100, "the empty session is still there");
        let left = client.notify("unsubscribe", json!({ "channel": "ahp-session:/empty-too" }));
        left.await;
        tokio::time::sleep(std::time::Duration::from_millis(400)).await;
    }
    assert_eq!(listed(&host).await, expected());
}
