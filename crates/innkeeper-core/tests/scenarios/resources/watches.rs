//! Watches: a client that loses access gets no more events, and the watch ends with the last client that has access.

use innkeeper_core::request::CreateSession;
use innkeeper_core::resources::{
    Allow, BrowsePolicy, ChangeKind, GrantCommand, ResourceChange, WatchCommand, WatchInput, WatchSpec,
};
use innkeeper_core::{
    ClientId, Command, ConnId, CoreConfig, Effect, Input, Principal, RequestId, ResourceCommand, Scope,
};
use serde_json::{Value, json};

use crate::harness::{SESSION, Stage, announce, error, new_session};

const PLACE: &str = "file:///srv/project";
const GRANTED: &str = "file:///srv/granted";

/// A host whose clients watch only where they have access.
fn stage() -> Stage {
    with_browsing(BrowsePolicy::Deny)
}

fn with_browsing(resource_browsing: BrowsePolicy) -> Stage {
    Stage::with(CoreConfig {
        serves_resources: true,
        resource_browsing,
        ..CoreConfig::default()
    })
}

fn create(stage: &mut Stage, conn: ConnId) {
    let create = CreateSession {
        working_directories: vec![PLACE.to_owned()],
        ..new_session(SESSION)
    };
    let answer = stage.request(conn, Command::CreateSession(Box::new(create)));
    assert!(answer.get("error").is_none(), "{answer}");
    stage.opened(Ok(()));
}

/// A client that listens to the session, and a watch of where that works, which it subscribes to.
fn watching(stage: &mut Stage, name: &str) -> (ConnId, Watch) {
    let conn = stage.client(name, &[]);
    create(stage, conn);
    stage.subscribe(conn, SESSION);
    let watch = open(stage, conn, PLACE);
    let answer = stage.subscribe(conn, &watch.channel);
    assert!(answer.get("error").is_none(), "{answer}");
    (conn, watch)
}

struct Watch {
    number: u64,
    channel: String,
}

fn open(stage: &mut Stage, conn: ConnId, uri: &str) -> Watch {
    let spec = WatchSpec {
        uri: uri.to_owned(),
        recursive: true,
        includes: None,
        excludes: None,
    };
    stage.handle(Input::Request {
        conn,
        id: RequestId::number(900),
        command: WatchCommand::Create(Box::new(spec)).into(),
    });
    let Some(Effect::Resources(ResourceCommand::OpenWatch {
        id,
        watch,
        spec,
        reaches,
        ..
    })) = stage.agent.pop()
    else {
        panic!("nothing is watched: {:?}", stage.inbox(conn))
    };
    let outcome = Ok(uri.to_owned());
    assert!(reaches.iter().any(|reach| reach.uri == uri), "{reaches:?}");
    let opened = WatchInput::Opened {
        conn,
        id,
        watch,
        spec,
        outcome,
    };
    stage.handle(opened.into());
    let answer = stage.inbox(conn).pop().expect("an answer");
    let channel = answer["result"]["channel"].as_str().expect("a channel").to_owned();
    Watch { number: watch, channel }
}

/// Changes the resource; returns whether a connection is notified.
fn is_told(stage: &mut Stage, watch: &Watch, conn: ConnId) -> bool {
    stage.inbox(conn);
    let changes = vec![ResourceChange {
        uri: format!("{PLACE}/x"),
        kind: ChangeKind::Updated,
    }];
    let changed = WatchInput::Changed {
        watch: watch.number,
        changes,
    };
    stage.handle(changed.into());
    let heard = stage.actions(conn);
    heard.iter().any(|action| action["channel"] == watch.channel.as_str())
}

fn is_released(stage: &mut Stage, watch: &Watch) -> bool {
    let mut effects = stage.agent.iter();
    effects.any(|effect| matches!(effect, Effect::Resources(ResourceCommand::CloseWatch { watch: number }) if *number == watch.number))
}

#[test]
fn sec03_wch06_a_watch_ends_when_its_owner_leaves_the_admitting_session() {
    let mut stage = stage();
    let (conn, watch) = watching(&mut stage, "c");
    assert!(is_told(&mut stage, &watch, conn));
    stage.unsubscribe(conn, SESSION);
    assert!(is_released(&mut stage, &watch));
    assert!(!is_told(&mut stage, &watch, conn));
    assert_eq!(error(&stage.subscribe(conn, &watch.channel)).0, -32008);
}

/// One of several ways to have access is enough: being an active client, or subscribing to a chat.
#[test]
fn sec03_a_watch_goes_on_while_its_owner_has_another_way_to_the_place() {
    let mut stage = stage();
    let (conn, watch) = watching(&mut stage, "c");
    let chat = stage.state(SESSION)["defaultChat"].as_str().expect("a chat").to_owned();
    stage.subscribe(conn, &chat);
    stage.dispatch(conn, SESSION, 1, announce("c"));
    stage.unsubscribe(conn, SESSION);
    assert!(is_told(&mut stage, &watch, conn), "the chat is of that session");
    stage.unsubscribe(conn, &chat);
    assert!(is_released(&mut stage, &watch));
}

/// VS Code leaves a session when it shows another one, and watches the folder once.
#[test]
fn wch06_a_watch_goes_on_while_its_owner_may_browse() {
    let mut stage = with_browsing(BrowsePolicy::Admin);
    let (conn, watch) = watching(&mut stage, "c");
    stage.unsubscribe(conn, SESSION);
    assert!(is_told(&mut stage, &watch, conn));
}

#[test]
fn sec03_a_watch_without_subscribers_ends_too() {
    let mut stage = stage();
    let conn = stage.client("c", &[]);
    create(&mut stage, conn);
    stage.subscribe(conn, SESSION);
    let watch = open(&mut stage, conn, PLACE);
    stage.unsubscribe(conn, SESSION);
    assert!(is_released(&mut stage, &watch));
}

/// Each subscriber needs access of its own; the watch belongs to those who still have it.
#[test]
fn sec03_wch06_other_clients_with_access_keep_the_watch() {
    let mut stage = stage();
    let (owner, watch) = watching(&mut stage, "owner");
    let second = stage.client("second", &[SESSION]);
    let third = stage.client("third", &[SESSION]);
    for conn in [second, third] {
        stage.subscribe(conn, &watch.channel);
    }
    stage.unsubscribe(second, SESSION);
    assert!(!is_told(&mut stage, &watch, second), "it left");
    assert!(is_told(&mut stage, &watch, owner));
    stage.unsubscribe(owner, SESSION);
    assert!(!is_released(&mut stage, &watch));
    assert!(!is_told(&mut stage, &watch, owner));
    assert!(is_told(&mut stage, &watch, third));
    stage.unsubscribe(third, SESSION);
    assert!(is_released(&mut stage, &watch));
}

#[test]
fn sec03_a_watch_ends_with_the_session() {
    let mut stage = stage();
    let (conn, watch) = watching(&mut stage, "c");
    stage.dispose(conn, SESSION);
    assert!(is_released(&mut stage, &watch));
}

/// A client that comes back in time finds its watch (WCH-07), also one that is made known to the
/// session by another of its connections; afterwards it can leave as ever.
#[test]
fn wch07_sec03_a_client_that_comes_back_keeps_its_watch_until_it_leaves() {
    let mut stage = stage();
    let (conn, watch) = watching(&mut stage, "c");
    let seen = stage.core.seq().0;
    stage.disconnect(conn);
    assert!(!is_told(&mut stage, &watch, conn));
    let back = stage.connect();
    let answer = stage.reconnect(back, "c", seen, &[SESSION, &watch.channel]);
    assert!(answer.get("error").is_none(), "{answer}");
    assert!(is_told(&mut stage, &watch, back));
    // It was created on a connection that has ended.
    stage.unsubscribe(back, SESSION);
    assert!(is_released(&mut stage, &watch));
}

/// A watch without a subscriber is released (E-56), and so is one whose answer got lost with the connection.
#[test]
fn wch07_a_watch_without_subscribers_is_released_after_its_lease() {
    for stays in [true, false] {
        let mut stage = stage();
        let conn = stage.client("c", &[]);
        create(&mut stage, conn);
        stage.dispatch(conn, SESSION, 1, announce("c"));
        stage.subscribe(conn, SESSION);
        let watch = open(&mut stage, conn, PLACE);
        if !stays {
            stage.disconnect(conn);
        }
        let lease_ms = CoreConfig::default().watch_lease_ms;
        stage.pass(lease_ms - 1);
        assert!(!is_released(&mut stage, &watch), "it has its time: {stays}");
        stage.pass(1);
        assert!(is_released(&mut stage, &watch), "{stays}");
        if stays {
            assert_eq!(error(&stage.subscribe(conn, &watch.channel)).0, -32008);
        }
    }
}

#[test]
fn wch07_a_lease_keeps_a_subscribed_watch_and_a_lost_subscriber_has_grace() {
    let mut stage = stage();
    let (conn, watch) = watching(&mut stage, "c");
    stage.pass(CoreConfig::default().watch_lease_ms + 1);
    assert!(is_told(&mut stage, &watch, conn), "it has a subscriber");
    stage.disconnect(conn);
    let grace_ms = CoreConfig::default().grace_ms;
    stage.pass(grace_ms - 1);
    assert!(!is_released(&mut stage, &watch), "it may come back");
    stage.pass(2);
    assert!(is_released(&mut stage, &watch));
}

/// Watches are counted by client, and the slot of a released one is free again.
#[test]
fn wch07_sec04_a_lease_that_is_over_makes_room_for_another_watch() {
    let config = CoreConfig {
        serves_resources: true,
        max_watches: 1,
        ..CoreConfig::default()
    };
    let lease_ms = config.watch_lease_ms;
    let mut stage = Stage::with(config);
    let conn = stage.client("c", &[]);
    create(&mut stage, conn);
    stage.subscribe(conn, SESSION);
    let first = open(&mut stage, conn, PLACE);
    let more = WatchCommand::Create(Box::new(WatchSpec {
        uri: PLACE.to_owned(),
        recursive: false,
        includes: None,
        excludes: None,
    }));
    assert_eq!(error(&stage.request(conn, more.into())).0, -32602);
    stage.pass(lease_ms);
    assert!(is_released(&mut stage, &first));
    open(&mut stage, conn, PLACE);
}

#[test]
fn res15_sec03_a_watch_ends_when_the_grant_is_taken_back_or_over() {
    for is_revoked in [true, false] {
        let mut stage = stage();
        let conn = stage.client("c", &[]);
        let allow = GrantCommand::Allow(Allow {
            client: ClientId::new("c"),
            uri: GRANTED.to_owned(),
            write: false,
        });
        let answer = stage.request(conn, Command::Grants(Box::new(allow)));
        assert_eq!(answer["result"], json!({}));
        let watch = open(&mut stage, conn, GRANTED);
        let answer: Value = stage.subscribe(conn, &watch.channel);
        assert!(answer.get("error").is_none(), "{answer}");
        // The watch was created on a connection that has ended; another one has it.
        let other = stage.connect();
        stage.initialize(other, "c", &["1.0.0"], &[&watch.channel]);
        stage.disconnect(conn);
        assert!(is_told(&mut stage, &watch, other));
        if is_revoked {
            let revoke = GrantCommand::Revoke {
                client: ClientId::new("c"),
                uri: None,
            };
            stage.request(other, Command::Grants(Box::new(revoke)));
            assert!(is_released(&mut stage, &watch));
        } else {
            stage.pass(CoreConfig::default().resource_grant_ms + 1);
        }
        assert!(!is_told(&mut stage, &watch, other), "revoked: {is_revoked}");
        assert!(is_released(&mut stage, &watch));
    }
}

/// Access to a watch does not depend on the position of its session in a list.
#[test]
fn sec03_wch04_a_watch_is_subscribed_after_its_session() {
    let mut stage = stage();
    let (_owner, watch) = watching(&mut stage, "owner");
    for (name, channels) in [
        ("first", [SESSION, &watch.channel]),
        ("second", [&watch.channel, SESSION]),
    ] {
        let conn = stage.client(name, &channels);
        assert!(is_told(&mut stage, &watch, conn), "{name}");
        let seen = stage.core.seq().0;
        stage.disconnect(conn);
        let back = stage.connect();
        let answer = stage.reconnect(back, name, seen, &channels);
        assert!(answer.get("error").is_none(), "{answer}");
        assert!(is_told(&mut stage, &watch, back), "{name} is back");
    }
}

/// A client chooses its id, so that one credential could have any number of watches.
#[test]
fn sec04_the_clients_of_one_principal_have_a_bound_together() {
    let mut stage = Stage::with(CoreConfig {
        serves_resources: true,
        max_watches: 1,
        ..CoreConfig::default()
    });
    let first = stage.client("c0", &[]);
    create(&mut stage, first);
    stage.subscribe(first, SESSION);
    open(&mut stage, first, PLACE);
    for index in 1..4 {
        let conn = stage.client(&format!("c{index}"), &[SESSION]);
        open(&mut stage, conn, PLACE);
    }
    let one_more = stage.client("c4", &[SESSION]);
    let watch = WatchCommand::Create(Box::new(WatchSpec {
        uri: PLACE.to_owned(),
        recursive: false,
        includes: None,
        excludes: None,
    }));
    let answer = stage.request(one_more, watch.into());
    let (code, problem) = error(&answer);
    assert_eq!(code, -32602);
    assert!(problem.contains("credential"), "{problem}");
    let other = stage.connect_as(Principal::new("token:view", Scope::View));
    stage.initialize(other, "other", &["1.0.0"], &[SESSION]);
    open(&mut stage, other, PLACE);
}
