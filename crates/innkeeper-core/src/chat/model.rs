//! A chat's authoritative state: the published reducers, wrapped where they are wrong or slow.
//!
//! Deviations from calling `ahp::reducers::apply_action_to_chat` directly, each with a test that
//! fails on the day upstream no longer needs it:
//! - a streamed append finds its part by index, not by walking every part and cloning its id;
//! - completed turns live outside the reduced struct, so neither a delta nor a snapshot ever
//!   touches the history;
//! - a second `chat/turnStarted` cannot overwrite a running turn (E-11), and a `startedAt` that
//!   would make the turn unclosable (E-12) never gets in;
//! - queued messages that a reorder does not name keep their order (E-40).

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use ahp::reducers::{ReduceOutcome, apply_action_to_chat};
use ahp_types::actions::{ChatQueuedMessagesReorderedAction, StateAction};
use ahp_types::state::{
    ActiveTurn, ChatInputRequest, ChatState, Message, MessageKind, MessageOrigin, ResponsePart, ToolCallContributor,
    ToolCallState, Turn, TurnState,
};

use crate::chat::history::History;
use crate::core::json_bytes;
use crate::protocol::snapshot::{State, VisibleChat, Window};

mod turns;

use turns::Changes;
pub use turns::TurnChanges;

/// Longest accepted distance between a client's `startedAt` and the host's clock, in seconds.
/// Generous, because wall clocks differ; finite, because the reducers add durations to it.
pub const MAX_CLOCK_SKEW_SECONDS: i64 = 24 * 60 * 60;

/// One chat.
#[derive(Debug)]
pub struct ChatModel {
    /// Everything but the completed turns; `head.turns` is always empty.
    head: Arc<ChatState>,
    /// The completed turns.
    history: Arc<History>,
    /// Changes to the completed turns since the last query.
    changes: Changes,
    /// Index of each part of the active turn, by part or tool call id.
    parts: HashMap<Box<str>, usize>,
    /// Positions of the open parts: calls that have not ended and questions without an answer.
    open: BTreeSet<usize>,
    /// Bytes of tool content of each open call; the content is replaced as a whole.
    content_bytes: HashMap<Box<str>, usize>,
    /// Roughly how many bytes the message of the active turn takes in a snapshot.
    message_bytes: usize,
    /// The same for its parts.
    parts_bytes: usize,
}

impl ChatModel {
    /// A chat in the given state.
    pub fn new(mut state: ChatState) -> Self {
        let turns = std::mem::take(&mut state.turns);
        let mut changes = Changes::default();
        if !turns.is_empty() {
            changes.since(0);
        }
        let history = History::new(&state.resource, turns);
        Self::with_history(state, history, changes)
    }

    fn with_history(mut state: ChatState, history: History, changes: Changes) -> Self {
        state.turns = Vec::new();
        let mut model = Self {
            head: Arc::new(state),
            history: Arc::new(history),
            changes,
            parts: HashMap::new(),
            open: BTreeSet::new(),
            content_bytes: HashMap::new(),
            message_bytes: 0,
            parts_bytes: 0,
        };
        model.reindex();
        model.count_active();
        model
    }

    /// Everything but the completed turns.
    pub fn head(&self) -> &ChatState {
        &self.head
    }

    /// The same, shared.
    pub fn shared_head(&self) -> &Arc<ChatState> {
        &self.head
    }

    /// Captures the state in constant time.
    pub fn snapshot(&self, window: Window) -> State {
        State::Chat(Arc::clone(&self.head), Arc::clone(&self.history), window)
    }

    /// The same, for a session that shows the chat.
    pub(crate) fn shown(&self, window: Window) -> VisibleChat {
        VisibleChat {
            head: Arc::clone(&self.head),
            history: Arc::clone(&self.history),
            window,
        }
    }

    /// Roughly how many bytes a snapshot takes that shows only part of the turns.
    pub fn estimated_bytes_of(&self, window: Window) -> usize {
        self.estimated_head_bytes() + self.history.bytes_from(window.skipped)
    }

    /// The same without any completed turn.
    pub fn estimated_head_bytes(&self) -> usize {
        let head = &self.head;
        let waiting = json_bytes(&head.draft) + json_bytes(&head.queued_messages) + json_bytes(&head.steering_message);
        512 + waiting + self.message_bytes + self.parts_bytes
    }

    /// Bytes of text in the parts of the active turn.
    pub fn turn_bytes(&self) -> usize {
        self.parts_bytes
    }

    /// Whether a turn with this id runs or ever ran here.
    pub fn knows_turn(&self, turn_id: &str) -> bool {
        self.head.active_turn.as_ref().is_some_and(|turn| turn.id == turn_id) || self.position(turn_id).is_some()
    }

    /// Changes a field that no action carries (E-08), such as the title.
    pub fn edit(&mut self, change: impl FnOnce(&mut ChatState)) {
        change(Arc::make_mut(&mut self.head));
        debug_assert!(self.head.turns.is_empty(), "completed turns live in the history");
    }

    /// Reduces one action.
    pub fn apply(&mut self, action: &StateAction) -> ReduceOutcome {
        match action {
            StateAction::ChatDelta(delta) => self.append(&delta.turn_id, &delta.part_id, &delta.content, false),
            StateAction::ChatReasoning(delta) => self.append(&delta.turn_id, &delta.part_id, &delta.content, true),
            StateAction::ChatTurnStarted(_) if self.head.active_turn.is_some() => ReduceOutcome::NoOp,
            StateAction::ChatTurnStarted(started) => {
                let outcome = self.reduce(action);
                self.reindex();
                self.message_bytes = 256 + json_bytes(&started.message);
                self.parts_bytes = 0;
                outcome
            }
            StateAction::ChatResponsePart(_)
            | StateAction::ChatToolCallStart(_)
            | StateAction::ChatInputRequested(_) => {
                let before = self.part_count();
                let outcome = self.reduce(action);
                for index in before..self.part_count() {
                    self.index_part(index);
                    self.parts_bytes += 256;
                }
                outcome
            }
            StateAction::ChatToolCallDelta(delta) => {
                self.parts_bytes += delta.content.as_ref().map_or(0, String::len);
                self.reduce_call(&delta.tool_call_id, action)
            }
            StateAction::ChatToolCallReady(ready) => {
                self.parts_bytes += json_bytes(&ready.tool_input) + json_bytes(&ready.edits);
                self.reduce_call(&ready.tool_call_id, action)
            }
            StateAction::ChatToolCallContentChanged(changed) => {
                self.count_content(&changed.tool_call_id, json_bytes(&changed.content));
                self.reduce_call(&changed.tool_call_id, action)
            }
            StateAction::ChatToolCallComplete(complete) => {
                self.count_content(&complete.tool_call_id, json_bytes(&complete.result));
                self.reduce_call(&complete.tool_call_id, action)
            }
            StateAction::ChatToolCallConfirmed(confirmed) => {
                self.parts_bytes += confirmed.edited_tool_input.as_ref().map_or(0, String::len)
                    + json_bytes(&confirmed.user_suggestion)
                    + json_bytes(&confirmed.reason_message);
                self.reduce_call(&confirmed.tool_call_id, action)
            }
            StateAction::ChatToolCallResultConfirmed(confirmed) => self.reduce_call(&confirmed.tool_call_id, action),
            StateAction::ChatToolCallAuthRequired(required) => self.reduce_call(&required.tool_call_id, action),
            StateAction::ChatToolCallAuthResolved(resolved) => self.reduce_call(&resolved.tool_call_id, action),
            StateAction::ChatInputCompleted(_) => {
                let outcome = self.reduce(action);
                self.close_parts();
                outcome
            }
            StateAction::ChatTurnComplete(_) | StateAction::ChatTurnCancelled(_) | StateAction::ChatError(_) => {
                let outcome = self.reduce(action);
                self.keep_completed();
                outcome
            }
            StateAction::ChatTurnResume(_) => self.resume(action),
            StateAction::ChatTruncated(truncated) => self.truncate(truncated.turn_id.as_deref(), action),
            // The host holds the whole history, so pages only ever travel to clients.
            StateAction::ChatTurnsLoaded(_) => ReduceOutcome::NoOp,
            StateAction::ChatQueuedMessagesReordered(reordered) => {
                let full = self.complete_order(reordered);
                self.reduce(&StateAction::ChatQueuedMessagesReordered(full))
            }
            other => self.reduce(other),
        }
    }

    /// Positions of the open parts.
    pub fn open_parts(&self) -> impl Iterator<Item = usize> + '_ {
        self.open.iter().copied()
    }

    /// A tool call of the active turn.
    pub fn tool_call(&self, call: &str) -> Option<&ToolCallState> {
        let index = *self.parts.get(call)?;
        match self.head.active_turn.as_ref()?.response_parts.get(index)? {
            ResponsePart::ToolCall(part) => Some(&part.tool_call),
            _ => None,
        }
    }

    /// An unanswered question of the active turn.
    pub fn open_question(&self, id: &str) -> Option<&ChatInputRequest> {
        let turn = self.head.active_turn.as_ref()?;
        self.open
            .iter()
            .find_map(|index| match turn.response_parts.get(*index)? {
                ResponsePart::InputRequest(part) if part.request.id == id && part.response.is_none() => {
                    Some(&part.request)
                }
                _ => None,
            })
    }

    /// The ids of all unanswered questions of the active turn.
    pub fn open_question_ids(&self) -> Vec<String> {
        let parts = self
            .head
            .active_turn
            .as_ref()
            .map(|turn| turn.response_parts.as_slice());
        let id = |index: &usize| match parts?.get(*index)? {
            ResponsePart::InputRequest(part) => Some(part.request.id.clone()),
            _ => None,
        };
        self.open.iter().filter_map(id).collect()
    }

    /// The tool calls of the active turn that have not ended.
    pub fn open_calls(&self) -> impl Iterator<Item = &ToolCallState> {
        let parts = self
            .head
            .active_turn
            .as_ref()
            .map(|turn| turn.response_parts.as_slice());
        self.open.iter().filter_map(move |index| match parts?.get(*index)? {
            ResponsePart::ToolCall(part) => Some(&part.tool_call),
            _ => None,
        })
    }

    /// Returns true if the active turn waits for a user or a client rather than for its agent.
    pub fn waits_for_users(&self) -> bool {
        let Some(turn) = &self.head.active_turn else {
            return false;
        };
        self.open.iter().any(|index| match turn.response_parts.get(*index) {
            Some(ResponsePart::InputRequest(_)) => true,
            Some(ResponsePart::ToolCall(part)) => match &part.tool_call {
                ToolCallState::PendingConfirmation(_)
                | ToolCallState::PendingResultConfirmation(_)
                | ToolCallState::AuthRequired(_) => true,
                ToolCallState::Running(call) => matches!(call.contributor, Some(ToolCallContributor::Client(_))),
                _ => false,
            },
            _ => false,
        })
    }

    /// Appends text to the part at a known place, as `chat/delta` and `chat/reasoning` do.
    /// Returns whether there is such a part of that kind.
    pub fn append_at(&mut self, index: usize, content: &str, reasoning: bool) -> bool {
        let Some(turn) = Arc::make_mut(&mut self.head).active_turn.as_mut() else {
            return false;
        };
        let text = match turn.response_parts.get_mut(index) {
            Some(ResponsePart::Markdown(part)) if !reasoning => &mut part.content,
            Some(ResponsePart::Reasoning(part)) if reasoning => &mut part.content,
            _ => return false,
        };
        text.push_str(content);
        self.parts_bytes += content.len();
        true
    }

    /// Names every queued message, unmentioned ones at the end in their present order: the
    /// published Rust reducer would sort those by id (E-40).
    pub fn complete_order(&self, reordered: &ChatQueuedMessagesReorderedAction) -> ChatQueuedMessagesReorderedAction {
        let queue = self.head.queued_messages.as_deref().unwrap_or_default();
        let mut order: Vec<String> = Vec::with_capacity(queue.len());
        for id in &reordered.order {
            if !order.contains(id) && queue.iter().any(|message| message.id == *id) {
                order.push(id.clone());
            }
        }
        for message in queue {
            if !order.contains(&message.id) {
                order.push(message.id.clone());
            }
        }
        ChatQueuedMessagesReorderedAction { order }
    }

    fn reduce(&mut self, action: &StateAction) -> ReduceOutcome {
        apply_action_to_chat(Arc::make_mut(&mut self.head), action)
    }

    /// Reduces an action about one tool call; upstream says "applied" even when nothing changed.
    fn reduce_call(&mut self, call: &str, action: &StateAction) -> ReduceOutcome {
        if !self.parts.contains_key(call) {
            return ReduceOutcome::NoOp;
        }
        let outcome = self.reduce(action);
        self.close_parts();
        outcome
    }

    fn count_content(&mut self, call: &str, bytes: usize) {
        let before = self.content_bytes.insert(call.into(), bytes).unwrap_or(0);
        self.parts_bytes = (self.parts_bytes + bytes).saturating_sub(before);
    }

    /// Forgets open parts that are no longer open.
    fn close_parts(&mut self) {
        let parts = self
            .head
            .active_turn
            .as_ref()
            .map(|turn| turn.response_parts.as_slice());
        let parts = parts.unwrap_or_default();
        self.open.retain(|index| parts.get(*index).is_some_and(is_open));
    }

    fn append(&mut self, turn_id: &str, part_id: &str, content: &str, reasoning: bool) -> ReduceOutcome {
        let is_active = self.head.active_turn.as_ref().is_some_and(|turn| turn.id == turn_id);
        match self.parts.get(part_id).copied() {
            // The two kinds are not interchangeable (E-19); upstream drops the text and says "applied".
            Some(index) if is_active && self.append_at(index, content, reasoning) => ReduceOutcome::Applied,
            _ => ReduceOutcome::NoOp,
        }
    }

    fn resume(&mut self, action: &StateAction) -> ReduceOutcome {
        let Some(last) = Arc::make_mut(&mut self.history).pop() else {
            return ReduceOutcome::NoOp;
        };
        self.changes.since(self.turn_count());
        let turn = Arc::unwrap_or_clone(last);
        Arc::make_mut(&mut self.head).turns.push(turn);
        let outcome = self.reduce(action);
        self.keep_completed();
        self.reindex();
        self.count_active();
        outcome
    }

    fn truncate(&mut self, turn_id: Option<&str>, action: &StateAction) -> ReduceOutcome {
        let kept = match turn_id {
            None => 0,
            Some(id) => match self.position(id) {
                Some(index) => index + 1,
                None => return ReduceOutcome::NoOp,
            },
        };
        if kept < self.turn_count() {
            Arc::make_mut(&mut self.history).truncate(kept);
            self.changes.since(kept);
        }
        // The reducer looks for the turn it keeps through and changes nothing about it, so something
        // with its name is enough.
        let head = Arc::make_mut(&mut self.head);
        head.turns.extend(turn_id.map(nominal_turn));
        let outcome = self.reduce(action);
        Arc::make_mut(&mut self.head).turns.clear();
        self.keep_completed();
        self.reindex();
        outcome
    }

    /// Moves the turn that the reducer completed into the history.
    fn keep_completed(&mut self) {
        if !self.head.turns.is_empty() {
            let completed = std::mem::take(&mut Arc::make_mut(&mut self.head).turns);
            self.changes.since(self.turn_count());
            let history = Arc::make_mut(&mut self.history);
            for turn in completed {
                history.push(Arc::new(turn));
            }
        }
        if self.head.active_turn.is_none() {
            self.parts.clear();
            self.open.clear();
            self.content_bytes.clear();
            self.message_bytes = 0;
            self.parts_bytes = 0;
        }
    }

    /// Counts the parts of an active turn that was restored.
    fn count_active(&mut self) {
        let turn = self.head.active_turn.as_ref();
        self.message_bytes = turn.map_or(0, |turn| 256 + json_bytes(&turn.message));
        self.parts_bytes = turn.map_or(0, active_bytes);
    }

    fn part_count(&self) -> usize {
        self.head
            .active_turn
            .as_ref()
            .map_or(0, |turn| turn.response_parts.len())
    }

    fn index_part(&mut self, index: usize) {
        let key = self
            .head
            .active_turn
            .as_ref()
            .and_then(|turn| turn.response_parts.get(index))
            .and_then(part_key);
        if let Some(key) = key {
            // The first part of an id wins, as it does when walking from the front.
            self.parts.entry(key.into()).or_insert(index);
        }
        let turn = self.head.active_turn.as_ref();
        if turn
            .and_then(|turn| turn.response_parts.get(index))
            .is_some_and(is_open)
        {
            self.open.insert(index);
        }
    }

    fn reindex(&mut self) {
        self.parts.clear();
        self.open.clear();
        self.content_bytes.clear();
        for index in 0..self.part_count() {
            self.index_part(index);
        }
    }
}

/// The id by which appends and tool call actions address a part.
fn part_key(part: &ResponsePart) -> Option<&str> {
    match part {
        ResponsePart::Markdown(part) => Some(&part.id),
        ResponsePart::Reasoning(part) => Some(&part.id),
        ResponsePart::ToolCall(part) => match &part.tool_call {
            ToolCallState::Streaming(call) => Some(&call.tool_call_id),
            ToolCallState::PendingConfirmation(call) => Some(&call.tool_call_id),
            ToolCallState::Running(call) => Some(&call.tool_call_id),
            ToolCallState::AuthRequired(call) => Some(&call.tool_call_id),
            ToolCallState::PendingResultConfirmation(call) => Some(&call.tool_call_id),
            ToolCallState::Completed(call) => Some(&call.tool_call_id),
            ToolCallState::Cancelled(call) => Some(&call.tool_call_id),
            ToolCallState::Unknown(_) => None,
        },
        ResponsePart::ContentRef(_)
        | ResponsePart::SystemNotification(_)
        | ResponsePart::InputRequest(_)
        | ResponsePart::Error(_)
        | ResponsePart::Unknown(_) => None,
    }
}

fn is_open(part: &ResponsePart) -> bool {
    match part {
        ResponsePart::InputRequest(part) => part.response.is_none(),
        ResponsePart::ToolCall(part) => !matches!(
            part.tool_call,
            ToolCallState::Completed(_) | ToolCallState::Cancelled(_) | ToolCallState::Unknown(_)
        ),
        _ => false,
    }
}

/// Roughly how many bytes the parts of an active turn take.
fn active_bytes(turn: &ActiveTurn) -> usize {
    let parts = turn.response_parts.iter().map(|part| match part {
        ResponsePart::Markdown(part) => 256 + part.content.len(),
        ResponsePart::Reasoning(part) => 256 + part.content.len(),
        other => 256 + json_bytes(other),
    });
    parts.sum()
}

/// A turn with nothing but its id.
fn nominal_turn(id: &str) -> Turn {
    Turn {
        id: id.to_owned(),
        started_at: None,
        duration: None,
        message: Message {
            text: String::new(),
            origin: MessageOrigin {
                kind: MessageKind::User,
            },
            attachments: None,
            model: None,
            agent: None,
            meta: None,
        },
        response_parts: Vec::new(),
        usage: None,
        state: TurnState::Complete,
    }
}

#[cfg(test)]
mod tests;
