//! Replies to a run. A waiter registers first and asks then, so that no reply is missed; replies without a waiter are
//! dropped, so that none pile up.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use innkeeper_core::agent::{Answer, Decision, Secret, ToolReply, ToolResult};
use innkeeper_core::{Reply, TurnKey};
use innkeeper_std::sync::{Mutex, MutexGuard};
use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;

use crate::agent::{AgentError, Subagent};

/// Longest id and longest name of a tool call, which the core takes no longer.
pub(in crate::agent) const MAX_CALL_ID: usize = 1024;

/// The answers to one run.
#[derive(Debug)]
pub(crate) struct Mailbox {
    turn: TurnKey,
    state: Mutex<State>,
}

type SubagentSender = oneshot::Sender<Result<Subagent, String>>;

#[derive(Debug, Default)]
struct State {
    /// Numbers everything that a run starts or waits for.
    next: u64,
    /// Ids that calls of this run have or had.
    used: HashSet<String>,
    calls: HashMap<String, Arc<Slot>>,
    questions: HashMap<String, oneshot::Sender<Answer>>,
    /// In the order they asked, which is the order of the answers.
    steering: VecDeque<(u64, oneshot::Sender<Option<String>>)>,
    /// Steering messages that arrived when their waiter was gone, so that no message is lost.
    undelivered: VecDeque<String>,
    /// By call, in the order they asked.
    subagents: HashMap<String, VecDeque<(u64, SubagentSender)>>,
}

impl State {
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

/// Unread replies to one call; the newest of each kind.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    replies: Mutex<Replies>,
    changed: Notify,
}

#[derive(Debug, Default)]
pub(crate) struct Replies {
    pub(crate) started: Option<()>,
    pub(crate) decided: Option<Decision>,
    pub(crate) completed: Option<ToolResult>,
    pub(crate) reviewed: Option<bool>,
    /// A token, or `None` when the user cancelled the sign-in.
    pub(crate) signed_in: Option<Option<Secret>>,
}

impl Slot {
    fn put(&self, reply: ToolReply) {
        let mut replies = self.lock();
        match reply {
            ToolReply::Started => replies.started = Some(()),
            ToolReply::Decided(decision) => replies.decided = Some(decision),
            ToolReply::Completed(result) => replies.completed = Some(result),
            ToolReply::Reviewed { approved } => replies.reviewed = Some(approved),
            ToolReply::Authenticated { token } => replies.signed_in = Some(Some(token)),
            ToolReply::AuthRefused => replies.signed_in = Some(None),
        }
        drop(replies);
        self.changed.notify_one();
    }

    /// Waits for something to take, or for the end of the turn.
    pub(crate) async fn wait<T>(
        &self,
        cancelled: &CancellationToken,
        take: impl Fn(&mut Replies) -> Option<T>,
    ) -> Result<T, AgentError> {
        loop {
            if cancelled.is_cancelled() {
                return Err(AgentError::Cancelled);
            }
            if let Some(taken) = take(&mut self.lock()) {
                return Ok(taken);
            }
            // A change between looking and waiting has left its permit.
            tokio::select! {
                () = cancelled.cancelled() => {}
                () = self.changed.notified() => {}
            }
        }
    }

    pub(crate) fn forget_sign_in(&self) {
        self.lock().signed_in = None;
    }

    fn lock(&self) -> MutexGuard<'_, Replies> {
        self.replies.lock()
    }
}

impl Mailbox {
    pub(crate) fn new(turn: TurnKey) -> Self {
        Self {
            turn,
            state: Mutex::default(),
        }
    }

    /// The mailbox of a run whose turn already has calls: their ids are taken.
    pub(crate) fn resuming(turn: TurnKey, calls: &[String]) -> Self {
        let mailbox = Self::new(turn);
        mailbox.lock().used.extend(calls.iter().cloned());
        mailbox
    }

    /// An id that nothing else in the chat has: runs are numbered throughout the host.
    pub(crate) fn fresh_id(&self, kind: &str) -> String {
        format!("{kind}-{}-{}", self.turn.0, self.lock().number())
    }

    /// Registers a call. The core would silently drop one whose id is taken, and its agent would
    /// wait without end, so that is refused here (TOOL-21).
    pub(crate) fn add_call(&self, id: &str) -> Result<Arc<Slot>, AgentError> {
        if id.is_empty() || id.len() > MAX_CALL_ID {
            return Err(AgentError::failed(
                "badToolCallId",
                format!(
                    "the agent gave a tool call an id of {} bytes; 1 to {MAX_CALL_ID} are possible",
                    id.len()
                ),
            ));
        }
        let mut state = self.lock();
        if !state.used.insert(id.to_owned()) {
            return Err(AgentError::failed(
                "duplicateToolCallId",
                format!("the agent used the tool call id {id:?} twice in one turn; every call needs its own"),
            ));
        }
        let slot = Arc::new(Slot::default());
        state.calls.insert(id.to_owned(), Arc::clone(&slot));
        Ok(slot)
    }

    pub(crate) fn remove_call(&self, id: &str) {
        self.lock().calls.remove(id);
    }

    pub(crate) fn add_question(&self, id: &str) -> oneshot::Receiver<Answer> {
        let (sender, receiver) = oneshot::channel();
        self.lock().questions.insert(id.to_owned(), sender);
        receiver
    }

    pub(crate) fn remove_question(&self, id: &str) {
        self.lock().questions.remove(id);
    }

    /// A steering message that is here already, or a receiver for the next one.
    pub(crate) fn add_steering(&self) -> Result<String, (u64, oneshot::Receiver<Option<String>>)> {
        let mut state = self.lock();
        if let Some(text) = state.undelivered.pop_front() {
            return Ok(text);
        }
        let (sender, receiver) = oneshot::channel();
        let number = state.number();
        state.steering.push_back((number, sender));
        Err((number, receiver))
    }

    pub(crate) fn remove_steering(&self, number: u64) {
        self.lock().steering.retain(|(waiting, _)| *waiting != number);
    }

    /// Retains a steering message for the next caller.
    pub(crate) fn keep_steering(&self, text: String) {
        self.lock().undelivered.push_back(text);
    }

    /// Gives a steering message back that was taken and not used: it comes first again.
    pub(crate) fn return_steering(&self, text: String) {
        self.lock().undelivered.push_front(text);
    }

    pub(crate) fn add_subagent(&self, call: &str) -> (u64, oneshot::Receiver<Result<Subagent, String>>) {
        let (sender, receiver) = oneshot::channel();
        let mut state = self.lock();
        let number = state.number();
        let line = state.subagents.entry(call.to_owned()).or_default();
        line.push_back((number, sender));
        (number, receiver)
    }

    pub(crate) fn remove_subagent(&self, call: &str, number: u64) {
        let mut state = self.lock();
        if let Some(line) = state.subagents.get_mut(call) {
            line.retain(|(waiting, _)| *waiting != number);
            if line.is_empty() {
                state.subagents.remove(call);
            }
        }
    }

    /// Passes on what the core says.
    pub(crate) fn deliver(&self, reply: Reply) {
        match reply {
            Reply::Tool { call, reply } => {
                let slot = self.lock().calls.get(&call).cloned();
                if let Some(slot) = slot {
                    slot.put(reply);
                }
            }
            Reply::Answered { id, answer } => {
                let sender = self.lock().questions.remove(&id);
                if let Some(sender) = sender {
                    let _ = sender.send(answer);
                }
            }
            Reply::Steering(text) => {
                let sender = self.lock().steering.pop_front();
                let undelivered = match sender {
                    Some((_, sender)) => sender.send(text).err(),
                    None => Some(text),
                };
                if let Some(Some(text)) = undelivered {
                    self.keep_steering(text);
                }
            }
            Reply::NotSpawned { call, reason } => self.answer_subagent(&call, Err(reason)),
        }
    }

    /// Passes on a subagent. Without a waiter it is dropped, which ends it.
    pub(crate) fn deliver_subagent(&self, call: &str, subagent: Subagent) {
        self.answer_subagent(call, Ok(subagent));
    }

    fn answer_subagent(&self, call: &str, answer: Result<Subagent, String>) {
        let mut state = self.lock();
        let sender = state.subagents.get_mut(call).and_then(VecDeque::pop_front);
        if state.subagents.get(call).is_some_and(VecDeque::is_empty) {
            state.subagents.remove(call);
        }
        drop(state);
        if let Some((_, sender)) = sender {
            let _ = sender.send(answer);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}
