//! One source of decisions for seeds, property tests and the fuzzer: a string of bytes.

/// Reads decisions from bytes. An exhausted source answers zero, so every string is a valid run.
#[derive(Debug)]
pub struct Choices<'a> {
    bytes: &'a [u8],
}

impl<'a> Choices<'a> {
    /// Decides by these bytes.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// Whether no decision is left.
    pub fn is_exhausted(&self) -> bool {
        self.bytes.is_empty()
    }

    /// A number below `bound`; one byte decides, so bounds above 256 are not reached.
    pub fn below(&mut self, bound: usize) -> usize {
        match self.bytes.split_first() {
            Some((first, rest)) => {
                self.bytes = rest;
                usize::from(*first) % bound.max(1)
            }
            None => 0,
        }
    }

    /// One of the given things.
    pub fn pick<'t, T>(&mut self, things: &'t [T]) -> Option<&'t T> {
        match things.len() {
            0 => None,
            len => things.get(self.below(len)),
        }
    }

    /// True once in `n` on average.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == n - 1
    }
}

/// Expands a seed to a run's worth of bytes (SplitMix64), the same on every machine.
pub fn bytes_from_seed(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(1);
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bytes.extend_from_slice(&(mixed ^ (mixed >> 31)).to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}
