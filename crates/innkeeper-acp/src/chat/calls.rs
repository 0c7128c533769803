//! The tool calls of a turn: each follows the view that the agent's patches add up to.

use std::collections::HashMap;

use futures_util::future::BoxFuture;
use innkeeper_host::agent::{Confirmation, Decision, Invocation, Offer, ToolCall, ToolDraft, ToolResult, Verdict};
use innkeeper_host::{AgentError, EventSink};
use serde_json::Value;

use crate::client::terminals::Terminals;
use crate::from_agent::{Status, ToolPatch, ToolView};
use crate::to_agent;

/// The calls of a turn, by the agent's ids.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    calls: HashMap<String, Call>,
    /// The ids in the order in which the calls began.
    order: Vec<String>,
}

#[derive(Debug)]
struct Call {
    view: ToolView,
    stage: Stage,
    /// The content that clients see.
    shown: Vec<innkeeper_host::agent::ToolContent>,
}

/// The progress of a call at the host.
#[derive(Debug)]
enum Stage {
    /// The input is being written.
    Draft(Box<ToolDraft>),
    /// Users, rules or hooks decide about it.
    Moving,
    /// It runs.
    Running(Box<ToolCall>),
    /// It has ended.
    Over,
}

/// A call that hooks, rules or users decide about.
pub(crate) type Move = BoxFuture<'static, Moved>;

/// The decision about a call.
#[derive(Debug)]
pub(crate) struct Moved {
    /// The agent's id of the call.
    pub(crate) call: String,
    /// The permission request that waits for the decision: its id and its options.
    pub(crate) asked: Option<(Value, Value)>,
    outcome: Result<Decided, AgentError>,
}

#[derive(Debug)]
enum Decided {
    /// It may run.
    Runs(Box<ToolCall>, Option<Decision>),
    /// It may not, and is over.
    Denied(Decision),
    /// A hook refused it, and it is over.
    Refused(String),
}

/// The consequence of a decision for the agent.
#[derive(Debug)]
pub(crate) enum Consequence {
    /// The answer to a permission request.
    Answer {
        request: Value,
        outcome: Value,
        is_denied: bool,
    },
    /// The agent began the call without a question, and it may not run.
    Stop(String),
    /// Nothing.
    Nothing,
}

impl Calls {
    /// Takes a patch of a call, and shows the call if it is new.
    pub(crate) async fn patch(&mut self, events: &EventSink, patch: ToolPatch) -> Result<(), AgentError> {
        let id = patch.id.clone();
        match self.calls.get_mut(&id) {
            Some(call) => {
                let title = call.view.title();
                call.view.apply(patch);
                if let Stage::Draft(draft) = &mut call.stage
                    && call.view.title() != title
                {
                    draft.announce(call.view.title()).await?;
                }
            }
            None => {
                let mut view = ToolView::default();
                view.apply(patch);
                let draft = begin(events, &view).await?;
                let call = Call {
                    view,
                    stage: Stage::Draft(Box::new(draft)),
                    shown: Vec::new(),
                };
                self.calls.insert(id.clone(), call);
                self.order.push(id);
            }
        }
        Ok(())
    }

    /// Brings a call to the state that its agent reports. A call that the agent began is moved on.
    pub(crate) async fn follow(&mut self, id: &str, terminals: &Terminals) -> Result<Option<Move>, AgentError> {
        let Some(call) = self.calls.get_mut(id) else {
            return Ok(None);
        };
        let status = call.view.status;
        match std::mem::replace(&mut call.stage, Stage::Over) {
            Stage::Draft(draft) if status > Status::Pending => {
                call.stage = Stage::Moving;
                let invocation = invocation(&call.view);
                let id = id.to_owned();
                return Ok(Some(Box::pin(async move {
                    let outcome = match draft.run(invocation).await {
                        Ok(call) => Ok(Decided::Runs(Box::new(call), None)),
                        Err(error) => match error.denial() {
                            Some(reason) => Ok(Decided::Refused(reason.to_owned())),
                            None => Err(error),
                        },
                    };
                    Moved {
                        call: id,
                        asked: None,
                        outcome,
                    }
                })));
            }
            Stage::Running(running) if status > Status::Running => {
                let result = call.view.result(terminals.content(call.view.terminals()));
                running.complete(result).await?;
            }
            Stage::Running(mut running) => {
                let mut content = call.view.content();
                content.extend(terminals.content(call.view.terminals()));
                if content != call.shown {
                    running.content(content.clone()).await?;
                    call.shown = content;
                }
                call.stage = Stage::Running(running);
            }
            other => call.stage = other,
        }
        Ok(None)
    }

    /// Asks users about a call. `None` if the call is over, so that nothing can be asked.
    pub(crate) fn ask(&mut self, id: &str, request: Value, options: Value, title: Option<String>) -> Option<Move> {
        let call = self.calls.get_mut(id)?;
        let confirmation = Confirmation {
            title,
            edits: call.view.edits(),
            offer: Offer::Own(to_agent::confirm_options(&options)),
            ..Confirmation::default()
        };
        let invocation = invocation(&call.view);
        let stage = std::mem::replace(&mut call.stage, Stage::Moving);
        let asked = Some((request, options));
        let id = id.to_owned();
        let confirm: BoxFuture<'static, Result<Verdict, AgentError>> = match stage {
            Stage::Draft(draft) => Box::pin(draft.confirm(invocation, confirmation)),
            Stage::Running(running) => Box::pin(running.confirm(invocation, confirmation)),
            stage @ (Stage::Moving | Stage::Over) => {
                call.stage = stage;
                return None;
            }
        };
        Some(Box::pin(async move {
            let outcome = confirm.await.map(|verdict| match verdict {
                Verdict::Approved(call, decision) => Decided::Runs(Box::new(call), Some(decision)),
                Verdict::Denied(decision) => Decided::Denied(decision),
            });
            Moved {
                call: id,
                asked,
                outcome,
            }
        }))
    }

    /// Takes a decision about a call.
    pub(crate) fn moved(&mut self, moved: Moved) -> Result<Consequence, AgentError> {
        let decided = moved.outcome?;
        let call = self.calls.get_mut(&moved.call);
        let name = call.as_ref().map(|call| call.view.title()).unwrap_or_default();
        let (stage, decision, refusal) = match decided {
            Decided::Runs(call, decision) => (Stage::Running(call), decision, None),
            Decided::Denied(decision) => (Stage::Over, Some(decision), None),
            Decided::Refused(reason) => (Stage::Over, None, Some(reason)),
        };
        if let Some(call) = call {
            call.stage = stage;
        }
        Ok(match (moved.asked, decision, refusal) {
            (Some((request, options)), Some(decision), _) => Consequence::Answer {
                request,
                outcome: to_agent::outcome(&options, &decision),
                is_denied: !decision.approved,
            },
            (_, _, Some(reason)) => Consequence::Stop(format!("{name}: {reason}")),
            _ => Consequence::Nothing,
        })
    }

    /// Returns the call that a new terminal belongs to: the last one that runs, and best one that runs commands.
    pub(crate) fn for_terminal(&mut self) -> Option<&mut ToolCall> {
        let running = |call: &&String| {
            matches!(
                self.calls.get(*call),
                Some(Call {
                    stage: Stage::Running(_),
                    ..
                })
            )
        };
        let executes = |id: &&String| {
            self.calls
                .get(*id)
                .is_some_and(|call| call.view.kind.as_deref() == Some("execute"))
        };
        let mut candidates = self.order.iter().rev().filter(running);
        let last = candidates.clone().next();
        let id = candidates.find(executes).or(last)?.clone();
        match &mut self.calls.get_mut(&id)?.stage {
            Stage::Running(call) => Some(call),
            Stage::Draft(_) | Stage::Moving | Stage::Over => None,
        }
    }

    /// Returns the id of the last call that has not begun, because its agent did not say so.
    pub(crate) fn last_draft(&self) -> Option<String> {
        let is_draft = |id: &&String| {
            matches!(
                self.calls.get(*id),
                Some(Call {
                    stage: Stage::Draft(_),
                    ..
                })
            )
        };
        self.order.iter().rev().find(is_draft).cloned()
    }

    /// Marks a call as begun.
    pub(crate) fn begin(&mut self, id: &str) {
        if let Some(call) = self.calls.get_mut(id) {
            call.view.status = call.view.status.max(Status::Running);
        }
    }

    /// Returns whether this call is being decided about, so that a further question has to wait.
    pub(crate) fn is_deciding(&self, id: &str) -> bool {
        matches!(
            self.calls.get(id),
            Some(Call {
                stage: Stage::Moving,
                ..
            })
        )
    }

    /// Returns whether a call is being decided about.
    pub(crate) fn is_moving(&self) -> bool {
        self.calls.values().any(|call| matches!(call.stage, Stage::Moving))
    }

    /// Returns whether a call runs, so that the agent is at work even if it is silent.
    pub(crate) fn is_busy(&self) -> bool {
        self.calls
            .values()
            .any(|call| matches!(call.stage, Stage::Running(_) | Stage::Moving))
    }

    /// Returns whether the turn has had a call.
    pub(crate) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Ends the calls that the agent left open at the end of its turn.
    pub(crate) async fn close(&mut self, terminals: &Terminals) -> Result<(), AgentError> {
        for id in std::mem::take(&mut self.order) {
            let Some(call) = self.calls.remove(&id) else {
                continue;
            };
            let left_open = || {
                let why = "the agent ended its turn without a result of this call";
                ToolResult {
                    content: call
                        .view
                        .content()
                        .into_iter()
                        .chain(terminals.content(call.view.terminals()))
                        .collect(),
                    ..ToolResult::failed(call.view.title(), why)
                }
            };
            match call.stage {
                Stage::Draft(draft) => draft.complete(left_open()).await?,
                Stage::Running(running) => running.complete(left_open()).await?,
                Stage::Moving | Stage::Over => {}
            }
        }
        Ok(())
    }
}

async fn begin(events: &EventSink, view: &ToolView) -> Result<ToolDraft, AgentError> {
    let mut builder = events.tool(view.name()).display_name(view.title()).meta(view.meta());
    if let Some(kind) = view.presentation() {
        builder = builder.kind(kind);
    }
    let mut draft = builder.start().await?;
    draft.announce(view.title()).await?;
    Ok(draft)
}

fn invocation(view: &ToolView) -> Invocation {
    let invocation = Invocation::new(view.title());
    match view.input() {
        Some(input) => invocation.input(input),
        None => invocation,
    }
}
