//! The operations on a disk, in order.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// Identity of a file. A name may refer to several files over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Inode(pub(crate) usize);

/// One operation.
#[derive(Debug, Clone)]
pub(crate) enum Event {
    /// A file was created under a free name.
    Create { name: Arc<str>, inode: Inode },
    /// A name was removed.
    Delete { name: Arc<str> },
    /// Bytes were written.
    Write {
        inode: Inode,
        offset: u64,
        bytes: Arc<[u8]>,
    },
    /// A file was truncated, or extended with zeros.
    Truncate { inode: Inode, size: u64 },
    /// A file was synced: its earlier operations are durable.
    Sync { inode: Inode },
    /// A sync failed. Operations since the last successful sync may be lost even if a later sync succeeds: the system
    /// reports an error once and then treats the pages as clean.
    SyncFailed { inode: Inode },
    /// The directory was synced: earlier creations and removals are durable.
    SyncNames,
}

/// All operations on a disk, from which its content after a crash is computed.
///
/// A *cut* is a number of events: the crash happens after that many. Zero is before the first event, and
/// [`Recording::len`] after the last.
#[derive(Debug, Clone, Default)]
pub struct Recording {
    /// Files that existed before, all durable.
    pub(crate) base: Vec<(Arc<str>, Inode, Arc<[u8]>)>,
    pub(crate) events: Vec<Event>,
}

impl Recording {
    /// Number of events.
    #[expect(
        clippy::len_without_is_empty,
        reason = "a recording is a line of cuts, and never empty of them"
    )]
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Returns the cuts before and after every sync.
    pub fn sync_boundaries(&self) -> Vec<usize> {
        let is_sync = |event: &Event| matches!(event, Event::Sync { .. } | Event::SyncFailed { .. } | Event::SyncNames);
        let syncs = self.events.iter().enumerate().filter(|(_, event)| is_sync(event));
        let mut cuts: Vec<usize> = syncs.flat_map(|(at, _)| [at, at + 1]).collect();
        cuts.dedup();
        cuts
    }

    /// Returns the cuts before every write to files that ever had this name.
    pub fn writes_to(&self, name: &str) -> Vec<usize> {
        let before = self.base.iter().map(|(name, inode, _)| (name, *inode));
        let created = self.events.iter().filter_map(|event| match event {
            Event::Create { name, inode } => Some((name, *inode)),
            _ => None,
        });
        let named = before.chain(created).filter(|(other, _)| ***other == *name);
        let inodes: BTreeSet<Inode> = named.map(|(_, inode)| inode).collect();
        let is_write = |event: &Event| matches!(event, Event::Write { inode, .. } if inodes.contains(inode));
        let writes = self.events.iter().enumerate().filter(|(_, event)| is_write(event));
        writes.map(|(at, _)| at).collect()
    }
}

/// Writes a recording and tracks the current files.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    pub(crate) recording: Recording,
    /// Files by name.
    names: HashMap<Arc<str>, Inode>,
    sizes: HashMap<Inode, u64>,
    inodes: usize,
    /// Whether the disk was dropped.
    closed: bool,
}

impl Recorder {
    /// Continues a recording after a cut.
    pub(crate) fn continued(recording: &Recording, cut: usize) -> Self {
        let mut recorder = Self::default();
        // Files get the same ids again, because they are created in the same order.
        for (name, _, bytes) in &recording.base {
            recorder.add_existing(name, bytes.to_vec());
        }
        for event in recording.events.iter().take(cut) {
            match event {
                Event::Create { name, .. } => {
                    recorder.created(name);
                }
                Event::Delete { name } => recorder.deleted(name),
                Event::Write { inode, offset, bytes } => recorder.written(*inode, *offset, bytes),
                Event::Truncate { inode, size } => recorder.truncated(*inode, *size),
                Event::Sync { inode } => recorder.synced(*inode),
                Event::SyncFailed { inode } => recorder.sync_failed(*inode),
                Event::SyncNames => recorder.synced_names(),
            }
        }
        recorder
    }

    /// Frees the recording and stops recording.
    pub(crate) fn close(&mut self) {
        *self = Self {
            closed: true,
            ..Self::default()
        };
    }

    /// Adds a file that existed before the recording.
    pub(crate) fn add_existing(&mut self, name: &str, bytes: Vec<u8>) {
        let inode = self.name(name, bytes.len() as u64);
        self.recording.base.push((name.into(), inode, bytes.into()));
    }

    /// Records a created file.
    pub(crate) fn created(&mut self, name: &str) -> Inode {
        let inode = self.name(name, 0);
        let name = name.into();
        self.push(Event::Create { name, inode });
        inode
    }

    /// Returns the file with this name.
    pub(crate) fn named(&self, name: &str) -> Option<Inode> {
        self.names.get(name).copied()
    }

    pub(crate) fn deleted(&mut self, name: &str) {
        if let Some((name, inode)) = self.names.remove_entry(name) {
            self.sizes.remove(&inode);
            self.push(Event::Delete { name });
        }
    }

    pub(crate) fn written(&mut self, inode: Inode, offset: u64, bytes: &[u8]) {
        if let Some(size) = self.sizes.get_mut(&inode) {
            *size = (*size).max(offset + bytes.len() as u64);
        }
        let bytes = bytes.into();
        self.push(Event::Write { inode, offset, bytes });
    }

    pub(crate) fn truncated(&mut self, inode: Inode, size: u64) {
        if let Some(current) = self.sizes.get_mut(&inode) {
            *current = size;
        }
        self.push(Event::Truncate { inode, size });
    }

    pub(crate) fn synced(&mut self, inode: Inode) {
        self.push(Event::Sync { inode });
    }

    pub(crate) fn sync_failed(&mut self, inode: Inode) {
        self.push(Event::SyncFailed { inode });
    }

    pub(crate) fn synced_names(&mut self) {
        self.push(Event::SyncNames);
    }

    /// Total size of all files.
    pub(crate) fn used(&self) -> u64 {
        self.sizes.values().sum()
    }

    /// Returns how many bytes a file grows by a write up to `end`.
    pub(crate) fn growth(&self, inode: Inode, end: u64) -> u64 {
        end.saturating_sub(self.sizes.get(&inode).copied().unwrap_or_default())
    }

    fn name(&mut self, name: &str, size: u64) -> Inode {
        let inode = Inode(self.inodes);
        self.inodes += 1;
        if let Some(before) = self.names.insert(name.into(), inode) {
            self.sizes.remove(&before);
        }
        self.sizes.insert(inode, size);
        inode
    }

    fn push(&mut self, event: Event) {
        if !self.closed {
            self.recording.events.push(event);
        }
    }
}
