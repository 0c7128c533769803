//! One input in, effects out: every input, request and timer finds its handler here.

use crate::clients::client::Phase;
use crate::core::{Cx, Host, Timer, never};
use crate::effect::{Effect, JournalCommand};
use crate::ids::ConnId;
use crate::input::{ClientInput, Input};
use crate::protocol::error::RpcError;
use crate::protocol::request::{Command, RequestId, TurnsPage};
use crate::time::Now;

/// How often the replay window forgets actions that are too old.
const SWEEP_INTERVAL_MS: u64 = 60_000;

impl Host {
    /// Handles one input and appends its consequences, in order.
    pub(crate) fn handle(&mut self, now: Now, input: Input, effects: &mut Vec<Effect>) {
        self.began.get_or_insert(now);
        let cx = &mut Cx { now, effects };
        if self.is_late(&input) {
            return self.settle(cx);
        }
        match input {
            Input::Connected { conn, principal } => self.conns.open(conn, principal),
            Input::Disconnected { conn } => self.admit(cx, conn, ClientInput::Disconnected),
            Input::Request { conn, id, command } => self.admit(cx, conn, ClientInput::Request { id, command }),
            Input::Dispatch { conn, dispatch } => self.admit(cx, conn, ClientInput::Dispatch(dispatch)),
            Input::Unsubscribe { conn, channel } => self.admit(cx, conn, ClientInput::Unsubscribe { channel }),
            Input::McpNotification { conn, request } => self.admit(cx, conn, ClientInput::McpNotification(request)),
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
            Input::Recover(sessions) => self.recover_sessions(cx, sessions),
            Input::ChatOpened { chat, outcome } => self.chat_opened(cx, chat, outcome),
            Input::ChatLost { chat } => {
                // The driver reopens the agent of a running turn by itself.
                if self.chats.get(&chat).is_some_and(|chat| chat.run().is_none()) {
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
                // Customizations that look the same may still mean other tools.
                self.touched.note_tools(session);
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
            Input::Part(input) => self.part_input(cx, input),
            // Log records change no state, so there is nothing to settle.
            Input::Logs(records) => return self.export_logs(cx, &records),
            Input::Tick => self.tick(cx),
            Input::ShutDown => self.shut_down(cx),
        }
        self.settle(cx);
    }

    /// Returns true for an input about a connection, a chat or a session that is gone. It is dropped here, so that
    /// handlers find the object.
    fn is_late(&self, input: &Input) -> bool {
        match input {
            Input::ChatOpened { chat, .. }
            | Input::ChatLost { chat }
            | Input::Progress { chat, .. }
            | Input::Background { chat, .. } => !self.chats.contains_key(chat),
            Input::Disconnected { conn }
            | Input::Request { conn, .. }
            | Input::Dispatch { conn, .. }
            | Input::Unsubscribe { conn, .. }
            | Input::McpNotification { conn, .. } => self.conns.get(conn).is_none(),
            Input::ToolsListed { session, .. }
            | Input::CustomizationsFound { session, .. }
            | Input::CustomizationsAnnounced { session, .. }
            | Input::RepositorySeen { session, .. }
            | Input::McpServer { session, .. }
            | Input::McpRedeclared { session, .. } => !self.sessions.contains_key(session),
            // Events of a run are compared with the run at work.
            Input::Agent { .. } | Input::TurnEnded { .. } => false,
            // These are answered in any case.
            Input::AppTurn { .. } | Input::RenderPrompt { .. } | Input::TurnsLoaded { .. } => false,
            Input::Connected { .. }
            | Input::Loaded { .. }
            | Input::Listed { .. }
            | Input::Imported { .. }
            | Input::Recover(_)
            | Input::McpTokenLost { .. }
            | Input::AgentsChanged(_)
            | Input::Part(_)
            | Input::Logs(_)
            | Input::Tick
            | Input::ShutDown => false,
        }
    }

    /// Updates everything that follows from an input as a whole. A timer and an input that waited for the store count
    /// as inputs of their own.
    pub(crate) fn settle(&mut self, cx: &mut Cx<'_>) {
        self.end_drafts_with_content();
        self.announce_newly_listed(cx);
        self.release_drafts(cx);
        self.settle_parts(cx);
        self.update_servers(cx);
        self.schedule_tool_lists(cx);
        self.follow_changed_sessions(cx);
        self.persist_dirty(cx);
        self.schedule_eviction(cx.now.mono_ms);
    }

    /// Handles an input of a client, once everything it names is in memory.
    pub(crate) fn handle_client(&mut self, cx: &mut Cx<'_>, conn: ConnId, input: ClientInput) {
        match input {
            ClientInput::Disconnected => self.disconnect(cx, conn),
            ClientInput::Request { id, command } => self.request(cx, conn, &id, command),
            ClientInput::Dispatch(dispatch) => self.dispatch(cx, conn, *dispatch),
            ClientInput::Unsubscribe { channel } => self.unsubscribe(cx, conn, &channel),
            ClientInput::McpNotification(request) => self.tell_server(cx, conn, *request),
        }
    }

    fn request(&mut self, cx: &mut Cx<'_>, conn: ConnId, id: &RequestId, command: Command) {
        let Some(connection) = self.conns.get(&conn) else {
            return never!("the connection is open");
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
            // `request` answered them.
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
            Command::ListDeletedSessions => cx.emit(JournalCommand::ListDeleted { conn, id: id.clone() }),
            Command::RestoreSession { uri } => self.undo_deletion(cx, conn, id, uri),
            Command::DisposeSession {
                channel,
                only_if,
                for_good,
            } => match self.check_only_if(&channel, only_if) {
                // A cleanup policy deletes sessions for good, because it has to free space.
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
            Command::FetchTurns { channel, page } => {
                let result = match page {
                    TurnsPage::At(cursor) => self.fetch_turns(cx, conn, &channel, cursor.as_deref()),
                    TurnsPage::Before { turn, limit } => self.turns_before(conn, &channel, turn.as_deref(), limit),
                };
                cx.answer(conn, id, result);
            }
            Command::Completions(completions) => self.completions(cx, conn, id, *completions),
            Command::ResolveSessionConfig(setup) => self.resolve_session_config(cx, conn, id, &setup),
            Command::SessionConfigCompletions(query) => self.setting_values(cx, conn, id, *query),
            Command::Authenticate(authenticate) => {
                // Otherwise the request is answered once the token is persisted.
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
            Command::Part(command) => self.part_command(cx, conn, id, command),
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
                Timer::Channel(channel) => self.channel_deadline(cx, channel),
                Timer::StopWaitingForServers(session) => self.stop_waiting(cx, session),
                Timer::ExpireServerToken(resource) => self.expire_server_token(cx, &resource),
                Timer::ListTools(session) => self.list_noted_tools(cx, session),
            }
            self.settle(cx);
        }
    }

    fn shut_down(&mut self, cx: &mut Cx<'_>) {
        self.shutting_down = true;
        for chat in self.chats.running() {
            self.cancel_run(cx, chat);
        }
        // The summaries that the cancelled turns changed are due from here on.
        self.settle(cx);
        self.announce_due_summaries(cx);
        self.persist_all(cx);
    }

    /// Schedules the next sweep of the replay window.
    pub(crate) fn schedule_sweep(&mut self, now: Now) {
        if self.log.needs_sweep_timer() {
            let at_ms = now.mono_ms.saturating_add(SWEEP_INTERVAL_MS);
            self.timers.set(at_ms, Timer::SweepReplay);
        }
    }
}
