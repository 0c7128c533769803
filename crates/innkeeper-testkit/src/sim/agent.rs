//! The scripted agent: it acts only when told to, remembers what it did, and believes of its calls
//! and questions what it did itself and what the host told it. That belief is one more mirror.

mod replies;
mod steps;
mod subagents;
mod work;

use std::collections::{BTreeMap, BTreeSet};

use innkeeper_core::agent::{ClientTool, Offer, Permission, ToolStep};
use innkeeper_core::{AgentCommand, AgentEvent, ChannelId, TurnKey};

use crate::sim::Violation;

pub use self::replies::AgentReply;
pub use self::steps::{RESOURCES, any_event};
use self::subagents::Parent;

/// All back ends of the simulated host.
#[derive(Debug, Default)]
pub struct Agent {
    opening: Vec<ChannelId>,
    running: BTreeMap<ChannelId, Run>,
    ended: Vec<(ChannelId, TurnKey)>,
    /// How many turns each chat's back end knows of: those it was opened with and those it ran.
    known_turns: BTreeMap<ChannelId, usize>,
    /// The URIs of every chat that was ever opened.
    uris: BTreeMap<ChannelId, String>,
    /// Replies since the last check.
    heard: Vec<AgentReply>,
    /// Numbers calls and questions, so that each has its own id.
    next_id: u64,
}

/// One turn at work.
#[derive(Debug)]
pub struct Run {
    /// Its key.
    pub turn: TurnKey,
    /// The session's URI.
    pub session: String,
    /// The chat's URI.
    pub chat: String,
    /// Client tools at the start of the turn.
    pub tools: Vec<ClientTool>,
    /// Every call of this run.
    pub calls: BTreeMap<String, Call>,
    /// Questions without an answer.
    pub questions: BTreeSet<String>,
    /// When it last sent an event, got a reply or waited for a user, on the monotonic clock.
    pub busy_ms: u64,
    /// Whether it waits to be told its steering message.
    steers: bool,
    /// The call for which it wants a subagent and waits to be told of it.
    spawns: Option<String>,
    /// Its parent, if it is a subagent.
    above: Option<Parent>,
}

/// A tool call as its agent sees it.
#[derive(Debug)]
pub struct Call {
    /// The tool.
    pub tool: String,
    /// The client that executes it.
    pub owner: Option<String>,
    /// Whether an MCP server does.
    pub is_mcp: bool,
    /// How far it is.
    pub phase: Phase,
    /// The input it runs with, once that is known.
    pub input: Option<String>,
    /// The resource that it needs a token for.
    pub resource: Option<String>,
    /// Whether it brought its own choices when it last asked.
    pub own_offer: bool,
    /// Whether it waits to hear that its work may begin.
    pub starts: bool,
}

impl Call {
    /// The rule that an approval of it is remembered as, and the one that allows the whole tool:
    /// tools of different owners are different tools.
    pub fn rules(&self) -> [String; 2] {
        let input = self.input.as_deref().unwrap_or_default();
        // Rules use these names for something else.
        let is_reserved = ["edit", "read", "fetch", "mcp", "client"].contains(&self.tool.as_str());
        let prefix = if is_reserved { "tool:" } else { "" };
        match &self.owner {
            Some(owner) => [format!("client({owner}/{})", self.tool), String::new()],
            None if self.is_mcp => [format!("mcp(server/{})", self.tool), String::new()],
            None => [
                format!("{prefix}{}({input})", self.tool),
                format!("{prefix}{}(*)", self.tool),
            ],
        }
    }
}

/// How far a call is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Its input is being written.
    Streaming,
    /// It waits for a confirmation.
    Asking,
    /// It runs here, or at the client that owns it.
    Running,
    /// It waits for a sign-in.
    SigningIn,
    /// Its result waits for a confirmation.
    Reviewing,
    /// It is over.
    Over,
}

impl Agent {
    /// Takes note of a command to an agent. When only time has passed, `silence` says how
    /// long an agent may say nothing. `stored` says how many turns it is told of that are in a store.
    pub fn perform(
        &mut self,
        command: &AgentCommand,
        now_ms: u64,
        silence: Option<u64>,
        stored: usize,
    ) -> Result<(), Violation> {
        match command {
            AgentCommand::OpenChat(open) => {
                self.uris.insert(open.chat, open.info.chat.to_string());
                self.opening.push(open.chat);
                self.known_turns.insert(open.chat, stored + open.history.recent.len());
            }
            AgentCommand::StartTurn { chat, turn, start } => {
                let known = self.known_turns.entry(*chat).or_default();
                // A back end that was opened for it was told of the turns before it.
                if start.info.resume && *known > start.info.turns_before {
                    *known -= 1;
                }
                if *known != start.info.turns_before {
                    return Err(Violation::new(format!(
                        "{chat:?} knows {known} turns, but the chat has {} (TRC-05)",
                        start.info.turns_before
                    )));
                }
                *known += 1;
                let run = Run {
                    turn: *turn,
                    session: start.info.session.to_string(),
                    chat: self.uris.get(chat).cloned().unwrap_or_default(),
                    tools: start.info.client_tools.clone(),
                    calls: BTreeMap::new(),
                    questions: BTreeSet::new(),
                    busy_ms: now_ms,
                    steers: false,
                    spawns: None,
                    above: None,
                };
                if let Some(other) = self.running.insert(*chat, run) {
                    return Err(Violation::new(format!(
                        "{turn:?} starts in {chat:?} while {:?} runs (TURN-01)",
                        other.turn
                    )));
                }
            }
            AgentCommand::CancelTurn { chat, turn } => match self.running.remove(chat) {
                Some(run) if run.turn == *turn => {
                    if let Some(limit_ms) = silence {
                        run.check_silence(now_ms, limit_ms)?;
                    }
                    self.ended.push((*chat, *turn));
                }
                other => {
                    return Err(Violation::new(format!(
                        "{turn:?} is cancelled in {chat:?} where {:?} runs",
                        other.map(|run| run.turn)
                    )));
                }
            },
            AgentCommand::CloseChat { chat } => {
                if let Some(run) = self.running.remove(chat) {
                    return Err(Violation::new(format!(
                        "{chat:?} is closed while {:?} runs in it",
                        run.turn
                    )));
                }
                self.uris.remove(chat);
            }
            AgentCommand::Reply { chat, turn, reply } => self.hear(*chat, *turn, reply, now_ms)?,
            AgentCommand::StartSubagent(subagent) => self.start_subagent(subagent, now_ms)?,
            AgentCommand::TransformPrompt { .. }
            | AgentCommand::ListTools { .. }
            | AgentCommand::ResolveAppRequest { .. } => {}
        }
        Ok(())
    }

    /// The process that ran all of them is gone.
    pub fn die(&mut self) {
        let next_id = self.next_id;
        *self = Self {
            next_id,
            ..Self::default()
        };
    }

    /// All of them are told to stop, and some may still say something.
    pub fn stop(&mut self) {
        let stopped = std::mem::take(&mut self.running);
        let mut ended = std::mem::take(&mut self.ended);
        ended.extend(stopped.iter().map(|(chat, run)| (*chat, run.turn)));
        self.die();
        self.ended = ended;
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
                .map(|(chat, run)| (*chat, run.turn)),
        }
    }

    /// All turns at work.
    pub fn runs(&self) -> impl Iterator<Item = &Run> {
        self.running.values()
    }

    /// The turn at work in a chat.
    pub fn run(&self, chat: ChannelId) -> Option<&Run> {
        self.running.get(&chat)
    }

    /// The URIs of all chats that have a back end.
    pub fn chats(&self) -> impl Iterator<Item = (ChannelId, &str)> {
        self.uris.iter().map(|(chat, uri)| (*chat, uri.as_str()))
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

    /// An unused id.
    pub fn fresh_id(&mut self, prefix: &str) -> String {
        self.next_id += 1;
        format!("{prefix}{}", self.next_id)
    }

    /// Takes note of what the agent is about to do.
    pub fn act(&mut self, chat: ChannelId, event: &AgentEvent, now_ms: u64) {
        let Some(run) = self.running.get_mut(&chat) else {
            return;
        };
        run.busy_ms = now_ms;
        match event {
            AgentEvent::Tool { call, step } => run.step(call, step),
            AgentEvent::Ask(questions) => {
                run.questions.insert(questions.id.clone());
            }
            AgentEvent::TakeSteering => run.steers = true,
            AgentEvent::Spawn(spawn) => run.spawns = Some(spawn.call.clone()),
            _ => {}
        }
    }

    /// Notes the time that passes while a user is asked or subagents work.
    pub fn wait(&mut self, now_ms: u64) {
        let waiting = self.waiting_for_subagents();
        for (chat, run) in &mut self.running {
            if run.waits_for_user() || waiting.contains(chat) {
                run.busy_ms = now_ms;
            }
        }
    }
}

impl Run {
    /// Whether it waits for a user or a client.
    pub fn waits_for_user(&self) -> bool {
        let waits = |call: &Call| match call.phase {
            Phase::Asking | Phase::SigningIn | Phase::Reviewing => true,
            Phase::Running => call.owner.is_some(),
            Phase::Streaming | Phase::Over => false,
        };
        !self.questions.is_empty() || self.calls.values().any(waits)
    }

    fn check_silence(&self, now_ms: u64, limit_ms: u64) -> Result<(), Violation> {
        let silent_ms = now_ms.saturating_sub(self.busy_ms);
        if self.waits_for_user() || silent_ms < limit_ms {
            return Err(Violation::new(format!(
                "{:?} was ended for a silence of {silent_ms} ms, without waiting for a user",
                self.turn
            )));
        }
        Ok(())
    }

    /// Applies a step to a call. A step at the wrong time has no effect.
    fn step(&mut self, id: &str, step: &ToolStep) {
        if let ToolStep::Start(start) = step {
            use innkeeper_core::agent::Contributor;
            let call = Call {
                tool: start.name.clone(),
                owner: match &start.contributor {
                    Contributor::Client(client) => Some(client.as_str().to_owned()),
                    Contributor::Host | Contributor::Mcp(_) => None,
                },
                is_mcp: matches!(start.contributor, Contributor::Mcp(_)),
                phase: Phase::Streaming,
                input: None,
                resource: None,
                own_offer: false,
                starts: false,
            };
            self.calls.entry(id.to_owned()).or_insert(call);
            return;
        }
        let Some(call) = self.calls.get_mut(id) else {
            return;
        };
        match (step, call.phase) {
            (ToolStep::Ready(ready), Phase::Streaming | Phase::Running | Phase::Asking) => {
                if ready.input.is_some() {
                    call.input.clone_from(&ready.input);
                }
                let needs_no_user = matches!(ready.permission, Permission::NotNeeded | Permission::Granted);
                call.starts = needs_no_user && call.owner.is_none();
                call.phase = match &ready.permission {
                    Permission::NotNeeded | Permission::Granted => Phase::Running,
                    Permission::Ask(confirmation) | Permission::Insist(confirmation) => {
                        call.own_offer = matches!(confirmation.offer, Offer::Own(_));
                        Phase::Asking
                    }
                };
            }
            (ToolStep::AuthRequired(requirement), Phase::Running) if call.is_mcp => {
                call.resource = Some(requirement.resource.clone());
                call.phase = Phase::SigningIn;
            }
            (ToolStep::AuthResolved, Phase::SigningIn) => call.phase = Phase::Running,
            (ToolStep::Done { review, .. }, Phase::Streaming | Phase::Running | Phase::Asking) => {
                // The host ignores events of the agent about a call that a client runs.
                let reviewed = *review && call.owner.is_none();
                call.phase = if reviewed { Phase::Reviewing } else { Phase::Over };
            }
            (ToolStep::Done { result, .. }, Phase::SigningIn) if !result.success => call.phase = Phase::Over,
            _ => {}
        }
    }
}
