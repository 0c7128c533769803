//! Tool results that are too long for a turn: truncated in the turn, stored whole beside the session.

use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use innkeeper_testkit::model_server::{ModelServer, Reply, Script};
use innkeeper_testkit::official::{OfficialClient, tool_calls_of};
use innkeeper_testkit::process::TIMEOUT;
use serde_json::{Value, json};

use crate::mcp::support::{McpHost, PROGRAM, options};

const NOT_FOUND: i64 = -32008;
const PERMISSION_DENIED: i64 = -32009;

fn read_of(uri: &str) -> Value {
    json!({ "channel": "ahp-root://", "uri": uri })
}

async fn read(client: &OfficialClient, uri: &str) -> Value {
    client
        .request("resourceRead", read_of(uri))
        .await
        .expect("it is kept, and the client sees the session")
}

impl McpHost {
    /// Calls a tool, and returns the references in its result.
    async fn kept(&self, turn: &str, what: &str) -> Vec<Value> {
        self.call(turn, what).await;
        let turn = self.client.turn_end(&self.uris.chat, turn).await;
        let content = tool_calls_of(&turn).remove(0)["content"].clone();
        let pieces = content.as_array().expect("content").iter();
        pieces.filter(|piece| piece["type"] == "resource").cloned().collect()
    }
}

/// Runs `innkeeper sessions` on a data directory.
fn sessions(data: &Path, args: &[&str]) -> Output {
    Command::new(PROGRAM)
        .arg("sessions")
        .args(args)
        .arg("--data")
        .arg(data)
        .env_clear()
        .env("HOME", data)
        .output()
        .expect("the program runs")
}

#[track_caller]
fn done(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Of how many sessions something is kept.
fn left(contents: &Path) -> usize {
    std::fs::read_dir(contents).map_or(0, Iterator::count)
}

/// Waits until nothing is kept of more sessions than these. Contents of a deleted session are removed after the
/// response.
async fn until_left(contents: &Path, sessions: usize) {
    let deadline = Instant::now() + TIMEOUT;
    while left(contents) > sessions {
        assert!(Instant::now() < deadline, "{} are left", left(contents));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn uri_of(reference: &Value) -> String {
    reference["uri"].as_str().expect("a URI").to_owned()
}

#[tokio::test]
async fn res03_p2_a_large_result_is_stored_whole_until_its_session_is_deleted() {
    let scene = McpHost::ready("plain").await;
    let references = scene.kept("t1", r#"odd big {"bytes": 3000000}"#).await;
    let [reference] = references.as_slice() else {
        panic!("{references:?}");
    };
    assert_eq!(reference["sizeHint"], 3_000_000);
    assert_eq!(reference["contentType"], "text/plain");
    let uri = uri_of(reference);
    let whole = read(&scene.client, &uri).await;
    assert_eq!(whole["data"].as_str().map(str::len), Some(3_000_000));
    assert_eq!(
        (&whole["encoding"], &whole["contentType"]),
        (&json!("utf-8"), &json!("text/plain"))
    );
    let about: Value = scene
        .client
        .request("resourceResolve", read_of(&uri))
        .await
        .expect("found");
    assert_eq!((&about["size"], &about["type"]), (&json!(3_000_000), &json!("file")));
    let write = json!({ "channel": "ahp-root://", "uri": uri, "data": "x", "encoding": "utf-8" });
    let (code, _) = scene.client.refused("resourceWrite", write).await;
    assert_eq!(code, PERMISSION_DENIED);
    scene.client.assert_converged().await;

    let host = scene.host.kill_and_restart().await;
    let client = OfficialClient::connect(host.address(), "later").await;
    // A client that does not see the session does not see its contents.
    let (code, message) = client.refused("resourceRead", read_of(&uri)).await;
    assert_eq!(code, PERMISSION_DENIED);
    assert!(message.contains("subscribe to the session"), "{message}");
    client.join(&scene.uris.session).await;
    assert_eq!(read(&client, &uri).await, whole);
    let contents = host.data_path("contents");
    assert_eq!(left(&contents), 1);
    let dispose = json!({ "channel": scene.uris.session, "_meta": { "innkeeper.forGood": true } });
    let _: Value = client.request("disposeSession", dispose).await.expect("disposed of");
    until_left(&contents, 0).await;
    let (code, _) = client.refused("resourceRead", read_of(&uri)).await;
    assert_eq!(code, PERMISSION_DENIED);
}

#[tokio::test]
async fn f17_large_images_and_structured_results_are_stored_within_limits() {
    let scene = McpHost::ready_on("plain", options().limit("content_session_bytes", 10_000_000)).await;
    let references = scene.kept("t1", r#"odd blob {"bytes": 3900000}"#).await;
    let types: Vec<&Value> = references.iter().map(|reference| &reference["contentType"]).collect();
    assert_eq!(types, ["image/png", "application/json"]);
    let image = uri_of(&references[0]);
    let read_back = read(&scene.client, &image).await;
    assert_eq!(read_back["contentType"], "image/png");
    assert_eq!(read_back["data"].as_str().map(str::len), Some(5_200_000), "in base64");
    let structured = read(&scene.client, &uri_of(&references[1])).await;
    let structured: Value = serde_json::from_str(structured["data"].as_str().expect("text")).expect("JSON");
    assert_eq!(structured["y"].as_str().map(str::len), Some(3_900_000));
    scene.kept("t2", r#"odd big {"bytes": 3000000}"#).await;
    let (code, message) = scene.client.refused("resourceRead", read_of(&image)).await;
    assert_eq!(code, NOT_FOUND);
    assert!(message.contains("not kept any more"), "{message}");
    scene.client.assert_converged().await;
}

#[tokio::test]
async fn f17_a_model_gets_the_truncated_result_with_a_note() {
    let script = Script::by(|asked| match asked.last_results().first() {
        None => Reply::new().call("odd__big", json!({ "bytes": 3_000_000 })),
        Some(_) => Reply::words("Done."),
    });
    let model = ModelServer::start(script).await;
    let scene = McpHost::ready_with_model("plain", &model).await;
    assert_eq!(scene.approve("t1", "Read.").await, "Done.");
    let told = model
        .requests()
        .pop()
        .expect("something was asked")
        .last_results()
        .join("");
    assert!(told.len() < 110_000, "{}", told.len());
    assert!(
        told.contains("bytes are left out here; users can open"),
        "the model reads that it was truncated"
    );
    assert!(!told.contains("innkeeper-content:"), "no model can open that");
    scene.client.assert_converged().await;
}

#[tokio::test]
async fn t15_f17_standard_error_of_servers_is_logged_without_secrets() {
    let scene = McpHost::ready_on("plain", options().flags(&["--log", "debug,rmcp=warn"])).await;
    let line = json!({ "level": "warning", "logger": "db", "data": "slow with s3cr3t-value\nINFO forged" });
    scene.call("t1", &format!("odd log {line}")).await;
    let wrote = |log: &str, words: &str| {
        log.lines()
            .any(|line| line.contains("an MCP server wrote") && line.contains(words))
    };
    scene
        .host
        .logged("the line of the server", |log| wrote(log, "slow with"))
        .await;
    scene
        .host
        .logged("its standard error", |log| wrote(log, "wrote a line"))
        .await;
    let log = scene.host.log();
    assert!(!log.contains("s3cr3t-value"), "secrets are hidden");
    assert!(
        !log.lines().any(|line| line.trim_start().starts_with("INFO forged")),
        "one line stays one"
    );
    let line = log
        .lines()
        .find(|line| line.contains("slow with"))
        .expect("it was there");
    assert!(
        line.contains("WARN") && line.contains("db") && line.contains("odd"),
        "{line}"
    );
}

#[tokio::test]
async fn res03_an_export_has_contents_and_a_running_host_imports_them() {
    let scene = McpHost::ready("plain").await;
    let references = scene.kept("t1", r#"odd big {"bytes": 3000000}"#).await;
    let uri = uri_of(&references[0]);
    let whole = read(&scene.client, &uri).await;
    let data = scene.host.data_path("");
    let exported = done(&sessions(&data, &["export", &scene.uris.session]));
    let lines: Vec<&str> = exported.lines().collect();
    assert!(lines[0].starts_with("{\"contents\":"), "said before the session");
    assert!(lines[lines.len() - 2].starts_with("{\"content\":"));
    assert!(lines[lines.len() - 1].contains("\"count\":1"));
    let file = scene.host.path("export.jsonl");
    std::fs::write(&file, &exported).expect("written");
    let file = file.to_str().expect("a path");

    // Under another URI, while a host runs, for a client that never saw the first one.
    let told = done(&sessions(&data, &["import", file, "--as", "ahp-session:/copy"]));
    assert!(told.contains("1 stored results"), "{told}");
    let stranger = OfficialClient::connect(scene.host.address(), "stranger").await;
    let (code, _) = stranger.refused("resourceRead", read_of(&uri)).await;
    assert_eq!(code, PERMISSION_DENIED);
    stranger.join("ahp-session:/copy").await;
    assert_eq!(read(&stranger, &uri).await, whole);

    // The first one goes, and comes back under its own name.
    let dispose = json!({ "channel": scene.uris.session, "_meta": { "innkeeper.forGood": true } });
    let _: Value = scene
        .client
        .request("disposeSession", dispose)
        .await
        .expect("disposed of");
    assert_eq!(read(&stranger, &uri).await, whole, "the copy has its own");
    done(&sessions(&data, &["import", file]));
    let again = done(&sessions(&data, &["export", &scene.uris.session]));
    let last_two = |text: &str| text.lines().rev().take(2).map(str::to_owned).collect::<Vec<_>>();
    assert!(last_two(&again) == last_two(&exported), "what is kept is what it was");
    let later = OfficialClient::connect(scene.host.address(), "later").await;
    later.join(&scene.uris.session).await;
    assert_eq!(read(&later, &uri).await, whole);
}

#[tokio::test]
async fn res03_f17_an_offline_import_reports_left_out_and_missing_contents() {
    let scene = McpHost::ready("plain").await;
    scene.kept("t1", r#"odd big {"bytes": 3000000}"#).await;
    scene.kept("t2", r#"odd big {"bytes": 2000000}"#).await;
    let exported = done(&sessions(&scene.host.data_path(""), &["export", &scene.uris.session]));
    let place = tempfile::tempdir().expect("a directory");
    let file = |name: &str, text: &str| {
        let path = place.path().join(name);
        std::fs::write(&path, text).expect("written");
        path.to_str().expect("a path").to_owned()
    };
    let whole = file("whole.jsonl", &exported);

    let elsewhere = place.path().join("elsewhere");
    assert!(done(&sessions(&elsewhere, &["import", &whole])).contains("2 stored results"));
    let again = done(&sessions(&elsewhere, &["export", &scene.uris.session]));
    assert!(again == exported, "the same, byte for byte");

    // The latest stays where there is no room for both, and it is said.
    let config = file("small.toml", "[limits]\ncontent_session_bytes = 2500000\n");
    let small = sessions(&place.path().join("small"), &["import", &whole, "--config", &config]);
    assert!(done(&small).contains("1 stored results"), "{small:?}");
    let warned = said(&small);
    assert!(
        warned.contains("1 stored results of") && warned.contains("content_session_bytes"),
        "{warned}"
    );

    // A blob larger than this could not be read; a running host does not store it either.
    let config = file("short.toml", "[limits]\nresource_bytes = 2500000\n");
    let short = sessions(&place.path().join("short"), &["import", &whole, "--config", &config]);
    assert!(done(&short).contains("1 stored results"), "{short:?}");
    assert!(said(&short).contains("resource_bytes"), "{short:?}");

    // Damaged contents are not stored, and a truncated file is a failure.
    let bent = exported.replacen("\"data\":\"", "\"data\":\"AAAA", 1);
    let bent = sessions(&place.path().join("bent"), &["import", &file("bent.jsonl", &bent)]);
    assert!(done(&bent).contains("1 stored results"));
    assert!(said(&bent).contains("they are damaged"), "{bent:?}");
    for kept_lines in [1, 2, 3] {
        let count = exported.lines().count() - kept_lines;
        let cut: Vec<&str> = exported.lines().take(count).collect();
        let cut = file("cut.jsonl", &(cut.join("\n") + "\n"));
        let cut = sessions(&place.path().join(format!("cut{kept_lines}")), &["import", &cut]);
        assert!(!cut.status.success() && said(&cut).contains("incomplete"), "{cut:?}");
    }
}

#[tokio::test]
async fn cht17_res03_a_moved_chat_keeps_its_blobs() {
    let scene = McpHost::ready("plain").await;
    let chat = "ahp-chat:/traveller";
    let client = &scene.client;
    client.create_chat(&scene.uris.session, chat, json!({})).await;
    client
        .start_turn(chat, "t1", r#"/mcp odd big {"bytes": 3000000}"#)
        .await;
    let wait = client.wait_for(&scene.uris.session, "toolConfirmation").await;
    client.decide(&wait, json!({ "approved": true })).await;
    let turn = client.turn_end(chat, "t1").await;
    let content = tool_calls_of(&turn).remove(0)["content"].clone();
    let mut pieces = content.as_array().expect("content").iter();
    let uri = uri_of(pieces.find(|piece| piece["type"] == "resource").expect("a reference"));
    let whole = read(client, &uri).await;
    // Contents of other chats stay behind.
    let stays = uri_of(&scene.kept("t2", r#"odd big {"bytes": 2000000}"#).await[0]);

    let params = json!({ "channel": chat, "destination": { "kind": "newSession" } });
    let moved: Value = client.request("moveChat", params).await.expect("moved");
    let dispose = json!({ "channel": scene.uris.session, "_meta": { "innkeeper.forGood": true } });
    let _: Value = client.request("disposeSession", dispose).await.expect("disposed of");
    until_left(&scene.host.data_path("contents"), 1).await;
    let reader = OfficialClient::connect(scene.host.address(), "reader").await;
    reader.join(moved["session"].as_str().expect("a session")).await;
    assert_eq!(read(&reader, &uri).await, whole);
    let (code, _) = reader.refused("resourceRead", read_of(&stays)).await;
    assert_eq!(code, PERMISSION_DENIED, "and never was in a session that is seen");

    let host = scene.host.kill_and_restart().await;
    let later = OfficialClient::connect(host.address(), "later").await;
    later.join(moved["session"].as_str().expect("a session")).await;
    assert_eq!(read(&later, &uri).await, whole);
}
