//! The writer thread: takes queued batches, applies them in one transaction and acknowledges them.

pub(crate) mod apply;
pub(crate) mod channel_cache;
mod checkpoint;
pub(crate) mod compact;
pub(crate) mod deleted;
mod remove;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use innkeeper_core::Seq;
use innkeeper_core::records::{ImportedSession, Record};
use innkeeper_host::journal::{JournalError, Lease, RESERVED};
use rusqlite::Connection;

use self::apply::GroupWriter;
use self::channel_cache::ChannelCache;
use self::checkpoint::Checkpoints;
use crate::archive::{export, import};
use crate::connection::{Location, OpenedFile, now_ms};
use crate::error::{ErrorKind, StoreError};
use crate::options::Options;
use crate::queue::{Group, Queue, Work, WriterCommand};
use crate::reader;
use crate::rows::HostRow;

/// Number of sequence numbers per reservation (P5).
const RESERVATION_BLOCK: u64 = 2 * RESERVED;

/// Pause after a compaction step, and the interval of checks when there is nothing to compact.
const COMPACTION_STEP_INTERVAL: Duration = Duration::from_millis(100);
const IDLE_COMPACTION_INTERVAL: Duration = Duration::from_secs(30);

/// State of the writer thread.
#[derive(Debug)]
pub(crate) struct Writer {
    location: Location,
    options: Options,
    queue: Arc<Queue>,
    /// The open file. After a failure it stays open, but nothing is written.
    open: Option<OpenStore>,
    failure: Option<JournalError>,
}

/// The open file.
#[derive(Debug)]
struct OpenStore {
    conn: Connection,
    file: OpenedFile,
    /// Keeps the index of the write-ahead log alive while `conn` is reopened. Without it, SQLite would recover the
    /// log and could apply frames that a failed sync left there.
    anchor: Connection,
    host: HostRow,
    cache: ChannelCache,
    checkpoints: Checkpoints,
    full_sync: bool,
    /// When the oldest commit was made that a power cut would lose.
    unsynced_since: Option<Instant>,
    compact_at: Option<Instant>,
}

impl Writer {
    pub(crate) fn new(location: Location, options: Options, queue: Arc<Queue>) -> Self {
        Self {
            location,
            options,
            queue,
            open: None,
            failure: None,
        }
    }

    /// Runs until the journal is dropped.
    pub(crate) fn run(mut self) {
        loop {
            match self.queue.take(self.deadline()) {
                Work::Group(group) => self.group(group),
                Work::Command(command) => self.run_command(command),
                Work::Nothing => {}
                Work::Close => break,
            }
            self.run_maintenance();
        }
        self.close();
    }

    fn deadline(&self) -> Option<Instant> {
        if self.failure.is_some() {
            return None;
        }
        let open = self.open.as_ref()?;
        let sync = open.unsynced_since.map(|since| since + self.options.sync_within);
        [sync, open.compact_at, open.checkpoints.due()]
            .into_iter()
            .flatten()
            .min()
    }

    fn group(&mut self, group: Group) {
        let Some(open) = self.open.as_mut().filter(|_| self.failure.is_none()) else {
            let failure = self.failure.clone().unwrap_or_else(crate::queue::writer_gone);
            return self.queue.failed(Some(group), &failure);
        };
        // Documents are encoded here. A panic must not end the thread, because the host would wait forever.
        let written = catch_unwind(AssertUnwindSafe(|| open.write(&group, &self.options)))
            .unwrap_or_else(|_| Err(apply::refused("a document could not be encoded")));
        match written {
            Ok(()) => {
                let reserved = open.host.reserved.0;
                self.queue.committed(group, reserved);
            }
            Err(error) => self.fail(Some(group), error),
        }
    }

    /// Stops writing until [`WriterCommand::Revive`] succeeds (F6, F7).
    fn fail(&mut self, group: Option<Group>, error: StoreError) {
        tracing::error!(%error, "cannot persist sessions; the host is read-only until it can");
        let failure = JournalError::from(error);
        if let Some(open) = &mut self.open {
            if !open.conn.is_autocommit() {
                // SQLite may have rolled back already.
                let _ = open.conn.execute_batch("ROLLBACK");
            }
            open.cache.reset();
            if let Ok(host) = HostRow::read(&open.conn) {
                // Reserved sequence numbers stay reserved.
                let reserved = open.host.reserved.max(host.reserved);
                open.host = HostRow { reserved, ..host };
            }
        }
        self.queue.failed(group, &failure);
        self.failure = Some(failure);
    }

    fn run_command(&mut self, command: WriterCommand) {
        // The caller may have stopped waiting.
        match command {
            WriterCommand::Open(reply) => drop(reply.send(self.open_or_reopen().map_err(Into::into))),
            WriterCommand::Flush(reply) => drop(reply.send(self.flush())),
            WriterCommand::Revive(reply) => drop(reply.send(self.revive())),
            WriterCommand::Import(export, reply) => drop(reply.send(self.change(|open| open.import(&export)))),
            WriterCommand::UndoDeletion(uri, reply) => {
                drop(reply.send(self.change(|open| open.transact(|writer| writer.undo_deletion(&uri)))));
            }
            WriterCommand::PurgeDeleted(before_ms, reply) => {
                drop(reply.send(self.change(|open| open.transact(|writer| writer.purge_deleted(before_ms)))));
            }
            WriterCommand::Settle(reply) => drop(reply.send(self.settle())),
        }
    }

    fn open_or_reopen(&mut self) -> Result<Lease, StoreError> {
        if let Some(open) = &mut self.open {
            if self.failure.is_some() {
                let mut lease = reader::lease(&open.anchor, self.options.clients)?;
                lease.last_seq = lease.last_seq.max(open.host.reserved);
                return Ok(lease);
            }
            let error = match open.lease(&self.options, &self.queue) {
                Ok(lease) => return Ok(lease),
                Err(error) => error,
            };
            // Without a reservation nothing can be written, but the data can be read.
            let mut lease = reader::lease(&open.anchor, self.options.clients)?;
            lease.last_seq = lease.last_seq.max(open.host.reserved);
            self.fail(None, error);
            return Ok(lease);
        }
        let conn = self.location.open_for_writing(false)?;
        let host = HostRow::read(&conn)?;
        self.location.quick_check_if_small(&conn, &host)?;
        let mut open = OpenStore {
            file: OpenedFile::new(&self.location),
            anchor: self.location.open_for_reading()?,
            host,
            cache: ChannelCache::new(self.options.replay.channel_bytes),
            checkpoints: Checkpoints::new(self.location.clone()),
            full_sync: true,
            unsynced_since: None,
            compact_at: Some(Instant::now() + COMPACTION_STEP_INTERVAL),
            conn,
        };
        let lease = open.lease(&self.options, &self.queue)?;
        self.open = Some(open);
        self.failure = None;
        Ok(lease)
    }

    fn flush(&mut self) -> Result<(), JournalError> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        let Some(open) = self.open.as_mut() else { return Ok(()) };
        if open.unsynced_since.is_none() {
            return Ok(());
        }
        if let Err(error) = open.sync() {
            self.fail(None, error);
            return self.failure.clone().map_or(Ok(()), Err);
        }
        self.queue.synced();
        Ok(())
    }

    fn revive(&mut self) -> Result<(), JournalError> {
        let Some(open) = self.open.as_mut() else {
            return Err(JournalError::Failed("the journal has not been opened".into()));
        };
        if self.failure.is_none() {
            return Ok(());
        }
        match open.revive(&self.location) {
            Ok(()) => {
                self.failure = None;
                self.queue.opened(open.host.reserved.0);
                tracing::info!("sessions can be persisted again");
                Ok(())
            }
            Err(error) => {
                let failure = JournalError::from(error);
                self.failure = Some(failure.clone());
                Err(failure)
            }
        }
    }

    /// Applies a change that is not part of a batch. A refused change has no effect.
    fn change<T>(&mut self, work: impl FnOnce(&mut OpenStore) -> Result<T, StoreError>) -> Result<T, JournalError> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        let Some(open) = self.open.as_mut() else {
            return Err(crate::queue::writer_gone());
        };
        match work(open) {
            Ok(done) => {
                self.queue.opened(open.host.reserved.0);
                Ok(done)
            }
            Err(error) if error.kind == ErrorKind::Refused => Err(error.into()),
            Err(error) => {
                self.fail(None, error.clone());
                Err(error.into())
            }
        }
    }

    fn settle(&mut self) -> Result<(), JournalError> {
        loop {
            let Some(open) = self.open.as_mut().filter(|_| self.failure.is_none()) else {
                return self.failure.clone().map_or(Ok(()), Err);
            };
            match open.compact(&self.options) {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                Err(error) => self.fail(None, error),
            }
        }
    }

    /// Runs due maintenance.
    fn run_maintenance(&mut self) {
        let Some(open) = self.open.as_mut().filter(|_| self.failure.is_none()) else {
            return;
        };
        let now = Instant::now();
        let is_due = |since: Option<Instant>| since.is_some_and(|moment| moment <= now);
        let mut done = Ok(());
        if is_due(open.unsynced_since.map(|since| since + self.options.sync_within)) {
            done = open.sync().map(|()| self.queue.synced());
        }
        if done.is_ok() && is_due(open.compact_at) {
            done = open.compact(&self.options).map(|_| ());
        }
        if done.is_ok() {
            done = open.checkpoints.run_due(&open.conn);
        }
        if let Err(error) = done {
            self.fail(None, error);
        }
    }

    /// Marks the shutdown as clean.
    fn close(mut self) {
        self.queue.failed(None, &crate::queue::writer_gone());
        let Some(open) = self.open.as_mut().filter(|_| self.failure.is_none()) else {
            return;
        };
        open.host.ended_well = true;
        let closed = open.sync().and_then(|()| open.checkpoints.finish(&open.conn));
        if let Err(error) = closed {
            tracing::warn!(%error, "the session file was not closed cleanly; nothing is lost");
        }
    }
}

impl OpenStore {
    /// Returns the lease and reserves the next sequence numbers before any of them can be used.
    fn lease(&mut self, options: &Options, queue: &Queue) -> Result<Lease, StoreError> {
        let mut lease = reader::lease(&self.conn, options.clients)?;
        let last = self.host.reserved.max(lease.last_seq);
        lease.last_seq = last;
        let host = HostRow {
            reserved: Seq(last.0.saturating_add(RESERVATION_BLOCK)),
            ended_well: false,
            ..self.host
        };
        self.set_full_sync(true)?;
        host.write(&self.conn)?;
        self.host = host;
        self.unsynced_since = None;
        queue.opened(host.reserved.0);
        Ok(lease)
    }

    /// Writes a group in one transaction.
    fn write(&mut self, group: &Group, options: &Options) -> Result<(), StoreError> {
        self.file.ensure_in_place()?;
        self.set_full_sync(group.is_durable)?;
        self.conn.execute_batch("BEGIN IMMEDIATE")?;
        let mut clients_changed = false;
        let mut writer = GroupWriter::new(&self.conn, &mut self.cache, &mut self.host, now_ms());
        for batch in &group.batches {
            for record in &batch.records {
                clients_changed |= matches!(record, Record::Client { .. });
                writer.record(record)?;
            }
            writer.host.kept = writer.host.kept.max(batch.seq);
        }
        if writer.host.kept.0.saturating_add(RESERVED) > writer.host.reserved.0 && group.is_durable {
            writer.host.reserved = Seq(writer.host.kept.0.saturating_add(RESERVATION_BLOCK));
        }
        writer.finish()?;
        let written = writer.written;
        if clients_changed {
            compact::forget_clients(&self.conn, options.clients)?;
        }
        self.conn.execute_batch("COMMIT")?;
        self.checkpoints.wrote(written);
        self.committed(group.is_durable);
        Ok(())
    }

    /// Runs work in one durable transaction, or rolls it back.
    fn transact<T>(
        &mut self,
        work: impl FnOnce(&mut GroupWriter<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.file.ensure_in_place()?;
        self.set_full_sync(true)?;
        let before = self.host;
        self.conn.execute_batch("BEGIN IMMEDIATE")?;
        let mut writer = GroupWriter::new(&self.conn, &mut self.cache, &mut self.host, now_ms());
        let done = work(&mut writer).and_then(|done| writer.finish().map(|()| done));
        match done {
            Ok(done) => {
                self.conn.execute_batch("COMMIT")?;
                self.committed(true);
                Ok(done)
            }
            Err(error) => {
                self.conn.execute_batch("ROLLBACK")?;
                self.cache.reset();
                self.host = before;
                Err(error)
            }
        }
    }

    /// Imports a session in one durable transaction and reserves the sequence numbers after its own.
    fn import(&mut self, export: &str) -> Result<ImportedSession, StoreError> {
        let (imported, summary) = self.transact(|writer| {
            let imported = import::import(writer, &mut export.as_bytes())?;
            let next = Seq(imported.last_seq.0.saturating_add(RESERVATION_BLOCK));
            writer.host.reserved = writer.host.reserved.max(next);
            writer.finish()?;
            let (summary, _) = export::summary(writer.conn, &imported.uri)?;
            Ok((imported, summary.body))
        })?;
        self.checkpoints.wrote(export.len());
        Ok(ImportedSession {
            uri: imported.uri,
            chats: imported.chats,
            turns: imported.turns,
            at_rest: imported.at_rest,
            last_seq: imported.last_seq,
            summary: summary.into(),
            approvals: imported.approvals,
        })
    }

    /// Makes all commits durable.
    fn sync(&mut self) -> Result<(), StoreError> {
        self.set_full_sync(true)?;
        // SQLite skips unchanged pages, and without a change there is no commit.
        self.host.syncs = self.host.syncs.wrapping_add(1);
        self.host.write(&self.conn)?;
        self.checkpoints.wrote(0);
        self.committed(true);
        Ok(())
    }

    /// Runs one compaction step. Returns true if there may be more to do.
    fn compact(&mut self, options: &Options) -> Result<bool, StoreError> {
        let now = now_ms();
        if !compact::is_due(&self.conn, &self.cache, &self.host, &options.replay, now)? {
            self.compact_at = Some(Instant::now() + IDLE_COMPACTION_INTERVAL);
            return Ok(false);
        }
        self.set_full_sync(false)?;
        self.conn.execute_batch("BEGIN IMMEDIATE")?;
        let more = compact::step(&self.conn, &mut self.cache, &mut self.host, &options.replay, now)?;
        self.conn.execute_batch("COMMIT")?;
        self.checkpoints.wrote(0);
        self.committed(false);
        self.compact_at = Some(
            Instant::now()
                + if more {
                    COMPACTION_STEP_INTERVAL
                } else {
                    IDLE_COMPACTION_INTERVAL
                },
        );
        Ok(more)
    }

    fn committed(&mut self, is_synced: bool) {
        if is_synced {
            self.unsynced_since = None;
            return;
        }
        let now = Instant::now();
        self.unsynced_since.get_or_insert(now);
        let soon = now + COMPACTION_STEP_INTERVAL;
        self.compact_at = Some(self.compact_at.map_or(soon, |at| at.min(soon)));
    }

    /// Selects whether the next commit is synced.
    fn set_full_sync(&mut self, full_sync: bool) -> Result<(), StoreError> {
        if self.full_sync != full_sync {
            self.conn
                .pragma_update(None, "synchronous", if full_sync { "FULL" } else { "NORMAL" })?;
            self.full_sync = full_sync;
        }
        Ok(())
    }

    /// Recovers from a failure: checkpoints all commits and truncates the write-ahead log, so that nothing of the
    /// failed writes remains, and then writes a row as a probe.
    fn revive(&mut self, location: &Location) -> Result<(), StoreError> {
        self.checkpoints.join_thread();
        self.file.ensure_in_place()?;
        // Close the old connection first, so that its locks are released.
        self.conn = Connection::open_in_memory()?;
        let conn = location.open_for_writing(false)?;
        checkpoint::truncate(&conn)?;
        self.conn = conn;
        self.full_sync = true;
        self.cache.reset();
        let host = HostRow::read(&self.conn)?;
        self.host = HostRow {
            reserved: self.host.reserved.max(host.reserved),
            ended_well: false,
            ..host
        };
        self.sync()
    }
}
