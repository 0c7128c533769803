//! The properties notice every seeded host bug.

use std::fmt::Debug;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use innkeeper_testkit::mutation::{JournalBug, Mutation};
use innkeeper_testkit::sim::{RunOptions, bytes_from_seed, run};

/// Most seeds a bug may need: twice as many as the rarest one needs.
const SEEDS: u64 = 4000;
/// Bytes per seeded run.
const RUN_BYTES: usize = 400;

/// How many seeds it takes to notice a bug, and the first line of what is noticed.
fn find(options: RunOptions) -> Option<(u64, String)> {
    (0..SEEDS).find_map(|seed| {
        let violation = run(&bytes_from_seed(seed, RUN_BYTES), options).err()?;
        let text = violation.to_string();
        let first_line = text.lines().next().unwrap_or_default();
        Some((seed + 1, first_line.chars().take(110).collect()))
    })
}

#[test]
fn every_seeded_bug_is_found() {
    let mut bugs = Mutation::ALL.to_vec();
    // The rarest bug takes half of the time. It comes first, and the other threads find the rest meanwhile.
    bugs.sort_by_key(|bug| *bug != Mutation::KeepSwitchToItself);
    every_bug_is_found(&bugs, |mutation| RunOptions {
        mutation: Some(mutation),
        ..RunOptions::default()
    });
}

#[test]
fn trm02_trm06_trm18_every_seeded_bug_of_terminals_is_found() {
    every_bug_is_found(&Mutation::TERMINALS, |mutation| RunOptions {
        mutation: Some(mutation),
        terminals: true,
        ..RunOptions::default()
    });
}

#[test]
fn every_seeded_bug_of_changesets_and_annotations_is_found() {
    every_bug_is_found(&Mutation::CHANGES, |mutation| RunOptions {
        mutation: Some(mutation),
        changes: true,
        ..RunOptions::default()
    });
}

#[test]
fn p1_p4_p5_every_seeded_bug_of_a_journal_is_found() {
    every_bug_is_found(&JournalBug::ALL, |journal_bug| RunOptions {
        restarts: true,
        journal_bug: Some(journal_bug),
        ..RunOptions::default()
    });
}

fn every_bug_is_found<B: Copy + Debug + Send + Sync>(bugs: &[B], options: impl Fn(B) -> RunOptions + Sync) {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicUsize::new(0);
    let missed = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(bug) = bugs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    match find(options(*bug)) {
                        Some((seeds, what)) => println!("{bug:?}: {seeds} seeds: {what}"),
                        None => missed.lock().expect("no thread panics while holding it").push(*bug),
                    }
                }
            });
        }
    });
    let missed = missed.into_inner().expect("no thread panics while holding it");
    assert!(missed.is_empty(), "not found within {SEEDS} seeds: {missed:?}");
}
