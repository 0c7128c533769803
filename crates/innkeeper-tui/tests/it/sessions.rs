//! The list of sessions, and the commands about them.

use innkeeper_cli::connection::link::LinkEvent;
use innkeeper_tui::event::{Effect, Outside};
use serde_json::json;

use crate::support::{CHAT, Rig, SESSION, busy_chat, empty_chat, session, summary};

fn palette(rig: &mut Rig, command: &str) {
    rig.keys("ctrl+p");
    rig.type_text(command);
    rig.keys("enter");
}

#[test]
fn a_session_is_renamed_archived_and_deleted_with_undo() {
    let mut rig = Rig::with_chat(empty_chat());
    rig.dispatched();
    palette(&mut rig, "rename");
    rig.keys("ctrl+u");
    rig.type_text("Mend the parser");
    rig.keys("enter");
    let sent = rig.dispatched();
    assert_eq!(
        sent[0],
        (
            SESSION.to_owned(),
            json!({ "type": "session/titleChanged", "title": "Mend the parser" })
        )
    );
    palette(&mut rig, "archive the");
    assert_eq!(
        rig.dispatched()[0].1,
        json!({ "type": "session/isArchivedChanged", "isArchived": true })
    );
    palette(&mut rig, "delete the");
    assert!(rig.screen(80, 24).contains("Delete “Fix the parser”?"));
    rig.keys("n");
    assert!(rig.requested().is_empty());
    palette(&mut rig, "delete the");
    rig.keys("y");
    let ticket = rig
        .effects
        .iter()
        .find_map(|effect| match effect {
            Effect::Request(ticket, "disposeSession", _) => Some(*ticket),
            _ => None,
        })
        .unwrap();
    rig.link(LinkEvent::Reply(ticket, Ok(json!(null))));
    rig.link(LinkEvent::SessionRemoved(SESSION.to_owned()));
    rig.effects.clear();
    palette(&mut rig, "undo");
    let requests = rig.requested();
    assert_eq!(requests[0].0, "innkeeper/restoreSession");
    assert_eq!(requests[0].1["session"], SESSION);
}

#[test]
fn words_for_a_session_that_is_gone_are_kept() {
    let mut rig = Rig::with_chat(empty_chat());
    rig.type_text("precious");
    rig.link(LinkEvent::SessionRemoved(SESSION.to_owned()));
    let screen = rig.screen(80, 24);
    assert!(
        screen.contains("New session") && screen.contains("❯ precious"),
        "{screen}"
    );
}

#[test]
fn a_fork_starts_at_the_last_turn() {
    let mut rig = Rig::with_chat(busy_chat());
    rig.effects.clear();
    palette(&mut rig, "fork");
    let requests = rig.requested();
    assert_eq!(requests[0].0, "createChat");
    assert_eq!(
        requests[0].1["source"],
        json!({ "kind": "fork", "chat": CHAT, "turnId": "t1" })
    );
}

#[test]
fn settings_are_changed_from_a_list() {
    let mut rig = Rig::with_chat(empty_chat());
    let mut state = session(json!([]));
    state["config"] = json!({
        "schema": { "type": "object", "properties": { "approvalMode": {
            "type": "string", "title": "Approvals", "enum": ["ask", "allowAll"], "enumLabels": ["Ask", "Allow all"],
            "sessionMutable": true,
        } } },
        "values": { "approvalMode": "ask" },
    });
    rig.state(SESSION, state);
    rig.dispatched();
    palette(&mut rig, "settings");
    assert!(rig.screen(80, 24).contains("Approvals"));
    rig.keys("enter down enter");
    let sent = rig.dispatched();
    assert_eq!(sent[0].1["config"], json!({ "approvalMode": "allowAll" }));
}

#[test]
fn servers_start_stop_and_ask_for_a_sign_in() {
    let mut rig = Rig::with_chat(empty_chat());
    let server = |state: serde_json::Value| json!({ "type": "mcpServer", "id": "s", "uri": "file:///s", "name": "garden", "state": state });
    let mut state = session(json!([]));
    state["customizations"] = json!([server(json!({ "kind": "ready" }))]);
    rig.state(SESSION, state.clone());
    rig.dispatched();
    palette(&mut rig, "mcp");
    rig.keys("enter");
    assert_eq!(
        rig.dispatched()[0].1,
        json!({ "type": "session/mcpServerStopRequested", "id": "s" })
    );
    state["customizations"] = json!([server(json!({ "kind": "stopped" }))]);
    rig.state(SESSION, state.clone());
    palette(&mut rig, "mcp");
    rig.keys("enter");
    assert_eq!(
        rig.dispatched()[0].1,
        json!({ "type": "session/mcpServerStartRequested", "id": "s" })
    );
    state["customizations"] = json!([server(json!({
        "kind": "authRequired", "reason": "required", "resource": { "resource": "https://a.example" },
    }))]);
    rig.state(SESSION, state);
    palette(&mut rig, "mcp");
    rig.keys("enter");
    let outside = rig.effects.iter().find_map(|effect| match effect {
        Effect::Outside(Outside::Command(words)) => Some(words.join(" ")),
        _ => None,
    });
    assert_eq!(outside.unwrap(), format!("mcp auth garden --session {SESSION}"));
}

#[test]
fn the_list_groups_by_directory_and_hides_the_archive() {
    let mut rig = Rig::connected();
    rig.link(LinkEvent::Sessions(vec![
        summary("ahp-session:/a", "Here", 33, "file:///srv/ada/inn"),
        summary("ahp-session:/b", "There", 33, "file:///srv/garden"),
        summary("ahp-session:/c", "Put away", 97, "file:///srv/garden"),
    ]));
    let screen = rig.screen(80, 24);
    assert!(screen.contains("~/inn") && screen.contains("/srv/garden"), "{screen}");
    assert!(!screen.contains("Put away"), "{screen}");
    palette(&mut rig, "show archived");
    assert!(rig.screen(80, 24).contains("[archived] Put"));
    rig.keys("tab tab /");
    rig.type_text("ther");
    rig.keys("enter");
    let screen = rig.screen(80, 24);
    assert!(screen.contains("There") && !screen.contains("Here"), "{screen}");
}

#[test]
fn a_model_goes_with_the_next_messages() {
    let mut rig = Rig::with_chat(empty_chat());
    let mut state = session(json!([]));
    state["provider"] = json!("coder");
    rig.state(SESSION, state);
    palette(&mut rig, "model");
    rig.keys("down enter");
    rig.dispatched();
    rig.type_text("hi");
    rig.keys("enter");
    assert_eq!(rig.dispatched()[0].1["message"]["model"]["id"], "big");
}

#[test]
fn files_complete_an_at_sign_and_are_attached() {
    let mut rig = Rig::with_chat(empty_chat());
    rig.effects.clear();
    rig.type_text("see @no");
    let (ticket, params) = rig
        .effects
        .iter()
        .rev()
        .find_map(|effect| match effect {
            Effect::Request(ticket, "completions", params) => Some((*ticket, params.clone())),
            _ => None,
        })
        .unwrap();
    assert_eq!(params["offset"], 7);
    let items = json!({ "items": [{
        "insertText": "@notes.md", "rangeStart": 4, "rangeEnd": 7,
        "attachment": { "type": "resource", "label": "notes.md", "uri": "file:///srv/ada/inn/notes.md" },
    }] });
    rig.link(LinkEvent::Reply(ticket, Ok(items)));
    assert!(rig.screen(80, 24).contains("@notes.md"));
    rig.keys("tab");
    let screen = rig.screen(80, 24);
    assert!(
        screen.contains("❯ see @notes.md") && screen.contains("+ notes.md"),
        "{screen}"
    );
    rig.dispatched();
    rig.keys("enter");
    let sent = rig.dispatched();
    assert_eq!(
        sent[0].1["message"]["attachments"][0]["uri"],
        "file:///srv/ada/inn/notes.md"
    );
}
