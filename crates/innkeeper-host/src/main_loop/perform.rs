//! Performing what the core wants done, in order.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use innkeeper_core::{ActionFrame, ChannelId, Effect, Outgoing, Subscriber};
use tokio::time::Instant;

use crate::agent::runtime::driver::{Driver, DriverDeps, TurnHistory};
use crate::agent::runtime::event_queue::LoopWaker;
use crate::main_loop::task::HostTask;
use crate::services::contents::SessionContents;
use crate::services::journal::effects::turns_of;
use crate::services::mcp::TrustTimeouts;
use crate::services::prompt_transform::TransformLimits;
use crate::services::resources::client_files::ReadLimits;

/// How long an agent is held back at most: a reader that trickles is not waited for without end.
const MAX_HOLD: Duration = Duration::from_secs(1);

impl HostTask {
    /// Does what the core decided, in order. What has to be kept of it is.
    pub(crate) fn perform(&mut self, effects: &mut Vec<Effect>) {
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
        match effect {
            // Published in runs, or kept already.
            Effect::Publish { .. } | Effect::Keep(_) => {}
            Effect::Load { uri } => self.load(uri),
            Effect::LoadTurns { chat, uri, range } => self.load_turns(chat, uri, range),
            Effect::Notify { to, message } => {
                for subscriber in &*to {
                    self.push(subscriber.conn, Outgoing::Text(message.clone()));
                }
            }
            Effect::ExportLogs { to, message } => self.export_logs(&to, &message),
            Effect::Send { to, message } => self.push(to, message),
            Effect::Close { conn, reason } => {
                if let Some(connection) = self.connection(conn) {
                    connection.outbox.close(reason.into());
                }
            }
            Effect::OpenChat(open) => {
                let (Some(agent), Some(deps)) = (self.agents.get(&open.provider), self.driver_deps()) else {
                    return;
                };
                let chat = open.chat;
                let agent = Arc::clone(agent);
                let customizations_watch = self.followed.watch(open.session, &open.switched_off);
                // The old one lets go of what it holds before the new one opens.
                let previous = self.drivers.remove(&chat).and_then(Driver::close);
                self.drivers
                    .insert(chat, Driver::start(agent, *open, deps, customizations_watch, previous));
            }
            Effect::StartTurn { chat, turn, start } => {
                let customizations_watch = self.followed.watch(start.session, &start.switched_off);
                let customizations_watch = customizations_watch.with_mcp(self.servers.of(start.session));
                self.followed.turn_begins(start.session);
                let contents = SessionContents::new(
                    Arc::clone(&self.contents),
                    Arc::clone(&start.session_uri),
                    self.limits.resource_bytes,
                    self.content_order.lock(),
                );
                if let Some(driver) = self.drivers.get_mut(&chat) {
                    driver.run(turn, start, customizations_watch, Some(contents));
                }
            }
            Effect::CancelTurn { chat, turn } => {
                if let Some(driver) = self.drivers.get_mut(&chat) {
                    driver.cancel(turn);
                }
            }
            Effect::Reply { chat, turn, reply } => {
                if let Some(driver) = self.drivers.get(&chat) {
                    driver.reply(turn, *reply);
                }
            }
            Effect::RenderPrompt { id, plan } => {
                if let Some(reply) = self.renders.remove(&id) {
                    let _ = reply.send(*plan);
                }
            }
            Effect::StartSubagent(subagent) => self.start_subagent(*subagent),
            Effect::List { conn, id, page } => self.list(conn, id, page),
            Effect::Import { conn, id, text } => self.import(conn, id, text),
            Effect::ListDeleted { conn, id } => self.list_deleted(conn, id),
            Effect::UndoDeletion { conn, id, uri } => self.undo_deletion(conn, id, uri),
            Effect::PurgeDeleted { before_ms } => self.purge_deleted(before_ms),
            Effect::LookUp { conn, id, what } => self.look_up(conn, id, *what),
            Effect::Resource {
                conn,
                id,
                op,
                reaches,
                sight,
            } => self.resource(conn, id, *op, reaches, &sight),
            Effect::McpResource { conn, id, op, sessions } => self.mcp_resource(conn, id, *op, &sessions),
            Effect::OpenWatch {
                conn,
                id,
                watch,
                spec,
                reaches,
            } => self.open_watch(conn, id, watch, spec, reaches),
            Effect::CloseWatch { watch } => {
                self.watches.remove(&watch);
            }
            Effect::FollowCustomizations { session, wanted } => self.follow(session, *wanted),
            Effect::ForgetCustomizations { session, switched_off } => self.forget(session, switched_off),
            Effect::FollowRepository { session, directory } => self.follow_repository(session, &directory),
            Effect::LookAtRepositoryAgain { session } => self.repositories.look_again(session),
            Effect::ForgetRepository { session } => self.repositories.forget(session),
            Effect::WantMcpServers { session, wanted } => self.want_servers(session, wanted),
            Effect::ListTools { session, provider } => self.ask_for_tools(session, provider),
            Effect::SessionGone { uri } => self.forget_contents(uri),
            Effect::ChatsMoved(moved) => self.share_contents(*moved),
            Effect::ForgetMcpServers { session } => self.forget_servers(session),
            Effect::McpToken {
                resource,
                change,
                answer,
            } => self.set_server_token(&resource, change, answer),
            Effect::AskMcpServer {
                conn,
                id,
                session,
                what,
            } => self.ask_server(conn, id, session, *what),
            Effect::AppTurn { request, outcome } => self.app_turn(&request, outcome),
            Effect::TellMcpServer { session, what } => self.tell_server(session, *what),
            Effect::CloseChat { chat } => {
                self.drivers.remove(&chat);
            }
        }
    }

    fn driver_deps(&self) -> Option<DriverDeps> {
        Some(DriverDeps {
            waker: LoopWaker::new(self.inbox.upgrade()?, Arc::clone(&self.missed)),
            open_time: self.limits.open_session_time,
            cancel_time: self.limits.cancel_time,
            tasks: self.tasks.clone(),
            history: TurnHistory::new(turns_of(&*self.journal), self.limits.agent_history_bytes),
            transform: TransformLimits {
                time: self.limits.transform_time,
                bytes: self.limits.transform_bytes,
            },
            mcp_reads: ReadLimits {
                time: self.limits.mcp_request_time,
                bytes: self.limits.resource_bytes,
            },
            app_requests: self.app_requests.clone(),
            trust: TrustTimeouts {
                answer: self.limits.mcp_trust_time,
                start: Duration::from_millis(self.limits.core.mcp_blocking_ms),
            },
            client_reads: ReadLimits {
                time: self.limits.reverse_request_time,
                bytes: self.limits.resource_bytes,
            },
        })
    }

    /// Hands a subagent to the run that asked for it. A run that is over, or has changed its mind,
    /// drops what it is given, and that ends the subagent.
    fn start_subagent(&mut self, subagent: innkeeper_core::Subagent) {
        let Some(deps) = self.driver_deps() else {
            return;
        };
        let parent = self.drivers.get(&subagent.parent.0);
        let (driver, handle) = Driver::subagent(&subagent, parent, deps);
        if let Some(parent) = parent {
            parent.hand_over(subagent.parent.1, &subagent.call, handle);
        }
        self.drivers.insert(subagent.chat, driver);
    }

    /// Delivers a run of actions with one audience: each queue is locked once for all of them.
    fn publish(&mut self, run: &mut Run) {
        let Some((chat, to)) = run.to.take() else {
            return;
        };
        let mut least_behind = usize::MAX;
        for subscriber in &*to {
            if let Some(connection) = self.connection(subscriber.conn)
                && let Some(waiting) = connection
                    .outbox
                    .push_actions(&shown(&run.frames, subscriber), subscriber.max_latency_ms)
            {
                least_behind = least_behind.min(waiting);
            }
        }
        let streams = run.frames.iter().any(|frame| frame.is_mergeable());
        run.frames.clear();
        // An agent waits for its fastest reader, never for a slow one.
        if streams && least_behind != usize::MAX && least_behind > self.limits.agent_hold_bytes {
            self.hold_agent(chat, to);
        }
    }

    fn hold_agent(&mut self, chat: ChannelId, readers: Arc<[Subscriber]>) {
        if let Some(driver) = self.drivers.get(&chat).filter(|driver| !driver.queue().is_held()) {
            driver.queue().hold();
            self.held.push((chat, readers, Instant::now()));
        }
    }

    /// Opens the gates of agents whose fastest reader has caught up, or that have no reader left.
    pub(crate) fn release_agents(&mut self) {
        if self.held.is_empty() {
            return;
        }
        let held = std::mem::take(&mut self.held);
        for (chat, readers, since) in held {
            let least_behind = readers
                .iter()
                .filter_map(|reader| self.outbox(reader.conn)?.backlog())
                .min();
            let is_behind = least_behind.is_some_and(|bytes| bytes > self.limits.agent_hold_bytes / 4);
            if is_behind && since.elapsed() < MAX_HOLD {
                self.held.push((chat, readers, since));
            } else if let Some(driver) = self.drivers.get(&chat) {
                driver.queue().release();
            }
        }
    }
}

/// What a subscriber is shown of some actions; as a rule, all of it (MCP-14).
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
