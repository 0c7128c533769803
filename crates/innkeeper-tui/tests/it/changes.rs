//! The window of changed files.

use innkeeper_cli::connection::link::LinkEvent;
use innkeeper_tui::event::Effect;
use serde_json::{Value, json};

use crate::support::{Rig, SESSION, empty_chat, session};

const CHANGES: &str = "ahp-session:/one/changeset/session";

fn file(name: &str) -> Value {
    let side = json!({ "uri": format!("file:///srv/ada/inn/{name}"), "content": { "uri": format!("x:/{name}") } });
    json!({ "id": name, "edit": { "before": side, "after": side, "diff": { "added": 1, "removed": 0 } } })
}

/// A client that looks at two changed files.
fn with_changes() -> Rig {
    let mut rig = Rig::with_chat(empty_chat());
    rig.keys("ctrl+p");
    rig.type_text("changed files");
    rig.keys("enter");
    let discard = json!({ "id": "discard", "label": "Discard", "scopes": ["changeset", "resource"],
        "confirmation": "The changes are lost from disk.", "status": "idle" });
    let stage = json!({ "id": "stage", "label": "Stage", "scopes": ["resource"], "status": "idle" });
    let state = json!({ "status": "ready", "files": [file("a.txt"), file("b.txt")], "operations": [discard, stage] });
    rig.state(CHANGES, state);
    rig.effects.clear();
    rig
}

#[test]
fn an_operation_on_the_selected_file_names_the_file() {
    let mut rig = with_changes();
    rig.keys("down o");
    rig.type_text("discard: b");
    rig.keys("enter");
    assert!(rig.requested().is_empty(), "the user has not agreed yet");
    assert!(rig.screen(80, 24).contains("The changes are lost from disk."));
    rig.keys("y");
    let (method, params) = rig.requested().remove(0);
    assert_eq!(method, "invokeChangesetOperation");
    assert_eq!(
        params,
        json!({ "channel": CHANGES, "operationId": "discard",
            "target": { "kind": "resource", "resource": "file:///srv/ada/inn/b.txt" } })
    );
}

#[test]
fn an_operation_on_all_files_has_a_row_of_its_own() {
    let mut rig = with_changes();
    rig.keys("o");
    let screen = rig.screen(80, 24);
    assert!(screen.contains("Discard: a.txt"), "{screen}");
    rig.keys("down down enter y");
    let (_, params) = rig.requested().remove(0);
    assert_eq!(params["operationId"], "discard");
    assert!(params.get("target").is_none());
}

#[test]
fn an_operation_without_a_question_runs_at_once() {
    let mut rig = with_changes();
    rig.keys("o");
    rig.type_text("stage");
    rig.keys("enter");
    assert_eq!(rig.requested()[0].1["operationId"], "stage");
}

#[test]
fn changes_are_followed_only_while_a_window_needs_them() {
    let mut rig = with_changes();
    rig.keys("o");
    let left = |rig: &Rig| {
        let mut effects = rig.effects.iter();
        effects.any(|effect| matches!(effect, Effect::Unsubscribe(uri) if uri == CHANGES))
    };
    assert!(!left(&rig));
    rig.keys("esc");
    assert!(left(&rig));
}

#[test]
fn a_session_whose_creation_was_cut_off_gives_the_message_back() {
    let mut rig = Rig::connected();
    rig.type_text("hello");
    rig.keys("enter");
    assert_eq!(rig.requested()[0].0, "createSession");
    rig.link(LinkEvent::Lost("the host stopped".to_owned()));
    assert!(rig.screen(80, 24).contains("hello"));
    rig.connect();
    rig.link(LinkEvent::Sessions(Vec::new()));
    rig.keys("enter");
    let again = rig.requested();
    assert!(again.iter().any(|(method, _)| *method == "createSession"), "{again:?}");
    rig.state(SESSION, session(json!([])));
}
