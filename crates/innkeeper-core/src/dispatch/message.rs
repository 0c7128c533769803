//! The rules for turns and messages that clients write.

use ahp_types::actions::ChatTurnStartedAction;
use ahp_types::state::{ChatInteractivity, Message, MessageAttachment, MessageKind};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;

use crate::chat::chats::Chat;
use crate::chat::model::MAX_CLOCK_SKEW_SECONDS;
use crate::core::{Cx, Host, json_bytes};
use crate::protocol::uri;
use crate::session::{Session, millis};

impl Host {
    pub(crate) fn check_title(&self, title: &str) -> Result<(), String> {
        if title.len() > self.config.max_title_bytes {
            return Err(format!("a title has at most {} bytes", self.config.max_title_bytes));
        }
        Ok(())
    }

    pub(crate) fn check_turn(&self, cx: &Cx<'_>, chat: &Chat, started: &ChatTurnStartedAction) -> Result<(), String> {
        if let Some(reason) = self.sessions.get(&chat.session).and_then(|session| session.not_ready()) {
            return Err(reason.to_owned());
        }
        if self.shutting_down {
            return Err("the host is shutting down".to_owned());
        }
        if chat.model.head().active_turn.is_some() {
            return Err("a turn is already running in this chat; cancel it, or queue the message".to_owned());
        }
        if started.turn_id.is_empty() || started.turn_id.len() > 256 {
            return Err("turnId has between 1 and 256 bytes".to_owned());
        }
        if chat.model.knows_turn(&started.turn_id) {
            return Err("this turnId was used before; every turn needs its own".to_owned());
        }
        if started.queued_message_id.is_some() {
            return Err("queuedMessageId is set by the host when it takes a message from the queue".to_owned());
        }
        let unset = self.began.map_or(cx.now.wall, |began| began.wall_at(cx.now.mono_ms));
        check_started_at(&started.started_at, [cx.now.wall, unset])?;
        self.check_message(chat, &started.message)
    }

    /// No turn starts before its session was created, however slow the clock of its author is: lists
    /// would show a session that changed before it existed.
    pub(super) fn correct_start(&self, cx: &Cx<'_>, chat: &Chat, started: &mut ChatTurnStartedAction) {
        let Some(session) = self.sessions.get(&chat.session) else {
            return;
        };
        if millis(&started.started_at) < millis(&session.created_at) {
            started.started_at = session.next_start(cx.now);
        }
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
            return Err("this chat takes no messages from people".to_owned());
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

    /// Whether what comes with a message is within bounds and of kinds that agents can be told of.
    pub(super) fn check_attachments(&self, message: &Message) -> Result<(), String> {
        let attachments = message.attachments.as_deref().unwrap_or_default();
        if attachments.len() > self.config.max_attachments {
            return Err(format!(
                "a message has at most {} attachments",
                self.config.max_attachments
            ));
        }
        if json_bytes(message) > self.config.max_message_total_bytes {
            return Err(format!(
                "a message with all its attachments has at most {} bytes; attach large things by their URI",
                self.config.max_message_total_bytes
            ));
        }
        for (index, attachment) in attachments.iter().enumerate() {
            check_attachment(attachment).map_err(|problem| format!("message.attachments[{index}] {problem}"))?;
        }
        Ok(())
    }

    /// TURN-15: a message may choose among the models its agent offers.
    fn check_model(&self, chat: &Chat, message: &Message) -> Result<(), String> {
        let Some(model) = &message.model else {
            return Ok(());
        };
        let agent = self
            .sessions
            .get(&chat.session)
            .and_then(|session: &Session| self.agent_of(session));
        let Some(agent) = agent.filter(|agent| !agent.info.models.is_empty()) else {
            return Ok(());
        };
        if agent.info.models.iter().any(|offered| offered.id == model.id) {
            return Ok(());
        }
        let known: Vec<&str> = agent.info.models.iter().map(|offered| offered.id.as_str()).collect();
        Err(format!(
            "message.model.id: {} has no model {:?}; it has: {}",
            agent.info.display_name,
            model.id,
            known.join(", ")
        ))
    }
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
            uri::check(&resource.uri).map_err(|_| "has a uri that is none".to_owned())
        }
        MessageAttachment::Annotations(annotations) => {
            uri::check(&annotations.resource).map_err(|_| "has a resource that is no URI".to_owned())
        }
        MessageAttachment::Chat(chat) => {
            uri::check(&chat.resource).map_err(|_| "has a resource that is no URI".to_owned())
        }
    }
}

/// A start time that the reducers can add a duration to (TURN-02, E-12). It fits the host's clock as
/// it is, or as it would be had nobody set it: a host whose clock is wrong all of a sudden still
/// takes turns (F8).
fn check_started_at(started_at: &str, clocks: [Timestamp; 2]) -> Result<(), String> {
    let parsed = started_at
        .parse::<Timestamp>()
        .ok()
        .filter(|_| is_plain_rfc3339(started_at));
    let Some(at) = parsed else {
        return Err("startedAt must be an RFC 3339 time, as in 2026-01-31T12:00:00.000Z".to_owned());
    };
    let is_far = |clock: Timestamp| (at.as_second() - clock.as_second()).abs() > MAX_CLOCK_SKEW_SECONDS;
    if clocks.into_iter().all(is_far) {
        return Err(
            "startedAt is more than a day away from the host's clock; check the clock of this device".to_owned(),
        );
    }
    Ok(())
}

/// Whether a time has the form every client reads. The parser accepts more, such as a space for
/// the `T` or a time zone in brackets, and the text is passed on as it is.
fn is_plain_rfc3339(text: &str) -> bool {
    let has_t = text.as_bytes().get(10).is_some_and(|byte| *byte == b'T');
    has_t
        && text
            .bytes()
            .all(|byte| byte.is_ascii_digit() || b"-+:.TZ".contains(&byte))
}
