//! Performs the effects of the core, in order. Each effect is performed by the part of the host that owns the state for
//! it: connections, agents or services.

use std::sync::Arc;

use innkeeper_core::{ActionFrame, ChannelId, Effect, Publication, Subscriber};

use super::task::HostTask;
use crate::services::completions::effects::CompletionParts;
use crate::services::mcp::effects::McpParts;
use crate::services::resources::effects::ResourceParts;

impl HostTask {
    /// Performs effects. The actions and records among them are persisted already.
    pub(super) fn perform(&mut self, effects: &mut Vec<Effect>) {
        let mut run = Run::default();
        for effect in effects.drain(..) {
            match effect {
                Effect::Publish(Publication { channel, to, frame, .. }) => {
                    if !run.continues(channel, &to) {
                        self.publish(&mut run);
                    }
                    run.add(channel, to, frame);
                }
                other => {
                    self.publish(&mut run);
                    self.perform_one(other);
                }
            }
        }
        self.publish(&mut run);
    }

    fn perform_one(&mut self, effect: Effect) {
        let Self {
            handles,
            net,
            agents,
            services,
            requests,
            ..
        } = self;
        match effect {
            // Published in runs, or persisted already.
            Effect::Publish(_) | Effect::Persist(_) => {}
            Effect::Deliver(delivery) => net.deliver(delivery),
            Effect::Agent(command) => agents.perform(handles, services, command),
            Effect::Journal(command) => services.journal.perform(handles, requests, command),
            Effect::Blobs(command) => services.contents.perform(handles, &services.journal, command),
            Effect::Completions(request) => {
                let parts = CompletionParts {
                    agents,
                    customizations: &mut services.customizations,
                    mcp: &services.mcp,
                };
                services.completions.perform(handles, requests, request, parts);
            }
            Effect::Customizations(command) => services.customizations.perform(handles, command),
            Effect::Mcp(command) => {
                let parts = McpParts {
                    customizations: &services.customizations,
                    contents: &services.contents,
                    app_requests: agents.app_requests(),
                };
                services.mcp.perform(handles, requests, command, parts);
            }
            Effect::Changes(command) => services.changes.perform(handles, requests, agents, command),
            Effect::Repositories(command) => services.repositories.perform(handles, command),
            Effect::Resources(command) => {
                let parts = ResourceParts {
                    connections: net,
                    contents: &services.contents,
                    changes: &services.changes,
                    customizations: &services.customizations,
                };
                services.resources.perform(handles, requests, command, parts);
            }
            Effect::Terminals(command) => services.terminals.perform(handles, requests, command),
            Effect::Erase(erasure) => services.erase_session(handles, erasure.uri),
        }
    }

    /// Delivers a run of actions with one audience: each queue is locked once for all of them.
    fn publish(&mut self, run: &mut Run) {
        let Some((chat, to)) = run.to.take() else {
            // The run is empty.
            return;
        };
        let mut least_behind = usize::MAX;
        for subscriber in &*to {
            if let Some(outbox) = self.net.outbox(subscriber.conn)
                && let Some(backlog) =
                    outbox.push_actions(&subscriber.dialect.frames(&run.frames), subscriber.max_latency_ms)
            {
                least_behind = least_behind.min(backlog);
            }
        }
        let streams = run.frames.iter().any(|frame| frame.is_mergeable());
        run.frames.clear();
        // An agent waits for its fastest reader, never for a slow one.
        if streams && least_behind != usize::MAX && least_behind > self.handles.limits().agent_hold_bytes {
            self.services.terminals.hold(chat, &to);
            self.agents.hold(chat, to);
        }
    }
}

/// Consecutive actions with the same audience.
#[derive(Default)]
struct Run {
    to: Option<(ChannelId, Arc<[Subscriber]>)>,
    frames: Vec<Arc<ActionFrame>>,
}

impl Run {
    fn continues(&self, channel: ChannelId, to: &Arc<[Subscriber]>) -> bool {
        self.to
            .as_ref()
            .is_some_and(|(mine, audience)| *mine == channel && Arc::ptr_eq(audience, to))
    }

    fn add(&mut self, channel: ChannelId, to: Arc<[Subscriber]>, frame: Arc<ActionFrame>) {
        self.to = Some((channel, to));
        self.frames.push(frame);
    }
}
