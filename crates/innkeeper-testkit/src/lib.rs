//! Simulator, seeded bugs and fuzz bodies for Innkeeper.

#![warn(missing_docs)]

pub mod mutation;
pub mod sim;

pub use sim::Sim;
