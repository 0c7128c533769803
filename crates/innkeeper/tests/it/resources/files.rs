//! File access of clients: the working directories of their sessions, and nothing else.

use std::fs;
use std::path::Path;

use innkeeper_testkit::official::OfficialClient;
use innkeeper_testkit::process::HostProcess;
use innkeeper_testkit::raw::RawClient;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::transport::scopes::start_with_scopes;
use crate::{options, start_with_client};

/// A project with one file, and its URI.
pub(crate) fn project() -> (TempDir, String) {
    let project = tempfile::tempdir().expect("a directory");
    fs::write(project.path().join("notes.md"), "héllo\n").expect("a file");
    fs::write(project.path().join("shot.png"), b"\x89PNG\r\n\x1a\n\xff").expect("a file");
    let uri = uri_of(project.path());
    (project, uri)
}

pub(crate) fn uri_of(path: &Path) -> String {
    format!("file://{}", fs::canonicalize(path).expect("there").display())
}

/// Asks, and expects a result.
pub(crate) async fn ask(client: &OfficialClient, method: &str, params: Value) -> Value {
    let answered: Result<Value, _> = client.request(method, with_channel(params)).await;
    answered.unwrap_or_else(|error| panic!("{method}: {error}"))
}

pub(crate) fn with_channel(mut params: Value) -> Value {
    params["channel"] = json!("ahp-root://");
    params
}

async fn refused(client: &OfficialClient, method: &str, params: Value) -> (i64, String) {
    client.refused(method, with_channel(params)).await
}

/// Also RES-11 to RES-13 and RES-20.
#[tokio::test]
async fn res02_res04_res07_res08_res09_res10_the_published_client_uses_files() {
    let (_host, client) = start_with_client().await;
    let (project, uri) = project();
    client.create_session_in("files", &uri).await;
    let read = ask(&client, "resourceRead", json!({ "uri": format!("{uri}/notes.md") })).await;
    let expected = json!({ "data": "héllo\n", "encoding": "utf-8", "contentType": "text/markdown" });
    assert_eq!(read, expected);
    let image = json!({ "uri": format!("{uri}/shot.png"), "encoding": "utf-8" });
    let read = ask(&client, "resourceRead", image).await;
    assert_eq!(read["encoding"], "base64", "RES-02: bytes are never text");
    assert_eq!(read["contentType"], "image/png");
    let listed = ask(&client, "resourceList", json!({ "uri": uri })).await;
    let entries = json!([{ "name": "notes.md", "type": "file" }, { "name": "shot.png", "type": "file" }]);
    assert_eq!(listed["entries"], entries);

    let target = format!("{uri}/new/a%20b.txt");
    let write = json!({ "uri": target, "data": "b25l", "encoding": "base64", "createOnly": true });
    assert_eq!(ask(&client, "resourceWrite", write.clone()).await, json!({}), "RES-20");
    assert_eq!(
        fs::read_to_string(project.path().join("new/a b.txt")).expect("there"),
        "one"
    );
    assert_eq!(refused(&client, "resourceWrite", write).await.0, -32010, "RES-04");
    let found = ask(&client, "resourceResolve", json!({ "uri": target })).await;
    assert_eq!((&found["type"], &found["size"]), (&json!("file"), &json!(3)), "{found}");
    let update =
        json!({ "uri": target, "data": "two", "encoding": "utf-8", "mode": "append", "ifMatch": found["etag"] });
    ask(&client, "resourceWrite", update.clone()).await;
    assert_eq!(
        fs::read_to_string(project.path().join("new/a b.txt")).expect("there"),
        "onetwo"
    );
    assert_eq!(refused(&client, "resourceWrite", update).await.0, -32011, "RES-07");
    let far = json!({ "uri": target, "data": "", "encoding": "utf-8", "mode": "insert", "position": 7 });
    assert_eq!(refused(&client, "resourceWrite", far).await.0, -32602, "RES-08");
    let copy = json!({ "source": target, "destination": format!("{uri}/copy.txt") });
    assert_eq!(ask(&client, "resourceCopy", copy.clone()).await, json!({}));
    let mut strict = copy;
    strict["failIfExists"] = json!(true);
    assert_eq!(
        refused(&client, "resourceCopy", strict.clone()).await.0,
        -32010,
        "RES-10"
    );
    assert_eq!(refused(&client, "resourceMove", strict).await.0, -32010, "RES-10");
    let moved = json!({ "source": target, "destination": format!("{uri}/moved.txt") });
    assert_eq!(ask(&client, "resourceMove", moved).await, json!({}));
    assert_eq!(
        refused(&client, "resourceResolve", json!({ "uri": target })).await.0,
        -32008,
        "RES-12"
    );
    assert_eq!(
        ask(&client, "resourceMkdir", json!({ "uri": format!("{uri}/d/e") })).await,
        json!({})
    );
    let full = refused(&client, "resourceDelete", json!({ "uri": format!("{uri}/d") })).await;
    assert_eq!(full.0, -32603, "RES-11: {full:?}");
    let delete = json!({ "uri": format!("{uri}/d"), "recursive": true });
    assert_eq!(ask(&client, "resourceDelete", delete).await, json!({}));
    client.assert_converged().await;
}

#[tokio::test]
async fn res03_data_uris_are_readable_by_every_client() {
    let (_host, client) = start_with_client().await;
    let read = ask(&client, "resourceRead", json!({ "uri": "data:text/plain,a%20b" })).await;
    assert_eq!(
        read,
        json!({ "data": "a b", "encoding": "utf-8", "contentType": "text/plain" })
    );
    let found = ask(&client, "resourceResolve", json!({ "uri": "data:;base64,YQ==" })).await;
    assert_eq!(found["size"], 1);
    assert_eq!(
        refused(&client, "resourceRead", json!({ "uri": "data:x" })).await.0,
        -32602
    );
    assert_eq!(
        refused(&client, "resourceRead", json!({ "uri": "mailto:me@inn.test" }))
            .await
            .0,
        -32008
    );
}

#[tokio::test]
async fn res01_res15_res16_outside_paths_are_denied_with_the_request_to_send() {
    let host = HostProcess::start(options().setting("[resources]\nbrowse = \"deny\"")).await;
    let client = OfficialClient::connect(host.address(), "first").await;
    let (project, uri) = project();
    let (_other, other) = crate::resources::files::project();
    client.create_session_in("files", &uri).await;
    let mut raw = RawClient::initialized(host.address(), "raw").await;
    // A client cannot reach the files of a session that it does not use.
    let outside = raw
        .call("resourceRead", json!({ "uri": format!("{uri}/notes.md") }))
        .await
        .expect_err("denied");
    assert_eq!(outside.code, -32009);
    let request = json!({ "channel": "ahp-root://", "uri": format!("{uri}/notes.md"), "read": true });
    assert_eq!(outside.data, json!({ "request": request }), "ERR-03");
    raw.call("subscribe", json!({ "channel": "ahp-session:/files" }))
        .await
        .expect("subscribed");
    raw.call("resourceRead", json!({ "uri": format!("{uri}/notes.md") }))
        .await
        .expect("its session now");
    std::os::unix::fs::symlink("/etc/hostname", project.path().join("link")).expect("a link");
    for (uri, code) in [
        (format!("{other}/notes.md"), -32009),
        (format!("{uri}/../x"), -32009),
        (format!("{uri}/%2e%2e/x"), -32009),
        (format!("{uri}/link"), -32009),
        (format!("{uri}/a%2F..%2F..%2Fx"), -32602),
        (format!("{uri}/%00"), -32602),
        (format!("{uri}/none"), -32008),
        ("file://elsewhere/share/x".to_owned(), -32009),
        ("file:///etc/hostname".to_owned(), -32009),
        (
            host.path("data/token")
                .display()
                .to_string()
                .replacen('/', "file:///", 1),
            -32009,
        ),
    ] {
        for method in ["resourceRead", "resourceResolve", "resourceList"] {
            let refusal = raw.call(method, json!({ "uri": uri })).await.expect_err(&uri);
            assert_eq!(refusal.code, code, "{method} {uri}: {}", refusal.message);
        }
    }
    raw.notify("unsubscribe", json!({ "channel": "ahp-session:/files" }))
        .await;
    let gone = raw
        .call("resourceRead", json!({ "uri": format!("{uri}/notes.md") }))
        .await
        .expect_err("denied");
    assert_eq!(
        gone.code, -32009,
        "RES-15: what it no longer uses, it no longer reaches"
    );
}

#[tokio::test]
async fn sec03_scope_view_never_writes_and_never_reads_tokens() {
    let (host, drive, view) = start_with_scopes().await;
    let owner = OfficialClient::connect(&drive, "owner").await;
    // The session works where the host keeps its own files.
    let home = uri_of(&host.path(""));
    owner.create_session_in("home", &home).await;
    let mut visitor = RawClient::initialized(&view, "visitor").await;
    visitor
        .call("subscribe", json!({ "channel": "ahp-session:/home" }))
        .await
        .expect("may look");
    fs::write(host.path("notes.md"), "notes").expect("written");
    let file = json!({ "uri": format!("{home}/notes.md") });
    visitor.call("resourceRead", file.clone()).await.expect("may read");
    for secret in [
        "innkeeper.toml",
        "data/token",
        "data",
        "drive",
        "view",
        "data/../data/token",
    ] {
        let refusal = visitor
            .call("resourceRead", json!({ "uri": format!("{home}/{secret}") }))
            .await;
        let refusal = refusal.expect_err(secret);
        assert!(
            [-32009, -32602].contains(&refusal.code),
            "{secret}: {}",
            refusal.message
        );
    }
    let both = json!({ "source": format!("{home}/notes.md"), "destination": format!("{home}/copy") });
    let content = json!({ "uri": format!("{home}/x"), "data": "", "encoding": "utf-8" });
    for (method, params) in [
        ("resourceWrite", content),
        ("resourceDelete", file.clone()),
        ("resourceMkdir", json!({ "uri": format!("{home}/dir") })),
        ("resourceCopy", both.clone()),
        ("resourceMove", both),
        ("resourceRequest", json!({ "uri": home, "write": true })),
    ] {
        let refusal = visitor.call(method, params).await.expect_err(method);
        assert_eq!(refusal.code, -32009, "{method}: {}", refusal.message);
    }
    let stolen = json!({ "source": format!("{home}/data"), "destination": format!("{home}/mine") });
    assert_eq!(refused(&owner, "resourceCopy", stolen).await.0, -32009);
}

#[tokio::test]
async fn res18_a_resource_is_bounded_and_a_long_one_arrives_whole() {
    let host = HostProcess::start(options().limit("resource_bytes", 6 << 20).limit("directory_entries", 3)).await;
    let client = OfficialClient::connect(host.address(), "first").await;
    let (project, uri) = project();
    client.create_session_in("files", &uri).await;
    let text = "x".repeat(6 << 20);
    fs::write(project.path().join("long"), &text).expect("a file");
    // In base64 it is longer than what may wait for a connection.
    let read = ask(
        &client,
        "resourceRead",
        json!({ "uri": format!("{uri}/long"), "encoding": "base64" }),
    )
    .await;
    assert_eq!(read["data"].as_str().map(str::len), Some(8 << 20));
    fs::write(project.path().join("long"), format!("{text}y")).expect("a file");
    let refusal = refused(&client, "resourceRead", json!({ "uri": format!("{uri}/long") })).await;
    assert_eq!(refusal.0, -32602, "{refusal:?}");
    fs::write(project.path().join("fourth"), "").expect("a file");
    assert_eq!(refused(&client, "resourceList", json!({ "uri": uri })).await.0, -32602);
}

#[tokio::test]
async fn f20_requests_of_one_connection_are_done_in_order() {
    let (_host, client) = start_with_client().await;
    let (project, uri) = project();
    client.create_session_in("files", &uri).await;
    let mut raw = RawClient::initialized(_host.address(), "raw").await;
    raw.call("subscribe", json!({ "channel": "ahp-session:/files" }))
        .await
        .expect("subscribed");
    let file = format!("{uri}/counted");
    let mut ids = Vec::new();
    for index in 0..50 {
        let write = json!({ "uri": file, "data": index.to_string(), "encoding": "utf-8" });
        raw.ask("resourceWrite", write).await;
        ids.push((raw.ask("resourceRead", json!({ "uri": file })).await, index));
    }
    let mut answers = std::collections::HashMap::new();
    while answers.len() < 100 {
        let message = raw
            .notification("an answer", |message| message.get("id").is_some())
            .await;
        answers.insert(message["id"].as_u64().expect("a number"), message);
    }
    for (id, index) in ids {
        assert_eq!(
            answers[&id]["result"]["data"],
            json!(index.to_string()),
            "{}",
            answers[&id]
        );
    }
    assert_eq!(fs::read_to_string(project.path().join("counted")).expect("there"), "49");
}

#[tokio::test]
async fn res19_client_resources_reach_the_agent_as_text() {
    let (_host, client) = start_with_client().await;
    let uris = client.create_session("virtual").await;
    client.client().set_server_request_handler(|method, params| async move {
        assert_eq!(method, "resourceRead");
        match params["uri"].as_str().unwrap_or_default() {
            "virtual://first/untitled" => Ok(json!({ "data": "0123456789", "encoding": "utf-8" })),
            "virtual://first/image" => {
                Ok(json!({ "data": "iVBORw==", "encoding": "base64", "contentType": "image/png" }))
            }
            "virtual://first/odd" => Ok(json!({ "data": 7 })),
            _ => Err(ahp_types::messages::JsonRpcError {
                code: -32008,
                message: "closed".to_owned(),
                data: None,
            }),
        }
    });
    let mut action = innkeeper_testkit::official::turn_started("t1", "/attachments");
    let resource = |label: &str, uri: &str| json!({ "type": "resource", "label": label, "uri": uri });
    action["message"]["attachments"] = json!([
        resource("draft", "virtual://first/untitled"),
        resource("image", "virtual://first/image"),
        resource("odd", "virtual://first/odd"),
        resource("gone", "virtual://first/gone"),
        resource("inline", "data:,abc"),
        resource("file", "file:///srv/a.txt"),
    ]);
    client.dispatch(&uris.chat, action).await;
    let turn = client.turn_end(&uris.chat, "t1").await;
    let said = innkeeper_testkit::official::markdown(&turn.response_parts);
    for line in [
        "“draft”, text of 10 characters",
        "“image”, image/png of about",
        "“odd”, text of",
        "“gone”, text of",
        "“inline”, text of 3 characters",
        "“file”, which is at `file:///srv/a.txt`",
    ] {
        assert!(said.contains(line), "{line}: {said}");
    }
    client.assert_converged().await;
}

/// A provider's key is as good as its account: no client reads it, wherever the file is.
#[tokio::test]
async fn sec03_api_keys_are_never_served() {
    let options = options()
        .setting("[[models.providers]]\nid = \"gateway\"\nbase_url = \"http://127.0.0.1:9\"")
        .setting("key_file = \"gateway-key\"\nmodels = [{ id = \"m\", context_window = 8000 }]");
    let host = HostProcess::start(options).await;
    let client = OfficialClient::connect(host.address(), "first").await;
    fs::write(host.path("gateway-key"), "sk-hush").expect("a file");
    let home = uri_of(&host.path(""));
    client.create_session_in("home", &home).await;
    let key = format!("{home}/gateway-key");
    for (method, params) in [
        ("resourceRead", json!({ "uri": key })),
        ("resourceWrite", json!({ "uri": key, "data": "", "encoding": "utf-8" })),
        ("resourceDelete", json!({ "uri": key })),
        (
            "resourceCopy",
            json!({ "source": key, "destination": format!("{home}/copy") }),
        ),
        (
            "resourceMove",
            json!({ "source": key, "destination": format!("{home}/copy") }),
        ),
    ] {
        assert_eq!(refused(&client, method, params).await.0, -32009, "{method}");
    }
    assert_eq!(fs::read_to_string(host.path("gateway-key")).expect("there"), "sk-hush");
}

/// A reader of a token has its scope, and a writer of the configuration controls the host at its next start: also where
/// a link leads there, and where nothing is yet when the host starts.
#[tokio::test]
async fn sec03_tokens_behind_symlinks_and_missing_configs_are_never_served() {
    let place = tempfile::tempdir().expect("a directory");
    fs::create_dir(place.path().join("real")).expect("a directory");
    std::os::unix::fs::symlink("real", place.path().join("secrets")).expect("a link");
    let secret = |name: &str| place.path().join("secrets").join(name);
    let options = options()
        .setting(&format!("drive_token_file = {:?}", secret("drive")))
        .setting(&format!("[mcp]\ntoken_key_file = {:?}", secret("key")))
        .setting("[mcp.servers.one]\ncommand = \"one\"\nenabled = false")
        .setting(&format!("env_file = {:?}", secret("env")));
    let host = HostProcess::start(options).await;
    let client = OfficialClient::connect(host.address(), "first").await;
    let (place, home) = (uri_of(place.path()), uri_of(&host.path("")));
    client.create_session_in("place", &place).await;
    client.create_session_in("home", &home).await;
    for directory in ["secrets", "real"] {
        for name in ["drive", "key", "env"] {
            let uri = format!("{place}/{directory}/{name}");
            let read = refused(&client, "resourceRead", json!({ "uri": uri })).await;
            let write = json!({ "uri": uri, "data": "mine", "encoding": "utf-8" });
            let written = refused(&client, "resourceWrite", write).await;
            // A missing file may be reported as missing.
            assert!([-32009, -32008].contains(&read.0), "{uri}: {read:?}");
            assert_eq!(written.0, -32009, "{uri}: {written:?}");
        }
    }
    let drive = refused(&client, "resourceRead", json!({ "uri": format!("{place}/real/drive") })).await;
    assert_eq!(drive.0, -32009, "it is there: {drive:?}");
    let config = format!("{home}/.config/innkeeper/innkeeper.toml");
    let write = json!({ "uri": config, "data": "listen = \":0\"", "encoding": "utf-8" });
    assert_eq!(refused(&client, "resourceWrite", write).await.0, -32009);
    assert!(!host.path(".config/innkeeper/innkeeper.toml").exists());
}

/// The environment of the host has its keys.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn sec03_a_session_that_works_in_proc_reads_nothing_there() {
    let (host, client) = start_with_client().await;
    for directory in ["file:///proc/self".to_owned(), format!("file:///proc/{}", host.pid())] {
        let name = directory.rsplit('/').next().unwrap_or_default().to_owned();
        client.create_session_in(&name, &directory).await;
        let uri = format!("{directory}/environ");
        let read = refused(&client, "resourceRead", json!({ "uri": uri })).await;
        assert_eq!(read.0, -32009, "{uri}: {read:?}");
    }
}
