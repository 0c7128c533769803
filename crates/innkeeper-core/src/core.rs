//! The machine: one input in, effects out. It never blocks, reads a clock, or fails.

use std::collections::BTreeSet;
use std::sync::Arc;

use ahp_types::actions::{RootActiveSessionsChangedAction, StateAction};

use crate::agent::AgentProfile;
use crate::agent::registry::AgentRegistry;
use crate::chat::approval::Approvals;
use crate::chat::chats::Chats;
use crate::clients::agent_tokens::Tokens;
use crate::clients::channels::Channels;
use crate::clients::client::{Negotiated, Phase};
use crate::clients::{Clients, Connections};
use crate::config::CoreConfig;
use crate::customization::{SharedEnablement, shown_bytes};
use crate::effect::Effect;
use crate::ids::{ChannelId, ClientId, ConnId, Seq};
use crate::input::Input;
use crate::log::Log;
use crate::mcp::Mcp;
use crate::protocol::action_table::ChannelKind;
use crate::protocol::error::RpcError;
use crate::protocol::frame::{self, Outgoing};
use crate::protocol::request::{Command, RequestId};
use crate::protocol::snapshot::{Configured, Snapshot, State, Window};
use crate::protocol::uri;
use crate::resources::{Grants, Watches};
use crate::session::configure;
use crate::session::root::Root;
use crate::session::sessions::Sessions;
use crate::storage::Storage;
use crate::telemetry::Telemetry;
use crate::time::Now;

mod timers;

pub(crate) use timers::{Timer, Timers};

/// How often the replay window forgets what is too old.
const SWEEP_INTERVAL_MS: u64 = 60_000;

/// The root channel is always there and never removed.
pub(crate) const ROOT: ChannelId = ChannelId(0);

/// All state of one host and every rule about it.
///
/// ```
/// use innkeeper_core::{ConnId, CoreConfig, Effect, HostCore, Input, Now, Principal, Seq};
/// let now = Now { mono_ms: 0, wall: "2026-01-01T00:00:00Z".parse().unwrap() };
/// let mut core = HostCore::new(CoreConfig::default(), Vec::new(), Seq(1));
/// let mut effects = Vec::new();
/// let conn = ConnId { slot: 0, generation: 0 };
/// core.handle(now, Input::Connected { conn, principal: Principal::stdio() }, &mut effects);
/// assert!(effects.is_empty());
/// ```
#[derive(Debug)]
pub struct HostCore {
    pub(crate) config: CoreConfig,
    pub(crate) log: Log,
    pub(crate) storage: Storage,
    pub(crate) channels: Channels,
    pub(crate) root: Root,
    pub(crate) agents: AgentRegistry,
    pub(crate) approvals: Approvals,
    /// What clients may reach beyond their sessions.
    pub(crate) grants: Grants,
    pub(crate) watches: Watches,
    pub(crate) enablement: SharedEnablement,
    pub(crate) sessions: Sessions,
    pub(crate) chats: Chats,
    pub(crate) clients: Clients,
    /// What clients signed in with; never kept, never shown (AUTH-12).
    pub(crate) tokens: Tokens,
    /// MCP servers.
    pub(crate) mcp: Mcp,
    /// Who listens to the log.
    pub(crate) telemetry: Telemetry,
    pub(crate) conns: Connections,
    pub(crate) timers: Timers,
    pub(crate) shutting_down: bool,
    /// When its first input came. From then on the monotonic clock tells what the wall clock would
    /// say had nobody set it.
    pub(crate) began: Option<Now>,
}

/// The input being handled: when it happened and where its consequences go.
pub(crate) struct Cx<'a> {
    pub(crate) now: Now,
    pub(crate) effects: &'a mut Vec<Effect>,
}

impl Cx<'_> {
    pub(crate) fn send(&mut self, to: ConnId, message: Outgoing) {
        self.effects.push(Effect::Send { to, message });
    }

    pub(crate) fn answer(&mut self, to: ConnId, id: &RequestId, result: Result<serde_json::Value, RpcError>) {
        let message = match result {
            Ok(value) => frame::encode_result(id, &value),
            Err(error) => frame::encode_error(Some(id), &error),
        };
        self.send(to, Outgoing::Text(message));
    }
}

impl HostCore {
    /// A host without sessions. `last_seq` is the highest number any earlier life of this host
    /// may have given out; the first action takes the next one (E-05).
    pub fn new(config: CoreConfig, agents: Vec<AgentProfile>, last_seq: Seq) -> Self {
        let mut channels = Channels::default();
        let root_channel = channels.create(uri::ROOT, ChannelKind::Root, last_seq);
        debug_assert_eq!(root_channel, ROOT, "the root is the first channel");
        let mut log = Log::new(config.replay, last_seq);
        log.open_channel_at(ROOT, last_seq);
        let infos = agents.iter().map(|agent| agent.info.clone()).collect();
        let root = Root::new(infos, configure::host_settings(&config).into());
        let agents = AgentRegistry::new(agents, config.restricted_sections.as_deref());
        Self {
            config,
            log,
            storage: Storage::default(),
            channels,
            root,
            agents,
            approvals: Approvals::default(),
            grants: Grants::default(),
            watches: Watches::default(),
            enablement: SharedEnablement::default(),
            sessions: Sessions::default(),
            // No run of the host repeats a key, because every turn takes at least one number (TOOL-21).
            chats: Chats::new(last_seq.0),
            clients: Clients::default(),
            tokens: Tokens::default(),
            // Numbered like turns, so that no life repeats a channel.
            mcp: Mcp::new(last_seq.0),
            telemetry: Telemetry::default(),
            conns: Connections::default(),
            timers: Timers::default(),
            shutting_down: false,
            began: None,
        }
    }

    /// Handles one input and appends its consequences, in order.
    pub fn handle(&mut self, now: Now, input: Input, effects: &mut Vec<Effect>) {
        self.began.get_or_insert(now);
        let cx = &mut Cx { now, effects };
        match input {
            Input::Connected { conn, principal } => self.conns.open(conn, principal),
            Input::Disconnected { conn }
            | Input::Request { conn, .. }
            | Input::Dispatch { conn, .. }
            | Input::McpNotification { conn, .. }
            | Input::Unsubscribe { conn, .. } => self.admit(cx, conn, input),
            Input::Loaded { uri, outcome } => self.loaded(cx, &uri, outcome),
            Input::TurnsLoaded { chat, first, outcome } => {
                let problem = outcome.as_ref().err().cloned();
                self.turns_loaded(chat, first, outcome);
                self.resume_after_turns(cx, chat, problem.as_deref());
            }
            Input::Listed {
                conn,
                id,
                page,
                outcome,
            } => self.listed(cx, conn, &id, &page, outcome),
            Input::Imported { conn, id, outcome } => self.imported(cx, conn, &id, outcome),
            Input::LookAfter(sessions) => self.recover_sessions(cx, sessions),
            Input::ChatOpened { chat, outcome } => self.chat_opened(cx, chat, outcome),
            Input::ChatLost { chat } => {
                // With a turn at work, the driver brings its agent up by itself.
                if self.chats.get(&chat).is_some_and(|chat| chat.run.is_none()) {
                    self.open_chat(cx, chat, None);
                }
            }
            Input::Progress {
                chat,
                done,
                total,
                message,
            } => self.progress(cx, chat, done, total, message),
            Input::Background { chat, change } => self.background(cx, chat, change),
            Input::Agent { chat, turn, event } => self.agent_event(cx, chat, turn, event),
            Input::TurnEnded { chat, turn, end } => self.turn_ended(cx, chat, turn, end),
            Input::ToolsListed {
                session,
                provider,
                tools,
            } => self.tools_listed(cx, session, &provider, &tools),
            Input::CustomizationsFound {
                session,
                entries,
                shadows,
            } => {
                self.customizations_found(cx, session, entries, shadows);
                self.servers_known(session);
                // What is shown of it may be the same, and yet mean other tools.
                self.note_tools(cx, session);
            }
            Input::CustomizationsAnnounced { session, entries } => {
                self.customizations_announced(cx, session, entries);
            }
            Input::RepositorySeen {
                session,
                directory,
                state,
            } => self.repository_seen(cx, session, &directory, state.as_deref()),
            Input::McpServer {
                session,
                id,
                attempt,
                report,
            } => self.server_report(cx, session, &id, attempt, report),
            Input::McpRedeclared { session, servers } => self.servers_redeclared(session, &servers),
            Input::AppTurn {
                session,
                server,
                request,
                asked_by,
            } => self.app_turn(cx, session, &server, request, asked_by.as_ref()),
            Input::McpTokenLost { resource, number } => self.lose_server_token(cx, &resource, number),
            Input::AgentsChanged(profiles) => self.agents_changed(cx, profiles),
            Input::RenderPrompt {
                chat,
                turn,
                id,
                sections,
            } => self.choose_transformer(cx, chat, turn, id, &sections),
            Input::WatchOpened {
                conn,
                id,
                watch,
                spec,
                outcome,
            } => self.watch_opened(cx, conn, &id, watch, *spec, outcome),
            Input::WatchChanged { watch, changes } => self.watch_changed(cx, watch, &changes),
            // Nothing follows from it but what is sent.
            Input::Logs(records) => return self.export_logs(cx, &records),
            Input::Tick => self.tick(cx),
            Input::ShutDown => self.shut_down(cx),
        }
        self.announce_newly_listed(cx);
        self.release_drafts(cx);
        self.settle_watches(cx);
        self.update_servers(cx);
        self.persist_dirty(cx);
        self.schedule_eviction(now.mono_ms);
    }

    /// Handles what a connection sent, now that everything it names is there.
    pub(crate) fn handle_from(&mut self, cx: &mut Cx<'_>, conn: ConnId, input: Input) {
        match input {
            Input::Disconnected { .. } => self.disconnect(cx, conn),
            Input::Request { id, command, .. } => self.request(cx, conn, &id, command),
            Input::Dispatch { dispatch, .. } => self.dispatch(cx, conn, *dispatch),
            Input::Unsubscribe { channel, .. } => self.unsubscribe(cx, conn, &channel),
            Input::McpNotification { request, .. } => self.tell_server(cx, conn, *request),
            _ => {}
        }
    }

    /// The next moment on the monotonic clock at which the core wants an [`Input::Tick`].
    pub fn next_deadline(&self) -> Option<u64> {
        self.timers.next_deadline()
    }

    /// The last sequence number given out.
    pub fn seq(&self) -> Seq {
        self.log.seq()
    }

    /// The connection that reverse requests to a client go to (NEG-21).
    pub fn primary_conn(&self, client: &ClientId) -> Option<ConnId> {
        self.clients.primary_conn(client)
    }

    /// What was negotiated with a client that is connected or remembered (NEG-20).
    pub fn negotiated(&self, client: &ClientId) -> Option<&Negotiated> {
        self.clients.get(client).map(|client| &client.negotiated)
    }

    /// The state of a channel right now, by URI.
    pub fn snapshot(&self, uri: &str) -> Option<Snapshot> {
        self.channels.find(uri).and_then(|channel| self.capture(channel))
    }

    /// The id that the next channel gets; none below it is ever given out again.
    pub fn next_channel(&self) -> u64 {
        self.channels.next()
    }

    /// Takes note that everything up to this number is durable, so that memory need not have it.
    pub fn set_durable(&mut self, seq: Seq) {
        self.log.set_durable(seq);
    }

    /// Takes a number that no action gets.
    pub fn skip_number(&mut self) -> Seq {
        self.log.skip_number()
    }

    /// Whether anything that a connection sent waits for the store.
    pub fn is_parked(&self, conn: ConnId) -> bool {
        self.conns.get(&conn).is_some_and(|conn| !conn.deferred.is_empty())
    }

    /// What was being taken into memory when the core failed.
    pub fn installing(&self) -> impl Iterator<Item = Arc<str>> + '_ {
        self.storage.installing()
    }

    /// The agents, in the order clients see them.
    pub fn agents(&self) -> &[AgentProfile] {
        self.agents.profiles()
    }

    /// Gives up every claim to continue what clients have seen, after a failure in the middle of
    /// an input: whoever reconnects gets snapshots.
    pub fn forget_replay(&mut self) {
        self.log.forget_replay();
    }

    /// Bytes held for replay.
    pub fn replay_bytes(&self) -> usize {
        self.log.replay_bytes()
    }

    fn request(&mut self, cx: &mut Cx<'_>, conn: ConnId, id: &RequestId, command: Command) {
        let Some(connection) = self.conns.get(&conn) else {
            return;
        };
        let scope = connection.principal.scope;
        let ready = matches!(connection.phase, Phase::Ready { .. });
        match (command, ready) {
            // TRN-08: at any time, even before the handshake, and exactly null (E-47).
            (Command::Ping, _) => cx.answer(conn, id, Ok(serde_json::Value::Null)),
            (Command::Initialize(initialize), false) => self.initialize(cx, conn, id, *initialize),
            (Command::Reconnect(reconnect), false) => self.reconnect(cx, conn, id, *reconnect),
            (Command::Initialize(_) | Command::Reconnect(_), true) => {
                let message = "this connection is already initialized; open another one to start over";
                cx.answer(conn, id, Err(RpcError::invalid_request(message)));
            }
            (_, false) => {
                let message = "send initialize or reconnect first; before that only ping is answered";
                cx.answer(conn, id, Err(RpcError::invalid_request(message)));
            }
            (command, true) => match self.check_allowed(scope, &command) {
                Ok(()) => self.command(cx, conn, id, command),
                Err(error) => cx.answer(conn, id, Err(error)),
            },
        }
    }

    /// Carries out a request of a connection that is ready and may make it.
    fn command(&mut self, cx: &mut Cx<'_>, conn: ConnId, id: &RequestId, command: Command) {
        match command {
            // Answered before the handshake was looked at.
            Command::Ping | Command::Initialize(_) | Command::Reconnect(_) => {}
            Command::Subscribe(subscribe) => self.subscribe(cx, conn, id, *subscribe),
            Command::ListSessions(list) if self.storage.mode().has_store() => self.ask_for_list(cx, conn, id, &list),
            Command::ListSessions(list) => {
                self.announce_due_summaries(cx);
                let result = self.list_sessions(conn, &list);
                cx.answer(conn, id, result);
            }
            Command::CreateSession(create) => self.create_session(cx, conn, id, *create),
            Command::ImportSession { text } => self.import_session(cx, conn, id, text),
            Command::ListDeletedSessions => cx.effects.push(Effect::ListDeleted { conn, id: id.clone() }),
            Command::RestoreSession { uri } => self.undo_deletion(cx, conn, id, uri),
            Command::DisposeSession {
                channel,
                only_if,
                for_good,
            } => match self.check_only_if(&channel, only_if) {
                // Sessions that a policy chose go to make room.
                Ok(()) => self.dispose_session(cx, conn, id, &channel, for_good || only_if.is_some()),
                Err(error) => cx.answer(conn, id, Err(error)),
            },
            Command::CreateChat(create) => self.create_chat(cx, conn, id, *create),
            Command::DisposeChat { channel } => {
                let result = self.dispose_chat(cx, &channel);
                cx.answer(conn, id, result);
            }
            Command::MoveChat(move_chat) => {
                let result = self.move_chat(cx, &move_chat);
                cx.answer(conn, id, result);
            }
            Command::FetchTurns { channel, cursor } => {
                let result = self.fetch_turns(cx, conn, &channel, cursor.as_deref());
                cx.answer(conn, id, result);
            }
            Command::Completions(completions) => self.completions(cx, conn, id, *completions),
            Command::ResolveSessionConfig(setup) => self.resolve_session_config(cx, conn, id, &setup),
            Command::SessionConfigCompletions(query) => self.setting_values(cx, conn, id, *query),
            Command::Authenticate(authenticate) => {
                // Or it is answered when it is kept.
                if let Some(result) = self.authenticate(cx, conn, id, *authenticate).transpose() {
                    cx.answer(conn, id, result);
                }
            }
            Command::Mcp(request) => self.ask_server(cx, conn, id, *request),
            Command::Resource(op) => self.resource(cx, conn, id, op),
            Command::RequestResource { uri, write } => {
                let result = self.request_resource(cx, conn, &uri, write);
                cx.answer(conn, id, result);
            }
            Command::WatchResource(spec) => self.open_watch(cx, conn, id, spec),
            Command::Grants(command) => {
                let result = self.grant_command(cx, *command);
                cx.answer(conn, id, result);
            }
            Command::Approvals(command) => {
                let result = self.approval_command(cx, *command);
                cx.answer(conn, id, result);
            }
        }
    }

    fn tick(&mut self, cx: &mut Cx<'_>) {
        while let Some(timer) = self.timers.pop_due(cx.now.mono_ms) {
            match timer {
                Timer::EndGrace(client) => self.end_grace(cx, &client),
                Timer::ExpireDraft(session) => self.expire_draft(cx, session),
                Timer::AnnounceSummary(session) => self.announce_summary(cx, session),
                Timer::CheckWatchdog(chat) => self.watch(cx, chat),
                Timer::SweepReplay => {
                    if self.log.sweep(cx.now.mono_ms) {
                        self.schedule_sweep(cx.now);
                    }
                }
                Timer::PersistClients => self.persist_clients(cx),
                Timer::EvictIdle => self.evict_idle(cx),
                Timer::PurgeDeleted => self.purge_deleted(cx),
                Timer::ExpireTokens(client) => self.expire_tokens(cx, &client),
                Timer::EndWatchLease(channel) => self.end_lease(cx, channel),
                Timer::StopWaitingForServers(session) => self.stop_waiting(cx, session),
                Timer::ExpireServerToken(resource) => self.expire_server_token(cx, &resource),
                Timer::ListTools(session) => self.list_noted_tools(cx, session),
            }
        }
    }

    fn shut_down(&mut self, cx: &mut Cx<'_>) {
        self.shutting_down = true;
        for chat in self.chats.running() {
            self.cancel_run(cx, chat);
        }
        self.announce_due_summaries(cx);
        self.persist_all(cx);
    }

    /// Makes sure that the replay window is looked through in time.
    pub(crate) fn schedule_sweep(&mut self, now: Now) {
        if self.log.needs_sweep_timer() {
            let at_ms = now.mono_ms.saturating_add(SWEEP_INTERVAL_MS);
            self.timers.set(at_ms, Timer::SweepReplay);
        }
    }

    /// Captures a channel's state at the present sequence number.
    pub(crate) fn capture(&self, channel: ChannelId) -> Option<Snapshot> {
        self.capture_window(channel, Window::ALL)
    }

    /// The same, as the client on a connection is shown it, with part of a chat's turns.
    pub(crate) fn capture_for(&self, conn: ConnId, channel: ChannelId, window: Window) -> Option<Snapshot> {
        let hides_apps = !self.shows_apps(conn);
        let snapshot = self.capture_window(channel, window)?;
        Some(Snapshot { hides_apps, ..snapshot })
    }

    /// The same, with part of a chat's turns.
    fn capture_window(&self, channel: ChannelId, window: Window) -> Option<Snapshot> {
        let entry = self.channels.get(channel)?;
        let state = if channel == ROOT {
            State::Root(Configured::new(
                self.root.state(),
                self.root.settings(),
                self.agents.catalogue(),
            ))
        } else if let Some(session) = self.sessions.get(&channel) {
            State::Session(Configured::new(&session.state, &session.settings, &session.opt_ins))
        } else if let Some(watch) = self.watches.state(channel) {
            State::Watch(Arc::clone(watch))
        } else {
            self.chats.get(&channel)?.model.snapshot(window)
        };
        Some(Snapshot {
            resource: Arc::clone(&entry.uri),
            from_seq: self.log.seq(),
            state,
            hides_apps: false,
        })
    }

    /// Roughly how many bytes a channel's snapshot takes, with part of a chat's turns.
    pub(crate) fn estimated_bytes_of(&self, channel: ChannelId, window: Window) -> usize {
        let base = 1024;
        match (self.sessions.get(&channel), self.chats.get(&channel)) {
            (Some(session), _) => {
                let state = &session.state;
                let chats = json_bytes(&state.chats);
                let clients = json_bytes(&state.active_clients) + json_bytes(&*session.opt_ins);
                base + chats + clients + json_bytes(&state.config) + shown_bytes(session)
            }
            (None, Some(chat)) => base + chat.model.estimated_bytes_of(window),
            (None, None) => base + json_bytes(&self.root.state().agents) + json_bytes(&**self.agents.catalogue()),
        }
    }

    pub(crate) fn publish_active_sessions(&mut self, cx: &mut Cx<'_>) {
        // E-35: the crate's meaning, non-disposed sessions; those that lists show.
        let active_sessions = i64::try_from(self.sessions.listed()).unwrap_or(i64::MAX);
        let action = RootActiveSessionsChangedAction { active_sessions };
        self.commit(cx, ROOT, StateAction::RootActiveSessionsChanged(action), None);
    }
}

/// How many bytes a value takes as JSON.
pub(crate) fn json_bytes(value: &impl serde::Serialize) -> usize {
    serde_json::to_vec(value).map_or(0, |json| json.len())
}
