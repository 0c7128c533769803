//! Users enable and disable customizations.

use serde_json::{Value, json};

use super::publishing::off;
use super::*;

fn both(stage: &mut Stage) -> ConnId {
    let other = stage.client("other", &[]);
    stage.session_in_workspace(other, "ahp-session:/two");
    stage.subscribe(other, "ahp-session:/two");
    other
}

#[test]
fn cus12_cus13_a_toggle_reaches_containers_children_and_servers() {
    let (mut stage, conn, chat) = stage();
    let list = json!([
        plugin("p", &[skill("s"), server("m")]),
        directory("d", &[skill("t")]),
        server("top")
    ]);
    stage.found(SESSION, list);
    stage.inbox(conn);
    for id in ["p", "s", "m", "d", "t", "top"] {
        stage.toggle(conn, SESSION, id, json!([in_session(false)]));
        assert_eq!(stage.told(conn), [toggle(id, json!([in_session(false)]))]);
    }
    let shown = stage.shown(SESSION);
    for carries in [&shown[0], &shown[0]["children"][1], &shown[2]] {
        assert_eq!(carries["enablement"], json!([in_session(false)]));
    }
    for flag in [&shown[0]["children"][0], &shown[1], &shown[1]["children"][0]] {
        assert_eq!(flag["enabled"], json!(false));
    }
    stage.start_turn(conn, &chat, "t1");
    assert_eq!(off(&stage), ["d", "m", "p", "s", "t", "top"]);
}

#[test]
fn cus11_case_74_children_of_a_disabled_container_are_disabled() {
    let (mut stage, conn, chat) = stage();
    stage.found(
        SESSION,
        json!([plugin("p", &[skill("s"), server("m")]), directory("d", &[skill("t")])]),
    );
    stage.toggle(conn, SESSION, "p", json!([in_session(false)]));
    stage.toggle(conn, SESSION, "s", json!([in_session(true)]));
    stage.start_turn(conn, &chat, "t1");
    assert_eq!(off(&stage), ["m", "p", "s"]);
}

#[test]
fn cus12_something_unknown_is_nothing_to_decide_about() {
    let (mut stage, conn, _) = stage();
    stage.toggle(conn, SESSION, "x", json!([globally(false)]));
    assert_eq!(stage.refusal(conn), None, "before anything was found");
    stage.found(SESSION, json!([plugin("p", &[])]));
    let watcher = stage.client("w", &[SESSION]);
    stage.inbox(conn);
    stage.toggle(conn, SESSION, "x", json!([globally(false)]));
    assert_eq!(stage.refusal(conn), None);
    assert!(stage.told(watcher).is_empty(), "DSP-15: its author alone is told");
    stage.found(SESSION, json!([plugin("p", &[]), plugin("x", &[])]));
    assert_eq!(stage.shown(SESSION)[1]["enablement"], Value::Null);
}

#[test]
fn cus15_a_toggle_of_the_old_shape_is_refused_by_the_name_of_its_field() {
    let (mut stage, conn, _) = stage();
    stage.found(SESSION, json!([plugin("p", &[])]));
    stage.inbox(conn);
    let old = json!({ "type": "session/customizationToggled", "id": "p", "enabled": false });
    stage.dispatch(conn, SESSION, 1, old);
    let refusal = stage.refusal(conn).expect("refused");
    assert!(refusal.contains("missing field `enablement`"), "{refusal}");
}

#[test]
fn cus07_cus09_decisions_that_mean_nothing_here_are_refused() {
    let (mut stage, conn, _) = stage();
    stage.found(SESSION, json!([plugin("p", &[])]));
    let elsewhere = json!({ "kind": "workspace", "uri": "file:///elsewhere", "enabled": false });
    for (enablement, problem) in [
        (
            json!(vec![in_session(true); 17]),
            "enablement: has at most 16 decisions",
        ),
        (
            json!([in_session(true), { "kind": "planet", "enabled": false }]),
            "enablement[1]: a decision has a kind",
        ),
        (json!([{ "kind": "session" }]), "enablement[0]: a decision has a kind"),
        (
            json!([{ "kind": "workspace", "enabled": true }]),
            "enablement[0]: a decision has a kind",
        ),
        (
            json!([in_session(true), elsewhere]),
            "enablement[1].uri: the workspace of this session is \"file:///home/me/project\"",
        ),
    ] {
        stage.inbox(conn);
        stage.toggle(conn, SESSION, "p", enablement);
        let refusal = stage.refusal(conn).expect("refused");
        assert!(refusal.starts_with(problem), "{refusal}");
    }
    assert_eq!(stage.shown(SESSION)[0]["enablement"], Value::Null);
    let _ = stage.session(conn, "ahp-session:/nowhere");
    stage.subscribe(conn, "ahp-session:/nowhere");
    stage.found("ahp-session:/nowhere", json!([plugin("p", &[])]));
    stage.inbox(conn);
    stage.toggle(conn, "ahp-session:/nowhere", "p", json!([in_workspace(false)]));
    let refusal = stage.refusal(conn).expect("refused");
    assert!(refusal.contains("works in no directory"), "{refusal}");
}

#[test]
fn cus08_cus14_unsorted_and_repeated_decisions_are_published_in_order() {
    let (mut stage, conn, _) = stage();
    stage.found(SESSION, json!([plugin("p", &[server("m")])]));
    stage.inbox(conn);
    let sent = json!([
        globally(true),
        in_workspace(false),
        in_session(true),
        in_workspace(true),
        globally(false)
    ]);
    for (id, path) in [("p", "/0/enablement"), ("m", "/0/children/0/enablement")] {
        stage.toggle(conn, SESSION, id, sent.clone());
        let told = stage.told(conn);
        assert_eq!(told[0], toggle(id, sent.clone()), "the author gets its own words back");
        assert_eq!(told[1]["type"], "session/customizationUpdated");
        assert_eq!(told.len(), 2);
        let sorted = json!([in_session(true), in_workspace(false), globally(true)]);
        assert_eq!(
            stage.shown(SESSION).pointer(path),
            Some(&sorted),
            "of two the first counts"
        );
    }
}

#[test]
fn cus10_cus16_wider_decisions_reach_other_sessions_at_once() {
    let (mut stage, conn, _) = stage();
    let other = both(&mut stage);
    let away = stage.client("away", &[]);
    let _ = stage.session(away, "ahp-session:/three");
    stage.subscribe(away, "ahp-session:/three");
    let list = json!([plugin("p", &[skill("s")]), directory("d", &[])]);
    for session in [SESSION, "ahp-session:/two", "ahp-session:/three"] {
        stage.found(session, list.clone());
    }
    stage.toggle(other, "ahp-session:/two", "p", json!([in_session(true)]));
    for conn in [conn, other, away] {
        stage.inbox(conn);
    }
    stage.toggle(conn, SESSION, "p", json!([in_workspace(false)]));
    let told = stage.told(other);
    assert_eq!(
        told,
        [toggle("p", json!([in_session(true), in_workspace(false)]))],
        "with what the session has itself"
    );
    assert!(stage.told(away).is_empty(), "it works elsewhere");
    stage.toggle(conn, SESSION, "s", json!([globally(false)]));
    stage.toggle(conn, SESSION, "d", json!([globally(false)]));
    for (conn, session) in [(other, "ahp-session:/two"), (away, "ahp-session:/three")] {
        let told = stage.told(conn);
        assert_eq!(
            told,
            [
                toggle("s", json!([globally(false)])),
                toggle("d", json!([globally(false)]))
            ]
        );
        let shown = stage.shown(session);
        assert_eq!(
            (&shown[0]["children"][0]["enabled"], &shown[1]["enabled"]),
            (&json!(false), &json!(false))
        );
    }
    let new = stage.client("new", &[]);
    stage.session_in_workspace(new, "ahp-session:/four");
    stage.found("ahp-session:/four", list);
    let shown = stage.shown("ahp-session:/four");
    assert_eq!(shown[0]["enablement"], json!([in_workspace(false)]));
    assert_eq!(shown[1]["enabled"], json!(false));
    // Decisions that a client leaves out are removed, in every scope.
    stage.toggle(conn, SESSION, "d", json!([]));
    assert_eq!(stage.shown("ahp-session:/four")[1]["enabled"], json!(true));
}

#[test]
fn case_73_decisions_survive_rescans_and_a_returning_customization() {
    let (mut stage, conn, chat) = stage();
    let list = json!([plugin("p", &[skill("s"), skill("u")]), directory("d", &[skill("t")])]);
    stage.found(SESSION, list.clone());
    stage.toggle(conn, SESSION, "s", json!([in_session(false)]));
    stage.toggle(conn, SESSION, "u", json!([]));
    stage.toggle(conn, SESSION, "d", json!([in_workspace(false)]));
    stage.toggle(conn, SESSION, "p", json!([globally(false)]));
    let before = stage.shown(SESSION);
    assert_eq!(before[0]["children"][1]["enabled"], json!(true), "E-32");
    stage.inbox(conn);
    stage.found(SESSION, list.clone());
    assert!(stage.told(conn).is_empty(), "nothing changed, however it is spelled");
    stage.found(SESSION, json!([]));
    stage.found(SESSION, list.clone());
    let mut after = before.clone();
    after[0]["children"][1]
        .as_object_mut()
        .expect("an object")
        .remove("enabled");
    assert_eq!(stage.shown(SESSION), after);
    stage.start_turn(conn, &chat, "t1");
    assert_eq!(off(&stage), ["d", "p", "s", "t", "u"]);
}

#[test]
fn cus09_the_workspace_of_a_session_is_its_first_directory() {
    let (mut stage, conn, _) = stage();
    stage.found(SESSION, json!([plugin("p", &[])]));
    stage.toggle(conn, SESSION, "p", json!([in_workspace(false)]));
    stage.inbox(conn);
    let work_in = |stage: &mut Stage, directory: &str, instead_of: &str| {
        let set = json!({ "type": "session/workingDirectorySet", "directory": directory });
        stage.dispatch(conn, SESSION, 9, set);
        let removed = json!({ "type": "session/workingDirectoryRemoved", "directory": instead_of });
        stage.dispatch(conn, SESSION, 10, removed);
    };
    work_in(&mut stage, "file:///new", WORKSPACE);
    assert_eq!(stage.shown(SESSION)[0]["enablement"], Value::Null);
    work_in(&mut stage, WORKSPACE, "file:///new");
    assert_eq!(stage.shown(SESSION)[0]["enablement"], json!([in_workspace(false)]));
}

#[test]
fn p19_a_reread_server_keeps_its_state() {
    let (mut stage, _, _) = stage();
    stage.found(SESSION, json!([plugin("p", &[server("m")]), server("top")]));
    let mut changed = plugin("p", &[server("m")]);
    changed["version"] = json!("2");
    changed["children"][0]["state"] = json!({ "kind": "starting" });
    stage.found(SESSION, json!([changed, server("top")]));
    let shown = stage.shown(SESSION);
    assert_eq!(shown[0]["version"], "2");
    assert_eq!(
        shown[0]["children"][0]["state"],
        json!({ "kind": "stopped" }),
        "its state is not for a scan to say"
    );
}

#[test]
fn t24_a_driver_cannot_enable_an_entry_disabled_for_all() {
    let (mut stage, conn, _) = stage();
    let guest = driver(&mut stage);
    stage.found(SESSION, json!([plugin("p", &[]), plugin("q", &[skill("s")])]));
    stage.toggle(conn, SESSION, "q", json!([globally(false)]));
    stage.toggle(conn, SESSION, "s", json!([in_workspace(false)]));
    stage.inbox(guest);
    for (id, enablement, problem) in [
        (
            "p",
            json!([globally(false)]),
            "enablement[0]: deciding for all sessions needs the scope admin",
        ),
        (
            "p",
            json!([in_session(true), in_workspace(false)]),
            "enablement[1]: deciding for a workspace needs",
        ),
        (
            "q",
            json!([in_session(true)]),
            "enablement[0]: enabling what is disabled",
        ),
        (
            "s",
            json!([in_session(true)]),
            "enablement[0]: enabling what is disabled",
        ),
    ] {
        stage.toggle(guest, SESSION, id, enablement);
        let refusal = stage.refusal(guest).expect("refused");
        assert!(refusal.starts_with(problem), "{refusal}");
    }
    stage.toggle(guest, SESSION, "p", json!([in_session(false)]));
    assert_eq!(stage.refusal(guest), None);
    // It repeats nothing, and takes nothing back that is not its to decide about.
    stage.toggle(guest, SESSION, "q", json!([in_session(false)]));
    assert_eq!(
        stage.shown(SESSION)[1]["enablement"],
        json!([in_session(false), globally(false)])
    );
    stage.toggle(guest, SESSION, "q", json!([]));
    assert_eq!(stage.shown(SESSION)[1]["enablement"], json!([globally(false)]));
    stage.toggle(guest, SESSION, "s", json!([]));
    assert_eq!(stage.shown(SESSION)[1]["children"][0]["enabled"], json!(false));
    let viewer = stage.connect_as(Principal::new("token:view", Scope::View));
    stage.initialize(viewer, "viewer", &["1.0.0"], &[SESSION]);
    stage.toggle(viewer, SESSION, "p", json!([in_session(true)]));
    assert!(
        stage
            .refusal(viewer)
            .expect("refused")
            .contains("needs the scope drive")
    );
}

#[test]
fn e30_the_most_specific_decision_counts_in_whichever_order_it_is_sent() {
    let (mut stage, conn, chat) = stage();
    let list = json!([plugin("p", &[skill("s")]), directory("d", &[])]);
    stage.found(SESSION, list);
    // A reader that lets the first decision win would enable all of them.
    let sent = json!([globally(true), in_workspace(true), in_session(false)]);
    for id in ["p", "s", "d"] {
        stage.toggle(conn, SESSION, id, sent.clone());
    }
    let shown = stage.shown(SESSION);
    assert_eq!(shown[0]["enablement"][0], in_session(false));
    assert_eq!(shown[0]["children"][0]["enabled"], json!(false));
    assert_eq!(shown[1]["enabled"], json!(false));
    stage.start_turn(conn, &chat, "t1");
    assert_eq!(off(&stage), ["d", "p", "s"]);
}

#[test]
fn e31_decisions_that_a_toggle_does_not_name_are_retained() {
    let (mut stage, conn, _) = stage();
    let other = both(&mut stage);
    let list = json!([plugin("p", &[skill("s")]), directory("d", &[])]);
    for session in [SESSION, "ahp-session:/two"] {
        stage.found(session, list.clone());
    }
    let on = |stage: &Stage, session: &str| {
        let shown = stage.shown(session);
        let is_on = |flag: &Value| flag.as_bool().unwrap_or(true);
        (is_on(&shown[0]["children"][0]["enabled"]), is_on(&shown[1]["enabled"]))
    };
    for id in ["s", "d"] {
        stage.toggle(conn, SESSION, id, json!([globally(false)]));
        stage.toggle(conn, SESSION, id, json!([in_session(true)]));
    }
    stage.inbox(other);
    assert_eq!(on(&stage, SESSION), (true, true));
    assert_eq!(
        on(&stage, "ahp-session:/two"),
        (false, false),
        "no decision applies to it"
    );
    for id in ["s", "d"] {
        stage.toggle(conn, SESSION, id, json!([in_workspace(true)]));
    }
    assert_eq!(
        on(&stage, "ahp-session:/two"),
        (true, true),
        "a workspace is more than everywhere"
    );
    for id in ["s", "d"] {
        stage.toggle(conn, SESSION, id, json!([globally(true), in_workspace(false)]));
    }
    assert_eq!(on(&stage, SESSION), (true, true), "its own decision is still there");
    assert_eq!(on(&stage, "ahp-session:/two"), (false, false));
    // An empty list names nothing because nothing is to be left.
    for id in ["s", "d"] {
        stage.toggle(conn, SESSION, id, json!([]));
        stage.toggle(conn, SESSION, id, json!([globally(false)]));
    }
    assert_eq!(
        on(&stage, SESSION),
        (false, false),
        "the session has no decision of its own any more"
    );
    // An entry that shows its decisions has them replaced: their sender has seen them (CUS-12).
    stage.toggle(conn, SESSION, "p", json!([globally(false)]));
    stage.toggle(conn, SESSION, "p", json!([in_session(true)]));
    assert_eq!(stage.shown("ahp-session:/two")[0]["enablement"], Value::Null);
}

#[test]
fn e33_a_disabled_container_stays_listed_with_its_children() {
    let (mut stage, conn, _) = stage();
    let list = json!([
        plugin("p", &[skill("s"), server("m")]),
        directory("d", &[skill("t")]),
        server("top")
    ]);
    stage.found(SESSION, list.clone());
    for id in ["p", "s", "m", "d", "t", "top"] {
        stage.toggle(conn, SESSION, id, json!([globally(false)]));
    }
    stage.found(SESSION, list);
    let shown = stage.shown(SESSION);
    let ids = |list: &Value| -> Vec<String> {
        let ids = list.as_array().into_iter().flatten().map(|entry| entry["id"].as_str());
        ids.map(|id| id.unwrap_or_default().to_owned()).collect()
    };
    assert_eq!(ids(&shown), ["p", "d", "top"]);
    assert_eq!(ids(&shown[0]["children"]), ["s", "m"]);
    assert_eq!(ids(&shown[1]["children"]), ["t"]);
}

#[test]
fn cus09_a_workspace_is_one_however_sessions_and_clients_spell_it() {
    let (mut stage, conn, _) = stage();
    let other = stage.client("other", &[]);
    let mut create = new_session("ahp-session:/two");
    create.working_directories = vec!["file:///home/me/pr%6Fject/".to_owned()];
    stage.request(other, innkeeper_core::Command::CreateSession(Box::new(create)));
    stage.opened(Ok(()));
    stage.subscribe(other, "ahp-session:/two");
    let list = json!([plugin("p", &[skill("s")])]);
    for session in [SESSION, "ahp-session:/two"] {
        stage.found(session, list.clone());
    }
    stage.inbox(conn);
    let spelled = json!({ "kind": "workspace", "uri": "file:///home/me//project", "enabled": false });
    for id in ["p", "s"] {
        stage.toggle(conn, SESSION, id, json!([spelled]));
        assert_eq!(stage.refusal(conn), None);
    }
    let shown = stage.shown(SESSION);
    assert_eq!(
        shown[0]["enablement"],
        json!([in_workspace(false)]),
        "as the session spells it"
    );
    let shown = stage.shown("ahp-session:/two");
    assert_eq!(shown[0]["enablement"][0]["uri"], "file:///home/me/pr%6Fject/");
    assert_eq!(shown[0]["children"][0]["enabled"], json!(false));
}
