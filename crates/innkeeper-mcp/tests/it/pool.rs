//! Shared servers.

use innkeeper_mcp::{Event, Pool, Root, Sharing, Start};
use serde_json::json;

use crate::support::{call, event, eventually, lives, odd, server_env, until_ready, with_env};

fn sharing(identity: &str, isolation: &str) -> Sharing {
    Sharing {
        identity: identity.into(),
        isolation: isolation.into(),
    }
}

#[tokio::test]
async fn the_same_server_runs_once_and_stops_with_its_last_user() {
    let starts = tempfile::NamedTempFile::new().unwrap();
    let config = with_env(odd("plain"), "ODD_STARTS", starts.path().to_str().unwrap());
    let pool = Pool::default();
    let first = pool.lease(&config, &sharing("me", "w"), server_env).unwrap();
    let second = pool.lease(&config, &sharing("me", "w"), server_env).unwrap();
    first.start(Start::Background);
    second.start(Start::Background);
    until_ready(&second).await;
    assert_eq!(std::fs::read(starts.path()).unwrap().len(), 1);
    let child: u32 = first
        .call(call("family", json!({})))
        .await
        .unwrap()
        .text()
        .parse()
        .unwrap();
    drop(first);
    assert_eq!(
        second.call(call("echo", json!({ "text": "a" }))).await.unwrap().text(),
        "a"
    );
    drop(second);
    assert!(pool.is_empty());
    if cfg!(target_os = "linux") {
        eventually(|| !lives(child)).await;
    }
}

#[tokio::test]
async fn t16_another_identity_or_another_configuration_is_another_server() {
    let pool = Pool::default();
    let config = odd("plain");
    let other = with_env(odd("plain"), "X", "y");
    let leases = [
        pool.lease(&config, &sharing("me", "w"), server_env),
        pool.lease(&config, &sharing("you", "w"), server_env),
        pool.lease(&config, &sharing("me", "session 1"), server_env),
        pool.lease(&other, &sharing("me", "w"), server_env),
        pool.lease(&config, &sharing("me", "w"), server_env),
    ];
    assert_eq!(pool.len(), 4);
    pool.stop_all().await;
    drop(leases);
    assert!(pool.is_empty());
}

#[tokio::test]
async fn a_server_starts_again_only_after_its_last_process_has_ended() {
    let directory = tempfile::tempdir().unwrap();
    let pids = directory.path().join("pids");
    // It does not end with its input.
    let config = with_env(odd("stubborn"), "ODD_PIDS", pids.to_str().unwrap());
    // With another environment it is still the same server.
    let changed = with_env(config.clone(), "X", "y");
    let pool = Pool::default();
    for config in [&config, &config, &changed] {
        let lease = pool.lease(config, &sharing("me", "w"), server_env).unwrap();
        lease.start(Start::Background);
        until_ready(&lease).await;
        let started = std::fs::read_to_string(&pids).unwrap();
        let living = started.lines().filter(|pid| lives(pid.parse().unwrap())).count();
        if cfg!(target_os = "linux") {
            assert_eq!(living, 1, "of {started:?}");
        }
    }
    pool.stop_all().await;
}

#[tokio::test]
async fn a_server_with_one_user_moves_and_is_told_the_roots() {
    let config = odd("plain");
    let pool = Pool::default();
    let lease = |isolation| pool.lease(&config, &sharing("me", isolation), server_env).unwrap();
    let (first, second) = (lease("a"), lease("a"));
    assert!(!first.share_with(&sharing("me", "b")), "another one has it too");
    drop(second);
    first.start(Start::Background);
    until_ready(&first).await;
    let mut events = first.events();
    assert!(first.share_with(&sharing("me", "b")));
    let root = Root {
        uri: "file:///b".into(),
        name: None,
    };
    first.set_roots(vec![root]).expect("it is told").await;
    let told = event(&mut events, |event| match event {
        Event::Log(log) => Some(log.data.clone()),
        _ => None,
    });
    assert_eq!(told.await, json!([{ "uri": "file:///b" }]));

    // Users of the new place share it, and users of the old place do not.
    let (there, elsewhere) = (lease("b"), lease("a"));
    assert_eq!(pool.len(), 2);
    drop(there);
    assert!(!first.share_with(&sharing("me", "a")), "there is one already");
    drop((first, elsewhere));
    assert!(pool.is_empty());
    pool.stop_all().await;
}
