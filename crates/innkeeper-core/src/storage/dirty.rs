//! The channels and clients to persist at the end of the present input.

use std::collections::BTreeSet;

use crate::ids::{ChannelId, ClientId};

/// The channels and clients to persist.
///
/// Invariant: a client whose persisted state is to be replaced is one of those to persist.
#[derive(Debug, Default)]
pub(super) struct DirtySet {
    channels: BTreeSet<ChannelId>,
    clients: BTreeSet<ClientId>,
    /// A timer will persist the clients.
    clients_due: bool,
    /// Clients that must not see a change before it is durable.
    replaced: BTreeSet<ClientId>,
}

impl DirtySet {
    pub(super) fn add(&mut self, channel: ChannelId) {
        self.channels.insert(channel);
    }

    /// Drops a channel that is gone.
    pub(super) fn forget(&mut self, channel: ChannelId) {
        self.channels.remove(&channel);
    }

    /// Takes the channels, in order.
    pub(super) fn take_channels(&mut self) -> BTreeSet<ChannelId> {
        std::mem::take(&mut self.channels)
    }

    pub(super) fn add_client(&mut self, client: &ClientId) {
        if !self.clients.contains(client) {
            self.clients.insert(client.clone());
        }
    }

    /// Adds a client whose persisted state contradicts the next message to it.
    pub(super) fn replace_client(&mut self, client: &ClientId) {
        self.add_client(client);
        self.replaced.insert(client.clone());
    }

    /// Returns true if a client must be persisted before the next message to it.
    pub(super) fn has_replaced(&self) -> bool {
        !self.replaced.is_empty()
    }

    /// Notes that a timer will persist the clients. Returns true if there are any and no timer is set.
    pub(super) fn schedule_clients(&mut self) -> bool {
        !self.clients.is_empty() && !std::mem::replace(&mut self.clients_due, true)
    }

    /// Takes the clients, each with whether its persisted state is to be replaced.
    pub(super) fn take_clients(&mut self) -> Vec<(ClientId, bool)> {
        self.clients_due = false;
        let replaced = std::mem::take(&mut self.replaced);
        let clients = std::mem::take(&mut self.clients).into_iter();
        clients
            .map(|client| {
                let is_replaced = replaced.contains(&client);
                (client, is_replaced)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_are_taken_once_and_without_those_that_are_gone() {
        let mut dirty = DirtySet::default();
        for id in [3, 1, 3, 2] {
            dirty.add(ChannelId(id));
        }
        dirty.forget(ChannelId(2));
        assert_eq!(dirty.take_channels(), BTreeSet::from([ChannelId(1), ChannelId(3)]));
        assert_eq!(dirty.take_channels(), BTreeSet::new());
    }

    #[test]
    fn a_replaced_client_is_persisted_and_said_to_be_replaced_once() {
        let mut dirty = DirtySet::default();
        let [one, two] = ["one", "two"].map(ClientId::new);
        dirty.add_client(&one);
        assert!(!dirty.has_replaced());
        dirty.replace_client(&two);
        assert!(dirty.has_replaced());
        assert_eq!(dirty.take_clients(), [(one.clone(), false), (two, true)]);
        assert!(!dirty.has_replaced());
        dirty.add_client(&one);
        assert_eq!(dirty.take_clients(), [(one, false)]);
    }

    #[test]
    fn clients_have_one_timer_until_they_are_persisted() {
        let mut dirty = DirtySet::default();
        assert!(!dirty.schedule_clients(), "there is nothing to persist");
        let client = ClientId::new("c");
        dirty.add_client(&client);
        assert!(dirty.schedule_clients());
        assert!(!dirty.schedule_clients());
        dirty.take_clients();
        dirty.add_client(&client);
        assert!(dirty.schedule_clients());
    }
}
