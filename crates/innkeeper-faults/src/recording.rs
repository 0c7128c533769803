//! What was done to a disk, in order.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// A file, whatever its name is by now. A name may belong to several of them, one after another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Inode(pub(crate) usize);

/// One thing that was done.
#[derive(Debug, Clone)]
pub(crate) enum Event {
    /// A file got a name that was free.
    Create { name: Arc<str>, inode: Inode },
    /// A name was freed.
    Delete { name: Arc<str> },
    /// Bytes were written.
    Write {
        inode: Inode,
        offset: u64,
        bytes: Arc<[u8]>,
    },
    /// A file was cut, or extended with zeros.
    Truncate { inode: Inode, size: u64 },
    /// A file was synced: what was done to it before is safe.
    Sync { inode: Inode },
    /// A sync failed. What was done to the file since the last good one may be lost even if a later
    /// sync succeeds: the system tells of an error once, and then takes the pages for clean.
    SyncFailed { inode: Inode },
    /// The directory was synced: names that came and went before are safe.
    SyncNames,
}

/// Everything that was done to a disk, from which its contents after a crash can be made.
///
/// A *cut* is a number of events: the crash happens after so many of them. Zero is before
/// everything, and [`Recording::len`] after everything.
#[derive(Debug, Clone, Default)]
pub struct Recording {
    /// What was there before, all of it safe.
    pub(crate) base: Vec<(Arc<str>, Inode, Arc<[u8]>)>,
    pub(crate) events: Vec<Event>,
}

impl Recording {
    /// How many events there are.
    #[expect(
        clippy::len_without_is_empty,
        reason = "a recording is a line of cuts, and never empty of them"
    )]
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// The cuts just before and just after every sync.
    pub fn sync_boundaries(&self) -> Vec<usize> {
        let is_sync = |event: &Event| matches!(event, Event::Sync { .. } | Event::SyncFailed { .. } | Event::SyncNames);
        let syncs = self.events.iter().enumerate().filter(|(_, event)| is_sync(event));
        let mut cuts: Vec<usize> = syncs.flat_map(|(at, _)| [at, at + 1]).collect();
        cuts.dedup();
        cuts
    }

    /// The cuts just before every write to the files that ever had a name.
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

/// Writes a recording, and knows what is on the disk meanwhile.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    pub(crate) recording: Recording,
    /// Which file has which name.
    names: HashMap<Arc<str>, Inode>,
    sizes: HashMap<Inode, u64>,
    inodes: usize,
    /// Nobody asks for the recording any more.
    closed: bool,
}

impl Recorder {
    /// Goes on with a recording after a cut.
    pub(crate) fn continued(recording: &Recording, cut: usize) -> Self {
        let mut recorder = Self::default();
        // Files get the same numbers again, as they come in the same order.
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

    /// Forgets everything, and records nothing more.
    pub(crate) fn close(&mut self) {
        *self = Self {
            closed: true,
            ..Self::default()
        };
    }

    /// A file that is there before anything is recorded.
    pub(crate) fn add_existing(&mut self, name: &str, bytes: Vec<u8>) {
        let inode = self.name(name, bytes.len() as u64);
        self.recording.base.push((name.into(), inode, bytes.into()));
    }

    /// A file has just been created.
    pub(crate) fn created(&mut self, name: &str) -> Inode {
        let inode = self.name(name, 0);
        let name = name.into();
        self.push(Event::Create { name, inode });
        inode
    }

    /// The file that has a name.
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
        if let Some(kept) = self.sizes.get_mut(&inode) {
            *kept = size;
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

    /// How many bytes all files take.
    pub(crate) fn used(&self) -> u64 {
        self.sizes.values().sum()
    }

    /// How many more bytes it takes to write up to an offset of a file.
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
