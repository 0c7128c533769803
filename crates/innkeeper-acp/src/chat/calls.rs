//! The tool calls of a turn: each follows the view that the agent's patches add up to.

use std::collections::HashMap;

use futures_util::future::BoxFuture;
use innkeeper_host::agent::{Confirmation, Decision, Invocation, Offer, ToolCall, ToolDraft, ToolResult, Verdict};
use innkeeper_host::{AgentError, EventSink};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::client::terminals::Terminals;
use crate::from_agent::{Status, ToolPatch, ToolView};
use crate::to_agent;
use crate::tools::Offered;
use crate::tools::naming::own_tool;

/// The calls of a turn, by the agent's ids.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    calls: HashMap<String, Call>,
    /// The ids in the order in which the calls began.
    order: Vec<String>,
    /// The tools that the agent has from us, when the last call began.
    pub(crate) offered: Offered,
    /// The ids of the calls at the host.
    pub(crate) ids: Vec<String>,
    /// How often the agent has called each of our tools.
    own: HashMap<String, usize>,
}

#[derive(Debug, Default)]
struct Call {
    view: ToolView,
    stage: Stage,
    /// The content that clients see.
    shown: Vec<innkeeper_host::agent::ToolContent>,
    /// Whether it exists only because a terminal needs a call.
    is_synthetic: bool,
    /// Why a hook or a user did not let it run.
    refusal: Option<String>,
    /// The permission request about it, and the way to withdraw it.
    asked: Option<(Value, oneshot::Sender<()>)>,
}

/// The progress of a call at the host.
#[derive(Debug, Default)]
enum Stage {
    /// The input is being written.
    Draft(Box<ToolDraft>),
    /// Users, rules or hooks decide about it.
    Moving,
    /// It runs.
    Running(Box<ToolCall>),
    /// It is a call of one of our tools, which the host shows itself.
    Own(String),
    /// Nothing says yet what it is.
    #[default]
    Unnamed,
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
    /// The agent does not want to know any more.
    Withdrawn,
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
    /// Takes a patch of a call, and shows the call if it is new. A call that users are asked about is shown even if
    /// nothing says what it is.
    pub(crate) async fn patch(
        &mut self,
        events: &EventSink,
        patch: ToolPatch,
        is_asked: bool,
    ) -> Result<(), AgentError> {
        let id = patch.id.clone();
        if !self.calls.contains_key(&id) {
            self.order.push(id.clone());
        }
        let call = self.calls.entry(id).or_default();
        let title = call.view.title();
        call.view.apply(patch);
        if let Stage::Draft(draft) = &mut call.stage
            && call.view.title() != title
        {
            draft.announce(call.view.title()).await?;
        }
        if matches!(call.stage, Stage::Unnamed) {
            let is_named = call.view.given_title().is_some() || call.view.given_name().is_some();
            match own_tool(&call.view, &self.offered) {
                Some(tool) => call.stage = Stage::Own(tool),
                None if is_asked
                    || is_named
                    || call.view.status > Status::Pending
                    || self.offered.tools().is_empty() =>
                {
                    let draft = begin(events, &call.view).await?;
                    self.ids.push(draft.id().to_owned());
                    call.stage = Stage::Draft(Box::new(draft));
                }
                None => {}
            }
        }
        if let Stage::Own(tool) = &call.stage
            && call.view.status > Status::Running
        {
            call.stage = match self.own.get_mut(tool) {
                Some(count @ 1..) => {
                    *count -= 1;
                    Stage::Over
                }
                // The agent never called the tool, so there is nothing else to be seen of it.
                _ => Stage::Draft(Box::new(begin(events, &call.view).await?)),
            };
        }
        Ok(())
    }

    /// Returns whether the next patch of a call needs the tools of now.
    pub(crate) fn wants_offered(&self, id: &str) -> bool {
        let call = self.calls.get(id);
        call.is_none_or(|call| matches!(call.stage, Stage::Unnamed))
    }

    /// Notes that the agent has called one of our tools.
    pub(crate) fn note_own(&mut self, tool: &str) {
        *self.own.entry(tool.to_owned()).or_default() += 1;
    }

    /// Returns whether a call is one of our tools.
    pub(crate) fn is_own(&self, id: &str) -> bool {
        matches!(
            self.calls.get(id),
            Some(Call {
                stage: Stage::Own(_),
                ..
            })
        )
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
        let (withdraw, mut withdrawn) = oneshot::channel();
        call.asked = Some((request.clone(), withdraw));
        let asked = Some((request, options));
        let id = id.to_owned();
        let confirm: BoxFuture<'static, Result<Verdict, AgentError>> = match stage {
            Stage::Draft(draft) => Box::pin(draft.confirm(invocation, confirmation)),
            Stage::Running(running) => Box::pin(running.confirm(invocation, confirmation)),
            stage @ (Stage::Moving | Stage::Over | Stage::Own(_) | Stage::Unnamed) => {
                call.stage = stage;
                return None;
            }
        };
        Some(Box::pin(async move {
            let outcome = tokio::select! {
                verdict = confirm => verdict.map(|verdict| match verdict {
                    Verdict::Approved(call, decision) => Decided::Runs(Box::new(call), Some(decision)),
                    Verdict::Denied(decision) => Decided::Denied(decision),
                }),
                Ok(()) = &mut withdrawn => Ok(Decided::Withdrawn),
            };
            Moved {
                call: id,
                asked,
                outcome,
            }
        }))
    }

    /// Withdraws the permission request with an id. Returns whether there is one.
    pub(crate) fn withdraw(&mut self, request: &Value) -> bool {
        let mut calls = self.calls.values_mut();
        let asked = calls.find_map(|call| call.asked.take_if(|asked| asked.0 == *request));
        asked.is_some_and(|(_, withdraw)| withdraw.send(()).is_ok())
    }

    /// Takes a decision about a call.
    pub(crate) fn moved(&mut self, moved: Moved) -> Result<Consequence, AgentError> {
        let decided = moved.outcome?;
        let call = self.calls.get_mut(&moved.call);
        let name = call.as_ref().map(|call| call.view.title()).unwrap_or_default();
        let is_synthetic = call.as_ref().is_some_and(|call| call.is_synthetic);
        let (stage, decision, refusal) = match decided {
            Decided::Runs(call, decision) => (Stage::Running(call), decision, None),
            Decided::Denied(decision) => (Stage::Over, Some(decision), None),
            Decided::Refused(reason) => (Stage::Over, None, Some(reason)),
            Decided::Withdrawn => (Stage::Over, None, None),
        };
        if let Some(call) = call {
            call.stage = stage;
            call.refusal.clone_from(&refusal);
        }
        Ok(match (moved.asked, decision, refusal) {
            (Some((request, options)), Some(decision), _) => Consequence::Answer {
                request,
                outcome: to_agent::outcome(&options, &decision),
                is_denied: !decision.approved,
            },
            // The terminal that needs the call is refused instead.
            (_, _, Some(reason)) if !is_synthetic => Consequence::Stop(format!("{name}: {reason}")),
            _ => Consequence::Nothing,
        })
    }

    /// Returns the call that a new terminal belongs to: the last one that runs, and best one that runs commands.
    pub(crate) fn for_terminal(&mut self) -> Option<&mut ToolCall> {
        // Hooks judged one command of a call that a terminal got for itself.
        let running = |call: &&String| {
            matches!(
                self.calls.get(*call),
                Some(Call {
                    stage: Stage::Running(_),
                    is_synthetic: false,
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
        self.running(&id)
    }

    /// Returns a call if it runs.
    pub(crate) fn running(&mut self, id: &str) -> Option<&mut ToolCall> {
        match &mut self.calls.get_mut(id)?.stage {
            Stage::Running(call) => Some(call),
            Stage::Draft(_) | Stage::Moving | Stage::Own(_) | Stage::Unnamed | Stage::Over => None,
        }
    }

    /// Begins a call for a command whose agent has not announced one, and returns its id.
    pub(crate) async fn add_command(&mut self, events: &EventSink, shown: &str) -> Result<String, AgentError> {
        // No agent has an id with a space.
        let id = format!("command {}", self.order.len());
        let call = json!({
            "toolCallId": id, "name": "terminal", "title": shown, "kind": "execute", "status": "in_progress",
            "rawInput": { "command": shown },
        });
        if let Some(patch) = ToolPatch::read(&call) {
            self.patch(events, patch, true).await?;
        }
        if let Some(call) = self.calls.get_mut(&id) {
            call.is_synthetic = true;
        }
        Ok(id)
    }

    /// Shows a terminal as the content of a call.
    pub(crate) fn show_terminal(&mut self, id: &str, terminal: &str) {
        let content = json!([{ "type": "terminal", "terminalId": terminal }]);
        let patch = ToolPatch::read(&json!({ "toolCallId": id, "content": content }));
        if let (Some(call), Some(patch)) = (self.calls.get_mut(id), patch) {
            call.view.apply(patch);
        }
    }

    /// Returns why a call may not run, if it was refused.
    pub(crate) fn refusal(&self, id: &str) -> Option<&str> {
        self.calls.get(id)?.refusal.as_deref()
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
                Stage::Running(running) if call.is_synthetic => {
                    let content = terminals.content(call.view.terminals());
                    running.complete(call.view.result(content)).await?;
                }
                Stage::Running(running) => running.complete(left_open()).await?,
                Stage::Moving | Stage::Own(_) | Stage::Unnamed | Stage::Over => {}
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
