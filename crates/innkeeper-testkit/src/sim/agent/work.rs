//! Steps of agents in a run, and answers of users and clients to their calls.

use innkeeper_core::agent::Secret;
use innkeeper_core::request::Authenticate;
use innkeeper_core::{AgentEvent, Command, ConnId, Failure, Input, TurnEnd};

use crate::sim::agent::{Phase, RESOURCES, any_event};
use crate::sim::client::requests::PendingRequest;
use crate::sim::{Choices, Sim, Violation};

impl Sim {
    pub(in crate::sim) fn agent_speaks(&mut self, choices: &mut Choices<'_>) -> Result<(), Violation> {
        let Some((chat, turn)) = self.agent.running(|len| choices.below(len)) else {
            return self.with_conn(choices, Self::start_turn);
        };
        if choices.one_in(6) {
            // A burst, which readers may merge.
            for text in ["one ", "two ", "three"] {
                let event = AgentEvent::Text(text.to_owned());
                self.agent.act(chat, &event, self.now.mono_ms);
                self.handle(Input::Agent { chat, turn, event })?;
            }
            // The last word may have been one too many.
            if self.agent.run(chat).is_none_or(|run| run.turn != turn) {
                return Ok(());
            }
        }
        let event = self.agent.next_event(chat, choices);
        self.note(|| format!("{chat:?} {turn:?}: {event:?}"));
        if !self.is_too_late(chat, &event) {
            self.agent.act(chat, &event, self.now.mono_ms);
        }
        self.handle(Input::Agent { chat, turn, event })
    }

    /// A client gets on with a call of its own.
    pub(in crate::sim) fn client_works(&mut self, choices: &mut Choices<'_>) -> Result<(), Violation> {
        let calls = self.agent.runs().flat_map(|run| run.calls.values());
        let running = calls.filter(|call| call.phase == Phase::Running);
        let owners: Vec<&String> = running.filter_map(|call| call.owner.as_ref()).collect();
        let Some(owner) = choices.pick(&owners) else {
            return self.agent_speaks(choices);
        };
        let mine = self
            .conns
            .values()
            .filter(|conn| conn.ready && conn.client_id == **owner);
        let mine: Vec<ConnId> = mine.map(|conn| conn.id).collect();
        match choices.pick(&mine).copied() {
            Some(conn) => {
                self.read(conn, usize::MAX)?;
                self.dispatch_about_call(conn, choices)
            }
            None => self.come_back(choices),
        }
    }

    /// A user signs in to a requested or another resource.
    pub(in crate::sim) fn authenticate(&mut self, conn: ConnId, choices: &mut Choices<'_>) -> Result<(), Violation> {
        let calls = self.agent.runs().flat_map(|run| run.calls.values());
        let asked = calls.filter(|call| call.phase == Phase::SigningIn);
        let asked: Vec<String> = asked.filter_map(|call| call.resource.clone()).collect();
        // Mostly to something that is asked for.
        let resource = match choices.below(4) {
            0 => RESOURCES[choices.below(RESOURCES.len())].to_owned(),
            _ => match choices.pick(&asked) {
                Some(resource) => resource.clone(),
                None => return self.with_conn(choices, Self::dispatch),
            },
        };
        let token = ["token", "", "token"][choices.below(3)];
        let waiting: Vec<(String, String)> = self
            .agent
            .runs()
            .flat_map(|run| run.calls.iter().map(move |(id, call)| (run, id, call)))
            .filter(|(_, _, call)| call.phase == Phase::SigningIn && call.resource.as_ref() == Some(&resource))
            .map(|(run, id, _)| (run.chat.clone(), id.clone()))
            .collect();
        self.note(|| format!("{conn} signs in to {resource} with {token:?}"));
        let wanted = !waiting.is_empty();
        // AUTH-05: an empty token revokes the one before, without a reply to agents.
        self.tokens_due = if token.is_empty() { Vec::new() } else { waiting };
        let command = Command::Authenticate(Box::new(Authenticate {
            resource,
            token: Secret::new(token),
            expires_in: None,
            scopes: None,
            refresh: None,
        }));
        self.request(conn, PendingRequest::Authenticate { wanted }, command)?;
        match self.tokens_due.is_empty() {
            true => Ok(()),
            false => Err(Violation::new(format!(
                "no token came to {:?} (AUTH-12)",
                self.tokens_due
            ))),
        }
    }

    pub(in crate::sim) fn agent_ends(&mut self, choices: &mut Choices<'_>) -> Result<(), Violation> {
        let Some((chat, turn)) = self.agent.running(|len| choices.below(len)) else {
            return Ok(());
        };
        let end = match choices.below(5) {
            0..=2 => TurnEnd::Complete,
            3 => TurnEnd::Cancelled,
            _ => TurnEnd::Failed {
                failure: Failure::new("scripted", "the script says so"),
                resumable: choices.below(2) == 0,
            },
        };
        self.note(|| format!("{chat:?} {turn:?} ends: {end:?}"));
        self.agent.end(chat, turn);
        self.handle(Input::TurnEnded { chat, turn, end })
    }

    pub(in crate::sim) fn session_opens(&mut self, choices: &mut Choices<'_>) -> Result<(), Violation> {
        let Some(chat) = self.agent.take_opening(|len| choices.below(len)) else {
            return Ok(());
        };
        let outcome = match choices.below(4) {
            0 => Err(Failure::new("scripted", "no back end")),
            _ => Ok(()),
        };
        self.note(|| format!("{chat:?} opens: {outcome:?}"));
        self.handle(Input::ChatOpened { chat, outcome })
    }

    /// Events of an ended run must change nothing.
    pub(in crate::sim) fn agent_is_late(&mut self, choices: &mut Choices<'_>) -> Result<(), Violation> {
        let Some((chat, turn)) = self.agent.ended(|len| choices.below(len)) else {
            return Ok(());
        };
        let input = match choices.below(2) {
            0 => Input::Agent {
                chat,
                turn,
                event: any_event(choices),
            },
            _ => Input::TurnEnded {
                chat,
                turn,
                end: TurnEnd::Complete,
            },
        };
        let mut effects = Vec::new();
        self.core.handle(self.now, input, &mut effects);
        match effects.first() {
            None => Ok(()),
            Some(effect) => Err(Violation::new(format!("{turn:?} is over and still causes {effect:?}"))),
        }
    }
}
