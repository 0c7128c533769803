//! `mcp list`, `start`, `stop` and `call`, with a real server process.

use std::io::Write as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::support::{Ended, Home, Host, TIMEOUT};

const ARGS: [&str; 3] = ["--exact", "odd_server", "--nocapture"];

/// A host, and the directory `w` whose `.mcp.json` declares servers.
struct McpHome {
    home: Home,
    host: Host,
}

impl McpHome {
    /// Starts a host whose servers are not trusted yet.
    fn start(servers: &[(&str, &str)]) -> Self {
        let home = Home::new();
        let servers: serde_json::Map<String, Value> = servers
            .iter()
            .map(|(name, kind)| {
                let env = json!({ innkeeper_testkit::misbehaving_server::KIND: kind });
                let server = json!({ "command": std::env::current_exe().unwrap(), "args": ARGS, "env": env });
                ((*name).to_owned(), server)
            })
            .collect();
        home.write("w/.mcp.json", &json!({ "mcpServers": servers }).to_string());
        let host = home.host(&[]);
        Self { home, host }
    }

    /// Starts a host whose servers the user has trusted.
    fn allowed(servers: &[(&str, &str)]) -> Self {
        let scene = Self::start(servers);
        scene.mcp(&["list"]).code(0);
        let directory = scene.directory();
        scene.home.run(&["trust", "allow", &directory]).code(0);
        scene
    }

    fn directory(&self) -> String {
        let directory = std::fs::canonicalize(self.home.path("w")).unwrap();
        directory.display().to_string()
    }

    /// Runs `innkeeper mcp` in the directory.
    fn mcp(&self, args: &[&str]) -> Ended {
        self.home.run_in("w", &[&["mcp"], args].concat())
    }

    fn sessions(&self) -> Vec<Value> {
        self.home.run(&["sessions", "--json"]).code(0).json_lines()
    }

    /// Starts a session that works in the directory.
    fn session(&self) -> String {
        self.home.run_in("w", &["send", "hello"]).code(0);
        let session = self.sessions().remove(0);
        session["resource"].as_str().unwrap().to_owned()
    }
}

#[test]
fn mcp_list_shows_status_reason_and_advice() {
    let scene = McpHome::start(&[("odd", "plain")]);
    let shown = scene.mcp(&[]).code(0).says("No session works in");
    assert!(shown.stdout.starts_with("odd: failed\n  from file://"), "{shown:?}");
    let how = format!("innkeeper trust allow '{}'", scene.directory());
    assert!(shown.stdout.contains(&how), "{shown:?}");
    scene.home.run(&["trust", "allow", &scene.directory()]).code(0);
    let shown = scene.mcp(&["list"]).code(0);
    assert!(shown.stdout.starts_with("odd: ready, "), "{shown:?}");
    assert!(scene.sessions().is_empty(), "what was opened to look is gone");
    let session = scene.session();
    let directory = scene.directory();
    for place in [&session, &directory] {
        let lines = scene
            .home
            .run(&["mcp", "list", "--json", "--session", place])
            .code(0)
            .json_lines();
        assert_eq!(lines[0]["session"], session.as_str());
        assert_eq!(lines[0]["server"]["name"], "odd");
        assert_eq!(lines[0]["enabled"], true);
    }
    let all = scene.home.run(&["mcp", "list", "--all"]).code(0);
    assert!(
        all.stdout.starts_with(&session) && all.stdout.contains("\n  odd: "),
        "{all:?}"
    );
    scene.home.run(&["mcp", "list", "--session", "nothing-like-it"]).code(5);
}

#[test]
fn mcp_list_reports_that_there_are_no_servers() {
    let home = Home::new();
    let _host = home.host(&[]);
    home.run(&["mcp"]).code(0).says("no MCP server; .mcp.json");
    home.run(&["mcp", "list", "--all"])
        .code(0)
        .says("no session has an MCP server");
    home.write("broken/.mcp.json", "{ \"mcpServers\": [");
    let told = home.run_in("broken", &["mcp"]).code(0).stdout;
    assert!(told.contains("broken") && told.contains(".mcp.json"), "{told}");
    assert!(home.run(&["mcp", "--json"]).code(0).stdout.is_empty());
}

#[test]
fn mcp_call_prints_the_result_after_approval() {
    let scene = McpHome::allowed(&[("odd", "plain"), ("two words", "plain")]);
    let text = r#"{"text": "hello"}"#;
    let asked = scene.mcp(&["call", "odd", "echo", text]).code(2);
    let asked = asked.says("approval: echo").says("| text: hello").says("use --yes");
    assert!(asked.stdout.is_empty(), "{asked:?}");
    for server in ["odd", "two words"] {
        let answer = scene.mcp(&["call", server, "echo", text, "--yes"]).code(0);
        assert_eq!(answer.stdout, "hello\n", "{answer:?}");
    }
    let whole = scene
        .mcp(&["call", "odd", "echo", text, "--yes", "--json"])
        .code(0)
        .json_lines();
    assert_eq!(whole[0]["success"], true);
    assert_eq!(whole[0]["structuredContent"], json!({ "text": "hello" }));
    let mut program = scene
        .home
        .spawn_with("w", &["mcp", "call", "odd", "echo", "-", "--yes"], Stdio::piped());
    program.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    assert_eq!(program.wait().code(0).stdout, "hello\n");
    let tools = scene.mcp(&["call", "odd"]).code(0);
    assert!(tools.stdout.contains("`echo`"), "{tools:?}");
    assert!(scene.sessions().is_empty(), "what was opened to call is gone");
}

#[test]
fn a_server_declared_as_disabled_stays_off_when_others_are_trusted() {
    let scene = McpHome::allowed(&[("odd", "plain")]);
    let file = scene.home.path("w/.mcp.json");
    let mut declared: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    let mut other = declared["mcpServers"]["odd"].clone();
    other["disabled"] = json!(true);
    declared["mcpServers"]["other"] = other;
    scene.home.write("w/.mcp.json", &declared.to_string());
    scene.mcp(&["list"]).code(0);
    scene.home.run(&["trust", "allow", &scene.directory()]).code(0);
    let told = scene.mcp(&["list"]).code(0);
    assert!(told.stdout.contains("odd: ready"), "{told:?}");
    assert!(told.stdout.contains("other: off"), "{told:?}");
    scene.mcp(&["call", "other", "echo", "--yes"]).code(1).says("off");
}

#[test]
fn res03_call_prints_all_of_a_result_that_no_turn_has_room_for() {
    let scene = McpHome::allowed(&[("odd", "plain")]);
    let call = ["call", "odd", "big", r#"{"bytes": 300000}"#, "--yes"];
    let answer = scene.mcp(&call).code(0).stdout;
    assert_eq!(answer.len(), 300_001, "{}", &answer[..answer.len().min(500)]);
    let json = scene.mcp(&[&call[..], &["--json"]].concat()).code(0).json_lines();
    assert_eq!(json[0]["content"][0]["text"].as_str(), answer.strip_suffix('\n'));
    assert_eq!(
        json[0]["content"].as_array().map(Vec::len),
        Some(1),
        "nothing that is gone is named"
    );
}

#[test]
fn a_call_that_does_not_work_out_says_so_and_exits_with_a_code() {
    let scene = McpHome::allowed(&[("odd", "plain"), ("bad", "crash")]);
    let failed = scene.mcp(&["call", "odd", "fail", "--yes"]).code(1);
    failed.says("the tool failed: no luck");
    let failed = scene.mcp(&["call", "odd", "fail", "--yes", "--json"]).code(1);
    assert_eq!(failed.json_lines()[0]["success"], false);
    scene
        .mcp(&["call", "odd", "nope", "--yes"])
        .code(1)
        .says("odd has no tool nope");
    scene
        .mcp(&["call", "bad", "echo", "--yes"])
        .code(1)
        .says("cannot open the database");
    scene.mcp(&["call", "unknown", "echo"]).code(5).says("it has: bad, odd");
    scene
        .mcp(&["call", "odd", "echo", "[1]"])
        .code(2)
        .says("not a JSON object");
    assert!(scene.sessions().is_empty(), "what was opened to call is gone");
}

#[test]
fn inp06_a_question_of_a_server_is_answered_from_another_terminal() {
    let scene = McpHome::allowed(&[("odd", "modern")]);
    let calling = scene
        .home
        .spawn_with("w", &["mcp", "call", "odd", "ask", "--yes"], Stdio::null());
    let begun = Instant::now();
    let wait = loop {
        let mut lines = scene.home.run(&["pending", "--json"]).code(0).json_lines();
        lines.retain(|line| line["request"]["kind"] == "chatInput");
        if let Some(line) = lines.pop() {
            break line;
        }
        assert!(begun.elapsed() < TIMEOUT, "no question comes");
        std::thread::sleep(Duration::from_millis(20));
    };
    let id = wait["request"]["id"].as_str().unwrap();
    scene.home.run(&["answer", "--id", id, "--decline"]).code(0);
    let ended = calling.wait();
    assert!(ended.stderr.contains("question: "), "{ended:?}");
    assert!(
        ended.stderr.contains(&format!("innkeeper answer --id {id}")),
        "{ended:?}"
    );
    assert!(ended.stdout.contains("decline"), "{ended:?}");
}

#[test]
fn mcp04_start_and_stop_report_the_real_status() {
    let scene = McpHome::allowed(&[("odd", "plain"), ("bad", "crash")]);
    let nowhere = scene.mcp(&["start", "odd"]).code(5);
    nowhere.says("no session works in").says("--session");
    scene.session();
    assert_eq!(scene.mcp(&["stop", "odd"]).code(0).stdout, "odd is stopped\n");
    let shown = scene.mcp(&["list"]).code(0);
    assert!(shown.stdout.contains("odd: stopped\n"), "{shown:?}");
    assert!(shown.stdout.contains("innkeeper mcp start odd"), "{shown:?}");
    assert_eq!(scene.mcp(&["start", "odd"]).code(0).stdout, "odd is ready\n");
    scene.mcp(&["start", "bad"]).code(1).says("cannot open the database");
    scene.mcp(&["stop", "unknown"]).code(5).says("it has: bad, odd");
    scene.home.run(&["trust", "revoke", &scene.directory()]).code(0);
    scene.mcp(&["start", "odd"]).code(1).says("innkeeper trust allow");
}

#[test]
fn a_configured_server_is_listed_called_and_explained_with_its_origin() {
    let home = Home::new();
    let program = std::env::current_exe().unwrap().display().to_string();
    let text = format!(
        "listen = \":0\"\n[mcp.servers.garden]\ncommand = {program:?}\nargs = {ARGS:?}\nenv = {{ {} = \"plain\" }}\n\
         [mcp.servers.shed]\ncommand = \"./no-such-program\"\nenabled = false\n",
        innkeeper_testkit::misbehaving_server::KIND
    );
    let config = home.write("config/innkeeper/innkeeper.toml", &text);
    let _host = home.host(&[]);
    home.write("w/readme", "");
    let shown = home.run_in("w", &["mcp"]).code(0);
    let from = format!("  from file://{}\n", std::fs::canonicalize(&config).unwrap().display());
    assert_eq!(
        shown.stdout,
        format!(
            "garden: ready, {} tools\n{from}shed: off, everywhere\n{from}",
            // The tool that opens a view counts, and the one that only the view may call does not.
            innkeeper_testkit::misbehaving_server::PLAIN_TOOLS.len() + 1
        ),
        "{shown:?}"
    );
    let answer = home.run_in("w", &["mcp", "call", "garden", "echo", r#"{"text": "hello"}"#, "--yes"]);
    assert_eq!(answer.code(0).stdout, "hello\n");
    let explained = home.run_in("w", &["customizations", "--explain"]).code(0).stdout;
    for line in [
        "mcpServer garden\n  - from the configuration of the host\n  - on: no user switched it off\n",
        "mcpServer shed\n  - from the configuration of the host\n  - off: its declaration says so \
         (`enabled = false`",
    ] {
        assert!(explained.contains(line), "{line:?} is not in\n{explained}");
    }
    let found = home.run(&["doctor"]).code(0).stdout;
    assert!(
        found.contains("the program ./no-such-program of shed was not found"),
        "{found}"
    );
}

#[test]
fn the_current_directory_applies_to_a_local_host_named_by_address() {
    let scene = McpHome::allowed(&[("odd", "plain")]);
    let session = scene.session();
    let url = scene.host.url();
    let shown = scene.mcp(&["list", "--url", url]).code(0);
    assert!(shown.stdout.starts_with("odd: ready, "), "{shown:?}");
    let shown = shown.says(&session);
    assert!(!shown.stderr.contains("No session"), "{shown:?}");
    let stopped = scene.mcp(&["stop", "odd", "--url", url]).code(0);
    assert_eq!(stopped.stdout, "odd is stopped\n");
}

#[test]
fn p12_trusting_an_unknown_workspace_names_it() {
    let home = Home::new();
    home.write("w/readme", "");
    let directory = std::fs::canonicalize(home.path("w")).unwrap();
    let expected = format!("there is no trust request for {}; ", directory.display());
    home.run_in("w", &["trust", "allow", "."]).code(5).says(&expected);
    home.run_in("w", &["trust", "revoke", "virtual://c/p"])
        .code(5)
        .says("there is no trust request for virtual://c/p; ");
}

#[cfg(unix)]
#[test]
fn p12_trust_accepts_a_path_through_a_symlink() {
    let scene = McpHome::start(&[("odd", "plain")]);
    scene.mcp(&["list"]).code(0);
    std::os::unix::fs::symlink(scene.home.path("w"), scene.home.path("link")).unwrap();
    let link = scene.home.path("link");
    scene.home.run(&["trust", "allow", link.to_str().unwrap()]).code(0);
}
