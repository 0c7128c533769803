//! Checks that agents and the host agree about every call and question, after every single input.

use std::sync::Arc;

use ahp_types::state::{
    ChatInputResponseKind, ChatState, ResponsePart, SessionState, ToolCallContributor, ToolCallState, ToolInput, Turn,
};
use innkeeper_core::agent::{Answer, Response};
use innkeeper_core::snapshot::State;
use innkeeper_core::{AgentCommand, AgentEvent, ChannelId};

use crate::sim::agent::{AgentReply, Call, Phase, Run};
use crate::sim::{Sim, Violation};

impl Sim {
    /// A chat as the host has it: everything but the completed turns, and those.
    pub(in crate::sim) fn host_chat(&self, uri: &str) -> Option<(Arc<ChatState>, Vec<Arc<Turn>>)> {
        match self.snapshot(uri)?.state {
            State::Chat(head, history, _) => Some((head, history.in_memory().cloned().collect())),
            State::Root(_) | State::Session(_) | State::SessionWithChat(..) | State::Part(_) => None,
        }
    }

    /// A session as the host has it.
    pub(in crate::sim) fn host_session(&self, uri: &str) -> Option<Arc<SessionState>> {
        match self.snapshot(uri)?.state {
            State::Session(state) => Some(state.shared()),
            State::Root(_) | State::Chat(..) | State::SessionWithChat(..) | State::Part(_) => None,
        }
    }

    /// Whether a command stops an agent because it said nothing for too long.
    pub(in crate::sim) fn is_for_silence(&self, command: &AgentCommand) -> bool {
        let AgentCommand::CancelTurn { chat, .. } = command else {
            return false;
        };
        if !self.ticking {
            return false;
        }
        let chat = self.agent.run(*chat).and_then(|run| self.host_chat(&run.chat));
        let last = chat.and_then(|(_, history)| history.last().cloned());
        last.is_some_and(|turn| match turn.response_parts.last() {
            Some(ResponsePart::Error(part)) => part.error.error_type == "agentSilent",
            _ => false,
        })
    }

    /// Returns whether an agent's event is about a call whose client is done and that waits for users: the agent does
    /// not know of it yet, and the host ignores the event.
    pub(in crate::sim) fn is_too_late(&self, chat: ChannelId, event: &AgentEvent) -> bool {
        let (AgentEvent::Tool { call, .. }, Some(run)) = (event, self.agent.run(chat)) else {
            return false;
        };
        let owned = run.calls.get(call).is_some_and(|call| call.owner.is_some());
        let Some((head, _)) = self.host_chat(&run.chat).filter(|_| owned) else {
            return false;
        };
        let mut parts = head.active_turn.iter().flat_map(|turn| &turn.response_parts);
        parts.any(|part| match part {
            ResponsePart::ToolCall(part) => match &part.tool_call {
                ToolCallState::PendingResultConfirmation(pending) => pending.tool_call_id == *call,
                _ => false,
            },
            _ => false,
        })
    }

    /// Compares what every agent believes with what the host shows.
    pub(in crate::sim) fn check_beliefs(&self) -> Result<(), Violation> {
        self.agent.check_subagents()?;
        for (chat, uri) in self.agent.chats() {
            let Some((head, _)) = self.host_chat(uri) else {
                continue;
            };
            self.agent.check_background(chat, &head)?;
            match (&head.active_turn, self.agent.run(chat)) {
                (None, None) => {}
                // Its agent hears of it when servers have started, or soon in any case (MCP-03).
                (Some(_), None) if is_held(&head) => {}
                (Some(turn), None) => {
                    return Err(Violation::new(format!(
                        "{} shows as running, but no agent works on it",
                        turn.id
                    )));
                }
                (None, Some(run)) => {
                    return Err(Violation::new(format!("{:?} works on a turn that is over", run.turn)));
                }
                (Some(turn), Some(run)) => {
                    run.check_answered()?;
                    self.check_run(run, &turn.response_parts)?;
                }
            }
        }
        Ok(())
    }

    fn check_run(&self, run: &Run, parts: &[ResponsePart]) -> Result<(), Violation> {
        let mut open_questions = 0;
        let mut known = 0;
        for part in parts {
            match part {
                ResponsePart::InputRequest(part) if part.response.is_none() => {
                    open_questions += 1;
                    if !run.questions.contains(&part.request.id) {
                        let id = &part.request.id;
                        return Err(Violation::new(format!(
                            "{id} is open and its agent does not wait for it"
                        )));
                    }
                }
                ResponsePart::ToolCall(part) => {
                    let shown = PublishedCall::of(&part.tool_call);
                    match run.calls.get(shown.id) {
                        Some(call) => {
                            known += 1;
                            agree(shown.id, call, &shown)?;
                            self.check_owner(run, shown.id, call, &shown)?;
                        }
                        // An earlier run of a resumed turn left it behind, cancelled.
                        None if shown.phase == Phase::Over => {}
                        None => {
                            let problem = format!("{} is open and no call of {:?}", shown.id, run.turn);
                            return Err(Violation::new(problem));
                        }
                    }
                }
                _ => {}
            }
        }
        if open_questions != run.questions.len() || known != run.calls.len() {
            return Err(Violation::new(format!(
                "{:?} believes in {} calls and the open questions {:?}; the host shows {known} and {open_questions}",
                run.turn,
                run.calls.len(),
                run.questions
            )));
        }
        Ok(())
    }

    /// No call waits for a client that has left (ACT-08, ACT-11).
    fn check_owner(&self, run: &Run, id: &str, call: &Call, shown: &PublishedCall<'_>) -> Result<(), Violation> {
        let (Some(owner), true) = (&call.owner, shown.is_running) else {
            return Ok(());
        };
        let session = self.host_session(&run.session);
        let is_member = session.is_some_and(|session| {
            let mut members = session.active_clients.iter();
            members.any(|member| member.client_id == *owner)
        });
        if is_member {
            return Ok(());
        }
        Err(Violation::new(format!(
            "{id} runs at {owner}, which left the session (ACT-11)"
        )))
    }

    /// Compares the replies to an agent with the visible state.
    pub(in crate::sim) fn check_heard(&mut self, heard: &[AgentReply]) -> Result<(), Violation> {
        for heard in heard {
            match heard {
                AgentReply::Allowed {
                    session,
                    rules,
                    decision,
                    own_offer,
                } => {
                    self.count(if decision.by.is_some() {
                        "approvals"
                    } else {
                        "automatic approvals"
                    });
                    let directory = self.directory_of(session);
                    self.approvals
                        .allowed(session, directory.as_deref(), rules, decision, *own_offer)?;
                }
                AgentReply::Answered { chat, id, answer } => {
                    self.count("answers");
                    self.check_answer(chat, id, answer)?;
                }
                AgentReply::Steering { text, .. } => {
                    if text.is_some() {
                        self.count("steering messages");
                    }
                }
                AgentReply::NotSpawned => self.count("refused subagents"),
                AgentReply::Completed => self.count("client calls completed"),
                AgentReply::Token { chat, call } => {
                    self.count("tokens");
                    self.tokens_due.retain(|(uri, id)| uri != chat || id != call);
                }
            }
        }
        Ok(())
    }

    /// The agent gets the answers of the transcript (INP-04, INP-06).
    fn check_answer(&self, chat: &str, id: &str, answer: &Answer) -> Result<(), Violation> {
        let Some((head, _)) = self.host_chat(chat) else {
            return Ok(());
        };
        let parts = head
            .active_turn
            .iter()
            .flat_map(|turn| turn.response_parts.iter().rev());
        let answered = parts
            .filter_map(|part| match part {
                ResponsePart::InputRequest(part) if part.request.id == id => Some(part),
                _ => None,
            })
            .find(|part| part.response.is_some());
        let Some(part) = answered else {
            return Err(Violation::new(format!(
                "{id} was answered to its agent, but not in the transcript"
            )));
        };
        let response = match part.response {
            Some(ChatInputResponseKind::Accept) => Response::Accept,
            Some(ChatInputResponseKind::Decline) => Response::Decline,
            Some(ChatInputResponseKind::Cancel) | None => Response::Cancel,
        };
        let shown = part.request.answers.iter().flatten();
        let mut shown: Vec<&String> = shown
            .filter(|(_, answer)| !matches!(answer, ahp_types::state::ChatInputAnswer::Skipped(_)))
            .map(|(question, _)| question)
            .collect();
        shown.sort();
        let told: Vec<&String> = answer.values.keys().collect();
        if response != answer.response || shown != told {
            return Err(Violation::new(format!(
                "the agent was told {answer:?}; the user said {response:?} and answered {shown:?} (INP-06)"
            )));
        }
        Ok(())
    }
}

/// A call as the host shows it.
struct PublishedCall<'a> {
    id: &'a str,
    phase: Phase,
    input: Option<&'a ToolInput>,
    is_running: bool,
    owner: Option<&'a str>,
}

impl<'a> PublishedCall<'a> {
    fn of(call: &'a ToolCallState) -> Self {
        let owned = |contributor: &'a Option<ToolCallContributor>| match contributor {
            Some(ToolCallContributor::Client(client)) => Some(client.client_id.as_str()),
            _ => None,
        };
        let (id, phase, input, contributor) = match call {
            ToolCallState::Streaming(call) => (&call.tool_call_id, Phase::Streaming, &None, &call.contributor),
            ToolCallState::PendingConfirmation(call) => {
                (&call.tool_call_id, Phase::Asking, &call.tool_input, &call.contributor)
            }
            ToolCallState::Running(call) => (&call.tool_call_id, Phase::Running, &call.tool_input, &call.contributor),
            ToolCallState::AuthRequired(call) => (
                &call.tool_call_id,
                Phase::SigningIn,
                &call.tool_input,
                &call.contributor,
            ),
            // Its agent still waits for the client, which is done and waits for a user.
            ToolCallState::PendingResultConfirmation(call) => {
                let phase = match owned(&call.contributor) {
                    Some(_) => Phase::Running,
                    None => Phase::Reviewing,
                };
                (&call.tool_call_id, phase, &call.tool_input, &call.contributor)
            }
            ToolCallState::Completed(call) => (&call.tool_call_id, Phase::Over, &call.tool_input, &call.contributor),
            ToolCallState::Cancelled(call) => (&call.tool_call_id, Phase::Over, &call.tool_input, &call.contributor),
            ToolCallState::Unknown(_) => return Self::UNKNOWN,
        };
        Self {
            id,
            phase,
            input: input.as_ref(),
            is_running: matches!(call, ToolCallState::Running(_)),
            owner: owned(contributor),
        }
    }

    const UNKNOWN: Self = Self {
        id: "",
        phase: Phase::Over,
        input: None,
        is_running: false,
        owner: None,
    };
}

fn agree(id: &str, call: &Call, shown: &PublishedCall<'_>) -> Result<(), Violation> {
    if call.phase != shown.phase || call.owner.as_deref() != shown.owner {
        return Err(Violation::new(format!(
            "{id} is {:?} of {:?} to its agent and {:?} of {:?} in the state",
            call.phase, call.owner, shown.phase, shown.owner
        )));
    }
    let shown_input = match shown.input {
        Some(ToolInput::Inline(input)) => Some(input),
        _ => None,
    };
    match (&call.input, shown_input) {
        (Some(mine), Some(theirs)) if mine != theirs => Err(Violation::new(format!(
            "{id} runs with {mine}, but the state shows {theirs} (TOOL-06)"
        ))),
        _ => Ok(()),
    }
}

/// Whether the turn of a chat waits for MCP servers.
pub(in crate::sim) fn is_held(chat: &ChatState) -> bool {
    chat.activity
        .as_ref()
        .is_some_and(|activity| activity.starts_with("Waiting for "))
}
