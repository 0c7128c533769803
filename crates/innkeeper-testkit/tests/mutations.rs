//! The properties notice every seeded host bug.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use innkeeper_testkit::mutation::Mutation;
use innkeeper_testkit::sim::{RunOptions, bytes_from_seed, run};

/// Most seeds a bug may need.
const SEEDS: u64 = 2000;
/// Bytes per seeded run.
const RUN_BYTES: usize = 400;

/// How many seeds it takes to notice a bug, and the first line of what is noticed.
fn find(mutation: Mutation) -> Option<(u64, String)> {
    let options = RunOptions {
        mutation: Some(mutation),
        ..RunOptions::default()
    };
    (0..SEEDS).find_map(|seed| {
        let violation = run(&bytes_from_seed(seed, RUN_BYTES), options).err()?;
        let text = violation.to_string();
        let first_line = text.lines().next().unwrap_or_default();
        Some((seed + 1, first_line.chars().take(110).collect()))
    })
}

#[test]
fn every_seeded_bug_is_found() {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicUsize::new(0);
    let missed = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(mutation) = Mutation::ALL.get(next.fetch_add(1, Ordering::Relaxed)) {
                    match find(*mutation) {
                        Some((seeds, what)) => println!("{mutation:?}: {seeds} seeds: {what}"),
                        None => missed.lock().expect("nobody panics with it").push(*mutation),
                    }
                }
            });
        }
    });
    let missed = missed.into_inner().expect("nobody panics with it");
    assert!(missed.is_empty(), "not found within {SEEDS} seeds: {missed:?}");
}
