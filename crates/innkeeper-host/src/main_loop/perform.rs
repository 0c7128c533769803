//! Performs the effects of the core, in order. Each effect is performed by the part of the host that owns the state for
//! it: connections, agents or services.

use std::borrow::Cow;
use std::sync::Arc;

use innkeeper_core::{ActionFrame, ChannelId, ConnId, Effect, LookUp, Outgoing, RequestId, Subscriber};

use super::Message;
use super::requests::{OpenRequest, request_of};
use super::task::HostTask;
use crate::services::customizations::TurnCustomizations;
use crate::services::customizations::resource_access::VisibleSets;
use crate::services::mcp::CREATE_MESSAGE;
use crate::services::mcp::app_requests::sample_for_app;
use crate::services::resources::effects::ResourceOperation;

impl HostTask {
    /// Performs effects. The actions and records among them are persisted already.
    pub(super) fn perform(&mut self, effects: &mut Vec<Effect>) {
        let mut run = Run::default();
        for effect in effects.drain(..) {
            match effect {
                Effect::Publish { channel, to, frame, .. } => {
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
        let handles = &self.handles;
        match effect {
            // Published in runs, or persisted already.
            Effect::Publish { .. } | Effect::Keep(_) => {}

            // Connections.
            Effect::Notify { to, message } => {
                for subscriber in &*to {
                    self.net.push(subscriber.conn, Outgoing::Text(message.clone()));
                }
            }
            Effect::ExportLogs { to, message } => {
                for outbox in to.iter().filter_map(|conn| self.net.outbox(*conn)) {
                    outbox.push_if_room(Outgoing::Text(message.clone()));
                }
            }
            Effect::Send { to, message } => self.net.push(to, message),
            Effect::Close { conn, reason } => self.net.close(conn, reason.into()),

            // Agents.
            Effect::OpenChat(open) => {
                let Some(agent) = self.agents.get(&open.provider) else {
                    return;
                };
                let customizations = self.services.customizations.watch(open.session, &open.switched_off);
                let turns = self.services.journal.turns();
                self.agents.open_chat(handles, turns, agent, *open, customizations);
            }
            Effect::StartTurn { chat, turn, start } => {
                let services = &mut self.services;
                let watch = services.customizations.watch(start.session, &start.switched_off);
                let watch = watch.with_mcp(services.mcp.of(start.session));
                services.customizations.turn_begins(start.session);
                let max_bytes = handles.limits().resource_bytes;
                let contents = services.contents.of_session(&start.session_uri, max_bytes);
                self.agents.start_turn(chat, turn, start, watch, contents);
            }
            Effect::CancelTurn { chat, turn } => self.agents.cancel_turn(chat, turn),
            Effect::Reply { chat, turn, reply } => self.agents.reply(chat, turn, *reply),
            Effect::RenderPrompt { id, plan } => self.agents.finish_render(id, *plan),
            Effect::StartSubagent(subagent) => {
                let turns = self.services.journal.turns();
                self.agents.start_subagent(handles, turns, *subagent);
            }
            Effect::AppTurn { request, outcome } => self.agents.app_turn(handles.tasks(), &request, outcome),
            Effect::CloseChat { chat } => self.agents.close_chat(chat),
            // With the next messages, so that the answer is as new as what has happened by then.
            Effect::ListTools { session, provider } => handles.send(Message::ListTools { session, provider }),

            // Services.
            Effect::Load { uri } => self.services.journal.load(handles, uri),
            Effect::LoadTurns { chat, uri, range } => self.services.journal.load_turns(handles, chat, uri, range),
            Effect::PurgeDeleted { before_ms } => self.services.journal.purge_deleted(handles, before_ms),
            Effect::CloseWatch { watch } => self.services.resources.close_watch(watch),
            Effect::FollowCustomizations { session, wanted } => {
                self.services.customizations.follow(handles, session, *wanted);
            }
            Effect::ForgetCustomizations { session, switched_off } => {
                self.services.customizations.forget(handles, session, switched_off);
            }
            Effect::FollowRepository { session, directory } => {
                self.services.repositories.follow(handles, session, &directory);
            }
            Effect::LookAtRepositoryAgain { session } => self.services.repositories.look_again(session),
            Effect::ForgetRepository { session } => self.services.repositories.forget(session),
            Effect::WantMcpServers { session, wanted } => {
                let set = self.services.customizations.set(session);
                let contents = &self.services.contents;
                self.services.mcp.want(handles, contents, &set, session, wanted);
            }
            Effect::ForgetMcpServers { session } => self.services.mcp.forget(session),
            Effect::TellMcpServer { session, what } => self.services.mcp.app_notification(session, *what),
            Effect::SessionGone { uri } => self.services.contents.forget(handles, uri),
            Effect::ChatsMoved(moved) => {
                let turns = self.services.journal.stored_turns();
                self.services.contents.share(handles, turns, *moved);
            }
            Effect::McpToken {
                resource,
                change,
                answer,
            } => {
                let request = answer.and_then(|(conn, id)| self.open_request(conn, id));
                self.services.mcp.set_token(&self.handles, &resource, change, request);
            }
            effect @ (Effect::List { .. }
            | Effect::Import { .. }
            | Effect::ListDeleted { .. }
            | Effect::UndoDeletion { .. }
            | Effect::LookUp { .. }
            | Effect::Resource { .. }
            | Effect::McpResource { .. }
            | Effect::OpenWatch { .. }
            | Effect::AskMcpServer { .. }) => self.perform_request(effect),
        }
    }

    /// Performs an effect that answers a request.
    fn perform_request(&mut self, effect: Effect) {
        let Some(request) = request_of(&effect).map(|(conn, id)| (conn, id.clone())) else {
            return;
        };
        let Some(request) = self.open_request(request.0, request.1) else {
            return;
        };
        let (handles, services) = (&self.handles, &mut self.services);
        match effect {
            Effect::List { page, .. } => services.journal.list(handles, request, page),
            Effect::Import { text, .. } => services.journal.import(handles, request, text),
            Effect::ListDeleted { .. } => services.journal.list_deleted(handles, request),
            Effect::UndoDeletion { uri, .. } => services.journal.undo_deletion(handles, request, uri),
            Effect::LookUp { what, .. } => {
                let (provider, customizations) = match &*what {
                    LookUp::Completions {
                        provider,
                        session,
                        switched_off,
                        ..
                    } => {
                        let watch = services.customizations.watch(*session, switched_off);
                        (provider, watch.with_mcp(services.mcp.of(*session)).now())
                    }
                    LookUp::SettingValues { provider, .. } => (provider, TurnCustomizations::default()),
                };
                let agent = self.agents.get(provider);
                services.lookups.answer(handles, request, *what, agent, customizations);
            }
            Effect::Resource { op, reaches, sight, .. } => {
                let Some(order) = self.net.order(request.conn) else {
                    return;
                };
                let max_bytes = handles.limits().resource_bytes;
                let operation = ResourceOperation {
                    op: *op,
                    reaches,
                    sets: VisibleSets::new(&services.customizations, &sight, max_bytes),
                    finder: services.customizations.finder(),
                };
                let contents = &services.contents;
                services.resources.perform(handles, request, operation, order, contents);
            }
            Effect::McpResource { op, sessions, .. } => services.mcp.resource(handles, request, *op, &sessions),
            Effect::OpenWatch {
                watch, spec, reaches, ..
            } => services.resources.open_watch(handles, request, watch, spec, reaches),
            Effect::AskMcpServer { session, what, .. } if what.method == CREATE_MESSAGE => {
                let set = services.customizations.set(session);
                sample_for_app(handles, request, self.agents.app_requests(), &set, session, *what);
            }
            Effect::AskMcpServer { session, what, .. } => services.mcp.app_request(handles, request, session, *what),
            _ => {}
        }
    }

    /// Returns a request with its ticket, unless the host is going away.
    fn open_request(&mut self, conn: ConnId, id: RequestId) -> Option<OpenRequest> {
        let ticket = self.requests.take(conn, &id);
        Some(OpenRequest {
            conn,
            id,
            ticket,
            inbox: self.handles.inbox()?,
        })
    }

    /// Delivers a run of actions with one audience: each queue is locked once for all of them.
    fn publish(&mut self, run: &mut Run) {
        let Some((chat, to)) = run.to.take() else {
            return;
        };
        let mut least_behind = usize::MAX;
        for subscriber in &*to {
            if let Some(outbox) = self.net.outbox(subscriber.conn)
                && let Some(backlog) = outbox.push_actions(&shown(&run.frames, subscriber), subscriber.max_latency_ms)
            {
                least_behind = least_behind.min(backlog);
            }
        }
        let streams = run.frames.iter().any(|frame| frame.is_mergeable());
        run.frames.clear();
        // An agent waits for its fastest reader, never for a slow one.
        if streams && least_behind != usize::MAX && least_behind > self.handles.limits().agent_hold_bytes {
            self.agents.hold(chat, to);
        }
    }
}

/// Returns the actions as a subscriber gets them: as a rule unchanged (MCP-14).
fn shown<'a>(frames: &'a [Arc<ActionFrame>], subscriber: &Subscriber) -> Cow<'a, [Arc<ActionFrame>]> {
    if subscriber.dialect.mcp_apps || !frames.iter().any(|frame| frame.is_shown_differently()) {
        return Cow::Borrowed(frames);
    }
    frames
        .iter()
        .map(|frame| Arc::clone(frame.shown_to(subscriber)))
        .collect()
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
