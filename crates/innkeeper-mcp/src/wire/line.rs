//! Lines with a bound: a longer one is left out, but not without finding out whose answer it was.

use std::io;

use rmcp::model::RequestId;
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _};

/// How much of the beginning and of the end of a line that is too long is looked at.
const EDGE: usize = 4 << 10;

/// A line of a server.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// A line, without its end.
    Text(Vec<u8>),
    /// A line that was too long, and the request that it answers, if that could be found.
    TooLong(Option<RequestId>),
}

/// Reads the next line; nothing at the end.
pub(crate) async fn read_line(reader: &mut (impl AsyncBufRead + Unpin), most: usize) -> io::Result<Option<Line>> {
    let mut line = Vec::new();
    let mut end_of_long: Option<Vec<u8>> = None;
    loop {
        let buffer = reader.fill_buf().await?;
        if buffer.is_empty() {
            return Ok((!line.is_empty()).then(|| finish(line, end_of_long)));
        }
        let newline = buffer.iter().position(|byte| *byte == b'\n');
        let piece = buffer.get(..newline.unwrap_or(buffer.len())).unwrap_or_default();
        if let Some(end) = &mut end_of_long {
            end.extend_from_slice(piece);
            keep_end(end);
        } else if line.len() + piece.len() > most {
            let mut end = line.split_off(line.len().min(EDGE));
            end.extend_from_slice(piece);
            keep_end(&mut end);
            line.shrink_to_fit();
            end_of_long = Some(end);
        } else {
            line.extend_from_slice(piece);
        }
        let used = newline.map_or(buffer.len(), |position| position + 1);
        reader.consume(used);
        if newline.is_some() {
            return Ok(Some(finish(line, end_of_long)));
        }
    }
}

fn keep_end(end: &mut Vec<u8>) {
    if end.len() > EDGE {
        end.drain(..end.len() - EDGE);
    }
}

fn finish(mut line: Vec<u8>, end_of_long: Option<Vec<u8>>) -> Line {
    match end_of_long {
        Some(end) => Line::TooLong(find_id(&line, &end)),
        None => {
            if line.last() == Some(&b'\r') {
                line.pop();
            }
            Line::Text(line)
        }
    }
}

/// The `id` of an answer stands before its result or after it. A member of the result with the same
/// name is not mistaken for it: only what is at the outermost level counts.
pub(crate) fn find_id(beginning: &[u8], end: &[u8]) -> Option<RequestId> {
    id_at_the_beginning(beginning).or_else(|| id_at_the_end(end))
}

fn id_at_the_beginning(bytes: &[u8]) -> Option<RequestId> {
    let text = String::from_utf8_lossy(bytes);
    let before_result = text.split("\"result\"").next()?;
    let after = before_result.split("\"id\"").nth(1)?;
    number(after)
}

fn id_at_the_end(bytes: &[u8]) -> Option<RequestId> {
    let text = String::from_utf8_lossy(bytes);
    let (before, after) = text.rsplit_once("\"id\"")?;
    // Behind the outermost result nothing else is opened or closed but the message itself.
    let is_outermost = after.matches('}').count() == 1 && after.trim_end().ends_with('}') && !before.is_empty();
    is_outermost.then(|| number(after)).flatten()
}

fn number(after_name: &str) -> Option<RequestId> {
    let digits = after_name.trim_start().strip_prefix(':')?.trim_start();
    let digits: String = digits
        .trim_start_matches('"')
        .chars()
        .take_while(char::is_ascii_digit)
        .collect();
    digits.parse().ok().map(RequestId::Number)
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
            (long.clone(), None),
        ];
        for (line, id) in cases {
            let found = lines(format!("{line}\nnext\n").as_bytes(), 1000).await;
            assert_eq!(found, [Line::TooLong(id.map(RequestId::Number)), text("next")]);
        }
    }
}
