//! Completions of the message: files after an `@`, commands after a `/`.

use ahp_types::commands::{CompletionItem, CompletionsResult};
use ahp_types::state::MessageAttachment;
use serde_json::{Value, json};

use super::{App, Purpose};

/// Completions that are shown.
const MAX_ITEMS: usize = 8;

/// The open list of completions.
#[derive(Debug)]
pub struct Completion {
    pub(crate) items: Vec<CompletionItem>,
    pub(crate) cursor: usize,
}

impl App {
    /// Requests completions if the text before the cursor asks for some.
    pub(crate) fn request_completions(&mut self) {
        self.completion = None;
        let Some(chat) = self.chat_uri().map(str::to_owned) else {
            return;
        };
        let triggers = match self.info.triggers.is_empty() {
            true => vec!["@".to_owned(), "/".to_owned()],
            false => self.info.triggers.clone(),
        };
        let composer = self.composer();
        let (text, cursor) = (composer.editor.text().to_owned(), composer.editor.cursor());
        let before = text.get(..cursor).unwrap_or_default();
        let word = before.rsplit(char::is_whitespace).next().unwrap_or_default();
        let is_asked = triggers.iter().any(|trigger| match trigger.as_str() {
            // A command is the first word of a message.
            "/" => before.starts_with('/') && word == before,
            trigger => word.starts_with(trigger),
        });
        if !is_asked {
            return;
        }
        let offset = before.encode_utf16().count();
        let params = json!({ "channel": chat, "kind": "userMessage", "text": text, "offset": offset });
        self.request(Purpose::Completions(text), "completions", params);
    }

    /// Shows completions, unless the text has changed since.
    pub(super) fn take_completions(&mut self, text: &str, items: Value) {
        let Ok(result) = serde_json::from_value::<CompletionsResult>(items) else {
            return;
        };
        let mut items = result.items;
        items.truncate(MAX_ITEMS);
        if self.composer().editor.text() == text && !items.is_empty() {
            self.completion = Some(Completion { items, cursor: 0 });
        }
    }

    /// Moves in the list.
    pub(crate) fn step_completion(&mut self, down: isize) {
        if let Some(completion) = &mut self.completion {
            let last = completion.items.len().saturating_sub(1);
            completion.cursor = completion.cursor.saturating_add_signed(down).min(last);
        }
    }

    /// Inserts the chosen completion.
    pub(crate) fn accept_completion(&mut self) {
        let Some(completion) = self.completion.take() else {
            return;
        };
        let Some(item) = completion.items.into_iter().nth(completion.cursor) else {
            return;
        };
        let composer = self.composer();
        let text = composer.editor.text().to_owned();
        let cursor = text
            .get(..composer.editor.cursor())
            .unwrap_or_default()
            .encode_utf16()
            .count();
        let position = |at: Option<i64>, otherwise: usize| {
            let at = at.and_then(|at| usize::try_from(at).ok()).unwrap_or(otherwise);
            byte_offset(&text, at)
        };
        let start = position(item.range_start, cursor);
        let end = position(item.range_end, cursor);
        let space = if item.insert_text.ends_with(char::is_whitespace) {
            ""
        } else {
            " "
        };
        composer
            .editor
            .replace(start, end, &format!("{}{space}", item.insert_text));
        // A reference to a command or skill goes with the text; a file has to be attached.
        if matches!(item.attachment, MessageAttachment::Resource(_)) && !composer.attachments.contains(&item.attachment)
        {
            composer.attachments.push(item.attachment);
        }
    }
}

/// Converts an offset in UTF-16 units, which the protocol counts in, into bytes.
fn byte_offset(text: &str, units: usize) -> usize {
    let mut seen = 0;
    for (position, c) in text.char_indices() {
        if seen >= units {
            return position;
        }
        seen += c.len_utf16();
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_count_utf16_units() {
        assert_eq!(byte_offset("a𝄞b", 1), 1);
        assert_eq!(byte_offset("a𝄞b", 3), 5);
        assert_eq!(byte_offset("ab", 9), 2);
    }
}
