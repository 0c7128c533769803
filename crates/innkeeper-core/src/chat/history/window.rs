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
        self.window_within(channel, turns, self.most_bytes())
    }

    /// Makes several snapshots fit into one answer (NEG-10, REC-05). Each snapshot gets an equal share; an unused part
    /// of a share is not given to the others.
    pub(crate) fn fit_together(&mut self, conn: ConnId, windows: &mut [(ChannelId, Window)]) {
        let most = self.most_bytes();
        let wanted = windows.iter();
        let wanted: usize = wanted
            .map(|(channel, window)| self.estimated_bytes_of(*channel, *window))
            .sum();
        if wanted <= most {
            return;
        }
        let share = most / windows.len().max(1);
        for (channel, window) in windows {
            let (narrow, unloaded) = self.window_within(*channel, None, share);
            *window = narrow;
            if let Some(entry) = self.channels.get_mut(*channel)
                && let Some(subscription) = entry.subscription(conn)
            {
                let started = subscription.base.started;
                entry.set_base(conn, Base { started, unloaded });
            }
        }
    }

    fn window_within(&self, channel: ChannelId, turns: Option<usize>, most_bytes: usize) -> (Window, Option<Arc<str>>) {
        let Some(chat) = self.chats.get(&channel) else {
            return (Window::ALL, None);
        };
        let history = chat.model.history();
        let room = most_bytes.saturating_sub(chat.model.estimated_head_bytes());
        // The latest turn is always there, because resuming it takes it from the reader's turns
        // (CHT-15).
        let skipped = history.fitting(history.len(), turns.unwrap_or(usize::MAX), room);
        (Window { skipped }, newest_before(history, skipped))
    }

    fn most_bytes(&self) -> usize {
        match self.config.max_snapshot_bytes {
            0 => usize::MAX,
            most => most,
        }
    }
}
