//! Optimistic clients: what one dispatches it shows at once, on top of what the host has confirmed,
//! until the host's echo or refusal says how it went.

use std::collections::VecDeque;

use ahp_types::actions::StateAction;

use crate::sim::client::mirror::{Mirror, Mirrored};

/// Dispatched actions that are not settled, oldest first.
#[derive(Debug, Default)]
pub struct PendingActions {
    actions: VecDeque<(i64, String, StateAction)>,
}

impl PendingActions {
    /// Applies an action before the host has seen it.
    pub fn add(&mut self, client_seq: i64, channel: &str, action: StateAction) {
        self.actions.push_back((client_seq, channel.to_owned(), action));
    }

    /// The host settled an action. It handles one after the other (DSP-14), so whatever is older
    /// and has no outcome was met with silence and will have none.
    pub fn settle(&mut self, client_seq: i64) {
        while self.actions.front().is_some_and(|(oldest, _, _)| *oldest <= client_seq) {
            self.actions.pop_front();
        }
    }

    /// Takes back what the host may have ignored and what belongs to a channel that is gone.
    pub fn retain(&mut self, mut keep: impl FnMut(i64, &str) -> bool) {
        self.actions
            .retain(|(client_seq, channel, _)| keep(*client_seq, channel));
    }

    /// A channel as the user of the client sees it.
    pub fn view(&self, mirror: &Mirror, channel: &str) -> Option<Mirrored> {
        let mut view = mirror.channels.get(channel)?.clone();
        for (_, uri, action) in &self.actions {
            if uri == channel {
                view.apply(action);
            }
        }
        Some(view)
    }

    /// Whether everything is settled.
    pub fn is_empty(&self) -> bool {
        self.actions.is_empty()
    }
}
