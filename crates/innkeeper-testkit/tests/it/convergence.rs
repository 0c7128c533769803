//! Random hosts, agents and clients: order, convergence, and nothing lost or doubled at any cut.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use innkeeper_testkit::sim::{Coalescing, RunOptions, Tally, bytes_from_seed, run, shrink};
use proptest::prelude::*;

/// Seeds of the plain loop. `INNKEEPER_SIM_SEEDS` sets another number: `cargo xtask nightly` runs 100,000.
fn seeds() -> u64 {
    let wanted = std::env::var("INNKEEPER_SIM_SEEDS")
        .ok()
        .and_then(|wanted| wanted.parse().ok());
    wanted.unwrap_or(2_000)
}

/// Bytes per seeded run, which is about 100 operations.
const RUN_BYTES: usize = 540;

/// Seeds that found a bug once, one per line; `#` starts a remark.
const KNOWN_SEEDS: &str = include_str!("seeds.txt");

/// Runs one seed. A failing run is shrunk before it is reported.
fn run_seed(seed: u64, options: RunOptions) -> Result<Tally, String> {
    let bytes = bytes_from_seed(seed, RUN_BYTES);
    match run(&bytes, options) {
        Ok(mut outcome) => {
            outcome.tally.insert("operations", outcome.operations as u64);
            Ok(outcome.tally)
        }
        Err(violation) => {
            let report = match shrink(&bytes, options) {
                Some(shrunk) => format!("{}\nthe shortest run with it: {:?}", shrunk.violation, shrunk.bytes),
                None => violation.to_string(),
            };
            Err(format!("seed {seed}: {report}\nadd the seed to tests/it/seeds.txt"))
        }
    }
}

#[test]
fn seeds_that_once_found_a_bug_find_none() {
    let seeds = KNOWN_SEEDS.lines().filter_map(|line| {
        let seed = line.split('#').next().unwrap_or_default().trim();
        (!seed.is_empty()).then(|| seed.parse::<u64>().expect("a seed is a number"))
    });
    for seed in seeds {
        run_seed(seed, RunOptions::default()).unwrap_or_else(|report| panic!("{report}"));
    }
}

#[test]
fn plain_seeds_find_no_violation() {
    let seeds = seeds();
    let tally = run_seeds(seeds, RunOptions::default());
    check_variety(&tally, seeds, VARIETY);
}

/// Clients of a terminal have the same text and agree about its claim; a process gets the input of clients that hold or
/// share it, and ends with it (TRM-02, TRM-05, TRM-06, TRM-10, TRM-18).
#[test]
fn trm02_trm05_trm06_trm10_trm18_clients_of_terminals_agree() {
    let plain = RunOptions {
        terminals: true,
        ..RunOptions::default()
    };
    let restarts = RunOptions {
        terminals: true,
        ..RESTARTS
    };
    let runs = seeds() / 8;
    let tally = run_seeds(runs, plain);
    check_variety(&tally, runs, VARIETY_OF_TERMINALS);
    run_seeds(seeds() / 40, restarts);
}

/// After any crash, everything that was confirmed is there, nothing runs twice, and every client converges (P1, P4, P5,
/// P6).
#[test]
fn p1_p4_p5_p6_hosts_that_crash_and_restart_lose_nothing() {
    // Each takes ten times as long as one of the others.
    let seeds = seeds() / 10;
    let tally = run_seeds(seeds, RESTARTS);
    check_variety(&tally, seeds, VARIETY_OF_RESTARTS);
}

/// Runs in which the host ends and starts again.
const RESTARTS: RunOptions = RunOptions {
    restarts: true,
    ..RunOptions::PLAIN
};

/// Views and annotations converge like every other channel, and nothing is computed for clients that have left (CHG,
/// ANN).
#[test]
fn chg_ann_clients_of_changesets_and_annotations_converge() {
    let plain = RunOptions {
        changes: true,
        ..RunOptions::default()
    };
    let restarts = RunOptions {
        changes: true,
        ..RESTARTS
    };
    for (options, seeds) in [(plain, seeds() / 4), (restarts, seeds() / 20)] {
        let tally = run_seeds(seeds, options);
        check_variety(&tally, seeds, VARIETY_OF_CHANGES);
    }
}

/// The same for views and annotations.
const VARIETY_OF_CHANGES: &[(&str, u64)] = &[
    ("views computed", 200),
    ("operations invoked", 100),
    ("reviews", 100),
    ("annotations", 500),
];

/// Order, timeouts and persistence follow the monotonic clock, and every client converges, also after a restart (P15).
#[test]
fn f8_p15_hosts_converge_while_their_wall_clock_is_set() {
    let plain = RunOptions {
        jumps: true,
        ..RunOptions::default()
    };
    let restarts = RunOptions {
        jumps: true,
        ..RESTARTS
    };
    for (options, seeds) in [(plain, seeds() / 10), (restarts, seeds() / 40)] {
        let tally = run_seeds(seeds, options);
        let set = tally.get("clocks set").copied().unwrap_or_default();
        assert!(set >= seeds, "the clock is hardly ever set: {set} times");
    }
}

fn run_seeds(seeds: u64, options: RunOptions) -> Tally {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicU64::new(0);
    let failed = AtomicBool::new(false);
    let (tally, reports) = (Mutex::new(Tally::new()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut mine = Tally::new();
                while !failed.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds {
                        break;
                    }
                    match run_seed(seed, options) {
                        Ok(happened) => add(&mut mine, happened),
                        Err(report) => {
                            failed.store(true, Ordering::Relaxed);
                            reports.lock().expect("no thread panics while holding it").push(report);
                        }
                    }
                }
                add(&mut tally.lock().expect("no thread panics while holding it"), mine);
            });
        }
    });
    let reports = reports.into_inner().expect("no thread panics while holding it");
    assert!(reports.is_empty(), "{}", reports.join("\n\n"));
    let tally = tally.into_inner().expect("no thread panics while holding it");
    println!("{seeds} seeds: {tally:#?}");
    tally
}

fn add(tally: &mut Tally, more: Tally) {
    for (what, times) in more {
        *tally.entry(what).or_default() += times;
    }
}

/// How often things happen in a thousand runs, at least.
const VARIETY: &[(&str, u64)] = &[
    ("replays", 300),
    ("empty replays", 100),
    ("resyncs", 150),
    ("fresh starts after a refused reconnect", 0),
    ("turns started", 1000),
    ("turns cancelled", 200),
    ("turns ended for silence", 10),
    ("merged actions", 500),
    ("echoes", 2000),
    ("refusals", 2000),
    ("no-op echoes", 100),
    ("approvals", 100),
    ("automatic approvals", 20),
    ("answers", 50),
    ("steering messages", 10),
    ("tokens", 1),
    ("client calls completed", 50),
    ("plain chats", 200),
    ("forks", 30),
    ("side chats", 50),
    ("chats disposed of", 30),
    ("pages of turns", 200),
    ("subagents", 50),
    ("chats moved", 20),
    ("chats moved out", 15),
    ("chats opened again", 50),
    ("reports", 500),
    ("switches", 200),
    ("servers", 150),
    ("demands of servers", 30),
];

/// The same where there are terminals.
const VARIETY_OF_TERMINALS: &[(&str, u64)] = &[
    ("processes", 1000),
    ("ends of processes", 50),
    ("terminals disposed of", 50),
    ("reports of terminals", 1000),
    ("merged actions", 200),
    ("refusals", 500),
];

/// The same where hosts die all the time.
const VARIETY_OF_RESTARTS: &[(&str, u64)] = &[
    ("crashes", 2000),
    ("restarts", 500),
    ("storage failures", 200),
    ("replays", 500),
    ("empty replays", 500),
    ("resyncs", 500),
    ("turns started", 2000),
    ("echoes", 500),
    ("approvals", 4),
    ("forks", 50),
    ("pages of turns", 100),
    ("chats moved", 10),
    ("chats opened again", 50),
    ("reports", 300),
    ("switches", 50),
];

/// An operation that never happens is not tested.
fn check_variety(tally: &Tally, seeds: u64, variety: &[(&str, u64)]) {
    for (what, per_thousand) in variety {
        let least = per_thousand * seeds / 1000;
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
fn a_run_depends_on_its_bytes_alone() {
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
