//! The vocabulary between the screen, the connection and the program: events go into [`App::update`], effects come out.
//!
//! [`App::update`]: crate::app::App::update

use std::path::PathBuf;

use ahp_types::actions::{ActionEnvelope, StateAction};
use ahp_types::notifications::PartialSessionSummary;
use ahp_types::state::{SessionSummary, Snapshot};
use crossterm::event::{KeyEvent, MouseEvent};
use serde_json::Value;

/// Something that happened.
#[derive(Debug)]
pub enum Event {
    /// The user pressed a key.
    Key(KeyEvent),
    /// The user pasted a text.
    Paste(String),
    /// The user used the mouse.
    Mouse(MouseEvent),
    /// The terminal has another size, or the screen has to be drawn for another reason.
    Redraw,
    /// Time has passed.
    Tick,
    /// The connection has news.
    Link(LinkEvent),
    /// A program that ran outside of the screen has ended.
    OutsideEnded(Result<(), String>),
}

/// A number that connects a request or a dispatched action with its outcome.
pub type Ticket = u64;

/// News of the connection.
#[derive(Debug)]
pub enum LinkEvent {
    /// No host runs, and one is being started.
    StartingHost,
    /// A connection is being opened.
    Connecting,
    /// The connection is open. Snapshots of everything that is not replayed follow.
    Connected(Box<HostInfo>),
    /// There is no connection; the next attempt comes by itself.
    Lost(String),
    /// The state of a channel.
    State(Box<Snapshot>),
    /// A channel does not exist any more.
    Gone(String),
    /// An action on a channel whose state was sent before.
    Action(Box<ActionEnvelope>),
    /// The host accepted an action of this client, or rejected it with a reason.
    Settled(Ticket, Option<String>),
    /// The response to a request.
    Reply(Ticket, Result<Value, String>),
    /// All sessions.
    Sessions(Vec<SessionSummary>),
    /// A new session.
    SessionAdded(Box<SessionSummary>),
    /// A session is gone.
    SessionRemoved(String),
    /// Some fields of a session's summary changed.
    SessionChanged(String, Box<PartialSessionSummary>),
}

/// The handshake's result that the screen needs.
#[derive(Clone, Debug, Default)]
pub struct HostInfo {
    /// The id under which actions of this client are echoed.
    pub client_id: String,
    /// Characters after which completions are requested.
    pub triggers: Vec<String>,
}

/// Something to do outside of the application's state.
#[derive(Debug)]
pub enum Effect {
    /// Dispatch an action.
    Dispatch(Ticket, String, Box<StateAction>),
    /// Send a request.
    Request(Ticket, &'static str, Value),
    /// Subscribe to a channel.
    Subscribe(String),
    /// Unsubscribe from a channel.
    Unsubscribe(String),
    /// Leave the screen, run a program in the user's terminal, and come back.
    Outside(Outside),
    /// Read a file of this machine as an attachment.
    ReadFile(Ticket, PathBuf),
    /// Connect now instead of waiting for the next attempt.
    ConnectNow,
    /// Ring the terminal's bell.
    Bell,
    /// End the program. The host and all turns go on.
    Quit,
}

/// A program that takes the user's terminal over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outside {
    /// A command of this program, with the flags that select the host added.
    Command(Vec<String>),
    /// The user's editor on the text of the composer.
    Editor(String),
}
