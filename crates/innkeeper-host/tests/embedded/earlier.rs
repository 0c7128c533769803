//! Sessions that an earlier version stored work like any other.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use innkeeper_core::records::{Batch, ImportedSession, ListPage, StoredSession, StoredSummary, TurnSource};
use innkeeper_host::Host;
use innkeeper_host::journal::{Appended, Journal, JournalError, Lease, MemoryJournal};
use innkeeper_testkit::embedded::{Running, TestAgent};
use innkeeper_testkit::official::{OfficialClient, ReconnectOutcome};
use serde_json::{Value, json};

/// A journal whose sessions are stored as an earlier version stored them.
#[derive(Clone)]
struct Earlier(MemoryJournal);

/// Gives the approval mode its former name and values.
fn with_former_mode(document: &mut Value) {
    let former = |value: &Value| match value.as_str() {
        Some("autoApprove") => json!("allowAll"),
        _ => json!("ask"),
    };
    for setting in document["settings"].as_array_mut().expect("settings") {
        if setting["id"] == "autoApprove" {
            setting["id"] = json!("approvalMode");
            setting["default"] = former(&setting["default"]);
            setting["kind"] = json!({ "Choice": [
                { "id": "ask", "label": "Ask", "description": null, "recommended": false },
                { "id": "allowAll", "label": "Allow everything", "description": null, "recommended": false },
            ] });
        }
    }
    let config = &mut document["state"]["config"];
    let values = config["values"].as_object_mut().expect("values");
    let mode = values.remove("autoApprove").expect("the mode");
    values.insert("approvalMode".to_owned(), former(&mode));
    let properties = config["schema"]["properties"].as_object_mut().expect("properties");
    let mut property = properties.remove("autoApprove").expect("the mode");
    property["enum"] = json!(["ask", "allowAll"]);
    property["default"] = json!("ask");
    properties.insert("approvalMode".to_owned(), property);
}

#[async_trait]
impl Journal for Earlier {
    async fn open(&self) -> Result<Lease, JournalError> {
        self.0.open().await
    }

    fn append(&self, batch: Batch) -> Appended {
        self.0.append(batch)
    }

    async fn revive(&self) -> Result<(), JournalError> {
        self.0.revive().await
    }

    async fn flush(&self) -> Result<(), JournalError> {
        self.0.flush().await
    }

    async fn load(&self, channel: &str) -> Result<Option<StoredSession>, JournalError> {
        let mut session = self.0.load(channel).await?;
        if let Some(session) = &mut session {
            let mut document = serde_json::from_slice(&session.document).expect("JSON");
            with_former_mode(&mut document);
            session.document = document.to_string().into();
        }
        Ok(session)
    }

    async fn list(&self, page: ListPage) -> Result<Vec<StoredSummary>, JournalError> {
        self.0.list(page).await
    }

    async fn import(&self, text: String) -> Result<ImportedSession, JournalError> {
        self.0.import(text).await
    }

    fn turns(&self) -> Option<Arc<dyn TurnSource>> {
        self.0.turns()
    }
}

#[tokio::test]
async fn a_stored_session_keeps_its_approval_mode_under_the_new_name() {
    let journal = MemoryJournal::new();
    let running = Running::start(Host::builder().agent(TestAgent).journal(journal.clone())).await;
    let mut client = OfficialClient::connect(&running.address, "first").await;
    let uris = client.create_session("kept").await;
    let change = |config: Value| json!({ "type": "session/configChanged", "config": config });
    let everything = json!({ "autoApprove": "autoApprove" });
    client.dispatch(&uris.session, change(everything)).await;
    client.caught_up().await;
    client.cut().await;
    running.host.shutdown(Duration::from_secs(10)).await;

    let running = Running::start(Host::builder().agent(TestAgent).journal(Earlier(journal))).await;
    client.move_to(&running.address);
    let resumed = client.reconnect().await.expect("known across restarts");
    assert!(
        !matches!(resumed, ReconnectOutcome::Replay { .. }),
        "no action tells of a changed schema: {resumed:?}"
    );
    assert_eq!(
        client.view().setting(&uris.session, "autoApprove"),
        json!("autoApprove")
    );
    let config = client.session(&uris.session).config.expect("settings");
    let names: Vec<&String> = config.schema.properties.keys().collect();
    assert!(!names.iter().any(|name| *name == "approvalMode"), "{names:?}");
    assert_eq!(
        config.schema.properties["autoApprove"].r#enum,
        Some(vec![json!("default"), json!("autoApprove")])
    );
    // A client that knows the former name only.
    client
        .dispatch(&uris.session, change(json!({ "approvalMode": "ask" })))
        .await;
    client
        .until("the session asks for confirmations again", |view| {
            view.setting(&uris.session, "autoApprove") == json!("default")
        })
        .await;
    client.assert_converged().await;
}
