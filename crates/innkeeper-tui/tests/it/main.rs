//! The screen without a terminal and without a host: events go in, frames and effects come out.

mod approvals;
mod changes;
mod connection;
mod hostile;
mod screens;
mod sessions;
mod streaming;
mod support;
