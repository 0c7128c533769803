//! The outermost members of a message that is not read: too long, or no MCP.

use rmcp::model::RequestId;

/// The most that is kept of a name or a value; ids of ours are shorter.
const MOST_KEPT: usize = 32;

/// Looks at a message byte by byte, however long it is, and finds out whose answer it is.
///
/// Only what stands at the outermost level counts, so that no member of a result is mistaken for the id; and only an
/// answer has one that means anything here: the ids of a server's own requests are its own, and may be the same.
#[derive(Debug, Default)]
pub(super) struct Outline {
    depth: usize,
    is_in_text: bool,
    is_escaped: bool,
    /// What was read at the outermost level since the last sign, as far as it is kept.
    kept: Vec<u8>,
    member: Member,
    id: Option<RequestId>,
    has_method: bool,
    has_answer: bool,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Member {
    Id,
    #[default]
    Other,
}

impl Outline {
    pub(super) fn of(message: &[u8]) -> Self {
        let mut outline = Self::default();
        outline.read(message);
        outline
    }

    /// Goes on with the next piece.
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
                // What stands before the message.
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

    /// The request that it answers; nothing if it is no answer.
    pub(super) fn answers(&self) -> Option<RequestId> {
        self.id.clone().filter(|_| self.has_answer && !self.has_method)
    }

    fn keep(&mut self, byte: u8) {
        if self.depth == 1 && self.kept.len() < MOST_KEPT {
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
            self.id = text.parse().ok().map(RequestId::Number);
        }
        self.member = Member::Other;
        self.kept.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t26_only_an_answer_has_an_id_that_counts() {
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
            let id = id.map(RequestId::Number);
            assert_eq!(Outline::of(message.as_bytes()).answers(), id, "{message}");
            // In pieces, as it comes.
            let mut outline = Outline::default();
            message.as_bytes().chunks(3).for_each(|piece| outline.read(piece));
            assert_eq!(outline.answers(), id, "{message}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_looked_at(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..400)) {
            let _ = Outline::of(&bytes).answers();
        }
    }
}
