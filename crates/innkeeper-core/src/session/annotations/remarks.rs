//! Annotations that come with a message: resolved when the message is accepted, so that the agent gets them as its
//! user saw them, also when the turn is told again later (ANN-08).

use ahp_types::state::{Annotation, MessageAnnotationsAttachment};
use serde_json::{Value, json};

use crate::agent::{Remark, TextSpan};
use crate::core::{ChannelPart as _, Host};

use super::Annotations;

/// In `_meta` of an attachment: the resolved annotations.
const REMARKS: &str = "innkeeper.remarks";
/// Maximum bytes of the texts of all annotations of one attachment.
const MAX_REMARK_BYTES: usize = 256 << 10;

impl Host {
    /// Writes the annotations that an attachment names into its `_meta`: all of the channel's, or the listed ones.
    pub(crate) fn pin_annotations(&self, attached: &mut MessageAnnotationsAttachment) -> Result<(), String> {
        let session = Annotations::session_of(&attached.resource).and_then(|uri| self.channels.find(uri));
        let Some(session) = session.filter(|session| self.sessions.contains_key(session)) else {
            return Err(format!(
                "has a resource that is no channel of annotations: {:?}",
                attached.resource
            ));
        };
        let all = self.parts.annotations.of_session(session);
        let all = all.map(|state| state.annotations.as_slice()).unwrap_or_default();
        let chosen: Vec<&Annotation> = match &attached.annotation_ids {
            None => all.iter().collect(),
            Some(ids) => {
                let find = |id: &String| {
                    let found = all.iter().find(|annotation| annotation.id == *id);
                    found.ok_or_else(|| format!("names an annotation that does not exist: {id:?}"))
                };
                ids.iter().map(find).collect::<Result<_, _>>()?
            }
        };
        let mut room = MAX_REMARK_BYTES;
        let mut remarks = Vec::new();
        for annotation in chosen {
            let remark = remark(annotation);
            let bytes: usize = remark.texts.iter().map(String::len).sum();
            if bytes > room {
                return Err(format!(
                    "has annotations with more than {MAX_REMARK_BYTES} bytes of text; attach fewer of them"
                ));
            }
            room -= bytes;
            remarks.push(json!(remark));
        }
        let meta = attached.meta.get_or_insert_default();
        meta.insert(REMARKS.to_owned(), Value::Array(remarks));
        Ok(())
    }
}

/// The resolved annotations of an attachment.
pub(crate) fn remarks_in(attached: &MessageAnnotationsAttachment) -> Vec<Remark> {
    let meta = attached.meta.as_ref().and_then(|meta| meta.get(REMARKS));
    meta.and_then(|remarks| serde_json::from_value(remarks.clone()).ok())
        .unwrap_or_default()
}

fn remark(annotation: &Annotation) -> Remark {
    let span = annotation.range.as_ref().and_then(|range| {
        Some(TextSpan {
            start_line: range.start.line.try_into().ok()?,
            start_character: range.start.character.try_into().ok()?,
            end_line: range.end.line.try_into().ok()?,
            end_character: range.end.character.try_into().ok()?,
        })
    });
    Remark {
        file: annotation.resource.clone(),
        span,
        resolved: annotation.resolved,
        texts: annotation
            .entries
            .iter()
            .map(|entry| entry.text.as_text().to_owned())
            .collect(),
    }
}
