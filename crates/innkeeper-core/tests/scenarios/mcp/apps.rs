//! Clients that show MCP Apps and clients that do not see the same session differently, and each of
//! them sees what its own snapshot shows (MCP-14, E-58).

use ahp::reducers::apply_action_to_session;
use ahp_types::actions::StateAction;
use ahp_types::state::SessionState;

use super::*;

/// A client's mirror of a session: a snapshot, and the actions after it.
struct Mirror {
    conn: ConnId,
    state: SessionState,
    last: u64,
}

impl Mirror {
    fn of(stage: &mut Stage, conn: ConnId) -> Self {
        let answer = stage.subscribe(conn, SESSION);
        let snapshot = &answer["result"]["snapshot"];
        Self {
            conn,
            state: serde_json::from_value(snapshot["state"].clone()).expect("a session"),
            last: snapshot["fromSeq"].as_u64().expect("a number"),
        }
    }

    fn apply(&mut self, envelope: &Value) {
        if envelope["channel"] == SESSION {
            let action: StateAction = serde_json::from_value(envelope["action"].clone()).expect("an action");
            apply_action_to_session(&mut self.state, &action);
        }
        self.last = envelope["serverSeq"].as_u64().expect("a number");
    }

    fn read(&mut self, stage: &mut Stage) {
        for envelope in stage.actions(self.conn) {
            self.apply(&envelope);
        }
    }

    /// Compares with the snapshot of a client that subscribes now.
    fn check(&mut self, stage: &mut Stage, newcomer: ConnId) -> Value {
        self.read(stage);
        let fresh = Self::of(stage, newcomer).state;
        assert_eq!(self.state, fresh);
        stage.unsubscribe(newcomer, SESSION);
        stage.inbox(newcomer);
        serde_json::to_value(fresh.customizations).expect("JSON")
    }
}

/// A session, and a client of either kind.
fn both() -> (Stage, Mirror, Mirror) {
    let (mut stage, _, _) = Stage::serving(two_servers());
    let conn = stage.app_client("apps", &[]);
    let apps = Mirror::of(&mut stage, conn);
    let conn = stage.client("plain", &[]);
    let plain = Mirror::of(&mut stage, conn);
    (stage, apps, plain)
}

fn mentions_apps(shown: &Value) -> bool {
    let text = shown.to_string();
    text.contains("mcpApp") || text.contains("mcp://")
}

#[test]
fn e58_mcp14_clients_with_and_without_apps_match_their_snapshots() {
    let (mut stage, mut apps, mut plain) = both();
    let new_apps = stage.app_client("new-apps", &[]);
    let new_plain = stage.client("new-plain", &[]);
    let with = |apps| ServerStatus::Ready { apps: Some(apps) };
    let steps: [&dyn Fn(&mut Stage); 8] = [
        &|stage| stage.does("inner", with(all_apps())),
        &|stage| stage.does("top", with(AppCapabilities::default())),
        &|stage| stage.does("inner", with(AppCapabilities::default())),
        &|stage| stage.found(SESSION, json!([plugin("p", &[server("inner")]), server("top")])),
        &|stage| stage.does("top", failed("it crashed")),
        &|stage| {
            let conn = stage.client("c2", &[SESSION]);
            stage.dispatch(conn, SESSION, 1, start("inner"));
        },
        &|stage| stage.does("inner", ready()),
        &|stage| stage.found(SESSION, json!([])),
    ];
    let mut seen = false;
    for step in steps {
        step(&mut stage);
        seen |= mentions_apps(&apps.check(&mut stage, new_apps));
        assert!(!mentions_apps(&plain.check(&mut stage, new_plain)));
    }
    assert!(seen, "there was something to see");
}

#[test]
fn e58_rec09_a_replay_uses_the_dialect_of_each_client() {
    let (mut stage, mut apps, mut plain) = both();
    apps.read(&mut stage);
    plain.read(&mut stage);
    stage.disconnect(apps.conn);
    stage.disconnect(plain.conn);
    stage.does("inner", ServerStatus::Ready { apps: Some(all_apps()) });
    for (name, mirror, sees_apps) in [("apps", apps, true), ("plain", plain, false)] {
        let mut mirror = mirror;
        mirror.conn = stage.connect();
        let answer = stage.reconnect(mirror.conn, name, mirror.last, &[SESSION]);
        let replayed = answer["result"]["actions"].as_array().expect("a replay").clone();
        assert_eq!(replayed.len(), 2, "the apps, and the state");
        assert_eq!(mentions_apps(&answer), sees_apps, "{answer}");
        for envelope in &replayed {
            mirror.apply(envelope);
        }
        let newcomer = match sees_apps {
            true => stage.app_client("another", &[]),
            false => stage.client("others", &[]),
        };
        mirror.check(&mut stage, newcomer);
    }
}

#[test]
fn e58_a_client_that_changes_its_dialect_gets_a_snapshot() {
    let (mut stage, mut apps, _) = both();
    stage.does("inner", ServerStatus::Ready { apps: Some(all_apps()) });
    apps.read(&mut stage);
    // The same client, with another connection that does not show apps: that is what holds now.
    let other = stage.client("apps", &[]);
    stage.disconnect(apps.conn);
    stage.disconnect(other);
    let conn = stage.connect();
    let answer = stage.reconnect(conn, "apps", apps.last, &[SESSION]);
    assert_eq!(answer["result"]["type"], "snapshot", "{answer}");
    assert!(!mentions_apps(&answer));
}

#[test]
fn mcp14_a_stopped_server_has_no_apps_unlike_one_that_needs_scopes() {
    use innkeeper_core::agent::{AuthReason, AuthRequirement};

    let (mut stage, mut apps, mut plain) = both();
    let driver = stage.client("driver", &[SESSION]);
    let new_apps = stage.app_client("new-apps", &[]);
    let new_plain = stage.client("new-plain", &[]);
    let needs = |reason| {
        ServerStatus::AuthRequired(Box::new(AuthRequirement {
            reason,
            resource: "https://a.test".to_owned(),
            scopes: vec!["admin".to_owned()],
            ..AuthRequirement::default()
        }))
    };
    let with_apps = || ServerStatus::Ready { apps: Some(all_apps()) };
    let mut shown = |stage: &mut Stage| {
        assert!(!mentions_apps(&plain.check(stage, new_plain)));
        let all = apps.check(stage, new_apps);
        let mut entries = all.as_array().expect("customizations").iter();
        let top = entries
            .rfind(|entry| entry["id"] == "top")
            .expect("it is there")
            .clone();
        (top["mcpApp"].is_object(), top["channel"].is_string())
    };
    stage.does("top", with_apps());
    assert_eq!(shown(&mut stage), (true, true));
    stage.does("top", needs(AuthReason::InsufficientScope));
    assert_eq!(stage.state_of("top")["requiredScopes"], json!(["admin"]));
    assert_eq!(shown(&mut stage), (true, true), "it still serves what its token grants");
    for status in [failed("it crashed"), needs(AuthReason::Expired), ServerStatus::Stopped] {
        stage.does("top", with_apps());
        assert_eq!(shown(&mut stage), (true, true));
        stage.does("top", status);
        assert_eq!(shown(&mut stage), (false, false));
    }
    stage.does("top", with_apps());
    stage.dispatch(driver, SESSION, 1, stop("top"));
    assert_eq!(shown(&mut stage), (false, false), "a user stopped it");
}
