//! What is asked of the operating system with care.
//!
//! Several crates of Innkeeper run programs of people and touch files of people, and may not use one
//! another. What they have in common is here, because it is easy to get almost right:
//!
//! - **A process ends with all that it started** ([`Group`]). It sees of the host's environment what
//!   programs need to run at all and no secret ([`needed_variables`], T15), and its files have the
//!   permissions of people's files and not those of the host's own ([`with_umask`]).
//! - **No link leads away.** A path is resolved once, within an opened directory ([`without_links`]),
//!   and its last name is never followed after that ([`open_regular`]). What is not a regular file is
//!   not waited for.
//! - **A file is there as a whole or not at all** ([`Unnamed`]), and takes the name of another only
//!   where that is meant ([`rename_to_free`]).
//! - **A directory goes with all that is in it** ([`remove_all`]), however deep somebody made it.
//!
//! Nothing here knows of the host, of sessions or of the protocol.
//!
//! # Example
//!
//! ```
//! # #[cfg(unix)]
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> std::io::Result<()> {
//! use innkeeper_os::{Group, with_umask};
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
//! # #[cfg(not(unix))]
//! # fn main() {}
//! ```

#![warn(missing_docs)]

mod files;
mod processes;

pub use files::making::{create_directories, create_directory};
pub use files::opening::{Opened, do_not_wait, open_child, open_regular, read_whole};
pub use files::removing::remove_all;
pub use files::resolving::{leads_outside, or_dot, without_links};
pub use files::unnamed::{UNNAMED, Unnamed, rename_to_free};
pub use processes::environment::needed_variables;
pub use processes::group::{DRAIN_TIME, Group};
pub use processes::umask::{is_kept_by_shells, with_umask};
