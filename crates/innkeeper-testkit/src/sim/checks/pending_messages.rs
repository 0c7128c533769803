//! No pending message is lost: one that is no longer pending was taken by an agent.

use std::collections::BTreeMap;

use ahp_types::actions::StateAction;
use ahp_types::state::{ChatState, PendingMessageKind};
use innkeeper_core::Input;

use crate::sim::agent::AgentReply;
use crate::sim::{Sim, Violation};

/// The messages that wait in every chat: by chat, then by id.
pub type PendingMessages = BTreeMap<String, BTreeMap<String, String>>;

/// A message that a client itself removes or replaces.
#[derive(Debug, Default)]
pub struct AllowedLoss {
    chat: String,
    id: Option<String>,
    /// It replaces whatever steers.
    steers: bool,
}

impl AllowedLoss {
    /// Returns the loss that an input allows.
    pub fn of(input: &Input) -> Self {
        let Input::Dispatch { dispatch, .. } = input else {
            return Self::default();
        };
        let (id, steers) = match &dispatch.action {
            Ok(StateAction::ChatPendingMessageRemoved(removed)) => (Some(removed.id.clone()), false),
            Ok(StateAction::ChatPendingMessageSet(set)) => {
                (Some(set.id.clone()), set.kind == PendingMessageKind::Steering)
            }
            _ => (None, false),
        };
        Self {
            chat: dispatch.channel.clone(),
            id,
            steers,
        }
    }
}

impl Sim {
    /// All messages that wait now.
    pub(in crate::sim) fn waiting(&self) -> PendingMessages {
        let chats = self.agent.chats().filter_map(|(_, uri)| {
            let (head, _) = self.host_chat(uri)?;
            let waiting = waiting_in(&head);
            (!waiting.is_empty()).then(|| (uri.to_owned(), waiting))
        });
        chats.collect()
    }

    /// Looks where every message is that waited before an input.
    pub(in crate::sim) fn check_words(
        &self,
        before: &PendingMessages,
        excuse: &AllowedLoss,
        heard: &[AgentReply],
    ) -> Result<(), Violation> {
        for (uri, messages) in before {
            let Some((head, _)) = self.host_chat(uri) else {
                continue; // The chat is gone with everything in it.
            };
            let now = waiting_in(&head);
            for (id, text) in messages {
                let is_there = now.get(id).is_some_and(|now| now == text);
                let runs = head.active_turn.as_ref().is_some_and(|turn| turn.message.text == *text);
                let steered = heard.iter().any(|heard| match heard {
                    AgentReply::Steering { chat, text: told } => chat == uri && told.as_ref() == Some(text),
                    _ => false,
                });
                let excused = excuse.chat == *uri
                    && (excuse.steers && id.starts_with("steering/")
                        || excuse.id.as_ref().is_some_and(|own| id.ends_with(&format!("/{own}"))));
                if !(is_there || runs || steered || excused) {
                    return Err(Violation::new(format!(
                        "the words {text:?} waited as {id} and are lost (PEND-02, PEND-04)"
                    )));
                }
            }
        }
        Ok(())
    }
}

fn waiting_in(chat: &ChatState) -> BTreeMap<String, String> {
    let queued = chat.queued_messages.iter().flatten();
    let steering = chat.steering_message.iter();
    queued
        .map(|message| (format!("queued/{}", message.id), message.message.text.clone()))
        .chain(steering.map(|message| (format!("steering/{}", message.id), message.message.text.clone())))
        .collect()
}
