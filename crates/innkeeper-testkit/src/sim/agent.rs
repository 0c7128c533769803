//! The scripted agent: it remembers what the host asked of it and acts only when told to.

use std::collections::BTreeMap;

use innkeeper_core::{ChannelId, Effect, TurnKey};

use super::Violation;

/// All back ends of the simulated host.
#[derive(Debug, Default)]
pub struct Agent {
    opening: Vec<ChannelId>,
    running: BTreeMap<ChannelId, TurnKey>,
    ended: Vec<(ChannelId, TurnKey)>,
}

impl Agent {
    /// Takes note of an effect that concerns agents.
    pub fn perform(&mut self, effect: &Effect) -> Result<(), Violation> {
        match effect {
            Effect::OpenChat(open) => self.opening.push(open.chat),
            Effect::StartTurn { chat, turn, .. } => {
                if let Some(other) = self.running.insert(*chat, *turn) {
                    return Err(Violation::new(format!(
                        "{turn:?} starts in {chat:?} while {other:?} runs (TURN-01)"
                    )));
                }
            }
            Effect::CancelTurn { chat, turn } => match self.running.remove(chat) {
                Some(running) if running == *turn => self.ended.push((*chat, *turn)),
                other => {
                    return Err(Violation::new(format!(
                        "{turn:?} is cancelled in {chat:?} where {other:?} runs"
                    )));
                }
            },
            Effect::CloseChat { chat } => {
                if let Some(running) = self.running.remove(chat) {
                    return Err(Violation::new(format!(
                        "{chat:?} is closed while {running:?} runs in it"
                    )));
                }
            }
            Effect::Reply { .. } | Effect::StartWorker(_) | Effect::LookUp { .. } => {}
            Effect::Publish { .. } | Effect::Notify { .. } | Effect::Send { .. } | Effect::Close { .. } => {}
        }
        Ok(())
    }

    /// A session whose back end is still coming up.
    pub fn take_opening(&mut self, choose: impl FnOnce(usize) -> usize) -> Option<ChannelId> {
        match self.opening.len() {
            0 => None,
            len => Some(self.opening.swap_remove(choose(len) % len)),
        }
    }

    /// A turn at work.
    pub fn running(&self, choose: impl FnOnce(usize) -> usize) -> Option<(ChannelId, TurnKey)> {
        match self.running.len() {
            0 => None,
            len => self
                .running
                .iter()
                .nth(choose(len) % len)
                .map(|(chat, turn)| (*chat, *turn)),
        }
    }

    /// Ends a turn on the agent's side.
    pub fn end(&mut self, chat: ChannelId, turn: TurnKey) {
        self.running.remove(&chat);
        self.ended.push((chat, turn));
    }

    /// A turn that is over, for events that come too late.
    pub fn ended(&self, choose: impl FnOnce(usize) -> usize) -> Option<(ChannelId, TurnKey)> {
        match self.ended.len() {
            0 => None,
            len => self.ended.get(choose(len) % len).copied(),
        }
    }
}
