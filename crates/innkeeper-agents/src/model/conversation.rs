//! The conversation as it is sent to the model, with an estimate of its size in tokens.

pub(in crate::model) mod compaction;
pub(in crate::model) mod documents;
pub(in crate::model) mod images;
mod memory;
pub(in crate::model) mod pinned_instruction;
mod summary;
pub(in crate::model) mod tokens;
pub(in crate::model) mod user_message;

use std::collections::HashSet;
use std::sync::Arc;

use innkeeper_host::ChatContext;
use innkeeper_host::agent::{PastOutcome, PastTurn};
use innkeeper_host::customizations::Called;

use self::documents::unsupported_note;
use self::memory::ChatMemory;
use self::pinned_instruction::{PinnedInstruction, carried_into_summary};
use self::summary::Summary;
use self::tokens::tokens_of;
use self::user_message::compose;
use super::api::{AssistantPart, ModelMessage, ToolOutcome, ToolUse, UserPart};
use super::toolbox::provider_safe_name;

/// Tool result for a call that has none. It is unknown how far the call got.
const NO_RESULT: &str = "There is no result: the call was denied, or the turn was cancelled or interrupted before it \
    was over. Look before you try again.";
/// Replaces a message without text.
const NO_WORDS: &str = "(A message without words.)";
/// Maximum bytes of the parent conversation that a side chat includes.
const MAX_ABOUT: usize = 256 << 10;
/// The command that compacts the conversation.
pub(super) const COMPACT: &str = "/compact";

/// A conversation with a model.
#[derive(Debug, Clone, Default)]
pub(super) struct Conversation {
    entries: Vec<ConversationEntry>,
    /// The turn that new messages belong to.
    turn: Option<Arc<str>>,
    /// Ratio of the provider's token count to our estimate.
    calibration: Option<f64>,
    /// The last notice about tools that the model is not offered.
    tool_notice: Option<String>,
    /// Notices that the user has seen. Each is shown once.
    notices_shown: HashSet<String>,
    /// State that is persisted with the chat.
    pub(super) memory: ChatMemory,
}

#[derive(Debug, Clone)]
pub(super) struct ConversationEntry {
    pub(super) speaker: Speaker,
    pub(super) message: ModelMessage,
    /// The turn the message belongs to.
    pub(super) turn: Option<Arc<str>>,
    /// Set if the message is the summary of the compacted beginning.
    pub(super) summary: Option<Summary>,
    /// Instructions in the message that stay in effect.
    pub(super) pinned: Vec<PinnedInstruction>,
    pub(super) tokens: usize,
}

/// Author of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Speaker {
    /// The user. These messages are never shortened.
    User,
    /// The host: a summary, an instruction, or a request to continue.
    Host,
    /// The model.
    Model,
    /// Tools.
    Tools,
}

impl Conversation {
    /// Restores the conversation of a chat that is opened.
    pub(super) fn restore(context: &ChatContext) -> Self {
        let mut conversation = Self::default();
        conversation.add_side_chat_context(&context.context, context.selection.as_deref());
        conversation.memory = context.memory.as_deref().map(ChatMemory::read).unwrap_or_default();
        conversation.recall(&context.history, context.omitted_turns);
        conversation
    }

    /// Adds the past turns. Turns that a summary covers are replaced by it.
    fn recall(&mut self, history: &[PastTurn], omitted: usize) {
        let compacted = self.memory.compacted.clone();
        // If the last summarised turn is missing from the history, it was truncated, and the summary is void. If the
        // history omits its first turns, that turn may be among them, and the summary is all there is.
        let summarised = compacted.and_then(|compacted| {
            let position = history.iter().position(|turn| turn.id == compacted.through);
            let count = position
                .map(|position| position + 1)
                .or_else(|| (omitted > 0).then_some(0))?;
            Some((count, compacted))
        });
        let rest = match summarised {
            Some((count, compacted)) => {
                let (old, rest) = history.split_at(count);
                let user_turns = old.iter().filter(|turn| !is_compact(&turn.text));
                let user_messages: Vec<String> = user_turns
                    .flat_map(|turn| std::iter::once(&turn.text).chain(&turn.steered).cloned())
                    .collect();
                let text = compacted.summary;
                let pinned = Vec::new();
                self.replace_first(
                    0,
                    Summary {
                        user_messages,
                        text,
                        pinned,
                    },
                    |_| true,
                );
                rest
            }
            None => {
                if omitted > 0 {
                    let text = format!("({omitted} earlier turns of this chat are left out.)");
                    self.push(Speaker::Host, user(text));
                }
                history
            }
        };
        for turn in rest.iter().filter(|turn| !is_compact(&turn.text)) {
            self.add_past_turn(turn);
        }
    }

    /// Adds the parent conversation of a side chat.
    fn add_side_chat_context(&mut self, turns: &[PastTurn], selection: Option<&str>) {
        if turns.is_empty() && selection.is_none() {
            return;
        }
        let mut text = "This is a side conversation about another one, which went like this:\n\n".to_owned();
        text.push_str(&transcript(turns));
        if let Some(selection) = selection {
            text.push_str(&format!("It is about these words:\n\n{selection}\n"));
        }
        self.push(Speaker::Host, user(text));
    }

    /// Adds a completed turn from the history.
    fn add_past_turn(&mut self, turn: &PastTurn) {
        self.begin_turn(&turn.id);
        self.push(Speaker::User, compose(&turn.text, &turn.attachments));
        self.add_past_answer(turn);
        if turn.reply.is_empty() && turn.tools.is_empty() && turn.outcome != PastOutcome::Complete {
            let nothing = AssistantPart::Text("(The turn ended before I could answer.)".to_owned());
            self.push(Speaker::Model, ModelMessage::Assistant(vec![nothing]));
        }
    }

    /// Adds the calls and the reply of a past or interrupted turn.
    pub(super) fn add_past_answer(&mut self, turn: &PastTurn) {
        if !turn.tools.is_empty() {
            let calls = turn.tools.iter().map(|tool| {
                AssistantPart::Call(ToolUse {
                    id: tool.call.clone(),
                    // A client's tool may have a name that providers reject.
                    name: provider_safe_name(&tool.name),
                    input: tool.input.clone(),
                })
            });
            self.push(Speaker::Model, ModelMessage::Assistant(calls.collect()));
            let results = turn.tools.iter().map(|tool| ToolOutcome {
                call: tool.call.clone(),
                text: tool.output.clone().unwrap_or_else(|| NO_RESULT.to_owned()),
                is_error: !tool.success,
                ..ToolOutcome::default()
            });
            self.push(Speaker::Tools, ModelMessage::ToolResults(results.collect()));
        }
        for text in &turn.steered {
            self.push(Speaker::User, user(text.clone()));
        }
        if !turn.reply.is_empty() {
            let reply = AssistantPart::Text(turn.reply.clone());
            self.push(Speaker::Model, ModelMessage::Assistant(vec![reply]));
        }
    }

    /// Adds a message. An empty message becomes a placeholder: providers reject empty messages, and conversations
    /// that start with the model.
    pub(super) fn push(&mut self, speaker: Speaker, message: ModelMessage) {
        let message = if is_empty(&message) {
            user(NO_WORDS.to_owned())
        } else {
            message
        };
        let tokens = tokens_of(&message);
        self.entries.push(ConversationEntry {
            speaker,
            message,
            turn: self.turn.clone(),
            summary: None,
            pinned: Vec::new(),
            tokens,
        });
    }

    /// Marks the last message as the source of pinned instructions.
    pub(super) fn pin(&mut self, pinned: Vec<PinnedInstruction>) {
        for pinned in pinned.iter().filter(|pinned| pinned.only_turn.is_none()) {
            self.memory.mark_in_use(&pinned.id);
        }
        if let Some(entry) = self.entries.last_mut() {
            entry.pinned.extend(pinned);
        }
    }

    /// Adds a skill or prompt that the user called by name.
    pub(super) fn add_called_prompt(&mut self, called: &Called) {
        let pinned = PinnedInstruction {
            id: called.about.id.clone(),
            title: format!("/{}", called.name),
            text: called.text.trim().to_owned(),
            // A skill stays in effect. A command or prompt applies to its turn only.
            only_turn: self.turn.clone().filter(|_| called.directory.is_none()),
        };
        let mut text = format!(
            "The user called /{} by name. Do what it says:\n\n{}",
            called.name,
            pinned.render()
        );
        if let Some(directory) = &called.directory {
            text.push_str(&format!("\n\nIts files are in {}.", directory.display()));
        }
        self.push(Speaker::Host, compose(&text, &called.attachments));
        self.pin(vec![pinned]);
    }

    /// Returns true if the latest version of the instruction is in the conversation.
    pub(super) fn has_pinned_version(&self, instruction: &PinnedInstruction) -> bool {
        self.latest_pinned(&instruction.id)
            .is_some_and(|latest| latest.text == instruction.text)
    }

    /// Returns true if any version of the instruction is in the conversation.
    pub(super) fn has_pinned(&self, id: &str) -> bool {
        self.latest_pinned(id).is_some()
    }

    fn latest_pinned(&self, id: &str) -> Option<&PinnedInstruction> {
        let entries = self.entries.iter().rev();
        let all = entries.flat_map(|entry| {
            let summed = entry.summary.iter().flat_map(|summary| &summary.pinned);
            entry.pinned.iter().rev().chain(summed)
        });
        all.into_iter().find(|pinned| pinned.id == id)
    }

    /// Removes pinned instructions whose ids are not in `ids` and leaves a note in their place. Instructions for a
    /// single turn stay. Returns true if the persisted memory changed.
    pub(super) fn unpin_missing(&mut self, ids: &HashSet<String>) -> bool {
        let stays = |pinned: &PinnedInstruction| pinned.only_turn.is_some() || ids.contains(&pinned.id);
        for entry in &mut self.entries {
            let summed = entry.summary.iter().flat_map(|summary| &summary.pinned);
            if summed.chain(&entry.pinned).all(stays) {
                continue;
            }
            if let Some(summary) = &mut entry.summary {
                summary.pinned.retain(stays);
                entry.message = summary.message();
            }
            for removed in entry.pinned.extract_if(.., |pinned| !stays(pinned)) {
                removed.remove_from(&mut entry.message);
            }
            entry.tokens = tokens_of(&entry.message);
        }
        self.memory.retain_in_use(ids)
    }

    /// Pins an instruction that is already part of a tool result, as after a restart. Returns false if no result has
    /// it.
    pub(super) fn adopt_pinned(&mut self, pinned: &PinnedInstruction) -> bool {
        let has = |message: &ModelMessage| match message {
            ModelMessage::ToolResults(results) => results.iter().any(|result| result.text.contains(&pinned.text)),
            ModelMessage::User(_) | ModelMessage::Assistant(_) => false,
        };
        match self.entries.iter_mut().rev().find(|entry| has(&entry.message)) {
            Some(entry) => {
                entry.pinned.push(pinned.clone());
                true
            }
            None => false,
        }
    }

    /// Returns true the first time it is called with this notice.
    pub(super) fn is_first_notice(&mut self, text: &str) -> bool {
        self.notices_shown.insert(text.to_owned())
    }

    /// Adds a steering message of the user. The host records it in the turn.
    pub(super) fn steer(&mut self, text: String) {
        self.push(Speaker::User, user(text));
    }

    /// Returns the notice about left-out tools if it differs from the last one.
    pub(super) fn changed_tool_notice(&mut self, left_out: Option<String>) -> Option<String> {
        let is_known = self.tool_notice == left_out;
        self.tool_notice = left_out;
        self.tool_notice.clone().filter(|_| !is_known)
    }

    /// Returns true if the conversation has messages of this turn.
    pub(super) fn has_turn(&self, id: &str) -> bool {
        let mut entries = self.entries.iter();
        entries.any(|entry| entry.turn.as_deref() == Some(id))
    }

    /// Assigns new messages to this turn.
    pub(super) fn begin_turn(&mut self, id: &str) {
        self.turn = Some(id.into());
    }

    /// Adds results for calls that have none, because providers reject a call without a result. An earlier turn may
    /// have ended at any point.
    pub(super) fn complete_open_calls(&mut self) {
        let Some(ConversationEntry {
            message: ModelMessage::Assistant(parts),
            ..
        }) = self.entries.last()
        else {
            return;
        };
        let open: Vec<ToolOutcome> = parts
            .iter()
            .filter_map(|part| match part {
                AssistantPart::Call(call) => Some(missing_result(&call.id)),
                AssistantPart::Text(_) | AssistantPart::Reasoning(_) => None,
            })
            .collect();
        if !open.is_empty() {
            self.push(Speaker::Tools, ModelMessage::ToolResults(open));
        }
    }

    /// Asks the model to continue if the last message is its own.
    pub(super) fn ask_to_continue(&mut self) {
        self.complete_open_calls();
        if matches!(
            self.entries.last(),
            None | Some(ConversationEntry {
                speaker: Speaker::Model,
                ..
            })
        ) {
            self.push(Speaker::Host, user("Go on where you stopped.".to_owned()));
        }
    }

    /// Returns the messages for a request. Images are replaced by a note if the model does not accept them.
    pub(super) fn messages(&self, accepts_images: bool) -> Vec<ModelMessage> {
        let messages = self.entries.iter().map(|entry| entry.message.clone());
        if accepts_images {
            messages.collect()
        } else {
            messages.map(without_images).collect()
        }
    }

    pub(super) fn entries(&self) -> &[ConversationEntry] {
        &self.entries
    }

    /// Replaces the first `count` messages by a summary. Their pinned instructions become part of the summary
    /// verbatim if they are still available.
    pub(super) fn replace_first(
        &mut self,
        count: usize,
        mut summary: Summary,
        is_available: impl Fn(&PinnedInstruction) -> bool,
    ) {
        let old = self.entries.iter().take(count);
        let pinned = old.flat_map(|entry| {
            let summed = entry.summary.iter().flat_map(|summary| &summary.pinned);
            summed.chain(&entry.pinned).cloned()
        });
        let stays = |pinned: &PinnedInstruction| {
            (pinned.only_turn.is_none() || pinned.only_turn == self.turn) && is_available(pinned)
        };
        summary.pinned = carried_into_summary(pinned.filter(stays).collect());
        let last = count.checked_sub(1).and_then(|last| self.entries.get(last));
        let message = summary.message();
        let entry = ConversationEntry {
            speaker: Speaker::Host,
            turn: last.and_then(|entry| entry.turn.clone()),
            summary: Some(summary),
            pinned: Vec::new(),
            tokens: tokens_of(&message),
            message,
        };
        self.entries.splice(..count.min(self.entries.len()), [entry]);
    }

    /// Removes the tool output from the first `count` messages.
    pub(super) fn clear_outputs(&mut self, count: usize) {
        let cleared = self.entries.iter_mut().take(count);
        for entry in cleared.filter(|entry| entry.pinned.is_empty()) {
            if let ModelMessage::ToolResults(results) = &mut entry.message {
                for result in results {
                    result.text = "(The output was left out to save space. Call the tool again if it matters.)".into();
                    result.images.clear();
                }
                entry.tokens = tokens_of(&entry.message);
            }
        }
    }

    /// Estimated size in tokens, calibrated with the provider's counts.
    pub(super) fn tokens(&self) -> usize {
        self.calibrated(self.entries.iter().map(|entry| entry.tokens).sum())
    }

    /// Returns how many of the last messages fit into this many tokens.
    pub(super) fn messages_within(&self, tokens: usize) -> usize {
        let mut sum = 0;
        let fits = self.entries.iter().rev().take_while(|entry| {
            sum += entry.tokens;
            self.calibrated(sum) <= tokens
        });
        fits.count()
    }

    /// Calibrates the estimate with the token count that the provider reported for a request.
    pub(super) fn calibrate(&mut self, counted: usize, real: u32) {
        // Some servers report 0 instead of no usage.
        if counted > 500 && real > 0 {
            let factor = f64::from(real) / counted as f64;
            self.calibration = Some(factor.clamp(0.5, 4.0));
        }
    }

    /// Converts an estimate into the provider's count.
    pub(super) fn calibrated(&self, tokens: usize) -> usize {
        (tokens as f64 * self.calibration.unwrap_or(1.0)) as usize
    }

    /// Estimated size in tokens, not calibrated.
    pub(super) fn estimated_tokens(&self) -> usize {
        self.entries.iter().map(|entry| entry.tokens).sum()
    }
}

/// Renders the latest turns that fit into [`MAX_ABOUT`] bytes.
fn transcript(turns: &[PastTurn]) -> String {
    let mut remaining = MAX_ABOUT;
    let rendered = turns.iter().rev().map_while(|turn| {
        let rendered = format!("User: {}\n\nAssistant: {}\n\n", turn.text, turn.reply);
        remaining = remaining.checked_sub(rendered.len())?;
        Some(rendered)
    });
    let mut rendered: Vec<String> = rendered.collect();
    if rendered.len() < turns.len() {
        rendered.push(format!(
            "(Its first {} turns are left out.)\n\n",
            turns.len() - rendered.len()
        ));
    }
    rendered.reverse();
    rendered.concat()
}

/// Returns true if a message has no content to send.
fn is_empty(message: &ModelMessage) -> bool {
    match message {
        ModelMessage::User(parts) => parts
            .iter()
            .all(|part| matches!(part, UserPart::Text(text) if text.trim().is_empty())),
        ModelMessage::Assistant(_) | ModelMessage::ToolResults(_) => false,
    }
}

/// A text message with the user role.
pub(super) fn user(text: String) -> ModelMessage {
    ModelMessage::User(vec![UserPart::Text(text)])
}

/// Replaces images, which models without vision reject.
fn without_images(mut message: ModelMessage) -> ModelMessage {
    const UNSEEN: &str = "(An image, which you cannot see. Say so if it matters.)";
    match &mut message {
        ModelMessage::User(parts) => {
            for part in parts.iter_mut() {
                match part {
                    UserPart::Text(_) => {}
                    UserPart::Image(_) => *part = UserPart::Text(UNSEEN.to_owned()),
                    // Models read the pages of a document as images.
                    UserPart::Document(document) => *part = UserPart::Text(unsupported_note(document)),
                }
            }
        }
        ModelMessage::ToolResults(results) => {
            for result in results.iter_mut().filter(|result| !result.images.is_empty()) {
                result.images.clear();
                result.text.push_str(&format!("\n{UNSEEN}"));
            }
        }
        ModelMessage::Assistant(_) => {}
    }
    message
}

/// Returns true if the message is the `/compact` command. Such a turn adds nothing to the conversation.
pub(super) fn is_compact(text: &str) -> bool {
    text.trim() == COMPACT
}

/// The result of a call that has none.
pub(super) fn missing_result(call: &str) -> ToolOutcome {
    ToolOutcome {
        call: call.to_owned(),
        text: NO_RESULT.to_owned(),
        is_error: true,
        ..ToolOutcome::default()
    }
}

#[cfg(test)]
mod tests;
