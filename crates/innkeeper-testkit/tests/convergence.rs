//! Random hosts and clients: order, convergence, and nothing lost or doubled at any cut.

use innkeeper_testkit::sim::{Coalescing, RunOptions, bytes_from_seed, run};
use proptest::prelude::*;

/// Seeds of the plain loop.
const SEEDS: u64 = 500;
/// Bytes per seeded run, which is about 200 operations.
const RUN_BYTES: usize = 700;

#[test]
fn five_hundred_seeds_without_a_violation() {
    let mut operations = 0;
    let mut actions = 0;
    for seed in 0..SEEDS {
        match run(&bytes_from_seed(seed, RUN_BYTES), RunOptions::default()) {
            Ok(outcome) => {
                operations += outcome.operations;
                actions += outcome.last_seq;
            }
            Err(violation) => panic!("seed {seed}: {violation}"),
        }
    }
    println!("{SEEDS} seeds, {operations} operations, {actions} sequence numbers");
}

#[test]
fn coalesced_and_uncoalesced_connections_end_with_the_same_state() {
    for seed in 1000..1150 {
        let bytes = bytes_from_seed(seed, RUN_BYTES);
        let outcome = |coalescing| {
            let options = RunOptions {
                coalescing,
                ..RunOptions::default()
            };
            run(&bytes, options).unwrap_or_else(|violation| panic!("seed {seed} {coalescing:?}: {violation}"))
        };
        assert_eq!(outcome(Coalescing::Always), outcome(Coalescing::Never), "seed {seed}");
    }
}

#[test]
fn a_run_is_decided_by_its_bytes_alone() {
    let bytes = bytes_from_seed(7, RUN_BYTES);
    let first = run(&bytes, RunOptions::default()).expect("no violation");
    for _ in 0..10 {
        assert_eq!(run(&bytes, RunOptions::default()).as_ref(), Ok(&first));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, max_shrink_iters: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_make_a_run_without_a_violation(bytes in proptest::collection::vec(any::<u8>(), 0..500)) {
        if let Err(violation) = run(&bytes, RunOptions::default()) {
            prop_assert!(false, "{violation}");
        }
    }
}
