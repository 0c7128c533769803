//! The store passes the journal conformance suite on a disk with power cuts, full disks and errors.

use innkeeper_testkit::journal;

use crate::disks::FaultyStorage;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p1_the_sqlite_journal_passes_the_conformance_suite() {
    let ran = journal::all(|| Box::new(FaultyStorage::new())).await;
    println!("{ran} scenarios");
}
