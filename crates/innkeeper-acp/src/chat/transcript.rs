//! The conversation of a chat in words, for an agent that has lost it.

use std::collections::VecDeque;

use innkeeper_host::agent::{PastOutcome, PastTurn};
use innkeeper_std::text::truncate_chars;

/// Characters of a transcript that an agent gets.
const MAX_CHARS: usize = 100_000;
/// Characters of one message.
const MAX_MESSAGE: usize = 20_000;

/// The latest turns of a chat.
#[derive(Debug, Default)]
pub(crate) struct Transcript {
    turns: VecDeque<(String, String)>,
    chars: usize,
    /// Whether earlier turns were left out.
    is_cut: bool,
}

impl Transcript {
    /// Takes the turns that a chat had when it was opened.
    pub(crate) fn of(history: &[PastTurn], omitted_turns: usize) -> Self {
        let mut transcript = Self {
            is_cut: omitted_turns > 0,
            ..Self::default()
        };
        for turn in history {
            transcript.add(&turn.text, &reply(turn));
        }
        transcript
    }

    /// Adds a turn.
    pub(crate) fn add(&mut self, message: &str, reply: &str) {
        let message = truncate_chars(message, MAX_MESSAGE).into_owned();
        let reply = truncate_chars(reply, MAX_MESSAGE).into_owned();
        self.chars += message.chars().count() + reply.chars().count();
        self.turns.push_back((message, reply));
        while self.chars > MAX_CHARS
            && let Some((message, reply)) = self.turns.pop_front()
        {
            self.chars -= message.chars().count() + reply.chars().count();
            self.is_cut = true;
        }
    }

    /// Returns the conversation for the agent; `None` if nothing was said.
    pub(crate) fn in_words(&self) -> Option<String> {
        if self.turns.is_empty() {
            return None;
        }
        let mut text =
            "This conversation began earlier, and you do not have it in your context any more. Everything below \
                        has already happened; do not repeat it, and do not mention this note.\n\n<conversation>\n"
                .to_owned();
        if self.is_cut {
            text.push_str("[earlier messages are left out]\n");
        }
        for (message, reply) in &self.turns {
            text.push_str(&format!(
                "<user>\n{message}\n</user>\n<assistant>\n{reply}\n</assistant>\n"
            ));
        }
        text.push_str("</conversation>");
        Some(text)
    }
}

fn reply(turn: &PastTurn) -> String {
    let mut reply = turn.reply.clone();
    for tool in &turn.tools {
        let how = if tool.success { "" } else { " (failed)" };
        let input = truncate_chars(&tool.input, 500);
        reply.push_str(&format!("\n[used the tool {}{how}: {input}]", tool.name));
    }
    match turn.outcome {
        PastOutcome::Complete | PastOutcome::Unfinished => {}
        PastOutcome::Cancelled => reply.push_str("\n[the user stopped this answer]"),
        PastOutcome::Failed => reply.push_str("\n[this answer ended with an error]"),
    }
    reply
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_turns_are_told_within_a_bound() {
        let mut transcript = Transcript::default();
        assert_eq!(transcript.in_words(), None);
        for number in 0..100 {
            transcript.add(&format!("question {number}"), &"word ".repeat(1000));
        }
        let words = transcript.in_words().expect("a conversation");
        assert!(words.len() < 2 * MAX_CHARS, "{}", words.len());
        assert!(words.contains("question 99") && !words.contains("question 0\n"));
        assert!(words.contains("earlier messages are left out"));
    }
}
