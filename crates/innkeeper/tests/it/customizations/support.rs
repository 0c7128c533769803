//! Workspaces with customizations, and their state for a client.

use std::fs;
use std::path::{Path, PathBuf};

use innkeeper_testkit::official::{OfficialClient, SessionUris, View};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A workspace of its own for each test.
pub(crate) struct Workspace {
    directory: TempDir,
}

impl Workspace {
    pub(crate) fn new() -> Self {
        Self {
            directory: tempfile::tempdir().expect("a directory"),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        let root = fs::canonicalize(self.directory.path()).expect("there");
        root.join(name)
    }

    pub(crate) fn uri(&self) -> String {
        uri_of(&self.path("").components().collect::<PathBuf>())
    }

    /// Writes a file and the directories around it.
    pub(crate) fn write(&self, name: &str, text: &str) {
        write(&self.path(name), text);
    }

    /// Writes a skill into `.claude/skills`.
    pub(crate) fn skill(&self, name: &str) {
        self.write(&format!(".claude/skills/{name}/SKILL.md"), &skill(name, "Does it."));
    }
}

/// Writes a file and the directories around it, all at once: it is made elsewhere and moved into place. A host that
/// reads at any moment finds what was there before or what is there then, never an empty file or an empty directory; so
/// that the number of actions is the same every time.
pub(crate) fn write(path: &Path, text: &str) {
    let is_missing = |directory: &&Path| !directory.exists();
    let Some(highest) = path.ancestors().skip(1).take_while(is_missing).last() else {
        let file = tempfile::NamedTempFile::new().expect("a file");
        fs::write(file.path(), text).expect("written");
        file.persist(path).expect("moved into place");
        return;
    };
    let elsewhere = tempfile::tempdir().expect("a directory");
    let made = elsewhere.path().join("made");
    let file = made.join(path.strip_prefix(highest).expect("inside"));
    fs::create_dir_all(file.parent().expect("a directory")).expect("created");
    fs::write(&file, text).expect("written");
    fs::rename(&made, highest).expect("moved into place");
}

pub(crate) fn uri_of(path: &Path) -> String {
    format!("file://{}", path.display())
}

pub(crate) fn skill(name: &str, description: &str) -> String {
    format!("---\nname: {name}\ndescription: {description}\n---\nDo it.\n")
}

/// Creates a session in a workspace and waits until its customizations are known.
pub(crate) async fn session_in(client: &OfficialClient, name: &str, workspace: &Workspace) -> SessionUris {
    let uris = client.create_session_in(name, &workspace.uri()).await;
    known(client, &uris.session).await;
    uris
}

/// Waits until a session's customizations are known and none is being read.
pub(crate) async fn known(client: &OfficialClient, session: &str) {
    client
        .until("customizations are known", |view| {
            let entries = view
                .session(session)
                .and_then(|session| session.customizations.as_ref());
            entries.is_some_and(|entries| !entries.is_empty() && !json!(entries).to_string().contains("\"loading\""))
        })
        .await;
}

/// The customizations of a session as JSON.
pub(crate) fn entries(client: &OfficialClient, session: &str) -> Vec<Value> {
    let session = client.session(session);
    let entries = serde_json::to_value(session.customizations.unwrap_or_default()).expect("JSON");
    entries.as_array().cloned().unwrap_or_default()
}

/// One of them, by its name.
#[track_caller]
pub(crate) fn entry(client: &OfficialClient, session: &str, name: &str) -> Value {
    let all = entries(client, session);
    let found = all.iter().find(|entry| entry["name"] == name);
    found.unwrap_or_else(|| panic!("{name} is not among {all:#?}")).clone()
}

/// A child of an entry, by its name.
#[track_caller]
pub(crate) fn child(client: &OfficialClient, session: &str, container: &str, name: &str) -> Value {
    let entry = entry(client, session, container);
    let children = entry["children"].as_array().cloned().unwrap_or_default();
    let found = children.iter().find(|child| child["name"] == name);
    found.unwrap_or_else(|| panic!("{name} is not in {entry:#}")).clone()
}

/// The names of an entry's children.
pub(crate) fn names(entry: &Value) -> Vec<String> {
    let children = entry["children"].as_array().map(Vec::as_slice).unwrap_or_default();
    let names = children.iter().filter_map(|child| child["name"].as_str());
    names.map(str::to_owned).collect()
}

/// Waits until an entry has children of exactly these names.
pub(crate) async fn until_names(client: &OfficialClient, session: &str, container: &str, expected: &[&str]) {
    until_entry(client, session, container, &format!("has {expected:?}"), |entry| {
        names(entry) == expected
    })
    .await;
}

/// Waits until an entry is there and as wanted.
pub(crate) async fn until_entry(
    client: &OfficialClient,
    session: &str,
    name: &str,
    what: &str,
    holds: impl Fn(&Value) -> bool,
) {
    until_entries(client, session, &format!("have {name}, which {what}"), |entries| {
        entries.iter().any(|entry| entry["name"] == name && holds(entry))
    })
    .await;
}

/// Waits until the entries are as wanted.
pub(crate) async fn until_entries(
    client: &OfficialClient,
    session: &str,
    what: &str,
    holds: impl Fn(&[Value]) -> bool,
) {
    client
        .until(&format!("the customizations {what}"), |view| {
            let entries = view.session(session).map(|session| json!(session.customizations));
            let entries = entries.as_ref().and_then(Value::as_array);
            holds(entries.map(Vec::as_slice).unwrap_or_default())
        })
        .await;
}

/// The types of the actions about customizations that a session had since the client joined it.
pub(crate) fn told(client: &OfficialClient, session: &str) -> Vec<String> {
    let actions = client.view().actions_on(session);
    let types = actions.iter().filter_map(|action| action["type"].as_str());
    types
        .filter(|kind| kind.starts_with("session/customization"))
        .map(str::to_owned)
        .collect()
}

/// Returns the global customizations of the first agent.
pub(crate) fn listed(view: &View) -> Vec<Value> {
    let agents = view.root().map(|root| json!(root.agents)).unwrap_or_default();
    agents[0]["customizations"].as_array().cloned().unwrap_or_default()
}

/// Waits until it lists what is wanted. A host serves before it has read everything, if that takes long.
pub(crate) async fn until_listed(client: &OfficialClient, what: &str, holds: impl Fn(&[Value]) -> bool) {
    let what = format!("agents list {what}");
    client.until(&what, |view| holds(&listed(view))).await;
}

/// Switches something on or off.
pub(crate) async fn toggle(client: &OfficialClient, session: &str, id: &Value, enablement: Value) {
    let action = json!({ "type": "session/customizationToggled", "id": id, "enablement": enablement });
    client.dispatch(session, action).await;
}

/// Asks, and expects a result.
pub(crate) async fn ask(client: &OfficialClient, method: &str, mut params: Value) -> Value {
    params["channel"] = json!("ahp-root://");
    let answered: Result<Value, _> = client.request(method, params).await;
    answered.unwrap_or_else(|error| panic!("{method}: {error}"))
}

/// Asks, and expects a refusal.
pub(crate) async fn refused(client: &OfficialClient, method: &str, mut params: Value) -> (i64, String) {
    params["channel"] = json!("ahp-root://");
    client.refused(method, params).await
}
