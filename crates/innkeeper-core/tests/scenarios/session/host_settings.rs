//! The settings of the host.

use ahp_types::state::{ConfigSchema, SessionModelInfo};
use innkeeper_core::{AgentCommand, AgentProfile, CoreConfig, Effect, Principal, Scope};
use serde_json::json;

use crate::harness::{ROOT, SESSION, Stage, agent};
use crate::session::configuration::{config_changed, replaced, stage};

#[test]
fn root06_the_host_has_settings_of_its_own() {
    let config = CoreConfig {
        silence_limit_ms: 90_000,
        ..CoreConfig::default()
    };
    let stage = Stage::with(config);
    let config = &stage.state(ROOT)["config"];
    assert_eq!(
        config["values"],
        json!({ "autoApprove": "default", "silenceLimitMinutes": 1.5 })
    );
    assert_eq!(
        config["schema"]["properties"]["autoApprove"]["enum"],
        json!(["default", "autoApprove"])
    );
    assert_eq!(config["schema"]["properties"]["silenceLimitMinutes"]["type"], "number");
}

#[test]
fn root07_changed_host_settings_are_merged_and_apply_to_new_sessions() {
    let mut stage = Stage::new();
    let conn = stage.client("c", &[ROOT]);
    stage.session(conn, "ahp-session:/before");
    stage.inbox(conn);
    stage.dispatch(
        conn,
        ROOT,
        1,
        config_changed("root", json!({ "autoApprove": "autoApprove" })),
    );
    assert_eq!(stage.refusal(conn), None);
    let values = stage.state(ROOT)["config"]["values"].clone();
    assert_eq!(
        values,
        json!({ "autoApprove": "autoApprove", "silenceLimitMinutes": 30 })
    );
    stage.session(conn, "ahp-session:/after");
    let mode = |session| stage.state(session)["config"]["values"]["autoApprove"].clone();
    assert_eq!(
        (mode("ahp-session:/before"), mode("ahp-session:/after")),
        (json!("default"), json!("autoApprove"))
    );

    // A replacement goes back to the defaults of what it leaves out.
    stage.dispatch(conn, ROOT, 2, replaced("root", json!({ "silenceLimitMinutes": 5 })));
    let echo = stage.actions(conn).pop().expect("an echo");
    let expected = json!({ "autoApprove": "default", "silenceLimitMinutes": 5 });
    assert_eq!(
        (&echo["action"]["config"], &echo["action"]["replace"]),
        (&expected, &json!(true))
    );
    assert_eq!(stage.state(ROOT)["config"]["values"], expected);
}

#[test]
fn root07_a_new_limit_holds_for_the_turns_that_already_run() {
    let config = CoreConfig {
        silence_notice_ms: 0,
        silence_limit_ms: 0,
        ..CoreConfig::default()
    };
    let mut stage = Stage::with(config);
    let conn = stage.client("c", &[ROOT]);
    let chat = stage.session(conn, SESSION);
    stage.start_turn(conn, &chat, "t");
    stage.pass(10 * 60_000);
    assert!(stage.state(&chat).get("activeTurn").is_some());
    stage.dispatch(
        conn,
        ROOT,
        1,
        config_changed("root", json!({ "silenceLimitMinutes": 15 })),
    );
    stage.pass(4 * 60_000);
    assert!(
        stage.state(&chat).get("activeTurn").is_some(),
        "ten and four are less than fifteen"
    );
    stage.pass(60_000);
    assert!(stage.state(&chat).get("activeTurn").is_none());
}

#[test]
fn root08_a_wrong_value_is_refused_and_named() {
    let mut stage = Stage::new();
    let conn = stage.client("c", &[ROOT]);
    let before = stage.state(ROOT);
    let cases = [
        (
            json!({ "autoApprove": "yolo" }),
            "config.autoApprove: must be one of default, autoApprove",
        ),
        (
            json!({ "silenceLimitMinutes": "5" }),
            "config.silenceLimitMinutes: must be a number, not text",
        ),
        (
            json!({ "silenceLimitMinutes": -1 }),
            "config.silenceLimitMinutes: must be between 0, which means never, and 525600",
        ),
        (
            json!({ "silenceLimitMinutes": 1e300 }),
            "config.silenceLimitMinutes: must be between 0, which means never, and 525600",
        ),
        // An unknown setting does not hide an error in another one.
        (
            json!({ "customTerminalTool": true, "silenceLimitMinutes": -1 }),
            "config.silenceLimitMinutes: must be between 0, which means never, and 525600",
        ),
    ];
    for (config, expected) in cases {
        for action in [config_changed("root", config.clone()), replaced("root", config.clone())] {
            stage.dispatch(conn, ROOT, 1, action);
            assert_eq!(stage.refusal(conn).as_deref(), Some(expected), "{config}");
        }
    }
    assert_eq!(stage.state(ROOT), before);
}

/// VS Code sends every host its own 38 settings in seven actions when it connects.
#[test]
fn root08_e51_settings_of_other_hosts_are_dropped_without_a_broadcast() {
    let mut stage = Stage::new();
    let admin = stage.client("c", &[ROOT]);
    let viewer = stage.connect_as(Principal::new("token:view", Scope::View));
    stage.initialize(viewer, "v", &["1.0.0"], &[ROOT]);
    stage.inbox(viewer);
    let other = stage.client("d", &[ROOT]);
    let before = stage.state(ROOT);
    let many = json!({
        "telemetryLevel": "off", "permissions": { "allow": [], "deny": [] }, "mcpServers": { "a": { "command": "b" } },
        "globalAutoApproveEnabled": true, "terminalAutoApproveRules": { "x".repeat(50_000): true },
    });
    for conn in [admin, viewer] {
        for replace in [false, true] {
            let mut action = config_changed("root", many.clone());
            if replace {
                action["replace"] = json!(true);
            }
            stage.dispatch(conn, ROOT, 1, action);
            let seen = stage.actions(conn);
            assert_eq!(seen.len(), 1, "its author waits for it: {seen:?}");
            assert_eq!(seen[0].get("rejectionReason"), None, "{seen:?}");
            assert!(seen[0].to_string().len() < 400, "{seen:?}");
        }
    }
    assert!(stage.actions(other).is_empty());
    assert_eq!(stage.state(ROOT), before);

    let both = json!({ "telemetryLevel": "off", "silenceLimitMinutes": 5, "approvalMode": "allowAll" });
    stage.dispatch(viewer, ROOT, 2, config_changed("root", both.clone()));
    assert!(stage.refusal(viewer).is_some_and(|reason| reason.contains("scope")));
    stage.dispatch(admin, ROOT, 2, config_changed("root", both));
    let known = json!({ "silenceLimitMinutes": 5, "autoApprove": "autoApprove" });
    assert_eq!(stage.actions(other)[0]["action"]["config"], known);
    assert_eq!(stage.state(ROOT)["config"]["values"], known);
}

#[test]
fn root08_dsp15_unchanged_host_settings_are_echoed_to_their_author_alone() {
    let mut stage = Stage::new();
    let conn = stage.client("c", &[ROOT]);
    let other = stage.client("d", &[ROOT]);
    for (clientseq, config) in [(1, json!({})), (2, json!({ "autoApprove": "default" }))] {
        stage.dispatch(conn, ROOT, clientseq, config_changed("root", config));
        let seen = stage.actions(conn);
        assert_eq!(seen.len(), 1);
        assert_eq!(seen[0]["origin"]["clientSeq"], clientseq);
        assert_eq!(seen[0].get("rejectionReason"), None);
    }
    // The author applied its replacement as it sent it; the echo has what it left out.
    stage.dispatch(conn, ROOT, 3, replaced("root", json!({ "autoApprove": "default" })));
    let echo = stage.actions(conn).pop().expect("an echo");
    let whole = json!({ "autoApprove": "default", "silenceLimitMinutes": 30 });
    assert_eq!(echo["action"]["config"], whole);
    assert!(stage.actions(other).is_empty());
}

#[test]
fn root05_a_models_settings_are_echoed_and_reach_the_agent() {
    let schema: ConfigSchema = serde_json::from_value(json!({
        "type": "object", "properties": { "effort": { "type": "string", "title": "Effort" } },
    }))
    .expect("a schema");
    let mut profile: AgentProfile = agent("planner").into();
    profile.info.models = vec![SessionModelInfo {
        id: "m1".to_owned(),
        provider: "planner".to_owned(),
        name: "Model One".to_owned(),
        max_context_window: None,
        max_output_tokens: None,
        max_prompt_tokens: None,
        supports_vision: None,
        policy_state: None,
        config_schema: Some(schema),
        meta: None,
    }];
    let mut stage = stage(profile);
    let conn = stage.client("c", &[]);
    let model = &stage.state(ROOT)["agents"][0]["models"][0];
    assert_eq!(
        (&model["id"], &model["provider"], &model["name"]),
        (&json!("m1"), &json!("planner"), &json!("Model One"))
    );
    assert_eq!(model["configSchema"]["properties"]["effort"]["title"], "Effort");
    let chat = stage.session(conn, SESSION);
    let mut action = stage.turn_started("t");
    action["message"]["model"] = json!({ "id": "m1", "config": { "effort": "high" } });
    stage.dispatch(conn, &chat, 1, action);
    let start = stage.agent.iter().find_map(|effect| match effect {
        Effect::Agent(AgentCommand::StartTurn { start, .. }) => Some(start),
        _ => None,
    });
    let start = start.expect("the turn starts");
    assert_eq!(
        (start.info.model.as_deref(), &start.info.model_settings["effort"]),
        (Some("m1"), &json!("high"))
    );
}
