//! One task per open chat: it owns the agent's side of the conversation.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use innkeeper_core::{ChannelId, Failure, Input, OpenSession, TurnEnd, TurnKey, TurnStart};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::agent::{Agent, AgentChat, AgentError, ChatContext, EventSink, TurnInput};
use crate::events::EventQueue;
use crate::host::Message;
use crate::limits::Limits;

/// The main loop's end of a chat's task.
#[derive(Debug)]
pub(crate) struct Driver {
    turns: mpsc::UnboundedSender<Turn>,
    /// Ends the task.
    closed: CancellationToken,
    /// The run in progress and how to stop it.
    running: Option<(TurnKey, CancellationToken)>,
    /// What the agent produces, and where it is held back.
    pub(crate) queue: Arc<EventQueue>,
}

#[derive(Debug)]
struct Turn {
    key: TurnKey,
    start: Box<TurnStart>,
    cancelled: CancellationToken,
}

impl Driver {
    /// Starts a chat's task. It opens the agent's chat, reports how that went, and waits for turns.
    pub(crate) fn spawn(
        agent: Arc<dyn Agent>,
        open: OpenSession,
        inbox: mpsc::Sender<Message>,
        limits: &Limits,
        tasks: &TaskTracker,
    ) -> Self {
        // Unbounded is bounded here: the core starts one turn at a time.
        let (turns, receiver) = mpsc::unbounded_channel();
        let closed = CancellationToken::new();
        let queue = Arc::new(EventQueue::new(open.chat));
        let task = Task {
            agent,
            context: ChatContext {
                session: open.session_uri,
                chat: open.chat_uri,
                working_directories: open.working_directories,
            },
            inbox,
            queue: Arc::clone(&queue),
            open_time: limits.open_session_time,
            cancel_time: limits.cancel_time,
        };
        let token = closed.clone();
        let session = open.session;
        tasks.spawn(async move {
            tokio::select! {
                () = token.cancelled() => {}
                () = task.run(session, receiver) => {}
            }
        });
        Self {
            turns,
            closed,
            running: None,
            queue,
        }
    }

    /// Hands a turn to the agent.
    pub(crate) fn start(&mut self, key: TurnKey, start: Box<TurnStart>) {
        let cancelled = CancellationToken::new();
        self.queue.begin(key);
        self.running = Some((key, cancelled.clone()));
        let _ = self.turns.send(Turn { key, start, cancelled });
    }

    /// Stops a turn whose end is already published.
    pub(crate) fn cancel(&mut self, key: TurnKey) {
        if let Some((_, cancelled)) = self.running.take_if(|(running, _)| *running == key) {
            cancelled.cancel();
            self.queue.cancel(key);
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.closed.cancel();
    }
}

struct Task {
    agent: Arc<dyn Agent>,
    context: ChatContext,
    inbox: mpsc::Sender<Message>,
    queue: Arc<EventQueue>,
    open_time: Duration,
    cancel_time: Duration,
}

impl Task {
    async fn run(self, session: ChannelId, mut turns: mpsc::UnboundedReceiver<Turn>) {
        let (mut chat, outcome) = match self.open().await {
            Ok(chat) => (Some(chat), Ok(())),
            Err(error) => (None, Err(error.into_failure())),
        };
        self.report(Input::SessionOpened { session, outcome }).await;
        while let Some(turn) = turns.recv().await {
            let key = turn.key;
            let end = self.run_turn(&mut chat, turn).await;
            if self.queue.end(key, end) {
                let _ = EventQueue::ring(&self.queue, &self.inbox).await;
            }
        }
    }

    async fn open(&self) -> Result<Box<dyn AgentChat>, AgentError> {
        let opening = AssertUnwindSafe(self.agent.open_chat(self.context.clone())).catch_unwind();
        match tokio::time::timeout(self.open_time, opening).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(AgentError::failed(
                "agentDied",
                "the agent failed while opening the chat; see the host's log",
            )),
            Err(_) => {
                let message = format!(
                    "the agent did not start within {} s; see the host's log",
                    self.open_time.as_secs()
                );
                Err(AgentError::failed("agentTimeout", message))
            }
        }
    }

    async fn run_turn(&self, chat: &mut Option<Box<dyn AgentChat>>, turn: Turn) -> TurnEnd {
        // An agent that died in an earlier turn gets a fresh start with the next one.
        let agent_chat = match chat {
            Some(chat) => chat,
            None => match self.open().await {
                Ok(opened) => chat.insert(opened),
                Err(error) => {
                    return TurnEnd::Failed {
                        failure: error.into_failure(),
                        resumable: false,
                    };
                }
            },
        };
        let events = EventSink {
            inbox: self.inbox.clone(),
            turn: turn.key,
            cancelled: turn.cancelled.clone(),
            queue: Arc::clone(&self.queue),
        };
        let input = TurnInput {
            turn_id: turn.start.turn_id,
            text: turn.start.text,
            model: turn.start.model,
            resume: turn.start.resume,
            turns_before: turn.start.turns_before,
            session: turn.start.session_uri,
            session_title: turn.start.session_title,
        };
        let run = AssertUnwindSafe(agent_chat.run_turn(input, events)).catch_unwind();
        let out_of_patience = async {
            turn.cancelled.cancelled().await;
            tokio::time::sleep(self.cancel_time).await;
        };
        let result = tokio::select! {
            result = run => result,
            () = out_of_patience => return TurnEnd::Cancelled,
        };
        match result {
            Ok(Ok(())) => TurnEnd::Complete,
            Ok(Err(AgentError::Cancelled)) => TurnEnd::Cancelled,
            Ok(Err(AgentError::Failed {
                kind,
                message,
                resumable,
            })) => TurnEnd::Failed {
                failure: Failure::new(kind, message),
                resumable,
            },
            Err(_) => {
                *chat = None;
                let message = "the agent failed in the middle of the turn; the next message starts it afresh";
                TurnEnd::Failed {
                    failure: Failure::new("agentDied", message),
                    resumable: false,
                }
            }
        }
    }

    async fn report(&self, input: Input) {
        let _ = self.inbox.send(Message::Core(input)).await;
    }
}
