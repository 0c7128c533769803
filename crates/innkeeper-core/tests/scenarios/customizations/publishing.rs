//! Discovered customizations are published, and nothing else.

use innkeeper_core::{AgentCommand, CoreConfig, CustomizationCommand, Effect};
use serde_json::{Value, json};

use super::*;

fn types(actions: &[Value]) -> Vec<&str> {
    actions
        .iter()
        .map(|action| action["type"].as_str().unwrap_or_default())
        .collect()
}

#[test]
fn cus21_the_first_report_is_the_whole_list_and_later_ones_the_changes() {
    let (mut stage, conn, _) = stage();
    assert_eq!(stage.shown(SESSION), Value::Null);
    stage.found(SESSION, json!([]));
    assert!(stage.told(conn).is_empty(), "nothing was found, and nothing was known");
    let list = json!([plugin("a", &[skill("a1")]), directory("b", &[]), server("m")]);
    stage.found(SESSION, list.clone());
    let told = stage.told(conn);
    assert_eq!(
        told,
        [json!({ "type": "session/customizationsChanged", "customizations": list })]
    );
    stage.found(SESSION, list.clone());
    assert!(stage.told(conn).is_empty(), "P19: the same again is no news");
    let more = json!([
        plugin("a", &[skill("a1"), skill("a2")]),
        directory("b", &[]),
        server("m")
    ]);
    stage.found(SESSION, more.clone());
    let told = stage.told(conn);
    assert_eq!(
        told,
        [json!({ "type": "session/customizationUpdated", "customization": more[0] })]
    );
    assert_eq!(stage.shown(SESSION), more);
}

#[test]
fn cus20_case_66_removals_come_first_then_changes_in_list_order() {
    let (mut stage, conn, _) = stage();
    let list = json!([plugin("a", &[]), plugin("b", &[]), plugin("c", &[])]);
    stage.found(SESSION, list);
    stage.told(conn);
    let list = json!([
        plugin("b", &[skill("b1")]),
        plugin("c", &[skill("c1")]),
        plugin("d", &[])
    ]);
    stage.found(SESSION, list.clone());
    let told = stage.told(conn);
    assert_eq!(
        types(&told),
        [
            "session/customizationRemoved",
            "session/customizationUpdated",
            "session/customizationUpdated",
            "session/customizationUpdated"
        ]
    );
    assert_eq!(told[0]["id"], "a");
    let updated: Vec<&Value> = told[1..].iter().map(|action| &action["customization"]["id"]).collect();
    assert_eq!(updated, ["b", "c", "d"]);
    assert_eq!(stage.shown(SESSION), list);
}

#[test]
fn cus19_another_order_and_many_changes_are_one_action() {
    let (mut stage, conn, _) = stage();
    let many = |children: &[Value]| -> Vec<Value> { (0..20).map(|n| plugin(&format!("p{n}"), children)).collect() };
    stage.found(SESSION, json!(many(&[])));
    stage.told(conn);
    let mut turned = many(&[]);
    turned.swap(3, 4);
    stage.found(SESSION, json!(turned));
    assert_eq!(types(&stage.told(conn)), ["session/customizationsChanged"]);
    assert_eq!(stage.shown(SESSION), json!(turned));
    // Inserted before others: appending would be another order.
    turned.insert(0, plugin("first", &[]));
    stage.found(SESSION, json!(turned));
    assert_eq!(types(&stage.told(conn)), ["session/customizationsChanged"]);
    stage.found(SESSION, json!(many(&[skill("s")])));
    assert_eq!(types(&stage.told(conn)), ["session/customizationsChanged"]);
    stage.found(SESSION, json!([]));
    assert_eq!(types(&stage.told(conn)), ["session/customizationsChanged"]);
    assert_eq!(stage.shown(SESSION), json!([]), "known to be nothing");
}

#[test]
fn cus05_case_77_case_80_a_late_subscriber_sees_the_entry_load() {
    let (mut stage, conn, _) = stage();
    let mut loading = plugin("a", &[]);
    loading["load"] = json!({ "kind": "loading" });
    loading.as_object_mut().expect("an object").remove("children");
    stage.found(SESSION, json!([loading]));
    let late = stage.client("late", &[SESSION]);
    stage.inbox(conn);
    stage.found(SESSION, json!([plugin("a", &[])]));
    for conn in [conn, late] {
        let told = stage.told(conn);
        assert_eq!(types(&told), ["session/customizationUpdated"]);
        assert_eq!(
            told[0]["customization"]["children"],
            json!([]),
            "CUS-04: read, and nothing in it"
        );
    }
}

#[test]
fn cus05_a_preview_is_published_only_without_a_full_report() {
    let (mut stage, conn, _) = stage();
    let mut loading = directory("d", &[]);
    loading["load"] = json!({ "kind": "loading" });
    loading.as_object_mut().expect("an object").remove("children");
    stage.announced(SESSION, json!([]));
    assert_eq!(stage.shown(SESSION), Value::Null, "discovery has not finished yet");
    stage.announced(SESSION, json!([loading]));
    assert_eq!(stage.shown(SESSION)[0]["load"]["kind"], "loading");
    let known = directory("d", &[skill("s")]);
    stage.announced(SESSION, json!([known]));
    assert_eq!(stage.shown(SESSION), json!([known]), "more of it is known by now");
    let list = json!([plugin("p", &[]), known]);
    stage.found(SESSION, list.clone());
    stage.inbox(conn);
    stage.announced(SESSION, json!([loading]));
    assert!(stage.told(conn).is_empty(), "what is known does not go and come back");
    assert_eq!(stage.shown(SESSION), list);
}

#[test]
fn cus02_an_entry_without_a_usable_id_is_not_published() {
    let (mut stage, _, _) = stage();
    let twice = json!([plugin("a", &[]), { "type": "tomorrow", "id": "x" }, directory("a", &[skill("s")])]);
    stage.found(SESSION, twice);
    assert_eq!(stage.shown(SESSION), json!([plugin("a", &[])]));
}

#[test]
fn case_79_thousands_of_children_are_compared_once_each() {
    let (mut stage, conn, _) = stage();
    let children: Vec<Value> = (0..5000).map(|n| skill(&format!("s{n}"))).collect();
    let mut list: Vec<Value> = (0..500)
        .map(|n| {
            plugin(
                &format!("p{n}"),
                &(0..7).map(|child| skill(&format!("p{n}s{child}"))).collect::<Vec<_>>(),
            )
        })
        .collect();
    list.push(plugin("large", &children));
    stage.found(SESSION, json!(list));
    stage.told(conn);
    stage.found(SESSION, json!(list));
    assert!(stage.told(conn).is_empty());
    list[17]["children"][3]["description"] = json!("new");
    stage.found(SESSION, json!(list));
    let told = stage.told(conn);
    assert_eq!(types(&told), ["session/customizationUpdated"]);
    assert!(told[0].to_string().len() < 2000, "only what changed");
    stage.toggle(conn, SESSION, "s4999", json!([in_session(false)]));
    let told = stage.told(conn);
    assert_eq!(
        types(&told),
        ["session/customizationToggled"],
        "a switch does not send the plugin again"
    );
}

#[test]
fn cus_entries_beyond_the_limit_are_visibly_omitted_and_disabled() {
    let mut stage = Stage::able(CoreConfig {
        serves_customizations: true,
        max_customizations: 2,
        max_customization_children: 3,
        ..CoreConfig::default()
    });
    let conn = stage.client("c", &[]);
    let chat = stage.session_in_workspace(conn, SESSION);
    let children = [skill("1"), skill("2")];
    let other = [skill("3"), skill("4")];
    stage.found(
        SESSION,
        json!([plugin("a", &children), plugin("b", &other), plugin("d", &[skill("5")])]),
    );
    let shown = stage.shown(SESSION);
    assert_eq!(shown[0], plugin("a", &children));
    assert_eq!(shown[1]["children"], json!([skill("3")]));
    assert_eq!(
        shown[1]["load"],
        json!({
            "kind": "degraded",
            "message": "1 more plugins and directories after this one are left out and not used: the limit of one session is reached; \
                        1 of its 2 entries are left out and not used: the limit of one session is reached",
        })
    );
    stage.start_turn(conn, &chat, "t");
    assert_eq!(off(&stage), ["4", "5", "d"]);
}

#[test]
fn cus_a_list_that_is_too_long_in_bytes_keeps_its_containers() {
    let mut stage = Stage::able(CoreConfig {
        serves_customizations: true,
        max_customization_bytes: 3700,
        ..CoreConfig::default()
    });
    let conn = stage.client("c", &[]);
    stage.session_in_workspace(conn, SESSION);
    let mut long = skill("long");
    long["description"] = json!("x".repeat(3500));
    stage.found(
        SESSION,
        json!([plugin("a", &[long, skill("1")]), plugin("b", &[skill("2")])]),
    );
    let shown = stage.shown(SESSION);
    assert_eq!(shown[0]["children"], json!([]));
    assert_eq!(shown[0]["load"]["kind"], "degraded");
    assert_eq!(shown[1], plugin("b", &[skill("2")]));
}

/// The disabled ids that the latest turn got.
pub fn off(stage: &Stage) -> Vec<String> {
    let latest = stage.agent.iter().rev().find_map(|effect| match effect {
        Effect::Agent(AgentCommand::StartTurn { start, .. }) => Some(start.disabled_ids.iter().cloned().collect()),
        _ => None,
    });
    latest.expect("a turn was started")
}

#[test]
fn cus23_a_session_is_followed_from_its_creation_to_its_end() {
    let (mut stage, conn, _) = stage();
    let (id, wanted) = stage.wanted(SESSION).expect("followed");
    assert_eq!(
        (wanted.provider.as_str(), wanted.working_directories),
        ("tour", vec![WORKSPACE.to_owned()])
    );
    let follows = |stage: &Stage| {
        let effects = stage.agent.iter();
        effects
            .filter(|effect| matches!(effect, Effect::Customizations(CustomizationCommand::Follow { .. })))
            .count()
    };
    assert_eq!(follows(&stage), 1, "subscribers change nothing about it");
    let elsewhere = json!({ "type": "session/workingDirectorySet", "directory": "file:///other" });
    stage.dispatch(conn, SESSION, 2, elsewhere);
    assert_eq!(
        stage.wanted(SESSION).expect("followed").1.working_directories[1],
        "file:///other"
    );
    stage.dispose(conn, SESSION);
    let ends = |effect: &&Effect| !matches!(effect, Effect::Agent(AgentCommand::CloseChat { .. }) | Effect::Erase(_));
    let last = stage.agent.iter().rev().find(ends);
    assert!(
        matches!(last, Some(Effect::Customizations(CustomizationCommand::Unfollow { session, .. })) if *session == id)
    );
    stage.inbox(conn);
    stage.handle(Input::CustomizationsFound {
        session: id,
        entries: Vec::new(),
        shadows: Default::default(),
    });
    assert!(
        stage.told(conn).is_empty(),
        "case 67: no client is notified about a removed entry"
    );
}

#[test]
fn cus_without_discovery_nothing_is_requested_or_published() {
    let mut stage = Stage::new();
    let conn = stage.client("c", &[]);
    let _chat = stage.session(conn, SESSION);
    assert!(stage.wanted(SESSION).is_none());
    stage.handle(Input::CustomizationsFound {
        session: ChannelId(1),
        entries: vec![serde_json::from_value(plugin("a", &[])).expect("a plugin")],
        shadows: Default::default(),
    });
    assert_eq!(stage.shown(SESSION), Value::Null);
}
