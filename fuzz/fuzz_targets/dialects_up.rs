//! Messages of clients into the translation. Run with `cargo +nightly fuzz run dialects_up`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| innkeeper_testkit::fuzzing::dialects_up(bytes));
