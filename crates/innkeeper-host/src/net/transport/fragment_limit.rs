//! Counts the fragments of inbound WebSocket messages.
//!
//! The library bounds a message in bytes, but a message of empty fragments has none, and could go
//! on without end. This watches the heads of frames go by (RFC 6455, section 5.2) and changes nothing.

/// Follows a stream of frames.
#[derive(Debug)]
pub(super) struct FragmentCounter {
    most: usize,
    /// Fragments of the present message.
    fragments: usize,
    /// The head of the present frame, as far as it has arrived.
    head: [u8; MAX_HEAD],
    head_len: usize,
    /// Bytes of the present frame that are still to come.
    payload_left: u64,
}

/// Two bytes, eight of an extended length, four of a mask.
const MAX_HEAD: usize = 14;

/// A message came in too many pieces.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooManyFragments;

impl FragmentCounter {
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            fragments: 0,
            head: [0; MAX_HEAD],
            head_len: 0,
            payload_left: 0,
        }
    }

    /// Takes the next bytes of the stream.
    pub(super) fn feed(&mut self, mut bytes: &[u8]) -> Result<(), TooManyFragments> {
        while let Some((first, rest)) = bytes.split_first() {
            if self.payload_left > 0 {
                let skipped = bytes
                    .len()
                    .min(usize::try_from(self.payload_left).unwrap_or(usize::MAX));
                self.payload_left -= skipped as u64;
                bytes = &bytes[skipped..];
                continue;
            }
            self.head[self.head_len] = *first;
            self.head_len += 1;
            bytes = rest;
            if let Some(payload) = self.payload_of_complete_head() {
                self.head_len = 0;
                self.payload_left = payload;
                self.count(self.head[0] & 0x0f)?;
            }
        }
        Ok(())
    }

    fn payload_of_complete_head(&self) -> Option<u64> {
        let second = *self.head[..self.head_len].get(1)?;
        let mask_len = if second & 0x80 == 0 { 0 } else { 4 };
        let (extended_len, short) = match second & 0x7f {
            126 => (2, 0),
            127 => (8, 0),
            short => (0, u64::from(short)),
        };
        if self.head_len < 2 + extended_len + mask_len {
            return None;
        }
        let extended = self.head[2..2 + extended_len]
            .iter()
            .fold(0, |len, byte| len << 8 | u64::from(*byte));
        Some(if extended_len == 0 { short } else { extended })
    }

    fn count(&mut self, opcode: u8) -> Result<(), TooManyFragments> {
        match opcode {
            0 => self.fragments += 1,
            1 | 2 => self.fragments = 1,
            _ => {}
        }
        if self.fragments > self.most {
            Err(TooManyFragments)
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(opcode: u8, len: usize) -> Vec<u8> {
        let mut bytes = vec![opcode];
        match len {
            0..=125 => bytes.push(0x80 | len as u8),
            126..=65535 => {
                bytes.push(0x80 | 126);
                bytes.extend_from_slice(&(len as u16).to_be_bytes());
            }
            _ => {
                bytes.push(0x80 | 127);
                bytes.extend_from_slice(&(len as u64).to_be_bytes());
            }
        }
        bytes.extend_from_slice(&[1, 2, 3, 4]);
        bytes.resize(bytes.len() + len, 0x01);
        bytes
    }

    #[test]
    fn fragments_are_counted_per_message_however_the_bytes_are_cut() {
        let mut stream = Vec::new();
        for len in [0, 5, 125, 126, 70_000] {
            // A message of three fragments with a ping in between, then a whole one.
            stream.extend(frame(0x01, len));
            stream.extend(frame(0x00, len));
            stream.extend(frame(0x89, 4));
            stream.extend(frame(0x80, len));
            stream.extend(frame(0x82, len));
        }
        for cut in [1, 2, 3, 7, 1000, stream.len()] {
            let feed = |most| {
                let mut counter = FragmentCounter::new(most);
                stream.chunks(cut).try_for_each(|bytes| counter.feed(bytes))
            };
            assert_eq!(feed(3), Ok(()), "cut {cut}");
            assert_eq!(feed(2), Err(TooManyFragments), "cut {cut}");
        }
    }
}
