//! Servers of the configuration: every session has them, without a trust question.

use innkeeper_testkit::official::OfficialClient;
use innkeeper_testkit::process::HostOptions;
use serde_json::{Value, json};

use crate::mcp_servers::support::{Inn, TestDirectory, options};

/// A section of the configuration that declares the odd server. It notes its processes in a file of its name.
fn section(place: &TestDirectory, name: &str, more: &str) -> String {
    let program = std::env::current_exe().expect("this program");
    let (program, pids) = (program.display().to_string(), place.beside(name).display().to_string());
    format!(
        "[mcp.servers.{name}]\ncommand = {program:?}\nargs = [\"--exact\", \"odd_server\", \"--nocapture\"]\n\
         env = {{ {} = \"${{KIND_OF_SERVER}}\", ODD_PIDS = {pids:?}, ODD_SECRET = \"s3cr3t-1\", \
         ODD_OTHER = \"${{SECRET_OF_THE_HOST}}\" }}\n{more}",
        innkeeper_testkit::misbehaving_server::KIND
    )
}

/// A host with this configuration, and a workspace without any file.
async fn open(place: TestDirectory, settings: &str) -> Inn {
    Inn::started(place, configured(settings)).await
}

fn configured(settings: &str) -> HostOptions {
    let options = options().setting(settings);
    let options = options.environment("KIND_OF_SERVER", "plain");
    options.environment("SECRET_OF_THE_HOST", "s3cr3t-2")
}

fn pids(place: &TestDirectory, name: &str) -> usize {
    let text = std::fs::read_to_string(place.beside(name)).unwrap_or_default();
    text.lines().count()
}

#[tokio::test]
async fn cus01_cus03_a_configured_server_is_ready_in_every_session_unasked() {
    let place = TestDirectory::new();
    let far = "[mcp.servers.far]\nurl = \"http://127.0.0.1:1/mcp?key=s3cr3t-3\"\n\
               headers = { Authorization = \"Bearer s3cr3t-4\" }\n";
    let settings = section(&place, "garden", far);
    let inn = open(place, &settings).await;
    let room = inn.room("one").await;
    let server = room.server_is("garden", "ready").await;
    let uri = format!("file://{}", inn.host.path("innkeeper.toml").display());
    assert_eq!(server["uri"], uri, "{server}");
    assert_eq!(server["range"]["start"]["line"], 0, "{server}");
    assert_eq!(server["enablement"], Value::Null, "there is no decision");
    // A variable of the host said which kind of server it is.
    let (words, call) = room.call("t1", r#"garden echo {"text": "hello"}"#).await;
    assert!(words.contains("hello"), "{words}");
    assert_eq!(call["contributor"]["customizationId"], server["id"]);
    let (names, _) = room.call("t2", "garden env").await;
    assert!(
        names.contains("ODD_OTHER") && !names.contains("SECRET_OF_THE_HOST"),
        "{names}"
    );
    room.server_is("far", "error").await;
    // A session that works nowhere has it as well.
    let nowhere = inn.client.create_session("two").await;
    let state = |uri: &str| json!(inn.client.view().session(uri).cloned());
    let has_it = |view: &innkeeper_testkit::official::View| {
        let list = json!(
            view.session(&nowhere.session)
                .and_then(|state| state.customizations.as_ref())
        );
        let mut entries = list.as_array().into_iter().flatten();
        entries.any(|entry| entry["name"] == "garden" && entry["state"]["kind"] == "ready")
    };
    inn.client.until("the other session has it", has_it).await;
    // CUS-27: what it is started with is in no state, no action and no log.
    let root = json!(inn.client.view().root().cloned());
    let actions = inn.client.view().actions_on(&room.uris.session);
    let told = format!(
        "{root} {} {} {actions:?} {}",
        state(&room.uris.session),
        state(&nowhere.session),
        inn.host.log()
    );
    assert!(told.contains("garden") && !told.contains("s3cr3t"), "{told}");
    inn.client.assert_converged().await;
}

#[tokio::test]
async fn res01_the_configuration_file_is_never_served() {
    let place = TestDirectory::new();
    let settings = section(&place, "garden", "");
    let inn = open(place, &settings).await;
    let home = format!("file://{}", inn.host.path("").display());
    inn.client.create_session_in("home", home.trim_end_matches('/')).await;
    let uri = format!("file://{}", inn.host.path("innkeeper.toml").display());
    let params = json!({ "channel": "ahp-root://", "uri": uri });
    let (_, why) = inn.client.refused("resourceRead", params).await;
    assert!(why.contains("belongs to the host"), "{why}");
}

#[tokio::test]
async fn isolation_is_for_the_server_that_wants_it() {
    let place = TestDirectory::new();
    let settings = section(&place, "apart", "isolate = true\n") + &section(&place, "shared", "");
    let inn = open(place, &settings).await;
    for name in ["one", "two"] {
        let room = inn.room(name).await;
        for server in ["apart", "shared"] {
            room.server_is(server, "ready").await;
        }
    }
    assert_eq!((pids(&inn.place, "apart"), pids(&inn.place, "shared")), (2, 1));
}

#[tokio::test]
async fn cus10_cus18_a_disabled_server_is_off_until_a_client_enables_it() {
    let place = TestDirectory::new();
    let settings = section(&place, "garden", "enabled = false\n");
    let inn = open(place, &settings).await;
    let room = inn.room("one").await;
    let server = room.server_is("garden", "stopped").await;
    let off = json!([{ "kind": "global", "enabled": false }]);
    assert_eq!(server["enablement"], off, "{server}");
    let words = room.say("t1", "/mcp garden echo {}").await;
    assert!(!words.contains("It answered"), "{words}");
    assert_eq!(pids(&inn.place, "garden"), 0, "nothing ran");
    // For one session, which does not change what the others have.
    room.switch("garden", json!([{ "kind": "session", "enabled": true }]))
        .await;
    let server = room.server_is("garden", "ready").await;
    assert_eq!(
        server["enablement"],
        json!([{ "kind": "session", "enabled": true }, { "kind": "global", "enabled": false }])
    );
    let other = inn.room("two").await;
    other.server_is("garden", "stopped").await;
    // For all of them.
    other
        .switch("garden", json!([{ "kind": "global", "enabled": true }]))
        .await;
    other.server_is("garden", "ready").await;
    // Without decisions the configuration applies.
    other.switch("garden", json!([])).await;
    let server = other.server_is("garden", "stopped").await;
    assert_eq!(server["enablement"], off, "{server}");
    inn.client.assert_converged().await;
}

#[tokio::test]
async fn cus16_enabled_customizations_stay_enabled_after_a_restart() {
    let place = TestDirectory::new();
    let settings = section(&place, "garden", "enabled = false\n");
    let inn = open(place, &settings).await;
    let room = inn.room("one").await;
    room.server_is("garden", "stopped").await;
    room.switch("garden", json!([{ "kind": "global", "enabled": true }]))
        .await;
    room.server_is("garden", "ready").await;
    let Inn { host, place, .. } = inn;
    let host = host.stop().await.start().await;
    let client = OfficialClient::connect(host.address(), "second").await;
    let inn = Inn { host, client, place };
    inn.room("two").await.server_is("garden", "ready").await;
}
