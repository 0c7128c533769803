//! What was said, as the model is told it, and how long that is.

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

use innkeeper_host::customizations::Called;
use innkeeper_host::{ChatContext, PastOutcome, PastTurn};

use self::documents::unsupported_note;
use self::memory::ChatMemory;
use self::pinned_instruction::{PinnedInstruction, carried_into_summary};
use self::summary::Summary;
use self::tokens::tokens_of;
use self::user_message::compose;
use super::api::{AssistantPart, ModelMessage, ToolOutcome, ToolUse, UserPart};
use super::toolbox::provider_safe_name;

/// What a model is told of a call that has no result. Nobody knows how far it got.
const NO_RESULT: &str = "There is no result: the call was denied, or the turn was cancelled or interrupted before it \
    was over. Look before you try again.";
/// What stands for a message without words.
const NO_WORDS: &str = "(A message without words.)";
/// The most that a side chat is told of what it is about, in bytes.
const MAX_ABOUT: usize = 256 << 10;
/// What people write to have the conversation shortened.
pub(super) const COMPACT: &str = "/compact";

/// A conversation with a model.
#[derive(Debug, Clone, Default)]
pub(super) struct Conversation {
    entries: Vec<Entry>,
    /// The turn that what is said belongs to.
    turn: Option<Arc<str>>,
    /// By how much the provider's count differs from ours.
    calibration: Option<f64>,
    /// What people were last told of tools that the model is not offered.
    tool_notice: Option<String>,
    /// What people were told once, and need not hear again.
    notices_shown: HashSet<String>,
    /// What is kept with the chat.
    pub(super) memory: ChatMemory,
}

#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) speaker: Speaker,
    pub(super) message: ModelMessage,
    /// The turn it belongs to.
    pub(super) turn: Option<Arc<str>>,
    /// What it is made of, if it stands for the beginning of the conversation.
    pub(super) summary: Option<Summary>,
    /// What it says that goes on holding.
    pub(super) pinned: Vec<PinnedInstruction>,
    pub(super) tokens: usize,
}

/// Whose words a message holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Speaker {
    /// A person's, which are never shortened.
    User,
    /// The host's: a summary, or a hint to go on.
    Host,
    /// The model's.
    Model,
    /// Those of tools.
    Tools,
}

impl Conversation {
    /// Begins with what a chat was opened with.
    pub(super) fn restore(context: &ChatContext) -> Self {
        let mut conversation = Self::default();
        conversation.add_side_chat_context(&context.context, context.selection.as_deref());
        conversation.memory = context.memory.as_deref().map(ChatMemory::read).unwrap_or_default();
        conversation.recall(&context.history, context.omitted_turns);
        conversation
    }

    /// Tells the turns that were held before, those that a summary covers in short.
    fn recall(&mut self, history: &[PastTurn], omitted: usize) {
        let compacted = self.memory.compacted.clone();
        // A turn that is not there any more was taken back, and with it what was made of it.
        // Unless it is among those that are left out: then what was made of it is all there is.
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
                let said = old.iter().filter(|turn| !is_compact(&turn.text));
                let user_messages: Vec<String> = said
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

    /// What a side chat is about.
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

    /// A turn that another life of this chat held.
    fn add_past_turn(&mut self, turn: &PastTurn) {
        self.begin_turn(&turn.id);
        self.push(Speaker::User, compose(&turn.text, &turn.attachments));
        self.add_past_answer(turn);
        if turn.reply.is_empty() && turn.tools.is_empty() && turn.outcome != PastOutcome::Complete {
            let nothing = AssistantPart::Text("(The turn ended before I could answer.)".to_owned());
            self.push(Speaker::Model, ModelMessage::Assistant(vec![nothing]));
        }
    }

    /// What came of a turn that another life of this chat held, or began.
    pub(super) fn add_past_answer(&mut self, turn: &PastTurn) {
        if !turn.tools.is_empty() {
            let calls = turn.tools.iter().map(|tool| {
                AssistantPart::Call(ToolUse {
                    id: tool.call.clone(),
                    // A client's tool has a name of the client's own, which providers may refuse.
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
        for words in &turn.steered {
            self.push(Speaker::User, user(words.clone()));
        }
        if !turn.reply.is_empty() {
            let reply = AssistantPart::Text(turn.reply.clone());
            self.push(Speaker::Model, ModelMessage::Assistant(vec![reply]));
        }
    }

    /// Adds a message. One without words is said to be one: providers refuse an empty message, and
    /// a conversation that the model begins.
    pub(super) fn push(&mut self, speaker: Speaker, message: ModelMessage) {
        let message = if is_empty(&message) {
            user(NO_WORDS.to_owned())
        } else {
            message
        };
        let tokens = tokens_of(&message);
        self.entries.push(Entry {
            speaker,
            message,
            turn: self.turn.clone(),
            summary: None,
            pinned: Vec::new(),
            tokens,
        });
    }

    /// The last message said something that goes on holding.
    pub(super) fn pin(&mut self, pinned: Vec<PinnedInstruction>) {
        for pinned in pinned.iter().filter(|pinned| pinned.only_turn.is_none()) {
            self.memory.mark_in_use(&pinned.id);
        }
        if let Some(entry) = self.entries.last_mut() {
            entry.pinned.extend(pinned);
        }
    }

    /// The person called a skill or a prompt by its name.
    pub(super) fn add_called_prompt(&mut self, called: &Called) {
        let pinned = PinnedInstruction {
            id: called.about.id.clone(),
            title: format!("/{}", called.name),
            text: called.text.trim().to_owned(),
            // A skill goes on holding; a command or a prompt is done with its turn.
            only_turn: self.turn.clone().filter(|_| called.directory.is_none()),
        };
        let mut text = format!(
            "The person called /{} by name. Do what it says:\n\n{}",
            called.name,
            pinned.render()
        );
        if let Some(directory) = &called.directory {
            text.push_str(&format!("\n\nIts files are in {}.", directory.display()));
        }
        self.push(Speaker::Host, compose(&text, &called.attachments));
        self.pin(vec![pinned]);
    }

    /// Whether the conversation has it as it is now.
    pub(super) fn has_pinned_version(&self, wanted: &PinnedInstruction) -> bool {
        self.latest_pinned(&wanted.id)
            .is_some_and(|latest| latest.text == wanted.text)
    }

    /// Whether the conversation has anything of it.
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

    /// Takes out what does not hold any more because it is none of these, and says so in its place. What was for
    /// one turn alone stays what it was. Says whether what is kept with the chat is different now.
    pub(super) fn unpin_missing(&mut self, ids: &HashSet<String>) -> bool {
        let holds = |pinned: &PinnedInstruction| pinned.only_turn.is_some() || ids.contains(&pinned.id);
        for entry in &mut self.entries {
            let summed = entry.summary.iter().flat_map(|summary| &summary.pinned);
            if summed.chain(&entry.pinned).all(holds) {
                continue;
            }
            if let Some(summary) = &mut entry.summary {
                summary.pinned.retain(holds);
                entry.message = summary.message();
            }
            for gone in entry.pinned.extract_if(.., |pinned| !holds(pinned)) {
                gone.remove_from(&mut entry.message);
            }
            entry.tokens = tokens_of(&entry.message);
        }
        self.memory.retain_in_use(ids)
    }

    /// Takes the result of a call for what it was before a restart: something that goes on holding.
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

    /// Whether people have not been told yet.
    pub(super) fn is_first_notice(&mut self, text: &str) -> bool {
        self.notices_shown.insert(text.to_owned())
    }

    /// Adds what a person said to set another direction. The host keeps it in the turn.
    pub(super) fn steer(&mut self, words: String) {
        self.push(Speaker::User, user(words));
    }

    /// What people are to be told of tools that are left out: nothing if they know.
    pub(super) fn changed_tool_notice(&mut self, left_out: Option<String>) -> Option<String> {
        let is_known = self.tool_notice == left_out;
        self.tool_notice = left_out;
        self.tool_notice.clone().filter(|_| !is_known)
    }

    /// Whether the conversation has what the person said in a turn.
    pub(super) fn has_turn(&self, id: &str) -> bool {
        let mut entries = self.entries.iter();
        entries.any(|entry| entry.turn.as_deref() == Some(id))
    }

    /// What is said from now on belongs to this turn.
    pub(super) fn begin_turn(&mut self, id: &str) {
        self.turn = Some(id.into());
    }

    /// Makes sure that every call has a result and that it is somebody else's turn to speak:
    /// providers refuse anything else. An earlier turn may have ended anywhere.
    pub(super) fn complete_open_calls(&mut self) {
        let Some(Entry {
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

    /// Asks the model to go on, if it spoke last.
    pub(super) fn ask_to_continue(&mut self) {
        self.complete_open_calls();
        if matches!(
            self.entries.last(),
            None | Some(Entry {
                speaker: Speaker::Model,
                ..
            })
        ) {
            self.push(Speaker::Host, user("Go on where you stopped.".to_owned()));
        }
    }

    /// The messages, for a request to a model that can or cannot look at pictures.
    pub(super) fn messages(&self, accepts_images: bool) -> Vec<ModelMessage> {
        let messages = self.entries.iter().map(|entry| entry.message.clone());
        if accepts_images {
            messages.collect()
        } else {
            messages.map(without_images).collect()
        }
    }

    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Puts a summary in place of the first messages. What they said that goes on holding is part
    /// of it, word for word, unless it is not given any more.
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
        let holds = |pinned: &PinnedInstruction| {
            (pinned.only_turn.is_none() || pinned.only_turn == self.turn) && is_available(pinned)
        };
        summary.pinned = carried_into_summary(pinned.filter(holds).collect());
        let last = count.checked_sub(1).and_then(|last| self.entries.get(last));
        let message = summary.message();
        let entry = Entry {
            speaker: Speaker::Host,
            turn: last.and_then(|entry| entry.turn.clone()),
            summary: Some(summary),
            pinned: Vec::new(),
            tokens: tokens_of(&message),
            message,
        };
        self.entries.splice(..count.min(self.entries.len()), [entry]);
    }

    /// Takes the output of tools out of the first messages.
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

    /// How many tokens the conversation has, about.
    pub(super) fn tokens(&self) -> usize {
        self.calibrated(self.entries.iter().map(|entry| entry.tokens).sum())
    }

    /// How many messages from the end on fit into so many tokens.
    pub(super) fn messages_within(&self, tokens: usize) -> usize {
        let mut sum = 0;
        let fits = self.entries.iter().rev().take_while(|entry| {
            sum += entry.tokens;
            self.calibrated(sum) <= tokens
        });
        fits.count()
    }

    /// Learns from the provider how many tokens a request really had, besides what it counts as.
    pub(super) fn calibrate(&mut self, counted: usize, real: u32) {
        // Some servers report nothing and call it 0.
        if counted > 500 && real > 0 {
            let factor = f64::from(real) / counted as f64;
            self.calibration = Some(factor.clamp(0.5, 4.0));
        }
    }

    /// A count of ours as the provider would count.
    pub(super) fn calibrated(&self, tokens: usize) -> usize {
        (tokens as f64 * self.calibration.unwrap_or(1.0)) as usize
    }

    /// How many tokens there are by our own count.
    pub(super) fn estimated_tokens(&self) -> usize {
        self.entries.iter().map(|entry| entry.tokens).sum()
    }
}

/// The latest turns, as far as there is room for them.
fn transcript(turns: &[PastTurn]) -> String {
    let mut room = MAX_ABOUT;
    let told = turns.iter().rev().map_while(|turn| {
        let told = format!("Person: {}\n\nAssistant: {}\n\n", turn.text, turn.reply);
        room = room.checked_sub(told.len())?;
        Some(told)
    });
    let mut told: Vec<String> = told.collect();
    if told.len() < turns.len() {
        told.push(format!(
            "(Its first {} turns are left out.)\n\n",
            turns.len() - told.len()
        ));
    }
    told.reverse();
    told.concat()
}

/// Whether a message has nothing in it that could be sent.
fn is_empty(message: &ModelMessage) -> bool {
    match message {
        ModelMessage::User(parts) => parts
            .iter()
            .all(|part| matches!(part, UserPart::Text(text) if text.trim().is_empty())),
        ModelMessage::Assistant(_) | ModelMessage::ToolResults(_) => false,
    }
}

/// A message with a person's words, or the host's.
pub(super) fn user(text: String) -> ModelMessage {
    ModelMessage::User(vec![UserPart::Text(text)])
}

/// A message for a model that cannot look at pictures, and would be refused with one.
fn without_images(mut message: ModelMessage) -> ModelMessage {
    const UNSEEN: &str = "(A picture, which you cannot see. Say so if it matters.)";
    match &mut message {
        ModelMessage::User(parts) => {
            for part in parts.iter_mut() {
                match part {
                    UserPart::Text(_) => {}
                    UserPart::Image(_) => *part = UserPart::Text(UNSEEN.to_owned()),
                    // Pages are looked at as pictures are.
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

/// Whether people want the conversation shortened; such a turn says nothing to the model.
pub(super) fn is_compact(text: &str) -> bool {
    text.trim() == COMPACT
}

/// What stands for a result that there is not.
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
