//! The ACP agent of Innkeeper: editors that speak the Agent Client Protocol (ACP) open, list, load and continue the
//! sessions of a host, while other clients watch and answer in the same sessions.
//!
//! It is an ordinary AHP client. [`run`] serves one editor on standard input and output, or several over WebSocket; each
//! has an `Editor`, which takes the editor's messages and the news of the host, and a connection of its own.
//! `to_editor` and `from_editor` are the two directions of the mapping between the protocols, without any IO.

pub mod args;

mod editor;
mod from_editor;
mod listen;
mod options;
mod questions;
mod run;
mod to_editor;

pub use run::run;
