//! Newline-delimited JSON over any pair of byte streams: stdio, pipes, in-memory duplexes.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use innkeeper_core::Wire;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::chunks::Chunks;
use super::{Received, Sink, Source, flush_steadily, write_steadily};
use crate::net::close::Close;

/// Reads one message per line.
#[derive(Debug)]
pub struct LineSource<R> {
    reader: R,
    buffer: BytesMut,
    /// How far the buffer was searched for a newline.
    searched: usize,
    max_bytes: usize,
}

impl<R> LineSource<R> {
    /// Reads lines of at most `max_bytes`.
    pub fn new(reader: R, max_bytes: usize) -> Self {
        Self {
            reader,
            buffer: BytesMut::new(),
            searched: 0,
            max_bytes,
        }
    }
}

impl<R: AsyncRead + Unpin + Send + 'static> Source for LineSource<R> {
    fn answers_pings(&self) -> bool {
        false
    }

    async fn drain(&mut self) {
        loop {
            self.buffer.clear();
            if !matches!(self.reader.read_buf(&mut self.buffer).await, Ok(1..)) {
                return;
            }
        }
    }

    async fn next(&mut self) -> Received {
        loop {
            if let Some(offset) = self.buffer[self.searched..].iter().position(|byte| *byte == b'\n') {
                let mut line = self.buffer.split_to(self.searched + offset + 1);
                self.searched = 0;
                line.truncate(line.len() - 1);
                if line.last() == Some(&b'\r') {
                    line.truncate(line.len() - 1);
                }
                if line.len() > self.max_bytes {
                    return Received::Violation(Close::TooLarge);
                }
                if line.iter().all(u8::is_ascii_whitespace) {
                    continue;
                }
                return Received::Message(line.freeze());
            }
            self.searched = self.buffer.len();
            if self.buffer.len() > self.max_bytes {
                return Received::Violation(Close::TooLarge);
            }
            match self.reader.read_buf(&mut self.buffer).await {
                Ok(0) | Err(_) => return Received::Closed,
                Ok(_) => {}
            }
        }
    }
}

/// Writes one message per line.
#[derive(Debug)]
pub struct LineSink<W> {
    writer: W,
    timeout: Duration,
}

impl<W> LineSink<W> {
    /// Writes to the given stream, whose other end must take something within `timeout`.
    pub fn new(writer: W, timeout: Duration) -> Self {
        Self { writer, timeout }
    }
}

impl<W: AsyncWrite + Unpin + Send + 'static> Sink for LineSink<W> {
    async fn write(&mut self, messages: Vec<Wire>) -> io::Result<()> {
        // JSON escapes newlines inside strings, so one in the text would be our own mistake.
        let encoded = messages.iter().filter_map(Wire::encoded_len);
        let mut lines = Vec::with_capacity(encoded.map(|bytes| bytes + 1).sum());
        for message in messages {
            match &message {
                Wire::Action(frame) => lines.extend_from_slice(&frame.bytes),
                Wire::Reheaded(frame) => frame.parts().iter().for_each(|part| lines.extend_from_slice(part)),
                Wire::Text(text) | Wire::Answer(text, _) => lines.extend_from_slice(text),
                Wire::Stream(answer) => {
                    write_steadily(&mut self.writer, &lines, self.timeout).await?;
                    lines.clear();
                    let mut chunks = Chunks::of(Arc::clone(answer));
                    while let Some(chunk) = chunks.next().await? {
                        write_steadily(&mut self.writer, &chunk, self.timeout).await?;
                    }
                }
            }
            lines.push(b'\n');
        }
        write_steadily(&mut self.writer, &lines, self.timeout).await?;
        flush_steadily(&mut self.writer, self.timeout).await
    }

    async fn urgent(&mut self) {
        std::future::pending().await
    }

    async fn ping(&mut self) -> io::Result<()> {
        Ok(())
    }

    async fn close(&mut self, _: Close) -> io::Result<()> {
        self.writer.shutdown().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read_all(input: &'static [u8], max_bytes: usize) -> Vec<String> {
        let mut source = LineSource::new(input, max_bytes);
        let mut seen = Vec::new();
        loop {
            match source.next().await {
                Received::Message(line) => seen.push(String::from_utf8_lossy(&line).into_owned()),
                Received::Closed => return seen,
                Received::Violation(close) => {
                    seen.push(format!("closed {}", close.code()));
                    return seen;
                }
                Received::Alive => {}
            }
        }
    }

    #[tokio::test]
    async fn lines_are_messages_and_blank_ones_are_not() {
        assert_eq!(
            read_all(b"{}\n\r\n  \n[1]\r\nlast without newline", 100).await,
            ["{}", "[1]"]
        );
    }

    #[tokio::test]
    async fn a_line_beyond_the_limit_ends_the_connection() {
        assert_eq!(read_all(b"1234\n12345\n", 4).await, ["1234", "closed 1009"]);
        assert_eq!(read_all(b"123456789", 4).await, ["closed 1009"]);
    }
}
