//! The engine with real processes and real HTTP on loopback: servers that behave, and servers that do not.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test with a line number")]

mod http;
mod lifecycle;
mod logs;
mod many_servers;
mod pool;
mod presence;
mod questions;
mod real;
mod sign_in;
mod stdio;
mod support;

/// Not a scenario: the misbehaving server itself, when this program is started as one.
#[test]
fn odd_server() {
    innkeeper_testkit::misbehaving_server::serve_if_asked();
}
