//! The files beside a skill are readable once the skill is in use.

use std::path::{Path, PathBuf};

use ahp_types::messages::JsonRpcError;
use innkeeper_testkit::model_server::{Api, ModelServer, ReceivedRequest, Reply, Script};
use innkeeper_testkit::official::OfficialClient;
use serde_json::{Value, json};

use crate::model::support::{Setup, Stage, create_session};

const MANIFEST: &str = ".plugin/plugin.json";
const NAMED: &str = r#"{ "name": "house" }"#;
const SKILL: &str = "skills/bell/SKILL.md";
const SAYS: &str = "---\nname: bell\ndescription: How to ring the bell.\n---\nRead times.md first.\n";
const BESIDE: &str = "skills/bell/times.md";
const TIMES: &str = "Ring it at noon.\n";

/// Uses the skill, and reads the file beside it from where the skill says that it is.
fn reads_beside(asked: &ReceivedRequest) -> Reply {
    match asked.last_results().first() {
        None => Reply::new().call("use_skill", json!({ "name": "bell" })),
        Some(told) if told.contains("Read times.md first.") => {
            let path = directory_in(told).join("times.md");
            Reply::new().call("read_file", json!({ "path": path }))
        }
        Some(_) => Reply::words("Rung."),
    }
}

/// Returns the directory of a skill in the model request.
fn directory_in(told: &str) -> PathBuf {
    let (_, rest) = told
        .split_once("The files of this skill are in ")
        .expect("it says where");
    let (directory, _) = rest.split_once("; ").expect("and goes on");
    PathBuf::from(directory)
}

async fn stage(script: impl Into<Script>, put: impl FnOnce(&Path)) -> Stage {
    let server = ModelServer::start(script).await;
    let host = Setup::new(Api::Chat).host(&server).await;
    put(&host.path(""));
    let client = OfficialClient::connect(host.address(), "first").await;
    let directory = tempfile::tempdir().expect("a directory");
    let uris = create_session(&client, "work", directory.path()).await;
    Stage {
        server,
        host,
        client,
        directory,
        uris,
    }
}

async fn shows_the_skill(stage: &Stage) {
    stage
        .client
        .until("the skill is shown", |view| {
            let session = serde_json::to_string(&view.session(&stage.uris.session)).unwrap_or_default();
            session.contains("How to ring the bell.")
        })
        .await;
}

async fn rings(stage: &Stage) {
    stage.run_turn("t1", "Ring.").await;
    let asked = stage.last_asked();
    let results = asked.last_results();
    assert!(
        results.iter().any(|result| result.contains("Ring it at noon.")),
        "{results:?}"
    );
    stage.assert_in_order().await;
}

#[tokio::test]
async fn files_beside_a_skill_of_a_plugin_of_the_home_are_read() {
    let stage = stage(Script::by(reads_beside), |home| {
        for (name, text) in [(MANIFEST, NAMED), (SKILL, SAYS), (BESIDE, TIMES)] {
            let path = home.join(".agents/plugins/house").join(name);
            std::fs::create_dir_all(path.parent().expect("in a directory")).expect("made");
            std::fs::write(path, text).expect("written");
        }
    })
    .await;
    shows_the_skill(&stage).await;
    rings(&stage).await;
}

#[tokio::test]
async fn cus22_files_beside_a_skill_that_only_a_client_can_read_are_read() {
    let stage = stage(Script::by(reads_beside), |_| {}).await;
    serve(&stage.client);
    let plugin = json!({ "type": "plugin", "id": "house", "uri": URI, "name": "house", "nonce": "1" });
    let client = json!({ "clientId": "first", "tools": [], "customizations": [plugin] });
    let action = json!({ "type": "session/activeClientSet", "activeClient": client });
    stage.client.dispatch(&stage.uris.session, action).await;
    shows_the_skill(&stage).await;
    rings(&stage).await;
}

const URI: &str = "virtual://editor/house";

/// Serves the plugin's files.
fn serve(client: &OfficialClient) {
    client.client().set_server_request_handler(|method, params| async move {
        let uri = params["uri"].as_str().unwrap_or_default().to_owned();
        answer(&method, &uri).ok_or_else(|| JsonRpcError {
            code: -32008,
            message: format!("{uri} is not there"),
            data: None,
        })
    });
}

fn answer(method: &str, uri: &str) -> Option<Value> {
    let path = uri.strip_prefix(URI)?.trim_start_matches('/');
    let files = [(MANIFEST, NAMED), (SKILL, SAYS), (BESIDE, TIMES)];
    if method == "resourceRead" {
        let (_, data) = files.into_iter().find(|(name, _)| *name == path)?;
        return Some(json!({ "data": data, "encoding": "utf-8" }));
    }
    let mut entries: Vec<Value> = Vec::new();
    for (name, _) in files {
        let rest = match path {
            "" => name,
            path => match name.strip_prefix(path).and_then(|rest| rest.strip_prefix('/')) {
                Some(rest) => rest,
                None => continue,
            },
        };
        let entry = match rest.split_once('/') {
            Some((directory, _)) => json!({ "name": directory, "type": "directory" }),
            None => json!({ "name": rest, "type": "file" }),
        };
        if !entries.contains(&entry) {
            entries.push(entry);
        }
    }
    Some(json!({ "entries": entries }))
}
