//! Bugs between the host and its agents: replies that are lost, doubled, late or wrong, and
//! decisions that no user made.

use std::collections::{BTreeMap, BTreeSet};

use ahp_types::actions::StateAction;
use ahp_types::state::PendingMessageKind;
use innkeeper_core::agent::{Contributor, Decision, Offer, Permission, ToolReply, ToolResult, ToolStep};
use innkeeper_core::{AgentCommand, AgentEvent, ChannelId, ConnId, Effect, Input, Publication, Reply, TurnKey};

use super::{Mutation, Mutator};
use crate::sim::Connections;

/// The buggy host's knowledge of its agents.
#[derive(Debug, Default)]
pub struct AgentMemory {
    /// The turn at work in each chat.
    running: BTreeMap<ChannelId, TurnKey>,
    /// The chat, tool and owner of each call.
    calls: BTreeMap<String, (ChannelId, String, Option<String>)>,
    /// Tools that a user approved for a session, with the chat of the approval.
    allowed: BTreeSet<(String, ChannelId)>,
    /// A call that runs without approval, and whose agent still needs the reply.
    forged: Option<(ChannelId, TurnKey, String)>,
    /// The message that was queued last, by chat.
    queued: BTreeMap<String, String>,
}

impl Mutator {
    /// Bends what the core is told.
    pub fn input(&mut self, mut input: Input, conns: &Connections) -> Input {
        if self.mutation.is_none() {
            return input;
        }
        self.believe_old_servers(&mut input);
        self.bend_terminal_input(&mut input, conns);
        self.miss_change(&mut input);
        match &mut input {
            Input::Agent {
                chat,
                turn,
                event: AgentEvent::Tool { call, step },
            } => self.agent_steps(*chat, *turn, call, step),
            Input::Dispatch { conn, dispatch } => match &mut dispatch.action {
                Ok(StateAction::ChatToolCallComplete(complete)) => {
                    if let Some(owner) = self.owner_of(&complete.tool_call_id, *conn, conns)
                        && self.strikes(Mutation::TakeForeignResult)
                    {
                        *conn = owner;
                    }
                }
                Ok(StateAction::ChatPendingMessageSet(set)) if set.kind == PendingMessageKind::Queued => {
                    let last = self.dealings.queued.insert(dispatch.channel.clone(), set.id.clone());
                    if let Some(last) = last.filter(|last| *last != set.id)
                        && self.strikes(Mutation::OverwriteQueued)
                    {
                        set.id = last;
                    }
                }
                _ => {}
            },
            _ => {}
        }
        input
    }

    /// Bends what is on its way to agents.
    pub fn agents(&mut self, effects: Vec<Effect>) -> Vec<Effect> {
        if self.mutation.is_none() {
            return effects;
        }
        let mut bent = Vec::with_capacity(effects.len());
        for effect in effects {
            self.agent_effect(effect, &mut bent);
        }
        if let Some((chat, turn, call)) = self.dealings.forged.take() {
            let decision = Decision::by_host(true);
            bent.push(about_call(chat, turn, call, ToolReply::Decided(decision)));
        }
        bent
    }

    fn agent_effect(&mut self, mut effect: Effect, bent: &mut Vec<Effect>) {
        let is_lost = self.loses(&mut effect)
            || self.loses_servers(&effect)
            || self.loses_terminal_command(&effect)
            || self.loses_changes(&effect);
        if is_lost {
            return;
        }
        match &mut effect {
            Effect::Agent(AgentCommand::StartTurn { chat, turn, .. }) => {
                self.dealings.running.insert(*chat, *turn);
                if self.strikes(Mutation::LoseStart) {
                    return;
                }
            }
            Effect::Agent(AgentCommand::CancelTurn { chat, turn }) => {
                if self.strikes(Mutation::LoseCancel) {
                    return;
                }
                if self.strikes(Mutation::ReplyAfterEnd) {
                    let (chat, turn) = (*chat, *turn);
                    bent.push(effect);
                    bent.push(reply(chat, turn, Reply::Steering(None)));
                    return;
                }
            }
            Effect::Agent(AgentCommand::Reply {
                chat,
                turn,
                reply: told,
            }) => {
                if self.strikes(Mutation::LoseReply) || self.is_abandoned(told) {
                    return;
                }
                self.bend_reply(*chat, told);
                let is_decision = matches!(
                    &**told,
                    Reply::Tool {
                        reply: ToolReply::Decided(_),
                        ..
                    }
                );
                if is_decision && self.strikes(Mutation::DecideTwice) {
                    bent.push(reply(*chat, *turn, (**told).clone()));
                }
            }
            Effect::Publish(Publication { channel, frame, .. }) if self.mutation == Some(Mutation::LeakResult) => {
                let envelope = super::mutator::envelope(frame);
                let action = &envelope["action"];
                let reviewed = action["type"] == "chat/toolCallComplete"
                    && action["requiresResultConfirmation"] == true
                    && envelope.get("origin").is_some();
                let turn = self.dealings.running.get(channel).copied();
                if let (true, Some(turn), Some(call)) = (reviewed, turn, action["toolCallId"].as_str())
                    && self.strikes(Mutation::LeakResult)
                {
                    let result = ToolReply::Completed(ToolResult::text("Did it", "not for you yet"));
                    bent.push(about_call(*channel, turn, call.to_owned(), result));
                }
            }
            _ => {}
        }
        bent.push(effect);
    }

    fn bend_reply(&mut self, chat: ChannelId, told: &mut Reply) {
        match told {
            Reply::Steering(text) if text.is_some() && self.strikes(Mutation::LoseSteering) => *text = None,
            Reply::Answered { answer, .. } if !answer.values.is_empty() && self.strikes(Mutation::ForgetAnswers) => {
                answer.values.clear();
            }
            Reply::Tool {
                call,
                reply: ToolReply::Decided(decision),
            } => {
                if decision.edited_input.is_some() && self.strikes(Mutation::IgnoreEdit) {
                    decision.edited_input = None;
                }
                if let (Some("allow-session"), Some((_, tool, _))) =
                    (decision.choice.as_deref(), self.dealings.calls.get(call))
                {
                    self.dealings.allowed.insert((tool.clone(), chat));
                }
            }
            _ => {}
        }
    }

    /// Whether the agent is not told that the client of its call is gone.
    fn is_abandoned(&mut self, told: &Reply) -> bool {
        let is_failure = match told {
            Reply::Tool {
                reply: ToolReply::Completed(result),
                ..
            } => !result.success,
            _ => false,
        };
        is_failure && self.strikes(Mutation::AbandonCalls)
    }

    fn agent_steps(&mut self, chat: ChannelId, turn: TurnKey, call: &str, step: &mut ToolStep) {
        match step {
            ToolStep::Start(start) => {
                let owner = match &start.contributor {
                    Contributor::Client(client) => Some(client.as_str().to_owned()),
                    Contributor::Host | Contributor::Mcp(_) => None,
                };
                let call = call.to_owned();
                self.dealings.calls.insert(call, (chat, start.name.clone(), owner));
            }
            ToolStep::Ready(ready) => {
                let is_standard = match &ready.permission {
                    Permission::Ask(confirmation) => confirmation.offer == Offer::Standard,
                    // A question that a hook insists on is asked despite approvals.
                    Permission::NotNeeded | Permission::Granted | Permission::Insist(_) => false,
                };
                let tool = self.dealings.calls.get(call).map(|(_, tool, _)| tool.clone());
                let elsewhere = tool.is_some_and(|tool| {
                    let allowed = &self.dealings.allowed;
                    !allowed.contains(&(tool.clone(), chat)) && allowed.iter().any(|(known, _)| *known == tool)
                });
                if is_standard && elsewhere && self.strikes(Mutation::LeakApproval) {
                    ready.permission = Permission::NotNeeded;
                    self.dealings.forged = Some((chat, turn, call.to_owned()));
                }
            }
            _ => {}
        }
    }

    /// A connection of the client that owns a call, if that is another client.
    fn owner_of(&self, call: &str, conn: ConnId, conns: &Connections) -> Option<ConnId> {
        let (_, _, owner) = self.dealings.calls.get(call)?;
        let owner = owner.as_ref()?;
        if conns.get(&conn).is_some_and(|author| author.client_id == *owner) {
            return None;
        }
        let mut theirs = conns.values().filter(|other| other.client_id == *owner && other.ready);
        theirs.next().map(|other| other.id)
    }
}

fn reply(chat: ChannelId, turn: TurnKey, told: Reply) -> Effect {
    Effect::Agent(AgentCommand::Reply {
        chat,
        turn,
        reply: Box::new(told),
    })
}

fn about_call(chat: ChannelId, turn: TurnKey, call: String, told: ToolReply) -> Effect {
    reply(chat, turn, Reply::Tool { call, reply: told })
}
