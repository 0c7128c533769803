//! A journal on a disk that records and fails, and the promises it has made.

use std::path::Path;
use std::time::Duration;

use innkeeper_core::Seq;
use innkeeper_core::records::Batch;
use innkeeper_faults::{Disk, Random};
use innkeeper_host::journal::{Journal, JournalError, Lease, MemoryJournal, RESERVED};
use innkeeper_store::{FILE_NAME, Options, ReplayLimits, SqliteJournal};
use tempfile::TempDir;

use crate::fault_injection::digest::{check_logs, digest};
use crate::fault_injection::workload::Workload;

/// Number of random cuts; a sample by default.
pub fn images() -> usize {
    let images = std::env::var("INNKEEPER_POWER_CUTS").ok();
    images.map_or(60, |images| images.parse().expect("INNKEEPER_POWER_CUTS is a number"))
}

/// A journal on a failing disk.
pub fn journal_on(disk: &Disk, directory: &Path) -> SqliteJournal {
    let options = Options {
        vfs: Some(disk.vfs().to_owned()),
        ..options()
    };
    SqliteJournal::new(&directory.join(FILE_NAME), options)
}

/// A journal on the machine's disk, as a host opens it.
pub fn journal_in(directory: &Path) -> SqliteJournal {
    SqliteJournal::new(&directory.join(FILE_NAME), options())
}

fn options() -> Options {
    Options {
        // Small limits, so that logs are compacted during a test.
        replay: ReplayLimits {
            age: Duration::from_secs(3600),
            channel_bytes: 3_000,
            total_bytes: 20_000,
        },
        gather: Duration::from_millis(1),
        ..Options::default()
    }
}

/// The appended batches, and the expected content after any number of them.
pub struct History {
    pub batches: Vec<Batch>,
    digests: Vec<String>,
    /// The sessions that must be recovered (P4).
    unsettled: Vec<Vec<String>>,
    /// An in-memory journal with the same content.
    model: MemoryJournal,
}

impl History {
    pub async fn new() -> Self {
        let mut history = Self {
            batches: Vec::new(),
            digests: Vec::new(),
            unsettled: Vec::new(),
            model: MemoryJournal::new(),
        };
        history.note().await;
        history
    }

    pub async fn push(&mut self, batch: Batch) {
        self.batches.push(batch.clone());
        self.model.append(batch).await.expect("memory does not fail");
        self.note().await;
    }

    async fn note(&mut self) {
        let lease = self.model.open().await.expect("memory does not fail");
        self.digests.push(digest(&self.model, &lease).await);
        self.unsettled.push(lease.unsettled);
    }

    /// Drops the batches that were not persisted.
    async fn cut(&mut self, batches: usize) {
        let mut kept = Self::new().await;
        for batch in self.batches.drain(..batches) {
            kept.push(batch).await;
        }
        *self = kept;
    }

    /// Checks that a reopened journal has a prefix of the batches and nothing else (P1, F5). Returns its length.
    pub async fn check(&self, journal: &dyn Journal, lease: &Lease, context: &str) -> usize {
        let kept = self
            .batches
            .iter()
            .take_while(|batch| batch.seq <= lease.persisted_seq)
            .count();
        if let Some(last) = self.batches[..kept].last() {
            assert_eq!(
                last.seq, lease.persisted_seq,
                "{context}: persisted_seq is that of a batch"
            );
        }
        assert!(
            lease.last_seq >= lease.persisted_seq,
            "{context}: numbers go on after those kept"
        );
        let found = digest(journal, lease).await;
        let expected = &self.digests[kept];
        if found != *expected {
            let other = self.digests.iter().position(|digest| *digest == found);
            panic!(
                "{context}: {kept} batches are said to be kept, but found is {other:?}\n--- found\n{found}--- expected\n{expected}"
            );
        }
        for session in &self.unsettled[kept] {
            assert!(
                lease.unsettled.contains(session),
                "{context}: {session} is not looked after"
            );
        }
        check_logs(journal, &self.batches[..kept]).await;
        kept
    }
}

/// Promises that hold after a crash at or after a position of the recording.
#[derive(Debug, Clone, Copy)]
pub struct Promise {
    pub position: usize,
    /// This many batches are persisted.
    pub batches: usize,
    /// A later journal starts after this sequence number.
    pub seq: Seq,
}

/// One or more journal instances on one disk.
pub struct Run {
    pub directory: TempDir,
    pub disk: Disk,
    pub journal: SqliteJournal,
    pub workload: Workload,
    /// The workload before each batch, to roll back to after a failure.
    before: Vec<Workload>,
    pub history: History,
    /// The recording position at which each batch was appended. An earlier crash cannot have it.
    handed: Vec<usize>,
    pub promises: Vec<Promise>,
}

impl Run {
    pub async fn begin(seed: u64) -> Self {
        let directory = TempDir::new().unwrap();
        let disk = Disk::install(directory.path());
        let journal = journal_on(&disk, directory.path());
        let lease = journal.open().await.unwrap();
        let mut run = Self {
            directory,
            disk,
            journal,
            workload: Workload::new(seed, lease.last_seq),
            before: Vec::new(),
            history: History::new().await,
            handed: Vec::new(),
            promises: Vec::new(),
        };
        run.promise(0, lease.last_seq);
        run
    }

    /// Continues after another run was killed.
    pub async fn after_kill(killed: &Self, cut: usize) -> Self {
        let directory = TempDir::new().unwrap();
        let disk = Disk::after_kill(directory.path(), &killed.disk.recording(), cut);
        let journal = journal_on(&disk, directory.path());
        let lease = journal.open().await.unwrap();
        let context = format!("killed at {cut}");
        let kept = killed.history.check(&journal, &lease, &context).await;
        let mut history = History::new().await;
        for batch in &killed.history.batches[..kept] {
            history.push(batch.clone()).await;
        }
        let promises = killed.promises.iter().filter(|promise| promise.position <= cut);
        let mut run = Self {
            directory,
            disk,
            journal,
            // The state before the first lost batch, if any was lost.
            workload: killed.before.get(kept).unwrap_or(&killed.workload).clone(),
            before: killed.before[..kept].to_vec(),
            history,
            handed: killed.handed[..kept].to_vec(),
            promises: promises.copied().collect(),
        };
        run.promise(0, lease.last_seq);
        run.go_on_from(kept, &lease).await;
        run
    }

    fn promise(&mut self, batches: usize, given_out: Seq) {
        self.promises.push(Promise {
            position: self.disk.position(),
            batches,
            // The host reports its last sequence number to the journal before it has assigned this many more.
            seq: Seq(given_out.0 + RESERVED - 1),
        });
    }

    /// Appends some batches at once and waits for each. After the first failure nothing may be acknowledged (F7).
    pub async fn append(&mut self, batches: usize) -> Result<(), JournalError> {
        let mut appended = Vec::new();
        for _ in 0..batches {
            self.before.push(self.workload.clone());
            let batch = self.workload.next();
            self.handed.push(self.disk.position());
            appended.push((
                self.journal.append(batch.clone()),
                self.history.batches.len() + 1,
                batch.clone(),
            ));
            self.history.push(batch).await;
        }
        let mut result = Ok(());
        for (appended, count, batch) in appended {
            match (appended.await, &result) {
                (Ok(()), Ok(())) => self.promise(if batch.is_durable() { count } else { 0 }, batch.seq),
                (Ok(()), Err(error)) => panic!("acknowledged after a failure ({error})"),
                (Err(error), Ok(())) => result = Err(error),
                (Err(_), Err(_)) => {}
            }
        }
        result
    }

    pub async fn flush(&mut self) -> Result<(), JournalError> {
        self.journal.flush().await?;
        self.promise(self.history.batches.len(), self.workload.seq);
        Ok(())
    }

    /// Closes the journal and opens it again.
    pub async fn again(&mut self) {
        let next = journal_on(&self.disk, self.directory.path());
        drop(std::mem::replace(&mut self.journal, next));
        let lease = self.journal.open().await.unwrap();
        let kept = self.history.check(&self.journal, &lease, "in the next life").await;
        self.go_on_from(kept, &lease).await;
    }

    /// Appends for a while in groups of all sizes, with occasional flushes and restarts.
    pub async fn work(&mut self, batches: usize) {
        let mut random = Random::new(batches as u64);
        let end = self.history.batches.len() + batches;
        while self.history.batches.len() < end {
            let group = 1 + random.below(5);
            self.append(group).await.unwrap();
            match random.below(40) {
                0..3 => self.flush().await.unwrap(),
                3 => {
                    self.flush().await.unwrap();
                    self.again().await;
                }
                _ => {}
            }
        }
    }

    /// Returns the promises made before a crash at a cut.
    pub fn promised(&self, cut: usize) -> Promise {
        let made = self.promises.iter().filter(|promise| promise.position <= cut);
        let none = Promise {
            position: 0,
            batches: 0,
            seq: Seq(0),
        };
        made.fold(none, |all, promise| Promise {
            position: cut,
            batches: all.batches.max(promise.batches),
            seq: all.seq.max(promise.seq),
        })
    }

    /// Continues from the persisted content. Lost batches count as never appended, except for their sequence numbers.
    pub async fn go_on_from(&mut self, kept: usize, lease: &Lease) {
        let promised = self.promised(self.disk.position());
        assert!(
            kept >= promised.batches,
            "{kept} of {} promised batches",
            promised.batches
        );
        let seq = self.workload.seq.max(lease.last_seq);
        if kept < self.history.batches.len() {
            self.workload = self.before[kept].clone();
            self.before.truncate(kept);
            self.handed.truncate(kept);
            self.history.cut(kept).await;
        }
        self.workload.seq = seq;
    }

    /// Opens the image after a crash and checks every promise (P1, P5, F5).
    pub async fn check_image(&self, directory: &Path, cut: usize, context: &str) {
        let journal = journal_in(directory);
        let lease = match journal.open().await {
            Ok(lease) => lease,
            Err(error) => panic!("{context}: recovery failed: {error}"),
        };
        let kept = self.history.check(&journal, &lease, context).await;
        let promised = self.promised(cut);
        assert!(
            kept >= promised.batches,
            "{context}: {kept} of {} promised batches",
            promised.batches
        );
        let handed = self.handed.iter().filter(|position| **position < cut).count();
        assert!(
            kept <= handed,
            "{context}: {kept} batches, but only {handed} had been handed over"
        );
        let (last, given_out) = (lease.last_seq, promised.seq);
        assert!(
            last >= given_out,
            "{context}: starts after {last}, but up to {given_out} was given out"
        );
    }
}
