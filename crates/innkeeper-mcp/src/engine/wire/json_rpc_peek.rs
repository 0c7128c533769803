//! Finds out which request a message answers without decoding the message: it is too large, or no valid JSON-RPC.

use innkeeper_std::event_stream::Oversized;

/// The longest name or value that is kept. Our ids are shorter.
const MAX_WORD_BYTES: usize = 32;

/// Reads a message byte by byte, however long it is, and finds the id of the request that it answers.
///
/// Only the outermost members count, so that no member of a result is mistaken for the id. Only answers have an id that
/// means anything here: a server may use the same ids for its own requests.
#[derive(Debug, Default)]
pub(super) struct JsonRpcPeek {
    depth: usize,
    is_in_text: bool,
    is_escaped: bool,
    /// The bytes at the outermost level since the last punctuation, up to [`MAX_WORD_BYTES`].
    kept: Vec<u8>,
    member: Member,
    id: Option<i64>,
    has_method: bool,
    has_answer: bool,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Member {
    Id,
    #[default]
    Other,
}

impl JsonRpcPeek {
    pub(super) fn of(message: &[u8]) -> Self {
        let mut peek = Self::default();
        peek.read(message);
        peek
    }

    /// Reads the next piece.
    pub(super) fn read(&mut self, mut piece: &[u8]) {
        while let Some((&byte, rest)) = piece.split_first() {
            piece = rest;
            if self.is_in_text {
                self.keep(byte);
                match byte {
                    _ if self.is_escaped => self.is_escaped = false,
                    b'\\' => self.is_escaped = true,
                    b'"' => self.is_in_text = false,
                    // Long texts are what makes messages long.
                    _ if self.depth != 1 => {
                        let end = piece.iter().position(|byte| matches!(byte, b'"' | b'\\'));
                        piece = piece.get(end.unwrap_or(piece.len())..).unwrap_or_default();
                    }
                    _ => {}
                }
                continue;
            }
            match byte {
                // Bytes before the message.
                _ if self.depth == 0 && !matches!(byte, b'{' | b'[') => {}
                b'"' => {
                    self.is_in_text = true;
                    self.keep(byte);
                }
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => {
                    if self.depth == 1 {
                        self.end_member();
                    }
                    self.depth = self.depth.saturating_sub(1);
                }
                b':' if self.depth == 1 => self.begin_value(),
                b',' if self.depth == 1 => self.end_member(),
                b' ' | b'\t' | b'\r' | b'\n' => {}
                _ => self.keep(byte),
            }
        }
    }

    /// Returns the id of the request that the message answers, if it is an answer.
    pub(super) fn answered(&self) -> Option<i64> {
        self.id.filter(|_| self.has_answer && !self.has_method)
    }

    fn keep(&mut self, byte: u8) {
        if self.depth == 1 && self.kept.len() < MAX_WORD_BYTES {
            self.kept.push(byte);
        }
    }

    fn begin_value(&mut self) {
        self.member = Member::Other;
        match self.kept.as_slice() {
            b"\"id\"" => self.member = Member::Id,
            b"\"method\"" => self.has_method = true,
            b"\"result\"" | b"\"error\"" => self.has_answer = true,
            _ => {}
        }
        self.kept.clear();
    }

    fn end_member(&mut self) {
        if self.member == Member::Id {
            // Some servers answer with the number as text.
            let text = std::str::from_utf8(&self.kept).unwrap_or_default().trim_matches('"');
            self.id = text.parse().ok();
        }
        self.member = Member::Other;
        self.kept.clear();
    }
}

impl Oversized for JsonRpcPeek {
    fn read(&mut self, data: &[u8]) {
        Self::read(self, data);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t26_only_answers_have_an_id() {
        let cases = [
            (r#"{"jsonrpc":"2.0","id":7,"result":{"id":1}}"#, Some(7)),
            (r#"{"result":{"id":1,"method":"x"},"jsonrpc":"2.0","id":7}"#, Some(7)),
            (r#"data: { "id" : "7" , "error" : "no" }"#, Some(7)),
            (r#"{"error":{"message":"a \"}, {\\\" b"},"id":7}"#, Some(7)),
            // Requests and notifications of the server, and what is no message.
            (r#"{"id":7,"method":"sampling/createMessage","params":{}}"#, None),
            (r#"{"params":{"result":{}},"id":7,"method":"m"}"#, None),
            (r#"{"method":"m","params":{"id":7,"result":{}}}"#, None),
            (r#"{"params":{"data":{"id":7,"result":1}},"method":"m"}"#, None),
            (r#"{"id":7,"message":"a line of a log"}"#, None),
            (r#"{"id":{"id":7},"result":{}}"#, None),
            (r#"[{"id":7,"result":{}}]"#, None),
            ("id 7 result", None),
            ("", None),
        ];
        for (message, id) in cases {
            assert_eq!(JsonRpcPeek::of(message.as_bytes()).answered(), id, "{message}");
            // In pieces, as it comes.
            let mut peek = JsonRpcPeek::default();
            message.as_bytes().chunks(3).for_each(|piece| peek.read(piece));
            assert_eq!(peek.answered(), id, "{message}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_can_be_read(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..400)) {
            let _ = JsonRpcPeek::of(&bytes).answered();
        }
    }
}
