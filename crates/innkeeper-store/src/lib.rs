//! Keeps the sessions of a host in SQLite: what was accepted survives.
//!
//! [`SqliteJournal`] is the journal of a running host. One thread writes, in groups; readers have
//! connections of their own and never hold it up. [`Archive`] is the same file without a host, for
//! command-line tools.
//!
//! Follow the data: [`SqliteJournal`] puts a batch into the queue → the writer takes what waits,
//! applies it in one transaction and acknowledges it → readers load sessions and check each row.
//! The tables are described in `schema/1.sql` and `schema/2.sql`.

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
pub use innkeeper_core::request::OnlyIf;
pub use innkeeper_core::stored::{ListPage, StoredSummary};
pub use journal::SqliteJournal;
pub use options::{Options, ReplayLimits};
pub use read_only::ReadOnlyJournal;

/// The name of the data file inside a data directory.
pub const FILE_NAME: &str = "sessions.db";
