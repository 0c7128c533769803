//! The message that the user writes, with its history and attachments.

use ahp_types::state::MessageAttachment;

use super::editor::Editor;

/// Messages that the history remembers.
const MAX_HISTORY: usize = 200;

/// The message of one chat.
#[derive(Clone, Debug, Default)]
pub struct Composer {
    /// The text.
    pub(crate) editor: Editor,
    /// Files and texts that go with the message.
    pub(crate) attachments: Vec<MessageAttachment>,
    /// The draft as the host knows it.
    pub(crate) synced: String,
    history_position: Option<usize>,
    /// The text that was being written when the user went into the history.
    unsent: String,
}

/// Messages that were sent, the latest last.
#[derive(Clone, Debug, Default)]
pub struct History {
    messages: Vec<String>,
}

impl History {
    /// Adds a message.
    pub(crate) fn push(&mut self, message: &str) {
        if message.trim().is_empty() || self.messages.last().is_some_and(|last| last == message) {
            return;
        }
        if self.messages.len() == MAX_HISTORY {
            self.messages.remove(0);
        }
        self.messages.push(message.to_owned());
    }
}

impl Composer {
    /// Takes the message out, if there is one.
    pub(crate) fn take(&mut self) -> Option<(String, Vec<MessageAttachment>)> {
        if self.editor.text().trim().is_empty() {
            return None;
        }
        self.history_position = None;
        Some((self.editor.take(), std::mem::take(&mut self.attachments)))
    }

    /// Puts a message back that could not be sent, before everything that was written since.
    pub(crate) fn put_back(&mut self, text: &str, mut attachments: Vec<MessageAttachment>) {
        let since = self.editor.take();
        self.editor = match since.trim().is_empty() {
            true => Editor::new(text),
            false => Editor::new(format!("{text}\n{since}")),
        };
        attachments.append(&mut self.attachments);
        self.attachments = attachments;
    }

    /// Shows the previous message.
    pub(crate) fn older(&mut self, history: &History) -> bool {
        let position = self.history_position.unwrap_or(history.messages.len());
        let Some(message) = position.checked_sub(1).and_then(|older| history.messages.get(older)) else {
            return false;
        };
        if self.history_position.is_none() {
            self.unsent = self.editor.text().to_owned();
        }
        self.editor = Editor::new(message.clone());
        self.history_position = Some(position - 1);
        true
    }

    /// Shows the next message, and after the last one the text that was being written.
    pub(crate) fn newer(&mut self, history: &History) -> bool {
        let Some(position) = self.history_position else {
            return false;
        };
        match history.messages.get(position + 1) {
            Some(message) => {
                self.editor = Editor::new(message.clone());
                self.history_position = Some(position + 1);
            }
            None => {
                self.editor = Editor::new(std::mem::take(&mut self.unsent));
                self.history_position = None;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_history_returns_to_the_unsent_text() {
        let mut history = History::default();
        history.push("one");
        history.push("two");
        history.push("two");
        let mut composer = Composer::default();
        composer.editor.insert("half");
        assert!(composer.older(&history));
        assert_eq!(composer.editor.text(), "two");
        assert!(composer.older(&history));
        assert!(!composer.older(&history));
        assert_eq!(composer.editor.text(), "one");
        assert!(composer.newer(&history) && composer.newer(&history));
        assert_eq!(composer.editor.text(), "half");
        assert!(!composer.newer(&history));
    }

    #[test]
    fn a_message_that_was_not_sent_comes_back_before_newer_text() {
        let mut composer = Composer::default();
        composer.editor.insert("lost");
        let (text, attachments) = composer.take().unwrap();
        composer.editor.insert("newer");
        composer.put_back(&text, attachments);
        assert_eq!(composer.editor.text(), "lost\nnewer");
    }
}
