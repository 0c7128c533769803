//! The store, tested through its public API.
//!
//! One executable for all of them: linking takes longer than compiling the tests.

#![expect(
    clippy::unwrap_used,
    reason = "a failed unwrap in a test is a failed test with a line number"
)]

mod archive;
mod conformance;
mod damage;
mod disks;
mod fault_injection;
mod files;
mod power;
mod writing;
