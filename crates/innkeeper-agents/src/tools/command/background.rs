//! Commands that go on in the background, and `check_command`: waits for one, shows what it printed, or stops it.
//!
//! The model knows a command by an id that cannot be guessed, so that no chat reaches the commands of another. A command
//! is forgotten with its chat, or once the model has seen its end.

use std::collections::VecDeque;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use innkeeper_host::AgentError;
use innkeeper_host::agent::{Background, Invocation, ToolCall, ToolContent, ToolDraft, ToolKind, ToolResult};
use innkeeper_host::terminals::{AgentTerminal, CommandStep};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::Ending;
use super::output::CommandOutput;
use crate::model::api::ToolSpec;
use crate::tools::input::Input;
use crate::tools::outcome::{self, quoted};
use crate::tools::{HostTool, ToolAnswer, ToolEnv, ToolLimits};

/// Commands that have ended and whose end the model has not seen.
const MAX_ENDED: usize = 64;

/// The commands that the chats of an agent left in the background.
#[derive(Debug, Clone, Default)]
pub(in crate::tools) struct BackgroundCommands(Arc<Registry>);

#[derive(Debug, Default)]
struct Registry {
    /// Makes ids of numbers.
    ids: RandomState,
    commands: Mutex<Commands>,
}

#[derive(Debug, Default)]
struct Commands {
    latest: u64,
    /// From the oldest to the newest.
    known: VecDeque<(String, Arc<BackgroundCommand>)>,
}

/// A command in the background.
#[derive(Debug)]
struct BackgroundCommand {
    line: String,
    terminal: String,
    is_pty: bool,
    progress: Mutex<Progress>,
    /// Rings when it has ended.
    ended: Notify,
    /// Rings when it is to end.
    stopped: Notify,
}

#[derive(Debug)]
struct Progress {
    /// The output that the model has not seen yet.
    unseen: CommandOutput,
    ending: Option<Ending>,
}

impl BackgroundCommands {
    /// Follows a command in the background, and returns its id.
    pub(super) fn follow(
        &self,
        line: &str,
        mut terminal: AgentTerminal,
        background: Background,
        limits: &ToolLimits,
    ) -> String {
        let command = Arc::new(BackgroundCommand {
            line: line.to_owned(),
            terminal: terminal.uri().to_owned(),
            is_pty: terminal.is_pty(),
            progress: Mutex::new(Progress {
                unseen: CommandOutput::unkept(limits),
                ending: None,
            }),
            ended: Notify::new(),
            stopped: Notify::new(),
        });
        let id = self.add(Arc::clone(&command));
        let end = ForgetUnlessEnded {
            commands: self.clone(),
            id: id.clone(),
            command,
        };
        background.during(async move {
            let command = &end.command;
            let ending = loop {
                tokio::select! {
                    step = terminal.next() => match step {
                        Some(CommandStep::Output(text)) => command.progress().unseen.push(&text),
                        Some(CommandStep::Ended(end)) => break Ending::of(end.exit_code),
                        None => break Ending::Closed,
                    },
                    () = command.stopped.notified() => terminal.kill(),
                }
            };
            command.progress().ending = Some(ending);
            command.ended.notify_waiters();
        });
        id
    }

    fn add(&self, command: Arc<BackgroundCommand>) -> String {
        let mut commands = self.lock();
        commands.latest += 1;
        let id = format!("{:016x}", self.0.ids.hash_one(commands.latest));
        commands.known.push_back((id.clone(), command));
        let has_ended = |(_, command): &(String, Arc<BackgroundCommand>)| command.progress().ending.is_some();
        if commands.known.iter().filter(|known| has_ended(known)).count() > MAX_ENDED
            && let Some(oldest) = commands.known.iter().position(has_ended)
        {
            commands.known.remove(oldest);
        }
        id
    }

    fn find(&self, id: &str) -> Option<Arc<BackgroundCommand>> {
        let commands = self.lock();
        let found = commands.known.iter().find(|(known, _)| known == id);
        found.map(|(_, command)| Arc::clone(command))
    }

    fn forget(&self, id: &str) {
        self.lock().known.retain(|(known, _)| known != id);
    }

    fn lock(&self) -> MutexGuard<'_, Commands> {
        self.0.commands.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BackgroundCommand {
    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the end, at most for a time.
    async fn wait(&self, time: Duration, call: &mut ToolCall, limits: &ToolLimits) -> Result<(), AgentError> {
        let over_at = Instant::now() + time;
        loop {
            let ended = self.ended.notified();
            tokio::pin!(ended);
            ended.as_mut().enable();
            if self.progress().ending.is_some() {
                return Ok(());
            }
            let alive_at = Instant::now() + limits.alive_pace;
            tokio::select! {
                () = ended => {}
                () = sleep_until(over_at) => return Ok(()),
                // A silent wait must not trip the watchdog.
                () = sleep_until(alive_at) => call.alive().await?,
            }
        }
    }

    /// Takes the output that the model has not seen yet.
    fn take(&self, limits: &ToolLimits) -> (String, Option<Ending>) {
        let mut progress = self.progress();
        let mut unseen = std::mem::replace(&mut progress.unseen, CommandOutput::unkept(limits));
        (unseen.flushed().excerpt(), progress.ending.clone())
    }

    fn content(&self, ending: Option<&Ending>) -> ToolContent {
        ToolContent::Terminal {
            uri: self.terminal.clone(),
            title: self.line.clone(),
            is_pty: self.is_pty,
            exit_code: ending.and_then(Ending::exit_code),
            preview: None,
        }
    }
}

/// Forgets a command whose work is dropped, because its chat is gone.
struct ForgetUnlessEnded {
    commands: BackgroundCommands,
    id: String,
    command: Arc<BackgroundCommand>,
}

impl Drop for ForgetUnlessEnded {
    fn drop(&mut self) {
        if self.command.progress().ending.is_none() {
            self.commands.forget(&self.id);
        }
    }
}

/// The tool `check_command`.
#[derive(Debug)]
pub(in crate::tools) struct CheckCommand {
    pub(in crate::tools) limits: ToolLimits,
    pub(in crate::tools) commands: BackgroundCommands,
}

/// A parsed input.
#[derive(Debug)]
struct Request {
    id: String,
    wait: Duration,
    stop: bool,
}

impl Request {
    fn parse(input: &Value, limits: &ToolLimits) -> Result<Self, String> {
        let input = Input::of(input)?;
        let limit = limits.command_time_max.as_secs();
        let wait = input.number("wait_seconds", 0, limit)?;
        Ok(Self {
            id: input.non_empty_text("id", "the id of the command")?.trim().to_owned(),
            wait: Duration::from_secs(wait.unwrap_or(0)),
            stop: input.flag("stop")?,
        })
    }
}

#[async_trait]
impl HostTool for CheckCommand {
    fn spec(&self) -> ToolSpec {
        let limit = self.limits.command_time_max.as_secs();
        ToolSpec {
            name: "check_command".to_owned(),
            description: "Shows what a command in the background has printed since you last looked, and whether it \
                          still runs. With `wait_seconds` it waits for the end of the command, with `stop` it ends \
                          the command with all that it started. `run_command` gives the id."
                .to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "id": { "type": "string", "description": "The id of the command." },
                    "wait_seconds": { "type": "integer", "minimum": 0, "maximum": limit, "description": "How long to wait for its end." },
                    "stop": { "type": "boolean", "description": "End it." },
                },
                "required": ["id"],
            }),
        }
    }

    fn title(&self) -> &str {
        "Check a command"
    }

    fn is_parallel_safe(&self) -> bool {
        true
    }

    fn kind(&self) -> Option<ToolKind> {
        Some(ToolKind::Terminal)
    }

    async fn run(&self, draft: ToolDraft, input: Value, _: &ToolEnv) -> Result<ToolAnswer, AgentError> {
        const ATTEMPT: &str = "Did not check a command";
        let limits = &self.limits;
        let request = match Request::parse(&input, limits) {
            Ok(request) => request,
            Err(problem) => return outcome::reject(draft, ATTEMPT, problem).await,
        };
        let Some(command) = self.commands.find(&request.id) else {
            let problem = format!(
                "no command {} goes on in the background: it has ended, and its end was shown, or the host was \
                 restarted",
                quoted(&request.id)
            );
            return outcome::reject(draft, ATTEMPT, problem).await;
        };
        let name = quoted(&command.line);
        let verb = if request.stop { "Stops" } else { "Checks" };
        let invocation = Invocation::new(format!("{verb} {name}")).input(input.to_string());
        let mut call = draft.run(invocation).await?;
        call.content(vec![command.content(None)]).await?;
        let wait = match request.stop {
            true => {
                command.stopped.notify_one();
                super::terminal::KILL_TIME
            }
            false => request.wait,
        };
        let cancelled = call.cancelled();
        tokio::select! {
            biased;
            () = cancelled => return Err(AgentError::Cancelled),
            waited = command.wait(wait, &mut call, limits) => waited?,
        }
        let (output, ending) = command.take(limits);
        let state = match &ending {
            Some(ending) => {
                self.commands.forget(&request.id);
                ending.describe()
            }
            None => "it still runs".to_owned(),
        };
        let content = vec![ToolContent::Text(output.clone()), command.content(ending.as_ref())];
        let summary = format!("Checked {name}: {state}");
        call.complete(ToolResult {
            content,
            ..ToolResult::text(summary, "")
        })
        .await?;
        let output = match output.as_str() {
            "" => "[no new output]",
            output => output,
        };
        Ok(ToolAnswer::ok(super::with_note(output, &state)))
    }
}
