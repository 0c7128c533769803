use super::*;

fn setting(id: &str, kind: SettingKind) -> Setting {
    Setting {
        id: id.to_owned(),
        title: id.to_uppercase(),
        description: None,
        kind,
        default: None,
        mutable: false,
        read_only: false,
        required: false,
    }
}

fn one_of_each_kind() -> Vec<Setting> {
    vec![
        setting("text", SettingKind::Text),
        setting("number", SettingKind::Number),
        setting("integer", SettingKind::Integer),
        setting("boolean", SettingKind::Boolean),
        setting(
            "choice",
            SettingKind::Choice(vec![Choice::new("ask", "Ask"), Choice::new("allowAll", "Allow")]),
        ),
        setting("search", SettingKind::Search(vec![Choice::new("main", "main")])),
        setting(
            "list",
            SettingKind::TextList {
                min: Some(1),
                max: Some(2),
            },
        ),
        Setting {
            read_only: true,
            default: Some(json!("shown")),
            ..setting("fixed", SettingKind::Text)
        },
    ]
}

fn problem(property: &str, value: Value) -> Option<String> {
    let settings = one_of_each_kind();
    let chosen = Map::from_iter([(property.to_owned(), value)]);
    let result = check_values(&settings, &chosen, &defaults(&settings));
    result.err().map(|problem| problem.to_string())
}

#[test]
fn cmp09_root08_every_problem_names_the_property() {
    let cases = [
        ("text", json!("words"), None),
        ("text", json!(5), Some("config.text: must be text, not a number")),
        ("text", json!(null), Some("config.text: must be text, not null")),
        ("number", json!(1.5), None),
        ("number", json!("1"), Some("config.number: must be a number, not text")),
        ("integer", json!(-3), None),
        ("integer", json!(3.0), None),
        ("integer", json!(3.5), Some("config.integer: must be a whole number")),
        (
            "integer",
            json!([]),
            Some("config.integer: must be a whole number, not a list"),
        ),
        ("boolean", json!(false), None),
        (
            "boolean",
            json!({}),
            Some("config.boolean: must be true or false, not an object"),
        ),
        ("choice", json!("ask"), None),
        (
            "choice",
            json!("Ask"),
            Some("config.choice: must be one of ask, allowAll"),
        ),
        (
            "choice",
            json!(true),
            Some("config.choice: must be one of ask, allowAll"),
        ),
        // The values of a search are not listed, so any text may be valid.
        ("search", json!("feature/x"), None),
        ("search", json!(1), Some("config.search: must be text, not a number")),
        ("list", json!(["a"]), None),
        (
            "list",
            json!("a"),
            Some("config.list: must be an array of strings, not text"),
        ),
        (
            "list",
            json!(["a", 2]),
            Some("config.list: must be an array of strings; item 1 is not a string"),
        ),
        ("list", json!([]), Some("config.list: has 0 items and needs 1")),
        (
            "list",
            json!(["a", "b", "c"]),
            Some("config.list: has 3 items and may have 2"),
        ),
        ("fixed", json!("shown"), None),
        (
            "fixed",
            json!("other"),
            Some("config.fixed: is shown for information and cannot be changed"),
        ),
    ];
    for (property, value, expected) in cases {
        assert_eq!(
            problem(property, value.clone()).as_deref(),
            expected,
            "{property} {value}"
        );
    }
}

#[test]
fn cmp09_values_are_bounded_and_the_longest_is_named() {
    let settings = one_of_each_kind();
    let mut values = Map::new();
    values.insert("search".to_owned(), json!("short"));
    values.insert("text".to_owned(), json!("x".repeat(MAX_VALUES_BYTES)));
    let problem = check_values(&settings, &values, &Map::new()).unwrap_err().to_string();
    assert!(problem.starts_with("config.text: is too long"), "{problem}");
}

#[test]
fn cmp09_a_long_name_is_not_sent_back_whole() {
    let text = Problem::new(&"x".repeat(100_000), "is wrong").to_string();
    assert!(text.len() < 400, "{}", text.len());
}

#[test]
fn cmp09_root08_values_of_other_hosts_are_dropped_and_the_order_stays() {
    let chosen = json!({ "text": "a", "customTerminalTool": { "deep": [1] }, "number": 3, "approvalMode": "ask" });
    let chosen = chosen.as_object().expect("an object");
    let known = known_values(&one_of_each_kind(), chosen).expect("nothing is wrong with it");
    assert_eq!(Value::Object(known), json!({ "text": "a", "number": 3 }));
}

#[test]
fn cmp09_the_approval_mode_is_known_by_its_former_name_and_values() {
    let settings = [approval_mode::setting()];
    let known = |chosen: Value| {
        let known = known_values(&settings, chosen.as_object().expect("an object"));
        known.map(Value::Object).map_err(|problem| problem.to_string())
    };
    let cases = [
        (json!({ "approvalMode": "ask" }), json!({ "autoApprove": "default" })),
        (
            json!({ "approvalMode": "allowAll" }),
            json!({ "autoApprove": "autoApprove" }),
        ),
        (
            json!({ "autoApprove": "autoApprove" }),
            json!({ "autoApprove": "autoApprove" }),
        ),
        // Levels of VS Code that this host does not have: asking is the careful reading.
        (
            json!({ "autoApprove": "assisted" }),
            json!({ "autoApprove": "default" }),
        ),
        (
            json!({ "autoApprove": "autopilot" }),
            json!({ "autoApprove": "default" }),
        ),
        // The displayed name decides, in any order.
        (
            json!({ "approvalMode": "allowAll", "autoApprove": "default" }),
            json!({ "autoApprove": "default" }),
        ),
        (
            json!({ "autoApprove": "default", "approvalMode": "allowAll" }),
            json!({ "autoApprove": "default" }),
        ),
    ];
    for (chosen, expected) in cases {
        assert_eq!(known(chosen.clone()), Ok(expected), "{chosen}");
    }
    let wrong = known(json!({ "approvalMode": "never" })).expect_err("it is wrong");
    assert!(
        wrong.starts_with("config.approvalMode: must be one of ask, allowAll; its name today is autoApprove"),
        "{wrong}"
    );
    let wrong = known(json!({ "autoApprove": 5 })).expect("it is checked later");
    let wrong = check_values(&settings, wrong.as_object().expect("an object"), &Map::new()).expect_err("it is wrong");
    assert_eq!(
        wrong.to_string(),
        "config.autoApprove: must be one of default, autoApprove"
    );
}

#[test]
fn cmp09_a_missing_required_value_is_named() {
    let mut settings = one_of_each_kind();
    settings[0].required = true;
    let problem = check_required(&settings, &defaults(&settings)).unwrap_err();
    assert_eq!(
        problem.to_string(),
        "config.text: is required and has no default; choose one"
    );
    settings[0].default = Some(json!(""));
    assert_eq!(check_required(&settings, &defaults(&settings)), Ok(()));
}

#[test]
fn cmp07_clients_can_build_a_form_from_the_schema() {
    let described = Choice {
        description: Some("Asks.".to_owned()),
        ..Choice::new("ask", "Ask")
    };
    let settings = [
        Setting {
            description: Some("Whether to ask.".to_owned()),
            default: Some(json!("ask")),
            mutable: true,
            required: true,
            ..setting(
                "mode",
                SettingKind::Choice(vec![described, Choice::new("allow", "Allow")]),
            )
        },
        setting("branch", SettingKind::Search(vec![Choice::new("main", "Main")])),
        setting("bare", SettingKind::Search(Vec::new())),
        setting(
            "tools",
            SettingKind::TextList {
                min: None,
                max: Some(9),
            },
        ),
        Setting {
            read_only: true,
            mutable: true,
            ..setting("count", SettingKind::Integer)
        },
    ];
    let schema = serde_json::to_value(session_schema(&settings)).expect("JSON");
    let expected = json!({
        "type": "object",
        "required": ["mode"],
        "properties": {
            "mode": {
                "type": "string", "title": "MODE", "description": "Whether to ask.", "default": "ask",
                "enum": ["ask", "allow"], "enumLabels": ["Ask", "Allow"], "enumDescriptions": ["Asks.", ""],
                "sessionMutable": true,
            },
            "branch": {
                "type": "string", "title": "BRANCH", "enum": ["main"], "enumLabels": ["Main"], "enumDynamic": true,
            },
            "bare": { "type": "string", "title": "BARE", "enumDynamic": true },
            "tools": {
                "type": "array", "title": "TOOLS", "items": { "type": "string", "title": "TOOLS" }, "maxItems": 9,
            },
            // A read-only value is not mutable either.
            "count": { "type": "integer", "title": "COUNT", "readOnly": true },
        },
    });
    assert_eq!(schema, expected);
    let host = serde_json::to_value(host_schema(&settings)).expect("JSON");
    assert!(host["properties"]["mode"].get("sessionMutable").is_none(), "{host}");
}

#[test]
fn cmp08_e43_properties_come_in_the_order_they_were_declared() {
    let settings: Vec<Setting> = (0..40)
        .map(|index| setting(&format!("s{}", (index * 7) % 40), SettingKind::Text))
        .collect();
    let config = SessionConfigState {
        schema: session_schema(&settings),
        values: Map::new(),
    };
    let text = serde_json::to_string(&InOrder::session(&config, &settings)).expect("JSON");
    let mut from = 0;
    for setting in &settings {
        let key = format!("\"{}\":{{", setting.id);
        let at = text[from..]
            .find(&key)
            .unwrap_or_else(|| panic!("{key} is out of order"));
        from += at;
    }
    let back: SessionConfigState = serde_json::from_str(&text).expect("the published type reads it");
    assert_eq!(back, config);
}
