use innkeeper_core::Version;
use innkeeper_dialects::{Translator, Up};
use serde_json::json;

use super::*;

fn params(json: &str) -> Box<RawValue> {
    serde_json::from_str(json).expect("test JSON")
}

fn problem(method: &str, json: &str) -> String {
    let params = params(json);
    let method = find(method).expect("a method");
    let Route::Core(parse) = method.route else {
        panic!("not a core method")
    };
    match check_channel(method, &params).and_then(|()| parse(&params)) {
        Ok(command) => format!("{command:?}"),
        Err(error) => format!("{} {}", error.code, error.message),
    }
}

#[test]
fn every_method_stands_in_the_table_once() {
    let mut names: Vec<_> = METHODS.iter().map(|method| method.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), METHODS.len());
    assert_eq!(
        METHODS.len(),
        51,
        "31 commands and 2 notifications of AHP 1.0, 8 of MCP, and 10 of our own"
    );
}

#[test]
fn every_method_has_the_scope_that_the_core_enforces() {
    let methods: Vec<_> = METHODS.iter().map(|method| method.name).collect();
    let scopes: Vec<_> = innkeeper_core::METHOD_SCOPES.iter().map(|(name, _)| *name).collect();
    assert_eq!(methods, scopes);
}

#[test]
fn mcp15_the_methods_of_mcp_are_those_that_the_core_knows() {
    use innkeeper_core::mcp::APP_METHODS;
    let of_mcp = METHODS
        .iter()
        .filter(|method| matches!(method.route, Route::Mcp | Route::McpNotification));
    let of_mcp: Vec<_> = of_mcp.map(|method| method.name).collect();
    assert_eq!(of_mcp, APP_METHODS.map(|method| method.name));
}

#[test]
fn mcp18_the_channel_is_not_a_parameter_of_the_servers() {
    let request = params(r#"{"channel":"mcp://s/1","name":"read","_meta":{"channel":"its own"}}"#);
    let request = mcp_request("tools/call", &request).expect("a request");
    assert_eq!(request.channel, "mcp://s/1");
    let left = serde_json::json!({ "name": "read", "_meta": { "channel": "its own" } });
    assert_eq!(Value::Object(request.params), left);
    for bad in ["{}", r#"{"channel":7}"#] {
        let error = mcp_request("tools/call", &params(bad)).expect_err("no channel");
        assert_eq!(error.message, "params.channel: is missing");
    }
}

#[test]
fn bad_parameters_are_named() {
    let cases = [
        (
            "initialize",
            r#"{"clientId":"c"}"#,
            "-32602 params: missing field `protocolVersions`",
        ),
        (
            "initialize",
            r#"{"protocolVersions":[],"clientId":"c"}"#,
            "-32602 params.protocolVersions: is empty; offer at least one version, as in [\"1.0.0\"]",
        ),
        (
            "initialize",
            r#"{"protocolVersions":["1.0.0",2],"clientId":"c"}"#,
            "-32602 params.protocolVersions[1]: invalid type: integer `2`, expected a string",
        ),
        (
            "initialize",
            r#"{"protocolVersions":["1.0.0"],"clientId":""}"#,
            "-32602 params.clientId: a client id is not empty",
        ),
        (
            "initialize",
            r#"{"channel":"ahp-session:/x","protocolVersions":["1.0.0"],"clientId":"c"}"#,
            "-32602 params.channel: initialize is addressed to ahp-root://",
        ),
        ("initialize", "[]", "-32602 params: must be an object"),
        (
            "reconnect",
            r#"{"clientId":"c","lastSeenServerSeq":-1,"subscriptions":[]}"#,
            "-32602 params.lastSeenServerSeq: must not be negative",
        ),
        ("subscribe", "{}", "-32602 params.channel: is missing"),
        (
            "subscribe",
            r#"{"channel":"no scheme"}"#,
            "-32602 params.channel: a channel URI has no control characters or white space",
        ),
        (
            "subscribe",
            r#"{"channel":"a:/b","delivery":{"maxLatencyMs":-1}}"#,
            "-32602 params.delivery.maxLatencyMs: must not be negative",
        ),
        (
            "listSessions",
            r#"{"limit":0}"#,
            "-32602 params.limit: must be at least 1",
        ),
        (
            "createSession",
            r#"{"channel":"a:/b","activeClient":{"clientId":"c"}}"#,
            "-32602 params.activeClient: missing field `tools`",
        ),
        (
            "createSession",
            r#"{"channel":"a:/b","config":[]}"#,
            "-32602 params.config: invalid type: sequence, expected a map",
        ),
        (
            "createSession",
            r#"{"channel":"a:/b","progressToken":7}"#,
            "-32602 params.progressToken: invalid type: integer `7`, expected a string",
        ),
        (
            "createSession",
            r#"{"channel":"a:/b","progressToken":""}"#,
            "-32602 params.progressToken: has between 1 and 256 bytes",
        ),
        (
            "createSession",
            r#"{"channel":"a:/b","workingDirectories":["file:///a",null]}"#,
            "-32602 params.workingDirectories[1]: invalid type: null, expected a string",
        ),
        (
            "subscribe",
            r#"{"channel":"a:/b","view":{"turns":-1}}"#,
            "-32602 params.view.turns: must not be negative",
        ),
        (
            "subscribe",
            r#"{"channel":"a:/b","view":{"turns":"5"}}"#,
            "-32602 params.view.turns: invalid type: string \"5\", expected i64",
        ),
        (
            "createChat",
            r#"{"channel":"a:/b"}"#,
            "-32602 params: missing field `chat`",
        ),
        (
            "createChat",
            r#"{"channel":"a:/b","chat":"no scheme"}"#,
            "-32602 params.chat: a channel URI has no control characters or white space",
        ),
        (
            "createChat",
            r#"{"channel":"a:/b","chat":"ahp-chat:/c","workingDirectories":["file:///a","b"]}"#,
            "-32602 params.workingDirectories[1]: must be a URI, as in file:///home/me/project",
        ),
        // CHT-04, E-42: missing, unknown and malformed are three different mistakes.
        (
            "createChat",
            r#"{"channel":"a:/b","chat":"ahp-chat:/c","source":{"chat":"ahp-chat:/d","turnId":"t"}}"#,
            "-32602 params.source.kind: is missing; it is one of fork, sideChat",
        ),
        (
            "createChat",
            r#"{"channel":"a:/b","chat":"ahp-chat:/c","source":{"kind":"copy"}}"#,
            "-32602 params.source.kind: \"copy\" is unknown to this host; it is one of fork, sideChat",
        ),
        (
            "createChat",
            r#"{"channel":"a:/b","chat":"ahp-chat:/c","source":{"kind":5}}"#,
            "-32602 params.source.kind: must be one of fork, sideChat",
        ),
        (
            "createChat",
            r#"{"channel":"a:/b","chat":"ahp-chat:/c","source":"fork"}"#,
            "-32602 params.source: must be an object",
        ),
        (
            "createChat",
            r#"{"channel":"a:/b","chat":"ahp-chat:/c","source":{"kind":"fork","chat":"ahp-chat:/d","turnId":1}}"#,
            "-32602 params.source.turnId: invalid type: integer `1`, expected a string",
        ),
        (
            "createChat",
            r#"{"channel":"a:/b","chat":"ahp-chat:/c","source":{"kind":"sideChat","chat":"ahp-chat:/d","turnId":"t","selection":{}}}"#,
            "-32602 params.source.selection: missing field `text`",
        ),
        (
            "createChat",
            r#"{"channel":"a:/b","chat":"ahp-chat:/c","initialMessage":{"text":"hi"}}"#,
            "-32602 params.initialMessage: missing field `origin`",
        ),
        (
            "createChat",
            r#"{"channel":"a:/b","chat":"ahp-chat:/c","initialMessage":{"text":"hi","origin":{"kind":"user"},"attachments":{}}}"#,
            "-32602 params.initialMessage.attachments: must be a list",
        ),
        (
            "createChat",
            r#"{"channel":"a:/b","chat":"ahp-chat:/c","initialMessage":{"text":"hi","origin":{"kind":"user"},"attachments":[{"type":"hologram"}]}}"#,
            "-32602 params.initialMessage.attachments[0].type: \"hologram\" is unknown to this host; it is one of simple, embeddedResource, resource, annotations, chat",
        ),
        (
            "createChat",
            r#"{"channel":"a:/b","chat":"ahp-chat:/c","initialMessage":{"text":"hi","origin":{"kind":"user"},"attachments":[{"type":"resource","label":"x"}]}}"#,
            "-32602 params.initialMessage.attachments[0]: missing field `uri`",
        ),
        ("disposeChat", "{}", "-32602 params.channel: is missing"),
        (
            "moveChat",
            r#"{"channel":"a:/b"}"#,
            "-32602 params: missing field `destination`",
        ),
        (
            "moveChat",
            r#"{"channel":"a:/b","destination":{"kind":"trash"}}"#,
            "-32602 params.destination.kind: \"trash\" is unknown to this host; it is one of session, newSession",
        ),
        (
            "moveChat",
            r#"{"channel":"a:/b","destination":{}}"#,
            "-32602 params.destination.kind: is missing; it is one of session, newSession",
        ),
        (
            "moveChat",
            r#"{"channel":"a:/b","destination":{"kind":"session"}}"#,
            "-32602 params.destination: missing field `session`",
        ),
        (
            "fetchTurns",
            r#"{"channel":"a:/b","cursor":3}"#,
            "-32602 params.cursor: invalid type: integer `3`, expected a string",
        ),
        (
            "completions",
            r#"{"channel":"a:/b","kind":"userMessage","text":"x","offset":0.5}"#,
            "-32602 params.offset: invalid type: floating point `0.5`, expected i64",
        ),
        (
            "completions",
            r#"{"channel":"a:/b","text":"x","offset":0}"#,
            "-32602 params: missing field `kind`",
        ),
        (
            "resolveSessionConfig",
            r#"{"config":"x"}"#,
            "-32602 params.config: invalid type: string \"x\", expected a map",
        ),
        (
            "resolveSessionConfig",
            r#"{"workingDirectory":"here"}"#,
            "-32602 params.workingDirectory: must be a URI, as in file:///home/me/project",
        ),
        (
            "resolveSessionConfig",
            r#"{"channel":"a:/b"}"#,
            "-32602 params.channel: resolveSessionConfig is addressed to ahp-root://",
        ),
        (
            "sessionConfigCompletions",
            r#"{"query":"x"}"#,
            "-32602 params: missing field `property`",
        ),
        (
            "authenticate",
            r#"{"resource":"r"}"#,
            "-32602 params: missing field `token`",
        ),
        (
            "authenticate",
            r#"{"resource":"r","token":"t","expiresIn":0}"#,
            "-32602 params.expiresIn: must be a positive number of seconds; leave it out if it is unknown",
        ),
        (
            "authenticate",
            r#"{"resource":"r","token":"t","expiresIn":-5}"#,
            "-32602 params.expiresIn: must be a positive number of seconds; leave it out if it is unknown",
        ),
    ];
    for (method, json, expected) in cases {
        assert_eq!(problem(method, json), expected, "{method} {json}");
    }
}

#[test]
fn auth12_an_invalid_refresh_field_is_named_without_its_secret() {
    let good = serde_json::json!({
        "refreshToken": "hunter2", "tokenEndpoint": "https://a.test/token", "clientId": "c", "clientSecret": "hunter3",
    });
    let cases = [
        ("refreshToken", serde_json::json!("")),
        ("refreshToken", serde_json::json!("hunter2\n")),
        ("refreshToken", serde_json::json!("hunter2".repeat(10_000))),
        ("refreshToken", serde_json::json!(["hunter2"])),
        ("refreshToken", Value::Null),
        ("tokenEndpoint", serde_json::json!("http://a.test/token")),
        ("tokenEndpoint", serde_json::json!("ftp://a.test/token")),
        ("tokenEndpoint", serde_json::json!("https://me:hunter2@a.test/token")),
        ("tokenEndpoint", serde_json::json!("token")),
        ("revocationEndpoint", serde_json::json!("https://a.test/#x")),
        ("clientId", serde_json::json!("ä")),
        ("clientSecret", serde_json::json!("")),
        ("authMethod", serde_json::json!("hunter2")),
        ("clientSecret", Value::Null),
    ];
    for (field, value) in cases {
        let mut refresh = good.clone();
        if value.is_null() && field == "clientSecret" {
            refresh["authMethod"] = "client_secret_post".into();
        }
        refresh[field] = value;
        let params = serde_json::json!({ "resource": "r", "token": "t", "_meta": { "innkeeper.refresh": refresh } });
        let problem = problem("authenticate", &params.to_string());
        let place = format!("-32602 params._meta[\"innkeeper.refresh\"].{field}");
        assert!(problem.starts_with(&place), "{problem}");
        assert!(!problem.contains("hunter"), "{problem}");
    }
}

#[test]
fn trn15_unknown_fields_are_ignored() {
    assert!(problem("ping", r#"{"_meta":{"x":1},"unknown":[]}"#).starts_with("Ping"));
    assert!(problem("subscribe", r#"{"channel":"a:/b","view":{"turns":3,"future":true}}"#).starts_with("Subscribe"));
}

#[test]
fn good_parameters_are_read_whole() {
    let cases = [
        (
            "createSession",
            r#"{"channel":"a:/b","workingDirectories":["file:///a"],"config":{"branch":"main"},"progressToken":"p"}"#,
            r#"CreateSession(CreateSession { channel: "a:/b", provider: None, working_directories: ["file:///a"], active_client: None, opt_in: None, config: {"branch": String("main")}, progress_token: Some("p"), fork: None, choices: [] })"#,
        ),
        (
            "subscribe",
            r#"{"channel":"a:/b","view":{"turns":3}}"#,
            r#"Subscribe(Subscribe { channel: "a:/b", max_latency_ms: None, turns: Some(3) })"#,
        ),
        (
            "createChat",
            r#"{"channel":"a:/b","chat":"ahp-chat:/c","source":{"kind":"fork","chat":"ahp-chat:/d","turnId":"t"},"workingDirectories":[]}"#,
            r#"CreateChat(CreateChat { channel: "a:/b", chat: "ahp-chat:/c", initial_message: None, source: Some(Fork(ForkChatSource { chat: "ahp-chat:/d", turn_id: "t" })), working_directories: Some([]), choices: [] })"#,
        ),
        (
            "createChat",
            r#"{"channel":"a:/b","chat":"ahp-chat:/c","source":{"kind":"sideChat","chat":"ahp-chat:/d","turnId":"t","selection":{"text":"this"}}}"#,
            r#"CreateChat(CreateChat { channel: "a:/b", chat: "ahp-chat:/c", initial_message: None, source: Some(SideChat(SideChatSource { chat: "ahp-chat:/d", turn_id: "t", selection: Some(SideChatSelection { text: "this", response_part_id: None }) })), working_directories: None, choices: [] })"#,
        ),
        (
            "moveChat",
            r#"{"channel":"a:/b","destination":{"kind":"session","session":"a:/c","after":"ahp-chat:/d"}}"#,
            r#"MoveChat(MoveChat { channel: "a:/b", destination: Session { session: "a:/c", after: Some("ahp-chat:/d") } })"#,
        ),
        (
            "moveChat",
            r#"{"channel":"a:/b","destination":{"kind":"newSession"}}"#,
            r#"MoveChat(MoveChat { channel: "a:/b", destination: NewSession })"#,
        ),
        (
            "fetchTurns",
            r#"{"channel":"a:/b"}"#,
            r#"FetchTurns { channel: "a:/b", page: At(None) }"#,
        ),
        (
            "completions",
            r#"{"channel":"a:/b","kind":"userMessage","text":"@x","offset":2}"#,
            r#"Completions(Completions { channel: "a:/b", kind: "userMessage", text: "@x", offset: 2 })"#,
        ),
        (
            "sessionConfigCompletions",
            r#"{"property":"branch","workingDirectory":"file:///a","config":{"x":1}}"#,
            r#"SessionConfigCompletions(SettingQuery { setup: SessionSetup { provider: None, working_directory: Some("file:///a"), config: {"x": Number(1)} }, property: "branch", query: "" })"#,
        ),
        // An error never repeats a token, and an expiry without a token is meaningless.
        (
            "authenticate",
            r#"{"resource":"r","token":"","expiresIn":-1}"#,
            r#"Authenticate(Authenticate { resource: "r", token: Secret, expires_in: None, scopes: None, refresh: None })"#,
        ),
        (
            "authenticate",
            r#"{"resource":"r","token":"","_meta":{"innkeeper.refresh":5}}"#,
            r#"Authenticate(Authenticate { resource: "r", token: Secret, expires_in: None, scopes: None, refresh: None })"#,
        ),
        (
            "authenticate",
            r#"{"resource":"r","token":"t","_meta":{"innkeeper.refresh":{"refreshToken":"hunter2","tokenEndpoint":"https://A.test","clientId":"c","clientSecret":"hunter3"}}}"#,
            r#"Authenticate(Authenticate { resource: "r", token: Secret, expires_in: None, scopes: None, refresh: Some(TokenRefresh { refresh_token: Some(Secret), token_endpoint: "https://a.test/", revocation_endpoint: None, client_id: "c", client_secret: Some(Secret), client_auth: Basic }) })"#,
        ),
    ];
    for (method, json, expected) in cases {
        assert_eq!(problem(method, json), expected, "{method} {json}");
    }
}

/// Each of the five kinds of attachment, and what came with it (E-42).
#[test]
fn an_initial_message_keeps_its_attachments() {
    let json = r#"{"channel":"a:/b","chat":"ahp-chat:/c","initialMessage":{"text":"hi","origin":{"kind":"user"},"attachments":[
        {"type":"simple","label":"a","_meta":{"command":"plan"}},
        {"type":"embeddedResource","label":"b","data":"QQ==","contentType":"image/png"},
        {"type":"resource","label":"c","uri":"file:///c"},
        {"type":"annotations","label":"d","resource":"a:/b/annotations"},
        {"type":"chat","label":"e","resource":"ahp-chat:/e"}]}}"#;
    let params = params(json);
    let Ok(Command::CreateChat(create)) = create_chat(&params) else {
        panic!("not read")
    };
    let sent: Value = serde_json::from_str(json).expect("test JSON");
    let read = serde_json::to_value(create.initial_message).expect("JSON");
    assert_eq!(read, sent["initialMessage"]);
}

/// Patterns are built into machines that are many times as large, so it is all of them that count.
#[test]
fn wch03_sec04_patterns_have_a_bound_together() {
    let watch = |field: &str, patterns: &[String]| {
        let mut params = serde_json::json!({ "channel": "ahp-root://", "uri": "file:///srv" });
        params[field] = serde_json::json!({ "items": patterns });
        problem("createResourceWatch", &params.to_string())
    };
    for field in ["includes", "excludes"] {
        for patterns in [vec!["*a".repeat(500); 17], vec!["a".to_owned(); 201]] {
            let refused = watch(field, &patterns);
            assert!(refused.starts_with(&format!("-32602 params.{field}")), "{refused:.200}");
        }
        for patterns in [vec!["*a".repeat(500); 16], vec!["a".to_owned(); 200]] {
            let accepted = watch(field, &patterns);
            assert!(accepted.starts_with("Part(ResourceWatch(Create"), "{accepted:.200}");
        }
    }
}

#[test]
fn parameters_of_older_versions_count_only_for_those_that_have_them() {
    let older = |version: Version, name: &str, json: Value| {
        let mut translator = Translator::new(version, "me");
        let (method, params) = translator.up_request("1", name, json);
        let method = find_older(&method).expect("a method");
        let Route::Core(parse) = method.route else {
            panic!("not a core method")
        };
        format!(
            "{:?}",
            parse(&to_raw_value(&params).expect("JSON")).expect("good parameters")
        )
    };
    let session = json!({ "channel": "a:/b", "session": "a:/b", "model": { "id": "m" },
        "fork": { "session": "a:/c", "turnId": "t" } });
    let has_fork = |version: Version| ![Version::V0_9, Version::V1_0].contains(&version);
    let chat = json!({ "channel": "a:/b", "chat": "ahp-chat:/c", "model": { "id": "m" } });
    for version in Version::ALL.into_iter().filter(|version| version.is_translated()) {
        let created = older(version, "createSession", session.clone());
        assert_eq!(created.contains("turn_id"), has_fork(version), "{version}: {created}");
        assert_eq!(
            created.contains(r#"id: "m""#),
            version.session_has_model(),
            "{version}: {created}"
        );
        let created = older(version, "createChat", chat.clone());
        assert_eq!(
            created.contains(r#"id: "m""#),
            version.session_has_model(),
            "{version}: {created}"
        );

        let mut translator = Translator::new(version, "me");
        let action = json!({ "type": "session/modelChanged", "session": "a:/b", "model": { "id": "m" } });
        let dispatch = json!({ "channel": "a:/b", "clientSeq": 1, "action": action });
        let Up::Forward { params, .. } = translator.up_notification("dispatchAction", dispatch, 0) else {
            panic!("{version}: not forwarded");
        };
        let dispatch = older_dispatch(&to_raw_value(&params).expect("JSON")).expect("a dispatch");
        assert_eq!(dispatch.choice.is_some(), version.session_has_model(), "{version}");
        assert!(dispatch.action.is_err(), "{version}: 1.0 has no such action");
    }
}
