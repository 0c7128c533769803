//! `innkeeper send`: sends one message and streams the response.

mod message;
mod selection;

use std::time::Duration;

use ahp::SubscriptionEvent;
use ahp::reducers::apply_action_to_session;
use ahp_types::actions::{ActionEnvelope, ChatTurnStartedAction, StateAction};
use ahp_types::commands::CreateSessionParams;
use ahp_types::state::{
    AgentSelection, ChatState, Message, MessageAttachment, MessageKind, MessageOrigin, ModelSelection,
    SessionLifecycle, SessionState,
};
use serde_json::Value;

use crate::approvals;
use crate::args::SendArgs;
use crate::connection::{Connection, connection_lost, is_here};
use crate::discovery::DataDir;
use crate::failure::{Failure, Kind};
use crate::follow::{FollowedChat, Follower, Way, short_name};
use crate::sessions::{Deletion, dispose, find_named, latest_here};
use crate::terminal::{NextCommand, StopSignals, note, one_line};

pub use self::selection::PLUGIN_NAME;
pub(crate) use self::selection::name_of as plugin_name;

/// Timeout until a session is ready.
const SESSION_TIMEOUT: Duration = Duration::from_secs(120);

/// Timeout until a session has discovered its custom agents.
const AGENT_TIMEOUT: Duration = Duration::from_secs(5);

/// Sends the message and waits for the end of its turn.
pub(crate) async fn run(dir: &DataDir, args: SendArgs) -> Result<(), Failure> {
    let (text, attachments) = (message::text(&args)?, message::attachments(&args)?);
    let mut connection = Connection::open(dir, &args.connect).await?;
    let mut signals = StopSignals::listen()?;
    let mut sender = Sender {
        model: args.model.clone(),
        custom_agent: None,
        session: String::new(),
        state: None,
        chat: String::new(),
    };
    let is_new = args.session.is_none() && !args.last;
    let ready = sender.prepare(&mut connection, &args);
    let ready = tokio::select! {
        ready = tokio::time::timeout(SESSION_TIMEOUT, ready) => ready.unwrap_or_else(|_| {
            Err(Failure::new(Kind::Unreachable, "the session was not ready within two minutes"))
        }),
        _ = signals.next() => Err(Failure::new(Kind::TurnCancelled, "stopped before the message was sent")),
    };
    if let Err(failure) = ready {
        if is_new && !sender.session.is_empty() {
            // Dispose of the empty session. If that fails too, report the first failure.
            let _ = dispose(&connection, &sender.session, Deletion::ForGood).await;
        }
        connection.close().await;
        return Err(failure);
    }
    let started = sender.turn_started(text, attachments);
    let turn_id = started.turn_id.clone();
    let session = sender.session.clone();
    let followed = sender.followed()?;
    let way = Way {
        dir,
        connect: &args.connect,
    };
    let mut follower = Follower::new(way, &args.follow, connection, followed);
    let ended = follower
        .run(&mut signals, &turn_id, StateAction::ChatTurnStarted(started))
        .await?;
    follower.close().await;
    if is_new && !args.follow.json {
        let rest = format!("--session {} \"…\"", short_name(&session));
        note(&format!(
            "[continue with: {}]",
            NextCommand::at(&args.connect).command("send", &rest)
        ));
    }
    ended.result(&args.connect, &session)
}

struct Sender {
    model: Option<String>,
    /// The URI of the custom agent.
    custom_agent: Option<String>,
    session: String,
    /// The state of the session, once it is ready.
    state: Option<SessionState>,
    chat: String,
}

impl Sender {
    /// Creates or finds the session, waits until it is ready and subscribes to its default chat.
    async fn prepare(&mut self, connection: &mut Connection, args: &SendArgs) -> Result<(), Failure> {
        self.session = match &args.session {
            Some(name) => find_named(connection, name).await?,
            None if args.last => latest_here(connection, &args.connect).await?,
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
        self.state = Some(state);
        for rule in &args.approve {
            approvals::allow_in_session(connection, &self.session, rule).await?;
        }
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

    /// Returns the chat to follow.
    fn followed(self) -> Result<FollowedChat, Failure> {
        let state = self.state.ok_or_else(connection_lost)?;
        Ok(FollowedChat {
            session: self.session,
            state,
            chat: self.chat,
        })
    }

    fn turn_started(&self, text: String, attachments: Vec<MessageAttachment>) -> ChatTurnStartedAction {
        let model = self.model.clone();
        let agent = self.custom_agent.clone();
        ChatTurnStartedAction {
            turn_id: uuid::Uuid::new_v4().to_string(),
            started_at: jiff::Timestamp::now().to_string(),
            message: Message {
                text,
                origin: MessageOrigin {
                    kind: MessageKind::User,
                },
                attachments: (!attachments.is_empty()).then_some(attachments),
                model: model.map(|id| ModelSelection { id, config: None }),
                agent: agent.map(|uri| AgentSelection { uri }),
                meta: None,
            },
            queued_message_id: None,
            meta: None,
        }
    }

    /// Waits for the next action on the session or its chat.
    async fn next_envelope(&self, connection: &mut Connection) -> Result<ActionEnvelope, Failure> {
        loop {
            let event = connection.events.recv().await.ok_or_else(connection_lost)?;
            match event.event {
                SubscriptionEvent::Action(envelope) if envelope.channel == self.session => {
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
