//! The agents of a running host, to be asked again how they describe themselves.

use std::sync::{Arc, Weak};

use innkeeper_core::AgentProfile;
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::HostHandle;
use crate::agent::{Agent, AgentInfo};
use crate::main_loop::Message;
use crate::services::customizations::Common;

/// The number of attempts to reach a host whose core is restarting.
const TRIES: usize = 3;

/// The agents in the order clients see them, each under the id it started with.
///
/// Weak, because an agent may hold a handle of its host.
pub(super) struct Catalogue {
    pub(super) agents: Vec<(String, Weak<dyn Agent>)>,
    /// The customizations of every session, independent of its agent.
    pub(super) common: Option<Common>,
    /// One at a time, so that no older description replaces a newer one.
    pub(super) reading: Mutex<()>,
}

impl Catalogue {
    fn profiles(&self) -> Option<Vec<AgentProfile>> {
        let profile = |(provider, agent): &(String, Weak<dyn Agent>)| {
            let mut info = agent.upgrade()?.info();
            // Sessions name their agent by it, so it is not up for change.
            info.provider.clone_from(provider);
            Some(profile_of(info, self.common.as_ref()))
        };
        self.agents.iter().map(profile).collect()
    }

    /// Asks every agent again, and tells the host.
    async fn refresh(&self, inbox: &mpsc::WeakSender<Message>) {
        let _one_at_a_time = self.reading.lock().await;
        for _ in 0..TRIES {
            let (Some(profiles), Some(inbox)) = (self.profiles(), inbox.upgrade()) else {
                return; // The host is gone, and its agents with it.
            };
            let (done, noted) = oneshot::channel();
            let changed = Message::AgentsChanged { profiles, done };
            if inbox.send(changed).await.is_err() {
                return;
            }
            drop(inbox);
            if noted.await.is_ok() {
                return;
            }
        }
    }
}

/// How an agent is shown, with what every session of the host gets (CUS-21).
pub(super) fn profile_of(info: AgentInfo, common: Option<&Common>) -> AgentProfile {
    let mut profile = info.into_profile();
    let common = common.map(|common| common.borrow().as_ref().clone());
    profile.info.customizations = common.filter(|common| !common.is_empty());
    profile
}

/// Tells clients whenever what every session gets has changed, until the host ends.
pub(super) async fn keep_current(catalogue: Arc<Catalogue>, inbox: mpsc::WeakSender<Message>, stop: CancellationToken) {
    let Some(mut common) = catalogue.common.clone() else {
        // Nothing is common to all sessions.
        return;
    };
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            changed = common.changed() => match changed {
                Ok(()) => catalogue.refresh(&inbox).await,
                Err(_) => return,
            },
        }
    }
}

impl HostHandle {
    /// Asks every agent again how it is to be shown, and tells clients if anything changed
    /// (`root/agentsChanged`): models that a server has listed by now, or a key that is there.
    ///
    /// Existing sessions do not change. Completes when the host has applied it, or has ended.
    pub async fn refresh_agents(&self) {
        self.catalogue.refresh(&self.inbox.downgrade()).await;
    }
}
