//! A chat with an agent: it opens a session when a turn needs one, and restores it after its process has ended.

pub(crate) mod calls;
mod context;
mod transcript;
mod turn;

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use innkeeper_host::{AgentChat, AgentError, ChatContext, EventSink, TurnInput};
use serde_json::{Map, Value, json};

use crate::agent::AgentContext;
use crate::idle::IdleSession;
use crate::session::{ChangedOption, Restored, Session};
use crate::tools::Offered;
use context::SessionContext;
use transcript::Transcript;
use turn::{TurnOutcome, TurnRun};

/// A chat with an agent.
#[derive(Debug)]
pub(crate) struct AcpChat {
    shared: Arc<AgentContext>,
    /// The chat's URI.
    chat: Arc<str>,
    /// The session that waits for the next turn.
    idle: Option<IdleSession>,
    /// The agent's id of the session that has the whole conversation.
    session: Option<String>,
    /// The same for a session whose last turn was interrupted: it counts if that turn is resumed.
    interrupted: Option<(String, String)>,
    /// The conversation, for an agent that lost it.
    transcript: Transcript,
    /// The text that the agent has to be told before its next message: the conversation if it lost it, and what a side
    /// chat is about. It stays until a prompt was sent with it.
    untold: Option<String>,
    /// The text that a side chat is about.
    about: Option<String>,
    /// The fingerprint of the rules, skills and custom agent that the agent has in its context.
    instructed: Option<u64>,
    /// The context that hooks added about the calls of the last turn.
    hook_context: Vec<String>,
    /// The id of the last turn that this chat ran.
    last_turn: Option<String>,
    /// The values of settings that the agent got last.
    applied: Map<String, Value>,
}

impl AcpChat {
    /// Opens a chat. A chat without a history starts its agent in the background: the first message will not have to
    /// wait, and clients learn the modes and commands of the session.
    pub(crate) fn open(shared: Arc<AgentContext>, cx: &ChatContext) -> Self {
        let mut chat = Self {
            chat: Arc::clone(&cx.chat),
            idle: None,
            session: earlier_session(cx),
            interrupted: interrupted_session(cx),
            transcript: Transcript::of(&cx.history, cx.omitted_turns),
            untold: None,
            about: about(cx),
            instructed: None,
            hook_context: Vec::new(),
            last_turn: None,
            applied: Map::new(),
            shared,
        };
        chat.untold.clone_from(&chat.about);
        if cx.history.is_empty() && cx.memory.is_none() {
            let shared = Arc::clone(&chat.shared);
            let directories = paths(&cx.working_directories);
            let offered = Offered {
                customizations: cx.customizations.clone(),
                directories: cx.working_directories.clone(),
                ..Offered::default()
            };
            let opening = async move {
                let opened = Session::open(&shared, directories, None, offered).await;
                // The first turn tries again, and tells the user.
                let (session, _) = opened
                    .inspect_err(|error| tracing::info!(agent = shared.id(), problem = error.message, "not started"))
                    .ok()?;
                Some(session)
            };
            chat.idle = Some(IdleSession::opening(opening, &chat.shared));
        }
        chat
    }

    /// Returns a session for a turn.
    async fn session(&mut self, turn: &TurnInput) -> Result<Session, AgentError> {
        let directories = paths(&turn.working_directories);
        if let Some(idle) = self.idle.take()
            && let Some(session) = idle.take().await
        {
            let is_same = directories.is_empty() || session.directories == directories;
            if is_same || !session.learned.abilities.directories {
                let abilities = session.learned.abilities;
                if session.offer(offered(turn)).await {
                    return Ok(session);
                }
                // The agent fetches tools when a session opens, and does not follow changes.
                if !session.is_used {
                    self.applied.clear();
                    self.instructed = None;
                    return Ok(session.begin(&self.shared).await?);
                }
                if !abilities.load && !abilities.resume {
                    return Ok(session);
                }
            }
            // Directories are fixed for a running session.
            tokio::spawn(session.end());
        }
        let earlier = self.session.as_deref();
        let (session, restored) = Session::open(&self.shared, directories, earlier, offered(turn)).await?;
        // A restored session has forgotten the values that were set.
        self.applied.clear();
        self.untold = match restored {
            Restored::Whole => None,
            Restored::Nothing => {
                self.instructed = None;
                self.told_again(turn)
            }
        };
        Ok(session)
    }

    /// Returns the conversation for an agent that lost it.
    fn told_again(&self, turn: &TurnInput) -> Option<String> {
        let mut told: Vec<String> = self.about.iter().cloned().collect();
        told.extend(self.transcript.in_words());
        if let Some(so_far) = turn
            .so_far
            .as_ref()
            .filter(|_| self.last_turn.as_ref() != Some(&turn.turn_id))
        {
            told.push(format!("Of the interrupted answer this was done:\n{}", so_far.reply));
        }
        (!told.is_empty()).then(|| told.join("\n\n"))
    }

    /// Brings a session up to date for a turn: shows what changed since the last one, and sets what users chose.
    async fn prepare(&mut self, session: &mut Session, turn: &TurnInput, events: &EventSink) -> Result<(), AgentError> {
        events.no_activity().await?;
        self.show_changes(session, turn, events).await?;
        if let Some(title) = session.title.take() {
            events.title(title).await?;
        }
        self.apply_settings(session, turn, events).await?;
        // One option may change another, such as the model its effort.
        self.show_changes(session, turn, events).await
    }

    /// Shows options that the agent changed by itself, unless a user changed them as well.
    async fn show_changes(
        &mut self,
        session: &mut Session,
        turn: &TurnInput,
        events: &EventSink,
    ) -> Result<(), AgentError> {
        for ChangedOption { id, old, new } in std::mem::take(&mut session.changed) {
            let chosen = turn.settings.get(&id);
            let before = self.applied.get(&id).unwrap_or(&old);
            if chosen.is_some_and(|chosen| *chosen == new || chosen != before) {
                continue;
            }
            if let Some(chosen) = chosen {
                // The value of before is not set again.
                self.applied.insert(id.clone(), chosen.clone());
            }
            events.setting(id, new).await?;
        }
        Ok(())
    }

    /// Gives the agent the settings that users changed, and the model of the message.
    async fn apply_settings(
        &mut self,
        session: &mut Session,
        turn: &TurnInput,
        events: &EventSink,
    ) -> Result<(), AgentError> {
        let mut wanted: Vec<(String, Value)> = Vec::new();
        for option in &session.options {
            let value = match option.is_model {
                true => turn.model.as_ref().map(|model| json!(model)),
                false => turn.settings.get(&option.id).cloned(),
            };
            // A value that the agent got before is not set again: it may have changed its mode since.
            if let Some(value) = value.filter(|value| self.applied.get(&option.id) != Some(value)) {
                wanted.push((option.id.clone(), value));
            }
        }
        for (id, value) in wanted {
            let Some(index) = session.options.iter().position(|option| option.id == id) else {
                continue;
            };
            let Some(option) = session.options.get(index).filter(|option| option.value != value) else {
                self.applied.insert(id, value);
                continue;
            };
            let (name, is_model) = (option.name.clone(), option.is_model);
            let (takes, is_default) = (option.takes(&value), option.default == value);
            let set = match takes {
                true => session.set_option(index, &value, self.shared.times.start).await,
                false => Err("it is none of its values now".to_owned()),
            };
            let Err(problem) = set else {
                self.applied.insert(id, value);
                continue;
            };
            if takes || is_model || !is_default {
                let notice = format!("{} did not accept {value} as {name}: {problem}", self.shared.name());
                events.notice(notice).await?;
            }
            // Clients show the value that counts. Users can choose the other one again.
            let now = session.options.iter().find(|option| option.id == id && !is_model);
            if let Some(now) = now.filter(|option| !option.value.is_null()) {
                self.applied.insert(id.clone(), now.value.clone());
                events.setting(id, now.value.clone()).await?;
            }
        }
        Ok(())
    }

    async fn run(&mut self, turn: TurnInput, events: &EventSink) -> Result<(), AgentError> {
        let interrupted = self.interrupted.take();
        if let Some((session, _)) = interrupted.filter(|(_, id)| turn.resume && *id == turn.turn_id) {
            self.session = Some(session);
        }
        let context = SessionContext::read(&turn, self.shared.own_files()).await?;
        let mut session = tokio::select! {
            biased;
            () = events.cancelled() => return Err(AgentError::Cancelled),
            opened = self.session(&turn) => opened?,
        };
        let prepared = tokio::select! {
            biased;
            () = events.cancelled() => Err(AgentError::Cancelled),
            prepared = self.prepare(&mut session, &turn, events) => prepared,
        };
        if let Err(error) = prepared {
            self.idle = Some(IdleSession::new(session, &self.shared));
            return Err(error);
        }
        let instructions = context.in_words(self.instructed);
        self.hook_context.extend(events.added_context());
        let before = [instructions, self.untold.clone()].into_iter().flatten();
        let before: Vec<String> = before.chain(hook_block(&self.hook_context)).collect();
        let id = session.id.clone();
        let memory = json!({
            "session": id, "chat": &*self.chat, "turn": turn.turn_id, "turnsBefore": turn.turns_before,
        });
        let mut run = TurnRun::new(&self.shared, &mut session, events);
        let prompt = run.send(&turn, before).await;
        if prompt.is_ok() {
            // Only a session with the whole conversation is one to restore.
            self.session = Some(id);
            self.untold = None;
            self.instructed = context.fingerprint();
            self.hook_context.clear();
        }
        let outcome = match prompt {
            Ok(prompt) => run.perform(prompt, memory).await,
            Err(_) => TurnOutcome::Died,
        };
        let (reply, hook_context) = run.finish();
        self.hook_context.extend(hook_context);
        self.transcript.add(&turn.text, &reply);
        self.last_turn = Some(turn.turn_id.clone());
        for changed in std::mem::take(&mut session.changed) {
            self.applied.insert(changed.id, changed.new);
        }
        self.shared.learn(&session.learned, &session.options);
        match outcome {
            TurnOutcome::Ended(result) => {
                self.idle = Some(IdleSession::new(session, &self.shared));
                result
            }
            TurnOutcome::Died => {
                let how = session.describe_end().await;
                let message = format!(
                    "{} ended in the middle of the turn: {how}\nThe next message starts it again.",
                    self.shared.name()
                );
                Err(AgentError::resumable("agentDied", message))
            }
        }
    }
}

#[async_trait]
impl AgentChat for AcpChat {
    async fn run_turn(&mut self, turn: TurnInput, events: EventSink) -> Result<(), AgentError> {
        if self.idle.is_none() {
            events.activity(format!("Starting {}", self.shared.name())).await?;
        }
        self.run(turn, &events).await
    }
}

/// Returns the agent's session of a chat that is opened again. A fork or a shortened history is another conversation
/// than the one that the agent has.
fn earlier_session(cx: &ChatContext) -> Option<String> {
    let memory = cx.memory.as_deref()?;
    let is_of_chat = memory["chat"].as_str() == Some(&*cx.chat);
    let has_last = cx
        .history
        .last()
        .is_some_and(|turn| memory["turn"].as_str() == Some(&turn.id));
    let session = memory["session"].as_str().filter(|_| is_of_chat && has_last);
    session.map(str::to_owned)
}

/// Returns the agent's session and the turn that was interrupted in it, if all turns before that turn are there.
fn interrupted_session(cx: &ChatContext) -> Option<(String, String)> {
    let memory = cx.memory.as_deref()?;
    let turns = u64::try_from(cx.history.len() + cx.omitted_turns).ok();
    let is_of_chat = memory["chat"].as_str() == Some(&*cx.chat);
    let has_turns = memory["turnsBefore"].as_u64() == turns;
    let session = memory["session"].as_str().filter(|_| is_of_chat && has_turns)?;
    Some((session.to_owned(), memory["turn"].as_str()?.to_owned()))
}

/// Returns the text that a side chat is about.
fn about(cx: &ChatContext) -> Option<String> {
    let conversation = Transcript::of(&cx.context, 0).in_words();
    let selection = cx.selection.as_ref();
    let selection = selection.map(|text| format!("The user asks about this part of it:\n{text}"));
    let told: Vec<String> = conversation.into_iter().chain(selection).collect();
    (!told.is_empty()).then(|| told.join("\n\n"))
}

/// Returns the context that hooks added, for the agent.
pub(crate) fn hook_block(context: &[String]) -> Option<String> {
    let text = context.join("\n\n");
    (!text.is_empty()).then(|| format!("<hook-context>\n{text}\n</hook-context>"))
}

/// Returns everything that a turn offers its agent.
fn offered(turn: &TurnInput) -> Offered {
    Offered {
        customizations: turn.customizations.clone(),
        clients: turn.client_tools.clone(),
        directories: turn.working_directories.clone(),
    }
}

/// Returns the paths of working directories.
fn paths(uris: &[String]) -> Vec<PathBuf> {
    let path = |uri: &String| url::Url::parse(uri).ok()?.to_file_path().ok();
    uris.iter().filter_map(path).collect()
}
