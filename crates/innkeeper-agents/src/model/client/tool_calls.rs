//! Collects the streamed tool calls of one answer.

use crate::model::api::{ModelEvent, ToolUse};

/// Name for a call without a name. No tool has it, so the model gets an error.
const UNNAMED_TOOL: &str = "nameless_tool";

/// The calls of an answer, in order.
///
/// Servers differ in when they send a call's id and name, and some never do. A call is emitted once both are known,
/// or once it is certain that they will not come.
#[derive(Debug)]
pub(super) struct StreamedCalls {
    id_prefix: String,
    calls: Vec<StreamedCall>,
}

#[derive(Debug, Default)]
struct StreamedCall {
    id: Option<String>,
    name: Option<String>,
    /// Input received before the call was emitted.
    buffered: String,
    announced: bool,
    /// Bytes of emitted input.
    sent: usize,
    ended: bool,
}

impl StreamedCalls {
    pub(super) fn new(id_prefix: &str) -> Self {
        Self {
            id_prefix: id_prefix.to_owned(),
            calls: Vec::new(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Index of the last call.
    pub(super) fn last(&self) -> Option<usize> {
        self.calls.len().checked_sub(1)
    }

    /// Starts a call and returns its index.
    pub(super) fn begin(&mut self) -> usize {
        self.calls.push(StreamedCall::default());
        self.calls.len() - 1
    }

    pub(super) fn id(&self, index: usize) -> Option<&str> {
        self.calls.get(index)?.id.as_deref()
    }

    pub(super) fn has_name(&self, index: usize) -> bool {
        self.calls.get(index).is_some_and(|call| call.name.is_some())
    }

    /// Sets a call's id and name unless they are already known.
    pub(super) fn describe(&mut self, index: usize, id: Option<&str>, name: Option<&str>, out: &mut Vec<ModelEvent>) {
        let Some(call) = self.calls.get_mut(index) else {
            return;
        };
        let non_empty = |text: Option<&str>| text.filter(|text| !text.is_empty()).map(str::to_owned);
        if call.id.is_none() {
            call.id = non_empty(id);
        }
        if call.name.is_none() {
            call.name = non_empty(name);
        }
        if call.id.is_some() && call.name.is_some() {
            self.announce(index, out);
        }
    }

    /// Adds input of a call.
    pub(super) fn input(&mut self, index: usize, text: &str, out: &mut Vec<ModelEvent>) {
        let Some(call) = self.calls.get_mut(index).filter(|call| !call.ended && !text.is_empty()) else {
            return;
        };
        if call.announced {
            call.sent += text.len();
            out.push(ModelEvent::CallInput {
                index,
                text: text.to_owned(),
            });
        } else {
            call.buffered.push_str(text);
        }
    }

    /// Sets the complete input of a call. A part may have been streamed before.
    pub(super) fn whole_input(&mut self, index: usize, text: &str, out: &mut Vec<ModelEvent>) {
        let known = self.calls.get(index).map_or(0, |call| call.sent + call.buffered.len());
        if let Some(rest) = text.get(known..) {
            self.input(index, rest, out);
        }
    }

    /// Ends a call.
    pub(super) fn end(&mut self, index: usize, out: &mut Vec<ModelEvent>) {
        self.announce(index, out);
        if let Some(call) = self.calls.get_mut(index) {
            call.ended = true;
        }
    }

    /// Ends all calls. A call without input gets an empty object, unless the answer was cut off before its input:
    /// then it must not run.
    pub(super) fn end_all(&mut self, was_cut: bool, out: &mut Vec<ModelEvent>) {
        let last = self.last();
        for index in 0..self.calls.len() {
            self.end(index, out);
            let is_empty = self.calls.get(index).is_some_and(|call| call.sent == 0);
            if is_empty && !(was_cut && Some(index) == last) {
                out.push(ModelEvent::CallInput {
                    index,
                    text: "{}".to_owned(),
                });
            }
        }
    }

    fn announce(&mut self, index: usize, out: &mut Vec<ModelEvent>) {
        let Some(call) = self.calls.get_mut(index).filter(|call| !call.announced) else {
            return;
        };
        call.announced = true;
        let id = call.id.get_or_insert_with(|| format!("{}_{index}", self.id_prefix));
        let name = call.name.get_or_insert_with(|| UNNAMED_TOOL.to_owned());
        out.push(ModelEvent::CallStart {
            index,
            id: id.clone(),
            name: name.clone(),
        });
        let buffered = std::mem::take(&mut call.buffered);
        self.input(index, &buffered, out);
    }
}

/// Parses a call's input into an object. Providers accept only objects, so malformed input is wrapped for the model
/// to see.
pub(super) fn input_object(call: &ToolUse) -> serde_json::Value {
    match serde_json::from_str(&call.input) {
        Ok(value @ serde_json::Value::Object(_)) => value,
        _ if call.input.trim().is_empty() => serde_json::json!({}),
        _ => serde_json::json!({"malformed_input": call.input}),
    }
}

/// Returns the input as JSON text; an object stays as the model wrote it.
pub(super) fn input_text(call: &ToolUse) -> String {
    match serde_json::from_str::<serde_json::Value>(&call.input) {
        Ok(value) if value.is_object() => call.input.clone(),
        _ => input_object(call).to_string(),
    }
}
