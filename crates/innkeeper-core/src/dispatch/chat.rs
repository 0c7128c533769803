//! What a client may change in a chat.

use ahp_types::actions::{ChatTurnCancelledAction, ChatTurnResumeAction, StateAction};
use ahp_types::state::{PendingMessageKind, ResponsePart, TurnState};

use super::{Verdict, elapsed};
use crate::chat::chats::Chat;
use crate::core::{Cx, Host, json_bytes};
use crate::ids::ChannelId;
use crate::log::commit::Author;

impl Host {
    pub(super) fn judge_chat(&self, cx: &Cx<'_>, channel: ChannelId, action: StateAction, author: &Author) -> Verdict {
        let Some(chat) = self.chats.get(&channel) else {
            return Verdict::Reject("the chat is gone".to_owned());
        };
        let head = chat.model.head();
        let active = head.active_turn.as_ref();
        match action {
            StateAction::ChatTurnStarted(mut started) => {
                let check = self
                    .check_turn(cx, chat, &started)
                    .and_then(|()| self.pin_attachments(&mut started.message));
                self.correct_start(cx, chat, &mut started);
                Verdict::from_check(StateAction::ChatTurnStarted(started), check)
            }
            StateAction::ChatTurnCancelled(cancelled) => match (active, &chat.run) {
                (Some(turn), Some(run)) if turn.id == cancelled.turn_id => {
                    // TURN-05: durations are measured here; a client's may be anything.
                    let duration = elapsed(cx.now.mono_ms, run.started_ms);
                    Verdict::Accept(StateAction::ChatTurnCancelled(ChatTurnCancelledAction {
                        duration,
                        ..cancelled
                    }))
                }
                (Some(_), _) => Verdict::Reject("another turn is running, not this one".to_owned()),
                (None, _) => Verdict::Reject("no turn is running".to_owned()),
            },
            StateAction::ChatTurnResume(resume) => {
                let check = self.check_resume(chat, &resume);
                Verdict::from_check(StateAction::ChatTurnResume(resume), check)
            }
            StateAction::ChatPendingMessageSet(mut set) => {
                let queue = head.queued_messages.as_deref().unwrap_or_default();
                let is_new =
                    set.kind == PendingMessageKind::Queued && !queue.iter().any(|message| message.id == set.id);
                if is_new && queue.len() >= self.config.max_queued_messages {
                    return Verdict::Reject(format!(
                        "a chat queues at most {} messages",
                        self.config.max_queued_messages
                    ));
                }
                if json_bytes(&head.queued_messages) + json_bytes(&set.message) > self.config.max_queue_bytes {
                    return Verdict::Reject(format!(
                        "the messages that wait in a chat have at most {} bytes together",
                        self.config.max_queue_bytes
                    ));
                }
                let check = check_pending_id(&set.id)
                    .and_then(|()| self.check_message(chat, &set.message))
                    .and_then(|()| self.pin_attachments(&mut set.message));
                Verdict::from_check(StateAction::ChatPendingMessageSet(set), check)
            }
            StateAction::ChatPendingMessageRemoved(removed) => {
                let known = match removed.kind {
                    PendingMessageKind::Steering => head
                        .steering_message
                        .as_ref()
                        .is_some_and(|message| message.id == removed.id),
                    PendingMessageKind::Queued => head
                        .queued_messages
                        .iter()
                        .flatten()
                        .any(|message| message.id == removed.id),
                };
                if known {
                    Verdict::Accept(StateAction::ChatPendingMessageRemoved(removed))
                } else {
                    Verdict::Reject("no such pending message".to_owned())
                }
            }
            StateAction::ChatQueuedMessagesReordered(reordered) => Verdict::Accept(
                StateAction::ChatQueuedMessagesReordered(chat.model.complete_order(&reordered)),
            ),
            StateAction::ChatDraftChanged(changed) => {
                let draft = changed.draft.as_ref();
                let check = draft.map_or(Ok(()), |draft| self.check_draft(chat, draft));
                Verdict::from_check(StateAction::ChatDraftChanged(changed), check)
            }
            StateAction::ChatIsReadChanged(_) | StateAction::ChatIsArchivedChanged(_) => Verdict::Accept(action),
            StateAction::SessionTitleChanged(changed) => {
                let check = self.check_title(&changed.title);
                Verdict::from_check(StateAction::SessionTitleChanged(changed), check)
            }
            StateAction::ChatTruncated(truncated) => {
                let check = self.check_truncation(channel, &truncated);
                Verdict::from_check(StateAction::ChatTruncated(truncated), check)
            }
            StateAction::ChatToolCallConfirmed(_)
            | StateAction::ChatToolCallComplete(_)
            | StateAction::ChatToolCallResultConfirmed(_)
            | StateAction::ChatToolCallContentChanged(_) => self.judge_tool(chat, action, author),
            StateAction::ChatInputAnswerChanged(mut changed) => {
                let check = self.check_answer(channel, &mut changed);
                Verdict::from_check(StateAction::ChatInputAnswerChanged(changed), check)
            }
            StateAction::ChatInputCompleted(mut completed) => {
                let check = self.check_completion(channel, &mut completed);
                Verdict::from_check(StateAction::ChatInputCompleted(completed), check)
            }
            StateAction::ChatWorkingDirectorySet(_) | StateAction::ChatWorkingDirectoryRemoved(_) => {
                let check = self.check_directories(channel, &action);
                Verdict::from_check(action, check)
            }
            _ => Verdict::Reject("clients may not send this to a chat".to_owned()),
        }
    }

    fn check_resume(&self, chat: &Chat, resume: &ChatTurnResumeAction) -> Result<(), String> {
        if self.shutting_down {
            return Err("the host is shutting down".to_owned());
        }
        if chat.model.head().active_turn.is_some() {
            return Err("a turn is already running".to_owned());
        }
        // CHT-14: a subagent goes on when its agent says so.
        if chat.parent.is_some() {
            return Err("this chat belongs to a subagent, which only its agent can resume".to_owned());
        }
        let last = chat.model.last_turn();
        let failed = last.filter(|turn| turn.id == resume.turn_id && turn.state == TurnState::Error);
        let Some(turn) = failed else {
            return Err("only the latest turn can be resumed, and only after a resumable error".to_owned());
        };
        match turn.response_parts.last() {
            Some(ResponsePart::Error(error)) if error.resumable == Some(true) && chat.can_resume => Ok(()),
            Some(ResponsePart::Error(error)) if error.resumable == Some(true) => {
                Err("the agent that could go on with this turn was replaced since; send the message again".to_owned())
            }
            _ => Err("the turn's error cannot be resumed".to_owned()),
        }
    }
}

fn check_pending_id(id: &str) -> Result<(), String> {
    if id.is_empty() || id.len() > 256 {
        return Err("id has between 1 and 256 bytes".to_owned());
    }
    Ok(())
}
