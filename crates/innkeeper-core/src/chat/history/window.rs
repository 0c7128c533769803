//! The part of a chat's history that a new subscription shows.
//!
//! A client that asks for the latest turns gets about as many (SUB-12). A client that asks for everything gets the
//! turns that fit into a message that the published client reads (trap 11), and a cursor for the rest.

use std::sync::Arc;

use super::page::newest_before;
use crate::clients::channels::Base;
use crate::core::Host;
use crate::ids::{ChannelId, ConnId};
use crate::protocol::snapshot::Window;

impl Host {
    /// The part of a channel that a new subscription shows, and the newest turn that it lacks.
    pub(crate) fn window(&self, channel: ChannelId, turns: Option<usize>) -> (Window, Option<Arc<str>>) {
        self.window_within(channel, turns, self.max_bytes())
    }

    /// Makes several snapshots fit into one answer (NEG-10, REC-05). Each snapshot gets an equal share; an unused part
    /// of a share is not given to the others.
    pub(crate) fn fit_together(&mut self, conn: ConnId, windows: &mut [(ChannelId, Window)]) {
        let most = self.max_bytes();
        let wanted = windows.iter();
        let wanted: usize = wanted
            .map(|(channel, window)| self.estimated_bytes_for(conn, *channel, *window))
            .sum();
        if wanted <= most {
            return;
        }
        let share = most / windows.len().max(1);
        for (channel, window) in windows {
            let with_turns = self.conns.shown_chat(conn, *channel);
            let (narrow, unloaded) = self.window_within(with_turns, None, share);
            *window = narrow;
            if let Some(entry) = self.channels.get_mut(with_turns)
                && let Some(subscription) = entry.subscription(conn)
            {
                let started = subscription.base.started;
                entry.set_base(conn, Base { started, unloaded });
            }
        }
    }

    fn window_within(&self, channel: ChannelId, turns: Option<usize>, max_bytes: usize) -> (Window, Option<Arc<str>>) {
        let Some(chat) = self.chats.get(&channel) else {
            return (Window::ALL, None);
        };
        let history = chat.model.history();
        let room = max_bytes.saturating_sub(chat.model.estimated_head_bytes());
        // The latest turn is always there, because resuming it takes it from the reader's turns
        // (CHT-15).
        let skipped = history.fitting(history.len(), turns.unwrap_or(usize::MAX), room);
        (Window { skipped }, newest_before(history, skipped))
    }

    fn max_bytes(&self) -> usize {
        match self.config.max_snapshot_bytes {
            0 => usize::MAX,
            most => most,
        }
    }
}
