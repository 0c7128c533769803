//! Follows a turn to its end: shows the response, asks for input, and survives a lost connection.

mod asker;
mod output;
mod prompt;
mod summary;

use std::time::{Duration, Instant};

use ahp::SubscriptionEvent;
use ahp::reducers::apply_action_to_session;
use ahp_types::actions::{ActionEnvelope, ChatTurnCancelledAction, StateAction};
use ahp_types::state::{ActiveTurn, ChatOrigin, ChatState, SessionState};
use serde_json::Value;

use crate::args::{ConnectArgs, FollowArgs};
use crate::connection::{Connection, connection_lost, dispatch, edit_contents};
use crate::discovery::DataDir;
use crate::failure::{Failure, Kind};
use crate::format;
use crate::pending::PendingInput;
use crate::terminal::{NextCommand, Output, StopSignals, note, one_line};

use asker::Asker;
pub(crate) use output::Outcome;
use output::{Questions, TurnOutput};
use summary::TurnSummary;

/// Characters of a session's name that suggested commands use.
const SHORT_NAME: usize = 8;
/// Timeout until the host confirms a cancelled turn.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);
/// The time in which a lost host may come back.
const RETURN_TIME: Duration = Duration::from_secs(60);
/// The time between two attempts to reach a lost host.
const RETRY_TIME: Duration = Duration::from_millis(500);

/// Returns the beginning of the last part of a session's URI that is enough to name it for a while.
pub(crate) fn short_name(uri: &str) -> &str {
    let last = uri.rsplit('/').next().unwrap_or(uri);
    last.get(..SHORT_NAME).unwrap_or(last)
}

/// The way to a host, and to find it again.
#[derive(Clone, Copy)]
pub(crate) struct Way<'a> {
    pub(crate) dir: &'a DataDir,
    pub(crate) connect: &'a ConnectArgs,
}

/// A subscribed chat and its session.
pub(crate) struct FollowedChat {
    pub(crate) session: String,
    pub(crate) state: SessionState,
    pub(crate) chat: String,
}

/// The end of a turn.
pub(crate) struct Ended {
    outcome: Outcome,
    /// Whether `--timeout` cancelled it.
    timed_out: bool,
}

impl Ended {
    /// Returns the result of the command.
    pub(crate) fn result(self, connect: &ConnectArgs, session: &str) -> Result<(), Failure> {
        match self.outcome {
            Outcome::Complete => Ok(()),
            Outcome::Cancelled if self.timed_out => Err(Failure::new(
                Kind::TurnCancelled,
                "the turn was cancelled, because it took longer than --timeout",
            )),
            Outcome::Cancelled => Err(Failure::new(Kind::TurnCancelled, "the turn was cancelled")),
            Outcome::Failed { error, resumable } => {
                let failure = Failure::new(
                    Kind::TurnFailed,
                    format!("the turn failed: {}", one_line(&error.message, 500)),
                );
                Err(match resumable {
                    true => failure.hint(format!(
                        "continue it with `{}`",
                        NextCommand::at(connect).command("resume", short_name(session))
                    )),
                    false => failure,
                })
            }
        }
    }
}

/// Follows turns of one chat.
pub(crate) struct Follower<'a> {
    way: Way<'a>,
    args: &'a FollowArgs,
    connection: Connection,
    followed: FollowedChat,
    asker: Asker,
    stop: Stop,
}

/// The meaning of Ctrl-C.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    /// It cancels the turn.
    Cancels,
    /// It ends the command; the turn goes on.
    Detaches,
}

impl<'a> Follower<'a> {
    pub(crate) fn new(way: Way<'a>, args: &'a FollowArgs, connection: Connection, followed: FollowedChat) -> Self {
        Self {
            way,
            args,
            connection,
            followed,
            asker: Asker::new(args),
            stop: Stop::Cancels,
        }
    }

    pub(crate) async fn close(self) {
        self.connection.close().await;
    }

    /// Shows every turn of the chat until the user stops, beginning with the one that runs.
    pub(crate) async fn attend(
        &mut self,
        signals: &mut StopSignals,
        active: Option<ActiveTurn>,
    ) -> Result<(), Failure> {
        self.stop = Stop::Detaches;
        let mut next = active;
        loop {
            if let Some(active) = next.take() {
                let mut turn = FollowedTurn::new(&active.id, self.asker.questions());
                let about = format::turn(&active.message, &[]);
                Output::stdout().show(&format!("\n{about}"))?;
                turn.catch_up(&active.response_parts, self.args.json)?;
                for request in self.followed.state.input_needed.clone().into_iter().flatten() {
                    let session = self.followed.session.clone();
                    let input = PendingInput::new(&self.followed.state, session, request);
                    self.ask(&mut turn, input).await?;
                }
                if self.show_to_the_end(signals, &mut turn, None).await?.is_none() {
                    return Ok(());
                }
            }
            tokio::select! {
                envelope = next_envelope(&mut self.connection, &self.followed, self.args.json) => match envelope {
                    Ok(envelope) => next = self.begun(envelope),
                    Err(failure) if failure.kind() == Kind::Unreachable => {
                        next = self.reopen(failure).await?.active_turn;
                    }
                    Err(failure) => return Err(failure),
                },
                _ = signals.next() => return Ok(()),
            }
        }
    }

    /// Returns the turn that an envelope of the chat starts.
    fn begun(&mut self, envelope: ActionEnvelope) -> Option<ActiveTurn> {
        if envelope.channel == self.followed.session {
            apply_action_to_session(&mut self.followed.state, &envelope.action);
            return None;
        }
        let is_accepted = envelope.rejection_reason.is_none();
        match envelope.action {
            StateAction::ChatTurnStarted(started) if is_accepted => Some(ActiveTurn {
                id: started.turn_id,
                started_at: started.started_at,
                message: started.message,
                response_parts: Vec::new(),
                usage: None,
            }),
            _ => None,
        }
    }

    /// Dispatches the action that starts or resumes a turn, and shows the turn to its end.
    pub(crate) async fn run(
        &mut self,
        signals: &mut StopSignals,
        turn_id: &str,
        first: StateAction,
    ) -> Result<Ended, Failure> {
        let seq = dispatch(&self.connection, &self.followed.chat, first).await?;
        let mut turn = FollowedTurn::new(turn_id, self.asker.questions());
        let ended = self.show_to_the_end(signals, &mut turn, Some(seq)).await?;
        ended.ok_or_else(|| Failure::new(Kind::TurnCancelled, "stopped before the turn ended"))
    }

    /// Shows a turn to its end, or until the user detaches: then nothing is returned. `first` is the number of the action
    /// that started it.
    async fn show_to_the_end(
        &mut self,
        signals: &mut StopSignals,
        turn: &mut FollowedTurn,
        mut first: Option<i64>,
    ) -> Result<Option<Ended>, Failure> {
        let mut end_at = self
            .args
            .timeout
            .map(|seconds| turn.started + Duration::from_secs(seconds));
        let mut give_up_at: Option<Instant> = None;
        let mut timed_out = false;
        loop {
            let envelope = tokio::select! {
                envelope = next_envelope(&mut self.connection, &self.followed, self.args.json) => envelope,
                line = self.asker.next_line() => {
                    self.asker.enter(&self.connection, line).await?;
                    continue;
                }
                signal = signals.next() => {
                    if self.stop == Stop::Detaches {
                        turn.output.finish()?;
                        return Ok(None);
                    }
                    if give_up_at.replace(Instant::now() + CANCEL_TIMEOUT).is_some() {
                        std::process::exit(signal.exit_code().into());
                    }
                    dispatch(&self.connection, &self.followed.chat, turn.cancelled()).await?;
                    continue;
                }
                () = sleep_until(end_at) => {
                    end_at = None;
                    timed_out = true;
                    give_up_at.get_or_insert_with(|| Instant::now() + CANCEL_TIMEOUT);
                    dispatch(&self.connection, &self.followed.chat, turn.cancelled()).await?;
                    continue;
                }
                () = sleep_until(give_up_at) => {
                    turn.output.finish()?;
                    return Err(Failure::new(
                        Kind::TurnCancelled,
                        "the host did not confirm within five seconds that the turn is cancelled",
                    ));
                }
            };
            let outcome = match envelope {
                Ok(envelope) => self.follow(turn, envelope, first).await?,
                Err(failure) if failure.kind() == Kind::Unreachable && give_up_at.is_none() => {
                    turn.output.finish()?;
                    // The numbers of a new connection begin again.
                    first = None;
                    self.come_back(turn, failure).await?
                }
                Err(failure) => {
                    // The first failure matters more than one of the output.
                    let _ = turn.output.finish();
                    return Err(failure);
                }
            };
            if let Some(outcome) = outcome {
                self.finish(turn, &outcome)?;
                return Ok(Some(Ended { outcome, timed_out }));
            }
        }
    }

    /// Shows what an envelope says about the turn. Returns the outcome, if the turn has ended.
    async fn follow(
        &mut self,
        turn: &mut FollowedTurn,
        mut envelope: ActionEnvelope,
        first: Option<i64>,
    ) -> Result<Option<Outcome>, Failure> {
        if let (Some(reason), Some(origin)) = (&envelope.rejection_reason, &envelope.origin) {
            if origin.client_id != self.connection.client_id {
                return Ok(None);
            }
            if Some(origin.client_seq) == first {
                return Err(Failure::new(
                    Kind::Rejected,
                    format!("the host rejected the message: {}", one_line(reason, 500)),
                ));
            }
            self.asker.rejected(origin.client_seq, reason);
            return Ok(None);
        }
        if envelope.channel == self.followed.session {
            if !self.args.json {
                turn.output.show_wait_elsewhere(&envelope.action, &self.followed.chat)?;
            }
            self.follow_session(turn, &envelope.action).await?;
            return Ok(None);
        }
        turn.summary.follow(&turn.id, &envelope.action);
        if !self.args.json {
            if let StateAction::ChatToolCallReady(call) = &mut envelope.action
                && let Some(changes) = &mut call.edits
            {
                edit_contents::fetch(&self.connection, changes).await;
            }
            turn.output.show(&envelope.action)?;
        }
        Ok(Outcome::of(&envelope.action, &turn.id))
    }

    /// Keeps the state of the session up to date, and asks for the input that it waits for.
    async fn follow_session(&mut self, turn: &mut FollowedTurn, action: &StateAction) -> Result<(), Failure> {
        apply_action_to_session(&mut self.followed.state, action);
        match action {
            StateAction::SessionInputNeededSet(set) => {
                let session = self.followed.session.clone();
                let input = PendingInput::new(&self.followed.state, session, set.request.clone());
                self.ask(turn, input).await
            }
            StateAction::SessionInputNeededRemoved(removed) => {
                self.asker.withdraw(&removed.id);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Asks for an input of this chat or of a subagent of it.
    async fn ask(&mut self, turn: &mut FollowedTurn, input: PendingInput) -> Result<(), Failure> {
        let is_ours = |chat: &str| is_part_of(&self.followed.state, chat, &self.followed.chat);
        if !input.chat().is_some_and(is_ours) {
            return Ok(());
        }
        turn.output.finish()?;
        self.asker.add(&self.connection, input).await
    }

    /// Finds the host again after the connection was lost, and returns the state of the chat.
    async fn reopen(&mut self, lost: Failure) -> Result<ChatState, Failure> {
        note("[the connection to the host is lost; trying again]");
        let give_up_at = Instant::now() + RETURN_TIME;
        let connection = loop {
            match Connection::open(self.way.dir, self.way.connect).await {
                Ok(connection) => break connection,
                Err(failure) if failure.kind() != Kind::Unreachable => return Err(failure),
                Err(_) if Instant::now() >= give_up_at => return Err(lost),
                Err(_) => tokio::time::sleep(RETRY_TIME).await,
            }
        };
        self.connection = connection;
        let session = self.followed.session.clone();
        (self.followed.state, _) = self.connection.subscribe_to_state(&session).await?;
        let (chat, _): (ChatState, i64) = self.connection.subscribe_to_state(&self.followed.chat).await?;
        note("[connected again]");
        self.asker = Asker::new(self.args);
        Ok(chat)
    }

    /// Finds the host again after the connection was lost, and shows what happened meanwhile.
    async fn come_back(&mut self, turn: &mut FollowedTurn, lost: Failure) -> Result<Option<Outcome>, Failure> {
        let chat = self.reopen(lost).await?;
        let session = self.followed.session.clone();
        for request in self.followed.state.input_needed.clone().into_iter().flatten() {
            let input = PendingInput::new(&self.followed.state, session.clone(), request);
            self.ask(turn, input).await?;
        }
        if let Some(active) = chat.active_turn.as_ref().filter(|active| active.id == turn.id) {
            turn.catch_up(&active.response_parts, self.args.json)?;
            return Ok(None);
        }
        match chat.turns.iter().find(|ended| ended.id == turn.id) {
            Some(ended) => {
                turn.catch_up(&ended.response_parts, self.args.json)?;
                Ok(Some(Outcome::of_turn(ended)))
            }
            None => Err(Failure::new(Kind::Unreachable, "the host did not get the message").hint("send it again")),
        }
    }

    fn finish(&self, turn: &mut FollowedTurn, outcome: &Outcome) -> Result<(), Failure> {
        turn.output.finish()?;
        match self.args.json {
            true => {
                let FollowedChat { session, chat, .. } = &self.followed;
                print_line(&turn.summary.line(session, chat, &turn.id, outcome))
            }
            false => turn.output.show_summary(),
        }
    }
}

/// A turn that is shown.
struct FollowedTurn {
    id: String,
    started: Instant,
    output: TurnOutput<std::io::Stdout, std::io::Stderr>,
    summary: TurnSummary,
}

impl FollowedTurn {
    fn new(id: &str, questions: Questions) -> Self {
        Self {
            id: id.to_owned(),
            started: Instant::now(),
            output: TurnOutput::new(id.to_owned(), questions, Output::stdout(), Output::stderr()),
            summary: TurnSummary::default(),
        }
    }

    fn cancelled(&self) -> StateAction {
        StateAction::ChatTurnCancelled(ChatTurnCancelledAction {
            turn_id: self.id.clone(),
            duration: i64::try_from(self.started.elapsed().as_millis()).unwrap_or(i64::MAX),
            meta: None,
        })
    }

    /// Shows the rest of text that was streamed while the connection was lost.
    fn catch_up(&mut self, parts: &[ahp_types::state::ResponsePart], is_json: bool) -> Result<(), Failure> {
        self.summary.replace(parts);
        match is_json {
            true => Ok(()),
            false => self.output.catch_up(parts),
        }
    }
}

/// Waits for the next action on the session or its chat, or for the rejection of an own action.
async fn next_envelope(
    connection: &mut Connection,
    followed: &FollowedChat,
    is_json: bool,
) -> Result<ActionEnvelope, Failure> {
    loop {
        let event = connection.events.recv().await.ok_or_else(connection_lost)?;
        match event.event {
            SubscriptionEvent::Action(envelope)
                if envelope.channel == followed.session
                    || envelope.channel == followed.chat
                    || is_own_rejection(&envelope, &connection.client_id) =>
            {
                if is_json {
                    print_json(&envelope)?;
                }
                return Ok(envelope);
            }
            SubscriptionEvent::SessionRemoved(removed) if removed.session == followed.session => {
                return Err(Failure::new(
                    Kind::Rejected,
                    "the session was disposed before the turn ended",
                ));
            }
            _ => {}
        }
    }
}

/// Returns whether this is the host's rejection of an action of this client.
fn is_own_rejection(envelope: &ActionEnvelope, client_id: &str) -> bool {
    let origin = envelope.origin.as_ref();
    envelope.rejection_reason.is_some() && origin.is_some_and(|origin| origin.client_id == client_id)
}

/// Returns whether a chat is this one, or belongs to a subagent of it.
fn is_part_of(state: &SessionState, chat: &str, whole: &str) -> bool {
    let mut chat = chat;
    // The depth of subagents is limited; a loop would be a fault of the host.
    for _ in 0..64 {
        if chat == whole {
            return true;
        }
        let known = state.chats.iter().find(|known| known.resource == chat);
        match known.and_then(|known| known.origin.as_ref()) {
            Some(ChatOrigin::Tool { chat: parent, .. }) => chat = parent,
            _ => return false,
        }
    }
    false
}

/// Waits until a time, or forever if there is none.
async fn sleep_until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment.into()).await,
        None => std::future::pending().await,
    }
}

fn print_json(envelope: &ActionEnvelope) -> Result<(), Failure> {
    let line = serde_json::to_value(envelope).map_err(|error| {
        Failure::new(
            Kind::Unexpected,
            format!("an action cannot be written as JSON ({error})"),
        )
    })?;
    print_line(&line)
}

fn print_line(value: &Value) -> Result<(), Failure> {
    Output::stdout().show(&format!("{value}\n"))
}
