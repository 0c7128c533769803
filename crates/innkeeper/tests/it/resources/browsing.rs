//! The folder picker of VS Code: it starts in `defaultDirectory`, lists and resolves, and never requests a grant.

use std::fs;
use std::os::unix::fs::symlink;

use innkeeper_testkit::official::OfficialClient;
use innkeeper_testkit::process::HostProcess;
use innkeeper_testkit::raw::RawClient;
use serde_json::json;

use crate::options;
use crate::resources::files::{ask, uri_of, with_channel};
use crate::transport::scopes::start_with_scopes;

/// A directory for temporary files that is not in memory: whole file systems are browsed without `/dev`.
const ON_DISK: &str = "/var/tmp";

/// The versions that VS Code offers.
const VSCODE: [&str; 5] = ["0.9.0", "0.7.0", "0.6.0", "0.5.2", "0.5.1"];

#[tokio::test]
async fn res01_a_folder_is_picked_with_the_default_token_and_nothing_configured() {
    let host = HostProcess::start(options().home_in(ON_DISK)).await;
    let home = fs::canonicalize(host.path(".")).expect("the home directory");
    fs::create_dir_all(home.join("work/a b#1")).expect("a directory");
    fs::write(home.join("work/notes.md"), "secret plans").expect("a file");
    let mut raw = RawClient::connect(host.address()).await;
    let initialized = raw.initialize("vscode", &VSCODE).await.expect("initialized");
    let start = initialized["defaultDirectory"]
        .as_str()
        .expect("a directory")
        .to_owned();
    assert_eq!(
        start.strip_prefix("file://").map(std::path::PathBuf::from),
        Some(host.path(".").components().collect())
    );
    // Clicking: from the home directory down, and up to the root of the file system.
    let listed = raw.call("resourceList", json!({ "uri": start })).await.expect("listed");
    let names = listed["entries"].to_string();
    assert!(names.contains(r#"{"name":"work","type":"directory"}"#), "{names}");
    let listed = raw
        .call("resourceList", json!({ "uri": format!("{start}/work") }))
        .await;
    let entries = json!([{ "name": "a b#1", "type": "directory" }, { "name": "notes.md", "type": "file" }]);
    assert_eq!(listed.expect("listed")["entries"], entries);
    let listed = raw
        .call("resourceList", json!({ "uri": "file:///" }))
        .await
        .expect("listed");
    assert!(listed["entries"].as_array().is_some_and(|entries| !entries.is_empty()));
    // Typing: existing paths differ from missing ones.
    let typed = json!({ "uri": format!("{start}/work/a%20b%231") });
    let found = raw.call("resourceResolve", typed).await.expect("there");
    assert_eq!(found["type"], "directory");
    let missing = raw
        .call("resourceResolve", json!({ "uri": format!("{start}/wo") }))
        .await;
    assert_eq!(missing.expect_err("not there").code, -32008);
    // Names are visible, contents are not: no session works there yet.
    let notes = json!({ "uri": format!("{start}/work/notes.md") });
    let found = raw.call("resourceResolve", notes.clone()).await.expect("there");
    assert_eq!((&found["type"], &found["size"]), (&json!("file"), &json!(12)));
    let refused = raw.call("resourceRead", notes.clone()).await.expect_err("not read");
    assert_eq!(refused.code, -32009);
    for (method, params) in [
        ("resourceDelete", notes.clone()),
        ("resourceMkdir", json!({ "uri": format!("{start}/work/new") })),
        (
            "resourceWrite",
            json!({ "uri": format!("{start}/work/new"), "data": "", "encoding": "utf-8" }),
        ),
    ] {
        let refused = raw.call(method, params).await.expect_err(method);
        assert_eq!(refused.code, -32009, "{method}");
    }
    // Browsable directories can be watched; missing ones cannot.
    let watch = json!({ "uri": format!("{start}/work"), "recursive": false });
    let watch = raw.call("createResourceWatch", watch).await.expect("watched");
    let channel = watch["channel"].as_str().expect("a channel").to_owned();
    raw.call("subscribe", json!({ "channel": channel }))
        .await
        .expect("subscribed");
    fs::write(home.join("work/new.txt"), "").expect("a file");
    raw.notification("the change", |message| {
        message["params"]["channel"] == json!(channel) && message.to_string().contains("work/new.txt")
    })
    .await;
    let nothing = json!({ "uri": format!("{start}/work/.vscode/settings.json") });
    let refused = raw
        .call("createResourceWatch", nothing)
        .await
        .expect_err("nothing there");
    assert_eq!(refused.code, -32008);
    // With a session in the folder its files are read as well.
    let client = OfficialClient::connect(host.address(), "viewer").await;
    client.create_session_in("picked", &format!("{start}/work")).await;
    let read = ask(&client, "resourceRead", notes).await;
    assert_eq!(read["data"], "secret plans");
}

#[tokio::test]
async fn sec03_browsing_shows_no_tokens_and_follows_links_everywhere_else() {
    let host = HostProcess::start(options().home_in(ON_DISK)).await;
    let client = OfficialClient::connect(host.address(), "first").await;
    let elsewhere = tempfile::tempdir_in(ON_DISK).expect("a directory");
    fs::create_dir(elsewhere.path().join("inner")).expect("a directory");
    symlink(elsewhere.path(), host.path("link")).expect("a link");
    let home = uri_of(&host.path("."));
    let listed = ask(&client, "resourceList", json!({ "uri": home })).await;
    assert!(
        listed["entries"]
            .to_string()
            .contains(r#"{"name":"link","type":"directory"}"#),
        "{listed}"
    );
    let listed = ask(&client, "resourceList", json!({ "uri": format!("{home}/link") })).await;
    assert_eq!(listed["entries"], json!([{ "name": "inner", "type": "directory" }]));
    let found = ask(&client, "resourceResolve", json!({ "uri": format!("{home}/link") })).await;
    assert_eq!(found["uri"], json!(uri_of(elsewhere.path())));
    symlink(host.data_path("."), host.path("data-link")).expect("a link");
    for place in ["data", "data/token", "data-link", "data-link/token", "innkeeper.toml"] {
        for method in ["resourceList", "resourceResolve"] {
            let (code, message) = client
                .refused(method, with_channel(json!({ "uri": format!("{home}/{place}") })))
                .await;
            assert_eq!(code, -32009, "{method} {place}: {message}");
        }
    }
    let (code, _) = client
        .refused("resourceList", with_channel(json!({ "uri": "file:///proc/self" })))
        .await;
    assert_eq!(code, -32009);
}

#[tokio::test]
async fn sec03_only_the_admin_scope_browses_and_it_can_be_switched_off() {
    let (host, drive, view) = start_with_scopes().await;
    let home = uri_of(&host.path("."));
    for (name, address, is_told) in [("drive", &drive, true), ("view", &view, false)] {
        let mut raw = RawClient::connect(address).await;
        let initialized = raw.initialize(name, &VSCODE).await.expect("initialized");
        assert_eq!(initialized.get("defaultDirectory").is_some(), is_told, "{initialized}");
        for method in ["resourceList", "resourceResolve", "createResourceWatch"] {
            let refused = raw.call(method, json!({ "uri": home })).await.expect_err(method);
            assert_eq!(refused.code, -32009, "{method}");
        }
    }
    let strict = options().setting("[resources]\nbrowse = \"deny\"\ndefault_directory = \"projects\"");
    let host = HostProcess::start(strict).await;
    let mut raw = RawClient::connect(host.address()).await;
    let initialized = raw.initialize("vscode", &VSCODE).await.expect("initialized");
    let start = initialized["defaultDirectory"].as_str().expect("a directory");
    assert!(start.ends_with("/projects"), "{start}");
    let refused = raw
        .call("resourceList", json!({ "uri": "file:///" }))
        .await
        .expect_err("denied");
    assert_eq!(refused.code, -32009);
}
