//! Disks that fail on purpose.
//!
//! A [`Disk`] is a VFS of SQLite around the ordinary one. It keeps the files of one directory, and
//! - **records** what is done to them, so that a power cut or the death of the process can be
//!   replayed at any point of a run: [`Disk::recording`], then [`Recording::power_cut`] or
//!   [`Recording::kill`], then open the [`Image`] with whatever is to recover from it;
//! - **injects faults**: errors at a chosen operation ([`Disk::fail_nth`]), a full disk
//!   ([`Disk::capacity`]), a read-only one ([`Disk::read_only`]), flipped bits ([`Disk::flip_bit`]),
//!   one that lies ([`Disk::lie_about_syncs`]), and one that is gone ([`Disk::stop`]).
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
//! - What was written to a file before its last completed sync is there.
//! - Of what was written later, every piece within one sector of 512 bytes is there or is not,
//!   whatever became of the others: writes are torn, and reordered. Where a lost piece lies beyond
//!   the old end of a file that grew all the same, there are zeros or noise. A later truncation
//!   happened or did not. Bytes that nobody wrote to do not change, which SQLite relies upon
//!   (`SQLITE_IOCAP_POWERSAFE_OVERWRITE`).
//! - Files that were created or deleted since the directory was last synced are there or are not,
//!   each by itself. The directory is synced when the ordinary VFS would do it: at the first sync of
//!   a rollback journal or WAL after it was opened for creation, and by a delete that asks for it.
//!   That a file was synced itself says nothing about its name.
//! - The shared memory of a WAL (`-shm`) is never there: SQLite builds it anew.
//!
//! Nothing is really synced while a disk is recorded. It would make the tests slow and prove
//! nothing: the machine does not lose power.

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
