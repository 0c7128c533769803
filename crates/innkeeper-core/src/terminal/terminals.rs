//! The terminals in memory, those that are being opened, and those of an earlier run that are listed.

use std::collections::HashMap;
use std::sync::Arc;

use ahp::reducers::{ReduceOutcome, apply_action_to_terminal};
use ahp_types::actions::StateAction;
use ahp_types::state::{TerminalClaim, TerminalInfo, TerminalLifecycleState, TerminalState};

use super::output::compact;
use super::vocabulary::{PtyId, TerminalRecord, TerminalSize};
use crate::ids::{ChannelId, ConnId, IdMap};
use crate::protocol::request::RequestId;

/// All terminals.
///
/// Invariants: a process is known exactly as long as its terminal has it, and the list on the root is published again
/// after every change that it shows.
#[derive(Debug, Default)]
pub(crate) struct Terminals {
    by_channel: IdMap<ChannelId, Terminal>,
    by_pty: HashMap<PtyId, ChannelId>,
    /// Terminals whose program is being started.
    opening: HashMap<PtyId, Opening>,
    next: u64,
    /// Terminals of an earlier run of the host that were listed and are not in memory.
    earlier: Vec<TerminalInfo>,
    /// The list on the root may have changed.
    is_list_dirty: bool,
}

/// One terminal.
#[derive(Debug)]
pub(super) struct Terminal {
    uri: Arc<str>,
    state: Arc<TerminalState>,
    /// The running process.
    pty: Option<PtyId>,
    /// The session that claims it, if any.
    session: Option<ChannelId>,
    /// How often clients have cleared it.
    clears: u64,
    /// When the running command began.
    command_ms: u64,
    /// The number of the agent's command that it runs, while the tool call lasts.
    call: Option<u64>,
    /// It ran a command of an agent, so it is listed only while that runs.
    is_for_agent: bool,
    /// It changed since it was last persisted.
    is_dirty: bool,
    /// A timer will persist it.
    is_scheduled: bool,
}

/// A terminal whose program is being started.
#[derive(Debug)]
pub(super) struct Opening {
    pub(super) uri: String,
    pub(super) claim: TerminalClaim,
    pub(super) name: Option<String>,
    pub(super) size: TerminalSize,
    /// The request to answer, or the agent's command.
    pub(super) asked_by: AskedBy,
}

/// The originator of a terminal.
#[derive(Debug, Clone)]
pub(super) enum AskedBy {
    Client(ConnId, RequestId),
    Agent(u64),
}

impl Terminals {
    pub(super) fn get(&self, channel: ChannelId) -> Option<&Terminal> {
        self.by_channel.get(&channel)
    }

    pub(super) fn get_mut(&mut self, channel: ChannelId) -> Option<&mut Terminal> {
        self.by_channel.get_mut(&channel)
    }

    /// Returns the channel of a process.
    pub(crate) fn channel_of(&self, pty: PtyId) -> Option<ChannelId> {
        self.by_pty.get(&pty).copied()
    }

    /// Returns the channels of all terminals, the oldest first.
    pub(super) fn channels(&self) -> Vec<ChannelId> {
        self.sorted(|_| true)
    }

    /// Returns the channels of the terminals that a session claims, the oldest first.
    pub(super) fn claimed_by(&self, session: ChannelId) -> Vec<ChannelId> {
        self.sorted(|terminal| terminal.session == Some(session))
    }

    fn sorted(&self, filter: impl Fn(&Terminal) -> bool) -> Vec<ChannelId> {
        let found = self.by_channel.iter().filter(|(_, terminal)| filter(terminal));
        let mut found: Vec<ChannelId> = found.map(|(channel, _)| *channel).collect();
        found.sort_unstable();
        found
    }

    /// Returns true if a process runs in a terminal that a session claims.
    pub(super) fn runs_in(&self, session: ChannelId) -> bool {
        let mut terminals = self.by_channel.values();
        terminals.any(|terminal| terminal.pty.is_some() && terminal.session == Some(session))
    }

    /// Notes a terminal whose program is started now. Returns the number of its process.
    pub(super) fn begin_opening(&mut self, opening: Opening) -> PtyId {
        self.next += 1;
        let pty = PtyId(self.next);
        self.opening.insert(pty, opening);
        pty
    }

    /// Returns true if the program of a terminal with this URI is being started.
    pub(super) fn is_opening(&self, uri: &str) -> bool {
        self.opening.values().any(|opening| opening.uri == uri)
    }

    /// Ends the wait for the start of a program. `None` if a core before this one asked for it, in the same process.
    pub(super) fn end_opening(&mut self, pty: PtyId) -> Option<Opening> {
        self.opening.remove(&pty)
    }

    /// Adds a terminal.
    pub(super) fn insert(&mut self, channel: ChannelId, terminal: Terminal) {
        if let Some(pty) = terminal.pty {
            self.by_pty.insert(pty, channel);
        }
        self.by_channel.insert(channel, terminal);
        self.is_list_dirty = true;
    }

    /// Removes a terminal from memory, with the number of its process.
    pub(super) fn remove(&mut self, channel: ChannelId) -> Option<Terminal> {
        self.end_process(channel);
        self.is_list_dirty = true;
        self.by_channel.remove(&channel)
    }

    /// Notes that the process of a terminal has ended. Returns the process, if there was one.
    pub(super) fn end_process(&mut self, channel: ChannelId) -> Option<PtyId> {
        let pty = self.by_channel.get_mut(&channel)?.pty.take()?;
        self.by_pty.remove(&pty);
        self.is_list_dirty = true;
        Some(pty)
    }

    /// Notes that the tool call of an agent's command has ended. Returns the terminal; `None` if it is gone.
    pub(super) fn end_call(&mut self, number: u64) -> Option<ChannelId> {
        let mut terminals = self.by_channel.iter_mut();
        let (channel, terminal) = terminals.find(|(_, terminal)| terminal.call == Some(number))?;
        terminal.call = None;
        Some(*channel)
    }

    /// Applies an action, and notes what follows from it for the list and the store.
    pub(super) fn apply_action(&mut self, channel: ChannelId, action: &StateAction) -> ReduceOutcome {
        let Some(terminal) = self.by_channel.get_mut(&channel) else {
            return ReduceOutcome::NoOp;
        };
        // Input changes nothing (TRM-06), so the state is not copied for it.
        if let StateAction::TerminalInput(_) = action {
            return ReduceOutcome::NoOp;
        }
        terminal.is_dirty = true;
        terminal.clears += u64::from(matches!(action, StateAction::TerminalCleared(_)));
        self.is_list_dirty |= matches!(
            action,
            StateAction::TerminalClaimed(_) | StateAction::TerminalTitleChanged(_) | StateAction::TerminalExited(_)
        );
        apply_action_to_terminal(Arc::make_mut(&mut terminal.state), action)
    }

    /// Takes the list that clients see on the root, if it may have changed since the last call.
    pub(super) fn take_changed_list(&mut self) -> Option<Vec<TerminalInfo>> {
        std::mem::take(&mut self.is_list_dirty).then(|| self.listed())
    }

    /// Returns the terminals that clients see on the root, the oldest first.
    fn listed(&self) -> Vec<TerminalInfo> {
        let present = self.sorted(Terminal::is_listed);
        let present = present.iter().filter_map(|channel| self.by_channel.get(channel));
        self.earlier
            .iter()
            .cloned()
            .chain(present.map(Terminal::info))
            .collect()
    }

    /// Returns how many terminals are listed, or will be when their programs have started.
    pub(super) fn count(&self) -> usize {
        let listed = self.by_channel.values().filter(|terminal| terminal.is_listed());
        listed.count() + self.opening.len() + self.earlier.len()
    }

    /// Returns the oldest listed terminal in memory that has ended, of those that the condition allows.
    pub(super) fn oldest_ended(&self, is_allowed: impl Fn(ChannelId) -> bool) -> Option<ChannelId> {
        let ended = self.sorted(|terminal| terminal.is_listed() && terminal.pty.is_none());
        ended.into_iter().find(|channel| is_allowed(*channel))
    }

    /// Starts with the listed terminals of an earlier run.
    pub(super) fn restore_earlier(&mut self, earlier: Vec<TerminalInfo>) {
        self.earlier = earlier;
    }

    /// Returns a listed terminal of an earlier run that is not in memory.
    pub(super) fn earlier(&self, uri: &str) -> Option<&TerminalInfo> {
        self.earlier.iter().find(|info| info.resource == uri)
    }

    /// Returns the URI of the oldest terminal of an earlier run that is not in memory.
    pub(super) fn oldest_earlier(&self) -> Option<Arc<str>> {
        self.earlier.first().map(|info| info.resource.as_str().into())
    }

    /// Removes a terminal of an earlier run from the list. Returns true if it was listed.
    pub(super) fn forget_earlier(&mut self, uri: &str) -> bool {
        let before = self.earlier.len();
        self.earlier.retain(|info| info.resource != uri);
        let was_listed = self.earlier.len() < before;
        self.is_list_dirty |= was_listed;
        was_listed
    }
}

impl Terminal {
    /// A terminal whose program has just started.
    pub(super) fn started(uri: Arc<str>, state: TerminalState, pty: PtyId, call: Option<u64>, now_ms: u64) -> Self {
        Self {
            uri,
            state: Arc::new(state),
            pty: Some(pty),
            session: None,
            clears: 0,
            command_ms: now_ms,
            call,
            is_for_agent: call.is_some(),
            is_dirty: true,
            is_scheduled: false,
        }
    }

    /// A terminal of an earlier run, whose process has ended. One that ran a command of an agent is not listed.
    pub(super) fn recalled(uri: Arc<str>, state: TerminalState, is_listed: bool) -> Self {
        Self {
            uri,
            state: Arc::new(state),
            pty: None,
            session: None,
            clears: 0,
            command_ms: 0,
            call: None,
            is_for_agent: !is_listed,
            is_dirty: false,
            is_scheduled: false,
        }
    }

    pub(super) fn uri(&self) -> &Arc<str> {
        &self.uri
    }

    pub(super) fn state(&self) -> &Arc<TerminalState> {
        &self.state
    }

    pub(super) fn claim(&self) -> &TerminalClaim {
        &self.state.claim
    }

    /// Returns the process that takes input; `None` after its end.
    pub(super) fn process(&self) -> Option<PtyId> {
        self.pty.filter(|_| self.is_running())
    }

    pub(super) fn is_running(&self) -> bool {
        matches!(self.state.lifecycle, TerminalLifecycleState::Running(_))
    }

    /// Returns the session that claims it.
    pub(super) fn session(&self) -> Option<ChannelId> {
        self.session
    }

    /// Notes the session that claims it.
    pub(super) fn set_session(&mut self, session: Option<ChannelId>) {
        self.session = session;
    }

    /// Notes that a command begins.
    pub(super) fn begin_command(&mut self, now_ms: u64) {
        self.command_ms = now_ms;
    }

    /// Returns when the running command began.
    pub(super) fn command_ms(&self) -> u64 {
        self.command_ms
    }

    /// Replaces output by a text that draws the same screen, unless a client cleared the terminal meanwhile: then
    /// another text is on its way.
    pub(super) fn compact(&mut self, kept: usize, screen: String, clears: u64) {
        if self.clears == clears {
            compact(Arc::make_mut(&mut self.state), kept, screen);
        }
    }

    /// Returns true if a terminal of an agent has ended and everything about it is persisted.
    pub(super) fn may_leave_memory(&self) -> bool {
        self.is_for_agent && self.pty.is_none() && self.call.is_none() && !self.is_dirty
    }

    /// Notes that a timer will persist it. Returns true if it has none yet.
    pub(super) fn schedule(&mut self) -> bool {
        !std::mem::replace(&mut self.is_scheduled, true)
    }

    /// Takes what is to be persisted now, if it changed.
    pub(super) fn take_record(&mut self) -> Option<TerminalRecord> {
        self.is_scheduled = false;
        let session = match &self.state.claim {
            TerminalClaim::Session(claim) => Some(claim.session.as_str().into()),
            TerminalClaim::Client(_) => None,
        };
        std::mem::take(&mut self.is_dirty).then(|| TerminalRecord {
            uri: Arc::clone(&self.uri),
            session,
            state: Arc::clone(&self.state),
        })
    }

    fn is_listed(&self) -> bool {
        !self.is_for_agent || self.pty.is_some()
    }

    fn info(&self) -> TerminalInfo {
        TerminalInfo {
            resource: self.uri.to_string(),
            title: self.state.title.clone(),
            claim: self.state.claim.clone(),
            lifecycle: self.state.lifecycle.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use ahp_types::actions::{TerminalClearedAction, TerminalDataAction, TerminalExitedAction};
    use serde_json::json;

    use super::*;

    const CHANNEL: ChannelId = ChannelId(7);
    const SESSION: ChannelId = ChannelId(3);

    fn opening(uri: &str) -> Opening {
        Opening {
            uri: uri.to_owned(),
            claim: serde_json::from_value(json!({ "kind": "client", "clientId": "c" })).expect("a claim"),
            name: None,
            size: TerminalSize::default(),
            asked_by: AskedBy::Agent(1),
        }
    }

    fn state() -> TerminalState {
        let state = json!({
            "title": "sh", "content": [], "lifecycle": { "status": "running" },
            "claim": { "kind": "client", "clientId": "c" },
        });
        serde_json::from_value(state).expect("a state")
    }

    /// Terminals with one whose process runs. `call` is the number of the agent's command that it runs.
    fn with_one(call: Option<u64>) -> (Terminals, PtyId) {
        let mut terminals = Terminals::default();
        let pty = terminals.begin_opening(opening("t:/a"));
        assert!(terminals.end_opening(pty).is_some());
        let mut terminal = Terminal::started("t:/a".into(), state(), pty, call, 0);
        terminal.set_session(Some(SESSION));
        terminals.insert(CHANNEL, terminal);
        terminals.take_changed_list();
        (terminals, pty)
    }

    fn exit(terminals: &mut Terminals) {
        terminals.end_process(CHANNEL);
        let exited = StateAction::TerminalExited(TerminalExitedAction { exit_code: None });
        assert_eq!(terminals.apply_action(CHANNEL, &exited), ReduceOutcome::Applied);
    }

    fn earlier(uri: &str) -> TerminalInfo {
        Terminal::recalled(uri.into(), state(), true).info()
    }

    #[test]
    fn a_start_of_a_program_ends_once() {
        let mut terminals = Terminals::default();
        let (one, two) = (
            terminals.begin_opening(opening("t:/a")),
            terminals.begin_opening(opening("t:/b")),
        );
        assert_ne!(one, two);
        assert!(terminals.is_opening("t:/a") && terminals.is_opening("t:/b"));
        assert_eq!(terminals.count(), 2, "they are counted before they run");
        assert_eq!(
            terminals.end_opening(one).map(|opening| opening.uri).as_deref(),
            Some("t:/a")
        );
        assert!(terminals.end_opening(one).is_none());
        assert!(!terminals.is_opening("t:/a"));
    }

    #[test]
    fn a_process_is_known_until_it_ends_or_its_terminal_is_removed() {
        let (mut terminals, pty) = with_one(None);
        assert_eq!(terminals.channel_of(pty), Some(CHANNEL));
        assert_eq!(terminals.get(CHANNEL).and_then(Terminal::process), Some(pty));
        assert!(terminals.runs_in(SESSION));
        assert_eq!(terminals.end_process(CHANNEL), Some(pty));
        assert_eq!(terminals.end_process(CHANNEL), None);
        assert_eq!(terminals.channel_of(pty), None);
        assert!(!terminals.runs_in(SESSION));
        let (mut terminals, pty) = with_one(None);
        assert!(terminals.remove(CHANNEL).is_some());
        assert_eq!((terminals.channel_of(pty), terminals.count()), (None, 0));
    }

    #[test]
    fn a_session_has_the_terminals_that_it_claims() {
        let (mut terminals, _) = with_one(None);
        assert_eq!(terminals.claimed_by(SESSION), [CHANNEL]);
        terminals.get_mut(CHANNEL).expect("a terminal").set_session(None);
        assert_eq!(terminals.claimed_by(SESSION), []);
        assert_eq!(terminals.channels(), [CHANNEL]);
    }

    #[test]
    fn the_list_is_published_after_changes_that_it_shows_and_no_others() {
        let (mut terminals, _) = with_one(None);
        let data = StateAction::TerminalData(TerminalDataAction { data: "x".to_owned() });
        terminals.apply_action(CHANNEL, &data);
        assert_eq!(terminals.take_changed_list(), None);
        exit(&mut terminals);
        assert_eq!(terminals.take_changed_list().map(|list| list.len()), Some(1));
        assert_eq!(terminals.take_changed_list(), None);
        terminals.remove(CHANNEL);
        assert_eq!(terminals.take_changed_list(), Some(Vec::new()));
    }

    #[test]
    fn a_terminal_of_an_agent_is_listed_while_its_command_runs() {
        let (mut terminals, _) = with_one(Some(5));
        assert_eq!(terminals.count(), 1);
        exit(&mut terminals);
        assert_eq!(terminals.count(), 0);
        assert_eq!(terminals.oldest_ended(|_| true), None, "it takes no room");
        let terminal = terminals.get_mut(CHANNEL).expect("in memory");
        assert!(terminal.take_record().is_some());
        assert!(!terminal.may_leave_memory(), "its tool call goes on");
        assert_eq!(terminals.end_call(5), Some(CHANNEL));
        assert_eq!(terminals.end_call(5), None);
        assert!(terminals.get(CHANNEL).is_some_and(Terminal::may_leave_memory));
    }

    #[test]
    fn only_a_terminal_that_has_ended_makes_room() {
        let (mut terminals, _) = with_one(None);
        assert_eq!(terminals.oldest_ended(|_| true), None);
        exit(&mut terminals);
        assert_eq!(terminals.oldest_ended(|channel| channel != CHANNEL), None);
        assert_eq!(terminals.oldest_ended(|_| true), Some(CHANNEL));
        terminals.restore_earlier(vec![earlier("t:/old"), earlier("t:/older")]);
        assert_eq!(terminals.count(), 3);
        assert_eq!(terminals.oldest_earlier().as_deref(), Some("t:/old"));
        assert!(terminals.forget_earlier("t:/old") && !terminals.forget_earlier("t:/old"));
        assert_eq!(terminals.count(), 2);
    }

    #[test]
    fn a_change_is_persisted_once_and_an_older_screen_is_not_drawn() {
        let (mut terminals, _) = with_one(None);
        let terminal = terminals.get_mut(CHANNEL).expect("a terminal");
        assert!(terminal.take_record().is_some());
        assert!(terminal.take_record().is_none());
        assert!(terminal.schedule() && !terminal.schedule());
        let data = StateAction::TerminalData(TerminalDataAction { data: "old".to_owned() });
        terminals.apply_action(CHANNEL, &data);
        let cleared = StateAction::TerminalCleared(TerminalClearedAction {});
        terminals.apply_action(CHANNEL, &cleared);
        let terminal = terminals.get_mut(CHANNEL).expect("a terminal");
        terminal.compact(0, "a screen before the clearing".to_owned(), 0);
        assert_eq!(terminal.state().content, []);
        terminal.compact(0, "SCREEN".to_owned(), 1);
        assert_eq!(terminal.state().content.len(), 1);
        assert!(terminal.take_record().is_some() && terminal.schedule());
    }
}
