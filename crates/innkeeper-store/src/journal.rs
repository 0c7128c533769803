//! The journal of a running host.

use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use async_trait::async_trait;
use innkeeper_core::records::{
    Batch, DeletedSession, ImportedSession, ListPage, StoredSession, StoredSummary, TurnSource,
};
use innkeeper_host::journal::{Appended, Journal, JournalError, Lease};
use innkeeper_std::sync::Mutex;
use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::connection::Location;
use crate::error::StoreError;
use crate::options::Options;
use crate::queue::{Queue, WriterCommand, writer_gone};
use crate::reader::{self, RecentTurns};
use crate::readers::{ReadConnections, ReaderThreads, TurnReader};
use crate::writer::{Writer, deleted};

/// A [`Journal`] in one SQLite file.
///
/// One thread writes. It takes all waiting batches, writes them in one transaction and then acknowledges them, so
/// that many clients share the cost of a sync. Other threads read.
///
/// Dropping the journal blocks until everything that was appended is durable and the file is closed.
#[derive(Debug)]
pub struct SqliteJournal {
    location: Location,
    options: Options,
    queue: Arc<Queue>,
    readers: Arc<ReadConnections>,
    threads: Mutex<Option<Threads>>,
}

#[derive(Debug)]
struct Threads {
    writer: JoinHandle<()>,
    reader_threads: ReaderThreads,
}

impl SqliteJournal {
    /// Creates a journal for the file at a path. Nothing is read or written before [`Journal::open`].
    pub fn new(path: &Path, options: Options) -> Self {
        let location = Location {
            path: path.into(),
            vfs: options.vfs.clone(),
        };
        Self {
            queue: Arc::new(Queue::new(&options)),
            readers: Arc::new(ReadConnections::new(location.clone())),
            location,
            options,
            threads: Mutex::default(),
        }
    }

    /// Resolves when there is nothing left to compact.
    #[doc(hidden)]
    pub async fn settle(&self) -> Result<(), JournalError> {
        self.ask(WriterCommand::Settle).await
    }

    /// Returns the bytes that wait to be written and the age of the oldest batch that a power cut would lose. For
    /// benchmarks.
    #[doc(hidden)]
    pub fn backlog(&self) -> (usize, std::time::Duration) {
        self.queue.backlog()
    }

    /// Starts the threads, once.
    fn start(&self) -> std::io::Result<()> {
        let mut threads = self.threads.lock();
        if threads.is_some() {
            return Ok(());
        }
        let writer = Writer::new(self.location.clone(), self.options.clone(), Arc::clone(&self.queue));
        *threads = Some(Threads {
            reader_threads: ReaderThreads::start(&self.readers)?,
            writer: std::thread::Builder::new()
                .name("innkeeper-writer".into())
                .spawn(move || writer.run())?,
        });
        Ok(())
    }

    /// Sends the writer a command and waits for its reply.
    async fn ask<T>(
        &self,
        command: impl FnOnce(oneshot::Sender<Result<T, JournalError>>) -> WriterCommand,
    ) -> Result<T, JournalError> {
        self.start()
            .map_err(|error| StoreError::io(&self.location.path, "start a thread for", &error))?;
        let (reply, answer) = oneshot::channel();
        self.queue.command(command(reply));
        answer.await.unwrap_or_else(|_| Err(writer_gone()))
    }

    /// Reads on a reader thread, after everything that was appended before.
    async fn run_read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, JournalError> {
        self.start()
            .map_err(|error| StoreError::io(&self.location.path, "start a thread for", &error))?;
        if let Some(caught_up) = self.queue.caught_up() {
            // A lost batch is reported to its own caller.
            let _ = caught_up.await;
        }
        let (reply, answer) = oneshot::channel();
        {
            let threads = self.threads.lock();
            let Some(threads) = &*threads else {
                return Err(writer_gone());
            };
            threads.reader_threads.run(move |readers| {
                // The caller may have stopped waiting.
                let _ = reply.send(readers.read(work));
            });
        }
        Ok(answer.await.map_err(|_| writer_gone())??)
    }
}

#[async_trait]
impl Journal for SqliteJournal {
    /// Creates or migrates the file if necessary, and reserves sequence numbers before it returns.
    ///
    /// Called again after a failure, it returns what can be read, although nothing can be reserved then. The host
    /// continues with the numbers it has: all of them are below the returned [`Lease::last_seq`].
    async fn open(&self) -> Result<Lease, JournalError> {
        self.ask(WriterCommand::Open).await
    }

    fn append(&self, batch: Batch) -> Appended {
        self.queue.append(batch)
    }

    async fn revive(&self) -> Result<(), JournalError> {
        self.ask(WriterCommand::Revive).await
    }

    async fn flush(&self) -> Result<(), JournalError> {
        self.ask(WriterCommand::Flush).await
    }

    async fn load(&self, channel: &str) -> Result<Option<StoredSession>, JournalError> {
        let uri = channel.to_owned();
        let recent = RecentTurns {
            turns: self.options.recent_turns,
            bytes: self.options.recent_bytes,
        };
        self.run_read(move |conn| reader::load_or_deleted(conn, &uri, recent))
            .await
    }

    async fn list(&self, page: ListPage) -> Result<Vec<StoredSummary>, JournalError> {
        self.run_read(move |conn| reader::list(conn, &page)).await
    }

    async fn import(&self, export: String) -> Result<ImportedSession, JournalError> {
        self.ask(|reply| WriterCommand::Import(export, reply)).await
    }

    async fn deleted(&self) -> Result<Vec<DeletedSession>, JournalError> {
        self.run_read(deleted::list).await
    }

    async fn undo_deletion(&self, uri: &str) -> Result<ImportedSession, JournalError> {
        let uri = uri.to_owned();
        self.ask(|reply| WriterCommand::UndoDeletion(uri, reply)).await
    }

    async fn purge_deleted(&self, before_ms: i64) -> Result<Vec<String>, JournalError> {
        self.ask(|reply| WriterCommand::PurgeDeleted(before_ms, reply)).await
    }

    fn turns(&self) -> Option<Arc<dyn TurnSource>> {
        Some(Arc::new(TurnReader {
            readers: Arc::clone(&self.readers),
            queue: Arc::clone(&self.queue),
        }))
    }
}

impl Drop for SqliteJournal {
    fn drop(&mut self) {
        self.queue.close();
        let threads = self.threads.get_mut().take();
        if let Some(Threads { writer, reader_threads }) = threads {
            drop(reader_threads);
            self.readers.close();
            // A panic of the writer was already reported.
            let _ = writer.join();
        }
    }
}
