//! Turns: what an agent does becomes actions, and what follows from their end.

use ahp_types::actions::{
    ChatActivityChangedAction, ChatErrorAction, ChatPendingMessageRemovedAction, ChatResponsePartAction,
    ChatTurnCancelledAction, ChatTurnCompleteAction, ChatTurnStartedAction, ChatUsageAction, SessionTitleChangedAction,
    StateAction,
};
use ahp_types::common::StringOrMarkdown;
use ahp_types::state::{
    ErrorResponsePart, MarkdownResponsePart, PendingMessageKind, ReasoningResponsePart, ResponsePart,
    SystemNotificationResponsePart, UsageInfo,
};

use crate::core::{Cx, HostCore};
use crate::dispatch::elapsed;
use crate::effect::Effect;
use crate::frame::AppendHead;
use crate::ids::{ChannelId, TurnKey};
use crate::input::{AgentEvent, Failure, TurnEnd, Usage};
use crate::lifecycle::error_info;
use crate::session::{OpenPart, Run};

/// Longest title taken from a message, in characters.
const TITLE_CHARS: usize = 60;

impl HostCore {
    /// Hands the active turn to the agent.
    pub(crate) fn start_run(&mut self, cx: &mut Cx<'_>, chat_id: ChannelId, resume: bool) {
        let key = TurnKey(self.next_turn);
        let Some(chat) = self.chats.get_mut(&chat_id) else {
            return;
        };
        let Some(session) = self.sessions.get(&chat.session) else {
            return;
        };
        let Some(start) = chat.turn_start(session, resume) else {
            return;
        };
        self.next_turn += 1;
        let parts = chat
            .model
            .head()
            .active_turn
            .as_ref()
            .map_or(0, |turn| turn.response_parts.len());
        chat.run = Some(Run {
            key,
            started_ms: cx.now.mono_ms,
            open_part: None,
            parts,
        });
        cx.effects.push(Effect::StartTurn {
            chat: chat_id,
            turn: key,
            start: Box::new(start),
        });
    }

    /// Stops the agent after the end of its turn was published.
    pub(crate) fn stop_run(&mut self, cx: &mut Cx<'_>, chat_id: ChannelId) {
        self.clear_activity(cx, chat_id);
        if let Some(run) = self.chats.get_mut(&chat_id).and_then(|chat| chat.run.take()) {
            cx.effects.push(Effect::CancelTurn {
                chat: chat_id,
                turn: run.key,
            });
        }
    }

    /// Cancels a running turn on the host's own account.
    pub(crate) fn cancel_run(&mut self, cx: &mut Cx<'_>, chat_id: ChannelId) {
        let Some(chat) = self.chats.get(&chat_id) else {
            return;
        };
        if let (Some(turn), Some(run)) = (&chat.model.head().active_turn, &chat.run) {
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
            return; // A late event of an ended or replaced turn.
        }
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
                    return;
                };
                let action = ChatUsageAction {
                    turn_id,
                    usage: usage_info(*usage),
                    meta: None,
                };
                self.commit(cx, chat_id, StateAction::ChatUsage(action), None);
            }
            AgentEvent::Activity(activity) => {
                let action = ChatActivityChangedAction { activity };
                self.commit(cx, chat_id, StateAction::ChatActivityChanged(action), None);
            }
            AgentEvent::Notice(text) => {
                let Some(turn_id) = self.active_turn_id(chat_id) else {
                    return;
                };
                let part = SystemNotificationResponsePart {
                    content: StringOrMarkdown::Plain(text),
                    meta: None,
                };
                if self
                    .add_part(cx, chat_id, turn_id, ResponsePart::SystemNotification(part))
                    .is_some()
                    && let Some(run) = self.run_mut(chat_id)
                {
                    run.open_part = None;
                }
            }
            AgentEvent::Title(title) => self.title_from(cx, chat_id, &title),
        }
    }

    pub(crate) fn turn_ended(&mut self, cx: &mut Cx<'_>, chat_id: ChannelId, turn: TurnKey, end: TurnEnd) {
        if !self.is_running(chat_id, turn) {
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
            self.take_from_queue(cx, chat_id);
        }
    }

    /// Starts the head of the queue when nothing runs: removed, then started, in that order (E-07).
    pub(crate) fn take_from_queue(&mut self, cx: &mut Cx<'_>, chat_id: ChannelId) {
        let Some(chat) = self.chats.get(&chat_id) else {
            return;
        };
        let head = chat.model.head();
        let ready = self
            .sessions
            .get(&chat.session)
            .is_some_and(|session| session.not_ready().is_none());
        if head.active_turn.is_some() || !ready || self.shutting_down {
            return;
        }
        let Some(next) = head.queued_messages.as_deref().and_then(<[_]>::first).cloned() else {
            return;
        };
        // A fresh id that no client can have chosen for an earlier turn of this chat.
        let turn_id = (0..)
            .map(|n| format!("queued-{}-{n}", next.id))
            .find(|id| !chat.model.knows_turn(id))
            .unwrap_or_default();
        let removed = ChatPendingMessageRemovedAction {
            kind: PendingMessageKind::Queued,
            id: next.id.clone(),
        };
        self.commit(cx, chat_id, StateAction::ChatPendingMessageRemoved(removed), None);
        let text = next.message.text.clone();
        let started = ChatTurnStartedAction {
            turn_id,
            started_at: cx.now.rfc3339(),
            message: next.message,
            queued_message_id: Some(next.id),
            meta: None,
        };
        self.commit(cx, chat_id, StateAction::ChatTurnStarted(started), None);
        self.title_from(cx, chat_id, &text);
        self.start_run(cx, chat_id, false);
    }

    /// Names a session after its first message, unless it has a name.
    pub(crate) fn title_from(&mut self, cx: &mut Cx<'_>, chat_id: ChannelId, text: &str) {
        let Some(session_id) = self.chats.get(&chat_id).map(|chat| chat.session) else {
            return;
        };
        let Some(session) = self.sessions.get_mut(&session_id).filter(|session| !session.titled) else {
            return;
        };
        let line = text
            .lines()
            .map(str::trim)
            .find(|line| !line.is_empty())
            .unwrap_or_default();
        if line.is_empty() {
            return;
        }
        let mut title: String = line.chars().take(TITLE_CHARS).collect();
        if title.len() < line.len() {
            title.push('…');
        }
        session.titled = true;
        let is_default = session.chats.first() == Some(&chat_id);
        self.commit(
            cx,
            session_id,
            StateAction::SessionTitleChanged(SessionTitleChangedAction { title: title.clone() }),
            None,
        );
        if is_default {
            if let Some(chat) = self.chats.get_mut(&chat_id) {
                chat.model.edit(|state| state.title = title);
            }
            self.sync_chat(cx, chat_id);
        }
    }

    fn append(&mut self, cx: &mut Cx<'_>, chat_id: ChannelId, content: &str, reasoning: bool) {
        let Some(chat) = self.chats.get(&chat_id) else {
            return;
        };
        if chat.model.turn_bytes() + content.len() > self.config.max_turn_bytes {
            let most = self.config.max_turn_bytes >> 20;
            let message = format!(
                "the agent wrote more than {most} MiB in one turn, so the host ended it; ask for something smaller"
            );
            return self.stop_failed(cx, chat_id, Failure::new("tooMuchText", message));
        }
        let open = chat.run.as_ref().and_then(|run| run.open_part.as_ref());
        if open.is_none_or(|part| part.reasoning != reasoning) {
            self.open_part(cx, chat_id, reasoning);
        }
        self.commit_append(cx, chat_id, content);
    }

    /// Ends a run that went too far: people are told, and the agent is stopped.
    fn stop_failed(&mut self, cx: &mut Cx<'_>, chat_id: ChannelId, failure: Failure) {
        let Some(key) = self.run_mut(chat_id).map(|run| run.key) else {
            return;
        };
        self.clear_activity(cx, chat_id);
        self.fail_run(cx, chat_id, failure, false);
        cx.effects.push(Effect::CancelTurn {
            chat: chat_id,
            turn: key,
        });
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

    /// Adds a part, or ends the turn when it has too many. Returns whether the turn goes on.
    fn add_part(&mut self, cx: &mut Cx<'_>, chat_id: ChannelId, turn_id: String, part: ResponsePart) -> Option<()> {
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
        self.commit(
            cx,
            chat_id,
            StateAction::ChatResponsePart(ChatResponsePartAction {
                turn_id,
                part,
                meta: None,
            }),
            None,
        );
        Some(())
    }

    fn fail_run(&mut self, cx: &mut Cx<'_>, chat_id: ChannelId, failure: Failure, resumable: bool) {
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
            return;
        };
        let (Some(turn), Some(run)) = (&chat.model.head().active_turn, chat.run.take()) else {
            return;
        };
        let action = end(turn.id.clone(), elapsed(cx.now.mono_ms, run.started_ms));
        self.commit(cx, chat_id, action, None);
    }

    fn clear_activity(&mut self, cx: &mut Cx<'_>, chat_id: ChannelId) {
        if self
            .chats
            .get(&chat_id)
            .is_some_and(|chat| chat.model.head().activity.is_some())
        {
            let action = StateAction::ChatActivityChanged(ChatActivityChangedAction { activity: None });
            self.commit(cx, chat_id, action, None);
        }
    }

    fn is_running(&self, chat_id: ChannelId, key: TurnKey) -> bool {
        self.chats
            .get(&chat_id)
            .and_then(|chat| chat.run.as_ref())
            .is_some_and(|run| run.key == key)
    }

    fn active_turn_id(&self, chat_id: ChannelId) -> Option<String> {
        self.chats
            .get(&chat_id)?
            .model
            .head()
            .active_turn
            .as_ref()
            .map(|turn| turn.id.clone())
    }

    fn run_mut(&mut self, chat_id: ChannelId) -> Option<&mut Run> {
        self.chats.get_mut(&chat_id)?.run.as_mut()
    }
}

fn usage_info(usage: Usage) -> UsageInfo {
    UsageInfo {
        input_tokens: usage.input_tokens.map(Into::into),
        output_tokens: usage.output_tokens.map(Into::into),
        model: usage.model,
        cache_read_tokens: usage.cache_read_tokens.map(Into::into),
        meta: None,
    }
}
