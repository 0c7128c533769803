//! Messages that the tour agent remembers of a chat, which make forks, truncation and side chats visible.

use innkeeper_host::ChatContext;
use innkeeper_std::text::truncate_chars;

/// Maximum number of remembered messages.
const MAX_MESSAGES: usize = 20;
/// Maximum characters of a remembered message.
const MAX_CHARS: usize = 200;

/// The user's messages, and the parent conversation of a side chat.
#[derive(Debug, Default)]
pub(super) struct Memory {
    said: Vec<String>,
    aside: Option<String>,
    /// The text that the user asked to remember.
    note: Option<String>,
}

impl Memory {
    /// Restores the memory of a chat that is opened.
    pub(super) fn new(cx: &ChatContext) -> Self {
        let mut memory = Self::default();
        for turn in &cx.history {
            memory.add(&turn.text);
        }
        let about = cx.context.last().map(|turn| turn.text.as_str());
        memory.aside = cx.selection.as_deref().or(about).map(shorten);
        let note = cx.memory.as_ref().and_then(|memory| memory.get("note")?.as_str());
        memory.note = note.map(shorten);
        memory
    }

    /// Stores the text that the user asked to remember.
    pub(super) fn note(&mut self, text: &str) {
        self.note = Some(shorten(text));
    }

    /// Remembers a message.
    pub(super) fn add(&mut self, text: &str) {
        if self.said.len() == MAX_MESSAGES {
            self.said.remove(0);
        }
        self.said.push(shorten(text));
    }

    /// Describes the remembered messages.
    pub(super) fn recall(&self) -> String {
        let mut text = match &self.aside {
            Some(about) => format!("This chat was opened to talk about “{about}”.\n\n"),
            None => String::new(),
        };
        if let Some(note) = &self.note {
            text.push_str(&format!("You asked me to remember “{note}”.\n\n"));
        }
        if self.said.is_empty() {
            text.push_str("You have not said anything here yet.\n");
        } else {
            text.push_str("I remember that you said:\n\n");
            for said in &self.said {
                text.push_str(&format!("- {said}\n"));
            }
        }
        text
    }
}

fn shorten(text: &str) -> String {
    truncate_chars(text, MAX_CHARS).into_owned()
}
