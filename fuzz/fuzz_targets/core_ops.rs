//! Operation sequences into the core. Run with `cargo +nightly fuzz run core_ops`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| innkeeper_testkit::fuzzing::core_ops(bytes));
