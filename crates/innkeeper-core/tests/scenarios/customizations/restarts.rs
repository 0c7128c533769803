//! Decisions survive a restart, and a restored session shows its persisted customizations.

use innkeeper_core::{CoreConfig, CustomizationCommand, Effect};
use serde_json::{Value, json};

use super::*;

const IDLE_MS: u64 = 10 * 60_000;

fn config() -> CoreConfig {
    CoreConfig {
        serves_customizations: true,
        ..CoreConfig::default()
    }
}

/// A session on a host with a store, in which this was found.
fn kept_session(list: &Value) -> (Stage, ConnId) {
    let mut stage = Stage::opening(PersistedState::default(), config());
    let conn = stage.client("c", &[]);
    stage.session_in_workspace(conn, SESSION);
    stage.keep_session(conn, SESSION);
    stage.subscribe(conn, SESSION);
    stage.found(SESSION, list.clone());
    stage.inbox(conn);
    (stage, conn)
}

fn list() -> Value {
    json!([plugin("p", &[skill("s"), server("m")]), directory("d", &[skill("t")])])
}

#[test]
fn p19_after_a_restart_a_session_shows_its_old_list_until_discovery_ends() {
    let (mut stage, _) = kept_session(&list());
    let shown = stage.shown(SESSION);
    let mut stage = stage.restart(config());
    let conn = stage.client("c", &[SESSION]);
    stage.inbox(conn);
    let mut loading = directory("d", &[]);
    loading["load"] = json!({ "kind": "loading" });
    stage.announced(SESSION, json!([loading]));
    assert!(stage.told(conn).is_empty(), "no plugin goes and comes back");
    assert_eq!(stage.shown(SESSION), shown);
}

#[test]
fn cus16_p1_decisions_of_every_scope_survive_a_crash() {
    let (mut stage, conn) = kept_session(&list());
    stage.toggle(conn, SESSION, "p", json!([globally(false), in_session(true)]));
    stage.toggle(conn, SESSION, "s", json!([in_session(false)]));
    stage.toggle(conn, SESSION, "m", json!([in_workspace(false)]));
    stage.toggle(conn, SESSION, "t", json!([globally(false)]));
    let shown = stage.shown(SESSION);
    let was_promised = stage.persisted.as_ref().is_some_and(|kept| kept.root_was_promised);
    assert!(was_promised, "no client sees it before it is durable");
    let mut stage = stage.restart(config());
    let conn = stage.client("c", &[SESSION]);
    assert_eq!(
        stage.shown(SESSION),
        shown,
        "it shows the persisted list until discovery reports"
    );
    stage.inbox(conn);
    stage.found(SESSION, list());
    assert!(
        stage.told(conn).is_empty(),
        "what is the same after a restart is no news"
    );
    stage.found(SESSION, json!([]));
    stage.found(SESSION, list());
    assert_eq!(
        stage.shown(SESSION),
        shown,
        "P18: decisions outlive what they are about"
    );
    let other = stage.client("other", &[]);
    stage.session_in_workspace(other, "ahp-session:/two");
    stage.found("ahp-session:/two", list());
    let shown = stage.shown("ahp-session:/two");
    assert_eq!(shown[0]["enablement"], json!([globally(false)]));
    assert_eq!(shown[0]["children"][1]["enablement"], json!([in_workspace(false)]));
    assert_eq!(shown[1]["children"][0]["enabled"], json!(false));
}

#[test]
fn e31_a_decision_that_a_toggle_did_not_name_survives_a_crash() {
    let (mut stage, conn) = kept_session(&list());
    stage.toggle(conn, SESSION, "s", json!([in_session(true)]));
    stage.toggle(conn, SESSION, "s", json!([globally(false)]));
    stage.toggle(conn, SESSION, "t", json!([in_session(false)]));
    stage.toggle(conn, SESSION, "t", json!([]));
    stage.toggle(conn, SESSION, "t", json!([in_workspace(false)]));
    let mut stage = stage.restart(config());
    stage.client("c", &[SESSION]);
    stage.found(SESSION, list());
    let is_on = |flag: &Value| flag.as_bool().unwrap_or(true);
    let shown = stage.shown(SESSION);
    assert!(is_on(&shown[0]["children"][0]["enabled"]), "the session said so");
    assert!(
        !is_on(&shown[1]["children"][0]["enabled"]),
        "the session takes no part in it"
    );
}

#[test]
fn cus16_a_reloaded_session_applies_decisions_made_meanwhile() {
    let (mut stage, conn) = kept_session(&list());
    stage.unsubscribe(conn, SESSION);
    let followed = stage.wanted(SESSION).expect("followed").0;
    stage.pass(2 * IDLE_MS);
    let forgotten = stage
        .agent
        .iter()
        .any(|effect| matches!(effect, Effect::Customizations(CustomizationCommand::Unfollow { session, .. }) if *session == followed));
    assert!(forgotten, "discovery stops for an unused session");
    assert!(stage.core.snapshot(SESSION).is_none());
    stage.session_in_workspace(conn, "ahp-session:/two");
    stage.subscribe(conn, "ahp-session:/two");
    stage.found("ahp-session:/two", list());
    stage.toggle(conn, "ahp-session:/two", "p", json!([in_workspace(false)]));
    let answer = stage.subscribe(conn, SESSION);
    let shown = &answer["result"]["snapshot"]["state"]["customizations"];
    assert_eq!(shown[0]["enablement"], json!([in_workspace(false)]));
    assert_ne!(stage.wanted(SESSION).expect("followed again").0, followed);
}

#[test]
fn cus18_a_host_without_a_finder_shows_nothing_and_forgets_no_decision() {
    let (mut stage, conn) = kept_session(&list());
    stage.toggle(conn, SESSION, "s", json!([in_session(false)]));
    let shown = stage.shown(SESSION);
    let mut stage = stage.restart(CoreConfig::default());
    stage.client("c", &[SESSION]);
    assert_eq!(stage.shown(SESSION), json!([]), "no agent would get any of it");
    let mut stage = stage.restart(config());
    stage.client("c", &[SESSION]);
    stage.found(SESSION, list());
    assert_eq!(stage.shown(SESSION), shown);
}

#[test]
fn p19_a_server_of_an_earlier_process_is_not_shown_as_running() {
    let mut running = list();
    running[0]["children"][1]["state"] = json!({ "kind": "ready" });
    running[0]["children"][1]["channel"] = json!("mcp://earlier");
    let (mut stage, _) = kept_session(&running);
    let mut stage = stage.restart(config());
    stage.client("c", &[SESSION]);
    stage.found(SESSION, list());
    assert_eq!(stage.shown(SESSION), list());
}
