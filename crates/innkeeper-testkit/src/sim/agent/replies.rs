//! Replies of the host to an agent, and whether the agent was waiting for them.

use innkeeper_core::agent::{Answer, Decision, ToolReply};
use innkeeper_core::{ChannelId, Reply, TurnKey};

use super::{Agent, Call, Phase, Run};
use crate::sim::Violation;

/// A reply to an agent that other state must agree with.
#[derive(Debug, Clone, PartialEq)]
pub enum AgentReply {
    /// A user, or the policy if `by` is absent, allowed a call.
    Allowed {
        /// Where.
        session: String,
        /// The rules for this call and for its whole tool.
        rules: [String; 2],
        /// The decision.
        decision: Decision,
        /// Whether the agent offered its own options.
        own_offer: bool,
    },
    /// A steering message, or that there is none.
    Steering {
        /// The chat's URI.
        chat: String,
        /// Its words.
        text: Option<String>,
    },
    /// A user answered.
    Answered {
        /// The chat's URI.
        chat: String,
        /// The id of the questions.
        id: String,
        /// The answers.
        answer: Answer,
    },
    /// A client is done with a call, or gone.
    Completed,
    /// A subagent cannot be started.
    NotSpawned,
    /// A token for a call.
    Token {
        /// The chat's URI.
        chat: String,
        /// The call.
        call: String,
    },
}

impl Agent {
    /// Everything that was heard since the last time.
    pub fn take_heard(&mut self) -> Vec<AgentReply> {
        std::mem::take(&mut self.heard)
    }

    pub(super) fn hear(&mut self, chat: ChannelId, turn: TurnKey, reply: &Reply, now_ms: u64) -> Result<(), Violation> {
        let Some(run) = self.running.get_mut(&chat).filter(|run| run.turn == turn) else {
            return Err(Violation::new(format!("{turn:?} is over and is told {reply:?}")));
        };
        run.busy_ms = now_ms;
        let heard = match reply {
            Reply::Tool { call, reply } => run.hear_of_call(call, reply)?,
            Reply::Answered { id, answer } => {
                if !run.questions.remove(id) {
                    return Err(Violation::new(format!("{id} is answered and was not asked (INP-06)")));
                }
                Some(AgentReply::Answered {
                    chat: run.chat.clone(),
                    id: id.clone(),
                    answer: answer.clone(),
                })
            }
            Reply::Steering(text) => {
                if !std::mem::take(&mut run.steers) {
                    return Err(Violation::new("an unrequested steering message (PEND-04)"));
                }
                Some(AgentReply::Steering {
                    chat: run.chat.clone(),
                    text: text.clone(),
                })
            }
            Reply::NotSpawned { call, reason } => {
                if run.spawns.take_if(|asked| asked == call).is_none() {
                    return Err(Violation::new(format!("no subagent was asked for by {call}: {reason}")));
                }
                Some(AgentReply::NotSpawned)
            }
        };
        self.heard.extend(heard);
        Ok(())
    }
}

impl Run {
    /// Whether it still waits for an answer that the host owes it at once.
    pub fn check_answered(&self) -> Result<(), Violation> {
        if let Some(call) = &self.spawns {
            return Err(Violation::new(format!(
                "{call} asked for a subagent and was told nothing (CHT-12)"
            )));
        }
        if let Some((id, _)) = self.calls.iter().find(|(_, call)| call.starts) {
            return Err(Violation::new(format!(
                "{id} is to run and was not told that it may (P4)"
            )));
        }
        if self.steers {
            return Err(Violation::new(format!(
                "{:?} asked for its steering message and was told nothing (PEND-04)",
                self.turn
            )));
        }
        Ok(())
    }

    fn hear_of_call(&mut self, id: &str, reply: &ToolReply) -> Result<Option<AgentReply>, Violation> {
        let Some(call) = self.calls.get_mut(id) else {
            return Err(Violation::new(format!("{id} is no call of this run: {reply:?}")));
        };
        call.check_waits(id, reply)?;
        match reply {
            ToolReply::Decided(decision) if decision.approved => {
                call.phase = Phase::Running;
                let rules = call.rules();
                if decision.edited_input.is_some() {
                    call.input.clone_from(&decision.edited_input);
                }
                return Ok(Some(AgentReply::Allowed {
                    session: self.session.clone(),
                    rules,
                    decision: decision.clone(),
                    own_offer: call.own_offer,
                }));
            }
            ToolReply::Authenticated { .. } => {
                return Ok(Some(AgentReply::Token {
                    chat: self.chat.clone(),
                    call: id.to_owned(),
                }));
            }
            ToolReply::Completed(_) => {
                call.phase = Phase::Over;
                return Ok(Some(AgentReply::Completed));
            }
            ToolReply::Started => call.starts = false,
            ToolReply::Decided(_) | ToolReply::Reviewed { .. } | ToolReply::AuthRefused => call.phase = Phase::Over,
        }
        Ok(None)
    }
}

impl Call {
    fn check_waits(&self, id: &str, reply: &ToolReply) -> Result<(), Violation> {
        let waits = match (reply, self.phase) {
            (ToolReply::Started, Phase::Running) => self.starts,
            (ToolReply::Decided(_), Phase::Asking)
            | (ToolReply::Reviewed { .. }, Phase::Reviewing)
            | (ToolReply::Authenticated { .. } | ToolReply::AuthRefused, Phase::SigningIn) => true,
            // A client's call ends in any state when that client leaves (ACT-11, ACT-12).
            (ToolReply::Completed(result), Phase::Streaming | Phase::Asking) => self.owner.is_some() && !result.success,
            (ToolReply::Completed(_), Phase::Running) => self.owner.is_some(),
            _ => false,
        };
        if waits {
            return Ok(());
        }
        Err(Violation::new(format!(
            "{id} is {:?} and does not wait for {reply:?} (DSP-16)",
            self.phase
        )))
    }
}
