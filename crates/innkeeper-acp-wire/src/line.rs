//! Lines with a bound.

use std::io;

use tokio::io::{AsyncBufRead, AsyncBufReadExt as _};

/// Reads the next line without its end; nothing at the end of the stream.
///
/// # Errors
///
/// With [`io::ErrorKind::InvalidData`] if the line is longer than `most` bytes.
pub(crate) async fn read(reader: &mut (impl AsyncBufRead + Unpin), most: usize) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    loop {
        let buffer = reader.fill_buf().await?;
        if buffer.is_empty() {
            return Ok((!line.is_empty()).then_some(line));
        }
        let newline = buffer.iter().position(|byte| *byte == b'\n');
        let piece = buffer.get(..newline.unwrap_or(buffer.len())).unwrap_or_default();
        if line.len() + piece.len() > most {
            return Err(io::ErrorKind::InvalidData.into());
        }
        line.extend_from_slice(piece);
        let used = newline.map_or(buffer.len(), |position| position + 1);
        reader.consume(used);
        if newline.is_some() {
            return Ok(Some(line));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lines_have_a_bound_and_need_no_end() {
        let mut reader = tokio::io::BufReader::with_capacity(3, &b"one\n\ntwo"[..]);
        let mut lines = Vec::new();
        while let Some(line) = read(&mut reader, 3).await.expect("short lines") {
            lines.push(String::from_utf8(line).expect("text"));
        }
        assert_eq!(lines, ["one", "", "two"]);
        let mut reader = &b"four\n"[..];
        let error = read(&mut reader, 3).await.expect_err("too long");
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }
}
