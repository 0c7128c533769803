//! The agents of a running host, to be asked again how they describe themselves.

use std::sync::Weak;

use innkeeper_core::AgentProfile;
use tokio::sync::{Mutex, oneshot};

use super::{HostHandle, Message};
use crate::agent::Agent;

/// How often a host is told that is just starting anew.
const TRIES: usize = 3;

/// The agents in the order clients see them, each under the id it started with.
///
/// Weak, because an agent may hold a handle of its host.
pub(super) struct Catalogue {
    pub(super) agents: Vec<(String, Weak<dyn Agent>)>,
    /// One at a time, so that no older description replaces a newer one.
    pub(super) reading: Mutex<()>,
}

impl Catalogue {
    fn profiles(&self) -> Option<Vec<AgentProfile>> {
        let profile = |(provider, agent): &(String, Weak<dyn Agent>)| {
            let mut info = agent.upgrade()?.info();
            // Sessions name their agent by it, so it is not up for change.
            info.provider.clone_from(provider);
            Some(info.into_profile())
        };
        self.agents.iter().map(profile).collect()
    }
}

impl HostHandle {
    /// Asks every agent again how it is to be shown, and tells clients if anything changed
    /// (`root/agentsChanged`): models that a server has listed by now, or a key that is there.
    ///
    /// Sessions that exist go on as they are. Completes when the host has taken note, or has ended.
    pub async fn refresh_agents(&self) {
        let _one_at_a_time = self.catalogue.reading.lock().await;
        for _ in 0..TRIES {
            let Some(profiles) = self.catalogue.profiles() else {
                return; // The host is gone, and its agents with it.
            };
            let (done, noted) = oneshot::channel();
            let changed = Message::AgentsChanged { profiles, done };
            if self.inbox.send(changed).await.is_err() || noted.await.is_ok() {
                return;
            }
        }
    }
}
