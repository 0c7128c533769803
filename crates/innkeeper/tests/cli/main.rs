//! Drives the built program from outside: its output, its files, its exit codes.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test with a line number")]

mod clients;
mod doctor;
mod pending;
mod sessions;
mod startup;
mod stopping;
mod support;
