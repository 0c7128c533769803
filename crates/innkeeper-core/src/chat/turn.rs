//! Turns: an agent's events become actions, until the turn ends.

use std::sync::Arc;

use ahp_types::actions::{
    ChatActivityChangedAction, ChatErrorAction, ChatPendingMessageRemovedAction, ChatResponsePartAction,
    ChatTurnCancelledAction, ChatTurnCompleteAction, ChatTurnStartedAction, ChatUsageAction, StateAction,
};
use ahp_types::common::StringOrMarkdown;
use ahp_types::state::{
    ErrorResponsePart, MarkdownResponsePart, PendingMessageKind, ReasoningResponsePart, ResourceResponsePart,
    ResponsePart, SystemNotificationResponsePart, UsageInfo,
};

use serde_json::{Map, Value, json};

use crate::agent::{AgentEvent, AppliedRule, Failure, Reply, TurnEnd, Usage};
use crate::chat::chats::{Chat, OpenPart, Run};
use crate::chat::history::{steering_part, unfinished_turn, words_of};
use crate::chat::title::title_in;
use crate::chat::tool_call::meta::of_agent;
use crate::core::{Cx, Host, never};
use crate::customization::disabled_ids;
use crate::dispatch::elapsed;
use crate::effect::{AgentCommand, TurnInfo, TurnStart};
use crate::ids::{ChannelId, ClientId, TurnKey};
use crate::mcp::app_request;
use crate::protocol::frame::AppendHead;
use crate::session::TitleSource;
use crate::session::create::{directories_of, error_info, settings_of};

/// Key under which applied rules are shown.
const RULES: &str = "innkeeper.rules";

impl Host {
    /// Hands the active turn to the agent.
    pub(crate) fn start_run(&mut self, cx: &mut Cx<'_>, chat_id: ChannelId, resume: bool, author: Option<&ClientId>) {
        // An agent that never got a turn cannot resume it: for that agent the turn is new.
        let undelivered = self.chats.get(&chat_id).is_some_and(|chat| chat.undelivered);
        self.follow_subscribed(cx, chat_id);
        let Some(start) = self.turn_start(cx, chat_id, resume && !undelivered, author) else {
            return never!("a run starts in a chat with an active turn");
        };
        let Some(key) = self.add_run(cx, chat_id, author) else {
            return never!("a run starts in a chat with an active turn");
        };
        if let Some(missing) = self.missing_agent(chat_id) {
            return self.fail_run(cx, chat_id, missing, false);
        }
        if let Some(gone) = self.missing_custom_agent(chat_id) {
            if let Some(chat) = self.chats.get_mut(&chat_id) {
                chat.undelivered |= !resume;
            }
            return self.fail_run(cx, chat_id, gone, resume);
        }
        if let Some(unsigned) = self.ask_to_sign_in(cx, chat_id, author) {
            if let Some(chat) = self.chats.get_mut(&chat_id) {
                chat.undelivered |= !resume;
            }
            return self.fail_run(cx, chat_id, unsigned, true);
        }
        // A chat that was loaded from the store is opened when it gets its first turn, and one whose agent has missed a
        // turn is opened again with it.
        if self.needs_opening(chat_id) {
            self.open_chat(cx, chat_id, author);
        }
        if let Some(chat) = self.chats.get_mut(&chat_id) {
            chat.undelivered = false;
        }
        // A turn for an app needs no server but the one that it has.
        if start.app_request.is_none() && self.hold_for_servers(cx, chat_id, resume && !undelivered) {
            return;
        }
        cx.emit(AgentCommand::StartTurn {
            chat: chat_id,
            turn: key,
            start: Box::new(start),
        });
    }

    /// Notes that an agent works on the active turn.
    pub(crate) fn add_run(
        &mut self,
        cx: &mut Cx<'_>,
        chat_id: ChannelId,
        author: Option<&ClientId>,
    ) -> Option<TurnKey> {
        let key = self.chats.start_run(chat_id, cx.now.mono_ms, author)?;
        self.start_watchdog(cx, chat_id);
        Some(key)
    }

    /// Everything an agent needs to know about the active turn.
    pub(crate) fn turn_start(
        &self,
        cx: &Cx<'_>,
        chat_id: ChannelId,
        resume: bool,
        author: Option<&ClientId>,
    ) -> Option<TurnStart> {
        let chat = self.chats.get(&chat_id)?;
        let session = self.sessions.get(&chat.session)?;
        let turn = chat.model.head().active_turn.as_ref()?;
        let model = turn.message.model.as_ref();
        let (attachments, unread_chats) = self.attachments_of(&turn.message);
        let info = TurnInfo {
            turn_id: turn.id.clone(),
            text: turn.message.text.clone(),
            attachments,
            model: model.map(|model| model.id.clone()),
            model_settings: model
                .and_then(|model| model.config.clone())
                .map(|config| config.into_iter().collect())
                .unwrap_or_default(),
            agent: turn.message.agent.as_ref().map(|agent| agent.uri.clone()),
            resume,
            so_far: resume.then(|| unfinished_turn(turn)),
            turns_before: chat.model.turn_count(),
            session: Arc::clone(&session.uri),
            session_title: session.state.title.clone(),
            working_directories: directories_of(session, chat),
            settings: settings_of(session),
            client_tools: self.client_tools(session, author),
        };
        Some(TurnStart {
            session: chat.session,
            info,
            unread_chats,
            asked_by: author.cloned(),
            calls_before: crate::chat::tool_call::wire::calls(&turn.response_parts),
            credentials: self.credentials_for(cx.now, session, author),
            disabled_ids: disabled_ids(session),
            app_request: app_request(&turn.message).map(str::to_owned),
        })
    }

    /// Stops the agent after the end of its turn was published.
    pub(crate) fn stop_run(&mut self, cx: &mut Cx<'_>, chat_id: ChannelId) {
        self.clear_activity(cx, chat_id);
        if let Some(run) = self.chats.get_mut(&chat_id).and_then(Chat::take_run) {
            match run.held {
                Some(held) => self.note_missed_turn(chat_id, held),
                None => cx.emit(AgentCommand::CancelTurn {
                    chat: chat_id,
                    turn: run.key(),
                }),
            }
            self.run_over(cx, chat_id, &run);
        }
    }

    /// Consequences of the end of a run.
    fn run_over(&mut self, cx: &mut Cx<'_>, chat_id: ChannelId, run: &Run) {
        self.end_subagents(cx, chat_id, run.key());
        self.apply_waiting_choices(cx, chat_id);
        let Some((parent, key)) = run.parent else {
            return self.refresh_repository(cx, chat_id);
        };
        if run.detached {
            self.unlist_subagent(cx, parent, chat_id);
        } else if let Some(waiting) = self.run_mut(parent).filter(|waiting| waiting.key() == key) {
            // The watchdog's time of the parent's agent starts here, however long the subagent took.
            waiting.last_event_ms = cx.now.mono_ms;
        }
    }

    /// Cancels a running turn on the host's own account.
    pub(crate) fn cancel_run(&mut self, cx: &mut Cx<'_>, chat_id: ChannelId) {
        let Some(chat) = self.chats.get(&chat_id) else {
            return never!("the chat is in memory");
        };
        if let (Some(turn), Some(run)) = (&chat.model.head().active_turn, chat.run()) {
            let duration = elapsed(cx.now.mono_ms, run.started_ms);
            let action = ChatTurnCancelledAction {
                turn_id: turn.id.clone(),
                duration,
                meta: None,
            };
            self.commit(cx, chat_id, StateAction::ChatTurnCancelled(action), None);
        }
        self.stop_run(cx, chat_id);
    }

    pub(crate) fn agent_event(&mut self, cx: &mut Cx<'_>, chat_id: ChannelId, turn: TurnKey, event: AgentEvent) {
        if !self.is_running(chat_id, turn) {
            // A late event of a turn that has ended.
            return;
        }
        self.note_agent_activity(cx, chat_id);
        match event {
            AgentEvent::Text(content) => self.append(cx, chat_id, &content, false),
            AgentEvent::Reasoning(content) => self.append(cx, chat_id, &content, true),
            AgentEvent::EndPart => {
                if let Some(run) = self.run_mut(chat_id) {
                    run.open_part = None;
                }
            }
            AgentEvent::Usage(usage) => {
                let Some(turn_id) = self.active_turn_id(chat_id) else {
                    return never!("a run has an active turn");
                };
                let action = ChatUsageAction {
                    turn_id,
                    usage: usage_info(*usage),
                    meta: None,
                };
                self.commit(cx, chat_id, StateAction::ChatUsage(action), None);
            }
            AgentEvent::Activity(activity) => {
                let chat = self.chats.get(&chat_id);
                if chat.is_some_and(|chat| chat.model.head().activity != activity) {
                    let action = ChatActivityChangedAction { activity };
                    self.commit(cx, chat_id, StateAction::ChatActivityChanged(action), None);
                }
            }
            AgentEvent::Notice(text) => {
                let part = SystemNotificationResponsePart {
                    content: StringOrMarkdown::Plain(text),
                    meta: None,
                };
                self.add_whole_part(cx, chat_id, ResponsePart::SystemNotification(part));
            }
            AgentEvent::Resource {
                uri,
                content_type,
                size,
            } => {
                let part = ResourceResponsePart {
                    uri,
                    size_hint: size.and_then(|size| i64::try_from(size).ok()),
                    content_type,
                    nonce: None,
                };
                self.add_whole_part(cx, chat_id, ResponsePart::ContentRef(part));
            }
            AgentEvent::Title(title) => self.retitle(cx, chat_id, &title_in(&title), TitleSource::Agent),
            AgentEvent::Setting { id, value } => self.agent_sets(cx, chat_id, id, *value),
            AgentEvent::Tool { call, step } => self.tool_step(cx, chat_id, turn, call, *step),
            AgentEvent::Ask(questions) => self.ask(cx, chat_id, turn, *questions),
            AgentEvent::Withdraw(id) => self.withdraw_question(cx, chat_id, id),
            AgentEvent::TakeSteering => self.take_steering(cx, chat_id, turn),
            AgentEvent::Spawn(spawn) => self.spawn_subagent(cx, chat_id, turn, *spawn),
            AgentEvent::Remember(memory) => self.remember_for(chat_id, *memory),
            AgentEvent::TokenRefused { resource, token } => self.token_refused(cx, chat_id, &resource, &token),
            AgentEvent::Annotate(written) => self.annotate(cx, chat_id, *written),
            AgentEvent::Alive => {}
        }
    }

    pub(crate) fn turn_ended(&mut self, cx: &mut Cx<'_>, chat_id: ChannelId, turn: TurnKey, end: TurnEnd) {
        if !self.is_running(chat_id, turn) {
            // The turn was cancelled, or another one has replaced it.
            return;
        }
        self.clear_activity(cx, chat_id);
        let completed = matches!(end, TurnEnd::Complete);
        match end {
            TurnEnd::Complete => {
                self.end_run(cx, chat_id, |turn_id, duration| {
                    StateAction::ChatTurnComplete(ChatTurnCompleteAction {
                        turn_id,
                        duration,
                        meta: None,
                    })
                });
            }
            TurnEnd::Cancelled => {
                self.end_run(cx, chat_id, |turn_id, duration| {
                    StateAction::ChatTurnCancelled(ChatTurnCancelledAction {
                        turn_id,
                        duration,
                        meta: None,
                    })
                });
            }
            TurnEnd::Failed { failure, resumable } => self.fail_run(cx, chat_id, failure, resumable),
        }
        // E-63, PEND-06: nothing starts by itself after a cancel or an error.
        if completed {
            self.take_from_queue(cx, chat_id, true);
        }
    }

    /// Stores the memory that an agent gets when its chat is opened again.
    fn remember_for(&mut self, chat_id: ChannelId, memory: Value) {
        if let Some(chat) = self.chats.get_mut(&chat_id) {
            chat.memory = (!memory.is_null()).then(|| Arc::new(memory));
            self.mark_dirty(chat_id);
        }
    }

    /// Gives the agent the steering message, if there is one (PEND-04). Its text becomes a part of the turn before it
    /// stops waiting, so that it is never lost. If the turn has no room for the text, the turn ends and the message
    /// waits.
    fn take_steering(&mut self, cx: &mut Cx<'_>, chat_id: ChannelId, turn: TurnKey) {
        let steering = self
            .chats
            .get(&chat_id)
            .and_then(|chat| chat.model.head().steering_message.clone());
        let Some(message) = steering else {
            return self.reply(cx, chat_id, turn, Reply::Steering(None));
        };
        let words = words_of(&message.message);
        if !self.fits(cx, chat_id, words.len()) {
            return;
        }
        let part = ResponsePart::SystemNotification(steering_part(&words));
        if self.add_whole_part(cx, chat_id, part).is_none() {
            return;
        }
        let removed = ChatPendingMessageRemovedAction {
            kind: PendingMessageKind::Steering,
            id: message.id,
        };
        self.commit(cx, chat_id, StateAction::ChatPendingMessageRemoved(removed), None);
        self.reply(cx, chat_id, turn, Reply::Steering(Some(words)));
    }

    /// Sends an agent a reply it waits for, unless its run has ended. The agent's time to react starts here, however
    /// long the users took to answer.
    pub(crate) fn reply(&mut self, cx: &mut Cx<'_>, chat: ChannelId, turn: TurnKey, reply: Reply) {
        let Some(run) = self.run_mut(chat).filter(|run| run.key() == turn) else {
            // An earlier step of the same input ended the run.
            return;
        };
        run.last_event_ms = cx.now.mono_ms;
        cx.emit(AgentCommand::Reply {
            chat,
            turn,
            reply: Box::new(reply),
        });
    }

    /// Starts the next pending message when nothing runs: removed, then started, in that order (E-07). A steering
    /// message that its turn did not take is first, so that it is not lost.
    pub(crate) fn take_from_queue(&mut self, cx: &mut Cx<'_>, chat_id: ChannelId, with_steering: bool) {
        let Some(chat) = self.chats.get(&chat_id) else {
            return never!("the chat is in memory");
        };
        let head = chat.model.head();
        let ready = self
            .sessions
            .get(&chat.session)
            .is_some_and(|session| session.not_ready().is_none());
        if head.active_turn.is_some() || !ready || self.shutting_down {
            return;
        }
        let steering = head
            .steering_message
            .as_ref()
            .map(|next| (PendingMessageKind::Steering, next));
        let queued = head.queued_messages.iter().flatten().next();
        let next = match (with_steering, steering) {
            (true, Some(steering)) => Some(steering),
            // Messages left over from a cancelled or failed turn wait for a user (PEND-06).
            _ => queued.map(|next| (PendingMessageKind::Queued, next)),
        };
        let Some((kind, next)) = next.map(|(kind, next)| (kind, next.clone())) else {
            // No message waits.
            return;
        };
        // A fresh id that no client can have chosen for an earlier turn of this chat.
        let turn_id = (chat.model.turn_count()..)
            .map(|n| format!("queued-{}-{n}", next.id))
            .find(|id| !chat.model.knows_turn(id))
            .unwrap_or_default();
        let writer = self
            .chats
            .get_mut(&chat_id)
            .and_then(|chat| chat.writers.remove(&next.id));
        let removed = ChatPendingMessageRemovedAction {
            kind,
            id: next.id.clone(),
        };
        self.commit(cx, chat_id, StateAction::ChatPendingMessageRemoved(removed), None);
        // The reducers remove every message with the id that a turn names (E-07). If a message of the other kind has
        // the same id, the turn must not name it.
        let is_shared = self.chats.get(&chat_id).is_some_and(|chat| {
            let head = chat.model.head();
            let mut waiting = head.queued_messages.iter().flatten().chain(&head.steering_message);
            waiting.any(|message| message.id == next.id)
        });
        let text = next.message.text.clone();
        let started = ChatTurnStartedAction {
            turn_id,
            started_at: self.start_of_turn(cx, chat_id),
            message: next.message,
            queued_message_id: (!is_shared).then_some(next.id),
            meta: None,
        };
        self.commit(cx, chat_id, StateAction::ChatTurnStarted(started), None);
        self.title_from(cx, chat_id, &text);
        self.start_run(cx, chat_id, false, writer.as_ref());
    }

    /// The start time of a turn that the host starts now.
    pub(crate) fn start_of_turn(&self, cx: &Cx<'_>, chat_id: ChannelId) -> String {
        match self.session_of(chat_id) {
            Some(session) => session.next_start(cx.now),
            None => cx.now.rfc3339(),
        }
    }

    fn append(&mut self, cx: &mut Cx<'_>, chat_id: ChannelId, content: &str, reasoning: bool) {
        if !self.fits(cx, chat_id, content.len()) {
            return;
        }
        let Some(chat) = self.chats.get(&chat_id) else {
            return never!("the chat is in memory");
        };
        let open = chat.run().and_then(|run| run.open_part.as_ref());
        if open.is_none_or(|part| part.reasoning != reasoning) {
            self.open_part(cx, chat_id, reasoning);
        }
        self.commit_append(cx, chat_id, content);
    }

    /// Ends a run that exceeded a limit, with an error for users, and stops the agent.
    pub(crate) fn stop_failed(&mut self, cx: &mut Cx<'_>, chat_id: ChannelId, failure: Failure) {
        let Some((turn, held)) = self.run_mut(chat_id).map(|run| (run.key(), run.held)) else {
            return never!("the run is still there");
        };
        self.clear_activity(cx, chat_id);
        self.fail_run(cx, chat_id, failure, false);
        match held {
            Some(held) => self.note_missed_turn(chat_id, held),
            None => cx.emit(AgentCommand::CancelTurn { chat: chat_id, turn }),
        }
    }

    /// TURN-03: the part exists before its first text.
    fn open_part(&mut self, cx: &mut Cx<'_>, chat_id: ChannelId, reasoning: bool) -> Option<()> {
        let turn_id = self.active_turn_id(chat_id)?;
        let run = self.run_mut(chat_id)?;
        run.open_part = None;
        let id = format!("p{}", run.parts + 1);
        let (name, part) = if reasoning {
            (
                "chat/reasoning",
                ResponsePart::Reasoning(ReasoningResponsePart {
                    id: id.clone(),
                    content: String::new(),
                }),
            )
        } else {
            (
                "chat/delta",
                ResponsePart::Markdown(MarkdownResponsePart {
                    id: id.clone(),
                    content: String::new(),
                }),
            )
        };
        let head = AppendHead::new(&self.channels.get(chat_id)?.uri_json, name, &turn_id, &id);
        self.add_part(cx, chat_id, turn_id, part)?;
        let run = self.run_mut(chat_id)?;
        run.open_part = Some(OpenPart {
            index: run.parts - 1,
            reasoning,
            head,
        });
        Some(())
    }

    /// Adds a part that comes in one piece, after which text starts a new one.
    fn add_whole_part(&mut self, cx: &mut Cx<'_>, chat_id: ChannelId, part: ResponsePart) -> Option<()> {
        let turn_id = self.active_turn_id(chat_id)?;
        self.run_mut(chat_id)?.open_part = None;
        self.add_part(cx, chat_id, turn_id, part)
    }

    fn add_part(&mut self, cx: &mut Cx<'_>, chat_id: ChannelId, turn_id: String, part: ResponsePart) -> Option<()> {
        self.count_part(cx, chat_id)?;
        let action = ChatResponsePartAction {
            turn_id,
            part,
            meta: None,
        };
        self.commit(cx, chat_id, StateAction::ChatResponsePart(action), None);
        Some(())
    }

    /// Counts a part, or ends the turn when it has too many. Returns `None` if the turn ended.
    pub(crate) fn count_part(&mut self, cx: &mut Cx<'_>, chat_id: ChannelId) -> Option<()> {
        let most = self.config.max_parts_per_turn;
        let run = self.run_mut(chat_id)?;
        if run.parts >= most {
            let message = format!(
                "the agent produced more than {most} parts in one turn, so the host ended it; ask for something smaller"
            );
            self.stop_failed(cx, chat_id, Failure::new("tooManyParts", message));
            return None;
        }
        run.parts += 1;
        Some(())
    }

    /// Returns true if so many more bytes fit into the turn; otherwise ends the turn.
    pub(crate) fn fits(&mut self, cx: &mut Cx<'_>, chat_id: ChannelId, bytes: usize) -> bool {
        let used = self.chats.get(&chat_id).map_or(0, |chat| chat.model.turn_bytes());
        if used + bytes <= self.config.max_turn_bytes {
            return true;
        }
        let most = self.config.max_turn_bytes >> 20;
        let message = format!(
            "the agent wrote more than {most} MiB in one turn, so the host ended it; ask for something smaller"
        );
        self.stop_failed(cx, chat_id, Failure::new("tooMuchText", message));
        false
    }

    fn fail_run(&mut self, cx: &mut Cx<'_>, chat_id: ChannelId, failure: Failure, resumable: bool) {
        if let Some(chat) = self.chats.get_mut(&chat_id) {
            chat.can_resume = resumable;
        }
        let part = ErrorResponsePart {
            error: error_info(failure),
            resumable: resumable.then_some(true),
        };
        self.end_run(cx, chat_id, |turn_id, duration| {
            StateAction::ChatError(ChatErrorAction {
                turn_id,
                duration,
                part,
                meta: None,
            })
        });
    }

    /// Ends the active turn with one action that carries the measured duration (TURN-05).
    fn end_run(&mut self, cx: &mut Cx<'_>, chat_id: ChannelId, end: impl FnOnce(String, i64) -> StateAction) {
        let Some(chat) = self.chats.get_mut(&chat_id) else {
            return never!("the chat is in memory");
        };
        let run = chat.take_run();
        let (Some(turn), Some(run)) = (&chat.model.head().active_turn, run) else {
            return never!("a run that ends has an active turn");
        };
        let action = end(turn.id.clone(), elapsed(cx.now.mono_ms, run.started_ms));
        self.commit(cx, chat_id, action, None);
        self.run_over(cx, chat_id, &run);
    }

    pub(crate) fn clear_activity(&mut self, cx: &mut Cx<'_>, chat_id: ChannelId) {
        if self
            .chats
            .get(&chat_id)
            .is_some_and(|chat| chat.model.head().activity.is_some())
        {
            let action = StateAction::ChatActivityChanged(ChatActivityChangedAction { activity: None });
            self.commit(cx, chat_id, action, None);
        }
    }

    pub(crate) fn is_running(&self, chat_id: ChannelId, key: TurnKey) -> bool {
        self.chats
            .get(&chat_id)
            .and_then(|chat| chat.run())
            .is_some_and(|run| run.key() == key)
    }

    pub(crate) fn active_turn_id(&self, chat_id: ChannelId) -> Option<String> {
        self.chats
            .get(&chat_id)?
            .model
            .head()
            .active_turn
            .as_ref()
            .map(|turn| turn.id.clone())
    }

    pub(crate) fn run_mut(&mut self, chat_id: ChannelId) -> Option<&mut Run> {
        self.chats.get_mut(&chat_id)?.run_mut()
    }
}

fn usage_info(usage: Usage) -> UsageInfo {
    let mut meta: Map<String, Value> = of_agent(&usage.meta).collect();
    if !usage.rules.is_empty() {
        let rules: Vec<Value> = usage.rules.into_iter().map(applied_rule).collect();
        meta.insert(RULES.to_owned(), json!(rules));
    }
    UsageInfo {
        input_tokens: usage.input_tokens.map(Into::into),
        output_tokens: usage.output_tokens.map(Into::into),
        model: usage.model,
        cache_read_tokens: usage.cache_read_tokens.map(Into::into),
        meta: Some(meta).filter(|meta| !meta.is_empty()),
    }
}

/// A turn has no `_meta` of its own, so its rules are in that of its usage.
fn applied_rule(rule: AppliedRule) -> Value {
    let mut shown = json!({ "id": rule.id, "name": rule.name, "uri": rule.uri, "reason": rule.reason });
    if let (Some(shown), Some(file)) = (shown.as_object_mut(), rule.file) {
        shown.insert("file".to_owned(), json!(file));
    }
    shown
}
