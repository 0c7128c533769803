//! Random hosts and clients: order, convergence, and nothing lost or doubled at any cut.

use innkeeper_testkit::sim::{Coalescing, RunOptions, Tally, bytes_from_seed, run};
use proptest::prelude::*;

/// Seeds of the plain loop; `INNKEEPER_SIM_SEEDS` asks for more, for instance after changing the core.
fn seeds() -> u64 {
    let wanted = std::env::var("INNKEEPER_SIM_SEEDS")
        .ok()
        .and_then(|wanted| wanted.parse().ok());
    wanted.unwrap_or(500).max(500)
}

/// Bytes per seeded run, which is about 200 operations.
const RUN_BYTES: usize = 700;

#[test]
fn at_least_five_hundred_seeds_without_a_violation() {
    let mut tally = Tally::new();
    let seeds = seeds();
    for seed in 0..seeds {
        match run(&bytes_from_seed(seed, RUN_BYTES), RunOptions::default()) {
            Ok(outcome) => {
                *tally.entry("operations").or_default() += outcome.operations as u64;
                for (what, times) in outcome.tally {
                    *tally.entry(what).or_default() += times;
                }
            }
            Err(violation) => panic!("seed {seed}: {violation}"),
        }
    }
    println!("{seeds} seeds: {tally:?}");
    // What never happens is not tested.
    for (what, least) in [
        ("replays", 500),
        ("empty replays", 100),
        ("resyncs", 150),
        ("fresh starts after a refused reconnect", 1),
        ("turns started", 1000),
        ("turns cancelled", 200),
        ("merged actions", 1000),
        ("echoes", 2000),
        ("refusals", 2000),
        ("no-op echoes", 200),
    ] {
        assert!(
            tally.get(what).is_some_and(|times| *times >= least),
            "{what}: fewer than {least} in {tally:?}"
        );
    }
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
        let (merged, plain) = (outcome(Coalescing::Always), outcome(Coalescing::Never));
        assert_eq!(merged.fingerprint, plain.fingerprint, "seed {seed}");
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
