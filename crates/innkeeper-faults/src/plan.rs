//! Which operations fail, and how.

use std::collections::BTreeSet;

/// A kind of operation on a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Op {
    /// A file is opened, or created.
    Open,
    /// Bytes are read.
    Read,
    /// Bytes are written.
    Write,
    /// A file is cut to a size.
    Truncate,
    /// A file is synced.
    Sync,
    /// A file is deleted.
    Delete,
    /// Shared memory of a WAL is mapped.
    Map,
}

impl Op {
    /// All of them.
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
    /// With the error for input and output that belongs to the operation.
    Io,
    /// With `SQLITE_FULL`.
    Full,
    /// With `SQLITE_READONLY`.
    ReadOnly,
    /// With an error after half of it: a write leaves its first half behind, and a read brings only
    /// its first half. Any other operation fails as with [`Fault::Io`].
    Short,
    /// The disk stops with this operation, as [`Disk::stop`](crate::Disk::stop) does.
    Stop,
}

/// How many operations of each kind there were, with those that failed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts([u64; Op::ALL.len()]);

impl Counts {
    /// How many there were of one kind.
    pub fn of(&self, op: Op) -> u64 {
        self.0[op as usize]
    }
}

/// What is going to fail.
#[derive(Debug, Default)]
pub(crate) struct FaultPlan {
    pub(crate) counts: Counts,
    rules: Vec<Rule>,
    /// The bytes that all files together may take.
    pub(crate) capacity: Option<u64>,
    pub(crate) read_only: bool,
    pub(crate) stopped: bool,
    /// Syncs do nothing and succeed.
    pub(crate) ignores_syncs: bool,
    /// Bits of a file that are read wrong, until the byte is written again.
    flips: BTreeSet<(String, u64, u8)>,
}

#[derive(Debug)]
struct Rule {
    op: Op,
    /// By the count of operations of its kind.
    first: u64,
    last: u64,
    fault: Fault,
}

impl FaultPlan {
    /// Makes operations fail from the `n`th of its kind from now on, which is 1 for the next one.
    pub(crate) fn fail(&mut self, op: Op, n: u64, how_many: u64, fault: Fault) {
        let first = self.counts.of(op).saturating_add(n.max(1));
        let last = first.saturating_add(how_many.max(1) - 1);
        self.rules.push(Rule { op, first, last, fault });
    }

    /// Nothing fails any more.
    pub(crate) fn clear_faults(&mut self) {
        *self = Self {
            counts: self.counts,
            ..Self::default()
        };
    }

    /// Counts an operation and tells whether it fails.
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

    /// Flips what is to be flipped of bytes that were read.
    pub(crate) fn apply_flips(&self, file: &str, offset: u64, bytes: &mut [u8]) {
        for (_, at, bit) in self.flips.iter().filter(|(name, ..)| name == file) {
            let within = at.checked_sub(offset).and_then(|within| usize::try_from(within).ok());
            if let Some(byte) = within.and_then(|within| bytes.get_mut(within)) {
                *byte ^= 1 << bit;
            }
        }
    }

    /// Bytes that were written anew are good again.
    pub(crate) fn clear_flips(&mut self, file: &str, offset: u64, len: u64) {
        self.flips
            .retain(|(name, at, _)| name != file || !(offset..offset.saturating_add(len)).contains(at));
    }
}
