//! What can go wrong with the file, in words for people.

use std::path::Path;

use innkeeper_host::JournalError;
use rusqlite::ErrorCode;

/// What kind of trouble it is, for those who act on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The file, or the session asked for, does not exist.
    NotFound,
    /// The file belongs to something else. It was not touched.
    Foreign,
    /// A newer version wrote the file. It was not touched.
    Newer,
    /// What was kept cannot be read back as it was written.
    Damaged,
    /// There is no room left.
    Full,
    /// Somebody else uses the file.
    Busy,
    /// What was asked for cannot be done with what was given.
    Refused,
    /// The storage failed in some other way.
    Io,
}

/// The store could not do what it was asked to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct StoreError {
    /// What kind of trouble it is.
    pub kind: ErrorKind,
    /// What happened, what it means and what to do.
    pub message: String,
}

/// What to do about damage, said the same way everywhere.
pub(crate) const DOCTOR_HINT: &str = "`innkeeper doctor` says what is affected and what can be done";

impl StoreError {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
        }
    }

    /// Damage to something that has a name.
    pub(crate) fn damaged(what: impl std::fmt::Display) -> Self {
        Self::new(
            ErrorKind::Damaged,
            format!("{what} is damaged: it cannot be read back as it was written. It is left as it is; {DOCTOR_HINT}"),
        )
    }

    pub(crate) fn io(path: &Path, doing: &str, error: &std::io::Error) -> Self {
        let kind = match error.kind() {
            std::io::ErrorKind::NotFound => ErrorKind::NotFound,
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => ErrorKind::Full,
            _ => ErrorKind::Io,
        };
        Self::new(kind, format!("cannot {doing} {}: {error}", path.display()))
    }
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        let kind = match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => ErrorKind::Full,
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => ErrorKind::Damaged,
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => ErrorKind::Busy,
            Some(_) => ErrorKind::Io,
            // A value of a type that the schema does not allow: only damage puts it there.
            None => match error {
                rusqlite::Error::FromSqlConversionFailure(..)
                | rusqlite::Error::IntegralValueOutOfRange(..)
                | rusqlite::Error::Utf8Error(..)
                | rusqlite::Error::InvalidColumnType(..)
                | rusqlite::Error::QueryReturnedNoRows => ErrorKind::Damaged,
                _ => ErrorKind::Io,
            },
        };
        let message = match kind {
            ErrorKind::Full => {
                "there is no room left on the disk that keeps the sessions: nothing more can be kept until some is freed"
                    .into()
            }
            ErrorKind::Damaged => format!("the file that keeps the sessions is damaged ({error}); {DOCTOR_HINT}"),
            ErrorKind::Busy => "somebody else is writing to the file that keeps the sessions; try again later".into(),
            // The number says which of many operations failed; the words of SQLite alone do not.
            _ => match error.sqlite_extended_error_code() {
                Some(code) => format!("the storage that keeps the sessions failed: {error} (SQLite error {code})"),
                None => format!("the storage that keeps the sessions failed: {error}"),
            },
        };
        Self { kind, message }
    }
}

impl From<StoreError> for JournalError {
    fn from(error: StoreError) -> Self {
        match error.kind {
            ErrorKind::Full => Self::Full(error.message),
            ErrorKind::Damaged => Self::Damaged(error.message),
            ErrorKind::NotFound
            | ErrorKind::Foreign
            | ErrorKind::Newer
            | ErrorKind::Busy
            | ErrorKind::Refused
            | ErrorKind::Io => Self::Failed(error.message),
        }
    }
}
