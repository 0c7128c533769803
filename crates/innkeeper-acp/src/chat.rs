//! A chat with an agent: it opens a session when a turn needs one, and restores it after its process has ended.

pub(crate) mod calls;
mod transcript;
mod turn;

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use innkeeper_host::{AgentChat, AgentError, ChatContext, EventSink, TurnInput};
use serde_json::{Map, Value, json};

use crate::agent::AgentContext;
use crate::idle::IdleSession;
use crate::session::{Restored, Session};
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
    /// The text that a side chat is about, until the agent has it.
    about: Option<String>,
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
            about: about(cx),
            last_turn: None,
            applied: Map::new(),
            shared,
        };
        if cx.history.is_empty() && cx.memory.is_none() {
            let shared = Arc::clone(&chat.shared);
            let directories = paths(&cx.working_directories);
            let opening = async move {
                let opened = Session::open(&shared, directories, None).await;
                // The first turn tries again, and tells the user.
                let (session, _) = opened
                    .inspect_err(|error| tracing::info!(agent = shared.id(), problem = error.message, "not started"))
                    .ok()?;
                Some(session)
            };
            chat.idle = Some(IdleSession::opening(opening, chat.shared.times.idle));
        }
        chat
    }

    /// Returns a session for a turn, and the text that its agent has to be told first.
    async fn session(&mut self, turn: &TurnInput) -> Result<(Session, Option<String>), AgentError> {
        let directories = paths(&turn.working_directories);
        if let Some(idle) = self.idle.take()
            && let Some(session) = idle.take().await
        {
            let is_same = directories.is_empty() || session.directories == directories;
            if is_same || !session.learned.abilities.directories {
                return Ok((session, self.about.take()));
            }
            // Directories are fixed for a running session.
            tokio::spawn(session.end());
        }
        let (session, restored) = Session::open(&self.shared, directories, self.session.as_deref()).await?;
        // A restored session has forgotten the values that were set.
        self.applied.clear();
        let before = match restored {
            Restored::Whole => None,
            Restored::Nothing => self.told_again(turn),
        };
        Ok((session, before))
    }

    /// Returns the conversation for an agent that lost it.
    fn told_again(&mut self, turn: &TurnInput) -> Option<String> {
        let mut told: Vec<String> = self.about.take().into_iter().collect();
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
            let position = session.options.iter().position(|option| option.id == id);
            let Some((index, option)) = position.and_then(|index| Some((index, session.options.get(index)?))) else {
                continue;
            };
            let (name, is_needed) = (option.name.clone(), option.takes(&value) && option.value != value);
            self.applied.insert(id, value.clone());
            if is_needed && let Err(problem) = session.set_option(index, &value, self.shared.times.start).await {
                let notice = format!("{} did not accept {value} as {name}: {problem}", self.shared.name());
                events.notice(notice).await?;
            }
        }
        Ok(())
    }

    async fn run(&mut self, turn: TurnInput, events: &EventSink) -> Result<(), AgentError> {
        let interrupted = self.interrupted.take();
        if let Some((session, _)) = interrupted.filter(|(_, id)| turn.resume && *id == turn.turn_id) {
            self.session = Some(session);
        }
        let (mut session, before) = tokio::select! {
            biased;
            () = events.cancelled() => return Err(AgentError::Cancelled),
            opened = self.session(&turn) => opened?,
        };
        events.no_activity().await?;
        self.session = Some(session.id.clone());
        self.last_turn = Some(turn.turn_id.clone());
        let memory = json!({
            "session": session.id, "chat": &*self.chat, "turn": turn.turn_id, "turnsBefore": turn.turns_before,
        });
        events.remember(memory).await?;
        for (option, value) in std::mem::take(&mut session.changed) {
            self.applied.remove(&option);
            events.setting(option, value).await?;
        }
        if let Some(title) = session.title.take() {
            events.title(title).await?;
        }
        self.apply_settings(&mut session, &turn, events).await?;
        let mut run = TurnRun::new(&self.shared, &mut session, events);
        let outcome = run.perform(&turn, before).await;
        let reply = run.finish();
        self.transcript.add(&turn.text, &reply);
        for (option, value) in std::mem::take(&mut session.changed) {
            self.applied.insert(option, value);
        }
        self.shared.learn(&session.learned, &session.options);
        match outcome {
            TurnOutcome::Ended(result) => {
                self.idle = Some(IdleSession::new(session, self.shared.times.idle));
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

/// Returns the paths of working directories.
fn paths(uris: &[String]) -> Vec<PathBuf> {
    let path = |uri: &String| url::Url::parse(uri).ok()?.to_file_path().ok();
    uris.iter().filter_map(path).collect()
}
