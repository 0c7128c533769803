//! The description that a client publishes with its plugin.

use innkeeper_core::{CustomizationCommand, Effect};
use serde_json::{Value, json};

use super::*;

const PLUGIN: &str = "virtual://c/p";

/// A plugin as a client publishes it, under an id and a name of its own.
fn published() -> Value {
    json!({ "type": "plugin", "id": "mine", "uri": PLUGIN, "name": "The P of c" })
}

fn publish(plugin: &Value) -> Value {
    json!({ "type": "session/activeClientSet", "activeClient": { "clientId": "c", "tools": [], "customizations": [plugin] } })
}

/// The same plugin as the finder reports it.
fn found() -> Value {
    json!({ "type": "plugin", "id": "host-id", "uri": PLUGIN, "name": "p", "clientId": "c", "load": { "kind": "loaded" }, "children": [skill("s")] })
}

fn follows(stage: &Stage) -> usize {
    let is_follow = |effect: &&Effect| matches!(effect, Effect::Customizations(CustomizationCommand::Follow { .. }));
    stage.agent.iter().filter(is_follow).count()
}

#[test]
fn cus22_a_plugin_without_a_nonce_is_read_again_each_time_it_is_published() {
    let (mut stage, conn, _) = stage();
    stage.dispatch(conn, SESSION, 1, publish(&published()));
    let before = follows(&stage);
    // The first repetition is acknowledged and the second one met with silence; both are publications.
    for seq in 2..4 {
        stage.dispatch(conn, SESSION, seq, publish(&published()));
    }
    assert_eq!(follows(&stage), before + 2);
    stage.told(conn);
    stage.dispatch(conn, SESSION, 5, publish(&published()));
    assert!(
        stage.told(conn).is_empty(),
        "DSP-15: no client is notified, so no loop can form"
    );
}

#[test]
fn cus22_a_plugin_with_a_nonce_is_read_again_when_the_nonce_changes() {
    let (mut stage, conn, _) = stage();
    let mut plugin = published();
    plugin["nonce"] = json!("1");
    stage.dispatch(conn, SESSION, 1, publish(&plugin));
    let before = follows(&stage);
    stage.dispatch(conn, SESSION, 2, publish(&plugin));
    assert_eq!(follows(&stage), before);
    plugin["nonce"] = json!("2");
    stage.dispatch(conn, SESSION, 3, publish(&plugin));
    assert_eq!(follows(&stage), before + 1);
}

#[test]
fn cus22_a_plugin_has_the_name_and_icons_of_its_client() {
    let (mut stage, conn, _) = stage();
    let mut plugin = published();
    plugin["icons"] = json!([{ "src": "https://example.org/p.png" }]);
    stage.dispatch(conn, SESSION, 1, publish(&plugin));
    stage.found(SESSION, json!([found()]));
    let shown = stage.shown(SESSION)[0].clone();
    assert_eq!(shown["name"], "The P of c");
    assert_eq!(shown["icons"], plugin["icons"]);
    assert_eq!(
        shown["_meta"]["innkeeper.name"], "p",
        "its skills are called by its own name"
    );
    plugin["name"] = json!("Another name");
    stage.dispatch(conn, SESSION, 2, publish(&plugin));
    let shown = stage.shown(SESSION)[0].clone();
    assert_eq!(shown["name"], "Another name");
    assert_eq!(shown["_meta"]["innkeeper.name"], "p");
    stage.told(conn);
    stage.found(SESSION, json!([found()]));
    assert!(stage.told(conn).is_empty(), "P19: the same again is no news");
}

#[test]
fn cus22_an_icon_that_is_too_large_stays_with_its_client() {
    let (mut stage, conn, _) = stage();
    let mut plugin = published();
    plugin["icons"] = json!([{ "src": format!("data:image/png;base64,{}", "A".repeat(20 << 10)) }]);
    stage.dispatch(conn, SESSION, 1, publish(&plugin));
    stage.found(SESSION, json!([found()]));
    assert_eq!(stage.shown(SESSION)[0]["icons"], Value::Null);
}

#[test]
fn cus12_a_client_may_switch_its_plugin_by_the_id_that_it_published() {
    let (mut stage, conn, _) = stage();
    stage.dispatch(conn, SESSION, 1, publish(&published()));
    stage.found(SESSION, json!([found()]));
    stage.told(conn);
    stage.toggle(conn, SESSION, "mine", json!([in_session(false)]));
    let told = stage.told(conn);
    assert_eq!(
        told[0],
        toggle("host-id", json!([in_session(false)])),
        "under the id that every client knows"
    );
    assert_eq!(stage.shown(SESSION)[0]["enablement"], json!([in_session(false)]));
    stage.toggle(conn, SESSION, "nothing", json!([in_session(false)]));
    assert!(stage.told(conn).iter().all(|action| action["reason"].is_null()));
}

#[test]
fn cus12_of_two_clients_that_publish_one_id_each_means_its_own_plugin() {
    let (mut stage, conn, _) = stage();
    let other = stage.client("d", &[SESSION]);
    stage.dispatch(conn, SESSION, 1, publish(&published()));
    let of_other = json!({ "type": "plugin", "id": "mine", "uri": "virtual://d/p", "name": "p" });
    let publish_other = json!({ "type": "session/activeClientSet", "activeClient": { "clientId": "d", "tools": [], "customizations": [of_other] } });
    stage.dispatch(other, SESSION, 1, publish_other);
    let mut second = found();
    second["id"] = json!("other-id");
    second["clientId"] = json!("d");
    second["uri"] = json!("virtual://d/p");
    stage.found(SESSION, json!([found(), second]));
    stage.toggle(other, SESSION, "mine", json!([in_session(false)]));
    let shown = stage.shown(SESSION);
    assert_eq!(shown[0]["enablement"], Value::Null);
    assert_eq!(shown[1]["enablement"], json!([in_session(false)]));
}
