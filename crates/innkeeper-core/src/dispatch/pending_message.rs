//! Clients queue messages, steer turns, and write drafts (PEND).

use std::collections::HashSet;

use ahp_types::actions::{
    ChatDraftChangedAction, ChatPendingMessageRemovedAction, ChatPendingMessageSetAction,
    ChatQueuedMessagesReorderedAction, StateAction,
};
use ahp_types::state::PendingMessageKind;

use super::{Dispatched, Verdict};
use crate::chat::chats::Chat;
use crate::core::{Cx, Host, json_bytes};
use crate::ids::ChannelId;
use crate::log::commit::Author;

/// Maximum bytes of all messages that wait in one chat: they are part of every snapshot of it.
const MAX_QUEUE_BYTES: usize = 16 << 20;

impl Host {
    pub(super) fn check_pending_message_set(
        &self,
        _cx: &Cx<'_>,
        by: &Dispatched,
        chat: &Chat,
        mut set: ChatPendingMessageSetAction,
    ) -> Verdict {
        self.add_choice(by.author.conn, chat, &mut set.message);
        let head = chat.model.head();
        let queue = head.queued_messages.as_deref().unwrap_or_default();
        let is_new = set.kind == PendingMessageKind::Queued && !queue.iter().any(|message| message.id == set.id);
        if is_new && queue.len() >= self.config.max_queued_messages {
            return Verdict::Reject(format!(
                "a chat queues at most {} messages",
                self.config.max_queued_messages
            ));
        }
        if json_bytes(&head.queued_messages) + json_bytes(&set.message) > MAX_QUEUE_BYTES {
            return Verdict::Reject(format!(
                "the messages that wait in a chat have at most {MAX_QUEUE_BYTES} bytes together"
            ));
        }
        let check = check_pending_id(&set.id)
            .and_then(|()| self.check_message(chat, &set.message))
            .and_then(|()| self.pin_attachments(&mut set.message));
        Verdict::from_check(StateAction::ChatPendingMessageSet(set), check)
    }

    pub(super) fn apply_pending_message_set(
        &mut self,
        cx: &mut Cx<'_>,
        by: &Dispatched,
        set: ChatPendingMessageSetAction,
    ) {
        let head = self.chats.get(&by.channel).map(|chat| chat.model.head());
        let is_steering = set.kind == PendingMessageKind::Steering;
        let is_edit = head.is_some_and(|head| match set.kind {
            PendingMessageKind::Queued => head.queued_messages.iter().flatten().any(|known| known.id == set.id),
            PendingMessageKind::Steering => head.steering_message.iter().any(|known| known.id == set.id),
        });
        self.note_writer(by.channel, &set.id, &by.author);
        self.commit_dispatched(cx, by, StateAction::ChatPendingMessageSet(set));
        // PEND-03: a new message starts when nothing runs, also one that was to steer a turn
        // that has just ended (PEND-04). Editing one that was left waiting, as after a
        // cancel, starts nothing (E-63).
        if !is_edit {
            self.take_from_queue(cx, by.channel, is_steering);
        }
    }

    pub(super) fn check_pending_message_removed(
        &self,
        _cx: &Cx<'_>,
        _by: &Dispatched,
        chat: &Chat,
        removed: ChatPendingMessageRemovedAction,
    ) -> Verdict {
        let head = chat.model.head();
        let mut waiting = match removed.kind {
            PendingMessageKind::Steering => head.steering_message.as_slice().iter(),
            PendingMessageKind::Queued => head.queued_messages.as_deref().unwrap_or_default().iter(),
        };
        match waiting.any(|message| message.id == removed.id) {
            true => Verdict::Accept(StateAction::ChatPendingMessageRemoved(removed)),
            false => Verdict::Reject("no such pending message".to_owned()),
        }
    }

    pub(super) fn check_queued_messages_reordered(
        &self,
        _cx: &Cx<'_>,
        _by: &Dispatched,
        chat: &Chat,
        reordered: ChatQueuedMessagesReorderedAction,
    ) -> Verdict {
        let reordered = chat.model.complete_order(&reordered);
        Verdict::Accept(StateAction::ChatQueuedMessagesReordered(reordered))
    }

    pub(super) fn check_draft_changed(
        &self,
        _cx: &Cx<'_>,
        _by: &Dispatched,
        chat: &Chat,
        changed: ChatDraftChangedAction,
    ) -> Verdict {
        let draft = changed.draft.as_ref();
        let check = draft.map_or(Ok(()), |draft| self.check_draft(chat, draft));
        Verdict::from_check(StateAction::ChatDraftChanged(changed), check)
    }

    /// Stores the writer of a pending message, and forgets the writers of messages that no longer wait.
    fn note_writer(&mut self, chat: ChannelId, id: &str, author: &Author) {
        if let Some(chat) = self.chats.get_mut(&chat) {
            let head = chat.model.head();
            let waiting: HashSet<&str> = head
                .queued_messages
                .iter()
                .flatten()
                .chain(&head.steering_message)
                .map(|message| message.id.as_str())
                .collect();
            chat.writers.retain(|known, _| waiting.contains(known.as_str()));
            chat.writers.insert(id.to_owned(), author.client.clone());
        }
    }
}

fn check_pending_id(id: &str) -> Result<(), String> {
    if id.is_empty() || id.len() > 256 {
        return Err("id has between 1 and 256 bytes".to_owned());
    }
    Ok(())
}
