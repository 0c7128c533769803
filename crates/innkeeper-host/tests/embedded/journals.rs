//! Only persisted state is published.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ahp_types::actions::{ActionEnvelope, StateAction};
use innkeeper_host::journal::records::{
    ActionRecord, Batch, ListPage, Record, StoredSession, StoredSummary, TurnSource,
};
use innkeeper_host::journal::{Appended, Journal, JournalError, Lease};
use innkeeper_host::{Host, HostError, async_trait};
use innkeeper_testkit::embedded::{Running, TestAgent};
use innkeeper_testkit::official::OfficialClient;
use serde_json::{Value, json};

/// Keeps everything in memory, and fails when told to.
#[derive(Clone, Default)]
struct Notebook {
    kept: Arc<Mutex<Vec<ActionRecord>>>,
    broken: bool,
    flushes: Arc<AtomicUsize>,
}

#[async_trait]
impl Journal for Notebook {
    async fn open(&self) -> Result<Lease, JournalError> {
        if self.broken {
            return Err(JournalError::Failed("the disk is on fire".to_owned()));
        }
        Ok(Lease {
            last_seq: innkeeper_core::Seq(41),
            ..Lease::default()
        })
    }

    fn append(&self, batch: Batch) -> Appended {
        let actions = batch.records.into_iter().filter_map(|record| match record {
            Record::Action(action) => Some(action),
            _ => None,
        });
        self.kept.lock().expect("no panic").extend(actions);
        Box::pin(std::future::ready(Ok(())))
    }

    async fn revive(&self) -> Result<(), JournalError> {
        Ok(())
    }

    async fn load(&self, _: &str) -> Result<Option<StoredSession>, JournalError> {
        Ok(None)
    }

    async fn list(&self, _: ListPage) -> Result<Vec<StoredSummary>, JournalError> {
        Ok(Vec::new())
    }

    fn turns(&self) -> Option<Arc<dyn TurnSource>> {
        None
    }

    async fn flush(&self) -> Result<(), JournalError> {
        self.flushes.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

#[tokio::test]
async fn p_1_subscribers_get_the_exact_bytes_of_the_journal() {
    let notebook = Notebook::default();
    let running = Running::start(Host::builder().agent(TestAgent).journal(notebook.clone())).await;
    let client = OfficialClient::connect(&running.address, "first").await;
    let uris = client.create_listed_session("kept").await;
    client
        .dispatch(
            &uris.session,
            json!({ "type": "session/defaultChatChanged", "defaultChat": "ahp-chat:/bogus" }),
        )
        .await;
    client.refusal(1).await;
    // Without delay and slowly, so that nothing is merged on the way.
    let watcher = OfficialClient::connect(&running.address, "watcher").await;
    watcher.subscribe_without_delay(&uris.chat).await;
    client.start_turn(&uris.chat, "t1", "/stream 20 5").await;
    watcher.turn_end(&uris.chat, "t1").await;
    client.turn_end(&uris.chat, "t1").await;
    client.assert_converged().await;

    let kept: Vec<ActionEnvelope> = notebook
        .kept
        .lock()
        .expect("no panic")
        .iter()
        .map(|record| {
            let message: Value = serde_json::from_slice(&record.frame.bytes).expect("JSON");
            let envelope: ActionEnvelope = serde_json::from_value(message["params"].clone()).expect("an envelope");
            assert_eq!(envelope.channel, *record.channel);
            assert_eq!(envelope.server_seq, record.frame.seq.0);
            envelope
        })
        .collect();
    assert!(kept.is_sorted_by(|one, next| one.server_seq < next.server_seq));
    assert!(
        kept.first().is_some_and(|first| first.server_seq > 41),
        "the order continues after the lease"
    );
    assert!(
        !kept
            .iter()
            .any(|envelope| matches!(envelope.action, StateAction::SessionDefaultChatChanged(_))),
        "refusals are not kept"
    );
    let of_chat: Vec<_> = kept
        .iter()
        .filter(|envelope| envelope.channel == uris.chat)
        .cloned()
        .collect();
    assert_eq!(watcher.view().actions, of_chat);
}

#[tokio::test]
async fn a_shutdown_flushes_the_journal_and_a_broken_one_prevents_the_start() {
    let notebook = Notebook::default();
    let running = Running::start(Host::builder().agent(TestAgent).journal(notebook.clone())).await;
    running.host.shutdown(Duration::from_secs(10)).await;
    assert_eq!(notebook.flushes.load(Ordering::SeqCst), 1);
    let broken = Notebook {
        broken: true,
        ..Notebook::default()
    };
    match Host::builder().agent(TestAgent).journal(broken).start().await {
        Err(error @ HostError::Journal(_)) => {
            assert_eq!(error.to_string(), "the journal cannot be opened: the disk is on fire")
        }
        other => panic!("an error was expected: {other:?}"),
    }
}
