//! An SQLite VFS that records disk operations and injects faults.
//!
//! A [`Disk`] is an SQLite VFS that wraps the default one for the files of one directory. It
//! - **records** all operations, so that a power cut or a killed process can be replayed at any
//!   point of a run: call [`Disk::recording`], then [`Recording::power_cut`] or
//!   [`Recording::kill`], then open the [`Image`] with the program under test;
//! - **injects faults**: errors at a chosen operation ([`Disk::fail_nth`]), a full disk
//!   ([`Disk::capacity`]), a read-only one ([`Disk::read_only`]), flipped bits ([`Disk::flip_bit`]),
//!   one that ignores syncs ([`Disk::ignore_syncs`]), and one that is gone ([`Disk::stop`]).
//!
//! ```
//! # let directory = tempfile::tempdir().unwrap();
//! use innkeeper_faults::{Disk, Random};
//! use rusqlite::{Connection, OpenFlags};
//!
//! let disk = Disk::install(directory.path());
//! let file = directory.path().join("a.db");
//! let connection = Connection::open_with_flags_and_vfs(&file, OpenFlags::default(), disk.vfs()).unwrap();
//! connection.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE t (n); INSERT INTO t VALUES (1);").unwrap();
//!
//! let recording = disk.recording();
//! let image = recording.power_cut(recording.len(), &mut Random::new(7));
//! # let elsewhere = tempfile::tempdir().unwrap();
//! image.write_to(elsewhere.path()).unwrap();
//! // Open `elsewhere/a.db` without a VFS, and look.
//! ```
//!
//! # What a power cut does
//!
//! - Everything written to a file before its last completed sync survives.
//! - Of later writes, each piece within one 512-byte sector survives or is lost independently:
//!   writes are torn and reordered. If the file grew nevertheless, a lost piece beyond its old end
//!   reads as zeros or noise. A later truncation happened or did not. Bytes that were not written
//!   do not change, which SQLite requires (`SQLITE_IOCAP_POWERSAFE_OVERWRITE`).
//! - Creations and deletions since the last sync of the directory survive or are lost
//!   independently. The directory is synced when the default VFS does it: at the first sync of a
//!   rollback journal or WAL after it was opened for creation, and by a delete that asks for it.
//!   Syncing a file does not make its name durable.
//! - The shared memory of a WAL (`-shm`) is always lost: SQLite rebuilds it.
//!
//! Nothing is really synced while a disk is recorded. It would slow down the tests and prove
//! nothing, because the machine does not lose power.

#![warn(missing_docs)]

mod disk;
mod image;
mod plan;
mod random;
mod recording;
mod vfs;

pub use disk::Disk;
pub use image::Image;
pub use plan::{Counts, Fault, Op};
pub use random::Random;
pub use recording::Recording;
