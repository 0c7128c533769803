//! The model agent and its tools, tested through the public API.
//!
//! One executable for all of them: linking takes longer than compiling the tests.

mod customizations;
mod providers;
#[cfg(unix)]
mod tools;
mod tour;
