//! Plugins that clients publish, and that only they can read (P20, CUS-17, CUS-22).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use ahp_types::messages::JsonRpcError;
use innkeeper_testkit::official::{OfficialClient, SessionUris, turn_started};
use innkeeper_testkit::process::HostProcess;
use innkeeper_testkit::raw::{Incoming, RawClient};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::customizations::support::{Workspace, child, entries, entry, known, names, session_in, skill, until_entry};
use crate::{options, start_with_client};

pub(crate) const URI: &str = "virtual://editor/synced";

/// The files of a plugin, served by a client, and how often each was asked for.
#[derive(Clone)]
pub(crate) struct Served {
    files: Arc<Mutex<BTreeMap<String, String>>>,
    asked: Arc<Mutex<Vec<String>>>,
    /// Whether answers are given or kept back.
    answers: watch::Sender<bool>,
}

impl Served {
    pub(crate) fn new(files: &[(&str, &str)]) -> Self {
        let files = files
            .iter()
            .map(|(path, text)| ((*path).to_owned(), (*text).to_owned()));
        Self {
            files: Arc::new(Mutex::new(files.collect())),
            asked: Arc::default(),
            answers: watch::Sender::new(true),
        }
    }

    pub(crate) fn with_skills(names: &[&str]) -> Self {
        let served = Self::new(&[(".plugin/plugin.json", r#"{ "name": "VS Code Synced Data" }"#)]);
        for name in names {
            served.put(&format!("skills/{name}/SKILL.md"), &skill(name, "Does it."));
        }
        served
    }

    pub(crate) fn put(&self, path: &str, text: &str) {
        self.files
            .lock()
            .expect("files")
            .insert(path.to_owned(), text.to_owned());
    }

    fn remove(&self, path: &str) {
        self.files.lock().expect("files").remove(path);
    }

    /// Returns the number of requests since the last call.
    pub(crate) fn times_asked(&self) -> usize {
        std::mem::take(&mut *self.asked.lock().expect("asked")).len()
    }

    pub(crate) fn serve(&self, client: &OfficialClient) {
        let served = self.clone();
        client.client().set_server_request_handler(move |method, params| {
            let served = served.clone();
            async move {
                let _ = served.answers.subscribe().wait_for(|answers| *answers).await;
                let uri = params["uri"].as_str().unwrap_or_default().to_owned();
                served.asked.lock().expect("asked").push(uri.clone());
                served.answer(&method, &uri).ok_or_else(|| JsonRpcError {
                    code: -32008,
                    message: format!("{uri} is not there"),
                    data: None,
                })
            }
        });
    }

    fn answer(&self, method: &str, uri: &str) -> Option<Value> {
        let path = uri.strip_prefix(URI)?.trim_start_matches('/').replace("%20", " ");
        let path = path.as_str();
        let files = self.files.lock().expect("files");
        if method == "resourceRead" {
            let data = files.get(path)?;
            return Some(json!({ "data": data, "encoding": "utf-8" }));
        }
        let prefix = if path.is_empty() {
            String::new()
        } else {
            format!("{path}/")
        };
        let mut entries = BTreeMap::new();
        for rest in files.keys().filter_map(|file| file.strip_prefix(&prefix)) {
            let (name, kind) = match rest.split_once('/') {
                Some((directory, _)) => (directory, "directory"),
                None => (rest, "file"),
            };
            entries.insert(name.to_owned(), kind);
        }
        let entries: Vec<Value> = entries
            .iter()
            .map(|(name, kind)| json!({ "name": name, "type": kind }))
            .collect();
        Some(json!({ "entries": entries }))
    }
}

pub(crate) fn published(client: &str, nonce: Option<&str>) -> Value {
    let mut plugin = json!({ "type": "plugin", "id": "synced", "uri": URI, "name": "Synced" });
    if let Some(nonce) = nonce {
        plugin["nonce"] = json!(nonce);
    }
    with_plugins(client, json!([plugin]))
}

fn with_plugins(client: &str, plugins: Value) -> Value {
    let client = json!({ "clientId": client, "tools": [], "customizations": plugins });
    json!({ "type": "session/activeClientSet", "activeClient": client })
}

pub(crate) fn is_loaded(entry: &Value) -> bool {
    entry["load"]["kind"] == "loaded"
}

/// The name that the client publishes it with, which is not that of its manifest.
pub(crate) const NAME: &str = "Synced";

#[tokio::test]
async fn cus17_cus22_a_client_plugin_is_shown_with_the_decisions_of_its_client() {
    let (_host, client) = start_with_client().await;
    let served = Served::with_skills(&["a", "b c"]);
    served.put(
        "rules/style.instructions.md",
        "---\napplyTo: '**/*.rs'\n---\nBe brief.\n",
    );
    served.put("commands/fix.prompt.md", "Fix it.\n");
    served.serve(&client);
    let uris = session_in(&client, "published", &Workspace::new()).await;
    let mut announcement = published("first", Some("1"));
    announcement["activeClient"]["customizations"][0]["childEnablement"] =
        json!({ "a": [{ "kind": "global", "enabled": false }] });
    client.dispatch(&uris.session, announcement).await;
    until_entry(&client, &uris.session, NAME, "is loaded", is_loaded).await;
    let plugin = entry(&client, &uris.session, NAME);
    assert_eq!((&plugin["clientId"], &plugin["uri"]), (&json!("first"), &json!(URI)));
    assert_eq!(names(&plugin), ["a", "b c", "fix", "style"]);
    assert_eq!(
        child(&client, &uris.session, NAME, "b c")["uri"],
        "virtual://editor/synced/skills/b%20c/SKILL.md",
        "its URIs stay the client's"
    );
    assert_eq!(child(&client, &uris.session, NAME, "a")["enabled"], false, "CUS-17");
    assert_eq!(
        child(&client, &uris.session, NAME, "style")["globs"],
        json!(["**/*.rs"])
    );
    client.assert_converged().await;
}

#[tokio::test]
async fn d75_p20_the_same_nonce_is_read_once_across_returns_and_restarts() {
    let (host, client) = start_with_client().await;
    let served = Served::with_skills(&["a"]);
    served.serve(&client);
    let workspace = Workspace::new();
    let one = session_in(&client, "one", &workspace).await;
    client.dispatch(&one.session, published("first", Some("1"))).await;
    until_entry(&client, &one.session, NAME, "is loaded", is_loaded).await;
    assert!(served.times_asked() > 0);
    // Another session wants the same, and another revision comes and goes.
    let two = session_in(&client, "two", &workspace).await;
    client.dispatch(&two.session, published("first", Some("1"))).await;
    until_entry(&client, &two.session, NAME, "is loaded", is_loaded).await;
    assert_eq!(served.times_asked(), 0, "the second session needs no second copy");
    served.put("skills/b/SKILL.md", &skill("b", "New."));
    client.dispatch(&one.session, published("first", Some("2"))).await;
    until_entry(&client, &one.session, NAME, "has the new skill", |entry| {
        is_loaded(entry) && names(entry) == ["a", "b"]
    })
    .await;
    assert!(served.times_asked() > 0);
    assert_eq!(
        names(&entry(&client, &two.session, NAME)),
        ["a"],
        "the other has what it named"
    );
    client.dispatch(&one.session, published("first", Some("1"))).await;
    until_entry(&client, &one.session, NAME, "is what it was", |entry| {
        is_loaded(entry) && names(entry) == ["a"]
    })
    .await;
    assert_eq!(served.times_asked(), 0, "a nonce that returns is known");
    client.assert_converged().await;
    let host = host.kill_and_restart().await;
    let client = OfficialClient::connect(host.address(), "first").await;
    served.serve(&client);
    client.subscribe(&one.session).await;
    known(&client, &one.session).await;
    client.dispatch(&one.session, published("first", Some("2"))).await;
    until_entry(&client, &one.session, NAME, "is loaded", |entry| {
        is_loaded(entry) && names(entry) == ["a", "b"]
    })
    .await;
    assert_eq!(served.times_asked(), 0, "copies outlive the host");
    // Without a nonce it is unknown whether the plugin is unchanged.
    for name in ["c", "d"] {
        served.put(&format!("skills/{name}/SKILL.md"), &skill(name, "New."));
        client.dispatch(&one.session, with_plugins("first", json!([]))).await;
        client.dispatch(&one.session, published("first", None)).await;
        until_entry(&client, &one.session, NAME, "is read", |entry| {
            is_loaded(entry) && names(entry).iter().any(|found| found == name)
        })
        .await;
    }
    client.assert_converged().await;
}

#[tokio::test]
async fn cus22_a_plugin_without_a_nonce_is_reread_when_republished() {
    let (_host, client) = start_with_client().await;
    let served = Served::with_skills(&["a"]);
    served.serve(&client);
    let uris = session_in(&client, "again", &Workspace::new()).await;
    client.dispatch(&uris.session, published("first", None)).await;
    until_entry(&client, &uris.session, NAME, "is read", |entry| names(entry) == ["a"]).await;
    served.put("skills/b/SKILL.md", &skill("b", "New."));
    client.dispatch(&uris.session, published("first", None)).await;
    until_entry(&client, &uris.session, NAME, "is read again", |entry| {
        names(entry) == ["a", "b"]
    })
    .await;
    let plugin = entry(&client, &uris.session, NAME);
    assert_eq!(
        plugin["_meta"]["innkeeper.name"], "VS Code Synced Data",
        "what its skills are called by"
    );
    // The client knows it by the id that it published.
    let off = json!([{ "kind": "session", "enabled": false }]);
    let toggled = json!({ "type": "session/customizationToggled", "id": "synced", "enablement": off });
    client.dispatch(&uris.session, toggled).await;
    until_entry(&client, &uris.session, NAME, "is off", |entry| {
        entry["enablement"] == off
    })
    .await;
    client.assert_converged().await;
}

#[tokio::test]
async fn p20_a_revision_that_cannot_be_read_leaves_the_one_before_it_in_use() {
    let (_host, client) = start_with_client().await;
    let served = Served::with_skills(&["a"]);
    served.serve(&client);
    let uris = session_in(&client, "revisions", &Workspace::new()).await;
    client.dispatch(&uris.session, published("first", Some("1"))).await;
    until_entry(&client, &uris.session, NAME, "is loaded", is_loaded).await;
    let id = entry(&client, &uris.session, NAME)["id"].clone();
    // Two that are too large, one after the other: the second must not find less than the first did.
    for (nonce, too_large) in [("2", "skills/b/SKILL.md"), ("3", "skills/0/SKILL.md")] {
        served.put(too_large, &"x".repeat(4 * 1024 * 1024 + 1));
        client.dispatch(&uris.session, published("first", Some(nonce))).await;
        until_entry(
            &client,
            &uris.session,
            NAME,
            "is degraded and names the file",
            |entry| entry["load"]["kind"] == "degraded" && entry["load"]["message"].to_string().contains(too_large),
        )
        .await;
        let plugin = entry(&client, &uris.session, NAME);
        assert_eq!((names(&plugin), &plugin["id"]), (vec!["a".to_owned()], &id));
        served.remove(too_large);
    }
    served.put("skills/b/SKILL.md", &skill("b", "New."));
    client.dispatch(&uris.session, published("first", Some("4"))).await;
    until_entry(&client, &uris.session, NAME, "has the new skill", |entry| {
        is_loaded(entry) && names(entry) == ["a", "b"]
    })
    .await;
    client.assert_converged().await;
}

#[tokio::test]
async fn cus22_an_absent_clients_plugin_is_removed_after_its_grace() {
    let host = HostProcess::start(options().limit("grace_ms", 100)).await;
    let client = OfficialClient::connect(host.address(), "watcher").await;
    let mut publisher = OfficialClient::connect(host.address(), "publisher").await;
    Served::with_skills(&["a"]).serve(&publisher);
    let uris = session_in(&client, "gone", &Workspace::new()).await;
    publisher.subscribe(&uris.session).await;
    publisher
        .dispatch(&uris.session, published("publisher", Some("1")))
        .await;
    until_entry(&client, &uris.session, NAME, "is loaded", is_loaded).await;
    publisher.cut().await;
    client
        .until("the plugin is gone", |view| {
            let entries = json!(view.session(&uris.session).expect("mirrored").customizations);
            !entries.to_string().contains(URI)
        })
        .await;
    client.assert_converged().await;
}

#[tokio::test]
async fn d76_two_clients_that_publish_one_uri_have_an_entry_each() {
    let (host, client) = start_with_client().await;
    let other = OfficialClient::connect(host.address(), "other").await;
    Served::with_skills(&["mine"]).serve(&client);
    Served::with_skills(&["theirs"]).serve(&other);
    let uris = session_in(&client, "both", &Workspace::new()).await;
    other.subscribe(&uris.session).await;
    // Two sockets have no order between them: the first one's entry has to be there before the
    // second publishes, or the order below would be a race.
    client.dispatch(&uris.session, published("first", Some("1"))).await;
    until_entry(&client, &uris.session, NAME, "is loaded", is_loaded).await;
    other.dispatch(&uris.session, published("other", Some("1"))).await;
    client
        .until("both are loaded", |view| {
            let entries = json!(view.session(&uris.session).expect("mirrored").customizations);
            let entries = entries.as_array().cloned().unwrap_or_default();
            entries
                .iter()
                .filter(|entry| entry["uri"] == URI && is_loaded(entry))
                .count()
                == 2
        })
        .await;
    let all = entries(&client, &uris.session);
    let both: Vec<_> = all.iter().filter(|entry| entry["uri"] == URI).collect();
    assert_ne!(both[0]["id"], both[1]["id"]);
    assert_eq!([names(both[0]), names(both[1])], [["mine"], ["theirs"]]);
    client.assert_converged().await;
}

#[tokio::test]
async fn d77_d80_a_subscriber_during_loading_sees_the_end_of_loading() {
    let (host, client) = start_with_client().await;
    let served = Served::new(&[(".plugin/plugin.json", r#"{ "name": "empty" }"#)]);
    served.answers.send_replace(false);
    served.serve(&client);
    let uris = session_in(&client, "loading", &Workspace::new()).await;
    client.dispatch(&uris.session, published("first", Some("1"))).await;
    until_entry(&client, &uris.session, "Synced", "is loading", |entry| {
        entry["load"]["kind"] == "loading" && entry.get("children").is_none()
    })
    .await;
    let late = OfficialClient::connect(host.address(), "late").await;
    late.subscribe(&uris.session).await;
    assert_eq!(entry(&late, &uris.session, "Synced")["load"]["kind"], "loading");
    let id = entry(&late, &uris.session, "Synced")["id"].clone();
    served.answers.send_replace(true);
    for client in [&client, &late] {
        until_entry(client, &uris.session, NAME, "is loaded", |entry| {
            is_loaded(entry) && entry["children"] == json!([]) && entry["id"] == id
        })
        .await;
        client.assert_converged().await;
    }
}

#[tokio::test]
async fn p20_hostile_names_in_client_listings_lead_nowhere() {
    let (host, client) = start_with_client().await;
    let uris = session_in(&client, "hostile", &Workspace::new()).await;
    for (number, name) in ["..", "../../token", "/etc/passwd", "a\\b", "a\u{0}b", ""]
        .iter()
        .enumerate()
    {
        let listed = json!({ "entries": [{ "name": name, "type": "file" }] });
        client.client().set_server_request_handler(move |method, _| {
            let listed = listed.clone();
            async move {
                Ok(match method.as_str() {
                    "resourceList" => listed,
                    _ => json!({ "data": "evil", "encoding": "utf-8" }),
                })
            }
        });
        client
            .dispatch(&uris.session, published("first", Some(&number.to_string())))
            .await;
        until_entry(&client, &uris.session, "Synced", "is refused", |entry| {
            let message = entry["load"]["message"].as_str().unwrap_or_default();
            entry["load"]["kind"] == "error" && message.contains("which is not a valid file name")
        })
        .await;
        // The next state differs by not being an error.
        client.dispatch(&uris.session, with_plugins("first", json!([]))).await;
        client
            .until("it is withdrawn", |view| {
                let entries = json!(view.session(&uris.session).expect("mirrored").customizations);
                !entries.to_string().contains(URI)
            })
            .await;
    }
    let copies = host.data_path("client-plugins");
    let left: Vec<_> = walk(&copies).into_iter().filter(|path| path.is_file()).collect();
    assert_eq!(left, Vec::<std::path::PathBuf>::new(), "partial copies are thrown away");
    client.assert_converged().await;
}

fn walk(directory: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        found.push(entry.path());
        found.extend(walk(&entry.path()));
    }
    found
}

/// The next request of the host to a client.
async fn asked(client: &mut RawClient) -> (Value, String, String) {
    loop {
        if let Incoming::Message(message) = client.receive().await
            && let Some(method) = message["method"].as_str()
            && message.get("id").is_some()
        {
            let uri = message["params"]["uri"].as_str().unwrap_or_default();
            return (message["id"].clone(), method.to_owned(), uri.to_owned());
        }
    }
}

async fn answer(client: &mut RawClient, id: &Value, result: Value) {
    client
        .send(json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string())
        .await;
}

#[tokio::test]
async fn d75_a_client_that_leaves_during_a_copy_is_asked_again_on_return() {
    let (host, client) = start_with_client().await;
    let uris = session_in(&client, "middle", &Workspace::new()).await;
    let served = Served::with_skills(&["a"]);
    let mut publisher = RawClient::initialized(host.address(), "publisher").await;
    publisher
        .call("subscribe", json!({ "channel": uris.session }))
        .await
        .expect("subscribed");
    publisher
        .dispatch(&uris.session, 1, published("publisher", Some("1")))
        .await;
    let (id, method, uri) = asked(&mut publisher).await;
    assert_eq!((method.as_str(), uri.as_str()), ("resourceList", URI));
    answer(&mut publisher, &id, served.answer(&method, &uri).expect("listed")).await;
    let _ = asked(&mut publisher).await;
    drop(publisher);
    until_entry(
        &client,
        &uris.session,
        "Synced",
        "says that its client is away",
        |entry| {
            let message = entry["load"]["message"].as_str().unwrap_or_default();
            entry["load"]["kind"] == "error" && message.contains("tried again")
        },
    )
    .await;
    let mut publisher = RawClient::connect(host.address()).await;
    let back = json!({
        "channel": "ahp-root://", "clientId": "publisher", "lastSeenServerSeq": 0, "subscriptions": [uris.session],
    });
    publisher.ask("reconnect", back).await;
    let serving = async {
        loop {
            let (id, method, uri) = asked(&mut publisher).await;
            let result = served.answer(&method, &uri).expect("it is there");
            answer(&mut publisher, &id, result).await;
        }
    };
    tokio::select! {
        () = until_entry(&client, &uris.session, NAME, "is loaded", is_loaded) => {}
        () = serving => {}
    }
    assert_eq!(names(&entry(&client, &uris.session, NAME)), ["a"]);
    client.assert_converged().await;
}

/// A plugin with an agent.
fn with_agent() -> (Served, String) {
    let served = Served::with_skills(&[]);
    served.put(
        "agents/judge.md",
        "---\nname: judge\ndescription: Judges.\n---\nYou judge.\n",
    );
    (served, format!("{URI}/agents/judge.md"))
}

/// Chooses an agent for a message.
async fn choose(client: &OfficialClient, uris: &SessionUris, turn: &str, agent: &str) {
    let mut action = turn_started(turn, "hello");
    action["message"]["agent"] = json!({ "uri": agent });
    client.dispatch(&uris.chat, action).await;
}

fn said(turn: &ahp_types::state::Turn) -> String {
    json!(turn.response_parts).to_string()
}

#[tokio::test]
async fn cus22_the_first_message_may_choose_an_agent_of_a_loading_plugin() {
    let (_host, client) = start_with_client().await;
    let (served, agent) = with_agent();
    served.serve(&client);
    served.answers.send_replace(false);
    let workspace = Workspace::new();
    let create = json!({
        "workingDirectories": [workspace.uri()],
        "activeClient": published("first", Some("1"))["activeClient"],
    });
    let uris = client.create_session_with("handing", create).await;
    until_entry(&client, &uris.session, "Synced", "is on its way", |entry| {
        entry["load"]["kind"] == "loading"
    })
    .await;
    choose(&client, &uris, "t1", &agent).await;
    client
        .until("the turn waits", |view| {
            view.chat(&uris.chat).is_some_and(|chat| chat.active_turn.is_some())
        })
        .await;
    served.answers.send_replace(true);
    let turn = client.turn_end(&uris.chat, "t1").await;
    assert!(said(&turn).contains("judge was chosen"), "{}", said(&turn));
    client.assert_converged().await;
}

#[tokio::test]
async fn cus22_a_message_after_a_publication_may_choose_its_agent() {
    let (_host, client) = start_with_client().await;
    let (served, agent) = with_agent();
    served.serve(&client);
    let uris = session_in(&client, "at-once", &Workspace::new()).await;
    client.dispatch(&uris.session, published("first", Some("1"))).await;
    choose(&client, &uris, "t1", &agent).await;
    let turn = client.turn_end(&uris.chat, "t1").await;
    assert!(said(&turn).contains("judge was chosen"), "{}", said(&turn));
}

#[tokio::test]
async fn cus22_a_turn_does_not_wait_for_a_plugin_that_cannot_be_read() {
    let (_host, client) = start_with_client().await;
    let workspace = Workspace::new();
    // No client serves it: every request of the host is refused.
    let create = json!({
        "workingDirectories": [workspace.uri()],
        "activeClient": published("first", Some("1"))["activeClient"],
    });
    let uris = client.create_session_with("refusing", create).await;
    let turn = client.run_turn(&uris.chat, "t1", "hello").await;
    assert!(
        !said(&turn).contains("This turn"),
        "it neither waited nor misses anything: {}",
        said(&turn)
    );
    until_entry(&client, &uris.session, "Synced", "cannot be read", |entry| {
        entry["load"]["kind"] == "error"
    })
    .await;
}
