//! `innkeeper send`: sends one message and streams the response.

mod selection;

use std::io::Read as _;
use std::time::{Duration, Instant};

use ahp::SubscriptionEvent;
use ahp::reducers::apply_action_to_session;
use ahp_types::actions::{ActionEnvelope, ChatTurnCancelledAction, ChatTurnStartedAction, StateAction};
use ahp_types::commands::CreateSessionParams;
use ahp_types::state::{
    AgentSelection, ChatState, Message, MessageKind, MessageOrigin, ModelSelection, SessionLifecycle, SessionState,
};
use serde_json::Value;

use crate::args::SendArgs;
use crate::connection::{Connection, connection_lost, is_here, request_failure};
use crate::discovery::DataDir;
use crate::edit_contents;
use crate::failure::{Failure, Kind};
use crate::sessions::{Deletion, dispose};
use crate::terminal::{NextCommand, Output, StopSignals, note, one_line};
use crate::turn_output::{Outcome, TurnOutput};

pub use self::selection::PLUGIN_NAME;
pub(crate) use self::selection::name_of as plugin_name;

/// Timeout until a session is ready.
const SESSION_TIMEOUT: Duration = Duration::from_secs(120);

/// Timeout until a session has discovered its custom agents.
const AGENT_TIMEOUT: Duration = Duration::from_secs(5);

/// Timeout until the host confirms a cancelled turn.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);

/// Sends the message and waits for the end of its turn.
pub(crate) async fn run(dir: &DataDir, args: SendArgs) -> Result<(), Failure> {
    let text = message_text(&args.text)?;
    if text.trim().is_empty() {
        return Err(Failure::new(Kind::Usage, "the message is empty")
            .hint("write it after `send`, or `-` to read it from standard input"));
    }
    let mut connection = Connection::open(dir, &args.connect).await?;
    let mut signals = StopSignals::listen()?;
    let mut sender = Sender {
        json: args.json,
        model: args.model.clone(),
        custom_agent: None,
        session: String::new(),
        chat: String::new(),
    };
    let ready = sender.prepare(&mut connection, &args);
    let ready = tokio::select! {
        ready = tokio::time::timeout(SESSION_TIMEOUT, ready) => ready.unwrap_or_else(|_| {
            Err(Failure::new(Kind::Unreachable, "the session was not ready within two minutes"))
        }),
        _ = signals.next() => Err(Failure::new(Kind::TurnCancelled, "stopped before the message was sent")),
    };
    if let Err(failure) = ready {
        if args.session.is_none() && !sender.session.is_empty() {
            // Dispose of the empty session. If that fails too, report the first failure.
            let _ = dispose(&connection, &sender.session, Deletion::ForGood).await;
        }
        connection.close().await;
        return Err(failure);
    }
    let outcome = sender.turn(&mut connection, &mut signals, text).await?;
    connection.close().await;
    if args.session.is_none() {
        let rest = format!("--session {} \"…\"", sender.session);
        note(&format!(
            "[continue with: {}]",
            NextCommand::at(&args.connect).command("send", &rest)
        ));
    }
    match outcome {
        Outcome::Complete => Ok(()),
        Outcome::Cancelled => Err(Failure::new(Kind::TurnCancelled, "the turn was cancelled")),
        Outcome::Failed { error, resumable } => {
            let failure = Failure::new(
                Kind::TurnFailed,
                format!("the turn failed: {}", one_line(&error.message, 500)),
            );
            Err(match resumable {
                true => failure.hint("the host can resume it when a client asks with chat/turnResume"),
                false => failure,
            })
        }
    }
}

fn message_text(words: &[String]) -> Result<String, Failure> {
    if words != ["-"] {
        return Ok(words.join(" "));
    }
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).map_err(|error| {
        Failure::new(
            Kind::Usage,
            format!("the message cannot be read from standard input ({error})"),
        )
    })?;
    Ok(text)
}

struct Sender {
    json: bool,
    model: Option<String>,
    /// The URI of the custom agent.
    custom_agent: Option<String>,
    session: String,
    chat: String,
}

impl Sender {
    /// Creates or finds the session, waits until it is ready and subscribes to its default chat.
    async fn prepare(&mut self, connection: &mut Connection, args: &SendArgs) -> Result<(), Failure> {
        self.session = match &args.session {
            Some(uri) => uri.clone(),
            None => create_session(connection, args).await?,
        };
        let (mut state, from_seq): (SessionState, i64) = connection.subscribe_to_state(&self.session).await?;
        loop {
            if let Some(chat) = ready_chat(&state)? {
                self.chat = chat;
                break;
            }
            let envelope = self.next_envelope(connection).await?;
            if envelope.channel == self.session && is_after(&envelope, from_seq) {
                apply_action_to_session(&mut state, &envelope.action);
            }
        }
        if let Some(wanted) = &args.custom_agent {
            self.custom_agent = Some(self.find_agent(connection, &mut state, from_seq, wanted).await?);
        }
        let _: (ChatState, i64) = connection.subscribe_to_state(&self.chat).await?;
        Ok(())
    }

    /// Finds a custom agent. A new session discovers its custom agents a moment after its start.
    async fn find_agent(
        &self,
        connection: &mut Connection,
        state: &mut SessionState,
        from_seq: i64,
        wanted: &str,
    ) -> Result<String, Failure> {
        let give_up_at = tokio::time::Instant::now() + AGENT_TIMEOUT;
        loop {
            if let Some(uri) = selection::custom_agent(state, wanted) {
                return Ok(uri);
            }
            match tokio::time::timeout_at(give_up_at, self.next_envelope(connection)).await {
                Ok(envelope) => {
                    let envelope = envelope?;
                    if envelope.channel == self.session && is_after(&envelope, from_seq) {
                        apply_action_to_session(state, &envelope.action);
                    }
                }
                Err(_) => return Err(selection::no_custom_agent(state, wanted)),
            }
        }
    }

    /// Starts the turn and shows its response until it ends.
    async fn turn(
        &self,
        connection: &mut Connection,
        signals: &mut StopSignals,
        text: String,
    ) -> Result<Outcome, Failure> {
        let turn_id = uuid::Uuid::new_v4().to_string();
        let started = Instant::now();
        let seq = self.dispatch(connection, self.turn_started(&turn_id, text)).await?;
        let mut output = TurnOutput::new(turn_id.clone(), Output::stdout(), Output::stderr());
        let mut give_up_at: Option<Instant> = None;
        loop {
            let envelope = tokio::select! {
                envelope = self.next_envelope(connection) => envelope,
                signal = signals.next() => {
                    if give_up_at.replace(Instant::now() + CANCEL_TIMEOUT).is_some() {
                        std::process::exit(signal.exit_code().into());
                    }
                    let cancel = StateAction::ChatTurnCancelled(ChatTurnCancelledAction {
                        turn_id: turn_id.clone(),
                        duration: i64::try_from(started.elapsed().as_millis()).unwrap_or(i64::MAX),
                        meta: None,
                    });
                    self.dispatch(connection, cancel).await?;
                    continue;
                }
                () = sleep_until(give_up_at) => {
                    output.finish()?;
                    return Err(Failure::new(
                        Kind::TurnCancelled,
                        "the host did not confirm within five seconds that the turn is cancelled",
                    ));
                }
            };
            let envelope = envelope.inspect_err(|_| {
                // The first failure matters more than one of the output.
                let _ = output.finish();
            })?;
            if envelope.channel != self.chat {
                if !self.json {
                    output.show_wait_elsewhere(&envelope.action, &self.chat)?;
                }
                continue;
            }
            if let Some(reason) = rejection(&envelope, &connection.client_id, seq) {
                return Err(Failure::new(
                    Kind::Rejected,
                    format!("the host rejected the message: {}", one_line(reason, 500)),
                ));
            }
            if envelope.rejection_reason.is_some() {
                continue;
            }
            let mut envelope = envelope;
            if !self.json {
                if let StateAction::ChatToolCallReady(call) = &mut envelope.action
                    && let Some(changes) = &mut call.edits
                {
                    edit_contents::fetch(connection, changes).await;
                }
                output.show(&envelope.action)?;
            }
            if let Some(outcome) = Outcome::of(&envelope.action, &turn_id) {
                output.finish()?;
                return Ok(outcome);
            }
        }
    }

    fn turn_started(&self, turn_id: &str, text: String) -> StateAction {
        let model = self.model.clone();
        let agent = self.custom_agent.clone();
        StateAction::ChatTurnStarted(ChatTurnStartedAction {
            turn_id: turn_id.to_owned(),
            started_at: jiff::Timestamp::now().to_string(),
            message: Message {
                text,
                origin: MessageOrigin {
                    kind: MessageKind::User,
                },
                attachments: None,
                model: model.map(|id| ModelSelection { id, config: None }),
                agent: agent.map(|uri| AgentSelection { uri }),
                meta: None,
            },
            queued_message_id: None,
            meta: None,
        })
    }

    async fn dispatch(&self, connection: &Connection, action: StateAction) -> Result<i64, Failure> {
        connection
            .client
            .dispatch(self.chat.clone(), action)
            .await
            .map(|handle| handle.client_seq)
            .map_err(|error| request_failure("dispatchAction", error))
    }

    /// Waits for the next action on the session or its chat.
    async fn next_envelope(&self, connection: &mut Connection) -> Result<ActionEnvelope, Failure> {
        loop {
            let event = connection.events.recv().await.ok_or_else(connection_lost)?;
            match event.event {
                SubscriptionEvent::Action(envelope)
                    if envelope.channel == self.session || envelope.channel == self.chat =>
                {
                    if self.json {
                        print_json(&envelope)?;
                    }
                    return Ok(envelope);
                }
                SubscriptionEvent::SessionRemoved(removed) if removed.session == self.session => {
                    return Err(Failure::new(
                        Kind::Rejected,
                        "the session was disposed before the turn ended",
                    ));
                }
                _ => {}
            }
        }
    }
}

async fn create_session(connection: &Connection, args: &SendArgs) -> Result<String, Failure> {
    if let Some(model) = &args.model {
        selection::check_model(connection, args.provider.as_deref(), model).await?;
    }
    let directory = working_directory(args)?;
    let uri = format!("ahp-session:/{}", uuid::Uuid::new_v4());
    let params = CreateSessionParams {
        channel: uri.clone(),
        meta: None,
        provider: args.provider.clone(),
        working_directories: directory.map(|directory| vec![directory]),
        config: None,
        active_client: None,
        progress_token: None,
    };
    let _: Value = connection.request("createSession", params).await?;
    Ok(uri)
}

/// Returns the working directory of a new session as a URI: the current directory by default. A host on another machine
/// has other directories, even if one has the same name.
fn working_directory(args: &SendArgs) -> Result<Option<String>, Failure> {
    let is_here = args.connect.url.as_deref().is_none_or(is_here);
    let directory = match (&args.directory, is_here) {
        (None, false) => return Ok(None),
        (None, true) => std::env::current_dir(),
        (Some(directory), false) => std::path::absolute(directory),
        // A local address may be a tunnel to another machine.
        (Some(directory), true) if args.connect.url.is_some() => {
            directory.canonicalize().or_else(|_| std::path::absolute(directory))
        }
        (Some(directory), true) => directory.canonicalize(),
    };
    let directory = directory.map_err(|error| {
        let shown = args.directory.as_deref().unwrap_or_else(|| ".".as_ref());
        Failure::new(
            Kind::Usage,
            format!("the directory {} cannot be used ({error})", shown.display()),
        )
        .hint("name another one with --directory DIR")
    })?;
    Ok(url::Url::from_file_path(directory).ok().map(String::from))
}

/// Waits until a time, or forever if there is none.
async fn sleep_until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment.into()).await,
        None => std::future::pending().await,
    }
}

/// Returns the chat for messages once the session is ready.
pub(super) fn ready_chat(state: &SessionState) -> Result<Option<String>, Failure> {
    if state.lifecycle == SessionLifecycle::Failed {
        let reason = match &state.creation_error {
            Some(error) => one_line(&error.message, 500),
            None => "no reason was given".to_owned(),
        };
        return Err(Failure::new(
            Kind::Rejected,
            format!("the session could not be created: {reason}"),
        ));
    }
    if state.lifecycle == SessionLifecycle::Creating {
        return Ok(None);
    }
    let first = || state.chats.first().map(|chat| chat.resource.clone());
    Ok(state.default_chat.clone().or_else(first))
}

pub(super) fn is_after(envelope: &ActionEnvelope, seq: i64) -> bool {
    i64::try_from(envelope.server_seq).is_ok_and(|server_seq| server_seq > seq)
}

/// Returns the rejection reason of our action number `seq`, if this is its envelope.
pub(super) fn rejection<'a>(envelope: &'a ActionEnvelope, client_id: &str, seq: i64) -> Option<&'a str> {
    let origin = envelope.origin.as_ref()?;
    let ours = origin.client_id == client_id && origin.client_seq == seq;
    envelope.rejection_reason.as_deref().filter(|_| ours)
}

fn print_json(envelope: &ActionEnvelope) -> Result<(), Failure> {
    let mut line = serde_json::to_string(envelope).map_err(|error| {
        Failure::new(
            Kind::Unexpected,
            format!("an action cannot be written as JSON ({error})"),
        )
    })?;
    line.push('\n');
    Output::stdout().show(&line)
}
