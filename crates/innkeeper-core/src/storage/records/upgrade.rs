//! Sessions of earlier versions, which had the contents of changed files in `data:` URIs.
//!
//! The stored rows stay as they are. They are rewritten whenever they are read, always in the same way, so that
//! snapshots, pages of turns and replays agree, also with forks and imports.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;

use super::{StoredSession, TurnSource};
use crate::resources::content::without_data;
use crate::resources::data_uri::is_data;

/// The beginning of such a URI in JSON.
const MARK: &str = "\"data:";

/// Turns as this version has them, whichever version stored them.
#[derive(Debug)]
struct Upgraded(Arc<dyn TurnSource>);

impl TurnSource for Upgraded {
    fn read(&self, chat: &str, range: Range<usize>) -> Result<Vec<Bytes>, String> {
        let rows = self.0.read(chat, range)?;
        Ok(rows.into_iter().map(upgraded).collect())
    }

    fn position(&self, chat: &str, turn_id: &str) -> Result<Option<usize>, String> {
        self.0.position(chat, turn_id)
    }
}

/// Reads turns as this version has them.
pub fn upgraded_turns(turns: Arc<dyn TurnSource>) -> Arc<dyn TurnSource> {
    Arc::new(Upgraded(turns))
}

/// A session as this version has it.
pub(super) fn upgraded_session(mut stored: StoredSession) -> StoredSession {
    stored.document = upgraded(stored.document);
    for chat in &mut stored.chats {
        chat.document = upgraded(std::mem::take(&mut chat.document));
        for turn in &mut chat.recent {
            *turn = upgraded(std::mem::take(turn));
        }
    }
    for frame in &mut stored.log {
        frame.bytes = upgraded(std::mem::take(&mut frame.bytes));
    }
    stored
}

fn upgraded(bytes: Bytes) -> Bytes {
    if !std::str::from_utf8(&bytes).is_ok_and(|text| text.contains(MARK)) {
        return bytes;
    }
    // The next reader of damaged JSON reports it.
    let Ok(mut value) = serde_json::from_slice::<Value>(&bytes) else {
        return bytes;
    };
    if !upgrade(&mut value) {
        return bytes;
    }
    serde_json::to_vec(&value).map_or(bytes, Bytes::from)
}

/// Rewrites both sides of every change of a file. Returns whether there was anything to rewrite.
fn upgrade(value: &mut Value) -> bool {
    match value {
        Value::Array(items) => items.iter_mut().fold(false, |changed, item| upgrade(item) | changed),
        Value::Object(fields) => {
            let mut changed = false;
            for (name, field) in fields {
                let is_side = name == "before" || name == "after";
                changed |= (is_side && upgrade_side(field)) | upgrade(field);
            }
            changed
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

fn upgrade_side(side: &mut Value) -> bool {
    let Some(file) = side.get("uri").and_then(Value::as_str).map(str::to_owned) else {
        return false;
    };
    let Some(Value::String(uri)) = side.pointer_mut("/content/uri") else {
        return false;
    };
    if !is_data(uri) {
        return false;
    }
    *uri = without_data(std::mem::take(uri), &file);
    true
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn turn(before: &str) -> Value {
        json!({ "id": "t1", "responseParts": [{ "kind": "toolCall", "toolCall": { "content": [
            { "type": "fileEdit", "before": { "uri": "file:///a%20b", "content": { "uri": before } },
              "after": { "uri": "file:///a%20b", "content": { "uri": "file:///a%20b" } } },
            { "type": "text", "text": "see \"data:text/plain,x\"" },
        ] } }], "z": 1.5, "a": 110000.00000000001 })
    }

    #[test]
    fn changes_of_files_are_rewritten_and_nothing_else() {
        let old = Bytes::from(turn("data:text/plain;charset=utf-8;base64,b25lCg==").to_string());
        let new = upgraded(old);
        assert_eq!(
            std::str::from_utf8(&new),
            Ok(turn("innkeeper-content://inline-6f6e650a/a%20b").to_string().as_str())
        );
        assert_eq!(upgraded(new.clone()), new, "once is enough");
        for untouched in [
            r#"{"id": 1,  "uri":"data:,a"}"#,
            r#"{"before":"data:,a"}"#,
            r#"{"before":{"content":{"uri":"data:,a"}}}"#,
            r#"{"before":{"uri":"a:b","content":{"uri":"data:,a"}}"#,
            "",
        ] {
            let bytes = Bytes::from(untouched);
            assert_eq!(upgraded(bytes.clone()), bytes, "{untouched}");
        }
    }
}
