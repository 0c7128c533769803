//! Customizations end to end: the real program, real files, and the published client, whose mirror must equal a fresh
//! snapshot.
//!
//! `dNN` names an edge case of the loading profile, other names requirements.

mod client_servers;
mod clients;
mod command;
mod enablement;
mod files;
mod locations;
mod reading;
mod saving;
mod support;
