//! The handle of a failing disk.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use innkeeper_std::sync::{Mutex, MutexGuard};

use crate::plan::{Counts, Fault, FaultPlan, Op};
use crate::recording::{Recorder, Recording};
use crate::vfs::Registration;

/// A disk for the files of one directory that records all operations and injects faults. See the [crate](crate) for
/// what a crash leaves behind.
///
/// Files in other directories, and temporary files, are neither recorded nor fail. Dropping the handle unregisters
/// the VFS; open connections continue to work as on a good disk.
#[derive(Debug)]
pub struct Disk {
    inner: Arc<DiskInner>,
    registration: Registration,
}

/// State shared by the handle and the VFS.
#[derive(Debug)]
pub(crate) struct DiskInner {
    directory: PathBuf,
    state: Mutex<State>,
}

/// One lock for everything. It is held during the real operation, so that the recording has the exact order.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) plan: FaultPlan,
    pub(crate) recorder: Recorder,
}

impl Disk {
    /// Registers a VFS with a unique name for the files of a directory. Existing files count as durable.
    ///
    /// # Panics
    ///
    /// If the directory cannot be read, or SQLite rejects the VFS.
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

    /// Continues in an empty directory after a process was killed at a cut of another disk's recording. The recording
    /// continues too: unsynced data is still there, and a power cut may still lose it.
    ///
    /// # Panics
    ///
    /// If the directory cannot be written, or SQLite rejects the VFS.
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

    /// Name of the VFS, for `Connection::open_with_flags_and_vfs`.
    pub fn vfs(&self) -> &str {
        self.registration.name()
    }

    /// Returns everything recorded so far.
    pub fn recording(&self) -> Recording {
        self.inner.state().recorder.recording.clone()
    }

    /// Number of recorded events. Data that is acknowledged now must survive every [cut](Recording) from here on.
    pub fn position(&self) -> usize {
        self.inner.state().recorder.recording.len()
    }

    /// Number of operations of each kind so far.
    pub fn counts(&self) -> Counts {
        self.inner.state().plan.counts
    }

    /// Makes the `n`th operation of a kind from now on fail, counted from 1. Later ones succeed.
    pub fn fail_nth(&self, op: Op, n: u64, fault: Fault) {
        self.inner.state().plan.fail(op, n, 1, fault);
    }

    /// Makes the `n`th operation of a kind from now on and all later ones fail.
    pub fn fail_from(&self, op: Op, n: u64, fault: Fault) {
        self.inner.state().plan.fail(op, n, u64::MAX, fault);
    }

    /// Makes the next sync fail.
    pub fn fail_next_sync(&self) {
        self.fail_nth(Op::Sync, 1, Fault::Io);
    }

    /// Limits the total size of all files. A write that exceeds it is truncated and fails with `SQLITE_FULL`.
    pub fn capacity(&self, bytes: Option<u64>) {
        self.inner.state().plan.capacity = bytes;
    }

    /// Total size of all files, without the shared memory of a WAL.
    pub fn used(&self) -> u64 {
        self.inner.state().recorder.used()
    }

    /// Makes the disk read-only or writable, as after a remount: open files cannot be written, and others open
    /// read-only or fail.
    pub fn read_only(&self, read_only: bool) {
        self.inner.state().plan.read_only = read_only;
    }

    /// Flips a bit of a file on every read, until the byte is written again. It is not part of the recording.
    pub fn flip_bit(&self, file: &str, offset: u64, bit: u8) {
        self.inner.state().plan.flip(file, offset, bit);
    }

    /// Makes syncs succeed without effect. No database survives a power cut on such a disk, which proves that a test
    /// would notice.
    pub fn ignore_syncs(&self, lie: bool) {
        self.inner.state().plan.ignores_syncs = lie;
    }

    /// Stops the disk: every operation fails and nothing is recorded until [`Self::clear_faults`].
    pub fn stop(&self) {
        self.inner.state().plan.stopped = true;
    }

    /// Removes all faults. The counts continue.
    pub fn clear_faults(&self) {
        self.inner.state().plan.clear_faults();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // The VFS itself is leaked, because connections may still use it; the recording is freed.
        let mut state = self.inner.state();
        state.plan.clear_faults();
        state.recorder.close();
    }
}

impl DiskInner {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Returns the name under which a file is recorded, if it is.
    pub(crate) fn tracked<'a>(&self, path: &'a Path) -> Option<&'a str> {
        let name = path.file_name()?.to_str()?;
        (path.parent()? == self.directory).then_some(name)
    }
}
