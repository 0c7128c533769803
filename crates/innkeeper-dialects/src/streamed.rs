//! Streamed output for clients that know no chats (0.3 and older), without parsing it.
//!
//! Nearly all messages are streamed output, and of one chat they all begin with the same bytes, up to the name of the
//! action. Only these bytes differ between the versions, so they are replaced and the rest of the message stays shared.

use std::sync::Arc;

use serde_json::Value;

use crate::version::Version;

/// The first bytes of an `action` message, as the host encodes it.
const MESSAGE: &str = r#"{"jsonrpc":"2.0","method":"action","params":"#;

/// The chat that an encoded message is about. A URI that is escaped in JSON is not read; it takes the way of all other
/// messages.
pub(crate) fn channel_of(message: &[u8]) -> Option<&str> {
    let rest = message.strip_prefix(MESSAGE.as_bytes())?;
    let rest = rest.strip_prefix(br#"{"channel":""#)?;
    let end = rest.iter().position(|byte| matches!(byte, b'"' | b'\\'))?;
    (rest[end] == b'"').then(|| std::str::from_utf8(&rest[..end]).ok())?
}

/// The first bytes of the streamed output of one chat.
#[derive(Debug)]
pub(crate) struct StreamedHead {
    of_chat: Box<[u8]>,
    of_session: Arc<[u8]>,
}

impl StreamedHead {
    /// The heads of a chat that is shown as this session.
    pub(crate) fn new(chat: &str, session: &str, version: Version) -> Self {
        let [chat, session] = [chat, session].map(Value::from);
        let of_chat = format!(r#"{MESSAGE}{{"channel":{chat},"action":{{"type":"chat/"#);
        let of_session = match version.has_channels() {
            true => format!(r#"{MESSAGE}{{"channel":{session},"action":{{"type":"session/"#),
            false => format!(r#"{MESSAGE}{{"action":{{"session":{session},"type":"session/"#),
        };
        Self {
            of_chat: of_chat.into_bytes().into(),
            of_session: of_session.into_bytes().into(),
        }
    }

    /// Whether a message is of this chat.
    pub(crate) fn begins(&self, message: &[u8]) -> bool {
        message.starts_with(&self.of_chat)
    }

    /// The bytes with which the message begins for the client, and the number of bytes that they replace.
    pub(crate) fn replacement(&self) -> (Arc<[u8]>, usize) {
        (Arc::clone(&self.of_session), self.of_chat.len())
    }
}
