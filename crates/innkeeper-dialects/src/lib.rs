//! Translates between AHP 1.0 and every older published version of the protocol.
//!
//! The core speaks 1.0 only. A connection whose client speaks an older version has a [`Translator`] at its edge: JSON in
//! the words of 1.0 goes down a ladder of steps, one per version, until it is in the client's words; JSON of the client
//! goes up the same ladder. A step knows the difference between two neighbouring versions and nothing else, so a new
//! version of the protocol is one more step.
//!
//! Translation is pure: no IO, no clock, no randomness.

#![warn(missing_docs)]

mod action;
mod clients;
mod json;
mod memory;
mod negotiate;
pub mod state;
mod steps;
mod streamed;
mod translator;
mod version;
mod walk;

pub use clients::{KNOWN_CLIENTS, KnownClient, clients_of};
pub use negotiate::{Chosen, Offer, negotiate, supported};
pub use translator::{Translator, Up};
pub use version::Version;
