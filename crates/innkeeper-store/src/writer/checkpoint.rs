//! Checkpoints: moves the write-ahead log into the file, beside the writer.
//!
//! A separate thread moves most of it while the writer continues. The writer moves the small rest itself, after it
//! has acknowledged everything. Then SQLite restarts the log, and it does not grow.

use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rusqlite::Connection;

use crate::connection::Location;
use crate::error::{ErrorKind, StoreError};

/// Log size that starts a checkpoint.
const CHECKPOINT_BYTES: usize = 8 << 20;

/// Log size at which the writer waits for the checkpoint.
const MAX_WAL_BYTES: usize = 64 << 20;

/// Overhead of a transaction in the log, which contains whole pages.
const TRANSACTION_OVERHEAD: usize = 16 << 10;

/// Idle time after which the log is truncated.
const IDLE_TIME: Duration = Duration::from_secs(2);

/// State of the write-ahead log.
#[derive(Debug)]
pub(crate) struct Checkpoints {
    location: Location,
    /// Approximate size of the log.
    bytes: usize,
    idle_at: Option<Instant>,
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    thread: JoinHandle<()>,
    result: Receiver<Result<(), StoreError>>,
}

impl Checkpoints {
    pub(crate) fn new(location: Location) -> Self {
        Self {
            location,
            bytes: 0,
            idle_at: None,
            running: None,
        }
    }

    /// Records a commit.
    pub(crate) fn wrote(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes).saturating_add(TRANSACTION_OVERHEAD);
        self.idle_at = Some(Instant::now() + IDLE_TIME);
    }

    /// Returns when to check again.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.idle_at
    }

    /// Runs the checkpoint that is due.
    pub(crate) fn run_due(&mut self, conn: &Connection) -> Result<(), StoreError> {
        if let Some(running) = &self.running {
            let finished = match running.result.try_recv() {
                Err(TryRecvError::Empty) if self.bytes < MAX_WAL_BYTES => return Ok(()),
                Err(TryRecvError::Empty) => running.result.recv().unwrap_or(Ok(())),
                Err(TryRecvError::Disconnected) => Ok(()),
                Ok(result) => result,
            };
            self.join_thread();
            finished?;
            self.checkpoint_rest(conn)?;
        } else if self.bytes >= CHECKPOINT_BYTES {
            self.start()?;
        } else if self.idle_at.is_some_and(|at| at <= Instant::now()) {
            self.idle_at = None;
            // Don't wait for a reader; the next idle period comes.
            conn.busy_timeout(Duration::ZERO)?;
            let emptied = truncate(conn);
            conn.busy_timeout(Duration::from_secs(5))?;
            match emptied {
                Ok(()) => self.bytes = 0,
                Err(error) if error.kind == ErrorKind::Busy => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Moves the rest of the log.
    fn checkpoint_rest(&mut self, conn: &Connection) -> Result<(), StoreError> {
        let all = checkpoint(conn, "PASSIVE")?;
        // Frames that a reader needs stay until the next checkpoint.
        self.bytes = if all { 0 } else { CHECKPOINT_BYTES / 2 };
        Ok(())
    }

    /// Runs the last checkpoint when the journal is closed.
    pub(crate) fn finish(&mut self, conn: &Connection) -> Result<(), StoreError> {
        self.join_thread();
        match truncate(conn) {
            Err(error) if error.kind == ErrorKind::Busy => Ok(()),
            result => result,
        }
    }

    /// Joins the thread and ignores its result.
    pub(crate) fn join_thread(&mut self) {
        if let Some(running) = self.running.take() {
            // The writer finds out about every failure itself.
            let _ = running.thread.join();
        }
    }

    fn start(&mut self) -> Result<(), StoreError> {
        let (report, result) = channel();
        let location = self.location.clone();
        let work = move || {
            let moved = location.open_beside().and_then(|conn| checkpoint(&conn, "PASSIVE"));
            // The writer may have stopped waiting.
            let _ = report.send(moved.map(|_| ()));
        };
        let thread = std::thread::Builder::new()
            .name("innkeeper-checkpoint".into())
            .spawn(work)
            .map_err(|error| StoreError::io(&self.location.path, "start a thread for", &error))?;
        self.running = Some(Running { thread, result });
        Ok(())
    }
}

impl Drop for Checkpoints {
    fn drop(&mut self) {
        self.join_thread();
    }
}

/// Moves everything and truncates the log, or fails.
pub(crate) fn truncate(conn: &Connection) -> Result<(), StoreError> {
    if checkpoint(conn, "TRUNCATE")? {
        return Ok(());
    }
    Err(StoreError::new(
        ErrorKind::Busy,
        "the write-ahead log is in use by a reader; try again later",
    ))
}

/// Runs a checkpoint. Returns true if everything was moved.
fn checkpoint(conn: &Connection, mode: &str) -> Result<bool, StoreError> {
    let (is_busy, in_log, moved): (bool, i64, i64) =
        conn.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })?;
    Ok(!is_busy && in_log == moved)
}
