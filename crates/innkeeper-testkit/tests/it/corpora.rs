//! The committed inputs of the fuzz targets, replayed.

use std::path::{Path, PathBuf};

use innkeeper_testkit::fuzzing;
use innkeeper_testkit::sim::{Choices, bytes_from_seed};

/// Fewest inputs a corpus has.
const LEAST: usize = 30;

#[test]
fn rpc_bytes_survives_its_corpus() {
    replay("rpc_bytes", fuzzing::rpc_bytes);
}

#[test]
fn core_ops_survives_its_corpus() {
    replay("core_ops", fuzzing::core_ops);
}

#[test]
fn dialects_up_survives_its_corpus() {
    replay("dialects_up", fuzzing::dialects_up);
}

#[test]
fn rpc_bytes_survives_mutilated_inputs() {
    replay_mutilated("rpc_bytes", fuzzing::rpc_bytes, 200);
}

#[test]
fn dialects_up_survives_mutilated_inputs() {
    replay_mutilated("dialects_up", fuzzing::dialects_up, 50);
}

/// Stable Rust has no libFuzzer; this is a small share of what it does, in every test run.
fn replay_mutilated(target: &str, body: fn(&[u8]), rounds: u64) {
    for (number, input) in inputs(target).into_iter().enumerate() {
        let original = std::fs::read(&input).expect("a readable input");
        for round in 0..rounds {
            let seed = bytes_from_seed(number as u64 * 1000 + round, 32);
            let mut choices = Choices::new(&seed);
            let mut bytes = original.clone();
            for _ in 0..=choices.below(4) {
                mutilate(&mut bytes, &mut choices);
            }
            body(&bytes);
        }
    }
}

fn mutilate(bytes: &mut Vec<u8>, choices: &mut Choices<'_>) {
    let at = (choices.below(256) * 256 + choices.below(256)) % (bytes.len() + 1);
    match choices.below(4) {
        0 => bytes.insert(at, b"{}[]\",:\\0-e.u"[choices.below(13)]),
        1 => bytes.truncate(at),
        2 => bytes.extend_from_within(at..),
        _ => match bytes.get_mut(at) {
            Some(byte) => *byte ^= 1 << choices.below(8),
            None => bytes.push(b' '),
        },
    }
}

fn replay(target: &str, body: fn(&[u8])) {
    for input in inputs(target) {
        println!("{}", input.display());
        body(&std::fs::read(&input).expect("a readable input"));
    }
}

fn inputs(target: &str) -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/corpus")
        .join(target);
    let mut inputs: Vec<PathBuf> = std::fs::read_dir(&directory)
        .expect("the corpus is committed")
        .map(|entry| entry.expect("a readable directory").path())
        .collect();
    inputs.sort();
    assert!(
        inputs.len() >= LEAST,
        "{} has only {} inputs",
        directory.display(),
        inputs.len()
    );
    inputs
}
