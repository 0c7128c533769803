//! Sessions are taken in while the host starts anew: none is missed, and none is counted twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use innkeeper_core::records::{Batch, ImportedSession, ListPage, StoredSession, StoredSummary, TurnSource};
use innkeeper_core::{Command, Input, Seq};
use innkeeper_host::Host;
use innkeeper_host::journal::{Appended, Journal, JournalError, Lease, MemoryJournal};
use innkeeper_testkit::embedded::{Running, TestAgent};
use innkeeper_testkit::official::OfficialClient;
use innkeeper_testkit::raw::RawClient;
use serde_json::json;
use tokio::sync::Notify;

/// A journal that takes sessions in when it is told to go on.
#[derive(Clone, Default)]
struct Slow {
    kept: MemoryJournal,
    taken_in: Arc<AtomicUsize>,
    opened: Arc<AtomicUsize>,
    begun: Arc<Notify>,
    goes_on: Arc<Notify>,
}

#[async_trait]
impl Journal for Slow {
    async fn open(&self) -> Result<Lease, JournalError> {
        // The second time, what was begun is done before anything is counted.
        let is_again = self.opened.fetch_add(1, Ordering::SeqCst) > 0;
        while is_again && self.taken_in.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        let mut lease = self.kept.open().await?;
        lease.sessions += self.taken_in.load(Ordering::SeqCst);
        Ok(lease)
    }

    fn append(&self, batch: Batch) -> Appended {
        self.kept.append(batch)
    }

    async fn revive(&self) -> Result<(), JournalError> {
        self.kept.revive().await
    }

    async fn flush(&self) -> Result<(), JournalError> {
        self.kept.flush().await
    }

    async fn load(&self, channel: &str) -> Result<Option<StoredSession>, JournalError> {
        self.kept.load(channel).await
    }

    async fn list(&self, page: ListPage) -> Result<Vec<StoredSummary>, JournalError> {
        self.kept.list(page).await
    }

    async fn import(&self, _: String) -> Result<ImportedSession, JournalError> {
        self.begun.notify_one();
        self.goes_on.notified().await;
        self.taken_in.fetch_add(1, Ordering::SeqCst);
        Ok(ImportedSession {
            uri: "ahp-session:/far".to_owned(),
            chats: 1,
            turns: 0,
            at_rest: true,
            last_seq: Seq(1),
            summary: "{}".into(),
            approvals: Vec::new(),
        })
    }

    fn turns(&self) -> Option<Arc<dyn TurnSource>> {
        self.kept.turns()
    }
}

#[tokio::test]
async fn f23_a_session_imported_during_a_core_restart_is_counted_once() {
    let journal = Slow::default();
    let goes_on = Arc::clone(&journal.goes_on);
    // The core fails here, and only then does the journal go on.
    let fails = move |input: &Input| {
        let fails = matches!(
            input,
            Input::Request {
                command: Command::Authenticate(_),
                ..
            }
        );
        if fails {
            goes_on.notify_one();
        }
        fails
    };
    let builder = Host::builder().agent(TestAgent).journal(journal.clone());
    let running = Running::start(builder.break_on(fails)).await;
    let client = OfficialClient::connect(&running.address, "first").await;
    client.create_listed_session("own").await;
    let mut importer = RawClient::initialized(&running.address, "importer").await;
    let import = json!({ "channel": "ahp-root://", "lines": ["an export"] });
    importer.ask("innkeeper/importSession", import).await;
    journal.begun.notified().await;
    // The core fails, and the next one starts from what is kept.
    let mut breaker = RawClient::initialized(&running.address, "breaker").await;
    let token = json!({ "channel": "ahp-root://", "resource": "https://example.com", "token": "x" });
    breaker.ask("authenticate", token).await;
    breaker.end().await;
    let reader = OfficialClient::connect(&running.address, "reader").await;
    reader
        .until("both are counted", |view| {
            view.root().and_then(|root| root.active_sessions) == Some(2)
        })
        .await;
    // Everything that was on its way is through before this is answered.
    reader.create_listed_session("third").await;
    reader.assert_converged().await;
    let counted = reader.view().root().and_then(|root| root.active_sessions);
    assert_eq!(counted, Some(3), "each is counted once");
}
