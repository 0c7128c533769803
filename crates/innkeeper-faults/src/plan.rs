//! Which operations fail, and how.

use std::collections::BTreeSet;

/// A kind of operation on a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Op {
    /// Opening or creating a file.
    Open,
    /// Reading.
    Read,
    /// Writing.
    Write,
    /// Truncating or extending a file.
    Truncate,
    /// Syncing a file.
    Sync,
    /// Deleting a file.
    Delete,
    /// Mapping the shared memory of a WAL.
    Map,
}

impl Op {
    /// All kinds.
    pub const ALL: [Self; 7] = [
        Self::Open,
        Self::Read,
        Self::Write,
        Self::Truncate,
        Self::Sync,
        Self::Delete,
        Self::Map,
    ];
}

/// How an operation fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// With the IO error of the operation.
    Io,
    /// With `SQLITE_FULL`.
    Full,
    /// With `SQLITE_READONLY`.
    ReadOnly,
    /// With an error after half of it: a write or read transfers its first half only. Other operations fail as with
    /// [`Fault::Io`].
    Short,
    /// The disk stops with this operation, as with [`Disk::stop`](crate::Disk::stop).
    Stop,
}

/// Number of operations of each kind, including failed ones.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts([u64; Op::ALL.len()]);

impl Counts {
    /// Returns the number of one kind.
    pub fn of(&self, op: Op) -> u64 {
        self.0[op as usize]
    }
}

/// The faults to inject.
#[derive(Debug, Default)]
pub(crate) struct FaultPlan {
    pub(crate) counts: Counts,
    rules: Vec<Rule>,
    /// Maximum total size of all files.
    pub(crate) capacity: Option<u64>,
    pub(crate) read_only: bool,
    pub(crate) stopped: bool,
    /// Syncs succeed without effect.
    pub(crate) ignores_syncs: bool,
    /// Bits that are flipped on read until the byte is written again.
    flips: BTreeSet<(String, u64, u8)>,
}

#[derive(Debug)]
struct Rule {
    op: Op,
    /// Counted per kind of operation.
    first: u64,
    last: u64,
    fault: Fault,
}

impl FaultPlan {
    /// Makes `how_many` operations fail from the `n`th of its kind on; 1 is the next one.
    pub(crate) fn fail(&mut self, op: Op, n: u64, how_many: u64, fault: Fault) {
        let first = self.counts.of(op).saturating_add(n.max(1));
        let last = first.saturating_add(how_many.max(1) - 1);
        self.rules.push(Rule { op, first, last, fault });
    }

    /// Removes all faults.
    pub(crate) fn clear_faults(&mut self) {
        *self = Self {
            counts: self.counts,
            ..Self::default()
        };
    }

    /// Counts an operation and returns its fault, if any.
    pub(crate) fn count(&mut self, op: Op) -> Option<Fault> {
        self.counts.0[op as usize] += 1;
        let now = self.counts.of(op);
        if self.stopped {
            return Some(Fault::Io);
        }
        let rule = |rule: &&Rule| rule.op == op && (rule.first..=rule.last).contains(&now);
        let fault = self.rules.iter().find(rule).map(|rule| rule.fault)?;
        if fault == Fault::Stop {
            self.stopped = true;
            return Some(Fault::Io);
        }
        Some(fault)
    }

    pub(crate) fn flip(&mut self, file: &str, offset: u64, bit: u8) {
        self.flips.insert((file.to_owned(), offset, bit % 8));
    }

    /// Flips bits of bytes that were read.
    pub(crate) fn apply_flips(&self, file: &str, offset: u64, bytes: &mut [u8]) {
        for (_, at, bit) in self.flips.iter().filter(|(name, ..)| name == file) {
            let within = at.checked_sub(offset).and_then(|within| usize::try_from(within).ok());
            if let Some(byte) = within.and_then(|within| bytes.get_mut(within)) {
                *byte ^= 1 << bit;
            }
        }
    }

    /// Removes the flips of bytes that were written.
    pub(crate) fn clear_flips(&mut self, file: &str, offset: u64, len: u64) {
        self.flips
            .retain(|(name, at, _)| name != file || !(offset..offset.saturating_add(len)).contains(at));
    }
}
