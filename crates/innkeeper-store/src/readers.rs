//! Connections and threads for reading, which never block the writer.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use bytes::Bytes;
use innkeeper_core::records::TurnSource;
use innkeeper_std::sync::Mutex;
use rusqlite::Connection;

use crate::connection::Location;
use crate::error::StoreError;
use crate::queue::Queue;
use crate::reader;

/// Maximum number of idle connections.
const MAX_IDLE: usize = 4;

/// Number of threads for asynchronous reads.
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

    /// Reads with a connection of the pool. Blocks.
    pub(crate) fn read<T>(&self, work: impl FnOnce(&Connection) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let idle = self.lock().pop();
        let conn = match idle {
            Some(conn) => conn,
            None => self.location.open_for_reading()?,
        };
        let result = work(&conn);
        // After an error the state of a connection is unknown, so it is closed.
        if result.is_ok() && conn.is_autocommit() {
            let mut idle = self.lock();
            if idle.len() < MAX_IDLE {
                idle.push(conn);
            }
        }
        result
    }

    /// Closes the idle connections.
    pub(crate) fn close(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> innkeeper_std::sync::MutexGuard<'_, Vec<Connection>> {
        self.idle.lock()
    }
}

type Job = Box<dyn FnOnce(&ReadConnections) + Send>;

/// Threads that run reads.
pub(crate) struct ReaderThreads {
    /// Dropped first, which ends the threads.
    jobs: Option<Sender<Job>>,
    threads: Vec<JoinHandle<()>>,
}

impl fmt::Debug for ReaderThreads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReaderThreads")
    }
}

impl ReaderThreads {
    /// Starts the threads. Dropping the value joins them.
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

    /// Queues a job.
    pub(crate) fn run(&self, job: impl FnOnce(&ReadConnections) + Send + 'static) {
        // The threads live as long as this value. Dropping a job notifies its caller.
        if let Some(jobs) = &self.jobs {
            let _ = jobs.send(Box::new(job));
        }
    }
}

impl Drop for ReaderThreads {
    fn drop(&mut self) {
        self.jobs = None;
        for thread in self.threads.drain(..) {
            // A panic was already reported.
            let _ = thread.join();
        }
    }
}

fn next(work: &Mutex<Receiver<Job>>) -> Option<Job> {
    work.lock().recv().ok()
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
