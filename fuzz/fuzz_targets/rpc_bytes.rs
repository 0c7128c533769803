//! Raw bytes into the framing. Run with `cargo +nightly fuzz run rpc_bytes`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| innkeeper_testkit::fuzzing::rpc_bytes(bytes));
