//! The part of a chat that an editor was told, and the updates that bring it to the present state.

use std::collections::{HashMap, HashSet};

use ahp_types::state::{ChatState, Message, MessageKind, ResponsePart, ToolResultContent};
use serde_json::{Map, Value, json};

use super::content::{exit_code, message_blocks, output, path_of, plain, text_block};
use super::tool_call::Call;
use super::{Sources, plan};

/// The part of a chat that an editor was told.
#[derive(Debug, Default)]
pub(crate) struct Transcript {
    /// The turns that were told to their end.
    told: HashSet<String>,
    /// The progress in the turn that runs, and in the latest one that ended: it can be resumed.
    turns: HashMap<String, TurnProgress>,
    /// The turns whose messages came from the editor itself. It shows them, and their errors, on its own.
    own: HashSet<String>,
}

#[derive(Debug, Default)]
struct TurnProgress {
    has_message: bool,
    parts: Vec<PartProgress>,
}

#[derive(Debug, Default)]
enum PartProgress {
    #[default]
    New,
    /// So many bytes of the text.
    Text(usize),
    Call(Box<CallProgress>),
    Over,
}

#[derive(Debug, Default)]
struct CallProgress {
    fields: Map<String, Value>,
    terminals: HashMap<String, TerminalProgress>,
}

#[derive(Debug, Default)]
struct TerminalProgress {
    bytes: usize,
    has_ended: bool,
}

impl Transcript {
    /// Says that the editor itself sent the message of a turn.
    pub(crate) fn own(&mut self, turn: &str) {
        self.own.insert(turn.to_owned());
    }

    /// Leaves out the turns so far.
    pub(crate) fn skip(&mut self, chat: &ChatState) {
        self.told.extend(chat.turns.iter().map(|turn| turn.id.clone()));
    }

    /// Returns whether a turn was told to its end.
    pub(crate) fn has_told(&self, turn: &str) -> bool {
        self.told.contains(turn)
    }

    /// Returns whether all turns that have ended were told.
    pub(crate) fn is_complete(&self, chat: &ChatState) -> bool {
        chat.turns.last().is_none_or(|turn| self.told.contains(&turn.id))
    }

    /// Returns the updates since the last call. A turn whose contents are on their way holds up those behind it.
    pub(crate) fn advance(&mut self, chat: &ChatState, sources: &mut Sources<'_>) -> Vec<Value> {
        let mut updates = Vec::new();
        let told = chat.turns.iter().rposition(|turn| self.told.contains(&turn.id));
        for turn in chat.turns.iter().skip(told.map_or(0, |position| position + 1)) {
            if !self.tell(&turn.id, &turn.message, &turn.response_parts, sources, &mut updates) {
                return updates;
            }
            self.turns.retain(|id, _| *id == turn.id);
            self.told.insert(turn.id.clone());
        }
        if let Some(turn) = &chat.active_turn {
            // A resumed turn ends again.
            self.told.remove(&turn.id);
            self.tell(&turn.id, &turn.message, &turn.response_parts, sources, &mut updates);
        }
        updates
    }

    /// Returns false if contents are on their way.
    fn tell(
        &mut self,
        id: &str,
        message: &Message,
        parts: &[ResponsePart],
        sources: &mut Sources<'_>,
        updates: &mut Vec<Value>,
    ) -> bool {
        let is_own = self.own.contains(id);
        let turn = self.turns.entry(id.to_owned()).or_default();
        if !std::mem::replace(&mut turn.has_message, true) && !is_own {
            updates.extend(message_updates(id, message));
        }
        turn.parts
            .resize_with(parts.len().max(turn.parts.len()), PartProgress::default);
        let mut is_whole = true;
        for (part, progress) in parts.iter().zip(&mut turn.parts) {
            is_whole &= tell_part(part, progress, is_own, sources, updates);
        }
        is_whole
    }
}

fn message_updates(turn: &str, message: &Message) -> Vec<Value> {
    let kind = match message.origin.kind {
        MessageKind::SystemNotification => "agent_thought_chunk",
        _ => "user_message_chunk",
    };
    let blocks = message_blocks(message).into_iter();
    blocks.map(|block| chunk(kind, block, Some(turn))).collect()
}

fn chunk(kind: &str, block: Value, message: Option<&str>) -> Value {
    match message {
        Some(message) => json!({ "sessionUpdate": kind, "content": block, "messageId": message }),
        None => json!({ "sessionUpdate": kind, "content": block }),
    }
}

/// Returns an update with a text that no part of the chat has.
pub(crate) fn text_update(text: &str) -> Value {
    chunk("agent_message_chunk", text_block(text), None)
}

fn tell_part(
    part: &ResponsePart,
    progress: &mut PartProgress,
    is_own: bool,
    sources: &mut Sources<'_>,
    updates: &mut Vec<Value>,
) -> bool {
    if matches!(progress, PartProgress::Over) {
        return true;
    }
    let once = match part {
        ResponsePart::Markdown(part) => {
            updates.extend(tell_text("agent_message_chunk", &part.id, &part.content, progress));
            return true;
        }
        ResponsePart::Reasoning(part) => {
            updates.extend(tell_text("agent_thought_chunk", &part.id, &part.content, progress));
            return true;
        }
        ResponsePart::ToolCall(part) => {
            let Some(call) = Call::read(&part.tool_call) else {
                return true;
            };
            return tell_call(&call, progress, sources, updates);
        }
        ResponsePart::ContentRef(file) => {
            let name = super::content::name_of(&file.uri);
            let link = super::content::link(&file.uri, name, file.content_type.as_deref());
            Some(chunk("agent_message_chunk", link, None))
        }
        ResponsePart::SystemNotification(notice) => {
            Some(chunk("agent_thought_chunk", text_block(&plain(&notice.content)), None))
        }
        // The editor gets the error of its own message as the answer to its request.
        ResponsePart::Error(part) if !is_own => Some(text_update(&format!("\n\n**Error:** {}", part.error.message))),
        ResponsePart::Error(_) | ResponsePart::InputRequest(_) | ResponsePart::Unknown(_) => None,
    };
    *progress = PartProgress::Over;
    updates.extend(once);
    true
}

fn tell_text(kind: &str, id: &str, text: &str, progress: &mut PartProgress) -> Option<Value> {
    let told = match progress {
        PartProgress::Text(told) => *told,
        _ => 0,
    };
    let new = text.get(told..).filter(|new| !new.is_empty())?;
    *progress = PartProgress::Text(text.len());
    Some(chunk(kind, text_block(new), Some(id)))
}

fn tell_call(
    call: &Call<'_>,
    progress: &mut PartProgress,
    sources: &mut Sources<'_>,
    updates: &mut Vec<Value>,
) -> bool {
    if !matches!(progress, PartProgress::Call(_)) {
        *progress = PartProgress::Call(Box::default());
    }
    let PartProgress::Call(told) = progress else {
        return true;
    };
    let mut is_whole = true;
    if let Some(entries) = plan_of(call) {
        let entries = Value::from(entries);
        if told.fields.get("entries") != Some(&entries) {
            updates.push(json!({ "sessionUpdate": "plan", "entries": entries }));
            told.fields.insert("entries".to_owned(), entries);
        }
    } else if call.tool != plan::TOOL || call.is_over {
        let (fields, whole) = call.fields(sources);
        is_whole = whole;
        tell_fields(call, told, fields, sources, updates);
    }
    if call.is_over && is_whole {
        *progress = PartProgress::Over;
    }
    is_whole
}

fn plan_of(call: &Call<'_>) -> Option<Vec<Value>> {
    if call.tool != plan::TOOL {
        return None;
    }
    let text = call.content.iter().find_map(|part| match part {
        ToolResultContent::Text(text) => Some(text.text.as_str()),
        _ => None,
    });
    plan::entries(call.input().as_ref(), text.unwrap_or_default())
}

/// Tells the fields that have changed, and the output of terminals.
fn tell_fields(
    call: &Call<'_>,
    told: &mut CallProgress,
    fields: Map<String, Value>,
    sources: &mut Sources<'_>,
    updates: &mut Vec<Value>,
) {
    let terminals = call.content.iter().filter_map(|part| match part {
        ToolResultContent::Terminal(terminal) => Some(terminal.resource.clone()),
        _ => None,
    });
    let terminals: Vec<String> = terminals.collect();
    let is_new = told.fields.is_empty();
    let changed = fields
        .iter()
        .filter(|(name, value)| told.fields.get(*name) != Some(value));
    let mut update: Map<String, Value> = changed.map(|(name, value)| (name.clone(), value.clone())).collect();
    told.fields = fields;
    if sources.draws_terminals {
        let new = terminals.iter().find(|uri| !told.terminals.contains_key(*uri));
        if let Some(uri) = new {
            told.terminals.insert(uri.clone(), TerminalProgress::default());
            let cwd = sources
                .terminals
                .get(uri)
                .and_then(|state| state.cwd.as_deref())
                .map(path_of);
            update.insert(
                "_meta".to_owned(),
                json!({ "terminal_info": { "terminal_id": uri, "cwd": cwd } }),
            );
        }
    }
    if !update.is_empty() {
        let kind = if is_new { "tool_call" } else { "tool_call_update" };
        updates.push(call_update(kind, call.id, update));
    }
    for uri in terminals {
        if let Some(progress) = told.terminals.get_mut(&uri) {
            tell_terminal(call, &uri, progress, sources, updates);
        }
        if !call.is_over {
            sources.open_terminals.push(uri);
        }
    }
}

fn call_update(kind: &str, id: &str, fields: Map<String, Value>) -> Value {
    let mut update = Map::from_iter([
        ("sessionUpdate".to_owned(), kind.into()),
        ("toolCallId".to_owned(), id.into()),
    ]);
    update.extend(fields);
    Value::Object(update)
}

/// Tells the output of a terminal to an editor that draws terminals itself.
fn tell_terminal(
    call: &Call<'_>,
    uri: &str,
    progress: &mut TerminalProgress,
    sources: &Sources<'_>,
    updates: &mut Vec<Value>,
) {
    let result = call.content.iter().find_map(|part| match part {
        ToolResultContent::Terminal(terminal) if terminal.resource == uri => terminal.result.as_ref(),
        _ => None,
    });
    let state = sources.terminals.get(uri);
    let so_far = state.map(output);
    // A replayed call has no terminal any more, but the beginning of its output.
    let preview = || result.and_then(|result| result.preview.clone());
    let so_far = so_far.or_else(preview).unwrap_or_default();
    let mut tell = |name: &str, value: Value| {
        let meta = Map::from_iter([("_meta".to_owned(), json!({ name: value }))]);
        updates.push(call_update("tool_call_update", call.id, meta));
    };
    if let Some(data) = so_far.get(progress.bytes..).filter(|data| !data.is_empty()) {
        tell("terminal_output", json!({ "terminal_id": uri, "data": data }));
    }
    progress.bytes = so_far.len();
    let code = state
        .and_then(exit_code)
        .or_else(|| result.map(|result| result.exit_code));
    if let Some(code) = code
        .or_else(|| call.is_over.then_some(None))
        .filter(|_| !progress.has_ended)
    {
        progress.has_ended = true;
        tell(
            "terminal_exit",
            json!({ "terminal_id": uri, "exit_code": code, "signal": null }),
        );
    }
}
