//! The journal in memory passes the scenarios, and the scenarios find broken journals.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use innkeeper_core::Seq;
use innkeeper_host::async_trait;
use innkeeper_host::journal::{CrashSurvivors, Journal, JournalError, MemoryJournal};
use innkeeper_testkit::journal::host_run::HostRun;
use innkeeper_testkit::journal::{self, SCENARIOS, Storage, StorageFailure};

use broken::Broken;
use mistakes::Mistake;

mod broken;
mod mistakes;

struct Memory(MemoryJournal);

#[async_trait]
impl Storage for Memory {
    fn journal(&self) -> Arc<dyn Journal> {
        Arc::new(self.0.clone())
    }

    async fn killed(&self) -> Box<dyn Storage> {
        let half = self.0.unsynced() / 2;
        Box::new(Self(self.0.crash(CrashSurvivors::Batches(half))))
    }

    async fn without_power(&self) -> Box<dyn Storage> {
        Box::new(Self(self.0.crash(CrashSurvivors::Durable)))
    }

    fn break_down(&self, failure: StorageFailure) -> bool {
        self.0.fail_with(error(failure));
        true
    }

    fn mend(&self) {
        self.0.recover();
    }
}

fn error(failure: StorageFailure) -> JournalError {
    match failure {
        StorageFailure::Full => JournalError::Full("no room is left".to_owned()),
        StorageFailure::Broken => JournalError::Failed("the storage failed".to_owned()),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p1_the_journal_in_memory_passes_all_scenarios() {
    let ran = journal::all(|| Box::new(Memory(MemoryJournal::mortal(Seq(1_000))))).await;
    println!("{ran} scenarios");
    journal::all(|| Box::new(Memory(MemoryJournal::new()))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_broken_journal_fails_its_scenario() {
    // The broken journal without a mistake passes.
    journal::all(|| Box::new(Broken::new(Mistake::None))).await;
    let mut missed = Vec::new();
    for (mistake, name) in Mistake::ALL {
        let scenario = SCENARIOS.iter().find(|scenario| scenario.name == *name);
        let scenario = scenario.unwrap_or_else(|| panic!("there is no scenario {name}"));
        let storage = Box::new(Broken::new(*mistake));
        if AssertUnwindSafe(scenario.run(storage)).catch_unwind().await.is_ok() {
            missed.push((mistake, name));
        }
    }
    println!("{} mistakes", Mistake::ALL.len());
    assert!(missed.is_empty(), "not found: {missed:#?}");
}

#[tokio::test]
async fn a_crash_loses_the_batches_after_the_chosen_one() {
    const SESSION: &str = "ahp-session:/one";
    const CHAT: &str = "ahp-chat:/one";
    let journal = MemoryJournal::mortal(Seq(1_000));
    let mut host = HostRun::begin(&Memory(journal.clone())).await;
    host.create(SESSION, CHAT).await;
    let confirmed = host.seq;
    for number in 0..5 {
        let record = host.delta(CHAT, "p", &format!("{number} "));
        host.keep(vec![record]).await;
    }
    assert_eq!(journal.unsynced(), 5);
    let kept = async |keep| {
        let left = journal.crash(keep);
        let lease = left.open().await.expect("what is left opens");
        lease.persisted_seq.0 - confirmed.0
    };
    assert_eq!(kept(CrashSurvivors::Durable).await, 0);
    for count in 0..=5 {
        assert_eq!(
            kept(CrashSurvivors::Batches(usize::try_from(count).expect("few"))).await,
            count
        );
    }
    assert_eq!(kept(CrashSurvivors::Everything).await, 5);
    // The original goes on, and a clone of it is the same journal.
    let record = host.title(SESSION, "a title");
    host.keep(vec![record]).await;
    assert_eq!(
        journal.clone().unsynced(),
        0,
        "what came before something durable is safe"
    );
    assert_eq!(kept(CrashSurvivors::Durable).await, 6);
}

#[tokio::test]
async fn the_log_for_replay_is_bounded() {
    const SESSION: &str = "ahp-session:/one";
    const CHAT: &str = "ahp-chat:/one";
    let mut host = HostRun::begin(&Memory(MemoryJournal::new())).await;
    host.create(SESSION, CHAT).await;
    let text = "x".repeat(64 << 10);
    for round in 0..100 {
        let record = host.delta(CHAT, &format!("part {round}"), &text);
        host.keep(vec![record, host.chat(SESSION, CHAT)]).await;
    }
    let session = host.load(SESSION).await;
    let bytes: usize = session.log.iter().map(|frame| frame.bytes.len()).sum();
    assert!(bytes > 0 && bytes <= 1 << 20, "{bytes} bytes are left of 6.4 million");
}
