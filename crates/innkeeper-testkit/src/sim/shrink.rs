//! The shortest run that still goes wrong, so that a failure can be read.

use crate::sim::{RunOptions, Violation, run};

/// Most runs spent on making one shorter.
const MAX_RUNS: usize = 3000;

/// A run that goes wrong and has little else in it.
#[derive(Debug, Clone)]
pub struct Shrunk {
    /// Its decisions.
    pub bytes: Vec<u8>,
    /// The violation, with the trace of the run.
    pub violation: Violation,
}

/// Shortens a run that goes wrong; one that does not is returned as nothing.
pub fn shrink(bytes: &[u8], options: RunOptions) -> Option<Shrunk> {
    let violation = run(bytes, options).err()?;
    let mut best = Shrunk {
        bytes: bytes.to_vec(),
        violation,
    };
    let mut left = MAX_RUNS;
    let mut chunk = best.bytes.len().div_ceil(2).max(1);
    loop {
        let before = best.bytes.len();
        // From the end, because what comes after the failure is never needed.
        let mut end = best.bytes.len();
        while end > 0 && left > 0 {
            left -= 1;
            let start = end.saturating_sub(chunk);
            let mut shorter = best.bytes.clone();
            shorter.drain(start..end.min(shorter.len()));
            if let Err(violation) = run(&shorter, options) {
                best = Shrunk {
                    bytes: shorter,
                    violation,
                };
            }
            end = start.min(best.bytes.len());
        }
        if left == 0 || chunk == 1 && best.bytes.len() == before {
            return Some(best);
        }
        chunk = (chunk / 2).max(1);
    }
}
