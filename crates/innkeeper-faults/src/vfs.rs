//! The VFS for SQLite: a table of C functions that wraps the default VFS.
//!
//! Decisions are made in safe code elsewhere; this module translates. Operations on files that are not tracked go
//! straight to the real file.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{fs, ptr, slice};

use libsqlite3_sys as sqlite;
use sqlite::{sqlite3_file, sqlite3_int64, sqlite3_io_methods, sqlite3_vfs};

use crate::disk::{DiskInner, State};
use crate::plan::{Fault, Op};
use crate::recording::Inode;

/// A registered VFS. Dropping it unregisters the name.
#[derive(Debug)]
pub(crate) struct Registration {
    vfs: *mut sqlite3_vfs,
    name: String,
}

// SAFETY: the pointer is only passed to `sqlite3_vfs_unregister`, which locks and may be called from any thread.
unsafe impl Send for Registration {}
// SAFETY: as above; a shared reference exposes only the name.
unsafe impl Sync for Registration {}

/// Data of the VFS. It is never freed, because open files point to it.
struct Mount {
    real: *mut sqlite3_vfs,
    inner: Arc<DiskInner>,
}

impl Registration {
    pub(crate) fn new(inner: Arc<DiskInner>) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("innkeeper-faults-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let c_name = CString::new(name.clone()).expect("the name has no NUL");

        // SAFETY: looking up the default VFS initialises SQLite if necessary and has no preconditions.
        let real = unsafe { sqlite::sqlite3_vfs_find(ptr::null()) };
        assert!(!real.is_null(), "SQLite has a default VFS");
        let mount = Box::leak(Box::new(Mount { real, inner }));
        // SAFETY: a registered VFS is a valid structure that outlives the process's use of SQLite.
        let ordinary = unsafe { *real };
        // Functions that are not replaced get this structure as their first argument. The default VFS on
        // Unix does not use it.
        let vfs = Box::leak(Box::new(sqlite3_vfs {
            szOsFile: ordinary.szOsFile + size_of::<File>() as c_int,
            pNext: ptr::null_mut(),
            zName: c_name.into_raw(),
            pAppData: ptr::from_mut(mount).cast(),
            xOpen: Some(open),
            xDelete: Some(delete),
            xAccess: Some(access),
            ..ordinary
        }));
        // SAFETY: the structure, its name and its data are leaked, so they are valid forever.
        let code = unsafe { sqlite::sqlite3_vfs_register(vfs, 0) };
        assert_eq!(code, sqlite::SQLITE_OK, "SQLite takes another VFS");
        Self { vfs, name }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // SAFETY: it was registered by `new` and is still valid; open files keep working.
        unsafe { sqlite::sqlite3_vfs_unregister(self.vfs) };
    }
}

/// An open file. The real file follows it in the same allocation, which SQLite makes.
#[repr(C)]
struct File {
    base: sqlite3_file,
    mount: *const Mount,
    /// From `Box::into_raw`, or null for files that are not recorded.
    tracked: *mut Tracked,
}

/// A tracked file.
struct Tracked {
    name: String,
    inode: Inode,
    /// Whether its next sync also syncs the directory, as with the default VFS.
    syncs_names: bool,
}

static METHODS: sqlite3_io_methods = sqlite3_io_methods {
    // With version 3 files may be memory-mapped, and such reads would never fail.
    iVersion: 2,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: Some(shm_map),
    xShmLock: Some(shm_lock),
    xShmBarrier: Some(shm_barrier),
    xShmUnmap: Some(shm_unmap),
    xFetch: None,
    xUnfetch: None,
};

/// Calls a method of the real file.
macro_rules! real {
    ($file:ident . $method:ident ( $($argument:expr),* ), or $otherwise:expr) => {{
        // SAFETY: SQLite passes a file that `open` has opened, so the real one lies behind ours,
        // is open as well, and its table of methods is valid.
        unsafe {
            let inner = real_file($file);
            match (*(*inner).pMethods).$method {
                Some(method) => method(inner, $($argument),*),
                None => $otherwise,
            }
        }
    }};
}

/// # Safety
///
/// `file` is one of ours, as allocated by SQLite with the size that our VFS told it.
unsafe fn real_file(file: *mut sqlite3_file) -> *mut sqlite3_file {
    // SAFETY: the allocation has room for a real file behind ours.
    unsafe { file.cast::<File>().add(1).cast() }
}

/// Returns the disk of a file, and the tracking data if the file is tracked.
///
/// # Safety
///
/// `file` is one of ours, is open, and is not used otherwise until the result is dropped. SQLite uses a file from one
/// thread at a time.
unsafe fn parts<'a>(file: *mut sqlite3_file) -> (&'a DiskInner, Option<&'a mut Tracked>) {
    // SAFETY: by the contract; `mount` is leaked and `tracked` is ours until `close`.
    unsafe {
        let file = &*file.cast::<File>();
        (&(*file.mount).inner, file.tracked.as_mut())
    }
}

/// # Safety
///
/// `vfs` is one that `Registration::new` made, as SQLite passes it to our functions.
unsafe fn mount<'a>(vfs: *mut sqlite3_vfs) -> &'a Mount {
    // SAFETY: by the contract; what `pAppData` points to is leaked.
    unsafe { &*(*vfs).pAppData.cast::<Mount>() }
}

unsafe extern "C" fn open(
    vfs: *mut sqlite3_vfs,
    name: *const c_char,
    file: *mut sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    // SAFETY: SQLite passes our VFS, room for one of our files, and a valid name or null.
    let (mount, inner, path) = unsafe {
        file.cast::<File>().write(File {
            // Without methods, SQLite does not close a file that failed to open.
            base: sqlite3_file { pMethods: ptr::null() },
            mount: (*vfs).pAppData.cast(),
            tracked: ptr::null_mut(),
        });
        let path = (!name.is_null()).then(|| Path::new(CStr::from_ptr(name).to_str().unwrap_or_default()));
        (mount(vfs), real_file(file), path)
    };
    let path = path.filter(|path| mount.inner.tracked(path).is_some());
    let mut state = mount.inner.state();
    let mut flags = flags;
    if path.is_some() {
        if let Some(fault) = state.plan.count(Op::Open) {
            return code(fault, sqlite::SQLITE_CANTOPEN);
        }
        if state.plan.read_only && flags & sqlite::SQLITE_OPEN_READWRITE != 0 {
            flags &= !(sqlite::SQLITE_OPEN_READWRITE | sqlite::SQLITE_OPEN_CREATE);
            flags |= sqlite::SQLITE_OPEN_READONLY;
        }
    }
    let existed = path.is_some_and(Path::exists);
    // SAFETY: the arguments are SQLite's own, and `inner` is room for a real file.
    let rc = unsafe {
        (*inner).pMethods = ptr::null();
        let rc = match (*mount.real).xOpen {
            Some(open) => open(mount.real, name, inner, flags, out_flags),
            None => sqlite::SQLITE_CANTOPEN,
        };
        if rc != sqlite::SQLITE_OK && !(*inner).pMethods.is_null() {
            // SAFETY of the order: a file that failed to open but has methods has to be closed.
            if let Some(close) = (*(*inner).pMethods).xClose {
                close(inner);
            }
        }
        rc
    };
    if rc != sqlite::SQLITE_OK {
        return rc;
    }
    let tracked = path.and_then(|path| track(&mount.inner, &mut state, path, existed, flags));
    // SAFETY: `file` was initialized above.
    unsafe {
        let file = &mut *file.cast::<File>();
        file.tracked = tracked.map_or(ptr::null_mut(), |tracked| Box::into_raw(Box::new(tracked)));
        file.base.pMethods = &METHODS;
    }
    rc
}

/// Records an opened file. A file that another process created counts as just written.
fn track(inner: &DiskInner, state: &mut State, path: &Path, existed: bool, flags: c_int) -> Option<Tracked> {
    let name = inner.tracked(path)?;
    let recorder = &mut state.recorder;
    let inode = match recorder.named(name) {
        Some(inode) if existed => inode,
        _ => {
            let inode = recorder.created(name);
            let bytes = fs::read(path).unwrap_or_default();
            if !bytes.is_empty() {
                recorder.written(inode, 0, &bytes);
            }
            inode
        }
    };
    let journals = sqlite::SQLITE_OPEN_MAIN_JOURNAL | sqlite::SQLITE_OPEN_SUPER_JOURNAL | sqlite::SQLITE_OPEN_WAL;
    Some(Tracked {
        name: name.to_owned(),
        inode,
        syncs_names: flags & sqlite::SQLITE_OPEN_CREATE != 0 && flags & journals != 0,
    })
}

unsafe extern "C" fn delete(vfs: *mut sqlite3_vfs, name: *const c_char, sync_directory: c_int) -> c_int {
    // SAFETY: SQLite passes our VFS and a valid name.
    let (mount, path) = unsafe { (mount(vfs), Path::new(CStr::from_ptr(name).to_str().unwrap_or_default())) };
    let tracked = mount.inner.tracked(path);
    let mut state = mount.inner.state();
    if tracked.is_some() {
        if let Some(fault) = state.plan.count(Op::Delete) {
            return code(fault, sqlite::SQLITE_IOERR_DELETE);
        }
        if state.plan.read_only {
            return sqlite::SQLITE_IOERR_DELETE;
        }
    }
    // SAFETY: the arguments are SQLite's own. The directory is synced in the recording only.
    let rc = unsafe {
        match (*mount.real).xDelete {
            Some(delete) => delete(mount.real, name, 0),
            None => sqlite::SQLITE_IOERR_DELETE,
        }
    };
    if let (Some(name), sqlite::SQLITE_OK) = (tracked, rc) {
        state.recorder.deleted(name);
        if sync_directory != 0 {
            state.recorder.synced_names();
        }
    }
    rc
}

unsafe extern "C" fn access(vfs: *mut sqlite3_vfs, name: *const c_char, flags: c_int, found: *mut c_int) -> c_int {
    // SAFETY: SQLite passes our VFS, and the other arguments are its own.
    unsafe {
        let mount = mount(vfs);
        if mount.inner.state().plan.stopped {
            return sqlite::SQLITE_IOERR_ACCESS;
        }
        match (*mount.real).xAccess {
            Some(access) => access(mount.real, name, flags, found),
            None => sqlite::SQLITE_IOERR_ACCESS,
        }
    }
}

unsafe extern "C" fn close(file: *mut sqlite3_file) -> c_int {
    let rc = real!(file.xClose(), or sqlite::SQLITE_OK);
    // SAFETY: the file is ours and is not used after this; `tracked` is null or from `into_raw`.
    unsafe {
        let file = &mut *file.cast::<File>();
        if !file.tracked.is_null() {
            drop(Box::from_raw(file.tracked));
            file.tracked = ptr::null_mut();
        }
    }
    rc
}

unsafe extern "C" fn read(file: *mut sqlite3_file, buffer: *mut c_void, len: c_int, offset: sqlite3_int64) -> c_int {
    // SAFETY: SQLite passes a file that is open.
    let (inner, tracked) = unsafe { parts(file) };
    let Some(tracked) = tracked else {
        return real!(file.xRead(buffer, len, offset), or sqlite::SQLITE_IOERR_READ);
    };
    let mut state = inner.state();
    let fault = state.plan.count(Op::Read);
    if fault.is_some_and(|fault| fault != Fault::Short) {
        return sqlite::SQLITE_IOERR_READ;
    }
    let rc = real!(file.xRead(buffer, len, offset), or sqlite::SQLITE_IOERR_READ);
    if rc != sqlite::SQLITE_OK && rc != sqlite::SQLITE_IOERR_SHORT_READ {
        return rc;
    }
    // SAFETY: the buffer has `len` bytes, and the real read has initialised all of them: it fills the missing part of
    // a short read with zeros, as SQLite requires.
    let bytes = unsafe { slice::from_raw_parts_mut(buffer.cast::<u8>(), size(len)) };
    if fault.is_some() {
        bytes[size(len) / 2..].fill(0);
        return sqlite::SQLITE_IOERR_SHORT_READ;
    }
    state.plan.apply_flips(&tracked.name, offset.unsigned_abs(), bytes);
    rc
}

unsafe extern "C" fn write(file: *mut sqlite3_file, buffer: *const c_void, len: c_int, offset: sqlite3_int64) -> c_int {
    // SAFETY: SQLite passes a file that is open.
    let (inner, tracked) = unsafe { parts(file) };
    let Some(tracked) = tracked else {
        return real!(file.xWrite(buffer, len, offset), or sqlite::SQLITE_IOERR_WRITE);
    };
    let mut state = inner.state();
    let start = offset.unsigned_abs();
    let (writable, failure) = match state.plan.count(Op::Write) {
        Some(Fault::Short) => (len / 2, sqlite::SQLITE_IOERR_WRITE),
        Some(fault) => (0, code(fault, sqlite::SQLITE_IOERR_WRITE)),
        None if state.plan.read_only => (0, sqlite::SQLITE_IOERR_WRITE),
        None => match missing(&state, tracked.inode, start + size(len) as u64) {
            0 => (len, sqlite::SQLITE_OK),
            missing => ((i64::from(len) - missing as i64).max(0) as c_int, sqlite::SQLITE_FULL),
        },
    };
    if writable > 0 {
        let rc = real!(file.xWrite(buffer, writable, offset), or sqlite::SQLITE_IOERR_WRITE);
        if rc != sqlite::SQLITE_OK {
            return rc;
        }
        // SAFETY: SQLite passes `len` bytes, and `writable` is not more.
        let bytes = unsafe { slice::from_raw_parts(buffer.cast::<u8>(), size(writable)) };
        state.recorder.written(tracked.inode, start, bytes);
        state.plan.clear_flips(&tracked.name, start, bytes.len() as u64);
    }
    failure
}

/// Returns how many bytes do not fit when a file is written up to `end`.
fn missing(state: &State, inode: Inode, end: u64) -> u64 {
    let growth = state.recorder.growth(inode, end);
    let free = state
        .plan
        .capacity
        .map(|capacity| capacity.saturating_sub(state.recorder.used()));
    free.map_or(0, |free| growth.saturating_sub(free))
}

unsafe extern "C" fn truncate(file: *mut sqlite3_file, size: sqlite3_int64) -> c_int {
    // SAFETY: SQLite passes a file that is open.
    let (inner, tracked) = unsafe { parts(file) };
    let Some(tracked) = tracked else {
        return real!(file.xTruncate(size), or sqlite::SQLITE_IOERR_TRUNCATE);
    };
    let mut state = inner.state();
    if let Some(fault) = state.plan.count(Op::Truncate) {
        return code(fault, sqlite::SQLITE_IOERR_TRUNCATE);
    }
    if state.plan.read_only {
        return sqlite::SQLITE_IOERR_TRUNCATE;
    }
    let rc = real!(file.xTruncate(size), or sqlite::SQLITE_IOERR_TRUNCATE);
    if rc == sqlite::SQLITE_OK {
        state.recorder.truncated(tracked.inode, size.unsigned_abs());
    }
    rc
}

unsafe extern "C" fn sync(file: *mut sqlite3_file, _flags: c_int) -> c_int {
    // SAFETY: SQLite passes a file that is open.
    let (inner, tracked) = unsafe { parts(file) };
    let Some(tracked) = tracked else {
        return sqlite::SQLITE_OK;
    };
    let mut state = inner.state();
    if let Some(fault) = state.plan.count(Op::Sync) {
        // A stopped disk does not record what became of the writes.
        if !state.plan.stopped {
            state.recorder.sync_failed(tracked.inode);
        }
        return code(fault, sqlite::SQLITE_IOERR_FSYNC);
    }
    if state.plan.ignores_syncs {
        return sqlite::SQLITE_OK;
    }
    state.recorder.synced(tracked.inode);
    if tracked.syncs_names {
        state.recorder.synced_names();
        tracked.syncs_names = false;
    }
    sqlite::SQLITE_OK
}

unsafe extern "C" fn file_size(file: *mut sqlite3_file, size: *mut sqlite3_int64) -> c_int {
    if stopped(file) {
        return sqlite::SQLITE_IOERR_FSTAT;
    }
    real!(file.xFileSize(size), or sqlite::SQLITE_IOERR_FSTAT)
}

unsafe extern "C" fn lock(file: *mut sqlite3_file, level: c_int) -> c_int {
    if stopped(file) {
        return sqlite::SQLITE_IOERR_LOCK;
    }
    real!(file.xLock(level), or sqlite::SQLITE_IOERR_LOCK)
}

unsafe extern "C" fn unlock(file: *mut sqlite3_file, level: c_int) -> c_int {
    real!(file.xUnlock(level), or sqlite::SQLITE_IOERR_UNLOCK)
}

unsafe extern "C" fn check_reserved_lock(file: *mut sqlite3_file, reserved: *mut c_int) -> c_int {
    real!(file.xCheckReservedLock(reserved), or sqlite::SQLITE_IOERR_CHECKRESERVEDLOCK)
}

unsafe extern "C" fn file_control(file: *mut sqlite3_file, op: c_int, argument: *mut c_void) -> c_int {
    match op {
        // These hints let the real file grow without a write that could be recorded.
        sqlite::SQLITE_FCNTL_SIZE_HINT | sqlite::SQLITE_FCNTL_CHUNK_SIZE => sqlite::SQLITE_OK,
        _ => real!(file.xFileControl(op, argument), or sqlite::SQLITE_NOTFOUND),
    }
}

unsafe extern "C" fn sector_size(file: *mut sqlite3_file) -> c_int {
    real!(file.xSectorSize(), or 4096)
}

unsafe extern "C" fn device_characteristics(file: *mut sqlite3_file) -> c_int {
    // Only what our power cuts respect: nothing is atomic or ordered.
    real!(file.xDeviceCharacteristics(), or 0) & sqlite::SQLITE_IOCAP_POWERSAFE_OVERWRITE
}

unsafe extern "C" fn shm_map(
    file: *mut sqlite3_file,
    region: c_int,
    size: c_int,
    extend: c_int,
    memory: *mut *mut c_void,
) -> c_int {
    // SAFETY: SQLite passes a file that is open.
    let (inner, tracked) = unsafe { parts(file) };
    if tracked.is_some() {
        match inner.state().plan.count(Op::Map) {
            Some(Fault::Full) => return sqlite::SQLITE_IOERR_SHMSIZE,
            Some(fault) => return code(fault, sqlite::SQLITE_IOERR_SHMMAP),
            None => {}
        }
    }
    real!(file.xShmMap(region, size, extend, memory), or sqlite::SQLITE_IOERR_SHMMAP)
}

unsafe extern "C" fn shm_lock(file: *mut sqlite3_file, offset: c_int, n: c_int, flags: c_int) -> c_int {
    real!(file.xShmLock(offset, n, flags), or sqlite::SQLITE_IOERR_SHMLOCK)
}

unsafe extern "C" fn shm_barrier(file: *mut sqlite3_file) {
    real!(file.xShmBarrier(), or());
}

unsafe extern "C" fn shm_unmap(file: *mut sqlite3_file, delete: c_int) -> c_int {
    real!(file.xShmUnmap(delete), or sqlite::SQLITE_OK)
}

/// Returns true if the disk of a file has stopped.
fn stopped(file: *mut sqlite3_file) -> bool {
    // SAFETY: called with files that SQLite passed to our methods: they are open.
    let (inner, tracked) = unsafe { parts(file) };
    tracked.is_some() && inner.state().plan.stopped
}

/// Returns the result code of a fault; `io` is the code for IO errors.
fn code(fault: Fault, io: c_int) -> c_int {
    match fault {
        Fault::Io | Fault::Short | Fault::Stop => io,
        Fault::Full => sqlite::SQLITE_FULL,
        Fault::ReadOnly => sqlite::SQLITE_READONLY,
    }
}

/// Converts a length of SQLite, an `int` that is never negative.
fn size(len: c_int) -> usize {
    len.unsigned_abs() as usize
}
