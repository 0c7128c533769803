//! Attachments of a message, in particular other chats (TURN-17 to TURN-19).

use std::collections::HashSet;

use ahp_types::state::{Message, MessageAttachment, MessageChatAttachment, TextSelection};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::past_turns_in;
use crate::agent::{Attachment, PastTurn, SpanEnd, TextSpan, TurnSpan, UnreadChat};
use crate::chat::chats::Chat;
use crate::core::Host;
use crate::resources::is_of_mcp_server;
use crate::session::annotations::remarks_in;

impl Host {
    /// Resolves each chat attached to a message to its last completed turn: later turns are not part of the attachment
    /// (TURN-18). A chat without completed turns stays unresolved and adds nothing (TURN-19).
    pub(crate) fn pin_attachments(&self, message: &mut Message) -> Result<(), String> {
        let mut seen = HashSet::new();
        for (index, attachment) in message.attachments.iter_mut().flatten().enumerate() {
            if let MessageAttachment::Chat(attached) = attachment {
                // The agent gets all of its turns, once.
                if !seen.insert(attached.resource.clone()) {
                    return Err(format!("message.attachments[{index}] attaches the same chat again"));
                }
                self.pin(attached)
                    .map_err(|problem| format!("message.attachments[{index}] {problem}"))?;
            }
            if let MessageAttachment::Annotations(attached) = attachment {
                self.pin_annotations(attached)
                    .map_err(|problem| format!("message.attachments[{index}] {problem}"))?;
            }
        }
        Ok(())
    }

    fn pin(&self, attached: &mut MessageChatAttachment) -> Result<(), String> {
        let Some(chat) = self.chat_at(&attached.resource) else {
            return Err(format!("names a chat that does not exist: {:?}", attached.resource));
        };
        let model = &chat.model;
        match &attached.end_turn {
            None => {
                let last = model.turn_count().checked_sub(1).and_then(|last| model.turn_id(last));
                attached.end_turn = last.map(|id| id.to_string());
            }
            Some(end) if model.position(end).is_some() => {}
            Some(end) if chat.model.knows_turn(end) => {
                return Err(
                    "has an endTurn that is still running; wait for its end, or omit endTurn to attach what is complete"
                        .to_owned(),
                );
            }
            Some(end) => return Err(format!("has an endTurn that its chat does not have: {end:?}")),
        }
        Ok(())
    }

    /// Returns the attachments of a message for the agent, and the attached chats that have to be read first.
    pub(crate) fn attachments_of(&self, message: &Message) -> (Vec<Attachment>, Vec<UnreadChat>) {
        let mut told = Vec::new();
        let mut unread = Vec::new();
        for attachment in message.attachments.iter().flatten() {
            if let MessageAttachment::Chat(attached) = attachment
                && let Some(span) = self.unread_span(attached)
            {
                let attachment = told.len();
                unread.push(UnreadChat { attachment, span });
            }
            told.extend(self.attachment(attachment));
        }
        (told, unread)
    }

    fn attachment(&self, attachment: &MessageAttachment) -> Option<Attachment> {
        match attachment {
            MessageAttachment::Simple(simple) => {
                let label = simple.label.clone();
                Some(match &simple.model_representation {
                    Some(text) => Attachment::Text {
                        label,
                        text: text.clone(),
                    },
                    None => Attachment::Reference {
                        label,
                        meta: simple.meta.clone()?.into_iter().collect(),
                    },
                })
            }
            MessageAttachment::EmbeddedResource(embedded) => Some(Attachment::Embedded {
                label: embedded.label.clone(),
                data: embedded.data.clone(),
                content_type: embedded.content_type.clone(),
                selection: embedded.selection.as_ref().and_then(span),
            }),
            MessageAttachment::Resource(resource) => Some(Attachment::Resource {
                label: resource.label.clone(),
                uri: resource.uri.clone(),
                content_type: resource.content_type.clone(),
                selection: resource.selection.as_ref().and_then(span),
            }),
            MessageAttachment::Annotations(annotations) => Some(Attachment::Annotations {
                label: annotations.label.clone(),
                resource: annotations.resource.clone(),
                ids: annotations.annotation_ids.clone().unwrap_or_default(),
                remarks: remarks_in(annotations),
            }),
            MessageAttachment::Chat(attached) => Some(match self.transcript(attached) {
                Some(transcript) => Attachment::Chat {
                    label: attached.label.clone(),
                    uri: attached.resource.clone(),
                    transcript,
                },
                None => Attachment::Text {
                    label: attached.label.clone(),
                    text: "(This attached conversation is gone: it was disposed of or cut after the message was \
                           written.)"
                        .to_owned(),
                },
            }),
            MessageAttachment::Unknown(_) => None,
        }
    }

    /// Returns the turns of an attached chat. The message may have waited in a queue; if the turns were removed since
    /// then, the agent gets a note instead.
    fn transcript(&self, attached: &MessageChatAttachment) -> Option<Vec<PastTurn>> {
        let chat = self.chat_at(&attached.resource)?;
        match &attached.end_turn {
            Some(end) => {
                let last = chat.model.position(end)?;
                let all = 0..last + 1;
                // If some turns are not in memory, the host reads all of them for the agent.
                let is_unread = chat.model.missing(all.clone()).is_some();
                (!is_unread).then(|| past_turns_in(&chat.model, all))
            }
            // It had no completed turn when the message was accepted (TURN-19).
            None => Some(Vec::new()),
        }
    }

    /// The turns of an attached chat, unless they are in memory, or known to be gone.
    fn unread_span(&self, attached: &MessageChatAttachment) -> Option<TurnSpan> {
        let end = attached.end_turn.as_ref()?;
        if let Some(chat) = self.chat_at(&attached.resource) {
            let last = chat.model.position(end)?;
            chat.model.missing(0..last + 1)?;
        }
        // A chat that is not in memory may be in the store.
        Some(TurnSpan {
            chat: attached.resource.as_str().into(),
            end: SpanEnd::Through(end.clone()),
        })
    }

    pub(crate) fn chat_at(&self, uri: &str) -> Option<&Chat> {
        self.chats.get(&self.channels.find(uri)?)
    }
}

/// Returns the attachments of a past message that are worth repeating: texts and references. Images and other
/// conversations are only named, so that an agent knows that it saw them once.
pub(crate) fn past_attachments(message: &Message) -> Vec<Attachment> {
    message
        .attachments
        .iter()
        .flatten()
        .filter_map(past_attachment)
        .collect()
}

fn past_attachment(attachment: &MessageAttachment) -> Option<Attachment> {
    Some(match attachment {
        MessageAttachment::Simple(simple) => {
            let label = simple.label.clone();
            match &simple.model_representation {
                Some(text) => Attachment::Text {
                    label,
                    text: text.clone(),
                },
                None => Attachment::Reference {
                    label,
                    meta: simple.meta.clone()?.into_iter().collect(),
                },
            }
        }
        MessageAttachment::EmbeddedResource(embedded) => {
            let (label, content_type) = (embedded.label.clone(), &embedded.content_type);
            let text = text_of(&embedded.data, content_type)
                .unwrap_or_else(|| format!("({content_type}, which was attached then and is no longer available.)"));
            let label = match embedded.selection.as_ref().and_then(span) {
                Some(selection) => format!("{label}, {}", selection.in_words()),
                None => label,
            };
            Attachment::Text { label, text }
        }
        // The name of an MCP resource does not identify its content of that time.
        MessageAttachment::Resource(resource) if is_of_mcp_server(&resource.uri) => Attachment::Text {
            label: resource.label.clone(),
            text: "(A resource of an MCP server. It was attached then and is no longer available; it can be \
                   attached again.)"
                .to_owned(),
        },
        MessageAttachment::Resource(resource) => Attachment::Resource {
            label: resource.label.clone(),
            uri: resource.uri.clone(),
            content_type: resource.content_type.clone(),
            selection: resource.selection.as_ref().and_then(span),
        },
        MessageAttachment::Annotations(annotations) => Attachment::Annotations {
            label: annotations.label.clone(),
            resource: annotations.resource.clone(),
            ids: annotations.annotation_ids.clone().unwrap_or_default(),
            remarks: remarks_in(annotations),
        },
        MessageAttachment::Chat(attached) => Attachment::Resource {
            label: attached.label.clone(),
            uri: attached.resource.clone(),
            content_type: None,
            selection: None,
        },
        MessageAttachment::Unknown(_) => return None,
    })
}

/// The part of a text that a client means; `None` for one that begins before its text or ends before it begins.
fn span(selection: &TextSelection) -> Option<TextSpan> {
    let (start, end) = (&selection.range.start, &selection.range.end);
    let span = TextSpan {
        start_line: start.line.try_into().ok()?,
        start_character: start.character.try_into().ok()?,
        end_line: end.line.try_into().ok()?,
        end_character: end.character.try_into().ok()?,
    };
    let is_forward = (span.start_line, span.start_character) <= (span.end_line, span.end_character);
    is_forward.then_some(span)
}

pub(super) fn text_of(data: &str, content_type: &str) -> Option<String> {
    let content_type = content_type.split(';').next().unwrap_or_default().trim();
    let is_text = content_type.starts_with("text/") || matches!(content_type, "application/json" | "application/xml");
    let bytes = is_text.then(|| STANDARD.decode(data).ok()).flatten()?;
    String::from_utf8(bytes).ok()
}
