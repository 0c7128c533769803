//! Who reads: a few connections of their own, which never hold up the writer.

use std::fmt;
use std::ops::Range;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use bytes::Bytes;
use innkeeper_core::stored::TurnSource;
use rusqlite::Connection;

use crate::connection::Location;
use crate::error::StoreError;
use crate::queue::Queue;
use crate::reader;

/// How many connections are kept open between uses.
const MAX_IDLE: usize = 4;

/// How many threads look things up for those who cannot block.
const READER_THREADS: usize = 2;

/// Connections for reading.
#[derive(Debug)]
pub(crate) struct ReadConnections {
    location: Location,
    idle: Mutex<Vec<Connection>>,
}

impl ReadConnections {
    pub(crate) fn new(location: Location) -> Self {
        Self {
            location,
            idle: Mutex::default(),
        }
    }

    /// Reads with a connection of its own. Blocks.
    pub(crate) fn read<T>(&self, work: impl FnOnce(&Connection) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let idle = self.lock().pop();
        let conn = match idle {
            Some(conn) => conn,
            None => self.location.open_for_reading()?,
        };
        let result = work(&conn);
        // One that met an error may be in any state, so it is closed.
        if result.is_ok() && conn.is_autocommit() {
            let mut idle = self.lock();
            if idle.len() < MAX_IDLE {
                idle.push(conn);
            }
        }
        result
    }

    /// Closes what is not in use.
    pub(crate) fn close(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

type Job = Box<dyn FnOnce(&ReadConnections) + Send>;

/// Threads that look things up.
pub(crate) struct ReaderThreads {
    /// Taken when this is dropped, which ends the threads.
    jobs: Option<Sender<Job>>,
    threads: Vec<JoinHandle<()>>,
}

impl fmt::Debug for ReaderThreads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReaderThreads")
    }
}

impl ReaderThreads {
    /// Starts the threads. Dropping this waits until they have ended.
    pub(crate) fn start(readers: &Arc<ReadConnections>) -> std::io::Result<Self> {
        let (jobs, work) = channel::<Job>();
        let work = Arc::new(Mutex::new(work));
        let mut reader_threads = Self {
            jobs: Some(jobs),
            threads: Vec::with_capacity(READER_THREADS),
        };
        for _ in 0..READER_THREADS {
            let (readers, work) = (Arc::clone(readers), Arc::clone(&work));
            let thread = std::thread::Builder::new()
                .name("innkeeper-reader".into())
                .spawn(move || {
                    while let Some(job) = next(&work) {
                        job(&readers);
                    }
                })?;
            reader_threads.threads.push(thread);
        }
        Ok(reader_threads)
    }

    /// Hands a job to a thread.
    pub(crate) fn run(&self, job: impl FnOnce(&ReadConnections) + Send + 'static) {
        // The threads live as long as this does; a job that is dropped tells whoever waits for it.
        if let Some(jobs) = &self.jobs {
            let _ = jobs.send(Box::new(job));
        }
    }
}

impl Drop for ReaderThreads {
    fn drop(&mut self) {
        self.jobs = None;
        for thread in self.threads.drain(..) {
            // One that panicked has said so already.
            let _ = thread.join();
        }
    }
}

fn next(work: &Mutex<Receiver<Job>>) -> Option<Job> {
    work.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
}

/// Reads turns that are not in memory.
#[derive(Debug)]
pub(crate) struct TurnReader {
    pub(crate) readers: Arc<ReadConnections>,
    pub(crate) queue: Arc<Queue>,
}

impl TurnSource for TurnReader {
    fn read(&self, chat: &str, range: Range<usize>) -> Result<Vec<Bytes>, String> {
        self.queue.wait_until_caught_up();
        self.readers
            .read(|conn| reader::turns(conn, chat, range))
            .map_err(|error| error.message)
    }

    fn position(&self, chat: &str, turn_id: &str) -> Result<Option<usize>, String> {
        self.queue.wait_until_caught_up();
        self.readers
            .read(|conn| reader::position(conn, chat, turn_id))
            .map_err(|error| error.message)
    }
}
