//! The vocabulary between the screen, the connection and the program: events go into [`App::update`], effects come out.
//!
//! [`App::update`]: crate::app::App::update

use std::path::PathBuf;

use ahp_types::actions::StateAction;
use crossterm::event::{KeyEvent, MouseEvent};
use innkeeper_cli::connection::link::{LinkEvent, Ticket};
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

/// Something to do outside of the application's state.
#[derive(Debug)]
pub enum Effect {
    /// Dispatch an action.
    Dispatch(Ticket, String, Box<StateAction>),
    /// Send a request.
    Request(Ticket, &'static str, Value),
    /// Subscribe to a channel; to one that is subscribed to, to get its state anew.
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
