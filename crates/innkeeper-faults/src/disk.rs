//! The handle of a failing disk.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::plan::{Counts, Fault, FaultPlan, Op};
use crate::recording::{Recorder, Recording};
use crate::vfs::Registration;

/// A disk that keeps the files of one directory, tells what was done to them, and fails when told
/// to. See the [crate](crate) for what a crash leaves behind.
///
/// Files in other directories, and temporary ones, are neither recorded nor do they fail. When the
/// handle is dropped, the VFS is gone; connections that are still open go on as on a good disk.
#[derive(Debug)]
pub struct Disk {
    inner: Arc<DiskInner>,
    registration: Registration,
}

/// What the handle and the VFS have in common.
#[derive(Debug)]
pub(crate) struct DiskInner {
    directory: PathBuf,
    state: Mutex<State>,
}

/// One lock for everything, held while the real operation runs: the recording is in the very order
/// in which things happened.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) plan: FaultPlan,
    pub(crate) recorder: Recorder,
}

impl Disk {
    /// Registers a VFS for the files of a directory, under a name that no other has. What is in the
    /// directory already counts as safe.
    ///
    /// # Panics
    ///
    /// When the directory cannot be read, or SQLite refuses the VFS.
    pub fn install(directory: &Path) -> Self {
        let directory = directory.canonicalize().expect("the directory of a disk exists");
        let mut recorder = Recorder::default();
        for entry in fs::read_dir(&directory).expect("the directory of a disk is readable") {
            let path = entry.expect("the directory of a disk is readable").path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if path.is_file() && !name.ends_with("-shm") {
                recorder.add_existing(name, fs::read(&path).expect("the files of a disk are readable"));
            }
        }
        Self::register(directory, recorder)
    }

    /// Goes on in an empty directory where a process was killed, at a cut of the recording of
    /// another disk. The recording goes on as well: what was not synced before the kill is still
    /// there, and a power cut may still take it.
    ///
    /// # Panics
    ///
    /// When the directory cannot be written, or SQLite refuses the VFS.
    pub fn after_kill(directory: &Path, recording: &Recording, cut: usize) -> Self {
        let directory = directory.canonicalize().expect("the directory of a disk exists");
        let image = recording.kill(cut);
        image.write_to(&directory).expect("the directory of a disk is writable");
        Self::register(directory, Recorder::continued(recording, cut))
    }

    fn register(directory: PathBuf, recorder: Recorder) -> Self {
        let state = State {
            recorder,
            ..State::default()
        };
        let inner = Arc::new(DiskInner {
            directory,
            state: Mutex::new(state),
        });
        let registration = Registration::new(inner.clone());
        Self { inner, registration }
    }

    /// The name of the VFS, for `Connection::open_with_flags_and_vfs`.
    pub fn vfs(&self) -> &str {
        self.registration.name()
    }

    /// Everything that was done so far.
    pub fn recording(&self) -> Recording {
        self.inner.state().recorder.recording.clone()
    }

    /// How many events there were so far. What is acknowledged now has to survive every
    /// [cut](Recording) from here on.
    pub fn position(&self) -> usize {
        self.inner.state().recorder.recording.len()
    }

    /// How many operations of each kind there were so far.
    pub fn counts(&self) -> Counts {
        self.inner.state().plan.counts
    }

    /// Makes the `n`th operation of a kind from now on fail; the next one is the first. Others of
    /// the kind succeed.
    pub fn fail_nth(&self, op: Op, n: u64, fault: Fault) {
        self.inner.state().plan.fail(op, n, 1, fault);
    }

    /// Makes the `n`th operation of a kind from now on fail, and all that follow it.
    pub fn fail_from(&self, op: Op, n: u64, fault: Fault) {
        self.inner.state().plan.fail(op, n, u64::MAX, fault);
    }

    /// Makes the next sync fail.
    pub fn fail_next_sync(&self) {
        self.fail_nth(Op::Sync, 1, Fault::Io);
    }

    /// Limits how many bytes all files together may take. A write that needs more leaves what fits
    /// and fails with `SQLITE_FULL`; one that needs no more room succeeds.
    pub fn capacity(&self, bytes: Option<u64>) {
        self.inner.state().plan.capacity = bytes;
    }

    /// How many bytes all files take together, without the shared memory of a WAL.
    pub fn used(&self) -> u64 {
        self.inner.state().recorder.used()
    }

    /// Makes the disk read-only or writable, as if it was mounted anew: open files can no longer be
    /// written, and others open read-only or not at all.
    pub fn read_only(&self, read_only: bool) {
        self.inner.state().plan.read_only = read_only;
    }

    /// Makes one bit of a file read wrong until its byte is written again. The recording knows
    /// nothing of it.
    pub fn flip_bit(&self, file: &str, offset: u64, bit: u8) {
        self.inner.state().plan.flip(file, offset, bit);
    }

    /// Makes syncs succeed without doing anything. No database survives a power cut on such a disk;
    /// it shows that a test would notice.
    pub fn ignore_syncs(&self, lie: bool) {
        self.inner.state().plan.ignores_syncs = lie;
    }

    /// Stops the disk: from now on every operation fails and nothing is recorded, until
    /// [`Self::heal`].
    pub fn stop(&self) {
        self.inner.state().plan.stopped = true;
    }

    /// Takes all faults back. The counts go on.
    pub fn clear_faults(&self) {
        self.inner.state().plan.clear_faults();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // The VFS itself is never freed, as connections may use it still; what it recorded is.
        let mut state = self.inner.state();
        state.plan.clear_faults();
        state.recorder.close();
    }
}

impl DiskInner {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The name under which a file is recorded, if it is.
    pub(crate) fn tracked<'a>(&self, path: &'a Path) -> Option<&'a str> {
        let name = path.file_name()?.to_str()?;
        (path.parent()? == self.directory).then_some(name)
    }
}
