//! The user's own terminal: its size, and every key as it is typed.

use std::io::IsTerminal as _;

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

/// Raw mode of the user's terminal, until it is dropped.
pub(super) struct RawMode {
    before: Option<Termios>,
}

impl RawMode {
    /// Switches raw mode on. Without a terminal, as in a script, it does nothing.
    pub(super) fn enter() -> Self {
        let stdin = std::io::stdin();
        let before = stdin.is_terminal().then(|| tcgetattr(&stdin).ok()).flatten();
        if let Some(before) = &before {
            let mut raw = before.clone();
            raw.make_raw();
            let _ = tcsetattr(&stdin, OptionalActions::Now, &raw);
        }
        Self { before }
    }

    /// Returns true if the user types into a terminal.
    pub(super) fn is_on(&self) -> bool {
        self.before.is_some()
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, before);
        }
    }
}

/// Returns the width and height of the user's terminal.
pub(super) fn size() -> Option<(u16, u16)> {
    let size = tcgetwinsize(std::io::stdout()).ok()?;
    (size.ws_col > 0 && size.ws_row > 0).then_some((size.ws_col, size.ws_row))
}
