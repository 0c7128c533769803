//! The properties notice every seeded host bug.

use innkeeper_testkit::mutation::Mutation;
use innkeeper_testkit::sim::{RunOptions, bytes_from_seed, run};

/// Most seeds a bug may need.
const SEEDS: u64 = 200;
/// Bytes per seeded run.
const RUN_BYTES: usize = 700;

#[test]
fn every_seeded_bug_is_found() {
    let mut missed = Vec::new();
    for mutation in Mutation::ALL {
        let found = (0..SEEDS).find_map(|seed| {
            let options = RunOptions {
                mutation: Some(mutation),
                ..RunOptions::default()
            };
            run(&bytes_from_seed(seed, RUN_BYTES), options)
                .err()
                .map(|violation| (seed + 1, violation))
        });
        match found {
            Some((seeds, violation)) => {
                let first_line: String = violation
                    .to_string()
                    .lines()
                    .next()
                    .unwrap_or_default()
                    .chars()
                    .take(110)
                    .collect();
                println!("{mutation:?}: {seeds} seeds: {first_line}");
            }
            None => missed.push(mutation),
        }
    }
    assert!(missed.is_empty(), "not found within {SEEDS} seeds: {missed:?}");
}
