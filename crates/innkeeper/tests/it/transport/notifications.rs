//! Notifications of the root channel: recipients and content.

use ahp::SubscriptionEvent;
use innkeeper_testkit::official::OfficialClient;
use innkeeper_testkit::raw::RawClient;
use serde_json::{Value, json};

use crate::start_with_client;

#[tokio::test]
async fn lesson_19_notifications_reach_root_subscribers_only() {
    let (host, client) = start_with_client().await;
    let mut stranger = RawClient::initialized(host.address(), "stranger").await;
    let mut visitor = RawClient::initialized(host.address(), "visitor").await;
    visitor
        .call("subscribe", json!({ "channel": "ahp-root://" }))
        .await
        .expect("subscribed");
    visitor.notify("unsubscribe", json!({ "channel": "ahp-root://" })).await;
    visitor.still_works().await;
    visitor.notifications.clear();
    let uris = client.create_session("secret").await;
    client.run_turn(&uris.chat, "t1", "a title").await;
    client
        .until("the summary changes", |view| {
            view.notifications
                .iter()
                .any(|event| matches!(event, SubscriptionEvent::SessionSummaryChanged(_)))
        })
        .await;
    for unsubscribed in [&mut stranger, &mut visitor] {
        unsubscribed.still_works().await;
        assert_eq!(unsubscribed.notifications, Vec::<Value>::new());
    }
    client.assert_converged().await;
}

#[tokio::test]
async fn root_12_summaries_are_announced_as_differences_and_add_up_to_the_list() {
    let (host, client) = start_with_client().await;
    let mut raw = RawClient::initialized(host.address(), "raw").await;
    raw.call("subscribe", json!({ "channel": "ahp-root://" }))
        .await
        .expect("subscribed");
    let uris = client.create_session("summary").await;
    for turn in 0..5 {
        client.run_turn(&uris.chat, &format!("t{turn}"), "/stream 20 1").await;
    }
    client.run_turn(&uris.chat, "last", "/error").await;
    let added = raw
        .notification("root/sessionAdded", |message| message["method"] == "root/sessionAdded")
        .await;
    let mut summary = added["params"]["summary"].clone();
    assert_eq!(added["params"]["channel"], "ahp-root://");
    assert_eq!(summary["resource"], uris.session);
    // Changes are collected for a moment, so the last one comes a little after the last action.
    loop {
        let list = raw.call("listSessions", json!({})).await.expect("listed");
        for change in raw.notifications.drain(..) {
            if change["method"] == "root/sessionAdded" {
                summary = change["params"]["summary"].clone();
            }
            if change["method"] != "root/sessionSummaryChanged" {
                continue;
            }
            assert_eq!(change["params"]["session"], uris.session);
            let changes = change["params"]["changes"].as_object().expect("an object").clone();
            assert!(!changes.is_empty(), "an empty change: {change}");
            for (field, value) in changes {
                assert!(
                    !["resource", "provider", "createdAt"].contains(&field.as_str()),
                    "{change}"
                );
                assert_ne!(summary[&field], value, "only what changed is announced: {field}");
                summary[field] = value;
            }
        }
        if summary == list["items"][0] {
            break;
        }
        let next = raw
            .notification("another change", |message| {
                message["method"] == "root/sessionSummaryChanged"
            })
            .await;
        raw.notifications.insert(0, next);
    }
    client.assert_converged().await;
}

#[tokio::test]
async fn root_13_a_burst_of_changes_is_one_announcement() {
    let (host, client) = start_with_client().await;
    let watcher = OfficialClient::connect(host.address(), "watcher").await;
    let uris = client.create_session("burst").await;
    for number in 0..50 {
        let title = json!({ "type": "session/titleChanged", "title": format!("title {number}") });
        client.dispatch(&uris.session, title).await;
    }
    watcher
        .until("the last title is announced", |view| {
            view.notifications.iter().any(|event| match event {
                SubscriptionEvent::SessionSummaryChanged(changed) => {
                    changed.changes.title.as_deref() == Some("title 49")
                }
                _ => false,
            })
        })
        .await;
    let announcements = watcher.view().notifications.len();
    assert!(announcements < 25, "{announcements} announcements for 50 changes");
    client.assert_converged().await;
    watcher.assert_converged().await;
}
