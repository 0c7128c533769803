//! Persisted sessions without a running host: the data directory, its store, and changes to them.

use std::io::{BufReader, Read};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use innkeeper_cli::args::CommonArgs;
use innkeeper_cli::discovery::{DataDir, DataDirLock, Endpoint};
use innkeeper_cli::failure::{Failure, Kind};
use innkeeper_cli::sessions::{
    DeletedSession, Deletion, ExportedContent, IfUnchanged, ImportedSession, NO_ROOM, RestoredSession, SessionBackend,
    already_exists,
};
use innkeeper_cli::terminal::warn;
use innkeeper_host::contents::{ContentLimits, Contents as _, content_name};
use innkeeper_host::resources::Content;
use innkeeper_store::{Archive, ErrorKind, FILE_NAME, ListPage, Mode, OnlyIf, StoreError};
use innkeeper_workspace::BlobStore;

use super::files;
use crate::config::ConfigFile;

/// How many sessions are read at a time.
const PAGE: usize = 1000;

/// The data directory of a command and its configuration.
pub(crate) struct Offline {
    /// The directory.
    pub(crate) dir: DataDir,
    /// The configuration.
    pub(crate) config: ConfigFile,
}

impl Offline {
    /// Finds the directory that flags or the configuration name.
    pub(crate) fn find(args: &CommonArgs) -> Result<Self, Failure> {
        let config = ConfigFile::load(args)?;
        // Clients are quiet by default: their own output says what matters.
        crate::logging::start(args.log.as_deref().unwrap_or("off"))?;
        let dir = DataDir::existing(config.data_dir(args)?);
        Ok(Self { dir, config })
    }

    /// Returns whether a host runs on the directory.
    pub(crate) fn has_host(&self) -> bool {
        Endpoint::find(&self.dir).is_some()
    }

    /// Returns whether sessions are persisted in the directory.
    pub(crate) fn has_store(&self) -> bool {
        self.dir.file(FILE_NAME).exists()
    }

    /// Opens the store to read it. A host may run on it.
    pub(crate) fn read(&self) -> Result<Archive, Failure> {
        Archive::open(&self.dir.file(FILE_NAME), Mode::ReadOnly).map_err(store_failure)
    }

    /// Returns the directory with the contents beside sessions.
    pub(crate) fn contents(&self) -> PathBuf {
        self.dir.file(files::CONTENTS)
    }
}

/// The store, opened by a command. While it holds the lock, no host starts on the directory.
pub(crate) struct OfflineSessions {
    data: Offline,
    archive: Archive,
    contents: BlobStore,
    /// `None` if the store was opened to read it.
    _lock: Option<DataDirLock>,
}

impl OfflineSessions {
    /// Opens the store to read it.
    pub(crate) fn read(data: Offline) -> Result<Self, Failure> {
        let archive = data.read()?;
        Ok(Self::new(data, archive, None))
    }

    /// Opens the store to change it.
    pub(crate) fn change(data: Offline) -> Result<Self, Failure> {
        let path = data.dir.file(FILE_NAME);
        if !path.exists() {
            let text = format!("there are no persisted sessions: {} does not exist", path.display());
            return Err(Failure::new(Kind::DataDirectory, text).hint("name the data directory with --data DIR"));
        }
        let lock = data.dir.lock()?;
        let archive = Archive::open(&path, Mode::Exclusive).map_err(store_failure)?;
        Ok(Self::new(data, archive, Some(lock)))
    }

    /// Opens the store to add sessions, and creates the directory and the store if they are missing.
    pub(crate) fn create(data: Offline) -> Result<Self, Failure> {
        let dir = DataDir::prepare(data.dir.path())?;
        let lock = dir.lock()?;
        let archive = Archive::create(&dir.file(FILE_NAME)).map_err(store_failure)?;
        Ok(Self::new(data, archive, Some(lock)))
    }

    fn new(data: Offline, archive: Archive, lock: Option<DataDirLock>) -> Self {
        let limits = data.config.limits();
        let limits = ContentLimits {
            session_bytes: limits.content_session_bytes,
            total_bytes: limits.content_total_bytes,
        };
        let contents = BlobStore::new(data.contents(), limits);
        Self {
            data,
            archive,
            contents,
            _lock: lock,
        }
    }

    /// Removes the files beside the store of a session that is gone for good.
    fn remove_files(&self, uri: &str) {
        for (directory, error) in files::remove(&self.data.dir, uri) {
            let directory = directory.display();
            warn(&format!(
                "files of the removed session are still in {directory} ({error})"
            ));
        }
    }
}

impl SessionBackend for OfflineSessions {
    async fn sessions(&self) -> Result<Vec<String>, Failure> {
        all_sessions(&self.archive)
    }

    async fn deleted_sessions(&self) -> Result<Vec<DeletedSession>, Failure> {
        let undo_ms = i64::try_from(self.data.config.retention.undo_delete_ms()).unwrap_or(i64::MAX);
        let time =
            |ms: i64| jiff::Timestamp::from_millisecond(ms).map_or_else(|_| String::new(), |time| time.to_string());
        let deleted = self.archive.deleted().map_err(store_failure)?.into_iter();
        let deleted = deleted.map(|session| DeletedSession {
            deleted_at: time(session.deleted_ms),
            removed_after: time(session.deleted_ms.saturating_add(undo_ms)),
            summary: serde_json::from_slice(&session.summary).unwrap_or_default(),
            session: session.uri,
        });
        Ok(deleted.collect())
    }

    fn keeps_deleted(&self) -> bool {
        self.data.config.retention.deleted_days != 0
    }

    async fn delete(&mut self, uri: &str, deletion: Deletion) -> Result<(), Failure> {
        match deletion {
            Deletion::Restorable => return self.archive.delete(uri).map(drop).map_err(store_failure),
            Deletion::ForGood => self.archive.remove(uri).map(drop).map_err(store_failure)?,
            Deletion::IfUnchanged(IfUnchanged {
                modified_ms,
                is_archived,
            }) => {
                let only_if = OnlyIf {
                    modified_ms,
                    is_archived,
                };
                self.archive.remove_if(uri, only_if).map(drop).map_err(store_failure)?;
            }
        }
        self.remove_files(uri);
        Ok(())
    }

    async fn restore(&mut self, uri: &str) -> Result<RestoredSession, Failure> {
        let restored = self.archive.undo_deletion(uri).map_err(store_failure)?;
        Ok(RestoredSession {
            chats: restored.chats,
            turns: restored.turns,
        })
    }

    async fn import_session(&mut self, lines: &mut dyn Read) -> Result<ImportedSession, Failure> {
        let imported = self
            .archive
            .import(&mut BufReader::new(lines))
            .map_err(store_failure)
            .map_err(already_exists)?;
        Ok(ImportedSession {
            session: imported.uri,
            chats: imported.chats,
            turns: imported.turns,
            approvals_reset: imported.approvals,
        })
    }

    async fn import_content(&mut self, session: &str, content: ExportedContent) -> Result<(), String> {
        let damaged = "they are damaged";
        let max_bytes = self.data.config.limits().resource_bytes;
        let bytes = STANDARD.decode(&content.data).map_err(|_| damaged)?;
        if bytes.len() > max_bytes {
            return Err(format!("they are larger than the {max_bytes} bytes of resource_bytes"));
        }
        if content_name(&bytes, content.content_type.as_deref()) != content.name {
            return Err(damaged.to_owned());
        }
        let stored_at = SystemTime::UNIX_EPOCH + Duration::from_millis(content.kept_ms);
        let restored = Content {
            bytes,
            content_type: content.content_type,
        };
        match self
            .contents
            .restore(session, &content.name, restored, stored_at)
            .await?
        {
            true => Ok(()),
            false => Err(NO_ROOM.to_owned()),
        }
    }
}

/// Returns the URIs of all persisted sessions, the latest first.
pub(super) fn all_sessions(archive: &Archive) -> Result<Vec<String>, Failure> {
    let mut uris = Vec::new();
    let mut after = None;
    loop {
        let page = ListPage { after, limit: PAGE };
        let found = archive.list(&page).map_err(store_failure)?;
        let is_last = found.len() < PAGE;
        after = found.last().map(|last| (last.modified_ms, last.uri.clone()));
        uris.extend(found.into_iter().map(|session| session.uri));
        if is_last {
            return Ok(uris);
        }
    }
}

/// Turns an error of the store into a failure of this program.
pub(super) fn store_failure(error: StoreError) -> Failure {
    let kind = match error.kind {
        ErrorKind::Refused => Kind::Rejected,
        ErrorKind::Busy => Kind::InUse,
        ErrorKind::NotFound
        | ErrorKind::Foreign
        | ErrorKind::Newer
        | ErrorKind::Damaged
        | ErrorKind::Full
        | ErrorKind::Io => Kind::DataDirectory,
    };
    Failure::new(kind, error.message)
}
