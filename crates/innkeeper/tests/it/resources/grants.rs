//! Requests for files outside the client's sessions, and who decides about them.

use innkeeper_testkit::official::OfficialClient;
use innkeeper_testkit::process::HostProcess;
use innkeeper_testkit::raw::RawClient;
use serde_json::json;

use crate::options;
use crate::resources::files::{ask, project, with_channel};
use crate::transport::scopes::start_with_scopes;

#[tokio::test]
async fn res14_a_request_waits_for_an_admin_and_its_grant_can_be_taken_back() {
    let (host, drive, _) = start_with_scopes().await;
    let (_project, uri) = project();
    let file = format!("{uri}/notes.md");
    let client = OfficialClient::connect(&drive, "asker").await;
    let refused = client
        .refused("resourceRequest", with_channel(json!({ "uri": file })))
        .await;
    assert_eq!(refused.0, -32009, "T8: nothing is granted silently: {refused:?}");
    let admin = OfficialClient::connect(host.address(), "admin").await;
    let listed = ask(&admin, "innkeeper/listResourceGrants", json!({})).await;
    assert_eq!(listed["requested"][0]["clientId"], "asker", "{listed}");
    assert_eq!(listed["requested"][0]["uri"], json!(file));
    // Only an admin decides.
    let allow = json!({ "clientId": "asker", "uri": file });
    let by_itself = client
        .refused("innkeeper/allowResource", with_channel(allow.clone()))
        .await;
    assert_eq!(by_itself.0, -32009);
    ask(&admin, "innkeeper/allowResource", allow).await;
    ask(&client, "resourceRequest", json!({ "uri": file })).await;
    ask(&client, "resourceRead", json!({ "uri": file })).await;
    // It is for reading, for this place, and for this client.
    let write = with_channel(json!({ "uri": file, "data": "", "encoding": "utf-8" }));
    assert_eq!(client.refused("resourceWrite", write).await.0, -32009);
    let beside = with_channel(json!({ "uri": format!("{uri}/shot.png") }));
    assert_eq!(client.refused("resourceRead", beside).await.0, -32009);
    let mut other = RawClient::initialized(&drive, "other").await;
    assert_eq!(
        other
            .call("resourceRead", json!({ "uri": file }))
            .await
            .expect_err("denied")
            .code,
        -32009
    );
    ask(
        &admin,
        "innkeeper/revokeResource",
        json!({ "clientId": "asker", "uri": file }),
    )
    .await;
    assert_eq!(
        client
            .refused("resourceRead", with_channel(json!({ "uri": file })))
            .await
            .0,
        -32009,
        "RES-15"
    );
}

#[tokio::test]
async fn res14_grants_survive_the_host() {
    let host = HostProcess::start(options()).await;
    let (_project, uri) = project();
    let client = OfficialClient::connect(host.address(), "owner").await;
    // A connection with the admin scope is granted its own request.
    ask(
        &client,
        "resourceRequest",
        json!({ "uri": uri, "read": true, "write": true }),
    )
    .await;
    let write = json!({ "uri": format!("{uri}/new"), "data": "x", "encoding": "utf-8" });
    ask(&client, "resourceWrite", write).await;
    let host = host.kill_and_restart().await;
    let client = OfficialClient::connect(host.address(), "owner").await;
    let read = ask(&client, "resourceRead", json!({ "uri": format!("{uri}/new") })).await;
    assert_eq!(read["data"], "x");
    let listed = ask(&client, "innkeeper/listResourceGrants", json!({})).await;
    assert_eq!(listed["granted"][0]["write"], true, "{listed}");
}

#[tokio::test]
async fn res14_the_configuration_opens_paths_and_may_deny_requests() {
    let (_project, uri) = project();
    let (_other, other) = project();
    let path = uri.trim_start_matches("file://");
    let options = options().setting(&format!("[resources]\nread = [{path:?}]\nrequests = \"deny\""));
    let host = HostProcess::start(options).await;
    let client = OfficialClient::connect(host.address(), "owner").await;
    ask(&client, "resourceRead", json!({ "uri": format!("{uri}/notes.md") })).await;
    ask(&client, "resourceRequest", json!({ "uri": uri })).await;
    for (wanted, write) in [(&uri, true), (&other, false)] {
        let params = with_channel(json!({ "uri": wanted, "write": write }));
        assert_eq!(
            client.refused("resourceRequest", params).await.0,
            -32009,
            "{wanted} {write}"
        );
    }
    let write = with_channel(json!({ "uri": format!("{uri}/x"), "data": "", "encoding": "utf-8" }));
    assert_eq!(
        client.refused("resourceWrite", write).await.0,
        -32009,
        "it is open for reading"
    );
}

/// Runs `innkeeper grants` against a host, and returns whether it succeeded and what it said.
async fn grants(host: &HostProcess, args: &[&str]) -> (bool, String) {
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_innkeeper"));
    command.arg("grants").args(args).arg("--data").arg(host.data_path(""));
    let output = command
        .env_clear()
        .env("HOME", host.path(""))
        .output()
        .await
        .expect("ran");
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&said).into_owned())
}

/// A user decides at a terminal about the grants that clients request.
#[tokio::test]
async fn res14_res15_grants_are_listed_given_and_taken_back_at_the_command_line() {
    let (host, drive, _) = start_with_scopes().await;
    let (project, uri) = project();
    let (said_ok, said) = grants(&host, &[]).await;
    assert!(
        said_ok && said.contains("There are no grants and no requests"),
        "{said}"
    );
    let (said_ok, said) = grants(&host, &["allow"]).await;
    assert!(!said_ok && said.contains("asks for anything"), "{said}");
    let client = OfficialClient::connect(&drive, "asker").await;
    let file = format!("{uri}/notes.md");
    let write = json!({ "uri": file, "write": true });
    assert_eq!(client.refused("resourceRequest", with_channel(write)).await.0, -32009);
    let (_, said) = grants(&host, &[]).await;
    assert!(said.contains(&format!("asker asks to read and write {file}")), "{said}");
    // A request is granted unchanged.
    let (said_ok, said) = grants(&host, &["allow"]).await;
    assert!(said_ok && said.contains("asker may read and write"), "{said}");
    let write = json!({ "uri": file, "data": "x", "encoding": "utf-8" });
    ask(&client, "resourceWrite", write.clone()).await;
    let (_, listed) = grants(&host, &["list", "--json"]).await;
    let listed: serde_json::Value = serde_json::from_str(&listed).expect("JSON");
    assert_eq!(listed["granted"][0]["clientId"], "asker", "{listed}");
    assert_eq!(listed["granted"][0]["write"], true);
    assert_eq!(listed["requested"], json!([]));
    // By path, for reading only: it takes the place of the other.
    let path = project.path().join("notes.md");
    let path = path.to_str().expect("text");
    let (said_ok, said) = grants(&host, &["allow", "asker", path]).await;
    assert!(said_ok, "{said}");
    assert_eq!(client.refused("resourceWrite", with_channel(write)).await.0, -32009);
    ask(&client, "resourceRead", json!({ "uri": file })).await;
    let (said_ok, said) = grants(&host, &["revoke", "asker", &format!("{path}x")]).await;
    assert!(!said_ok && said.contains("no such grant of asker"), "{said}");
    let (said_ok, said) = grants(&host, &["revoke", "asker"]).await;
    assert!(said_ok, "{said}");
    let read = with_channel(json!({ "uri": file }));
    assert_eq!(client.refused("resourceRead", read).await.0, -32009, "RES-15");
    let (said_ok, said) = grants(&host, &["allow", "unknown", path]).await;
    assert!(!said_ok && said.contains("no such client"), "{said}");
}
