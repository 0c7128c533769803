//! Clients of random older versions in the simulator: whatever happens, their states equal fresh snapshots.

use innkeeper_testkit::sim::{RunOptions, Tally, TranslationBug, bytes_from_seed, run};

use crate::published;

/// Bytes per seeded run.
const RUN_BYTES: usize = 540;

/// Most seeds that a bug of the translation may need.
const SEEDS_PER_BUG: u64 = 300;

/// Seeds of the simulator. `INNKEEPER_SIM_SEEDS` sets another number, of which these runs take a tenth, because each
/// decodes every message with the types of several versions.
fn seeds() -> u64 {
    let wanted = std::env::var("INNKEEPER_SIM_SEEDS").ok();
    let wanted: Option<u64> = wanted.and_then(|wanted| wanted.parse().ok());
    wanted.unwrap_or(400) / 10
}

const OPTIONS: RunOptions = RunOptions {
    older: &published::ALL,
    changes: true,
    ..RunOptions::PLAIN
};

fn run_seeds(seeds: u64, options: RunOptions) -> Tally {
    let mut tally = Tally::new();
    for seed in 0..seeds {
        let outcome = run(&bytes_from_seed(seed, RUN_BYTES), options);
        let outcome = outcome.unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
        for (what, times) in outcome.tally {
            *tally.entry(what).or_default() += times;
        }
    }
    tally
}

#[test]
fn older_clients_converge_in_random_runs() {
    let seeds = seeds();
    let tally = run_seeds(seeds, OPTIONS);
    for (what, per_seed) in [
        ("connections of older clients", 3),
        ("cuts of older clients", 0),
        ("dispatches of older clients", 1),
        ("states of older clients compared", 10),
        ("operations of older clients", 0),
        ("reviews of older clients", 0),
        ("annotations of older clients", 0),
    ] {
        let times = tally.get(what).copied().unwrap_or_default();
        assert!(times > per_seed * seeds, "{what}: {times} in {seeds} seeds");
    }
}

#[test]
fn older_clients_converge_when_the_host_crashes_and_restarts() {
    let restarts = RunOptions {
        restarts: true,
        ..OPTIONS
    };
    run_seeds(seeds() / 6, restarts);
}

#[test]
fn every_bug_of_the_translation_is_found() {
    for bug in TranslationBug::ALL {
        let options = RunOptions {
            translation_bug: Some(bug),
            ..OPTIONS
        };
        let found = (0..SEEDS_PER_BUG).find_map(|seed| {
            let violation = run(&bytes_from_seed(seed, RUN_BYTES), options).err()?;
            Some((seed + 1, violation.to_string()))
        });
        let (seeds, violation) = found.unwrap_or_else(|| panic!("{bug:?} is not found in {SEEDS_PER_BUG} seeds"));
        println!(
            "{bug:?}: {seeds} seeds: {}",
            violation.lines().next().unwrap_or_default()
        );
    }
}

#[test]
fn a_missing_step_is_found_for_every_version() {
    macro_rules! missing {
        ($($version:ident)+) => {
            [$((published::$version::VERSION, &[published::$version::mirror as innkeeper_testkit::sim::NewOlderMirror])),+]
        };
    }
    for (version, older) in missing! { v0_1 v0_2 v0_3 v0_4 v0_5_0 v0_5_1 v0_5_2 v0_6 v0_7 v0_8 v0_9 } {
        let options = RunOptions {
            older,
            translation_bug: Some(TranslationBug::MissingStep),
            ..RunOptions::PLAIN
        };
        let found = (0..SEEDS_PER_BUG).find(|seed| run(&bytes_from_seed(*seed, RUN_BYTES), options).is_err());
        let seed = found.unwrap_or_else(|| panic!("the missing step to {version} is not found"));
        println!("{version}: {} seeds", seed + 1);
    }
}
