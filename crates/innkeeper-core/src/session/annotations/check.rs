//! The rules for the five actions (ANN-01 to ANN-06).

use ahp_types::actions::{AnnotationsEntryRemovedAction, AnnotationsSetAction, AnnotationsUpdatedAction, StateAction};
use ahp_types::state::{Annotation, AnnotationEntry, AnnotationOrigin, AnnotationsState, TextRange};

use crate::core::{Host, json_bytes};
use crate::ids::ChannelId;
use crate::protocol::uri;
use crate::session::Session;

/// Most annotations of a session.
const MAX_ANNOTATIONS: usize = 2000;
/// Maximum entries of an annotation.
const MAX_ENTRIES: usize = 500;
/// Maximum bytes of one annotation or entry, as JSON.
const MAX_BYTES: usize = 256 << 10;
/// Maximum bytes of all annotations of a session, as JSON. They are part of the session's document.
const MAX_TOTAL_BYTES: usize = 8 << 20;
/// Longest id.
const MAX_ID_BYTES: usize = 256;

impl Host {
    /// Checks an action on a channel of annotations. An action about something unknown is rejected, because the
    /// reducer would ignore it and its author has to roll back (ANN-06).
    pub(super) fn check_annotations(&self, channel: ChannelId, action: &StateAction) -> Result<(), String> {
        let annotations = &self.parts.annotations;
        let session_id = annotations.sessions.get(&channel);
        let session = session_id.and_then(|id| self.sessions.get(id));
        let state = annotations.of_channel(channel).map(|found| &*found.state);
        let (Some(session), Some(state)) = (session, state) else {
            return Err("the session is gone".to_owned());
        };
        match action {
            StateAction::AnnotationsSet(set) => check_set(session, state, set),
            StateAction::AnnotationsUpdated(updated) => check_updated(session, state, updated),
            StateAction::AnnotationsRemoved(removed) => find(state, &removed.annotation_id).map(|_| ()),
            StateAction::AnnotationsEntrySet(set) => {
                let annotation = find(state, &set.annotation_id)?;
                check_entry("entry", &set.entry)?;
                let is_new = !annotation.entries.iter().any(|entry| entry.id == set.entry.id);
                if is_new && annotation.entries.len() >= MAX_ENTRIES {
                    return Err(format!("an annotation has at most {MAX_ENTRIES} entries"));
                }
                check_total(state, json_bytes(&set.entry))
            }
            StateAction::AnnotationsEntryRemoved(removed) => check_entry_removed(state, removed),
            _ => Err("clients may not send this to annotations".to_owned()),
        }
    }
}

fn check_set(session: &Session, state: &AnnotationsState, set: &AnnotationsSetAction) -> Result<(), String> {
    let annotation = &set.annotation;
    check_id("annotation.id", &annotation.id)?;
    check_origin(session, "annotation.origin", &annotation.origin)?;
    check_resource("annotation.resource", &annotation.resource)?;
    check_range("annotation.range", annotation.range.as_ref())?;
    if annotation.entries.is_empty() {
        return Err("annotation.entries: must have at least one entry".to_owned());
    }
    if annotation.entries.len() > MAX_ENTRIES {
        return Err(format!(
            "annotation.entries: an annotation has at most {MAX_ENTRIES} entries"
        ));
    }
    let mut ids: Vec<&str> = Vec::new();
    for (index, entry) in annotation.entries.iter().enumerate() {
        check_entry(&format!("annotation.entries[{index}]"), entry)?;
        if ids.contains(&entry.id.as_str()) {
            return Err(format!("annotation.entries[{index}].id: {:?} is there twice", entry.id));
        }
        ids.push(&entry.id);
    }
    let is_new = !state.annotations.iter().any(|known| known.id == annotation.id);
    if is_new && annotation.resolved {
        return Err(
            "annotation.resolved: a new annotation is not resolved; resolve it with annotations/updated".into(),
        );
    }
    if is_new && state.annotations.len() >= MAX_ANNOTATIONS {
        return Err(format!(
            "a session has at most {MAX_ANNOTATIONS} annotations; remove some that are resolved"
        ));
    }
    let bytes = json_bytes(annotation);
    if bytes > MAX_BYTES {
        return Err(format!(
            "annotation: has {bytes} bytes; at most {MAX_BYTES} are allowed"
        ));
    }
    check_total(state, bytes)
}

fn check_updated(
    session: &Session,
    state: &AnnotationsState,
    updated: &AnnotationsUpdatedAction,
) -> Result<(), String> {
    find(state, &updated.annotation_id)?;
    if let Some(origin) = &updated.origin {
        check_origin(session, "origin", origin)?;
    }
    if let Some(resource) = &updated.resource {
        check_resource("resource", resource)?;
    }
    check_range("range", updated.range.as_ref())
}

fn check_entry_removed(state: &AnnotationsState, removed: &AnnotationsEntryRemovedAction) -> Result<(), String> {
    let annotation = find(state, &removed.annotation_id)?;
    if !annotation.entries.iter().any(|entry| entry.id == removed.entry_id) {
        return Err(format!(
            "entryId: the annotation has no entry {:?}",
            shown(&removed.entry_id)
        ));
    }
    match annotation.entries.len() {
        1 => {
            Err("entryId: the last entry cannot be removed; remove the annotation with annotations/removed".to_owned())
        }
        _ => Ok(()),
    }
}

fn find<'a>(state: &'a AnnotationsState, id: &str) -> Result<&'a Annotation, String> {
    let mut all = state.annotations.iter();
    all.find(|annotation| annotation.id == id)
        .ok_or_else(|| format!("annotationId: there is no annotation {:?}", shown(id)))
}

fn check_entry(field: &str, entry: &AnnotationEntry) -> Result<(), String> {
    check_id(&format!("{field}.id"), &entry.id)?;
    if entry.text.as_text().trim().is_empty() {
        return Err(format!("{field}.text: must not be empty"));
    }
    match json_bytes(entry) {
        bytes if bytes > MAX_BYTES => Err(format!("{field}: has {bytes} bytes; at most {MAX_BYTES} are allowed")),
        _ => Ok(()),
    }
}

/// The provenance of an annotation is the session that the channel belongs to, and perhaps one of its chats (ANN-04).
fn check_origin(session: &Session, field: &str, origin: &AnnotationOrigin) -> Result<(), String> {
    if origin.session != *session.uri {
        return Err(format!("{field}.session: must be {}", session.uri));
    }
    match &origin.chat {
        Some(chat) if !session.state.chats.iter().any(|known| known.resource == *chat) => {
            Err(format!("{field}.chat: the session has no chat {:?}", shown(chat)))
        }
        None if origin.turn_id.is_some() => Err(format!("{field}.chat: is missing; turnId names a turn of a chat")),
        Some(_) | None => Ok(()),
    }
}

fn check_resource(field: &str, resource: &str) -> Result<(), String> {
    uri::check(resource).map_err(|_| format!("{field}: must be the URI of a file"))
}

fn check_range(field: &str, range: Option<&TextRange>) -> Result<(), String> {
    let Some(TextRange { start, end }) = range else {
        return Ok(());
    };
    let numbers = [start.line, start.character, end.line, end.character];
    if numbers.iter().any(|number| *number < 0) {
        return Err(format!("{field}: lines and characters count from 0"));
    }
    match (start.line, start.character) <= (end.line, end.character) {
        true => Ok(()),
        false => Err(format!("{field}: ends before it starts")),
    }
}

fn check_id(field: &str, id: &str) -> Result<(), String> {
    match id.len() {
        0 => Err(format!("{field}: must not be empty")),
        length if length > MAX_ID_BYTES => Err(format!("{field}: has at most {MAX_ID_BYTES} bytes")),
        _ => Ok(()),
    }
}

fn check_total(state: &AnnotationsState, more: usize) -> Result<(), String> {
    match json_bytes(state).saturating_add(more) > MAX_TOTAL_BYTES {
        true => Err(format!(
            "the annotations of a session have at most {MAX_TOTAL_BYTES} bytes; remove some that are resolved"
        )),
        false => Ok(()),
    }
}

fn shown(text: &str) -> String {
    text.chars().take(128).collect()
}
