//! The rules for messages and titles that clients write.

use ahp_types::state::{ChatInteractivity, Message, MessageAttachment, MessageKind};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::agent::AgentProfile;
use crate::chat::chats::Chat;
use crate::core::{Host, json_bytes};
use crate::protocol::uri;
use crate::session::Session;

/// Maximum bytes of a message with its attachments: each is persisted and sent to all subscribers.
const MAX_MESSAGE_TOTAL_BYTES: usize = 8 << 20;

impl Host {
    pub(crate) fn check_title(&self, title: &str) -> Result<(), String> {
        if title.len() > self.config.max_title_bytes {
            return Err(format!("a title has at most {} bytes", self.config.max_title_bytes));
        }
        Ok(())
    }

    /// The rules for every message a client may send (DSP-18, TURN-17). One that says nothing would
    /// be a request that no model answers.
    pub(crate) fn check_message(&self, chat: &Chat, message: &Message) -> Result<(), String> {
        if message.text.trim().is_empty() && message.attachments.as_ref().is_none_or(Vec::is_empty) {
            return Err("the message says nothing: write something, or attach something".to_owned());
        }
        self.check_draft(chat, message)?;
        match self.sessions.get(&chat.session) {
            Some(session) => self.check_custom_agent(session, message),
            None => Ok(()),
        }
    }

    /// The rules for every message a client may write, be it only a draft.
    pub(crate) fn check_draft(&self, chat: &Chat, message: &Message) -> Result<(), String> {
        if message.origin.kind != MessageKind::User {
            return Err("clients write messages of kind user only".to_owned());
        }
        if matches!(
            chat.model.head().interactivity,
            Some(ChatInteractivity::ReadOnly | ChatInteractivity::Hidden)
        ) {
            return Err("this chat takes no messages from users".to_owned());
        }
        if message.text.len() > self.config.max_message_bytes {
            return Err(format!(
                "a message has at most {} bytes of text",
                self.config.max_message_bytes
            ));
        }
        self.check_attachments(message)?;
        if let Some(agent) = &message.agent {
            uri::check(&agent.uri).map_err(|_| "message.agent.uri: must be the URI of an agent".to_owned())?;
        }
        self.check_model(chat, message)
    }

    /// Checks the attachments of a message: their number, size and kind.
    pub(super) fn check_attachments(&self, message: &Message) -> Result<(), String> {
        let attachments = message.attachments.as_deref().unwrap_or_default();
        if attachments.len() > self.config.max_attachments {
            return Err(format!(
                "a message has at most {} attachments",
                self.config.max_attachments
            ));
        }
        if json_bytes(message) > MAX_MESSAGE_TOTAL_BYTES {
            return Err(format!(
                "a message with all its attachments has at most {MAX_MESSAGE_TOTAL_BYTES} bytes; attach large things by \
                 their URI"
            ));
        }
        for (index, attachment) in attachments.iter().enumerate() {
            check_attachment(attachment).map_err(|problem| format!("message.attachments[{index}] {problem}"))?;
        }
        Ok(())
    }

    /// TURN-15: a message may choose among the models its agent offers.
    fn check_model(&self, chat: &Chat, message: &Message) -> Result<(), String> {
        let session: Option<&Session> = self.sessions.get(&chat.session);
        let agent = session.and_then(|session| self.agent_of(session));
        match (&message.model, agent) {
            (Some(model), Some(agent)) => {
                check_model(agent, &model.id).map_err(|problem| format!("message.model.id: {problem}"))
            }
            (None, _) | (_, None) => Ok(()),
        }
    }
}

/// Whether an agent has a model. One that lists none takes any.
pub(crate) fn check_model(agent: &AgentProfile, model: &str) -> Result<(), String> {
    let models = &agent.info.models;
    if models.is_empty() || models.iter().any(|offered| offered.id == model) {
        return Ok(());
    }
    let known: Vec<&str> = models.iter().map(|offered| offered.id.as_str()).collect();
    let name = &agent.info.display_name;
    Err(format!("{name} has no model {model:?}; it has: {}", known.join(", ")))
}

/// The rules for each of the five kinds (TURN-17). Whether an attached chat exists is for
/// [`Host::pin_attachments`] to say.
fn check_attachment(attachment: &MessageAttachment) -> Result<(), String> {
    match attachment {
        MessageAttachment::Unknown(_) => Err("is malformed or of an unknown kind".to_owned()),
        MessageAttachment::Simple(simple) if simple.model_representation.is_none() && simple.meta.is_none() => {
            Err("needs a modelRepresentation".to_owned())
        }
        MessageAttachment::Simple(_) => Ok(()),
        MessageAttachment::EmbeddedResource(embedded) => {
            if !embedded.content_type.contains('/') {
                return Err("needs a contentType such as image/png".to_owned());
            }
            match STANDARD.decode(&embedded.data) {
                Ok(_) => Ok(()),
                Err(_) => Err("has data that is not base64".to_owned()),
            }
        }
        MessageAttachment::Resource(resource) => {
            uri::check(&resource.uri).map_err(|_| "has a uri that is not a valid URI".to_owned())
        }
        MessageAttachment::Annotations(annotations) => {
            uri::check(&annotations.resource).map_err(|_| "has a resource that is not a valid URI".to_owned())
        }
        MessageAttachment::Chat(chat) => {
            uri::check(&chat.resource).map_err(|_| "has a resource that is not a valid URI".to_owned())
        }
    }
}
