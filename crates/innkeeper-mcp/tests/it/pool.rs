//! Servers that are shared.

use innkeeper_mcp::{Pool, Sharing, Start};
use serde_json::json;

use crate::support::{call, eventually, lives, odd, surroundings, until_ready, with_env};

fn sharing(identity: &str, isolation: &str) -> Sharing {
    Sharing {
        identity: identity.into(),
        isolation: isolation.into(),
    }
}

#[tokio::test]
async fn the_same_server_is_run_once_and_stopped_with_its_last_user() {
    let starts = tempfile::NamedTempFile::new().unwrap();
    let config = with_env(odd("plain"), "ODD_STARTS", starts.path().to_str().unwrap());
    let pool = Pool::default();
    let first = pool.lease(&config, &sharing("me", "w"), surroundings).unwrap();
    let second = pool.lease(&config, &sharing("me", "w"), surroundings).unwrap();
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
        pool.lease(&config, &sharing("me", "w"), surroundings),
        pool.lease(&config, &sharing("you", "w"), surroundings),
        pool.lease(&config, &sharing("me", "session 1"), surroundings),
        pool.lease(&other, &sharing("me", "w"), surroundings),
        pool.lease(&config, &sharing("me", "w"), surroundings),
    ];
    assert_eq!(pool.len(), 4);
    pool.stop_all().await;
    drop(leases);
    assert!(pool.is_empty());
}
