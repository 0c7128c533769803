//! The user's terminal in full-screen mode. Leaving restores it, also after a panic.

use std::io::{Stdout, stdout};

use crossterm::event::{DisableBracketedPaste, DisableMouseCapture, EnableBracketedPaste, EnableMouseCapture};
use crossterm::execute;
use crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use innkeeper_cli::failure::{Failure, Kind};
use ratatui::backend::CrosstermBackend;
use ratatui::layout::Rect;
use ratatui::{Frame, Terminal};

/// The full-screen mode; dropping it ends the mode.
pub(super) struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
    takes_mouse: bool,
}

impl Screen {
    /// Enters full-screen mode.
    pub(super) fn enter(takes_mouse: bool) -> Result<Self, Failure> {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            restore();
            hook(panic);
        }));
        let terminal = Terminal::new(CrosstermBackend::new(stdout())).map_err(|error| unusable(&error))?;
        let mut screen = Self { terminal, takes_mouse };
        screen.enter_again()?;
        Ok(screen)
    }

    /// Enters the mode after [`Self::leave`], and draws everything anew.
    pub(super) fn enter_again(&mut self) -> Result<(), Failure> {
        enable_raw_mode().map_err(|error| unusable(&error))?;
        execute!(stdout(), EnterAlternateScreen, EnableBracketedPaste).map_err(|error| unusable(&error))?;
        if self.takes_mouse {
            execute!(stdout(), EnableMouseCapture).map_err(|error| unusable(&error))?;
        }
        // `Terminal::clear` would ask the terminal where its cursor is, and not every terminal answers in time.
        let size = self.terminal.size().map_err(|error| unusable(&error))?;
        let area = Rect::new(0, 0, size.width, size.height);
        self.terminal.resize(area).map_err(|error| unusable(&error))
    }

    /// Ends the mode for a while.
    pub(super) fn leave(&mut self) {
        restore();
    }

    /// Draws a frame; only cells that changed are written.
    pub(super) fn draw(&mut self, render: impl FnOnce(&mut Frame<'_>)) -> Result<(), Failure> {
        let drawn = self.terminal.draw(render);
        drawn.map(|_| ()).map_err(|error| unusable(&error))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

fn restore() {
    // Each step is worth trying, whatever became of the others.
    let _ = execute!(
        stdout(),
        DisableMouseCapture,
        DisableBracketedPaste,
        LeaveAlternateScreen
    );
    let _ = execute!(stdout(), crossterm::cursor::Show);
    let _ = disable_raw_mode();
}

fn unusable(error: &std::io::Error) -> Failure {
    let kind = match error.kind() {
        std::io::ErrorKind::BrokenPipe => Kind::OutputClosed,
        _ => Kind::Unexpected,
    };
    Failure::new(kind, format!("the terminal cannot be used ({error})"))
}
