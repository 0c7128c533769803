//! Recognises and opens the data file.

use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

use innkeeper_core::Seq;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::error::{DOCTOR_HINT, ErrorKind, StoreError};
use crate::rows::HostRow;
use crate::schema;

/// How long to wait for a short-lived lock of another connection.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum size of a file that is checked at start after an unclean shutdown.
const MAX_QUICK_CHECK_BYTES: i64 = 16 << 20;

/// Maximum size of an idle write-ahead log on disk.
const MAX_IDLE_WAL_BYTES: i64 = 16 << 20;

/// Page cache of the writer, in KiB.
const WRITER_CACHE_KIB: i64 = 16 << 10;

/// Path of the file and the VFS to open it with.
#[derive(Debug, Clone)]
pub(crate) struct Location {
    pub(crate) path: PathBuf,
    pub(crate) vfs: Option<String>,
}

impl Location {
    /// Opens the file for writing, and creates or migrates it if necessary. Leaves files of other programs and of
    /// newer versions untouched.
    pub(crate) fn open_for_writing(&self, exclusive: bool) -> Result<Connection, StoreError> {
        self.check_header()?;
        if self.vfs.is_none() {
            self.create_private()?;
        }
        let mut conn = self.connect(OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE)?;
        // Until the file is known to be ours, closing the connection must not change it either.
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        conn.busy_timeout(if exclusive { Duration::ZERO } else { LOCK_TIMEOUT })?;
        if exclusive {
            conn.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
        }
        let is_new = self.identify(&conn)?;
        conn.pragma_update(None, "foreign_keys", true)?;
        conn.pragma_update(None, "temp_store", "MEMORY")?;
        conn.pragma_update(None, "cell_size_check", true)?;
        // In KiB. A large group should not spill to disk before it is committed.
        conn.pragma_update(None, "cache_size", -WRITER_CACHE_KIB)?;
        conn.pragma_update(None, "synchronous", "FULL")?;
        if is_new {
            // No auto_vacuum: free pages are reused, and moving pages to shrink the file would slow down every
            // transaction.
            schema::create(&mut conn, first_seq())?;
        }
        conn.pragma_update(None, "journal_mode", "WAL")?;
        conn.pragma_update(None, "wal_autocheckpoint", 0)?;
        conn.pragma_update(None, "journal_size_limit", MAX_IDLE_WAL_BYTES)?;
        schema::migrate(&mut conn)?;
        conn.set_prepared_statement_cache_capacity(64);
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)?;
        Ok(conn)
    }

    /// Opens a second connection for a checkpoint. The file is known to be ours.
    pub(crate) fn open_beside(&self) -> Result<Connection, StoreError> {
        let conn = self.connect(OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        conn.busy_timeout(LOCK_TIMEOUT)?;
        conn.pragma_update(None, "wal_autocheckpoint", 0)?;
        Ok(conn)
    }

    /// Opens the file for reading. It must exist and must not be of a newer version.
    pub(crate) fn open_for_reading(&self) -> Result<Connection, StoreError> {
        self.check_header()?;
        if self.vfs.is_none() && !self.path.exists() {
            return Err(StoreError::new(
                ErrorKind::NotFound,
                format!(
                    "there are no persisted sessions: {} does not exist",
                    self.path.display()
                ),
            ));
        }
        let conn = self.connect(OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        conn.busy_timeout(LOCK_TIMEOUT)?;
        if self.identify(&conn)? {
            return Err(StoreError::new(
                ErrorKind::NotFound,
                format!("{} is empty: no host has persisted anything there", self.path.display()),
            ));
        }
        conn.pragma_update(None, "cell_size_check", true)?;
        conn.pragma_update(None, "temp_store", "MEMORY")?;
        conn.set_prepared_statement_cache_capacity(64);
        Ok(conn)
    }

    /// Checks a small file after an unclean shutdown. A large file is left to the row checksums, so that a start
    /// never waits for a scan (F17, F18).
    pub(crate) fn quick_check_if_small(&self, conn: &Connection, host: &HostRow) -> Result<(), StoreError> {
        let pages: i64 = conn.pragma_query_value(None, "page_count", |row| row.get(0))?;
        let page_size: i64 = conn.pragma_query_value(None, "page_size", |row| row.get(0))?;
        if host.ended_well || pages.saturating_mul(page_size) > MAX_QUICK_CHECK_BYTES {
            return Ok(());
        }
        let verdict: String = conn.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
        if verdict == "ok" {
            return Ok(());
        }
        Err(self.damaged(&verdict))
    }

    /// An error about a damaged file.
    pub(crate) fn damaged(&self, how: &str) -> StoreError {
        StoreError::new(
            ErrorKind::Damaged,
            format!(
                "{} is damaged ({how}). It was not changed; {DOCTOR_HINT}",
                self.path.display()
            ),
        )
    }

    fn connect(&self, flags: OpenFlags) -> Result<Connection, StoreError> {
        let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let opened = match &self.vfs {
            Some(vfs) => Connection::open_with_flags_and_vfs(&self.path, flags, vfs.as_str()),
            None => Connection::open_with_flags(&self.path, flags),
        };
        opened.map_err(|error| self.named(error))
    }

    /// Adds the path to an SQLite error.
    fn named(&self, error: rusqlite::Error) -> StoreError {
        let error = StoreError::from(error);
        StoreError::new(error.kind, format!("{}: {}", self.path.display(), error.message))
    }

    /// Checks the file header without SQLite, which could change the file.
    fn check_header(&self) -> Result<(), StoreError> {
        if self.vfs.is_some() {
            return Ok(());
        }
        let mut head = Vec::with_capacity(HEADER_LEN);
        match std::fs::File::open(&self.path) {
            Ok(file) => file
                .take(HEADER_LEN as u64)
                .read_to_end(&mut head)
                .map_err(|error| StoreError::io(&self.path, "read", &error))?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(StoreError::io(&self.path, "read", &error)),
        };
        if head.is_empty() {
            return Ok(());
        }
        // A crash during creation may leave partial content with a rollback journal, with which SQLite empties the
        // file again (F5).
        let unfinished = std::fs::metadata(self.sibling("-journal")).is_ok_and(|journal| journal.len() > 0);
        let number_at = |start: usize| {
            let bytes = head.get(start..start + 4)?;
            Some(i32::from_be_bytes(bytes.try_into().ok()?))
        };
        let (true, Some(version), Some(application)) =
            (head.starts_with(b"SQLite format 3\0"), number_at(60), number_at(68))
        else {
            return if unfinished {
                Ok(())
            } else {
                Err(self.foreign("it is not an SQLite database"))
            };
        };
        if application != schema::APPLICATION_ID && !(application == 0 && unfinished) {
            return Err(self.foreign("it is the database of another program"));
        }
        if version > schema::VERSION {
            return Err(self.newer(version));
        }
        Ok(())
    }

    /// Checks the application id and the version. Returns true for a new file.
    fn identify(&self, conn: &Connection) -> Result<bool, StoreError> {
        let number = |name: &str| {
            conn.pragma_query_value(None, name, |row| row.get::<_, i32>(0))
                .map_err(|error| self.named(error))
        };
        let (application, version) = (number("application_id")?, number("user_version")?);
        if application == schema::APPLICATION_ID {
            return if version > schema::VERSION {
                Err(self.newer(version))
            } else {
                Ok(false)
            };
        }
        let tables: i64 = conn
            .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
            .map_err(|error| self.named(error))?;
        if application == 0 && version == 0 && tables == 0 {
            return Ok(true);
        }
        Err(self.foreign("it is the database of another program"))
    }

    fn foreign(&self, why: &str) -> StoreError {
        StoreError::new(
            ErrorKind::Foreign,
            format!(
                "{} was not written by innkeeper: {why}. It was not changed; move it away, or use another data directory",
                self.path.display()
            ),
        )
    }

    fn newer(&self, version: i32) -> StoreError {
        let error = schema::unknown_version(version);
        StoreError::new(error.kind, format!("{}: {}", self.path.display(), error.message))
    }

    /// Returns the path of a companion file such as the write-ahead log.
    pub(crate) fn sibling(&self, suffix: &str) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(suffix);
        name.into()
    }

    /// Creates the file with mode 0600, because conversations are private. SQLite gives companion files the same
    /// mode.
    fn create_private(&self) -> Result<(), StoreError> {
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options
            .open(&self.path)
            .map_err(|error| StoreError::io(&self.path, "write to", &error))?;
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = std::fs::Permissions::from_mode(0o600);
            file.set_permissions(mode)
                .map_err(|error| StoreError::io(&self.path, "change the mode of", &error))?;
        }
        drop(file);
        Ok(())
    }
}

/// Identity of the opened file. SQLite would keep writing to a file that was unlinked (F19).
#[derive(Debug)]
pub(crate) struct OpenedFile {
    path: PathBuf,
    identity: Option<(u64, u64)>,
}

impl OpenedFile {
    pub(crate) fn new(location: &Location) -> Self {
        Self {
            path: location.path.clone(),
            identity: if location.vfs.is_none() {
                identity(&location.path)
            } else {
                None
            },
        }
    }

    /// Fails if the file was removed or replaced.
    pub(crate) fn ensure_in_place(&self) -> Result<(), StoreError> {
        if self.identity.is_none() || self.identity == identity(&self.path) {
            return Ok(());
        }
        Err(StoreError::new(
            ErrorKind::NotFound,
            format!(
                "{} was removed or replaced while the host uses it; nothing more can be persisted. Restore it, or restart the host",
                self.path.display()
            ),
        ))
    }
}

#[cfg(unix)]
fn identity(path: &std::path::Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.dev(), metadata.ino()))
}

#[cfg(not(unix))]
fn identity(_: &std::path::Path) -> Option<(u64, u64)> {
    None
}

/// Length of an SQLite header.
const HEADER_LEN: usize = 100;

/// First sequence number of a new file: the wall clock in microseconds, as for an ephemeral host. So numbers do not
/// go backwards if a data directory is lost, or if a host starts to persist (P5).
fn first_seq() -> Seq {
    Seq(u64::try_from(jiff::Timestamp::now().as_microsecond()).unwrap_or_default())
}

/// The wall clock, in milliseconds since 1970.
pub(crate) fn now_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}
