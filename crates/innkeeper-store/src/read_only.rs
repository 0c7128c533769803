//! The journal of an observer host, which reads a file that another process may own.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use innkeeper_core::records::{Batch, DeletedSession, ListPage, StoredSession, StoredSummary, TurnSource};
use innkeeper_host::journal::{Appended, Journal, JournalError, Lease};
use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::connection::Location;
use crate::error::StoreError;
use crate::options::Options;
use crate::queue::writer_gone;
use crate::reader::{self, RecentTurns};
use crate::readers::{ReadConnections, ReaderThreads};
use crate::writer::deleted;

/// A read-only journal. Every read sees the current content of the file.
#[derive(Debug)]
pub struct ReadOnlyJournal {
    readers: Arc<ReadConnections>,
    reader_threads: ReaderThreads,
    recent: RecentTurns,
}

impl ReadOnlyJournal {
    /// Creates a journal for the file at a path, which must exist when the journal is opened.
    pub fn new(path: &Path) -> Result<Self, StoreError> {
        let location = Location {
            path: path.into(),
            vfs: None,
        };
        let readers = Arc::new(ReadConnections::new(location));
        let options = Options::default();
        Ok(Self {
            reader_threads: ReaderThreads::start(&readers)
                .map_err(|error| StoreError::io(path, "start a thread for", &error))?,
            readers,
            recent: RecentTurns {
                turns: options.recent_turns,
                bytes: options.recent_bytes,
            },
        })
    }

    /// Reads on a reader thread.
    async fn run_read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, JournalError> {
        let (reply, answer) = oneshot::channel();
        self.reader_threads.run(move |readers| {
            // The caller may have stopped waiting.
            let _ = reply.send(readers.read(work));
        });
        Ok(answer.await.map_err(|_| writer_gone())??)
    }
}

fn read_only_error() -> JournalError {
    JournalError::Failed("the session file is open read-only".into())
}

#[async_trait]
impl Journal for ReadOnlyJournal {
    /// Returns no clients: the owner's clients reconnect to the owner.
    async fn open(&self) -> Result<Lease, JournalError> {
        self.run_read(|conn| reader::lease(conn, 0)).await
    }

    fn append(&self, _: Batch) -> Appended {
        Box::pin(std::future::ready(Err(read_only_error())))
    }

    async fn revive(&self) -> Result<(), JournalError> {
        Err(read_only_error())
    }

    async fn flush(&self) -> Result<(), JournalError> {
        Ok(())
    }

    async fn load(&self, channel: &str) -> Result<Option<StoredSession>, JournalError> {
        let (uri, recent) = (channel.to_owned(), self.recent);
        self.run_read(move |conn| reader::load_or_deleted(conn, &uri, recent))
            .await
    }

    async fn list(&self, page: ListPage) -> Result<Vec<StoredSummary>, JournalError> {
        self.run_read(move |conn| reader::list(conn, &page)).await
    }

    async fn deleted(&self) -> Result<Vec<DeletedSession>, JournalError> {
        self.run_read(deleted::list).await
    }

    fn turns(&self) -> Option<Arc<dyn TurnSource>> {
        Some(Arc::new(ReadOnlyTurnReader(Arc::clone(&self.readers))))
    }
}

/// Reads turns that are not in memory.
#[derive(Debug)]
struct ReadOnlyTurnReader(Arc<ReadConnections>);

impl TurnSource for ReadOnlyTurnReader {
    fn read(&self, chat: &str, range: Range<usize>) -> Result<Vec<Bytes>, String> {
        self.0
            .read(|conn| reader::turns(conn, chat, range))
            .map_err(|error| error.message)
    }

    fn position(&self, chat: &str, turn_id: &str) -> Result<Option<usize>, String> {
        self.0
            .read(|conn| reader::position(conn, chat, turn_id))
            .map_err(|error| error.message)
    }
}
