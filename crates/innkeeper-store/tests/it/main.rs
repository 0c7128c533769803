//! The store, from outside.

#![expect(
    clippy::unwrap_used,
    reason = "a failed unwrap in a test is a failed test with a line number"
)]

mod archive;
mod conformance;
mod damage;
mod disks;
mod files;
mod power;
mod writing;
