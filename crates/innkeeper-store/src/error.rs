//! Errors of the store, with messages for users.

use std::path::Path;

use innkeeper_host::journal::JournalError;
use rusqlite::ErrorCode;

/// Kind of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The file or the session does not exist.
    NotFound,
    /// The file belongs to another program. It was not changed.
    Foreign,
    /// A newer version wrote the file. It was not changed.
    Newer,
    /// Stored data is damaged.
    Damaged,
    /// The disk is full.
    Full,
    /// Another process uses the file.
    Busy,
    /// The request is invalid for the stored data.
    Refused,
    /// Any other storage failure.
    Io,
}

/// An error of the store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct StoreError {
    /// Kind of the error.
    pub kind: ErrorKind,
    /// Message for the user: cause, consequence and remedy.
    pub message: String,
}

/// Advice for all damage errors.
pub(crate) const DOCTOR_HINT: &str = "run `innkeeper doctor` to see what is affected and what to do";

impl StoreError {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
        }
    }

    /// Damage of a named item.
    pub(crate) fn damaged(what: impl std::fmt::Display) -> Self {
        Self::new(
            ErrorKind::Damaged,
            format!("{what} is damaged and cannot be read. It was not changed; {DOCTOR_HINT}"),
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
            // A value of a type that the schema does not allow can only result from damage.
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
                "the disk with the sessions is full; nothing more can be persisted until space is freed".into()
            }
            ErrorKind::Damaged => format!("the session file is damaged ({error}); {DOCTOR_HINT}"),
            ErrorKind::Busy => "another process is writing to the session file; try again later".into(),
            // The extended code identifies the failed operation; SQLite's message alone does not.
            _ => match error.sqlite_extended_error_code() {
                Some(code) => format!("the session storage failed: {error} (SQLite error {code})"),
                None => format!("the session storage failed: {error}"),
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
