//! A session of a running agent: how it is opened or restored, and what happens to it between turns.

use std::path::PathBuf;
use std::time::Duration;

use innkeeper_host::AgentError;
use serde_json::{Map, Value, json};

use crate::agent::AgentContext;
use crate::from_agent::{self, Tokens, Update};
use crate::learned::{self, Learned, SessionOption};
use crate::process::Process;
use crate::to_agent;
use crate::tools::{Endpoint, Offered, ToolRequest};
use crate::wire::{Closed, Incoming, RpcError, Wire, code};

/// Quiet time after a restored session: some agents replay the history after they have answered.
const REPLAY_QUIET: Duration = Duration::from_millis(100);
/// Longest such replay.
const REPLAY_TIME: Duration = Duration::from_secs(5);

/// A session of a running agent.
#[derive(Debug)]
pub(crate) struct Session {
    process: Process,
    pub(crate) wire: Wire,
    /// The agent's id of it.
    pub(crate) id: String,
    /// The directories that it works in; the first is the main one.
    pub(crate) directories: Vec<PathBuf>,
    /// The facts that the agent told about itself.
    pub(crate) learned: Learned,
    /// The options with their values now.
    pub(crate) options: Vec<SessionOption>,
    /// A title that came between turns.
    pub(crate) title: Option<String>,
    /// Options that the agent changed, and that clients do not show yet.
    pub(crate) changed: Vec<ChangedOption>,
    /// Context window and cost, as last reported.
    pub(crate) context: Map<String, Value>,
    /// The token counts that the agent reported last.
    pub(crate) tokens: Tokens,
    /// A cancelled prompt that has no answer yet. The next prompt has to wait for it.
    pub(crate) unanswered: Option<i64>,
    /// The number of updates of a conversation that came outside of a prompt: the replay of a history.
    replayed: usize,
    /// The endpoint through which the agent reaches the session's tools.
    pub(crate) tools: Option<Endpoint>,
    /// The ways to sign in, as the agent reports them.
    sign_in: Vec<Value>,
    /// Updates of the turn that have no place in AHP.
    pub(crate) unmapped: Vec<Value>,
    /// Whether the agent has got a message, or has its conversation from before.
    pub(crate) is_used: bool,
}

/// An option that the agent changed by itself.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ChangedOption {
    pub(crate) id: String,
    /// The value before.
    pub(crate) old: Value,
    pub(crate) new: Value,
}

/// Why there is no session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OpenError {
    pub(crate) kind: &'static str,
    pub(crate) message: String,
}

impl From<OpenError> for AgentError {
    fn from(error: OpenError) -> Self {
        Self::resumable(error.kind, error.message)
    }
}

/// How much of the conversation the agent has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Restored {
    /// Everything.
    Whole,
    /// Nothing: it is a new session.
    Nothing,
}

/// A request that failed.
enum Failed {
    /// The agent refused it.
    Refused(RpcError),
    /// The agent is gone.
    Gone(Closed),
    /// No answer came in time.
    Silent,
}

impl Session {
    /// Starts the agent and opens a session, by restoring an earlier one if there is one.
    pub(crate) async fn open(
        shared: &AgentContext,
        directories: Vec<PathBuf>,
        earlier: Option<&str>,
        offered: Offered,
    ) -> Result<(Self, Restored), OpenError> {
        let mut session = Self::start(shared, directories, offered).await?;
        if let Some(earlier) = earlier {
            match session.restore(shared, earlier).await {
                Ok(true) => {
                    session.is_used = true;
                    shared.learn(&session.learned, &session.options);
                    return Ok((session, Restored::Whole));
                }
                Ok(false) => {}
                // It may still be busy with the request, so another process takes over.
                Err(problem) => {
                    tracing::warn!(agent = shared.id(), problem, "a session was not restored");
                    let directories = std::mem::take(&mut session.directories);
                    let offered = session.offered();
                    tokio::spawn(session.end());
                    session = Self::start(shared, directories, offered).await?;
                }
            }
        }
        let session = session.begin(shared).await?;
        Ok((session, Restored::Nothing))
    }

    /// Opens a new session in the process of this one.
    pub(crate) async fn begin(mut self, shared: &AgentContext) -> Result<Self, OpenError> {
        let params = self.params();
        let mut asked = self.ask("session/new", params.clone(), shared.times.start).await;
        if let Err(Failed::Refused(refused)) = &asked
            && refused.code == code::AUTH_REQUIRED
            && let Some(method) = self.usable_sign_in(shared)
        {
            let signed_in = self
                .ask("authenticate", json!({ "methodId": method }), shared.times.start)
                .await;
            if signed_in.is_ok() {
                asked = self.ask("session/new", params, shared.times.start).await;
            }
        }
        let answer = match asked {
            Ok(answer) => answer,
            Err(failed) => return Err(self.explain(shared, "session/new", failed).await),
        };
        let Some(id) = answer["sessionId"].as_str() else {
            let message = format!("{} opened no session: its answer has no `sessionId`", shared.name());
            return Err(OpenError {
                kind: "agentProtocol",
                message,
            });
        };
        self.id = id.to_owned();
        self.options = learned::options_of(&answer);
        self.changed.clear();
        learned::take_defaults(&mut self.options);
        shared.learn(&self.learned, &self.options);
        Ok(self)
    }

    /// Returns the way to sign in that needs no user: the one whose variables the agent has.
    fn usable_sign_in(&self, shared: &AgentContext) -> Option<String> {
        let environment = shared.command.environment();
        let has = |name: &Value| name.as_str().is_some_and(|name| environment.contains_key(name));
        let usable = |method: &&Value| match method["vars"].as_array() {
            Some(variables) if !variables.is_empty() => variables.iter().all(|variable| has(&variable["name"])),
            _ => has(&method["varName"]),
        };
        let method = self.sign_in.iter().find(usable)?;
        method["id"].as_str().map(str::to_owned)
    }

    /// Returns everything that the agent is offered.
    pub(crate) fn offered(&self) -> Offered {
        self.tools.as_ref().map(Endpoint::offered).unwrap_or_default()
    }

    /// Offers the agent other tools. Returns whether it knows them, or will.
    pub(crate) async fn offer(&self, offered: Offered) -> bool {
        match &self.tools {
            Some(endpoint) => endpoint.offer(offered).await,
            None => true,
        }
    }

    /// Returns the next call of the agent to a tool of the session.
    pub(crate) async fn next_call(tools: &mut Option<Endpoint>) -> ToolRequest {
        match tools {
            Some(endpoint) => endpoint.next().await,
            None => std::future::pending().await,
        }
    }

    /// Starts the process and agrees on the protocol.
    async fn start(shared: &AgentContext, directories: Vec<PathBuf>, offered: Offered) -> Result<Self, OpenError> {
        let directory = directories.first().cloned().unwrap_or_else(|| shared.directory.clone());
        let (process, wire) = Process::start(&shared.command, &directory).map_err(|problem| OpenError {
            kind: "agentNotStarted",
            message: format!("{} could not be started: {problem}", shared.name()),
        })?;
        let directories = match directories.is_empty() {
            true => vec![directory],
            false => directories,
        };
        let tools = match &shared.tools {
            Some(server) => {
                let opened = server.open(offered).await;
                let problem = |error: &std::io::Error| tracing::warn!(%error, "an agent gets no tools of its session");
                opened.inspect_err(problem).ok()
            }
            None => None,
        };
        let mut session = Self {
            process,
            wire,
            id: String::new(),
            directories,
            learned: Learned::default(),
            options: Vec::new(),
            title: None,
            changed: Vec::new(),
            context: Map::new(),
            tokens: Tokens::default(),
            unanswered: None,
            replayed: 0,
            tools,
            sign_in: Vec::new(),
            unmapped: Vec::new(),
            is_used: false,
        };
        let params = json!({
            "protocolVersion": 1,
            "clientCapabilities": {
                "fs": { "readTextFile": shared.serves_files, "writeTextFile": shared.serves_files },
                "terminal": shared.serves_terminals,
                "elicitation": { "form": {}, "url": {} },
            },
            "clientInfo": { "name": "innkeeper", "title": "Innkeeper", "version": env!("CARGO_PKG_VERSION") },
        });
        let answer = match session.ask("initialize", params, shared.times.start).await {
            Ok(answer) => answer,
            Err(failed) => return Err(session.explain(shared, "initialize", failed).await),
        };
        // Some agents send the version as text.
        let version = &answer["protocolVersion"];
        let version = version.as_u64().or_else(|| version.as_str()?.parse().ok());
        if version != Some(1) {
            let spoken = version.map_or_else(
                || "an unknown version".to_owned(),
                |version| format!("version {version}"),
            );
            return Err(OpenError {
                kind: "agentProtocol",
                message: format!("{} speaks {spoken} of ACP; this host speaks version 1", shared.name()),
            });
        }
        let told = Learned::of_initialize(&answer);
        session.sign_in = answer["authMethods"].as_array().cloned().unwrap_or_default();
        // Commands may have come already.
        let commands = std::mem::take(&mut session.learned.commands);
        session.learned = Learned { commands, ..told };
        Ok(session)
    }

    fn params(&self) -> Value {
        let mut directories = self.directories.iter();
        let first = directories.next();
        let takes_http = self.learned.abilities.mcp_http;
        let servers = self.tools.as_ref().and_then(|endpoint| endpoint.entry(takes_http));
        let servers: Vec<Value> = servers.into_iter().collect();
        let mut params = json!({ "cwd": first, "mcpServers": servers });
        let is_claude = self
            .learned
            .name
            .as_ref()
            .is_some_and(|name| name.to_lowercase().contains("claude"));
        if is_claude && self.tools.is_some() {
            // Claude finds the same files, and would start their servers a second time.
            let settings = json!({ "disabledMcpjsonServers": self.offered().customizations.server_names() });
            params["_meta"] = json!({ "claudeCode": { "options": { "settings": settings } } });
        }
        let further: Vec<&PathBuf> = directories.collect();
        if self.learned.abilities.directories && !further.is_empty() {
            params["additionalDirectories"] = json!(further);
        }
        params
    }

    /// Restores an earlier session. Returns whether the agent has it again.
    ///
    /// # Errors
    ///
    /// With the reason if the process cannot be used any more.
    async fn restore(&mut self, shared: &AgentContext, earlier: &str) -> Result<bool, String> {
        let abilities = self.learned.abilities;
        let mut params = self.params();
        params["sessionId"] = json!(earlier);
        // A session that is resumed replays nothing, so it is the better choice.
        let methods = [("session/resume", abilities.resume), ("session/load", abilities.load)];
        for (method, _) in methods.into_iter().filter(|(_, offered)| *offered) {
            match self.ask(method, params.clone(), shared.times.restore).await {
                Ok(answer) => {
                    earlier.clone_into(&mut self.id);
                    // Some agents answer with null: the options are those that they had.
                    let known = shared.learned().options;
                    self.options = match learned::options_of(&answer) {
                        options if options.is_empty() => known,
                        mut options => {
                            learned::keep_defaults(&mut options, &known);
                            options
                        }
                    };
                    if method == "session/load" {
                        self.read_until_quiet(REPLAY_QUIET).await?;
                        // Hermes, Nanocoder and OpenHands load any id: without a history it is not the session.
                        return Ok(self.replayed > 0);
                    }
                    return Ok(true);
                }
                Err(Failed::Refused(error)) => {
                    tracing::debug!(agent = shared.id(), method, problem = error.in_words(), "not restored");
                }
                Err(Failed::Gone(closed)) => return Err(closed.to_string()),
                Err(Failed::Silent) => return Err(format!("it did not answer `{method}` in time")),
            }
        }
        Ok(false)
    }

    /// Takes what an agent sends after it has answered, such as the history: clients have it already.
    pub(crate) async fn read_until_quiet(&mut self, quiet_time: Duration) -> Result<(), String> {
        let quiet = async {
            while let Ok(incoming) = tokio::time::timeout(quiet_time, self.wire.next()).await {
                self.between(incoming?).await?;
            }
            Ok::<(), Closed>(())
        };
        match tokio::time::timeout(REPLAY_TIME, quiet).await {
            Ok(outcome) => outcome.map_err(|closed| closed.to_string()),
            Err(_) => Ok(()),
        }
    }

    /// Sends a request outside of a prompt and waits for its answer.
    async fn ask(&mut self, method: &str, params: Value, timeout: Duration) -> Result<Value, Failed> {
        let asking = async {
            let asked = self.wire.request(method, params).await.map_err(Failed::Gone)?;
            loop {
                match self.wire.next().await.map_err(Failed::Gone)? {
                    Incoming::Answer { id, outcome } if id == asked => return outcome.map_err(Failed::Refused),
                    other => self.between(other).await.map_err(Failed::Gone)?,
                }
            }
        };
        tokio::time::timeout(timeout, asking)
            .await
            .unwrap_or(Err(Failed::Silent))
    }

    /// Sets an option. Returns the reason if the agent did not accept the value.
    pub(crate) async fn set_option(&mut self, index: usize, value: &Value, timeout: Duration) -> Result<(), String> {
        let Some(option) = self.options.get(index) else {
            return Ok(());
        };
        let id = option.id.clone();
        let (method, params) = learned::set_request(&self.id, option, value);
        match self.ask(method, params, timeout).await {
            Ok(answer) => {
                let options = learned::read_options(&answer["configOptions"]);
                if !options.is_empty() {
                    let changed = self.replace_options(options);
                    self.changed.extend(
                        changed
                            .into_iter()
                            .filter(|changed| changed.id != id || changed.new != *value),
                    );
                } else if let Some(option) = self.options.iter_mut().find(|option| option.id == id) {
                    option.value = value.clone();
                }
                Ok(())
            }
            Err(Failed::Refused(error)) => Err(error.in_words()),
            Err(Failed::Gone(closed)) => Err(closed.to_string()),
            Err(Failed::Silent) => Err("the agent did not answer".to_owned()),
        }
    }

    /// Takes the config options; modes and models that are no config options stay. Returns the settings whose values
    /// differ now.
    pub(crate) fn replace_options(&mut self, mut options: Vec<SessionOption>) -> Vec<ChangedOption> {
        learned::keep_defaults(&mut options, &self.options);
        let change = |option: &SessionOption| {
            let known = self.options.iter().find(|known| known.id == option.id);
            let old = known.map_or(Value::Null, |known| known.value.clone());
            let (id, new) = (option.id.clone(), option.value.clone());
            (!option.is_model && old != new).then_some(ChangedOption { id, old, new })
        };
        let changed = options.iter().filter_map(change).collect();
        let is_new = |known: &SessionOption| options.iter().any(|option| option.id == known.id);
        let mut kept: Vec<SessionOption> = self.options.drain(..).filter(|known| !is_new(known)).collect();
        kept.retain(|known| known.set_by != learned::SetBy::Option);
        self.options = options;
        self.options.extend(kept);
        changed
    }

    /// Notes a mode that the agent chose. Returns the option that has it, if that is another value than before.
    pub(crate) fn note_mode(&mut self, mode: &str) -> Option<ChangedOption> {
        let option = self.options.iter_mut().find(|option| option.id == "mode")?;
        let old = std::mem::replace(&mut option.value, json!(mode));
        let (id, new) = (option.id.clone(), option.value.clone());
        (old != new).then_some(ChangedOption { id, old, new })
    }

    /// Returns the value of the option that selects the model.
    pub(crate) fn model(&self) -> Option<String> {
        let option = self.options.iter().find(|option| option.is_model)?;
        option.value.as_str().map(str::to_owned)
    }

    /// Handles a message that comes outside of a prompt.
    pub(crate) async fn between(&mut self, incoming: Incoming) -> Result<(), Closed> {
        match incoming {
            Incoming::Notification { method, params } if method == "session/update" => {
                match from_agent::update(&params) {
                    Update::Commands(commands) => self.learned.commands = commands,
                    Update::Options(options) => {
                        let changed = self.replace_options(options);
                        self.changed.extend(changed);
                    }
                    Update::Mode(mode) => {
                        let changed = self.note_mode(&mode);
                        self.changed.extend(changed);
                    }
                    Update::Title(title) => self.title = Some(title),
                    Update::Context(context) => self.context = context,
                    Update::Unknown(_) | Update::Unmapped(_) => {}
                    // The host has the history, and what an agent says without a question has no turn.
                    _ => self.replayed += 1,
                }
                Ok(())
            }
            Incoming::Request { id, method, .. } => {
                let outcome = match method.as_str() {
                    "session/request_permission" => Ok(to_agent::cancelled()),
                    _ => Err(RpcError::new(code::METHOD_NOT_FOUND, "no turn is running")),
                };
                self.wire.answer(&id, outcome).await
            }
            Incoming::Answer { id, .. } => {
                self.unanswered.take_if(|unanswered| *unanswered == id);
                Ok(())
            }
            Incoming::Notification { .. } | Incoming::Broken(_) => Ok(()),
        }
    }

    async fn explain(mut self, shared: &AgentContext, method: &str, failed: Failed) -> OpenError {
        let name = shared.name();
        let error = |kind, message: String| OpenError { kind, message };
        match failed {
            Failed::Refused(refused) if refused.code == code::AUTH_REQUIRED => error(
                "agentSignIn",
                sign_in_message(shared, &self.learned, &refused.in_words()),
            ),
            Failed::Refused(refused) => {
                let message = format!(
                    "{name} refused `{method}`: {}{}",
                    refused.in_words(),
                    self.process.last_words()
                );
                error("agentNotStarted", message)
            }
            Failed::Gone(_) => {
                let how = self.process.describe_end().await;
                error("agentNotStarted", format!("{name} ended while it started: {how}"))
            }
            Failed::Silent => {
                let seconds = shared.times.start.as_secs();
                let words = self.process.last_words();
                let message = format!(
                    "{name} did not answer `{method}` within {seconds} s. It may wait for a sign-in: run `{}` in a \
                     terminal{words}",
                    shared.command.program.display()
                );
                error("agentNotStarted", message)
            }
        }
    }

    /// Describes the end of the process.
    pub(crate) async fn describe_end(&mut self) -> String {
        self.process.describe_end().await
    }

    /// Ends the agent.
    pub(crate) async fn end(self) {
        // Its input ends first, which tells an agent to exit.
        drop(self.wire);
        self.process.end().await;
    }
}

/// Returns the message for users of an agent that wants them to sign in.
pub(crate) fn sign_in_message(shared: &AgentContext, learned: &Learned, problem: &str) -> String {
    let mut message = format!("{} needs you to sign in ({problem}).", shared.name());
    if let Some(hint) = &shared.sign_in_hint {
        message.push_str(&format!(" {hint}."));
    }
    for (name, description) in &learned.sign_in {
        match description {
            Some(description) => message.push_str(&format!("\n- {name}: {description}")),
            None => message.push_str(&format!("\n- {name}")),
        }
    }
    message
}
