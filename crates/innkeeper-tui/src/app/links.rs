//! Takes the news of the connection.

use innkeeper_cli::connection::link::{LinkEvent, Ticket};
use serde_json::{Value, json};

use super::messages::Sending;
use super::{App, LinkStatus, Purpose, Selected};

impl App {
    pub(super) fn handle_link(&mut self, event: LinkEvent) {
        match event {
            LinkEvent::StartingHost => self.status = LinkStatus::StartingHost,
            LinkEvent::Connecting => {
                // The reason of the last failure says more than that another attempt is under way.
                if !matches!(self.status, LinkStatus::Lost(_)) {
                    self.status = LinkStatus::Connecting;
                }
            }
            LinkEvent::Connected(info) => {
                if self.has_listed {
                    self.tell("Connected again; everything is up to date.");
                }
                self.status = LinkStatus::Connected;
                self.connections += 1;
                let triggers = std::mem::take(&mut self.info.triggers);
                self.info = *info;
                if self.info.triggers.is_empty() {
                    self.info.triggers = triggers;
                }
            }
            LinkEvent::Lost(reason) => {
                self.status = LinkStatus::Lost(reason);
                if let Some(prompt) = &mut self.prompt {
                    prompt.is_sent = false;
                }
                self.fail_requests();
            }
            LinkEvent::State(snapshot) => {
                let uri = snapshot.resource.clone();
                self.mirror.set(*snapshot);
                self.note_fetched_turns(&uri);
                self.take_draft(&uri);
            }
            LinkEvent::Gone(uri) => self.forget_channel(&uri),
            LinkEvent::Action(envelope) => {
                self.mirror.apply(&envelope, self.now);
                self.take_draft_action(&envelope);
                self.ring_bell(&envelope);
            }
            LinkEvent::Settled(ticket, rejection) => self.handle_settled(ticket, rejection),
            LinkEvent::Reply(ticket, result) => self.handle_reply(ticket, result),
            LinkEvent::Sessions(sessions) => {
                let uri = |summary: &ahp_types::state::SessionSummary| summary.resource.clone();
                self.mirror.summaries = sessions.into_iter().map(|summary| (uri(&summary), summary)).collect();
                let is_first = !std::mem::replace(&mut self.has_listed, true);
                if is_first {
                    self.open_first_session();
                }
                self.recover_unsent();
            }
            LinkEvent::SessionAdded(summary) => {
                self.mirror.summaries.insert(summary.resource.clone(), *summary);
            }
            LinkEvent::SessionRemoved(uri) => {
                self.mirror.summaries.remove(&uri);
                self.forget_channel(&uri);
            }
            LinkEvent::SessionChanged(uri, changes) => self.mirror.change_summary(&uri, *changes),
        }
    }

    fn forget_channel(&mut self, uri: &str) {
        self.mirror.forget(uri);
        self.subscribed.remove(uri);
        self.fetched_turns.remove(uri);
        let is_shown = match &self.selected {
            Selected::New => false,
            Selected::Session { session, chat } => session == uri || chat.as_deref() == Some(uri),
        };
        if !is_shown {
            return;
        }
        let is_session = self.session_uri() == Some(uri);
        if is_session {
            self.keep_text_of_lost_chat();
            self.select_new();
            self.tell("This session is gone.");
        } else if let Selected::Session { chat, .. } = &mut self.selected {
            // The default chat of the session takes its place.
            *chat = None;
        }
    }

    fn handle_settled(&mut self, ticket: Ticket, rejection: Option<String>) {
        let Some(purpose) = self.requests.remove(&ticket) else {
            return;
        };
        let Some(reason) = rejection else {
            if let Purpose::Answer(id) = purpose {
                self.prompt_answered(&id);
            }
            return;
        };
        match purpose {
            Purpose::Message(sending) => self.message_refused(*sending, &reason),
            Purpose::Answer(_) => {
                if let Some(prompt) = &mut self.prompt {
                    prompt.is_sent = false;
                }
                self.complain(&reason);
            }
            Purpose::Ignore => {}
            _ => self.complain(&reason),
        }
    }

    fn handle_reply(&mut self, ticket: Ticket, result: Result<Value, String>) {
        let Some(purpose) = self.requests.remove(&ticket) else {
            return;
        };
        match (purpose, result) {
            (Purpose::CreateSession, Ok(_)) => self.session_created(),
            (Purpose::CreateSession, Err(reason)) => self.session_refused(&reason),
            (Purpose::Content(uri), result) => self.contents.take(uri, result.ok()),
            (Purpose::Completions(text), Ok(items)) => self.take_completions(&text, items),
            (Purpose::OpenChat(chat), Ok(_)) => self.open_chat(chat),
            (Purpose::Delete(uri), Ok(_)) => {
                self.last_deleted = Some(uri);
                self.tell("Deleted. `Undo the last deletion` in the palette (Ctrl+P) brings it back.");
            }
            (Purpose::Restore(uri), Ok(_)) => {
                self.last_deleted = None;
                self.open_session(&uri);
                self.tell("The session is back.");
            }
            (Purpose::Attach(name), Ok(content)) => self.attach(&name, &content),
            (Purpose::Operation(label), Ok(result)) => self.operation_done(&label, &result),
            (Purpose::Report(done), Ok(_)) => self.tell(done),
            (Purpose::Ignore | Purpose::Completions(_), Err(_)) => {}
            (_, Err(reason)) => self.complain(&reason),
            (_, Ok(_)) => {}
        }
    }

    /// Ends the requests that the broken connection will never answer. Actions are settled after the next connection.
    fn fail_requests(&mut self) {
        let is_request = |purpose: &Purpose| match purpose {
            Purpose::CreateSession
            | Purpose::Completions(_)
            | Purpose::OpenChat(_)
            | Purpose::Delete(_)
            | Purpose::Restore(_)
            | Purpose::Operation(_) => true,
            Purpose::Message(_)
            | Purpose::Report(_)
            | Purpose::Ignore
            | Purpose::Answer(_)
            | Purpose::Content(_)
            // The file is read on this machine.
            | Purpose::Attach(_) => false,
        };
        let lost: Vec<Ticket> = self
            .requests
            .iter()
            .filter(|(_, purpose)| is_request(purpose))
            .map(|(ticket, _)| *ticket)
            .collect();
        self.requests
            .retain(|_, purpose| !matches!(purpose, Purpose::Content(_)));
        self.contents.forget_requests();
        for ticket in lost {
            let reason = "the connection broke before the host answered".to_owned();
            self.handle_reply(ticket, Err(reason));
        }
    }

    /// Messages whose outcome was lost with the connection: those that the host does not have come back.
    fn recover_unsent(&mut self) {
        let tickets: Vec<Ticket> = self
            .requests
            .iter()
            .filter(
                |(_, purpose)| matches!(purpose, Purpose::Message(sending) if sending.connection < self.connections),
            )
            .map(|(ticket, _)| *ticket)
            .collect();
        for ticket in tickets {
            let Some(Purpose::Message(sending)) = self.requests.remove(&ticket) else {
                continue;
            };
            let Sending { chat, id, text, .. } = &*sending;
            let has_arrived = self.mirror.chats.get(chat).is_some_and(|chat| {
                // A queued message that became a turn meanwhile has another id.
                let is_turn = chat
                    .turns
                    .iter()
                    .any(|turn| turn.id == *id || turn.message.text == *text);
                let active = chat.active_turn.as_ref();
                let is_active = active.is_some_and(|turn| turn.id == *id || turn.message.text == *text);
                let mut pending = chat.queued_messages.iter().flatten().chain(&chat.steering_message);
                is_turn || is_active || pending.any(|message| message.id == *id)
            });
            if !has_arrived {
                self.message_refused(*sending, "the connection broke before the host had the message");
            }
        }
    }

    /// Requests the contents that the last drawing lacked.
    pub(super) fn follow_contents(&mut self) {
        for uri in self.contents.take_wanted() {
            let params = json!({ "channel": ahp_types::ROOT_RESOURCE_URI, "uri": uri });
            self.request(Purpose::Content(uri), "resourceRead", params);
        }
    }
}
