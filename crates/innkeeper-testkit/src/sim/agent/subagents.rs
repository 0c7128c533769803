//! Subagents: chats that an agent's tool calls start, and that the same agent drives.

use std::collections::{BTreeMap, BTreeSet};

use ahp_types::state::{BackgroundWork, ChatState};
use innkeeper_core::agent::{Spawn, Subagent};
use innkeeper_core::{AgentEvent, ChannelId, TurnKey};

use super::{Agent, Phase, Run};
use crate::sim::{Choices, Violation};

/// The parent of a subagent's run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parent {
    /// The run whose call started it.
    pub parent: (ChannelId, TurnKey),
    /// Whether it outlives that run.
    pub detached: bool,
}

impl Agent {
    /// The host has given a subagent a chat and a run, for which its parent waits (CHT-12).
    pub(super) fn start_subagent(&mut self, subagent: &Subagent, now_ms: u64) -> Result<(), Violation> {
        let (parent, turn) = subagent.parent;
        let asked = self.running.get_mut(&parent).filter(|run| run.turn == turn);
        let Some(session) = asked.and_then(|run| {
            run.spawns
                .take_if(|call| *call == subagent.call)
                .map(|_| run.session.clone())
        }) else {
            return Err(Violation::new(format!("{subagent:?} was not requested (CHT-12)")));
        };
        self.uris.insert(subagent.chat, subagent.chat_uri.to_string());
        self.known_turns.insert(subagent.chat, 1);
        let run = Run {
            turn: subagent.turn,
            session,
            chat: subagent.chat_uri.to_string(),
            tools: Vec::new(),
            calls: BTreeMap::new(),
            questions: BTreeSet::new(),
            busy_ms: now_ms,
            steers: false,
            spawns: None,
            above: Some(Parent {
                parent: subagent.parent,
                detached: subagent.detached,
            }),
        };
        match self.running.insert(subagent.chat, run) {
            None => Ok(()),
            Some(other) => Err(Violation::new(format!(
                "{subagent:?} starts where {:?} runs",
                other.turn
            ))),
        }
    }

    /// The runs that wait for a subagent of theirs.
    pub(super) fn waiting_for_subagents(&self) -> Vec<ChannelId> {
        let above = self.running.values().filter_map(|run| run.above);
        above
            .filter(|above| !above.detached)
            .map(|above| above.parent.0)
            .collect()
    }

    /// No subagent runs on after the run that waits for it, unless it was started so (CHT-12).
    pub fn check_subagents(&self) -> Result<(), Violation> {
        for run in self.running.values() {
            let Some(above) = run.above.filter(|above| !above.detached) else {
                continue;
            };
            let (chat, turn) = above.parent;
            if self.running.get(&chat).is_none_or(|parent| parent.turn != turn) {
                return Err(Violation::new(format!(
                    "{} works on for {turn:?}, which is over",
                    run.chat
                )));
            }
        }
        Ok(())
    }

    /// A chat lists the subagents that outlive its turns exactly as long as they work (CHT-24, CHT-25).
    pub fn check_background(&self, chat: ChannelId, head: &ChatState) -> Result<(), Violation> {
        let mut shown: Vec<&str> = Vec::new();
        for work in head.background_work.iter().flatten() {
            if let BackgroundWork::Subagent(work) = work {
                shown.push(&work.chat);
            }
        }
        let is_ours = |run: &&Run| run.above.is_some_and(|above| above.detached && above.parent.0 == chat);
        let mut wanted: Vec<&str> = self.running.values().filter(is_ours).map(|run| &*run.chat).collect();
        shown.sort_unstable();
        wanted.sort_unstable();
        if shown == wanted {
            return Ok(());
        }
        Err(Violation::new(format!(
            "{} lists the subagents {shown:?}, and {wanted:?} are at work (CHT-24)",
            head.resource
        )))
    }
}

/// A call starts a subagent; one that does not run is refused.
pub(super) fn spawn(run: &Run, choices: &mut Choices<'_>) -> Option<AgentEvent> {
    let running = run.calls.iter().filter(|(_, call)| call.phase == Phase::Running);
    let running: Vec<&String> = running.map(|(id, _)| id).collect();
    let call = match choices.pick(&running) {
        Some(call) if choices.below(8) > 0 => (*call).clone(),
        _ if choices.below(8) == 0 => "unknown".to_owned(),
        _ => return None,
    };
    Some(AgentEvent::Spawn(Box::new(Spawn {
        call,
        title: ["", "Look around"][choices.below(2)].to_owned(),
        prompt: "look around".to_owned(),
        agent_name: choices.one_in(2).then(|| "explorer".to_owned()),
        description: None,
        detached: choices.one_in(3),
    })))
}
