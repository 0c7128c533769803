//! Ids of the things that the core counts and tracks.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

/// A position in the host's one total order of accepted actions (`serverSeq`).
///
/// Always below 2^53, so that JavaScript clients read it exactly, and never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Seq(pub u64);

impl Seq {
    /// The largest sequence number every client can represent exactly.
    pub const MAX: Self = Self((1 << 53) - 1);

    /// Returns the number that follows this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Identifies one connection while it is open.
///
/// The slot lets the host find its outbox by index; the generation keeps a late message of a closed connection from
/// reaching the one that reused its slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnId {
    /// Index into the shell's table of connections.
    pub slot: u32,
    /// Counts the connections that used this slot.
    pub generation: u32,
}

impl fmt::Display for ConnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.slot, self.generation)
    }
}

/// The identity that a client chose in `initialize`; it survives connections.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientId(Arc<str>);

impl ClientId {
    /// Wraps a client id that was checked by [`crate::protocol::uri::check_client_id`].
    pub fn new(id: &str) -> Self {
        Self(id.into())
    }

    /// Returns the id as it travels on the wire.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Identifies a channel inside the core. Never reused, so a late event of a disposed session can never reach a newer
/// one with the same URI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChannelId(pub u64);

/// Identifies one run of a turn by an agent. Events of an earlier run are dropped by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TurnKey(pub u64);

/// A map keyed by an id that the host counts. Clients cannot choose such keys, so the hash need not resist
/// collisions, and a lookup is a multiplication.
pub(crate) type IdMap<K, V> = HashMap<K, V, BuildHasherDefault<IdHasher>>;

/// Spreads a counted id over the bits of a hash.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u32(&mut self, part: u32) {
        self.write_u64(u64::from(part));
    }

    fn write_u64(&mut self, part: u64) {
        // Fibonacci hashing: the multiplier is 2^64 divided by the golden ratio.
        self.0 = (self.0.rotate_left(32) ^ part).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
}
