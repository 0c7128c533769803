//! `innkeeper sessions`: lists, shows, deletes, restores and imports sessions.
//!
//! The commands work through [`SessionBackend`]: a [`Connection`] to a running host, or the store while no host runs.

mod backend;
mod change;
mod choose;
mod contents;
mod delete;
mod export_file;
mod find;
mod import;
mod list;
mod rename;
mod restore;
mod show;

use crate::connection::Connection;

pub use backend::{DeletedSession, Deletion, IfUnchanged, ImportedSession, RestoredSession, SessionBackend};
pub use change::{archive, rename as change_title};
pub use choose::choose as choose_session;
pub use contents::{ContentsLine, ExportedContent, LeftOut, NO_ROOM};
pub use delete::run as delete;
pub use import::{ImportSource, already_exists, run as import};
pub use list::run as list;
pub use restore::run as restore;
pub use show::run as show;

pub(crate) use backend::dispose;
pub(crate) use find::{find, find_named, latest_here};
pub(crate) use list::all_sessions;
