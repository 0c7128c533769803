//! A session between turns: a task reads what its agent says, ends it after a while, and gives it back for a turn.

use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::agent::AgentContext;
use crate::session::Session;

/// A session that waits for its next turn. Dropped, its agent ends.
#[derive(Debug)]
pub(crate) struct IdleSession {
    take: oneshot::Sender<()>,
    task: JoinHandle<Option<Session>>,
}

impl IdleSession {
    /// Parks a session, which ends after an idle time.
    pub(crate) fn new(session: Session, shared: &Arc<AgentContext>) -> Self {
        Self::opening(async move { Some(session) }, shared)
    }

    /// Opens a session in the background and parks it.
    pub(crate) fn opening(
        opening: impl Future<Output = Option<Session>> + Send + 'static,
        shared: &Arc<AgentContext>,
    ) -> Self {
        let shared = Arc::clone(shared);
        let (take, mut taken) = oneshot::channel();
        let task = tokio::spawn(async move {
            let mut opening = std::pin::pin!(opening);
            let session = tokio::select! {
                session = &mut opening => session,
                signal = &mut taken => {
                    // The chat is gone, or a turn waits for the session.
                    signal.ok()?;
                    return opening.await;
                }
            };
            wait(session?, taken, &shared).await
        });
        Self { take, task }
    }

    /// Takes the session back; `None` if its agent has ended.
    pub(crate) async fn take(self) -> Option<Session> {
        let Self { take, task } = self;
        let _ = take.send(());
        task.await.ok().flatten()
    }
}

async fn wait(mut session: Session, mut taken: oneshot::Receiver<()>, shared: &AgentContext) -> Option<Session> {
    let idle_until = Instant::now() + shared.times.idle;
    let cancelled_until = Instant::now() + shared.times.cancel;
    let mut is_wanted = false;
    loop {
        let is_busy = session.unanswered.is_some();
        if is_wanted && !is_busy {
            return Some(session);
        }
        tokio::select! {
            signal = &mut taken, if !is_wanted => match signal {
                Ok(()) => is_wanted = true,
                Err(_) => break,
            },
            incoming = session.wire.next() => {
                let handled = match incoming {
                    Ok(incoming) => session.between(incoming).await,
                    Err(closed) => Err(closed),
                };
                // An agent that ended is started again with the next turn.
                handled.ok()?;
                // Commands come a moment after a session is open.
                shared.learn(&session.learned, &session.options);
            }
            call = Session::next_call(&mut session.tools) => call.refuse("no turn is running"),
            () = tokio::time::sleep_until(cancelled_until), if is_busy => break,
            () = tokio::time::sleep_until(idle_until), if !is_wanted => break,
        }
    }
    session.end().await;
    None
}
