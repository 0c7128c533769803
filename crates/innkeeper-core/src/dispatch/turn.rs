//! Clients start, cancel and resume turns (TURN).

use ahp_types::actions::{ChatTurnCancelledAction, ChatTurnResumeAction, ChatTurnStartedAction, StateAction};
use ahp_types::state::{ResponsePart, TurnState};
use jiff::Timestamp;

use super::{Dispatched, Verdict, elapsed};
use crate::chat::chats::Chat;
use crate::chat::model::MAX_CLOCK_SKEW_SECONDS;
use crate::core::{Cx, Host, never};
use crate::session::millis;

impl Host {
    pub(super) fn check_turn_started(
        &self,
        cx: &Cx<'_>,
        by: &Dispatched,
        chat: &Chat,
        mut started: ChatTurnStartedAction,
    ) -> Verdict {
        self.add_choice(by.author.conn, chat, &mut started.message);
        let check = self
            .check_turn(cx, chat, &started)
            .and_then(|()| self.pin_attachments(&mut started.message));
        self.correct_start(cx, chat, &mut started);
        Verdict::from_check(StateAction::ChatTurnStarted(started), check)
    }

    pub(super) fn apply_turn_started(&mut self, cx: &mut Cx<'_>, by: &Dispatched, started: ChatTurnStartedAction) {
        let text = started.message.text.clone();
        self.commit_dispatched(cx, by, StateAction::ChatTurnStarted(started));
        self.title_from(cx, by.channel, &text);
        self.start_run(cx, by.channel, false, Some(&by.author.client));
    }

    pub(super) fn check_turn_cancelled(
        &self,
        cx: &Cx<'_>,
        _by: &Dispatched,
        chat: &Chat,
        cancelled: ChatTurnCancelledAction,
    ) -> Verdict {
        match (&chat.model.head().active_turn, chat.run()) {
            (Some(turn), Some(run)) if turn.id == cancelled.turn_id => {
                // TURN-05: durations are measured here; a client's may be anything.
                let duration = elapsed(cx.now.mono_ms, run.started_ms);
                Verdict::Accept(StateAction::ChatTurnCancelled(ChatTurnCancelledAction {
                    duration,
                    ..cancelled
                }))
            }
            (Some(_), _) => Verdict::Reject("another turn is running, not this one".to_owned()),
            (None, _) => Verdict::Reject("no turn is running".to_owned()),
        }
    }

    pub(super) fn apply_turn_cancelled(
        &mut self,
        cx: &mut Cx<'_>,
        by: &Dispatched,
        cancelled: ChatTurnCancelledAction,
    ) {
        self.commit_dispatched(cx, by, StateAction::ChatTurnCancelled(cancelled));
        self.stop_run(cx, by.channel);
    }

    pub(super) fn check_turn_resume(
        &self,
        _cx: &Cx<'_>,
        _by: &Dispatched,
        chat: &Chat,
        resume: ChatTurnResumeAction,
    ) -> Verdict {
        let check = self.check_resume(chat, &resume);
        Verdict::from_check(StateAction::ChatTurnResume(resume), check)
    }

    pub(super) fn apply_turn_resume(&mut self, cx: &mut Cx<'_>, by: &Dispatched, resume: ChatTurnResumeAction) {
        self.load_before_resumed(cx, by.channel);
        self.commit_dispatched(cx, by, StateAction::ChatTurnResume(resume));
        self.withdraw_questions(cx, by.channel);
        self.start_run(cx, by.channel, true, Some(&by.author.client));
    }

    fn check_turn(&self, cx: &Cx<'_>, chat: &Chat, started: &ChatTurnStartedAction) -> Result<(), String> {
        if let Some(reason) = self.sessions.get(&chat.session).and_then(|session| session.not_ready()) {
            return Err(reason.to_owned());
        }
        if self.shutting_down {
            return Err("the host is shutting down".to_owned());
        }
        if chat.model.head().active_turn.is_some() {
            return Err("a turn is already running in this chat; cancel it, or queue the message".to_owned());
        }
        if started.turn_id.is_empty() || started.turn_id.len() > 256 {
            return Err("turnId has between 1 and 256 bytes".to_owned());
        }
        if chat.model.knows_turn(&started.turn_id) {
            return Err("this turnId was used before; every turn needs its own".to_owned());
        }
        if started.queued_message_id.is_some() {
            return Err("queuedMessageId is set by the host when it takes a message from the queue".to_owned());
        }
        let unset = self.began.map_or(cx.now.wall, |began| began.wall_at(cx.now.mono_ms));
        check_started_at(&started.started_at, [cx.now.wall, unset])?;
        self.check_message(chat, &started.message)
    }

    /// No turn starts before its session was created, however slow the clock of its author is: lists
    /// would show a session that changed before it existed.
    fn correct_start(&self, cx: &Cx<'_>, chat: &Chat, started: &mut ChatTurnStartedAction) {
        let Some(session) = self.sessions.get(&chat.session) else {
            return never!("the session is in memory");
        };
        if millis(&started.started_at) < millis(session.created_at()) {
            started.started_at = session.next_start(cx.now);
        }
    }

    fn check_resume(&self, chat: &Chat, resume: &ChatTurnResumeAction) -> Result<(), String> {
        if self.shutting_down {
            return Err("the host is shutting down".to_owned());
        }
        if chat.model.head().active_turn.is_some() {
            return Err("a turn is already running".to_owned());
        }
        // CHT-14: only its agent continues a subagent.
        if chat.parent.is_some() {
            return Err("this chat belongs to a subagent, which only its agent can resume".to_owned());
        }
        let last = chat.model.last_turn();
        let failed = last.filter(|turn| turn.id == resume.turn_id && turn.state == TurnState::Error);
        let Some(turn) = failed else {
            return Err("only the latest turn can be resumed, and only after a resumable error".to_owned());
        };
        match turn.response_parts.last() {
            Some(ResponsePart::Error(error)) if error.resumable == Some(true) && chat.can_resume => Ok(()),
            Some(ResponsePart::Error(error)) if error.resumable == Some(true) => Err(
                "the agent of this turn was replaced, so the turn cannot be resumed; send the message again".to_owned(),
            ),
            _ => Err("the turn's error cannot be resumed".to_owned()),
        }
    }
}

/// A start time that the reducers can add a duration to (TURN-02, E-12). It must be near the host's wall clock, or near
/// the time that the monotonic clock implies: a host whose wall clock was set wrong still accepts turns (F8).
fn check_started_at(started_at: &str, clocks: [Timestamp; 2]) -> Result<(), String> {
    let parsed = started_at
        .parse::<Timestamp>()
        .ok()
        .filter(|_| is_plain_rfc3339(started_at));
    let Some(at) = parsed else {
        return Err("startedAt must be an RFC 3339 time, as in 2026-01-31T12:00:00.000Z".to_owned());
    };
    let is_far = |clock: Timestamp| (at.as_second() - clock.as_second()).abs() > MAX_CLOCK_SKEW_SECONDS;
    if clocks.into_iter().all(is_far) {
        return Err(
            "startedAt is more than a day away from the host's clock; check the clock of this device".to_owned(),
        );
    }
    Ok(())
}

/// Whether a time has the form every client reads. The parser accepts more, such as a space for
/// the `T` or a time zone in brackets, and the text is passed on as it is.
fn is_plain_rfc3339(text: &str) -> bool {
    let has_t = text.as_bytes().get(10).is_some_and(|byte| *byte == b'T');
    has_t
        && text
            .bytes()
            .all(|byte| byte.is_ascii_digit() || b"-+:.TZ".contains(&byte))
}
