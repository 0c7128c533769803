//! Additions to the standard library that several crates of Innkeeper share.
//!
//! Several crates run programs of users and touch files of users, and may not use one another. They share
//! this crate. It knows nothing of the host, of sessions or of the protocol.
//!
//! - **Processes** (feature `processes`). A [`Group`] ends together with every process that it started. Its
//!   environment has the variables that programs need and no secret ([`needed_variables`], T15), and its files get
//!   the permissions of the user's files ([`with_umask`]).
//! - **Files** (feature `files`). A [`ConfinedRoot`] is opened once, and no path below it leads outside. A path is
//!   resolved once ([`ConfinedPath`]), and its last name is never followed after that. A file appears complete or not
//!   at all ([`TempEntry`]), and replaces another one only on request ([`rename_to_free`]). [`remove_all`] removes trees
//!   of any depth. With the feature `walk`, [`Walk`] visits the files that Git does not ignore.
//! - **Watches** (feature `watch`): one `DirectoryWatcher` for many directories.
//! - **Server-sent events** ([`event_stream`]) with a bound on each.
//! - **Locks** ([`sync`]) that a panic does not poison.
//! - **Texts** ([`text`]) shortened at a character boundary, and output of terminals as [`PlainText`].
//!
//! # Example
//!
//! ```
//! # #[cfg(all(unix, feature = "processes"))]
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> std::io::Result<()> {
//! use innkeeper_std::{Group, with_umask};
//!
//! let mut line = with_umask(0o022, ["sh", "-c", "sleep 1000 & exit 3"].map(Into::into)).into_iter();
//! let mut group = Group::start(line.next().unwrap_or_default(), |command| {
//!     command.args(line);
//! })?;
//! // The shell has ended; what it left running ends with the group.
//! assert_eq!(group.wait().await?.code(), Some(3));
//! group.kill();
//! # Ok(())
//! # }
//! # #[cfg(not(all(unix, feature = "processes")))]
//! # fn main() {}
//! ```

#![warn(missing_docs)]

pub mod event_stream;
#[cfg(feature = "files")]
mod files;
mod plain_text;
#[cfg(feature = "processes")]
mod processes;
pub mod sync;
pub mod text;
#[cfg(feature = "watch")]
pub mod watch;

#[cfg(feature = "walk")]
pub use files::walk::{IgnoreFiles, Walk, WalkEnd, WalkedFile};
#[cfg(feature = "files")]
pub use files::{
    confined::{ConfinedPath, ConfinedRoot, ExactError, TargetError, open_descendant, real_path},
    create::{create_directories, create_directory},
    follow::{FollowedPath, canonical_prefix, follow},
    open::{Opened, do_not_wait, open_child, open_regular, read_whole},
    remove::remove_all,
    resolve::{leads_outside, or_dot, without_links},
    temp_entry::{TEMP_PREFIX, TempEntry, rename_to_free},
};
pub use plain_text::PlainText;
#[cfg(feature = "processes")]
pub use processes::{
    environment::needed_variables,
    group::{DRAIN_TIME, Group},
    umask::{is_kept_by_shells, with_umask},
};
