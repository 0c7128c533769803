//! Agents that Innkeeper brings along.
//!
//! [`model`] is a coding agent on top of any model API: `model/api.rs` says what a conversation with
//! a model is, whoever serves it; the providers speak it over the wire. [`tools`] are what such an
//! agent can do on the machine it runs on, within the directories of its session.

#![warn(missing_docs)]

pub mod model;
pub mod tools;
