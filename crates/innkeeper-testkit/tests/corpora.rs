//! The committed inputs of the fuzz targets, replayed.

use std::path::{Path, PathBuf};

use innkeeper_testkit::fuzzing;

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

fn replay(target: &str, body: fn(&[u8])) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut inputs: Vec<PathBuf> = std::fs::read_dir(&directory)
        .expect("the corpus is committed")
        .map(|entry| entry.expect("a readable directory").path())
        .collect();
    inputs.sort();
    assert!(inputs.len() >= LEAST, "{} has only {} inputs", directory.display(), inputs.len());
    for input in inputs {
        println!("{}", input.display());
        body(&std::fs::read(&input).expect("a readable input"));
    }
}
