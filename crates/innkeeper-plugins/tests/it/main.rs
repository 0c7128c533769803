//! The loader from outside: files in temporary directories go in, trees come out.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test with a line number")]

mod cases;
mod changes;
mod collection;
mod directories;
mod edges;
mod formats;
mod left_out;
mod numbered;
mod properties;
mod support;
mod watched;
mod watched_cases;
mod watching;
