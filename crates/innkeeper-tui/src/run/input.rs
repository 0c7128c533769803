//! Reads the keyboard in a thread, which can be paused while another program has the terminal.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crossterm::event::{Event as TerminalEvent, poll, read};
use innkeeper_cli::failure::{Failure, Kind};
use tokio::sync::mpsc;

use crate::event::Event;

/// How long the thread waits for a key before it looks whether it is paused.
const POLL: Duration = Duration::from_millis(50);
/// Keys that wait for the screen.
const MAX_KEYS: usize = 1024;

/// The keyboard.
pub(super) struct Keyboard {
    events: mpsc::Receiver<Event>,
    is_paused: Arc<AtomicBool>,
    /// The thread has noticed the pause.
    rests: Arc<AtomicBool>,
}

impl Keyboard {
    /// Starts the thread. It ends with the program, or when the terminal is closed.
    pub(super) fn start() -> Self {
        let (sender, events) = mpsc::channel(MAX_KEYS);
        let is_paused = Arc::new(AtomicBool::new(false));
        let rests = Arc::new(AtomicBool::new(false));
        let (paused, resting) = (Arc::clone(&is_paused), Arc::clone(&rests));
        std::thread::spawn(move || {
            loop {
                if paused.load(Ordering::SeqCst) {
                    resting.store(true, Ordering::SeqCst);
                    std::thread::sleep(POLL);
                    continue;
                }
                resting.store(false, Ordering::SeqCst);
                let event = match poll(POLL) {
                    Ok(false) => continue,
                    Ok(true) => read(),
                    Err(error) => Err(error),
                };
                let event = match event {
                    Ok(TerminalEvent::Key(key)) => Event::Key(key),
                    Ok(TerminalEvent::Paste(text)) => Event::Paste(text),
                    Ok(TerminalEvent::Mouse(mouse)) => Event::Mouse(mouse),
                    Ok(_) => Event::Redraw,
                    // Without a terminal there is nothing more to read.
                    Err(_) => return,
                };
                if sender.blocking_send(event).is_err() {
                    return;
                }
            }
        });
        Self {
            events,
            is_paused,
            rests,
        }
    }

    /// Waits for the next key.
    pub(super) async fn next(&mut self) -> Result<Event, Failure> {
        let event = self.events.recv().await;
        event.ok_or_else(|| Failure::new(Kind::OutputClosed, "the terminal was closed"))
    }

    /// Leaves the keys to another program.
    pub(super) async fn pause(&mut self) {
        self.is_paused.store(true, Ordering::SeqCst);
        while !self.rests.load(Ordering::SeqCst) && !self.events.is_closed() {
            tokio::time::sleep(POLL / 5).await;
        }
    }

    /// Takes the keys again.
    pub(super) fn resume(&mut self) {
        self.is_paused.store(false, Ordering::SeqCst);
    }
}
