//! The state of the screen, without IO: [`App::update`] takes an event and returns effects, and the view draws it.

pub(crate) mod changes;
pub(crate) mod chats;
pub(crate) mod commands;
pub(crate) mod completion;
pub(crate) mod composer;
pub(crate) mod dialog;
pub(crate) mod drafts;
pub(crate) mod editor;
mod keys;
mod links;
pub(crate) mod messages;
pub(crate) mod pickers;
pub(crate) mod prompt;
pub(crate) mod sessions;
pub(crate) mod sidebar;
pub(crate) mod transcript;

use std::collections::{HashMap, HashSet};

use ahp_types::actions::StateAction;
use ahp_types::state::{ChatState, SessionState};
use innkeeper_cli::connection::contents::Contents;
use innkeeper_cli::connection::link::{HostInfo, LinkEvent, Ticket};
use innkeeper_cli::connection::mirror::Mirror;
use jiff::Timestamp;
use serde_json::Value;

use crate::event::{Effect, Event};
use crate::theme::Theme;

use completion::Completion;
use composer::{Composer, History};
use dialog::Dialog;
use messages::{Sending, Starting};
use prompt::Prompt;
use sidebar::Sidebar;
use transcript::Transcript;

/// How long a notice is shown, in milliseconds.
const NOTICE_MS: i64 = 6000;

/// Facts about this machine and the command line.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The styles.
    pub theme: Theme,
    /// The directory of new sessions, unless the user chooses another one.
    pub directory: Option<String>,
    /// The user's home directory, for short paths.
    pub home: Option<String>,
    /// The session to open at first, by its URI or the beginning of it or of its last part.
    pub session: Option<String>,
    /// Opens the latest session at first.
    pub latest: bool,
}

/// The state of the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkStatus {
    /// The first attempt, or a new one.
    Connecting,
    /// No host ran, so one is being started.
    StartingHost,
    /// Everything that is shown is up to date.
    Connected,
    /// The connection broke, for this reason; attempts go on.
    Lost(String),
}

/// The part of the screen that gets the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Focus {
    /// The message.
    Composer,
    /// The blocks of the chat.
    Transcript,
    /// The list of sessions.
    Sessions,
    /// The approval or form that waits.
    Prompt,
}

/// The chat that is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selected {
    /// A session that begins with the next message.
    New,
    /// A session; its chat is known once its state has arrived.
    Session {
        /// The session.
        session: String,
        /// The chat in it.
        chat: Option<String>,
    },
}

/// A line that is shown for a few seconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Notice {
    pub(crate) text: String,
    pub(crate) is_error: bool,
    until: i64,
}

/// The purpose of a request or a dispatched action, for its outcome.
#[derive(Debug)]
enum Purpose {
    /// A message to a chat.
    Message(Box<Sending>),
    /// The creation of a session.
    CreateSession,
    /// Anything whose failure is worth a notice.
    Report(&'static str),
    /// Anything whose failure does not matter.
    Ignore,
    /// The answer to what waits, by its id.
    Answer(String),
    /// The contents of a file.
    Content(String),
    /// Completions for a text.
    Completions(String),
    /// A new chat, which is opened.
    OpenChat(String),
    /// A deletion that can be undone.
    Delete(String),
    /// A restored session, which is opened.
    Restore(String),
    /// A file for an attachment.
    Attach(String),
    /// An operation on changes.
    Operation(String),
}

/// How soon the screen has to be drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Redraw {
    /// The user did something or waits for something.
    AtOnce,
    /// Only text was streamed. More will come, and no reader sees each piece.
    WithMore,
}

/// Returns true if an event only adds text to what a model or a program writes.
fn is_streamed(event: &LinkEvent) -> bool {
    let LinkEvent::Action(envelope) = event else {
        return false;
    };
    matches!(
        envelope.action,
        StateAction::ChatDelta(_)
            | StateAction::ChatReasoning(_)
            | StateAction::ChatToolCallDelta(_)
            | StateAction::ChatToolCallContentChanged(_)
            | StateAction::TerminalData(_)
    )
}

/// The state of the screen.
#[derive(Debug)]
pub struct App {
    pub(crate) setup: Setup,
    pub(crate) mirror: Mirror,
    pub(crate) status: LinkStatus,
    pub(crate) info: HostInfo,
    pub(crate) now: Timestamp,
    pub(crate) selected: Selected,
    pub(crate) focus: Focus,
    pub(crate) provider: Option<String>,
    pub(crate) composers: HashMap<String, Composer>,
    pub(crate) history: History,
    pub(crate) sidebar: Sidebar,
    pub(crate) transcript: Transcript,
    pub(crate) dialog: Option<Dialog>,
    pub(crate) prompt: Option<Prompt>,
    pub(crate) completion: Option<Completion>,
    pub(crate) contents: Contents,
    pub(crate) notice: Option<Notice>,
    /// The model and custom agent of the next messages, by session.
    pub(crate) models: HashMap<String, String>,
    pub(crate) custom_agents: HashMap<String, String>,
    pub(crate) last_deleted: Option<String>,
    /// Columns of the message as it was drawn.
    pub(crate) message_width: usize,
    starting: Option<Starting>,
    opened: Vec<String>,
    /// The changes that a window shows or asks about.
    followed_changes: Option<String>,
    subscribed: HashSet<String>,
    /// Turns that the state of each chat came with.
    fetched_turns: HashMap<String, usize>,
    requests: HashMap<Ticket, Purpose>,
    next_ticket: Ticket,
    effects: Vec<Effect>,
    has_listed: bool,
    /// The number of connections so far.
    connections: u64,
    is_dirty: bool,
    /// Streamed text has arrived that is not drawn yet.
    has_streamed: bool,
}

impl App {
    /// Creates the state before the first connection.
    pub fn new(setup: Setup, now: Timestamp) -> Self {
        Self {
            setup,
            mirror: Mirror::default(),
            status: LinkStatus::Connecting,
            info: HostInfo::default(),
            now,
            selected: Selected::New,
            focus: Focus::Composer,
            provider: None,
            composers: HashMap::new(),
            history: History::default(),
            sidebar: Sidebar::default(),
            transcript: Transcript::default(),
            dialog: None,
            prompt: None,
            completion: None,
            contents: Contents::default(),
            notice: None,
            models: HashMap::new(),
            custom_agents: HashMap::new(),
            last_deleted: None,
            message_width: 60,
            starting: None,
            opened: Vec::new(),
            followed_changes: None,
            subscribed: HashSet::new(),
            fetched_turns: HashMap::new(),
            requests: HashMap::new(),
            next_ticket: 1,
            effects: Vec::new(),
            has_listed: false,
            connections: 0,
            is_dirty: true,
            has_streamed: false,
        }
    }

    /// Takes an event at a time, and returns what follows from it.
    pub fn update(&mut self, now: Timestamp, event: Event) -> Vec<Effect> {
        let before = std::mem::replace(&mut self.now, now);
        match event {
            Event::Key(key) => {
                self.is_dirty = true;
                self.handle_key(key);
            }
            Event::Paste(text) => {
                self.is_dirty = true;
                self.handle_paste(&text);
            }
            Event::Mouse(mouse) => self.handle_mouse(mouse),
            Event::Redraw => self.is_dirty = true,
            Event::Tick => self.handle_tick(before),
            Event::Link(event) => {
                match is_streamed(&event) {
                    true => self.has_streamed = true,
                    false => self.is_dirty = true,
                }
                self.handle_link(event);
            }
            Event::OutsideEnded(result) => {
                self.is_dirty = true;
                if let Err(reason) = result {
                    self.complain(&reason);
                }
            }
        }
        self.follow_state();
        self.follow_changes();
        std::mem::take(&mut self.effects)
    }

    /// Returns how soon the screen has to be drawn, if it has to be.
    pub fn redraw(&self) -> Option<Redraw> {
        match (self.is_dirty, self.has_streamed) {
            (true, _) => Some(Redraw::AtOnce),
            (false, true) => Some(Redraw::WithMore),
            (false, false) => None,
        }
    }

    /// Notes that the screen shows everything.
    pub fn mark_drawn(&mut self) {
        self.is_dirty = false;
        self.has_streamed = false;
    }

    /// Brings everything in line that follows from the state of the host.
    fn follow_state(&mut self) {
        self.follow_selection();
        self.drop_old_turns();
        self.follow_starting();
        self.follow_waiting_sessions();
        self.follow_prompt();
        self.follow_contents();
        self.follow_read_mark();
    }

    fn handle_tick(&mut self, before: Timestamp) {
        if self
            .notice
            .as_ref()
            .is_some_and(|notice| notice.until <= self.now.as_millisecond())
        {
            self.notice = None;
            self.is_dirty = true;
        }
        let is_running = self.chat().is_some_and(|chat| chat.active_turn.is_some());
        let second = |time: Timestamp| time.as_second();
        if (is_running && second(before) != second(self.now)) || second(before) / 30 != second(self.now) / 30 {
            self.is_dirty = true;
        }
        self.sync_draft();
    }

    /// Returns the session that is shown.
    pub(crate) fn session_uri(&self) -> Option<&str> {
        match &self.selected {
            Selected::New => None,
            Selected::Session { session, .. } => Some(session),
        }
    }

    /// Returns the state of the session that is shown.
    pub(crate) fn session(&self) -> Option<&SessionState> {
        self.mirror.sessions.get(self.session_uri()?)
    }

    /// Returns the chat that is shown.
    pub(crate) fn chat_uri(&self) -> Option<&str> {
        match &self.selected {
            Selected::New => None,
            Selected::Session { chat, .. } => chat.as_deref(),
        }
    }

    /// Returns the state of the chat that is shown.
    pub(crate) fn chat(&self) -> Option<&ChatState> {
        self.mirror.chats.get(self.chat_uri()?)
    }

    /// Returns the key of the composer that is shown: its chat, or nothing for a new session.
    fn composer_key(&self) -> String {
        match &self.selected {
            Selected::New => String::new(),
            Selected::Session { session, chat } => chat.clone().unwrap_or_else(|| session.clone()),
        }
    }

    /// Returns the message that the user writes.
    pub(crate) fn composer(&mut self) -> &mut Composer {
        let key = self.composer_key();
        self.composers.entry(key).or_default()
    }

    /// Replaces the message, after the user wrote it elsewhere.
    pub(crate) fn replace_message(&mut self, text: &str) {
        let mut editor = editor::Editor::default();
        editor.insert(text.trim_end());
        self.composer().editor = editor;
    }

    fn composer_width(&self) -> usize {
        self.message_width
    }

    /// Returns true if the user has written something.
    pub(crate) fn has_text(&self) -> bool {
        let composer = self.composers.get(&self.composer_key());
        composer.is_some_and(|composer| !composer.editor.is_empty())
    }

    fn ticket(&mut self, purpose: Purpose) -> Ticket {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.requests.insert(ticket, purpose);
        ticket
    }

    fn dispatch(&mut self, purpose: Purpose, channel: &str, action: StateAction) {
        let ticket = self.ticket(purpose);
        self.effects
            .push(Effect::Dispatch(ticket, channel.to_owned(), Box::new(action)));
    }

    fn request(&mut self, purpose: Purpose, method: &'static str, params: Value) {
        let ticket = self.ticket(purpose);
        self.effects.push(Effect::Request(ticket, method, params));
    }

    fn subscribe(&mut self, uri: &str) {
        if self.subscribed.insert(uri.to_owned()) {
            self.effects.push(Effect::Subscribe(uri.to_owned()));
        }
    }

    fn unsubscribe(&mut self, uri: &str) {
        if self.subscribed.remove(uri) {
            self.mirror.forget(uri);
            self.fetched_turns.remove(uri);
            self.effects.push(Effect::Unsubscribe(uri.to_owned()));
        }
    }

    /// Shows a line for a few seconds.
    pub(crate) fn tell(&mut self, text: impl Into<String>) {
        self.set_notice(text.into(), false);
    }

    /// Shows a problem for a few seconds.
    pub(crate) fn complain(&mut self, text: &str) {
        self.set_notice(text.to_owned(), true);
    }

    fn set_notice(&mut self, text: String, is_error: bool) {
        self.notice = Some(Notice {
            text,
            is_error,
            until: self.now.as_millisecond() + NOTICE_MS,
        });
    }
}
