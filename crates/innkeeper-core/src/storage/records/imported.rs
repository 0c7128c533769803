//! Imported sessions: nothing that was allowed elsewhere is allowed here.

use ahp_types::actions::{ActionEnvelope, StateAction};
use ahp_types::state::SessionConfigState;
use serde_json::{Map, Value};

use crate::chat::approval;
use crate::protocol::frame::ACTION_HEAD;
use crate::session::settings;

/// The end of the document of an imported session that has not been opened yet.
const MARK: &[u8] = b",\"imported\":true}";

/// Marks the document of a session that was exported elsewhere, so that its approvals are reset when
/// it is opened. Returns the document and the approvals in it. Bytes that are no document stay as
/// they are; such a session cannot be opened.
pub fn mark_imported(document: &[u8]) -> (Vec<u8>, Vec<String>) {
    let Ok(Value::Object(fields)) = serde_json::from_slice(document) else {
        return (document.to_vec(), Vec::new());
    };
    let values = fields.get("state").and_then(|state| state.pointer("/config/values"));
    let approvals = values.and_then(Value::as_object).cloned().map(allowed);
    let mut marked = without_import_mark(document);
    if let (false, Some(b'}')) = (fields.is_empty(), marked.last()) {
        marked.pop();
        marked.extend_from_slice(MARK);
    }
    (marked, approvals.unwrap_or_default())
}

/// The document as it was exported.
pub fn without_import_mark(document: &[u8]) -> Vec<u8> {
    match document.strip_suffix(MARK) {
        Some(fields) => [fields, b"}"].concat(),
        None => document.to_vec(),
    }
}

/// The approvals that an action of an imported session adds, read from its log.
pub fn approvals_in_action(message: &[u8]) -> Vec<String> {
    let envelope = message
        .strip_prefix(ACTION_HEAD)
        .and_then(|rest| rest.strip_suffix(b"}"));
    let envelope = envelope.and_then(|bytes| serde_json::from_slice::<ActionEnvelope>(bytes).ok());
    match envelope.map(|envelope| envelope.action) {
        Some(StateAction::SessionConfigChanged(changed)) => allowed(changed.config),
        _ => Vec::new(),
    }
}

fn allowed(values: Map<String, Value>) -> Vec<String> {
    let schema = settings::session_schema(&[]);
    approval::reset(&mut SessionConfigState { schema, values })
}
