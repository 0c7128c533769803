//! Changes of files: the trait that computes changesets, records the files around turns, and carries out operations.

pub(crate) mod effects;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use innkeeper_core::changesets::ChangesetInput;
pub use innkeeper_core::changesets::{
    ChangedFile, ChangedSide, ChangesetSource, ChangesetView, ComputedChangeset, CountedChanges, FileNote,
    OfferedOperation, OperationError, OperationOutcome, OperationRequest, OperationScope, OperationTarget,
    RecordedEdit,
};
use innkeeper_core::{ChannelId, Input};
use tokio::sync::{Notify, mpsc};

use crate::main_loop::Message;
use crate::services::customizations::Following;
use crate::services::resources::Content;

/// Computes the changes of sessions.
#[async_trait]
pub trait Changes: Send + Sync + 'static {
    /// Whether it computes any.
    fn serves(&self) -> bool {
        true
    }

    /// Computes a view, and again when its files change or `again` asks for it, until the returned value is dropped.
    fn follow(&self, view: ChangesetView, again: Arc<Notify>, sink: ChangesSink) -> Following;

    /// Records the files before or after a turn. The turn waits for it. After a turn it counts what differs since the
    /// session began; `None` if that is not known.
    async fn record(&self, moment: TurnMoment) -> Option<CountedChanges>;

    /// Counts what differs in some directories, as URIs, since a session began; `None` if that is not known.
    async fn count(&self, session: &str, directories: &[String]) -> Option<CountedChanges> {
        let _ = (session, directories);
        None
    }

    /// Carries out an operation on a view.
    ///
    /// # Errors
    ///
    /// Fails with the reason. Then no file has changed.
    async fn invoke(&self, view: ChangesetView, request: OperationRequest) -> Result<OperationOutcome, OperationError>;

    /// Describes the changes that a commit in a view would make, as text for an agent in at most `max_bytes`; `None` if that
    /// is not possible.
    async fn describe(&self, view: &ChangesetView, max_bytes: usize) -> Option<String> {
        let _ = (view, max_bytes);
        None
    }

    /// Reads a content that a computed view of a session refers to, of at most `max_bytes`; `None` if it does not
    /// refer to it.
    ///
    /// # Errors
    ///
    /// Fails with the reason, as a sentence for users.
    async fn read(&self, session: &str, name: &str, max_bytes: usize) -> Result<Option<Content>, String>;

    /// Makes a work tree of its own for a session, with a branch that is named after it, and returns the URI of the
    /// directory in it that corresponds to the session's directory.
    ///
    /// # Errors
    ///
    /// Fails with the reason, as a sentence for users.
    async fn isolate(&self, session: &str, directory: &str) -> Result<String, String>;

    /// Removes what was recorded for a session that is gone.
    async fn forget(&self, session: &str);
}

/// A moment at which the files of a session are recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnMoment {
    /// The URI of the session.
    pub session: Arc<str>,
    /// The directories of the session, as URIs.
    pub directories: Vec<String>,
    /// The id of the turn.
    pub turn: String,
    /// Whether it begins or has ended.
    pub phase: TurnPhase,
}

/// The side of a turn that a moment is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnPhase {
    /// The turn has not begun.
    Before,
    /// The turn has ended.
    After,
}

/// A host that computes no changes.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoChanges;

#[async_trait]
impl Changes for NoChanges {
    fn serves(&self) -> bool {
        false
    }

    fn follow(&self, _: ChangesetView, _: Arc<Notify>, _: ChangesSink) -> Following {
        Following::new(())
    }

    async fn record(&self, _: TurnMoment) -> Option<CountedChanges> {
        None
    }

    async fn invoke(&self, _: ChangesetView, _: OperationRequest) -> Result<OperationOutcome, OperationError> {
        Err(OperationError::Failed("this host computes no changes".to_owned()))
    }

    async fn read(&self, _: &str, _: &str, _: usize) -> Result<Option<Content>, String> {
        Ok(None)
    }

    async fn isolate(&self, _: &str, _: &str) -> Result<String, String> {
        Err("this host makes no work trees".to_owned())
    }

    async fn forget(&self, _: &str) {}
}

/// Takes the reports about one view.
#[derive(Clone)]
pub struct ChangesSink {
    channel: ChannelId,
    /// Weak, because the host owns the follower: it has to end when all other senders are dropped.
    inbox: mpsc::WeakSender<Message>,
}

impl ChangesSink {
    pub(crate) fn new(channel: ChannelId, inbox: mpsc::WeakSender<Message>) -> Self {
        Self { channel, inbox }
    }

    /// Reports that the view is computed again, and that this takes a while. Returns `false` if the host is gone.
    pub async fn computing(&self) -> bool {
        self.send(ChangesetInput::Computing { channel: self.channel }).await
    }

    /// Reports the changes, or why there are none, as a sentence for users. Waits while the host is busy. Returns
    /// `false` if the host is gone.
    pub async fn computed(&self, outcome: Result<ComputedChangeset, String>) -> bool {
        let (channel, outcome) = (self.channel, outcome.map(Box::new));
        self.send(ChangesetInput::Computed { channel, outcome }).await
    }

    async fn send(&self, input: ChangesetInput) -> bool {
        match self.inbox.upgrade() {
            Some(inbox) => inbox.send(Message::Core(Input::from(input))).await.is_ok(),
            None => false,
        }
    }
}

impl fmt::Debug for ChangesSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChangesSink")
            .field("channel", &self.channel)
            .finish_non_exhaustive()
    }
}
