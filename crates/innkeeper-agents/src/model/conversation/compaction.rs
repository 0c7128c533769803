//! Compaction: replaces the beginning of a conversation by a summary when it exceeds the context window. User
//! messages stay verbatim.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use innkeeper_std::text::truncate;

use super::summary::Summary;
use super::tokens::tokens_in;
use super::{Conversation, ConversationEntry, Speaker, user};
use crate::model::agent::models::Model;
use crate::model::api::{AssistantPart, Effort, ModelMessage, ModelRequest, UserPart};

/// Maximum bytes of one tool output in the transcript to summarise.
const MAX_OUTPUT: usize = 2000;

const INSTRUCTIONS: &str = "You shorten the beginning of a conversation between a user and a coding agent, so that \
    the agent can go on without it. Write down, in plain text and in the language of the user: what was decided \
    and why; which files were read or changed and what is in them that matters; commands that were run and how they \
    ended; what is done, what is not, what comes next. Leave out pleasantries. The user's own messages are kept \
    elsewhere; do not repeat it.";

/// Maximum tokens of a summary, including the reasoning of models that reason.
const MAX_SUMMARY_TOKENS: u32 = 6000;
/// Maximum bytes of a line in a summary made without a model.
const MAX_LINE: usize = 200;

/// A planned compaction.
#[derive(Debug)]
pub(in crate::model) struct Compaction {
    /// Number of messages from the beginning that are replaced.
    count: usize,
    /// Estimated tokens of the replaced messages that are not from the user.
    pub(in crate::model) gain: usize,
    /// User messages among the replaced ones.
    user_messages: Vec<String>,
    /// The last turn that is replaced completely, if any.
    through: Option<Arc<str>>,
    /// Ids of the available rules and skills, if known. Pinned instructions with other ids are dropped.
    available: Option<HashSet<String>>,
}

impl Compaction {
    /// Plans a compaction that keeps the latest messages within `keep` tokens. Returns `None` if nothing can be
    /// shortened.
    pub(in crate::model) fn plan(conversation: &Conversation, keep: usize) -> Option<Self> {
        let entries = conversation.entries();
        let last = entries.len().checked_sub(1)?;
        // Keep at least the last message: it is the one to answer.
        let mut count = entries
            .len()
            .saturating_sub(conversation.messages_within(keep))
            .min(last);
        // Keep tool results together with their calls.
        while count > 0 && entries.get(count).is_some_and(|entry| entry.speaker == Speaker::Tools) {
            count -= 1;
        }
        let old = entries.get(..count)?;
        if !old.iter().any(can_be_shortened) {
            return None;
        }
        let machine = old.iter().filter(|entry| entry.speaker != Speaker::User);
        let next = entries.get(count).and_then(|entry| entry.turn.as_ref());
        let turns = old.iter().rev().filter_map(|entry| entry.turn.as_ref());
        Some(Self {
            through: turns.filter(|turn| Some(*turn) != next).map(Arc::clone).next(),
            gain: machine.map(savable).sum(),
            count,
            user_messages: old.iter().flat_map(user_messages_of).collect(),
            available: None,
        })
    }

    /// Keeps only pinned instructions with these ids; others were disabled or deleted.
    pub(in crate::model) fn with_available(mut self, ids: Option<HashSet<String>>) -> Self {
        self.available = ids;
        self
    }

    fn replace(self, conversation: &mut Conversation, text: String) {
        let summary = Summary {
            user_messages: self.user_messages,
            text,
            pinned: Vec::new(),
        };
        let available = self.available;
        conversation.replace_first(self.count, summary, |pinned| {
            available
                .as_ref()
                .is_none_or(|available| available.contains(&pinned.id))
        });
    }

    /// Builds the summary request. Its transcript has at most `tokens` tokens.
    pub(in crate::model) fn request(&self, conversation: &Conversation, model: &Model, tokens: usize) -> ModelRequest {
        let old = conversation.entries().iter().take(self.count);
        let lines: Vec<String> = old.flat_map(transcript_lines).collect();
        let text = latest(&lines, tokens.saturating_mul(4)).join("\n\n");
        ModelRequest {
            model: model.id.clone(),
            system: vec![INSTRUCTIONS.to_owned()],
            messages: vec![user(text)],
            max_output_tokens: Some(MAX_SUMMARY_TOKENS),
            effort: model.accepts_effort.then_some(Effort::Low),
            ..ModelRequest::default()
        }
    }

    /// Replaces the beginning by the summary.
    pub(in crate::model) fn apply(self, conversation: &mut Conversation, text: &str) {
        self.replace(conversation, text.to_owned());
    }

    /// The last turn that the summary replaces completely.
    pub(in crate::model) fn through(&self) -> Option<Arc<str>> {
        self.through.clone()
    }

    /// Compacts without a summary. Clears old tool output first. If the conversation still exceeds `most` tokens,
    /// replaces the beginning by one line per event.
    pub(in crate::model) fn apply_without_summary(self, conversation: &mut Conversation, limit: usize) {
        conversation.clear_outputs(self.count);
        if conversation.tokens() <= limit {
            return;
        }
        let old = conversation.entries().iter().take(self.count);
        let machine = old.filter(|entry| entry.speaker != Speaker::User);
        let lines: Vec<String> = machine
            .flat_map(transcript_lines)
            .map(|line| in_one_line(&line))
            .collect();
        // `most` bytes are about a quarter of `most` tokens.
        let text = latest(&lines, limit).join("\n");
        self.replace(conversation, text);
    }
}

/// Returns the user messages in an entry. An earlier summary holds those it replaced, so a summary of a summary loses
/// none.
fn user_messages_of(entry: &ConversationEntry) -> Vec<String> {
    match (&entry.message, entry.speaker) {
        (ModelMessage::User(parts), Speaker::User) => {
            let texts: Vec<&str> = parts
                .iter()
                .map(|part| match part {
                    UserPart::Text(text) => text.as_str(),
                    UserPart::Image(_) => "(an image)",
                    UserPart::Document(_) => "(a document)",
                })
                .collect();
            vec![texts.join("\n")]
        }
        _ => entry
            .summary
            .as_ref()
            .map(|summary| summary.user_messages.clone())
            .unwrap_or_default(),
    }
}

/// Returns the latest lines that fit into `room` bytes, in order. Skips a line that does not fit and continues with
/// earlier ones.
fn latest(lines: &[String], mut remaining: usize) -> Vec<&str> {
    let mut fitting: Vec<&str> = Vec::new();
    for line in lines.iter().rev() {
        if let Some(rest) = remaining.checked_sub(line.len() + 1) {
            remaining = rest;
            fitting.push(line);
        }
    }
    fitting.reverse();
    fitting
}

fn in_one_line(text: &str) -> String {
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    truncate(&line, MAX_LINE).into_owned()
}

/// Returns true if a summary can be shorter than the message: messages of the model and of tools, and the parent
/// conversation of a side chat.
fn can_be_shortened(entry: &ConversationEntry) -> bool {
    match entry.speaker {
        Speaker::Model | Speaker::Tools => true,
        Speaker::Host => {
            let is_told_on = entry.summary.is_some() || !entry.pinned.is_empty();
            !is_told_on && entry.tokens > MAX_SUMMARY_TOKENS as usize
        }
        Speaker::User => false,
    }
}

/// Estimates the tokens that compaction saves: everything but user messages and pinned instructions.
fn savable(entry: &ConversationEntry) -> usize {
    if let Some(summary) = &entry.summary {
        return tokens_in(&summary.text);
    }
    let pinned_tokens: usize = entry.pinned.iter().map(|pinned| tokens_in(&pinned.text)).sum();
    entry.tokens.saturating_sub(pinned_tokens)
}

/// Renders a message as lines of a transcript.
fn transcript_lines(entry: &ConversationEntry) -> Vec<String> {
    if let Some(summary) = &entry.summary {
        return vec![format!("Before: {}", summary.text)];
    }
    // Pinned instructions are carried over verbatim.
    if entry.speaker == Speaker::Host && !entry.pinned.is_empty() {
        return Vec::new();
    }
    match &entry.message {
        ModelMessage::User(parts) => {
            let part = |part: &UserPart| match part {
                // User messages are kept verbatim elsewhere.
                UserPart::Text(text) if entry.speaker == Speaker::User => {
                    vec![format!("User: {}", shortened(text))]
                }
                // Split the parent conversation of a side chat, so that its end is kept if it is too long.
                UserPart::Text(text) => text.split("\n\n").map(|piece| format!("Before: {piece}")).collect(),
                UserPart::Image(_) => vec!["User: (an image)".to_owned()],
                UserPart::Document(document) => vec![format!("User: (a document, {})", document.name)],
            };
            parts.iter().flat_map(part).collect()
        }
        ModelMessage::Assistant(parts) => parts
            .iter()
            .filter_map(|part| match part {
                AssistantPart::Text(text) => Some(format!("Agent: {text}")),
                AssistantPart::Call(call) => Some(format!("Agent calls {}: {}", call.name, shortened(&call.input))),
                AssistantPart::Reasoning(_) => None,
            })
            .collect(),
        ModelMessage::ToolResults(results) => {
            let result = results
                .iter()
                .map(|result| format!("Result: {}", shortened(&result.text)));
            result.collect()
        }
    }
}

fn shortened(text: &str) -> Cow<'_, str> {
    truncate(text, MAX_OUTPUT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::api::{ToolOutcome, ToolUse};
    use crate::model::conversation::pinned_instruction::PinnedInstruction;

    fn long_conversation() -> Conversation {
        let mut conversation = Conversation::default();
        for turn in 0..10 {
            conversation.push(Speaker::User, user(format!("question {turn}")));
            let call = AssistantPart::Call(ToolUse {
                id: format!("c{turn}"),
                name: "read_file".into(),
                input: "{}".into(),
            });
            conversation.push(Speaker::Model, ModelMessage::Assistant(vec![call]));
            let outcome = ToolOutcome {
                call: format!("c{turn}"),
                text: "x".repeat(4000),
                ..ToolOutcome::default()
            };
            conversation.push(Speaker::Tools, ModelMessage::ToolResults(vec![outcome]));
            let text = AssistantPart::Text(format!("answer {turn}"));
            conversation.push(Speaker::Model, ModelMessage::Assistant(vec![text]));
        }
        conversation.push(Speaker::User, user("question 10".into()));
        conversation
    }

    fn is_whole(conversation: &Conversation) -> bool {
        let messages = conversation.messages(true);
        messages.windows(2).all(|pair| match (&pair[0], &pair[1]) {
            (ModelMessage::Assistant(parts), ModelMessage::ToolResults(_)) => {
                parts.iter().any(|part| matches!(part, AssistantPart::Call(_)))
            }
            (_, ModelMessage::ToolResults(_)) => false,
            _ => true,
        }) && matches!(messages.first(), Some(ModelMessage::User(_)))
    }

    #[test]
    fn compaction_keeps_results_with_calls_and_user_messages() {
        for keep in (0..12_000).step_by(111) {
            let mut conversation = long_conversation();
            let Some(compaction) = Compaction::plan(&conversation, keep) else {
                continue;
            };
            let request = compaction.request(&conversation, &Model::new("m"), 10_000);
            assert!(matches!(request.messages.as_slice(), [ModelMessage::User(_)]));
            compaction.apply(&mut conversation, "files were read");
            assert!(is_whole(&conversation), "keep {keep}");
            let all = format!("{:?}", conversation.messages(true));
            for turn in 0..=10 {
                assert!(all.contains(&format!("question {turn}")), "keep {keep}, turn {turn}");
            }
        }
    }

    #[test]
    fn a_long_paste_does_not_displace_the_transcript() {
        let mut conversation = long_conversation();
        conversation.push(Speaker::User, user(format!("pasted {}", "p".repeat(1 << 20))));
        let answer = AssistantPart::Text("a".repeat(1 << 20));
        conversation.push(Speaker::Model, ModelMessage::Assistant(vec![answer]));
        conversation.push(Speaker::User, user("question 11".into()));
        let compaction = Compaction::plan(&conversation, 10).expect("something to shorten");
        let request = compaction.request(&conversation, &Model::new("m"), 10_000);
        let text = format!("{:?}", request.messages);
        assert!(text.len() < 50_000, "{}", text.len());
        for part in ["answer 9", "question 9", "pasted ppp"] {
            assert!(text.contains(part), "{part}");
        }
    }

    #[test]
    fn the_parent_of_a_side_chat_can_be_compacted() {
        let mut conversation = Conversation::default();
        let about: String = (0..10_000).map(|turn| format!("User: question {turn}\n\n")).collect();
        conversation.push(Speaker::Host, user(about));
        conversation.push(Speaker::User, user("Why?".into()));
        let compaction = Compaction::plan(&conversation, 100).expect("something to shorten");
        let request = compaction.request(&conversation, &Model::new("m"), 1000);
        let text = format!("{:?}", request.messages);
        assert!(text.contains("question 9999") && text.len() < 6000, "{}", text.len());
        compaction.apply(&mut conversation, "They talked.");
        assert!(is_whole(&conversation) && conversation.tokens() < 100);
        assert!(
            Compaction::plan(&conversation, 10).is_none(),
            "nothing is left to shorten"
        );
    }

    #[test]
    fn a_summary_of_a_summary_keeps_all_user_messages() {
        let mut conversation = long_conversation();
        for round in 0..5 {
            let compaction = Compaction::plan(&conversation, 10).expect("something to shorten");
            compaction.apply(&mut conversation, &format!("summary {round}"));
            conversation.push(
                Speaker::Model,
                ModelMessage::Assistant(vec![AssistantPart::Text("more".repeat(100))]),
            );
            conversation.push(Speaker::User, user(format!("later {round}")));
        }
        let all = format!("{:?}", conversation.messages(true));
        for turn in 0..=10 {
            assert!(all.contains(&format!("question {turn}")), "{turn} in {all}");
        }
        for round in 0..5 {
            assert!(all.contains(&format!("later {round}")), "{round}");
        }
    }

    #[test]
    fn cus26_disabled_or_deleted_instructions_are_not_carried_over() {
        let mut conversation = long_conversation();
        for id in ["tabs", "bell"] {
            let pinned = PinnedInstruction {
                id: id.to_owned(),
                title: id.to_owned(),
                text: format!("{id} holds"),
                only_turn: None,
            };
            conversation.push(Speaker::Host, user(pinned.render()));
            conversation.pin(vec![pinned]);
        }
        conversation.push(Speaker::User, user("question 11".into()));
        let shortened = |available: Option<&[&str]>| {
            let mut conversation = conversation.clone();
            let available = available.map(|ids| ids.iter().map(|id| (*id).to_owned()).collect());
            let compaction = Compaction::plan(&conversation, 10).expect("something to shorten");
            compaction.with_available(available).apply(&mut conversation, "summary");
            let all = format!("{:?}", conversation.messages(true));
            (all.contains("tabs holds"), all.contains("bell holds"))
        };
        assert_eq!(shortened(Some(&["bell"])), (false, true));
        assert_eq!(shortened(None), (true, true), "without known ids all instructions stay");
    }

    #[test]
    fn user_messages_alone_are_not_compacted() {
        let mut conversation = Conversation::default();
        conversation.push(Speaker::User, user("a".repeat(100_000)));
        assert!(Compaction::plan(&conversation, 10).is_none());
    }

    #[test]
    fn without_a_summary_tool_output_is_cleared() {
        let mut conversation = long_conversation();
        let before = conversation.tokens();
        let compaction = Compaction::plan(&conversation, 100).expect("something to shorten");
        compaction.apply_without_summary(&mut conversation, before / 2);
        assert!(is_whole(&conversation));
        assert!(conversation.tokens() < before / 5);
    }

    #[test]
    fn without_a_summary_and_tool_output_one_line_per_event_is_left() {
        let mut conversation = Conversation::default();
        for turn in 0..10 {
            conversation.push(Speaker::User, user(format!("question {turn}")));
            let text = AssistantPart::Text(format!("answer {turn}: {}", "words ".repeat(1000)));
            conversation.push(Speaker::Model, ModelMessage::Assistant(vec![text]));
        }
        conversation.push(Speaker::User, user("question 10".into()));
        let before = conversation.tokens();
        let compaction = Compaction::plan(&conversation, 100).expect("something to shorten");
        compaction.apply_without_summary(&mut conversation, before / 2);
        assert!(is_whole(&conversation));
        assert!(conversation.tokens() < before / 2);
        let all = format!("{:?}", conversation.messages(true));
        assert!(all.contains("answer 9: words"), "the latest is there: {all}");
        for turn in 0..=10 {
            assert!(all.contains(&format!("question {turn}")), "{turn}");
        }
    }

    #[test]
    fn user_text_that_looks_like_summary_markup_is_kept_verbatim() {
        let message = "Explain </message>\n\n<message>\nto me";
        let mut conversation = Conversation::default();
        conversation.push(Speaker::User, user(message.to_owned()));
        for round in 0..3 {
            let more = AssistantPart::Text("more ".repeat(100));
            conversation.push(Speaker::Model, ModelMessage::Assistant(vec![more]));
            conversation.push(Speaker::User, user(format!("later {round}")));
            let compaction = Compaction::plan(&conversation, 10).expect("something to shorten");
            compaction.apply(&mut conversation, "summary");
        }
        let [ModelMessage::User(parts), ..] = &conversation.messages(true)[..] else {
            panic!("a summary first");
        };
        let [UserPart::Text(text)] = &parts[..] else {
            panic!("of words");
        };
        assert_eq!(text.matches(message).count(), 1, "{text}");
    }
}
