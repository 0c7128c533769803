//! Lines with a bound. Longer ones are left out, after finding out which request they answer.

use std::io;

use tokio::io::{AsyncBufRead, AsyncBufReadExt as _};

use super::json_rpc_peek::JsonRpcPeek;

/// A line of a server.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// A line, without its end.
    Text(Vec<u8>),
    /// A line that was too long, and the id of the request that it answers, if it is an answer.
    TooLong(Option<i64>),
}

/// Reads the next line; nothing at the end.
pub(crate) async fn read_line(reader: &mut (impl AsyncBufRead + Unpin), most: usize) -> io::Result<Option<Line>> {
    let mut line = Vec::new();
    let mut too_long: Option<JsonRpcPeek> = None;
    loop {
        let buffer = reader.fill_buf().await?;
        if buffer.is_empty() {
            return Ok((!line.is_empty() || too_long.is_some()).then(|| finish(line, too_long)));
        }
        let newline = buffer.iter().position(|byte| *byte == b'\n');
        let piece = buffer.get(..newline.unwrap_or(buffer.len())).unwrap_or_default();
        if let Some(peek) = &mut too_long {
            peek.read(piece);
        } else if line.len() + piece.len() > most {
            let mut peek = JsonRpcPeek::of(&std::mem::take(&mut line));
            peek.read(piece);
            too_long = Some(peek);
        } else {
            line.extend_from_slice(piece);
        }
        let used = newline.map_or(buffer.len(), |position| position + 1);
        reader.consume(used);
        if newline.is_some() {
            return Ok(Some(finish(line, too_long)));
        }
    }
}

fn finish(mut line: Vec<u8>, too_long: Option<JsonRpcPeek>) -> Line {
    match too_long {
        Some(peek) => Line::TooLong(peek.answered()),
        None => {
            if line.last() == Some(&b'\r') {
                line.pop();
            }
            Line::Text(line)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn lines(text: &[u8], most: usize) -> Vec<Line> {
        // A small buffer, so that lines come in pieces.
        let mut reader = tokio::io::BufReader::with_capacity(7, text);
        let mut lines = Vec::new();
        while let Some(line) = read_line(&mut reader, most).await.unwrap() {
            lines.push(line);
        }
        lines
    }

    fn text(text: &str) -> Line {
        Line::Text(text.as_bytes().to_vec())
    }

    #[tokio::test]
    async fn lines_with_and_without_an_end() {
        let expected = [text("one"), text(""), text("two"), text("three")];
        assert_eq!(lines(b"one\n\r\ntwo\r\nthree", 100).await, expected);
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_read_to_their_end(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..400), most in 0_usize..50) {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let found = runtime.block_on(lines(&bytes, most));
            let expected = bytes.split_inclusive(|byte| *byte == b'\n').count();
            // An end without a line is none.
            proptest::prop_assert!(found.len() <= expected);
            for line in found {
                if let Line::Text(line) = line {
                    proptest::prop_assert!(line.len() <= most);
                }
            }
        }
    }

    #[tokio::test]
    async fn t26_a_line_that_is_too_long_is_left_out_and_answered() {
        let long = "x".repeat(20_000);
        let cases = [
            (
                format!(r#"{{"jsonrpc":"2.0","id":7,"result":{{"id":1,"a":"{long}"}}}}"#),
                Some(7),
            ),
            (
                format!(r#"{{"result":{{"a":"{long}","id":1}},"jsonrpc":"2.0","id":7}}"#),
                Some(7),
            ),
            (format!(r#"{{"result":{{"a":"{long}","id":1}}}}"#), None),
            // Messages that are no answers have ids of their own, which may equal those of a call.
            (
                format!(r#"{{"jsonrpc":"2.0","id":7,"method":"sampling/createMessage","params":{{"a":"{long}"}}}}"#),
                None,
            ),
            (
                format!(r#"{{"params":{{"a":"{long}"}},"id":7,"method":"sampling/createMessage"}}"#),
                None,
            ),
            (
                format!(r#"{{"method":"notifications/message","params":{{"data":{{"id":7,"result":"{long}"}}}}}}"#),
                None,
            ),
            (long.clone(), None),
        ];
        for (line, id) in cases {
            let found = lines(format!("{line}\nnext\n").as_bytes(), 1000).await;
            assert_eq!(found, [Line::TooLong(id), text("next")]);
        }
    }
}
