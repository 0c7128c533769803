//! Calls of one answer while they come in.

use crate::model::api::{ModelEvent, ToolUse};

/// The name of a call whose name never came. No tool has it, so the model is told so.
const UNNAMED_TOOL: &str = "nameless_tool";

/// The calls of an answer, in the order in which they began.
///
/// Servers differ in when they send a call's id and name, and some never do: a call is announced
/// once both are known, or once it is clear that they will not come.
#[derive(Debug)]
pub(super) struct StreamedCalls {
    id_prefix: String,
    calls: Vec<StreamedCall>,
}

#[derive(Debug, Default)]
struct StreamedCall {
    id: Option<String>,
    name: Option<String>,
    /// Input that waits for the call to be announced.
    buffered: String,
    announced: bool,
    /// Bytes of input that are out.
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

    /// The last call that began.
    pub(super) fn last(&self) -> Option<usize> {
        self.calls.len().checked_sub(1)
    }

    /// Begins another call and gives its index.
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

    /// Learns a call's id and name; what is known already stays.
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

    /// More of a call's input.
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

    /// The whole input of a call, of which some may have come before.
    pub(super) fn whole_input(&mut self, index: usize, text: &str, out: &mut Vec<ModelEvent>) {
        let known = self.calls.get(index).map_or(0, |call| call.sent + call.buffered.len());
        if let Some(rest) = text.get(known..) {
            self.input(index, rest, out);
        }
    }

    /// A call is complete.
    pub(super) fn end(&mut self, index: usize, out: &mut Vec<ModelEvent>) {
        self.announce(index, out);
        if let Some(call) = self.calls.get_mut(index) {
            call.ended = true;
        }
    }

    /// All calls are complete. One without any input has an empty one, unless the answer was cut
    /// before its input began: what the model did not write must not run.
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

/// A call's input as an object: providers take nothing else back, and a model that sees what it
/// wrote can do better.
pub(super) fn input_object(call: &ToolUse) -> serde_json::Value {
    match serde_json::from_str(&call.input) {
        Ok(value @ serde_json::Value::Object(_)) => value,
        _ if call.input.trim().is_empty() => serde_json::json!({}),
        _ => serde_json::json!({"malformed_input": call.input}),
    }
}

/// The same as text; input that is an object stays as the model wrote it.
pub(super) fn input_text(call: &ToolUse) -> String {
    match serde_json::from_str::<serde_json::Value>(&call.input) {
        Ok(value) if value.is_object() => call.input.clone(),
        _ => input_object(call).to_string(),
    }
}
