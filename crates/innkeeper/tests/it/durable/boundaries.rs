//! F1: the host is killed between any two writes to its database, with a restart after each.

use std::path::{Path, PathBuf};
use std::process::Command;

use innkeeper_faults::Random;
use innkeeper_testkit::process::HostProcess;

use crate::durable::busy_session::BusySession;
use crate::durable::kills::{Tally, look};
use crate::durable::{chosen, options};

/// Every so many boundaries in an ordinary run; `INNKEEPER_BOUNDARY_STRIDE=1` is all of them.
const STRIDE: u64 = 150;
/// More writes than any run makes: beyond this the loop would not end.
const MOST: u64 = 20_000;

/// Builds what counts the program's writes and kills it at one of them.
fn killer(directory: &Path) -> PathBuf {
    let library = directory.join("die_at_write.so");
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .arg(&library)
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/durable/die_at_write.c"))
        .arg("-ldl")
        .output()
        .expect("there is a C compiler: SQLite was built with it");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    library
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f1_a_kill_between_any_two_writes_loses_nothing_that_was_sent() {
    let stride = chosen("INNKEEPER_BOUNDARY_STRIDE", STRIDE).max(1);
    let first: u64 = chosen("INNKEEPER_BOUNDARY_FIRST", 1);
    let tools = tempfile::tempdir().expect("a temporary directory");
    let order = tools.path().join("die-at");
    let options = options()
        .environment("LD_PRELOAD", killer(tools.path()))
        .environment("INNKEEPER_TEST_DIE_AT", &order);
    let mut host = HostProcess::start(options).await;
    let mut tally = Tally::default();
    let mut boundary = first;
    loop {
        assert!(boundary < MOST, "a life never ends");
        let name = format!("boundary-{boundary}");
        let life = BusySession::begin(host.address(), &name).await;
        std::fs::write(&order, boundary.to_string()).expect("the order can be given");
        let mut random = Random::new(boundary);
        let mut dying = std::pin::pin!(host.wait_for_ever());
        let died = tokio::select! {
            () = life.go_on(&name, &mut random) => None,
            died = &mut dying => Some(died),
        };
        std::fs::remove_file(&order).expect("the order can be taken back");
        let Some(killed) = died else {
            break; // It made fewer writes than that: every boundary had its turn.
        };
        host = look(killed, life, &name, &mut tally).await;
        boundary += stride;
    }
    assert!(tally.kills > 1, "no write was counted");
    println!(
        "write boundaries: {} of about {boundary}, actions checked: {}, lost: 0",
        tally.kills, tally.checked
    );
}
