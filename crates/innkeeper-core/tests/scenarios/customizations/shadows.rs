//! Customizations that another one of the same name shadows, and customizations of every session.

use innkeeper_core::AgentProfile;
use innkeeper_core::uri::ROOT;
use serde_json::{Value, json};

use super::*;

fn marks(stage: &Stage) -> Vec<Value> {
    let shown = stage.shown(SESSION);
    let entries = shown.as_array().into_iter().flatten();
    let children = entries.flat_map(|entry| entry["children"].as_array().into_iter().flatten());
    children
        .map(|child| child["_meta"]["innkeeper.shadowedBy"].clone())
        .collect()
}

fn three() -> (Value, Value) {
    let list = json!([
        directory("d", &[skill("first")]),
        plugin("p", &[skill("second")]),
        plugin("q", &[skill("third")])
    ]);
    (list, json!({ "second": ["first"], "third": ["first", "second"] }))
}

#[test]
fn b3_a_skill_is_shadowed_by_the_first_of_its_name_that_is_on() {
    let (mut stage, conn, _) = stage();
    let (list, shadows) = three();
    stage.found_shadowed(SESSION, list.clone(), shadows.clone());
    assert_eq!(marks(&stage), [Value::Null, json!("first"), json!("first")]);
    stage.toggle(conn, SESSION, "first", json!([in_session(false)]));
    assert_eq!(marks(&stage), [Value::Null, Value::Null, json!("second")]);
    // With its container, too.
    stage.toggle(conn, SESSION, "p", json!([in_session(false)]));
    assert_eq!(marks(&stage), [Value::Null, Value::Null, Value::Null]);
    stage.told(conn);
    stage.found_shadowed(SESSION, list, shadows);
    assert!(stage.told(conn).is_empty(), "P19: the same again is no news");
    stage.toggle(conn, SESSION, "first", json!([in_session(true)]));
    assert_eq!(marks(&stage), [Value::Null, json!("first"), json!("first")]);
}

#[test]
fn b3_a_decision_for_everywhere_moves_the_marks_of_every_session() {
    let (mut stage, conn, _) = stage();
    let other = "ahp-session:/other";
    stage.session_in_workspace(conn, other);
    stage.subscribe(conn, other);
    let (list, shadows) = three();
    stage.found_shadowed(SESSION, list.clone(), shadows.clone());
    stage.found_shadowed(other, list, shadows);
    stage.toggle(conn, other, "first", json!([globally(false)]));
    assert_eq!(marks(&stage), [Value::Null, Value::Null, json!("second")]);
}

#[test]
fn cus21_host_wide_customizations_show_their_enablement_on_agents() {
    let (mut stage, conn, _) = stage();
    let mut agents = stage.core.agents().to_vec();
    let common = json!([{ "type": "plugin", "id": "p", "uri": "file:///plugins/p", "name": "p" }, directory("d", &[])]);
    for agent in &mut agents {
        agent.info.customizations = serde_json::from_value(common.clone()).expect("customizations");
    }
    let given: Vec<AgentProfile> = agents.clone();
    stage.handle(Input::AgentsChanged(agents));
    stage.found(SESSION, json!([plugin("p", &[]), directory("d", &[])]));
    let shown = |stage: &Stage| stage.state(ROOT)["agents"][0]["customizations"].clone();
    assert_eq!(shown(&stage)[0]["enablement"], Value::Null);
    stage.subscribe(conn, ROOT);
    stage.told(conn);
    stage.toggle(conn, SESSION, "p", json!([globally(false)]));
    stage.toggle(conn, SESSION, "d", json!([globally(false)]));
    assert_eq!(shown(&stage)[0]["enablement"], json!([globally(false)]));
    assert_eq!(shown(&stage)[1]["enabled"], json!(false));
    let told = stage.told(conn);
    assert!(
        told.iter().any(|action| action["type"] == "root/agentsChanged"),
        "{told:?}"
    );
    // A decision for one session or one workspace does not affect the others.
    stage.toggle(
        conn,
        SESSION,
        "p",
        json!([in_session(true), in_workspace(true), globally(false)]),
    );
    assert_eq!(shown(&stage)[0]["enablement"], json!([globally(false)]));
    stage.handle(Input::AgentsChanged(given));
    assert_eq!(
        shown(&stage)[0]["enablement"],
        json!([globally(false)]),
        "also after a new report"
    );
}
