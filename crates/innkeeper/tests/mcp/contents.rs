//! What tools give back and no turn has room for: shortened in the turn, kept whole beside the session.

use innkeeper_testkit::model_server::{ModelServer, Reply, Script};
use innkeeper_testkit::official::{OfficialClient, tool_calls_of};
use serde_json::{Value, json};

use crate::support::{Scene, options};

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

impl Scene {
    /// Calls a tool, and returns the references in its result.
    async fn kept(&self, turn: &str, what: &str) -> Vec<Value> {
        self.call(turn, what).await;
        let turn = self.client.turn_end(&self.uris.chat, turn).await;
        let content = tool_calls_of(&turn).remove(0)["content"].clone();
        let pieces = content.as_array().expect("content").iter();
        pieces.filter(|piece| piece["type"] == "resource").cloned().collect()
    }
}

fn uri_of(reference: &Value) -> String {
    reference["uri"].as_str().expect("a URI").to_owned()
}

#[tokio::test]
async fn res03_p2_a_large_result_is_kept_whole_survives_a_kill_and_goes_with_its_session() {
    let scene = Scene::ready("plain").await;
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
    // Whoever does not see the session does not see what is kept for it.
    let (code, message) = client.refused("resourceRead", read_of(&uri)).await;
    assert_eq!(code, PERMISSION_DENIED);
    assert!(message.contains("subscribe to the session"), "{message}");
    client.join(&scene.uris.session).await;
    assert_eq!(read(&client, &uri).await, whole);
    let contents = host.data_path("contents");
    let left = || std::fs::read_dir(&contents).map_or(0, Iterator::count);
    assert_eq!(left(), 1);
    let dispose = json!({ "channel": scene.uris.session });
    let _: Value = client.request("disposeSession", dispose).await.expect("disposed of");
    while left() > 0 {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    let (code, _) = client.refused("resourceRead", read_of(&uri)).await;
    assert_eq!(code, PERMISSION_DENIED);
}

#[tokio::test]
async fn f17_large_pictures_and_structured_results_are_kept_and_the_oldest_go() {
    let scene = Scene::ready_on("plain", options().limit("content_session_bytes", 10_000_000)).await;
    let references = scene.kept("t1", r#"odd blob {"bytes": 3900000}"#).await;
    let types: Vec<&Value> = references.iter().map(|reference| &reference["contentType"]).collect();
    assert_eq!(types, ["image/png", "application/json"]);
    let picture = uri_of(&references[0]);
    let read_back = read(&scene.client, &picture).await;
    assert_eq!(read_back["contentType"], "image/png");
    assert_eq!(read_back["data"].as_str().map(str::len), Some(5_200_000), "in base64");
    let structured = read(&scene.client, &uri_of(&references[1])).await;
    let structured: Value = serde_json::from_str(structured["data"].as_str().expect("text")).expect("JSON");
    assert_eq!(structured["y"].as_str().map(str::len), Some(3_900_000));
    scene.kept("t2", r#"odd big {"bytes": 3000000}"#).await;
    let (code, message) = scene.client.refused("resourceRead", read_of(&picture)).await;
    assert_eq!(code, NOT_FOUND);
    assert!(message.contains("not kept any more"), "{message}");
    scene.client.assert_converged().await;
}

#[tokio::test]
async fn f17_a_model_reads_what_is_shown_and_is_told_what_is_missing() {
    let script = Script::by(|asked| match asked.last_results().first() {
        None => Reply::new().call("odd__big", json!({ "bytes": 3_000_000 })),
        Some(_) => Reply::words("Done."),
    });
    let model = ModelServer::start(script).await;
    let scene = Scene::ready_with_model("plain", &model).await;
    assert_eq!(scene.approve("t1", "Read.").await, "Done.");
    let told = model
        .requests()
        .pop()
        .expect("something was asked")
        .last_results()
        .join("");
    assert!(told.len() < 110_000, "{}", told.len());
    assert!(told.contains("bytes are left out here; people can open"), "it says so");
    assert!(!told.contains("innkeeper-content:"), "no model can open that");
    scene.client.assert_converged().await;
}

#[tokio::test]
async fn t15_f17_what_servers_write_for_people_is_in_the_host_s_log_without_secrets() {
    let scene = Scene::ready_on("plain", options().flags(&["--log", "debug,rmcp=warn"])).await;
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
