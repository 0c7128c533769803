//! The store does what every journal has to do, on a disk that is cut off, full and broken.

use innkeeper_testkit::journal;

use crate::disks::Faulty;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p1_the_sqlite_journal_passes_the_conformance_suite() {
    let ran = journal::all(|| Box::new(Faulty::new())).await;
    println!("{ran} scenarios");
}
