//! The settings of sessions, and completions while users type.

use ahp_types::commands::{ResolveSessionConfigResult, SessionConfigCompletionsResult};
use innkeeper_core::agent::{Choice, CommandInfo, Setting, SettingKind};
use innkeeper_core::request::{Completions, CreateSession, SessionSetup, SettingQuery};
use innkeeper_core::{
    AgentCommand, AgentEvent, AgentProfile, Command, CompletionQuery, ConnId, CoreConfig, Effect, Seq,
};
use serde_json::{Map, Value, json};

use crate::harness::{ROOT, SESSION, Stage, agent, error, new_session};

fn setting(id: &str, kind: SettingKind) -> Setting {
    Setting {
        id: id.to_owned(),
        title: id.to_owned(),
        description: None,
        kind,
        default: None,
        mutable: false,
        read_only: false,
        required: false,
    }
}

/// An agent with one setting of every interesting sort, in an order that no sorting yields.
pub fn planner() -> AgentProfile {
    let effort = Setting {
        default: Some(json!("low")),
        mutable: true,
        ..setting(
            "zeal",
            SettingKind::Choice(vec![Choice::new("low", "A little"), Choice::new("high", "A lot")]),
        )
    };
    let branch = Setting {
        required: true,
        ..setting("branch", SettingKind::Search(vec![Choice::new("main", "The trunk")]))
    };
    let remote = setting("remote", SettingKind::Search(Vec::new()));
    let name = Setting {
        default: Some(json!("planner")),
        read_only: true,
        ..setting("alias", SettingKind::Text)
    };
    AgentProfile {
        settings: vec![effort, branch, remote, name],
        commands: vec![CommandInfo {
            name: "plan".to_owned(),
            usage: "<goal>".to_owned(),
            description: "Plans.".to_owned(),
        }],
        ..agent("planner").into()
    }
}

pub fn stage(profile: AgentProfile) -> Stage {
    Stage::with_agents(CoreConfig::default(), vec![profile, agent("plain").into()], Seq(1))
}

fn object(value: Value) -> Map<String, Value> {
    value.as_object().cloned().expect("an object")
}

fn resolve(stage: &mut Stage, conn: ConnId, config: Value) -> Value {
    let setup = SessionSetup {
        config: object(config),
        ..SessionSetup::default()
    };
    stage.request(conn, Command::ResolveSessionConfig(Box::new(setup)))
}

fn query(property: &str, query: &str) -> Command {
    Command::SessionConfigCompletions(Box::new(SettingQuery {
        property: property.to_owned(),
        query: query.to_owned(),
        ..SettingQuery::default()
    }))
}

fn completions(channel: &str, kind: &str, text: &str, offset: i64) -> Command {
    Command::Completions(Box::new(Completions {
        channel: channel.to_owned(),
        kind: kind.to_owned(),
        text: text.to_owned(),
        offset,
    }))
}

pub fn create(stage: &mut Stage, conn: ConnId, config: Value, directories: &[&str]) -> Value {
    let create = CreateSession {
        config: object(config),
        working_directories: directories.iter().map(|uri| (*uri).to_owned()).collect(),
        ..new_session(SESSION)
    };
    let answer = stage.request(conn, Command::CreateSession(Box::new(create)));
    if answer.get("error").is_none() {
        stage.opened(Ok(()));
    }
    answer
}

pub fn config_changed(channel: &str, config: Value) -> Value {
    json!({ "type": format!("{channel}/configChanged"), "config": config })
}

pub fn replaced(channel: &str, config: Value) -> Value {
    json!({ "type": format!("{channel}/configChanged"), "config": config, "replace": true })
}

/// The keys of the first object of that name, in the order they were written.
fn written_order(bytes: &str, after: &str, keys: &[&str]) -> Vec<usize> {
    let from = bytes.find(after).expect("it is there");
    let place = |key: &&str| bytes[from..].find(&format!("\"{key}\":{{")).expect("the key is there");
    keys.iter().map(place).collect()
}

// The settings of sessions.

#[test]
fn cmp05_a_resolved_config_has_the_schema_all_defaults_and_the_choices() {
    let mut stage = stage(planner());
    let conn = stage.client("c", &[]);
    let answer = resolve(&mut stage, conn, json!({}));
    let result: ResolveSessionConfigResult = serde_json::from_value(answer["result"].clone()).expect("typed");
    assert_eq!(result.schema.required, Some(vec!["branch".to_owned()]));
    assert_eq!(result.schema.properties["branch"].enum_dynamic, Some(true));
    assert_eq!(result.schema.properties["zeal"].session_mutable, Some(true));
    let expected = json!({
        "autoApprove": "default", "approvedTools": [], "workspaceApprovedTools": [], "everywhereApprovedTools": [], "zeal": "low", "alias": "planner",
    });
    assert_eq!(answer["result"]["values"], expected);
    // The next step: what was chosen comes back, and so does what was shown.
    let mut chosen = expected;
    chosen["zeal"] = json!("high");
    chosen["branch"] = json!("feature/x");
    let answer = resolve(&mut stage, conn, chosen.clone());
    assert_eq!(answer["result"]["values"], chosen);
}

#[test]
fn cmp05_an_unresolvable_config_is_named() {
    let mut stage = stage(planner());
    let conn = stage.client("c", &[]);
    let answer = resolve(&mut stage, conn, json!({ "zeal": "huge" }));
    assert_eq!(error(&answer), (-32602, "params.config.zeal: must be one of low, high"));
    let setup = SessionSetup {
        provider: Some("unknown".to_owned()),
        ..SessionSetup::default()
    };
    let answer = stage.request(conn, Command::ResolveSessionConfig(Box::new(setup)));
    assert_eq!(error(&answer).0, -32002);
}

/// The settings that the editor window of VS Code 1.139 and its Agents window send, with their default values and the
/// ones that they remember from other hosts.
#[test]
fn cmp09_settings_of_other_hosts_are_no_reason_to_refuse_a_session() {
    let mut stage = stage(planner());
    let conn = stage.client("c", &[]);
    let sent = json!({
        "isolation": "folder", "autoApprove": "default", "mode": "interactive", "branch": "main",
        "permissions": { "allow": ["x"], "deny": [] }, "bogus": null,
    });
    let answer = resolve(&mut stage, conn, sent.clone());
    let values = json!({
        "autoApprove": "default", "approvedTools": [], "workspaceApprovedTools": [], "everywhereApprovedTools": [], "zeal": "low", "branch": "main",
        "alias": "planner",
    });
    assert_eq!(answer["result"]["values"], values, "{answer}");
    for remembered in [
        json!({ "autoApprove": "assisted", "mode": "plan" }),
        json!({ "mode": "autopilot" }),
        json!({ "autoApprove": "autopilot", "isolation": "worktree" }),
    ] {
        let answer = resolve(&mut stage, conn, remembered.clone());
        assert_eq!(
            answer["result"]["values"]["autoApprove"], "default",
            "{remembered} {answer}"
        );
        assert_eq!(answer["result"]["values"].get("mode"), None);
        assert_eq!(answer["result"]["schema"]["properties"].get("mode"), None, "{answer}");
    }
    let asked = SettingQuery {
        setup: SessionSetup {
            config: object(sent.clone()),
            ..SessionSetup::default()
        },
        property: "remote".to_owned(),
        query: "x".to_owned(),
    };
    let CompletionQuery::SettingValue { values: told, .. } =
        stage.look_up(conn, Command::SessionConfigCompletions(Box::new(asked)))
    else {
        panic!("the agent is asked");
    };
    assert_eq!(
        Value::Object(told),
        json!({ "autoApprove": "default", "branch": "main" })
    );
    let answer = create(&mut stage, conn, sent, &[]);
    assert_eq!(answer["result"], Value::Null, "{answer}");
    assert_eq!(stage.state(SESSION)["config"]["values"], values);
}

/// VS Code shows its own permission picker for exactly this: a text setting with `default` among
/// its values and none that the picker does not know, changeable in a running session.
#[test]
fn cmp07_the_approval_mode_is_the_setting_that_vs_code_has_a_picker_for() {
    let mut stage = stage(planner());
    let conn = stage.client("c", &[]);
    let resolved = resolve(&mut stage, conn, json!({}))["result"].clone();
    create(&mut stage, conn, json!({ "branch": "b" }), &[]);
    for config in [&resolved, &stage.state(SESSION)["config"]] {
        let property = &config["schema"]["properties"]["autoApprove"];
        assert_eq!(property["type"], "string");
        assert_eq!(property["enum"], json!(["default", "autoApprove"]));
        assert_eq!(property["default"], "default");
        assert_eq!(property["sessionMutable"], true);
        assert_eq!(property.get("readOnly"), None);
        assert_eq!(config["values"]["autoApprove"], "default");
        assert_eq!(
            config["schema"]["required"],
            json!(["branch"]),
            "what cannot be left out"
        );
    }
}

#[test]
fn ses23_settings_that_do_not_exist_are_left_out_of_a_change() {
    let mut stage = stage(planner());
    let conn = stage.client("c", &[]);
    create(&mut stage, conn, json!({ "branch": "b" }), &[]);
    stage.subscribe(conn, SESSION);
    let other = stage.client("d", &[SESSION]);
    let before = stage.state(SESSION);
    stage.dispatch(conn, SESSION, 1, config_changed("session", json!({ "shade": 1 })));
    let seen = stage.actions(conn);
    assert_eq!(seen.len(), 1, "its author waits for it: {seen:?}");
    assert_eq!(seen[0].get("rejectionReason"), None);
    assert_eq!(seen[0]["action"]["config"], json!({}));
    assert!(stage.actions(other).is_empty());
    assert_eq!(stage.state(SESSION), before);

    let both = json!({ "shade": 1, "zeal": "high", "mode": "plan" });
    stage.dispatch(conn, SESSION, 2, config_changed("session", both));
    assert_eq!(stage.actions(other)[0]["action"]["config"], json!({ "zeal": "high" }));

    // A client that knows the former name of the approval mode only.
    let former = json!({ "approvalMode": "allowAll" });
    stage.dispatch(conn, SESSION, 3, config_changed("session", former));
    assert_eq!(
        stage.actions(other)[0]["action"]["config"],
        json!({ "autoApprove": "autoApprove" })
    );
    let wrong = json!({ "approvalMode": "never" });
    stage.dispatch(conn, SESSION, 4, config_changed("session", wrong));
    let reason = stage.refusal(conn).expect("a refusal");
    assert!(
        reason.starts_with("config.approvalMode: must be one of ask, allowAll"),
        "{reason}"
    );
}

#[test]
fn cmp07_cmp08_properties_come_in_the_order_they_were_declared() {
    let keys = [
        "autoApprove",
        "approvedTools",
        "workspaceApprovedTools",
        "everywhereApprovedTools",
        "zeal",
        "branch",
        "remote",
        "alias",
    ];
    // A hash map would get eight keys right once in forty thousand times.
    for _ in 0..3 {
        let mut stage = stage(planner());
        let conn = stage.client("c", &[]);
        let text = stage.answer_text(conn, Command::ResolveSessionConfig(Box::default()));
        let order = written_order(&text, "\"properties\"", &keys);
        assert!(order.is_sorted(), "{order:?} {text}");
        let answer = create(&mut stage, conn, json!({ "branch": "main" }), &[]);
        assert_eq!(answer["result"], Value::Null, "{answer}");
        let snapshot = stage.core.snapshot(SESSION).expect("the session exists");
        let text = serde_json::to_string(&snapshot).expect("JSON");
        let order = written_order(&text, "\"properties\"", &keys);
        assert!(order.is_sorted(), "{order:?} {text}");
        let root = stage.core.snapshot(ROOT).expect("the root exists");
        let text = serde_json::to_string(&root).expect("JSON");
        let order = written_order(&text, "\"properties\"", &["autoApprove", "silenceLimitMinutes"]);
        assert!(order.is_sorted(), "{order:?} {text}");
    }
}

#[test]
fn cmp08_an_edited_config_reads_back_as_the_published_state() {
    let mut stage = stage(planner());
    let conn = stage.client("c", &[]);
    create(&mut stage, conn, json!({ "branch": "main" }), &["file:///a"]);
    let session: ahp_types::state::SessionState = serde_json::from_value(stage.state(SESSION)).expect("a session");
    assert_eq!(serde_json::to_value(&session).expect("JSON"), stage.state(SESSION));
    let root: ahp_types::state::RootState = serde_json::from_value(stage.state(ROOT)).expect("a root");
    assert_eq!(serde_json::to_value(&root).expect("JSON"), stage.state(ROOT));
}

#[test]
fn cmp06_choices_are_filtered_and_searches_are_looked_up() {
    let mut stage = stage(planner());
    let conn = stage.client("c", &[]);
    let values = |answer: Value| -> Vec<String> {
        let result: SessionConfigCompletionsResult = serde_json::from_value(answer["result"].clone()).expect("typed");
        result.items.into_iter().map(|item| item.value).collect()
    };
    let cases = [
        ("zeal", "", vec!["low", "high"]),
        ("zeal", "LOT", vec!["high"]),
        ("zeal", " Low", vec!["low"]),
        ("zeal", "x", vec![]),
        // The seed of a search is shown before the user has typed.
        ("branch", "", vec!["main"]),
        ("alias", "p", vec![]),
        ("autoApprove", "allow", vec!["autoApprove"]),
        // The former name of the same setting has its former values.
        ("approvalMode", "allow", vec!["allowAll"]),
    ];
    for (property, typed, expected) in cases {
        let answer = stage.request(conn, query(property, typed));
        assert_eq!(values(answer), expected, "{property} {typed:?}");
    }
    for (property, typed) in [("branch", "fea"), ("remote", "")] {
        let expected = CompletionQuery::SettingValue {
            provider: "planner".to_owned(),
            property: property.to_owned(),
            query: typed.to_owned(),
            working_directory: None,
            values: Map::new(),
        };
        assert_eq!(stage.look_up(conn, query(property, typed)), expected);
    }
    let answer = stage.request(conn, query("colour", ""));
    let (code, message) = error(&answer);
    assert_eq!(code, -32602);
    assert!(message.starts_with("params.property: is unknown"), "{message}");
}

#[test]
fn cmp09_a_session_is_created_with_checked_values_only() {
    let mut stage = stage(planner());
    let conn = stage.client("c", &[]);
    let cases = [
        (
            json!({}),
            "params.config.branch: is required and has no default; choose one",
        ),
        (
            json!({ "branch": 1 }),
            "params.config.branch: must be text, not a number",
        ),
        (
            json!({ "branch": "b", "zeal": [] }),
            "params.config.zeal: must be one of low, high",
        ),
        (
            json!({ "branch": "b", "alias": "me" }),
            "params.config.alias: is shown for information and cannot be changed",
        ),
        (
            json!({ "branch": "b", "autoApprove": "never" }),
            "params.config.autoApprove: must be one of default, autoApprove",
        ),
        (
            json!({ "branch": "b", "isolation": "worktree" }),
            "params.config.isolation: must be folder: this host works in the directory itself; create a worktree and \
             name its directory",
        ),
    ];
    for (config, expected) in cases {
        let answer = create(&mut stage, conn, config.clone(), &[]);
        assert_eq!(error(&answer), (-32602, expected), "{config}");
    }
    let answer = create(
        &mut stage,
        conn,
        json!({ "branch": "b", "autoApprove": "autoApprove" }),
        &[],
    );
    assert_eq!(answer["result"], Value::Null, "{answer}");
    let values = &stage.state(SESSION)["config"]["values"];
    assert_eq!(
        (&values["branch"], &values["autoApprove"], &values["zeal"]),
        (&json!("b"), &json!("autoApprove"), &json!("low"))
    );
    let told = stage.agent.iter().find_map(|effect| match effect {
        Effect::Agent(AgentCommand::OpenChat(open)) => Some(open.info.settings.clone()),
        _ => None,
    });
    assert_eq!(told.expect("a chat was opened")["branch"], "b");
}

#[test]
fn ses23_only_mutable_settings_can_be_changed_and_others_are_named() {
    let mut stage = stage(planner());
    let conn = stage.client("c", &[]);
    create(&mut stage, conn, json!({ "branch": "b" }), &[]);
    stage.subscribe(conn, SESSION);
    let other = stage.client("d", &[SESSION]);
    let cases = [
        (
            config_changed("session", json!({ "branch": "other" })),
            "config.branch: was chosen when the session was created and cannot be changed now",
        ),
        (
            config_changed("session", json!({ "zeal": "huge" })),
            "config.zeal: must be one of low, high",
        ),
        (
            config_changed("session", json!({ "alias": "me" })),
            "config.alias: is shown for information and cannot be changed",
        ),
        (
            replaced("session", json!({ "zeal": "high" })),
            "config.branch: was chosen when the session was created and cannot be changed now; a replacement of all values must contain it",
        ),
    ];
    for (action, expected) in cases {
        stage.dispatch(conn, SESSION, 1, action.clone());
        assert_eq!(stage.refusal(conn).as_deref(), Some(expected), "{action}");
    }
    assert!(stage.actions(other).is_empty());

    stage.dispatch(
        conn,
        SESSION,
        3,
        config_changed("session", json!({ "zeal": "high", "branch": "b" })),
    );
    assert_eq!(stage.refusal(conn), None);
    assert_eq!(stage.action_types(other), ["session/configChanged"]);
    assert_eq!(stage.state(SESSION)["config"]["values"]["zeal"], "high");
}

#[test]
fn ses23_a_replaced_config_is_published_with_defaults() {
    let mut stage = stage(planner());
    let conn = stage.client("c", &[]);
    create(&mut stage, conn, json!({ "branch": "b", "zeal": "high" }), &[]);
    stage.subscribe(conn, SESSION);
    let kept = json!({ "branch": "b", "alias": "planner", "approvedTools": ["shell(*)"] });
    stage.dispatch(conn, SESSION, 1, replaced("session", kept));
    let expected = json!({
        "autoApprove": "default", "approvedTools": ["shell(*)"], "workspaceApprovedTools": [], "everywhereApprovedTools": [], "zeal": "low",
        "branch": "b", "alias": "planner",
    });
    assert_eq!(stage.actions(conn)[0]["action"]["config"], expected);
    assert_eq!(stage.state(SESSION)["config"]["values"], expected);
}

/// An unchanged one, too, is for its author alone, and does not silence the announcement that
/// comes after it (DSP-15, E-52).
#[test]
fn ses23_an_unchanged_setting_is_acknowledged_to_its_author_alone() {
    let mut stage = stage(planner());
    let conn = stage.client("c", &[]);
    create(&mut stage, conn, json!({ "branch": "b" }), &[]);
    stage.subscribe(conn, SESSION);
    let other = stage.client("d", &[SESSION]);
    stage.dispatch(conn, SESSION, 1, crate::harness::announce("c"));
    stage.inbox(conn);
    stage.inbox(other);
    stage.dispatch(conn, SESSION, 2, config_changed("session", json!({ "zeal": "low" })));
    stage.dispatch(conn, SESSION, 3, crate::harness::announce("c"));
    let seen = stage.actions(conn);
    assert_eq!(seen.len(), 2, "{seen:?}");
    assert_eq!(seen[0]["origin"]["clientSeq"], 2);
    assert_eq!(seen[1]["origin"]["clientSeq"], 3);
    assert!(stage.actions(other).is_empty());
}

// Completions while users type.

#[test]
fn cmp01_completions_are_looked_up_for_a_chat_or_for_its_session() {
    let mut stage = stage(planner());
    let conn = stage.client("c", &[]);
    create(&mut stage, conn, json!({ "branch": "b" }), &["file:///srv/project"]);
    let chat = innkeeper_core::uri::default_chat(SESSION);
    let expected = CompletionQuery::Message {
        provider: "planner".to_owned(),
        chat_uri: chat.as_str().into(),
        working_directories: vec!["file:///srv/project".to_owned()],
        text: "see @ma".to_owned(),
        offset: 7,
        commands: planner().commands,
        session: innkeeper_core::ChannelId(1),
        disabled_ids: std::sync::Arc::default(),
    };
    for channel in [chat.as_str(), SESSION] {
        let found = stage.look_up(conn, completions(channel, "userMessage", "see @ma", 7));
        assert_eq!(found, expected, "{channel}");
    }
    let answer = stage.request(conn, completions(&chat, "x-future", "see @ma", 7));
    assert_eq!(answer["result"], json!({ "items": [] }));
    for channel in ["ahp-chat:/none", ROOT] {
        let answer = stage.request(conn, completions(channel, "userMessage", "", 0));
        assert_eq!(error(&answer).0, -32001, "{channel}");
    }
}

/// CMP-03 and CMP-04 are about the items, which the host crate makes.
#[test]
fn cmp02_the_offset_is_counted_in_utf16_and_stays_within_the_text() {
    let mut stage = stage(planner());
    let conn = stage.client("c", &[]);
    create(&mut stage, conn, json!({ "branch": "b" }), &[]);
    let chat = innkeeper_core::uri::default_chat(SESSION);
    // Two code units, four bytes.
    for offset in [0, 1, 2] {
        stage.look_up(conn, completions(&chat, "userMessage", "😀", offset));
    }
    for offset in [-1, 3, 4, i64::MAX, i64::MIN] {
        let answer = stage.request(conn, completions(&chat, "userMessage", "😀", offset));
        let expected = "params.offset: must be between 0 and 2, the length of the text in UTF-16 code units";
        assert_eq!(error(&answer), (-32602, expected), "{offset}");
    }
}

#[test]
fn ses23_an_agent_changes_its_own_settings_and_none_of_the_host() {
    let mut stage = stage(planner());
    let conn = stage.client("c", &[]);
    create(&mut stage, conn, json!({ "branch": "b" }), &[]);
    stage.subscribe(conn, SESSION);
    let chat = innkeeper_core::uri::default_chat(SESSION);
    stage.start_turn(conn, &chat, "t");
    stage.inbox(conn);
    let sets = |id: &str, value: Value| AgentEvent::Setting {
        id: id.to_owned(),
        value: Box::new(value),
    };
    let before = stage.state(SESSION)["config"]["values"].clone();
    // The policy of the host, a fixed setting, a value that does not fit, and a setting of another agent.
    for (id, value) in [
        ("autoApprove", json!("autoApprove")),
        ("approvedTools", json!(["shell(*)"])),
        ("branch", json!("other")),
        ("zeal", json!("huge")),
        ("mood", json!("grumpy")),
    ] {
        stage.says(sets(id, value));
    }
    assert_eq!(stage.state(SESSION)["config"]["values"], before);
    stage.says(sets("zeal", json!("high")));
    assert_eq!(stage.state(SESSION)["config"]["values"]["zeal"], "high");
    let heard = stage.action_types(conn);
    let changes = heard.iter().filter(|name| *name == "session/configChanged");
    assert_eq!(changes.count(), 1, "{heard:?}");
}
