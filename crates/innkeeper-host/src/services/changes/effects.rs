//! Performs the effects on changes: which views are followed, and the operations on them.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use innkeeper_core::changesets::{ChangesetInput, ChangesetView, OperationError};
use innkeeper_core::{ChangesCommand, ChannelId, Input, MessageWriter};
use tokio::sync::Notify;

use crate::agent::{Agent, TurnInput};
use crate::main_loop::Message;
use crate::main_loop::agents::Agents;
use crate::main_loop::handles::LoopHandles;
use crate::main_loop::requests::RequestTickets;
use crate::services::changes::{Changes, ChangesSink};
use crate::services::customizations::{Following, TurnCustomizations};

/// How long an agent may think about the message of a commit.
const SUGGESTION_TIME: Duration = Duration::from_secs(30);
/// Maximum bytes of the changes that it gets to see.
const MAX_DESCRIPTION: usize = 48 << 10;

/// The views that are followed.
pub(crate) struct FollowedChanges {
    changes: Arc<dyn Changes>,
    views: HashMap<ChannelId, FollowedView>,
}

struct FollowedView {
    view: ChangesetView,
    /// Asks for another computation.
    again: Arc<Notify>,
    _following: Following,
}

impl FollowedChanges {
    pub(crate) fn new(changes: Arc<dyn Changes>) -> Self {
        Self {
            changes,
            views: HashMap::new(),
        }
    }

    pub(crate) fn changes(&self) -> Arc<dyn Changes> {
        Arc::clone(&self.changes)
    }

    /// Ends every follow, because the core is replaced.
    pub(crate) fn clear(&mut self) {
        self.views.clear();
    }

    pub(crate) fn perform(
        &mut self,
        handles: &LoopHandles,
        requests: &mut RequestTickets,
        agents: &Agents,
        command: ChangesCommand,
    ) {
        match command {
            ChangesCommand::Follow { channel, view } => self.follow(handles, channel, *view),
            ChangesCommand::Unfollow { channel } => drop(self.views.remove(&channel)),
            ChangesCommand::Invoke {
                conn,
                id,
                channel,
                view,
                mut request,
                writer,
            } => {
                let Some(open) = requests.open(handles, conn, id) else {
                    // The host is going away.
                    return;
                };
                let (changes, inbox) = (self.changes(), handles.weak_inbox());
                let agent = writer.as_ref().and_then(|writer| agents.get(&writer.provider));
                handles.tasks().spawn(async move {
                    let operation = request.id.clone();
                    let (session, directories) = (Arc::clone(&view.session), view.directories.clone());
                    if let Some((writer, agent)) = writer.zip(agent) {
                        let suggesting = AssertUnwindSafe(suggested_message(&*changes, &view, &*agent, *writer));
                        if let Ok(Some(message)) = suggesting.catch_unwind().await {
                            request.values.insert("message".to_owned(), message.into());
                        }
                    }
                    // To its end, even if the client disconnects: an operation that is cut off in the middle leaves
                    // files that no user asked for.
                    let doing = AssertUnwindSafe(changes.invoke(*view, *request)).catch_unwind();
                    let outcome = doing.await.unwrap_or_else(|_| {
                        let problem = "the operation failed; the host's log says more".to_owned();
                        Err(OperationError::Failed(problem))
                    });
                    let done = |conn, id| {
                        Message::Core(Input::from(ChangesetInput::OperationDone {
                            conn,
                            id,
                            channel,
                            operation,
                            outcome,
                        }))
                    };
                    open.send(done).await;
                    if let Some(changes) = changes.count(&session, &directories).await
                        && let Some(inbox) = inbox.upgrade()
                    {
                        let counted = Input::from(ChangesetInput::Counted { session, changes });
                        let _ = inbox.send(Message::Core(counted)).await;
                    }
                });
            }
            ChangesCommand::Isolate {
                session,
                uri,
                directory,
            } => {
                let (changes, inbox) = (self.changes(), handles.weak_inbox());
                handles.tasks().spawn(async move {
                    let outcome = changes.isolate(&uri, &directory).await;
                    let input = Input::from(ChangesetInput::Isolated { session, outcome });
                    if let Some(inbox) = inbox.upgrade() {
                        let _ = inbox.send(Message::Core(input)).await;
                    }
                });
            }
        }
    }

    /// Removes what was recorded for a session that is gone for good.
    pub(crate) fn forget_session(&self, handles: &LoopHandles, session: Arc<str>) {
        let changes = self.changes();
        handles.tasks().spawn(async move { changes.forget(&session).await });
    }

    /// Follows a view. If the same is followed already, it is computed again.
    fn follow(&mut self, handles: &LoopHandles, channel: ChannelId, view: ChangesetView) {
        if let Some(followed) = self.views.get(&channel)
            && followed.view == view
        {
            followed.again.notify_one();
            return;
        }
        let again = Arc::new(Notify::new());
        let sink = ChangesSink::new(channel, handles.weak_inbox());
        let following = self.changes.follow(view.clone(), Arc::clone(&again), sink);
        let followed = FollowedView {
            view,
            again,
            _following: following,
        };
        self.views.insert(channel, followed);
    }
}

/// The message that the agent of a session suggests for a commit. Without one, the commit gets the session's title.
async fn suggested_message(
    changes: &dyn Changes,
    view: &ChangesetView,
    agent: &dyn Agent,
    writer: MessageWriter,
) -> Option<String> {
    let suggesting = async {
        let description = changes.describe(view, MAX_DESCRIPTION).await?;
        let turn = TurnInput::new(writer.start, TurnCustomizations::default());
        agent.commit_message(&turn, &description).await
    };
    let message = tokio::time::timeout(SUGGESTION_TIME, suggesting).await.ok()??;
    Some(message).filter(|message| !message.trim().is_empty())
}
