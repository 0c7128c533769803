//! What plugins, directories and clients bring to a session: the seam to whoever finds it, and what
//! agents get of it.
//!
//! Whoever implements [`Customizations`] reports what there is, in two forms at once: as clients see
//! it, and as a [`CustomizationSet`] that agents use. The core publishes the one, with what people decided about it;
//! each turn gets the other as [`TurnCustomizations`], in which only what is switched on is left. So what is
//! shown is what happens.

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
pub use set::{About, CustomAgent, CustomizationSet, Look, NoTexts, Original, PromptFile, Rule, Shown, Skill, Texts};
pub use turn::{Callable, Called, Expanded, TurnCustomizations, by_name};

use ahp_types::state::Customization;
use async_trait::async_trait;
use innkeeper_core::ChannelId;
use tokio::sync::{mpsc, watch};

use crate::main_loop::Message;
pub use crate::services::resources::client_files::{ClientEntry, ClientFiles};

/// What every session of a host gets, as it is now; it can be awaited that it changes.
pub type Common = watch::Receiver<Arc<Vec<Customization>>>;

/// Finds what sessions bring along.
#[async_trait]
pub trait Customizations: Send + Sync + 'static {
    /// Whether it finds anything at all.
    fn serves(&self) -> bool {
        true
    }

    /// Follows what a session brings along, until what it returns is dropped: reports it once it is
    /// known, and again whenever it has changed. Turns wait for the first report, and after about a minute
    /// fail without it; so whoever finds nothing reports that. For a while they also wait for what a report says is
    /// [awaited](CustomizationSet::awaited).
    fn follow(&self, wanted: CustomizationSources, found: FoundSink) -> Following;

    /// What every session of this host gets, for `AgentInfo.customizations` (CUS-21): containers,
    /// without their children, as they are now and whenever they change.
    fn common(&self) -> Option<Common> {
        None
    }

    /// A client changed something at these URIs. Completes once every session has been told what follows from that:
    /// the client's next message may use what it has just saved.
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

    fn follow(&self, _: CustomizationSources, _: FoundSink) -> Following {
        Following::new(())
    }
}

/// Where what was found is reported.
#[derive(Clone)]
pub struct FoundSink {
    session: ChannelId,
    /// Which of the follows of the session it is: what an older one still reports is of no interest.
    number: u64,
    /// Weak, because the host keeps whoever follows: it must end when everybody else let go of it.
    inbox: mpsc::WeakSender<Message>,
}

impl FoundSink {
    pub(crate) fn new(session: ChannelId, number: u64, inbox: mpsc::WeakSender<Message>) -> Self {
        Self { session, number, inbox }
    }

    /// A way to what only clients can read.
    pub fn client_files(&self) -> ClientFiles {
        ClientFiles::new(self.inbox.clone())
    }

    /// Reports the customizations of the session. Waits while the host is busy. Returns `false` if the host is gone.
    ///
    /// A [preview](CustomizationSet::is_preview) is only shown, and only in a session that would show nothing
    /// otherwise (CUS-05).
    pub async fn report(&self, set: Arc<CustomizationSet>) -> bool {
        let report = Message::CustomizationsReported {
            session: self.session,
            number: self.number,
            set,
        };
        match self.inbox.upgrade() {
            Some(inbox) => inbox.send(report).await.is_ok(),
            None => false,
        }
    }
}

impl fmt::Debug for FoundSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FoundSink")
            .field("session", &self.session)
            .finish_non_exhaustive()
    }
}

/// Keeps a session followed; dropped, it ends.
pub struct Following(#[expect(dead_code, reason = "held to be dropped")] Box<dyn Any + Send>);

impl Following {
    /// Keeps whatever has to be kept for it.
    pub fn new(guard: impl Any + Send) -> Self {
        Self(Box::new(guard))
    }
}

impl fmt::Debug for Following {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Following")
    }
}
