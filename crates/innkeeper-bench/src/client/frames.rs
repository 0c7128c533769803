//! The small part of RFC 6455 that a benchmark client needs.
//!
//! The client must cost little next to the server it measures, so this reads frames in place out of
//! one buffer. Long messages come in fragments, which are handed out one by one.

use anyhow::{Result, bail};

/// Room for a few hundred delta frames, so that one read call serves them all.
const INITIAL_CAPACITY: usize = 64 * 1024;
/// Far above the host's limits; a longer frame means that the stream is out of step.
const LONGEST_PAYLOAD: usize = 64 * 1024 * 1024;

/// The kind of a received frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FrameKind {
    /// A whole text message.
    Text,
    /// A part of a longer text message, but not its last.
    Fragment,
    /// The last part of a longer text message.
    LastFragment,
    /// The server ends the connection.
    Close,
    /// The server wants a pong with the same payload.
    Ping,
    /// An answer to a ping.
    Pong,
}

/// One received frame, borrowed from the buffer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Frame<'buffer> {
    /// Its kind.
    pub(crate) kind: FrameKind,
    /// Its payload without the header.
    pub(crate) payload: &'buffer [u8],
}

/// Bytes received and not yet taken, from which whole frames are taken in place.
pub(crate) struct FrameBuffer {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl FrameBuffer {
    /// Creates an empty buffer.
    pub(crate) fn new() -> Self {
        Self {
            bytes: vec![0; INITIAL_CAPACITY],
            start: 0,
            end: 0,
        }
    }

    /// Returns space to receive into; what was received is announced with [`Self::received`].
    pub(crate) fn space(&mut self) -> &mut [u8] {
        self.bytes.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        if self.end == self.bytes.len() {
            self.bytes.resize(self.bytes.len() * 2, 0);
        }
        &mut self.bytes[self.end..]
    }

    /// Adds the first `count` bytes of the last [`Self::space`] to the buffer.
    pub(crate) fn received(&mut self, count: usize) {
        self.end += count;
    }

    /// Takes the head of an HTTP response, up to and with its empty line, once it is complete.
    pub(crate) fn next_http_head(&mut self) -> Option<String> {
        let waiting = &self.bytes[self.start..self.end];
        let length = waiting.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
        let head = String::from_utf8_lossy(&waiting[..length]).into_owned();
        self.start += length;
        Some(head)
    }

    /// Takes the next frame, if it is there as a whole.
    pub(crate) fn next_frame(&mut self) -> Result<Option<Frame<'_>>> {
        let waiting = &self.bytes[self.start..self.end];
        let Some((header_length, payload_length)) = frame_lengths(waiting)? else {
            return Ok(None);
        };
        if waiting.len() < header_length + payload_length {
            return Ok(None);
        }
        let kind = frame_kind(waiting[0])?;
        let payload_start = self.start + header_length;
        self.start = payload_start + payload_length;
        Ok(Some(Frame {
            kind,
            payload: &self.bytes[payload_start..self.start],
        }))
    }
}

/// Encodes a text message from a client.
pub(crate) fn encode_text(text: &str) -> Vec<u8> {
    encode_client_frame(0x81, text.as_bytes())
}

/// Encodes the answer to a ping.
pub(crate) fn encode_pong(payload: &[u8]) -> Vec<u8> {
    encode_client_frame(0x8A, payload)
}

/// Encodes a normal close.
pub(crate) fn encode_close() -> Vec<u8> {
    encode_client_frame(0x88, &1000_u16.to_be_bytes())
}

/// Encodes a frame with an all-zero mask: clients must mask, but the mask protects browsers' proxies
/// only, and this one leaves the payload as it is.
fn encode_client_frame(first_byte: u8, payload: &[u8]) -> Vec<u8> {
    const MASKED: u8 = 0x80;
    let mut frame = Vec::with_capacity(payload.len() + 14);
    frame.push(first_byte);
    if let Ok(short @ 0..=125) = u8::try_from(payload.len()) {
        frame.push(MASKED | short);
    } else if let Ok(medium) = u16::try_from(payload.len()) {
        frame.push(MASKED | 126);
        frame.extend_from_slice(&medium.to_be_bytes());
    } else {
        frame.push(MASKED | 127);
        frame.extend_from_slice(&(payload.len() as u64).to_be_bytes());
    }
    frame.extend_from_slice(&[0; 4]);
    frame.extend_from_slice(payload);
    frame
}

/// Returns the lengths of header and payload once the header is complete.
fn frame_lengths(waiting: &[u8]) -> Result<Option<(usize, usize)>> {
    let [_, length_byte, rest @ ..] = waiting else {
        return Ok(None);
    };
    let lengths = match length_byte {
        0..=125 => (2, usize::from(*length_byte)),
        126 => match rest.first_chunk::<2>() {
            Some(length) => (4, usize::from(u16::from_be_bytes(*length))),
            None => return Ok(None),
        },
        127 => match rest.first_chunk::<8>() {
            Some(length) => (10, usize::try_from(u64::from_be_bytes(*length))?),
            None => return Ok(None),
        },
        128.. => bail!("the server sent a masked frame, which only clients may"),
    };
    if lengths.1 > LONGEST_PAYLOAD {
        bail!("the server announced a frame of {} bytes", lengths.1);
    }
    Ok(Some(lengths))
}

fn frame_kind(first_byte: u8) -> Result<FrameKind> {
    match first_byte {
        0x81 => Ok(FrameKind::Text),
        0x01 | 0x00 => Ok(FrameKind::Fragment),
        0x80 => Ok(FrameKind::LastFragment),
        0x88 => Ok(FrameKind::Close),
        0x89 => Ok(FrameKind::Ping),
        0x8A => Ok(FrameKind::Pong),
        other => bail!("the server sent a frame that starts with {other:#04x}; only text messages are expected"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server_text(payload: &[u8]) -> Vec<u8> {
        let mut frame = encode_client_frame(0x81, payload);
        frame[1] &= 0x7F;
        let mask_start = frame.len() - payload.len() - 4;
        frame.drain(mask_start..mask_start + 4);
        frame
    }

    fn receive(buffer: &mut FrameBuffer, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let space = buffer.space();
            let count = space.len().min(bytes.len());
            space[..count].copy_from_slice(&bytes[..count]);
            buffer.received(count);
            bytes = &bytes[count..];
        }
    }

    #[test]
    fn frames_of_all_length_forms_come_out_whole() {
        let payloads = [vec![b'a'; 5], vec![b'b'; 125], vec![b'c'; 126], vec![b'd'; 70_000]];
        let mut buffer = FrameBuffer::new();
        for payload in &payloads {
            receive(&mut buffer, &server_text(payload));
        }
        for payload in &payloads {
            let frame = buffer.next_frame().unwrap().unwrap();
            assert_eq!(
                frame,
                Frame {
                    kind: FrameKind::Text,
                    payload
                }
            );
        }
        assert_eq!(buffer.next_frame().unwrap(), None);
    }

    #[test]
    fn a_frame_that_arrives_byte_by_byte_is_waited_for() {
        let bytes = server_text(&[b'x'; 300]);
        let mut buffer = FrameBuffer::new();
        for byte in &bytes[..bytes.len() - 1] {
            receive(&mut buffer, &[*byte]);
            assert_eq!(buffer.next_frame().unwrap(), None);
        }
        receive(&mut buffer, &bytes[bytes.len() - 1..]);
        assert_eq!(buffer.next_frame().unwrap().unwrap().payload.len(), 300);
    }

    #[test]
    fn the_http_head_ends_where_frames_begin() {
        let mut buffer = FrameBuffer::new();
        receive(&mut buffer, b"HTTP/1.1 101 Switching Protocols\r\n");
        assert_eq!(buffer.next_http_head(), None);
        receive(&mut buffer, b"\r\n");
        receive(&mut buffer, &server_text(b"{}"));
        assert!(buffer.next_http_head().unwrap().starts_with("HTTP/1.1 101"));
        assert_eq!(buffer.next_frame().unwrap().unwrap().payload, b"{}");
    }

    #[test]
    fn fragments_and_whole_messages_are_distinguished() {
        let kinds = [
            (0x01_u8, FrameKind::Fragment),
            (0x00, FrameKind::Fragment),
            (0x80, FrameKind::LastFragment),
        ];
        for (first_byte, kind) in kinds {
            let mut buffer = FrameBuffer::new();
            receive(&mut buffer, &[first_byte, 1, b'x']);
            assert_eq!(buffer.next_frame().unwrap().unwrap().kind, kind);
        }
    }

    #[test]
    fn binary_and_masked_frames_are_refused() {
        for bytes in [&[0x82_u8, 0][..], &[0x81, 0x80, 0, 0, 0, 0]] {
            let mut buffer = FrameBuffer::new();
            receive(&mut buffer, bytes);
            assert!(buffer.next_frame().is_err());
        }
    }

    #[test]
    fn client_frames_are_masked() {
        assert_eq!(encode_text("hi"), [0x81, 0x82, 0, 0, 0, 0, b'h', b'i']);
        assert_eq!(encode_text(&"x".repeat(200))[1], 0x80 | 126);
        assert_eq!(encode_close(), [0x88, 0x82, 0, 0, 0, 0, 3, 232]);
    }
}
