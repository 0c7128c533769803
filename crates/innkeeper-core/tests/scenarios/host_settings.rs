//! What the host can be set up with.

use ahp_types::state::{ConfigSchema, SessionModelInfo};
use innkeeper_core::{AgentProfile, CoreConfig, Effect};
use serde_json::json;

use crate::configuration::{config_changed, replaced, stage};
use crate::harness::{ROOT, SESSION, Stage, agent};

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
        json!({ "approvalMode": "ask", "silenceLimitMinutes": 1.5 })
    );
    assert_eq!(
        config["schema"]["properties"]["approvalMode"]["enum"],
        json!(["ask", "allowAll"])
    );
    assert_eq!(config["schema"]["properties"]["silenceLimitMinutes"]["type"], "number");
}

#[test]
fn root07_a_change_of_the_hosts_settings_merges_and_takes_effect_in_new_sessions() {
    let mut stage = Stage::new();
    let conn = stage.client("c", &[ROOT]);
    stage.session(conn, "ahp-session:/before");
    stage.inbox(conn);
    stage.dispatch(
        conn,
        ROOT,
        1,
        config_changed("root", json!({ "approvalMode": "allowAll" })),
    );
    assert_eq!(stage.refusal(conn), None);
    let values = stage.state(ROOT)["config"]["values"].clone();
    assert_eq!(values, json!({ "approvalMode": "allowAll", "silenceLimitMinutes": 30 }));
    stage.session(conn, "ahp-session:/after");
    let mode = |session| stage.state(session)["config"]["values"]["approvalMode"].clone();
    assert_eq!(
        (mode("ahp-session:/before"), mode("ahp-session:/after")),
        (json!("ask"), json!("allowAll"))
    );

    // A replacement goes back to the defaults of what it leaves out.
    stage.dispatch(conn, ROOT, 2, replaced("root", json!({ "silenceLimitMinutes": 5 })));
    let echo = stage.actions(conn).pop().expect("an echo");
    let expected = json!({ "approvalMode": "ask", "silenceLimitMinutes": 5 });
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
fn root08_a_wrong_value_or_an_unknown_key_is_refused_and_named() {
    let mut stage = Stage::new();
    let conn = stage.client("c", &[ROOT]);
    let before = stage.state(ROOT);
    let cases = [
        (
            json!({ "approvalMode": "yolo" }),
            "config.approvalMode: must be one of ask, allowAll",
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
        // E-51: a client that pushes its own settings at connect learns that they mean nothing.
        (
            json!({ "customTerminalTool": true }),
            "config.customTerminalTool: is unknown; the settings are approvalMode, silenceLimitMinutes",
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

#[test]
fn root08_dsp15_unchanged_host_settings_are_acknowledged_to_their_author_alone() {
    let mut stage = Stage::new();
    let conn = stage.client("c", &[ROOT]);
    let other = stage.client("d", &[ROOT]);
    for (clientseq, config) in [(1, json!({})), (2, json!({ "approvalMode": "ask" }))] {
        stage.dispatch(conn, ROOT, clientseq, config_changed("root", config));
        let seen = stage.actions(conn);
        assert_eq!(seen.len(), 1);
        assert_eq!(seen[0]["origin"]["clientSeq"], clientseq);
        assert_eq!(seen[0].get("rejectionReason"), None);
    }
    // The author applied its replacement as it sent it; the echo has what it left out.
    stage.dispatch(conn, ROOT, 3, replaced("root", json!({ "approvalMode": "ask" })));
    let echo = stage.actions(conn).pop().expect("an echo");
    let whole = json!({ "approvalMode": "ask", "silenceLimitMinutes": 30 });
    assert_eq!(echo["action"]["config"], whole);
    assert!(stage.actions(other).is_empty());
}

#[test]
fn root05_a_models_settings_come_back_with_the_message_and_reach_the_agent() {
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
        Effect::StartTurn { start, .. } => Some(start),
        _ => None,
    });
    let start = start.expect("the turn starts");
    assert_eq!(
        (start.model.as_deref(), &start.model_settings["effort"]),
        (Some("m1"), &json!("high"))
    );
}
