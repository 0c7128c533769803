//! Journals on a failing disk and on an ordinary one.

use std::path::PathBuf;
use std::sync::Arc;

use innkeeper_core::records::{
    Batch, DeletedSession, ImportedSession, ListPage, StoredSession, StoredSummary, TurnSource,
};
use innkeeper_faults::{Disk, Fault, Image, Op, Random};
use innkeeper_host::async_trait;
use innkeeper_host::journal::{Appended, Journal, JournalError, Lease};
use innkeeper_store::{FILE_NAME, Options, SqliteJournal};
use innkeeper_testkit::journal::{Storage, StorageFailure};
use tempfile::TempDir;

/// A directory on a disk that fails on request. It exists as long as it is used.
#[derive(Clone)]
pub struct FaultyStorage {
    pub disk: Arc<Disk>,
    pub directory: Arc<TempDir>,
    pub options: Options,
}

impl FaultyStorage {
    pub fn new() -> Self {
        Self::with(tempfile::tempdir().expect("a directory"), Options::default())
    }

    pub fn with(directory: TempDir, options: Options) -> Self {
        Self {
            disk: Arc::new(Disk::install(directory.path())),
            directory: Arc::new(directory),
            options,
        }
    }

    /// Copies the remaining files to another disk.
    pub fn from_image(image: &Image, options: Options) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        image.write_to(directory.path()).expect("the image is written");
        Self::with(directory, options)
    }

    pub fn file(&self) -> PathBuf {
        self.directory.path().join(FILE_NAME)
    }

    pub fn sqlite(&self) -> SqliteJournal {
        let options = Options {
            vfs: Some(self.disk.vfs().to_owned()),
            ..self.options.clone()
        };
        SqliteJournal::new(&self.file(), options)
    }
}

#[async_trait]
impl Storage for FaultyStorage {
    fn journal(&self) -> Arc<dyn Journal> {
        Arc::new(JournalWithStorage {
            journal: self.sqlite(),
            _storage: Box::new(self.clone()),
        })
    }

    async fn killed(&self) -> Box<dyn Storage> {
        let recording = self.disk.recording();
        let image = recording.kill(recording.len());
        Box::new(Self::from_image(&image, self.options.clone()))
    }

    async fn without_power(&self) -> Box<dyn Storage> {
        let recording = self.disk.recording();
        let image = recording.power_cut(recording.len(), &mut Random::new(4));
        Box::new(Self::from_image(&image, self.options.clone()))
    }

    fn break_down(&self, trouble: StorageFailure) -> bool {
        match trouble {
            StorageFailure::Full => self.disk.capacity(Some(0)),
            StorageFailure::Broken => self.disk.fail_from(Op::Sync, 1, Fault::Io),
        }
        true
    }

    fn mend(&self) {
        self.disk.clear_faults();
    }
}

/// A journal that owns its storage.
struct JournalWithStorage {
    journal: SqliteJournal,
    _storage: Box<dyn Send + Sync>,
}

#[async_trait]
impl Journal for JournalWithStorage {
    async fn open(&self) -> Result<Lease, JournalError> {
        self.journal.open().await
    }

    fn append(&self, batch: Batch) -> Appended {
        self.journal.append(batch)
    }

    async fn revive(&self) -> Result<(), JournalError> {
        self.journal.revive().await
    }

    async fn flush(&self) -> Result<(), JournalError> {
        self.journal.flush().await
    }

    async fn load(&self, channel: &str) -> Result<Option<StoredSession>, JournalError> {
        self.journal.load(channel).await
    }

    async fn list(&self, page: ListPage) -> Result<Vec<StoredSummary>, JournalError> {
        self.journal.list(page).await
    }

    async fn deleted(&self) -> Result<Vec<DeletedSession>, JournalError> {
        self.journal.deleted().await
    }

    async fn undo_deletion(&self, uri: &str) -> Result<ImportedSession, JournalError> {
        self.journal.undo_deletion(uri).await
    }

    async fn purge_deleted(&self, before_ms: i64) -> Result<Vec<String>, JournalError> {
        self.journal.purge_deleted(before_ms).await
    }

    fn turns(&self) -> Option<Arc<dyn TurnSource>> {
        self.journal.turns()
    }
}

/// An ordinary directory. It exists as long as it is used.
#[derive(Clone)]
pub struct PlainStorage(pub Arc<TempDir>);

impl PlainStorage {
    pub fn new() -> Self {
        Self(Arc::new(tempfile::tempdir().expect("a directory")))
    }

    pub fn file(&self) -> PathBuf {
        self.0.path().join(FILE_NAME)
    }

    pub fn wal(&self) -> PathBuf {
        self.0.path().join(format!("{FILE_NAME}-wal"))
    }

    pub fn sqlite(&self, options: Options) -> SqliteJournal {
        SqliteJournal::new(&self.file(), options)
    }

    /// Copies the files as if the process were killed now. No write may be in progress.
    pub fn copy(&self) -> Self {
        let copy = Self::new();
        for (from, to) in [(self.file(), copy.file()), (self.wal(), copy.wal())] {
            if from.exists() {
                std::fs::copy(from, to).expect("the file is copied");
            }
        }
        copy
    }
}

#[async_trait]
impl Storage for PlainStorage {
    fn journal(&self) -> Arc<dyn Journal> {
        Arc::new(JournalWithStorage {
            journal: self.sqlite(Options::default()),
            _storage: Box::new(self.clone()),
        })
    }

    async fn killed(&self) -> Box<dyn Storage> {
        Box::new(self.copy())
    }
}
