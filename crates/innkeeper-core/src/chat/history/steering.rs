//! Steering messages: text that users send while a turn is running (PEND-04). A steering message becomes a part of
//! the turn in the same step in which it stops waiting, so that no cancel, crash or fork loses it (lessons 25, 26).

use ahp_types::common::StringOrMarkdown;
use ahp_types::state::{Message, SystemNotificationResponsePart};
use serde_json::json;

use super::attachment::past_attachments;
use crate::agent::Attachment;

/// Mark of a part that holds a user's text.
const MARK: &str = "steering";

/// A message as its agent gets it in the middle of a turn: as text, with all attachments.
pub(crate) fn words_of(message: &Message) -> String {
    let mut words = String::new();
    for attachment in past_attachments(message) {
        let told = match attachment {
            Attachment::Text { label, text } => {
                let label = label.replace(['"', '\n'], " ");
                format!("<attachment label=\"{label}\">\n{text}\n</attachment>\n")
            }
            Attachment::Reference { label, meta } => match meta.get("uri").and_then(|uri| uri.as_str()) {
                Some(uri) => format!("Attached: {label} ({uri})\n"),
                None => format!("Attached: {label}\n"),
            },
            Attachment::Resource {
                label, uri, selection, ..
            } => match selection {
                Some(selection) => format!("Attached: {label} ({uri}), {}\n", selection.in_words()),
                None => format!("Attached: {label} ({uri})\n"),
            },
            Attachment::Annotations { label, remarks, .. } => {
                let remarks: String = remarks.iter().map(|remark| remark.in_words(&remark.file)).collect();
                let label = label.replace(['"', '\n'], " ");
                format!("<attachment label=\"{label}\">\nRemarks on files.\n{remarks}</attachment>\n")
            }
            Attachment::Embedded { label, .. } | Attachment::Chat { label, .. } => format!("Attached: {label}\n"),
        };
        words.push_str(&told);
    }
    words.push_str(&message.text);
    words
}

/// The part of a turn that keeps such words.
pub(crate) fn steering_part(words: &str) -> SystemNotificationResponsePart {
    let mark = json!({ MARK: true });
    SystemNotificationResponsePart {
        content: StringOrMarkdown::Plain(words.to_owned()),
        meta: mark.as_object().cloned().map(|mark| mark.into_iter().collect()),
    }
}

/// The words that a part keeps, if it is such a part.
pub(crate) fn steering_in(part: &SystemNotificationResponsePart) -> Option<String> {
    part.meta.as_ref()?.get(MARK)?;
    Some(part.content.as_text().to_owned())
}
