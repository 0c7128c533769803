//! Customizations of sessions: the seam to the service that discovers them, and the view that agents get.
//!
//! An implementation of [`Customizations`] reports a [`CustomizationSet`], which has the entries for clients and the
//! view for agents. The core publishes the entries with the users' enablement decisions. Each turn gets the enabled
//! part of the view as [`TurnCustomizations`]. So clients see the customizations that agents use.

pub(crate) mod effects;
mod expand;
mod hook;
pub(crate) mod resource_access;
mod session_watch;
mod set;
mod turn;

use std::any::Any;
use std::fmt;
use std::sync::Arc;

pub(crate) use expand::words;
pub use hook::{HookCall, HookEvent, HookOutcome, Hooks, NoHooks};
pub use innkeeper_core::customization::{
    ClientPlugin, CustomizationSources, EnablementStore, OFF_AT_FIRST, PLUGIN_NAME, SHADOWED_BY, Shadows,
};
pub(crate) use session_watch::CustomizationsWatch;
pub use set::{
    About, CustomAgent, CustomizationSet, FileAccess, NoTexts, Original, PromptFile, Rule, SharedEntry, Skill, Texts,
};
pub use turn::{Callable, Called, Expanded, TurnCustomizations, by_name};

use ahp_types::state::Customization;
use async_trait::async_trait;
use innkeeper_core::ChannelId;
use tokio::sync::{mpsc, watch};

use crate::main_loop::Message;
use crate::main_loop::message::SessionMessage;
pub use crate::services::resources::client_files::{ClientEntry, ClientFiles};

/// The customizations of every session of a host. The receiver is told of changes.
pub type Common = watch::Receiver<Arc<Vec<Customization>>>;

/// Discovers the customizations of sessions.
#[async_trait]
pub trait Customizations: Send + Sync + 'static {
    /// Whether it discovers anything at all.
    fn serves(&self) -> bool {
        true
    }

    /// Follows a session until the returned guard is dropped: reports its customizations once they are known, and again
    /// after each change. Turns wait for the first report, and fail after about a minute without one; so an empty set
    /// has to be reported too. For a while they also wait for plugins that a report says are
    /// [awaited](CustomizationSet::awaited).
    fn follow(&self, sources: CustomizationSources, sink: CustomizationsSink) -> Following;

    /// The customizations of every session of this host, for `AgentInfo.customizations` (CUS-21): containers without
    /// their children, now and after each change.
    fn common(&self) -> Option<Common> {
        None
    }

    /// A client changed files at these URIs. Completes once every session got the resulting report: the client's next
    /// message may use the file that it has just saved.
    async fn changed(&self, uris: &[String]) {
        let _ = uris;
    }
}

/// A host without customizations.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoCustomizations;

impl Customizations for NoCustomizations {
    fn serves(&self) -> bool {
        false
    }

    fn follow(&self, _: CustomizationSources, _: CustomizationsSink) -> Following {
        Following::new(())
    }
}

/// Takes the reports about one session.
#[derive(Clone)]
pub struct CustomizationsSink {
    session: ChannelId,
    /// The number of the follow. Reports of an older follow of the session are ignored.
    number: u64,
    /// Weak, because the host owns the follower: it has to end when all other senders are dropped.
    inbox: mpsc::WeakSender<Message>,
}

impl CustomizationsSink {
    pub(crate) fn new(session: ChannelId, number: u64, inbox: mpsc::WeakSender<Message>) -> Self {
        Self { session, number, inbox }
    }

    /// Reads files that only clients can read.
    pub fn client_files(&self) -> ClientFiles {
        ClientFiles::new(self.inbox.clone())
    }

    /// Reports the customizations of the session. Waits while the host is busy. Returns `false` if the host is gone.
    ///
    /// A [preview](CustomizationSet::is_preview) is only shown, and only in a session that would show nothing
    /// otherwise (CUS-05).
    pub async fn report(&self, set: Arc<CustomizationSet>) -> bool {
        let report = SessionMessage::CustomizationsReported {
            session: self.session,
            number: self.number,
            set,
        };
        match self.inbox.upgrade() {
            Some(inbox) => inbox.send(report.into()).await.is_ok(),
            None => false,
        }
    }
}

impl fmt::Debug for CustomizationsSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CustomizationsSink")
            .field("session", &self.session)
            .finish_non_exhaustive()
    }
}

/// Follows a session until it is dropped.
pub struct Following(#[expect(dead_code, reason = "held to be dropped")] Box<dyn Any + Send>);

impl Following {
    /// Wraps the value whose drop ends the following.
    pub fn new(guard: impl Any + Send) -> Self {
        Self(Box::new(guard))
    }
}

impl fmt::Debug for Following {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Following")
    }
}
