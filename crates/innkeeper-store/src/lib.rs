//! Persists the sessions of a host in SQLite.
//!
//! [`SqliteJournal`] is the journal of a running host. One thread writes in groups; readers have their own
//! connections and never block it. [`Archive`] opens the same file without a host, for command-line tools.
//!
//! ```no_run
//! use std::path::Path;
//!
//! use innkeeper_host::Host;
//! use innkeeper_store::{Options, SqliteJournal};
//!
//! # async fn start() -> Result<(), Box<dyn std::error::Error>> {
//! let journal = SqliteJournal::new(Path::new("sessions.db"), Options::default());
//! let host = Host::builder().journal(journal).start().await?; // with the sessions of earlier runs
//! # drop(host);
//! # Ok(())
//! # }
//! ```
//!
//! Follow the data: [`SqliteJournal`] puts a batch into the queue → the writer takes the waiting batches, applies
//! them in one transaction and acknowledges them → readers load sessions and verify each row. `schema/1.sql` and
//! `schema/2.sql` describe the tables.

#![warn(missing_docs)]

mod archive;
mod checksum;
mod connection;
mod error;
mod journal;
mod options;
mod queue;
mod read_only;
mod reader;
mod readers;
mod rows;
mod schema;
mod writer;

pub use archive::{Archive, Finding, ImportReport, Mode, PrunedSession, RetentionPolicy};
pub use error::{ErrorKind, StoreError};
pub use innkeeper_core::records::{ListPage, StoredSummary};
pub use innkeeper_core::request::OnlyIf;
pub use journal::SqliteJournal;
pub use options::{Options, ReplayLimits};
pub use read_only::ReadOnlyJournal;

/// Name of the data file inside a data directory.
pub const FILE_NAME: &str = "sessions.db";
