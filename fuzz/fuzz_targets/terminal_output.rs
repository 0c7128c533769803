//! Any bytes as the output of a terminal. Run with `cargo +nightly fuzz run terminal_output`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| innkeeper_terminals::fuzzing::output(bytes));
