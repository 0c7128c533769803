//! The agents of a host and their open chats.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use innkeeper_core::agent::ToolInfo;
use innkeeper_core::mcp::AppTurn;
use innkeeper_core::{AgentCommand, ChannelId, OpenChat, PromptPlan, Subscriber};
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use super::connections::Connections;
use super::handles::LoopHandles;
use super::message::SessionMessage;
use crate::agent::Agent;
use crate::agent::runtime::driver::{Driver, DriverDeps, RecordedTurns, TurnHistory};
use crate::agent::runtime::event_queue::{EventQueue, LoopWaker, MissedWakes};
use crate::services::Services;
use crate::services::customizations::{CustomizationsWatch, TurnCustomizations};
use crate::services::mcp::{AppRequests, TrustTimeouts};
use crate::services::prompt_transform::TransformLimits;
use crate::services::resources::client_files::ReadLimits;

/// The longest time that an agent is held back: a slow reader must not stop it for good.
const MAX_HOLD: Duration = Duration::from_secs(1);

/// The agents by provider id, and the drivers of their open chats.
#[derive(Default)]
pub(crate) struct Agents {
    agents: HashMap<String, Arc<dyn Agent>>,
    drivers: HashMap<ChannelId, Driver>,
    /// Chats whose agent waits until one of the readers has caught up, and since when.
    held: Vec<(ChannelId, Arc<[Subscriber]>, Instant)>,
    /// Queues whose wake-up did not fit into the inbox.
    missed: MissedWakes,
    /// Renders of system prompts that wait for their plan, by number.
    renders: HashMap<u64, oneshot::Sender<PromptPlan>>,
    next_render: u64,
    /// Requests of apps to the model.
    app_requests: AppRequests,
}

impl Agents {
    pub(crate) fn new(agents: HashMap<String, Arc<dyn Agent>>) -> Self {
        Self {
            agents,
            ..Self::default()
        }
    }

    pub(crate) fn get(&self, provider: &str) -> Option<Arc<dyn Agent>> {
        self.agents.get(provider).cloned()
    }

    pub(crate) fn app_requests(&self) -> &AppRequests {
        &self.app_requests
    }

    /// Closes every chat, because the core is replaced or the host ends.
    pub(crate) fn clear(&mut self) {
        self.drivers.clear();
        self.held.clear();
        self.renders.clear();
    }

    pub(crate) fn perform(&mut self, handles: &LoopHandles, services: &mut Services, command: AgentCommand) {
        match command {
            AgentCommand::OpenChat(open) => {
                let Some(agent) = self.get(&open.provider) else {
                    // The core knows the agents of the host only.
                    return;
                };
                let customizations = services.customizations.watch(open.session, &open.disabled_ids);
                self.open_chat(handles, services, agent, *open, customizations);
            }
            AgentCommand::CloseChat { chat } => {
                self.drivers.remove(&chat);
            }
            AgentCommand::StartTurn { chat, turn, start } => {
                let watch = services.customizations.watch(start.session, &start.disabled_ids);
                let watch = watch.with_mcp(services.mcp.of(start.session));
                services.customizations.turn_begins(start.session);
                let max_bytes = handles.limits().resource_bytes;
                let contents = services.contents.of_session(&start.info.session, max_bytes);
                if let Some(driver) = self.drivers.get_mut(&chat) {
                    driver.run(turn, start, watch, Some(contents));
                }
            }
            AgentCommand::CancelTurn { chat, turn } => {
                if let Some(driver) = self.drivers.get_mut(&chat) {
                    driver.cancel(turn);
                }
            }
            AgentCommand::Reply { chat, turn, reply } => {
                if let Some(driver) = self.drivers.get(&chat) {
                    driver.reply(turn, *reply);
                }
            }
            AgentCommand::StartSubagent(subagent) => {
                self.start_subagent(handles, services, *subagent);
            }
            AgentCommand::TransformPrompt { id, plan } => {
                if let Some(reply) = self.renders.remove(&id) {
                    let _ = reply.send(*plan);
                }
            }
            // With the next messages, so that the answer is as new as everything that has happened by then.
            AgentCommand::ListTools { session, provider } => {
                handles.send(SessionMessage::ListTools { session, provider }.into())
            }
            AgentCommand::ResolveAppRequest { request, outcome } => {
                self.resolve_app_request(handles.tasks(), &request, outcome);
            }
        }
    }

    /// Opens a chat. If it is open already, the old driver releases what it holds before the new one starts.
    fn open_chat(
        &mut self,
        handles: &LoopHandles,
        services: &Services,
        agent: Arc<dyn Agent>,
        open: OpenChat,
        customizations: CustomizationsWatch,
    ) {
        let Some(deps) = self.driver_deps(handles, services) else {
            // The host is going away.
            return;
        };
        let chat = open.chat;
        let previous = self.drivers.remove(&chat).and_then(Driver::close);
        let driver = Driver::start(agent, open, deps, customizations, previous);
        self.drivers.insert(chat, driver);
    }

    /// Hands a subagent to the run that started it. A run that has ended or no longer waits for it drops the handle,
    /// and that ends the subagent.
    fn start_subagent(&mut self, handles: &LoopHandles, services: &Services, subagent: innkeeper_core::Subagent) {
        let Some(deps) = self.driver_deps(handles, services) else {
            // The host is going away.
            return;
        };
        let parent = self.drivers.get(&subagent.parent.0);
        let (driver, handle) = Driver::subagent(&subagent, parent, deps);
        if let Some(parent) = parent {
            parent.hand_over(subagent.parent.1, &subagent.call, handle);
        }
        self.drivers.insert(subagent.chat, driver);
    }

    /// Lets a request of an app join a running turn, or refuses it.
    fn resolve_app_request(&self, tasks: &TaskTracker, request: &str, outcome: AppTurn) {
        let (chat, turn) = match outcome {
            AppTurn::Joins { chat, turn } => (chat, turn),
            AppTurn::Refused(why) => return self.app_requests.refuse(request, &why),
        };
        let serving = self.drivers.get(&chat).and_then(|driver| driver.serve_app(turn));
        match (serving, self.app_requests.take(request)) {
            (Some(serving), Some(request)) => {
                tasks.spawn(serving.serve(request));
            }
            (None, Some(request)) => request.refuse("a turn of the session is about to start; ask again when it runs"),
            (_, None) => {}
        }
    }

    /// Returns the tools that an agent offers in a session. `None` if there is no such agent, or if it panicked.
    pub(crate) fn session_tools(&self, provider: &str, customizations: &TurnCustomizations) -> Option<Vec<ToolInfo>> {
        let agent = self.agents.get(provider)?;
        let listed = std::panic::catch_unwind(AssertUnwindSafe(|| agent.session_tools(customizations)));
        if listed.is_err() {
            tracing::error!(provider, "an agent panicked when it was asked for its tools");
        }
        listed.ok()
    }

    /// Registers a render of a system prompt, and returns its number.
    pub(crate) fn begin_render(&mut self, reply: oneshot::Sender<PromptPlan>) -> u64 {
        self.renders.retain(|_, reply| !reply.is_closed());
        let id = self.next_render;
        self.next_render += 1;
        self.renders.insert(id, reply);
        id
    }

    /// Takes the queues whose wake-up did not fit into the inbox.
    pub(crate) fn take_missed(&self) -> Vec<Arc<EventQueue>> {
        std::mem::take(&mut *self.missed.lock())
    }

    /// Holds an agent back until one of its readers has caught up.
    pub(crate) fn hold(&mut self, chat: ChannelId, readers: Arc<[Subscriber]>) {
        if let Some(driver) = self.drivers.get(&chat)
            && !driver.queue().is_held()
        {
            driver.queue().hold();
            self.held.push((chat, readers, Instant::now()));
        }
    }

    /// Returns true if an agent is held back.
    pub(crate) fn has_held(&self) -> bool {
        !self.held.is_empty()
    }

    /// Releases the agents whose fastest reader has caught up, or that have no reader left.
    pub(crate) fn release(&mut self, connections: &Connections, hold_bytes: usize) {
        if self.held.is_empty() {
            return;
        }
        for (chat, readers, since) in std::mem::take(&mut self.held) {
            let least_behind = readers
                .iter()
                .filter_map(|reader| connections.outbox(reader.conn)?.backlog())
                .min();
            let is_behind = least_behind.is_some_and(|bytes| bytes > hold_bytes / 4);
            if is_behind && since.elapsed() < MAX_HOLD {
                self.held.push((chat, readers, since));
            } else if let Some(driver) = self.drivers.get(&chat) {
                driver.queue().release();
            }
        }
    }

    fn driver_deps(&self, handles: &LoopHandles, services: &Services) -> Option<DriverDeps> {
        let limits = handles.limits();
        Some(DriverDeps {
            waker: LoopWaker::new(handles.inbox()?, Arc::clone(&self.missed)),
            open_time: limits.open_session_time,
            cancel_time: limits.cancel_time,
            tasks: handles.tasks().clone(),
            history: TurnHistory::new(services.journal.turns(), limits.agent_history_bytes),
            changes: RecordedTurns(services.changes.changes()),
            transform: TransformLimits {
                time: limits.transform_time,
                bytes: limits.transform_bytes,
            },
            mcp_reads: ReadLimits {
                time: limits.mcp_request_time,
                bytes: limits.resource_bytes,
            },
            app_requests: self.app_requests.clone(),
            trust: TrustTimeouts {
                answer: limits.mcp_trust_time,
                start: Duration::from_millis(limits.core.mcp_blocking_ms),
            },
            client_reads: ReadLimits {
                time: limits.reverse_request_time,
                bytes: limits.resource_bytes,
            },
        })
    }
}
