//! Approvals are remembered as rules that users can read, edit and revoke.

use innkeeper_core::agent::{
    ApprovalSubject, Confirmation, Contributor, FileAccess, Permission, ToolReady, ToolStart, ToolStep,
};
use innkeeper_core::{ApprovalCommand, ApprovalTarget, ClientId, Command, ConnId, CoreConfig, Principal, Scope};
use serde_json::{Value, json};

use crate::harness::working_agent::*;
use crate::harness::*;

const WORKSPACE: &str = "file:///srv/app";

fn in_workspace(stage: &mut Stage, conn: ConnId, session: &str, directory: &str) -> String {
    let mut create = new_session(session);
    create.working_directories = vec![directory.to_owned()];
    let answer = stage.create_with(conn, create);
    assert_eq!(answer["result"], Value::Null, "{answer}");
    stage.opened(Ok(()));
    let chat = innkeeper_core::uri::default_chat(session);
    stage.subscribe(conn, session);
    stage.subscribe(conn, &chat);
    stage.start_turn(conn, &chat, "t");
    chat
}

fn stage() -> (Stage, ConnId, String) {
    let mut stage = Stage::new();
    let conn = stage.client("c", &[]);
    let chat = in_workspace(&mut stage, conn, SESSION, WORKSPACE);
    (stage, conn, chat)
}

fn asks(stage: &mut Stage, call: &str, start: ToolStart, subject: ApprovalSubject) {
    stage.tool(call, ToolStep::Start(start));
    let confirmation = Confirmation {
        subject,
        editable: true,
        ..Confirmation::default()
    };
    stage.tool(
        call,
        ToolStep::Ready(ToolReady {
            invocation: "Does it".into(),
            input: Some(json!({ "call": call }).to_string()),
            permission: Permission::Ask(Box::new(confirmation)),
        }),
    );
}

fn command(line: &str) -> ApprovalSubject {
    ApprovalSubject::Command {
        line: line.to_owned(),
        directory: None,
    }
}

fn runs(stage: &mut Stage, call: &str, line: &str) {
    asks(stage, call, host_tool("run_command"), command(line));
}

fn edit(path: &str, is_sensitive: bool) -> ApprovalSubject {
    ApprovalSubject::File {
        access: FileAccess::Change,
        path: path.to_owned(),
        is_sensitive,
    }
}

fn status(stage: &Stage, chat: &str, call: &str) -> Value {
    stage.call_state(chat, call)["status"].clone()
}

fn options(stage: &Stage, chat: &str, call: &str) -> Vec<(String, String)> {
    let state = stage.call_state(chat, call);
    let options = state["options"].as_array().expect("options").iter();
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    options
        .map(|option| (text(&option["id"]), text(&option["label"])))
        .collect()
}

fn answer(stage: &mut Stage, conn: ConnId, chat: &str, call: &str, option: &str) -> Value {
    let mut action = decide(option != "deny", Some(option));
    action["toolCallId"] = json!(call);
    let echo = stage.accepted(conn, chat, action);
    stage.replies();
    echo
}

fn setting(stage: &Stage, session: &str, name: &str) -> Value {
    stage.state(session)["config"]["values"][name].clone()
}

fn change(name: &str, value: Value) -> Value {
    json!({ "type": "session/configChanged", "config": { name: value } })
}

#[test]
fn tool09_labels_name_the_exact_rule_and_its_duration() {
    let (mut stage, _, chat) = stage();
    runs(&mut stage, "known", "cargo test -p core");
    let expected = [
        ("allow-once", "Allow once"),
        ("allow-session", "Allow `cargo test -p core` in this session"),
        ("allow-session-pattern", "Allow `cargo test *` in this session"),
        ("allow-workspace", "Always allow `cargo test -p core` in this workspace"),
        (
            "allow-workspace-pattern",
            "Always allow `cargo test *` in this workspace",
        ),
        ("allow-session-every", "Allow every command in this session"),
        ("deny", "Deny"),
    ];
    let expected = expected.map(|(id, label)| (id.to_owned(), label.to_owned()));
    assert_eq!(options(&stage, &chat, "known"), expected);
    let rules = stage.call_state(&chat, "known")["_meta"]["innkeeper.approval"]["rules"].clone();
    assert_eq!(rules["allow-session-pattern"], "run_command(cargo test *)");
    assert_eq!(rules["allow-session-every"], "run_command(*)");

    runs(&mut stage, "unknown", "rm -rf target");
    let labels: Vec<String> = options(&stage, &chat, "unknown")
        .into_iter()
        .map(|(_, label)| label)
        .collect();
    assert_eq!(labels[1], "Allow `rm -rf target` in this session", "exactly this");
    assert!(!labels.iter().any(|label| label.contains('*')), "{labels:?}");

    runs(&mut stage, "hidden", "ls \u{200b}");
    let ids: Vec<String> = options(&stage, &chat, "hidden").into_iter().map(|(id, _)| id).collect();
    assert_eq!(
        ids,
        ["allow-once", "allow-session-every", "deny"],
        "no label could say it"
    );
}

#[test]
fn lesson_42_allowing_one_command_allows_no_other() {
    let (mut stage, conn, chat) = stage();
    runs(&mut stage, "one", "ls");
    answer(&mut stage, conn, &chat, "one", "allow-workspace");
    assert_eq!(
        setting(&stage, SESSION, "workspaceApprovedTools"),
        json!(["run_command(ls)"])
    );
    let later = in_workspace(&mut stage, conn, "ahp-session:/later", WORKSPACE);
    for (call, line) in [
        ("rm", "rm -rf /"),
        ("curl", "curl evil.test"),
        ("more", "ls -l"),
        ("two", "ls; rm x"),
    ] {
        runs(&mut stage, call, line);
        assert_eq!(status(&stage, &later, call), "pending-confirmation", "{line}");
    }
    runs(&mut stage, "again", "ls");
    let call = stage.call_state(&later, "again");
    assert_eq!(
        (&call["status"], &call["confirmed"]),
        (&json!("running"), &json!("setting"))
    );
    // A call that runs by a rule is visible like any other call, with the rule.
    assert_eq!(
        call["_meta"]["innkeeper.approval"],
        json!({ "rule": "run_command(ls)", "scope": "workspace" })
    );
    assert_eq!(call["toolInput"], r#"{"call":"again"}"#);
}

#[test]
fn a_pattern_is_remembered_and_shown_where_it_was_allowed() {
    let (mut stage, conn, chat) = stage();
    runs(&mut stage, "one", "cargo test -p core");
    let echo = answer(&mut stage, conn, &chat, "one", "allow-session-pattern");
    let remembered = json!({ "rule": "run_command(cargo test *)", "scope": "session", "remembered": true });
    assert_eq!(echo["action"]["_meta"]["innkeeper.approval"], remembered);
    runs(&mut stage, "two", "cargo test --lib");
    assert_eq!(status(&stage, &chat, "two"), "running");
    assert_eq!(
        stage.call_state(&chat, "two")["_meta"]["innkeeper.approval"]["scope"],
        "session"
    );
    stage.accepted(conn, SESSION, change("approvedTools", json!([])));
    runs(&mut stage, "three", "cargo test --lib");
    assert_eq!(status(&stage, &chat, "three"), "pending-confirmation", "taken back");
}

#[test]
fn a_user_may_edit_the_rule_if_it_covers_the_visible_call() {
    let (mut stage, conn, chat) = stage();
    runs(&mut stage, "one", "npm run lint");
    let with = |rule: Value, option: &str| {
        let mut action = decide(true, Some(option));
        action["toolCallId"] = json!("one");
        action["_meta"] = json!({ "innkeeper.rule": rule, "innkeeper.decidedBy": "another", "mine": 1 });
        action
    };
    for (rule, option, problem) in [
        (
            json!("run_command(npm test *)"),
            "allow-session",
            "does not cover this call",
        ),
        (json!("run_command"), "allow-session", "is not a rule"),
        (
            json!("run_command(npm run lint && *)"),
            "allow-session",
            "means something to a shell",
        ),
        (json!(7), "allow-session", "must be text"),
        (
            json!("run_command(npm *)"),
            "allow-once",
            "goes with an option that is remembered",
        ),
    ] {
        let reason = stage.refused(conn, &chat, with(rule, option));
        assert!(
            reason.starts_with("_meta.innkeeper.rule: ") && reason.contains(problem),
            "{reason}"
        );
    }
    let echo = stage.accepted(conn, &chat, with(json!("run_command(npm run *)"), "allow-session"));
    let meta = &echo["action"]["_meta"];
    assert_eq!(meta["innkeeper.approval"]["rule"], "run_command(npm run *)");
    assert_eq!(
        meta["innkeeper.decidedBy"]["clientId"], "c",
        "the host's keys are the host's"
    );
    assert_eq!(meta["mine"], 1, "what else a client says is passed on");
    assert_eq!(
        setting(&stage, SESSION, "approvedTools"),
        json!(["run_command(npm run *)"])
    );
}

#[test]
fn an_edited_input_is_approved_once_under_every_option() {
    let (mut stage, conn, chat) = stage();
    runs(&mut stage, "one", "ls");
    let mut action = decide(true, Some("allow-session"));
    action["toolCallId"] = json!("one");
    action["editedToolInput"] = json!(r#"{"command":"ls -l"}"#);
    let echo = stage.accepted(conn, &chat, action);
    assert_eq!(setting(&stage, SESSION, "approvedTools"), json!([]));
    assert_eq!(echo["action"]["_meta"]["innkeeper.approval"]["remembered"], false);
}

#[test]
fn every_command_is_never_the_default_and_says_so() {
    let (mut stage, conn, chat) = stage();
    runs(&mut stage, "one", "ls");
    answer(&mut stage, conn, &chat, "one", "allow-session-every");
    assert_eq!(setting(&stage, SESSION, "approvedTools"), json!(["run_command(*)"]));
    runs(&mut stage, "two", "cargo test; rm -rf x");
    assert_eq!(status(&stage, &chat, "two"), "running");
    asks(&mut stage, "three", host_tool("edit_file"), edit("a", false));
    assert_eq!(status(&stage, &chat, "three"), "pending-confirmation", "another tool");
}

#[test]
fn files_are_remembered_by_path_or_directory() {
    let (mut stage, conn, chat) = stage();
    asks(&mut stage, "one", host_tool("edit_file"), edit("src/a.rs", false));
    let labels: Vec<String> = options(&stage, &chat, "one")
        .into_iter()
        .map(|(_, label)| label)
        .collect();
    assert_eq!(
        labels[1..3],
        [
            "Allow edits of `src/a.rs` in this session",
            "Allow edits of every file below `src/` in this session"
        ]
    );
    answer(&mut stage, conn, &chat, "one", "allow-session-pattern");
    assert_eq!(setting(&stage, SESSION, "approvedTools"), json!(["edit(src/)"]));
    for (call, tool, path, is_sensitive, expected) in [
        ("below", "write_file", "src/deep/b.rs", false, "running"),
        ("beside", "edit_file", "srcs/b.rs", false, "pending-confirmation"),
        ("above", "edit_file", "Cargo.toml", false, "pending-confirmation"),
        (
            "elsewhere",
            "edit_file",
            "/srv/other/src/a.rs",
            false,
            "pending-confirmation",
        ),
        ("secret", "edit_file", "src/.env", true, "pending-confirmation"),
    ] {
        asks(&mut stage, call, host_tool(tool), edit(path, is_sensitive));
        assert_eq!(status(&stage, &chat, call), expected, "{path}");
    }
    let read = ApprovalSubject::File {
        access: FileAccess::Read,
        path: "src/a.rs".to_owned(),
        is_sensitive: false,
    };
    asks(&mut stage, "read", host_tool("read_file"), read);
    assert_eq!(
        status(&stage, &chat, "read"),
        "pending-confirmation",
        "reading is another matter"
    );
    let labels = options(&stage, &chat, "secret");
    assert!(
        !labels
            .iter()
            .any(|(id, _)| id.ends_with("pattern") || id.ends_with("every")),
        "{labels:?}"
    );
}

#[test]
fn servers_and_owners_of_tools_are_remembered_one_by_one() {
    let (mut stage, conn, chat) = stage();
    let fetch = |origin: &str| ApprovalSubject::Host {
        origin: origin.to_owned(),
    };
    asks(&mut stage, "docs", host_tool("fetch_url"), fetch("https://docs.rs"));
    answer(&mut stage, conn, &chat, "docs", "allow-session");
    asks(&mut stage, "again", host_tool("fetch_url"), fetch("https://docs.rs"));
    assert_eq!(status(&stage, &chat, "again"), "running");
    for (call, origin) in [("plain", "http://docs.rs"), ("evil", "https://docs.rs.evil.test")] {
        asks(&mut stage, call, host_tool("fetch_url"), fetch(origin));
        assert_eq!(status(&stage, &chat, call), "pending-confirmation", "{origin}");
    }

    let of_server = |id: &str| ToolStart {
        contributor: Contributor::Mcp(id.to_owned()),
        ..host_tool("notes_add")
    };
    let tool = |name: &str| ApprovalSubject::McpTool {
        server: "notes".to_owned(),
        tool: name.to_owned(),
    };
    asks(&mut stage, "add", of_server("mcp-1"), tool("add"));
    let labels = options(&stage, &chat, "add");
    assert_eq!(
        labels[1].1,
        "Allow the tool `add` of the MCP server `notes` in this session"
    );
    answer(&mut stage, conn, &chat, "add", "allow-session");
    asks(&mut stage, "add-again", of_server("mcp-1"), tool("add"));
    assert_eq!(status(&stage, &chat, "add-again"), "running");
    asks(&mut stage, "remove", of_server("mcp-1"), tool("remove"));
    asks(&mut stage, "other", of_server("mcp-2"), tool("add"));
    for call in ["remove", "other"] {
        assert_eq!(status(&stage, &chat, call), "pending-confirmation", "{call}");
    }

    let of_client = |client: &str| ToolStart {
        contributor: Contributor::Client(ClientId::new(client)),
        ..host_tool("run_tests")
    };
    asks(&mut stage, "theirs", of_client("c"), ApprovalSubject::Call);
    let ids: Vec<String> = options(&stage, &chat, "theirs").into_iter().map(|(id, _)| id).collect();
    assert_eq!(
        ids,
        ["allow-once", "allow-session", "deny"],
        "a client's id ends with its session"
    );
    answer(&mut stage, conn, &chat, "theirs", "allow-session");
    asks(&mut stage, "another's", of_client("d"), ApprovalSubject::Call);
    assert_eq!(status(&stage, &chat, "another's"), "pending-confirmation");
    let rules = setting(&stage, SESSION, "approvedTools");
    assert_eq!(
        rules,
        json!(["client(c/run_tests)", "fetch(docs.rs)", "mcp(notes@mcp-1/add)"])
    );
}

#[test]
fn a_command_is_allowed_in_the_directory_it_was_shown_in() {
    let (mut stage, conn, chat) = stage();
    let in_docs = ApprovalSubject::Command {
        line: "make".to_owned(),
        directory: Some("docs".to_owned()),
    };
    asks(&mut stage, "docs", host_tool("run_command"), in_docs.clone());
    assert_eq!(
        options(&stage, &chat, "docs")[1].1,
        "Allow `make` (run in `docs`) in this session"
    );
    answer(&mut stage, conn, &chat, "docs", "allow-session");
    asks(&mut stage, "again", host_tool("run_command"), in_docs);
    assert_eq!(status(&stage, &chat, "again"), "running");
    runs(&mut stage, "here", "make");
    assert_eq!(status(&stage, &chat, "here"), "pending-confirmation");
}

#[test]
fn settings_take_rules_and_nothing_else() {
    let (mut stage, conn, _) = stage();
    for (setting, value, problem) in [
        ("approvedTools", "run_command", "`run_command` is not a rule"),
        ("approvedTools", "run_command(env *)", "cannot be left open"),
        ("workspaceApprovedTools", "edit(../x)", "name a file"),
        ("everywhereApprovedTools", "fetch(a b)", "names a server"),
    ] {
        let reason = stage.refused(conn, SESSION, change(setting, json!([value])));
        assert!(
            reason.starts_with(&format!("config.{setting}: ")) && reason.contains(problem),
            "{reason}"
        );
    }
    let mut create = new_session("ahp-session:/bare");
    create.config = json!({ "approvedTools": ["run_command"] })
        .as_object()
        .cloned()
        .expect("an object");
    let answer = stage.create_with(conn, create);
    assert_eq!(error(&answer).0, -32602, "{answer}");
}

#[test]
fn global_approvals_are_listed_in_every_session_and_need_admin() {
    let (mut stage, conn, _) = stage();
    stage.accepted(
        conn,
        SESSION,
        change("everywhereApprovedTools", json!(["run_command(cargo test *)"])),
    );
    let elsewhere = in_workspace(&mut stage, conn, "ahp-session:/two", "file:///srv/other");
    assert_eq!(
        setting(&stage, "ahp-session:/two", "everywhereApprovedTools"),
        json!(["run_command(cargo test *)"])
    );
    runs(&mut stage, "one", "cargo test");
    let call = stage.call_state(&elsewhere, "one");
    assert_eq!(call["status"], "running");
    assert_eq!(call["_meta"]["innkeeper.approval"]["scope"], "everywhere");
    let guest = stage.connect_as(Principal::new("token:guest", Scope::Drive));
    stage.initialize(guest, "g", &["1.0.0"], &[]);
    stage.subscribe(guest, SESSION);
    let reason = stage.refused(guest, SESSION, change("everywhereApprovedTools", json!(["edit(*)"])));
    assert!(reason.contains("needs the scope admin"), "{reason}");
    let reason = stage.refused(guest, SESSION, change("everywhereApprovedTools", json!([])));
    assert!(reason.contains("needs the scope admin"), "{reason}");
    // A replacement of a session's settings leaves it alone.
    let over = json!({ "type": "session/configChanged", "config": { "approvedTools": [] }, "replace": true });
    stage.dispatch(guest, SESSION, 99, over);
    assert_eq!(
        setting(&stage, SESSION, "everywhereApprovedTools"),
        json!(["run_command(cargo test *)"])
    );
    stage.accepted(conn, "ahp-session:/two", change("everywhereApprovedTools", json!([])));
    assert_eq!(setting(&stage, SESSION, "everywhereApprovedTools"), json!([]));
}

#[test]
fn approvals_are_listed_given_and_taken_back_from_outside() {
    let (mut stage, conn, chat) = stage();
    let ask = |stage: &mut Stage, command: ApprovalCommand| {
        let answer = stage.request(conn, Command::Approvals(Box::new(command)));
        assert!(answer.get("error").is_none(), "{answer}");
        answer["result"].clone()
    };
    let here = ApprovalTarget::Workspace(WORKSPACE.to_owned());
    let session = ApprovalTarget::Session(SESSION.to_owned());
    for (target, rule) in [
        (here.clone(), "run_command(ls *)"),
        (session.clone(), "edit(src/)"),
        (ApprovalTarget::Everywhere, "fetch(docs.rs)"),
    ] {
        let rule = rule.to_owned();
        ask(&mut stage, ApprovalCommand::Allow { target, rule });
    }
    assert_eq!(setting(&stage, SESSION, "approvedTools"), json!(["edit(src/)"]));
    runs(&mut stage, "one", "ls src");
    assert_eq!(status(&stage, &chat, "one"), "running");
    let listed = ask(&mut stage, ApprovalCommand::List { session: None });
    assert_eq!(listed["everywhere"], json!(["fetch(docs.rs)"]));
    assert_eq!(
        listed["workspaces"],
        json!([{ "directory": WORKSPACE, "rules": ["run_command(ls *)"], "dropped": [] }])
    );
    assert_eq!(listed["sessions"][0]["rules"], json!(["edit(src/)"]));
    let revoke = |target: &ApprovalTarget, rule: Option<&str>| ApprovalCommand::Revoke {
        target: target.clone(),
        rule: rule.map(str::to_owned),
    };
    assert_eq!(ask(&mut stage, revoke(&here, Some("no(such)")))["revoked"], 0);
    assert_eq!(ask(&mut stage, revoke(&here, Some("run_command(ls *)")))["revoked"], 1);
    assert_eq!(ask(&mut stage, revoke(&session, None))["revoked"], 1);
    assert_eq!(setting(&stage, SESSION, "workspaceApprovedTools"), json!([]));
    runs(&mut stage, "two", "ls src");
    assert_eq!(status(&stage, &chat, "two"), "pending-confirmation");
    let bare = ApprovalCommand::Allow {
        target: here,
        rule: "run_command".to_owned(),
    };
    let answer = stage.request(conn, Command::Approvals(Box::new(bare)));
    assert_eq!(error(&answer).0, -32602);
}

#[test]
fn a_changed_working_directory_drops_the_approvals_of_the_old_one() {
    let (mut stage, conn, _) = stage();
    stage.accepted(conn, SESSION, change("approvedTools", json!(["edit(src/)"])));
    let more = json!({ "type": "session/workingDirectorySet", "directory": "file:///srv/more" });
    stage.dispatch(conn, SESSION, 50, more);
    assert_eq!(setting(&stage, SESSION, "approvedTools"), json!(["edit(src/)"]));
    let gone = json!({ "type": "session/workingDirectoryRemoved", "directory": WORKSPACE });
    stage.dispatch(conn, SESSION, 51, gone);
    let directories = stage.state(SESSION)["workingDirectories"].clone();
    if directories[0] != WORKSPACE {
        assert_eq!(setting(&stage, SESSION, "approvedTools"), json!([]));
    }
}

/// A host with a store, and a session in a workspace.
fn stored() -> (Stage, ConnId) {
    let mut stage = Stage::opening(PersistedState::default(), CoreConfig::default());
    let conn = stage.client("c", &[]);
    in_workspace(&mut stage, conn, SESSION, WORKSPACE);
    let turn_end = json!({ "type": "chat/turnCancelled", "turnId": "t", "duration": 1 });
    let chat = innkeeper_core::uri::default_chat(SESSION);
    stage.dispatch(conn, &chat, 60, turn_end);
    stage.accepted(conn, SESSION, change("approvedTools", json!(["edit(src/)"])));
    stage.accepted(
        conn,
        SESSION,
        change("workspaceApprovedTools", json!(["run_command(ls)"])),
    );
    stage.accepted(
        conn,
        SESSION,
        change("everywhereApprovedTools", json!(["fetch(docs.rs)"])),
    );
    (stage, conn)
}

#[test]
fn rules_survive_a_restart() {
    let (mut stage, _) = stored();
    let mut stage = stage.restart(CoreConfig::default());
    let conn = stage.client("c", &[]);
    stage.subscribe(conn, SESSION);
    assert_eq!(setting(&stage, SESSION, "approvedTools"), json!(["edit(src/)"]));
    assert_eq!(
        setting(&stage, SESSION, "workspaceApprovedTools"),
        json!(["run_command(ls)"])
    );
    assert_eq!(
        setting(&stage, SESSION, "everywhereApprovedTools"),
        json!(["fetch(docs.rs)"])
    );
}

#[test]
fn approvals_of_earlier_versions_allow_nothing_and_are_reported() {
    let (mut stage, _) = stored();
    let mut kept = stage.persisted.take().expect("a store");
    kept.edit_root(|root| {
        root["workspaceApprovals"] = json!({ WORKSPACE: ["run_command", "run_command(ls)", "mcp:id/add"] });
        let fields = root.as_object_mut().expect("an object");
        fields.remove("everywhereApprovals");
        fields.remove("outdatedApprovals");
    });
    kept.edit_session(SESSION, |session| {
        let values = &mut session["state"]["config"]["values"];
        values["approvedTools"] = json!(["run_command", "edit(src/)"]);
        values["workspaceApprovedTools"] = json!(["run_command"]);
        values
            .as_object_mut()
            .expect("values")
            .remove("everywhereApprovedTools");
        session["settings"]
            .as_array_mut()
            .expect("settings")
            .retain(|setting| setting["id"] != "everywhereApprovedTools");
    });
    kept.forget_log();
    let (mut stage, warnings) = Stage::opening_warned(kept, CoreConfig::default());
    assert!(
        matches!(&warnings[..], [told] if told.contains("mcp:id/add, run_command") && told.contains(WORKSPACE)),
        "{warnings:?}"
    );
    let conn = stage.client("c", &[]);
    stage.subscribe(conn, SESSION);
    assert_eq!(setting(&stage, SESSION, "approvedTools"), json!(["edit(src/)"]));
    assert_eq!(
        setting(&stage, SESSION, "workspaceApprovedTools"),
        json!(["run_command(ls)"])
    );
    assert_eq!(
        setting(&stage, SESSION, "everywhereApprovedTools"),
        json!([]),
        "it has the new list"
    );
    let state = stage.state(SESSION);
    assert_eq!(state["_meta"]["innkeeper.droppedApprovals"], json!(["run_command"]));
    let chat = innkeeper_core::uri::default_chat(SESSION);
    stage.subscribe(conn, &chat);
    stage.start_turn(conn, &chat, "t2");
    runs(&mut stage, "one", "rm -rf /");
    assert_eq!(status(&stage, &chat, "one"), "pending-confirmation");
    let list = ApprovalCommand::List { session: None };
    let listed = stage.request(conn, Command::Approvals(Box::new(list)));
    let listed = &listed["result"];
    assert_eq!(listed["workspaces"][0]["dropped"], json!(["mcp:id/add", "run_command"]));
    assert_eq!(listed["sessions"][0]["dropped"], json!(["run_command"]));
    let seen = ApprovalCommand::Revoke {
        target: ApprovalTarget::Session(SESSION.to_owned()),
        rule: Some("run_command".to_owned()),
    };
    let answer = stage.request(conn, Command::Approvals(Box::new(seen)));
    assert_eq!(answer["result"]["revoked"], 1, "{answer}");
    assert_eq!(stage.state(SESSION).get("_meta"), None);
    // The warning comes once; the list has the rule until a user has removed it.
    let mut stage = stage.restart(CoreConfig::default());
    let conn = stage.client("c", &[]);
    let all = ApprovalCommand::Revoke {
        target: ApprovalTarget::Workspace(WORKSPACE.to_owned()),
        rule: Some("run_command".to_owned()),
    };
    let answer = stage.request(conn, Command::Approvals(Box::new(all)));
    assert_eq!(answer["result"]["revoked"], 1, "{answer}");
}

#[test]
fn importing_a_session_resets_its_approvals_and_says_so() {
    let (mut stage, conn) = stored();
    stage.accepted(conn, SESSION, change("autoApprove", json!("autoApprove")));
    // Everything is in the document, as in an export.
    stage.handle(innkeeper_core::Input::ShutDown);
    let mut kept = stage.persisted.take().expect("a store");
    let approvals = kept.import(SESSION);
    assert_eq!(
        approvals,
        [
            "everything, by the session's approval mode",
            "edit(src/)",
            "run_command(ls)",
            "fetch(docs.rs)"
        ]
    );
    kept.edit_root(|root| {
        root["workspaceApprovals"] = json!({});
        root["everywhereApprovals"] = json!([]);
    });
    let mut stage = Stage::opening(kept, CoreConfig::default());
    let conn = stage.client("c", &[]);
    stage.subscribe(conn, SESSION);
    for name in ["approvedTools", "workspaceApprovedTools", "everywhereApprovedTools"] {
        assert_eq!(setting(&stage, SESSION, name), json!([]), "{name}");
    }
    assert_eq!(setting(&stage, SESSION, "autoApprove"), "default");
    // From now on it is a session of this host.
    stage.accepted(conn, SESSION, change("approvedTools", json!(["edit(a)"])));
    let mut stage = stage.restart(CoreConfig::default());
    let conn = stage.client("c", &[]);
    stage.subscribe(conn, SESSION);
    assert_eq!(setting(&stage, SESSION, "approvedTools"), json!(["edit(a)"]));
}
