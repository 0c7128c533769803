//! The styles of the screen. Colours are the sixteen of the user's own palette, and none of them carries a meaning that
//! a word, a sign or an attribute does not carry as well.

use ratatui::style::{Color, Modifier, Style};

/// The styles, with or without colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Theme {
    has_colour: bool,
}

impl Theme {
    /// Chooses the theme: `NO_COLOR` with any value takes the colours away.
    pub fn from_environment() -> Self {
        Self {
            has_colour: std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
        }
    }

    /// The theme without colours.
    pub fn plain() -> Self {
        Self { has_colour: false }
    }

    /// The theme with colours.
    pub fn coloured() -> Self {
        Self { has_colour: true }
    }

    fn colour(self, colour: Color) -> Style {
        match self.has_colour {
            true => Style::new().fg(colour),
            false => Style::new(),
        }
    }

    /// Less important text.
    pub(crate) fn dim(self) -> Style {
        match self.has_colour {
            true => Style::new().fg(Color::DarkGray),
            false => Style::new().add_modifier(Modifier::DIM),
        }
    }

    /// Titles.
    pub(crate) fn bold(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// The selected row, and the cursor of a list.
    pub(crate) fn selected(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// The names of keys, and links.
    pub(crate) fn accent(self) -> Style {
        self.colour(Color::Cyan)
    }

    /// The user's own messages.
    pub(crate) fn own(self) -> Style {
        self.colour(Color::Green).add_modifier(Modifier::BOLD)
    }

    /// Something waits for the user.
    pub(crate) fn waits(self) -> Style {
        self.colour(Color::Yellow).add_modifier(Modifier::BOLD)
    }

    /// Something failed.
    pub(crate) fn failed(self) -> Style {
        self.colour(Color::Red).add_modifier(Modifier::BOLD)
    }

    /// Something succeeded.
    pub(crate) fn good(self) -> Style {
        self.colour(Color::Green)
    }

    /// Work in progress.
    pub(crate) fn busy(self) -> Style {
        self.colour(Color::Blue)
    }

    /// Code in running text.
    pub(crate) fn code(self) -> Style {
        match self.has_colour {
            true => Style::new().fg(Color::Yellow),
            false => Style::new().add_modifier(Modifier::BOLD),
        }
    }

    /// Added lines of a change.
    pub(crate) fn added(self) -> Style {
        self.colour(Color::Green)
    }

    /// Removed lines of a change.
    pub(crate) fn removed(self) -> Style {
        self.colour(Color::Red)
    }

    /// Keywords of code.
    pub(crate) fn keyword(self) -> Style {
        self.colour(Color::Magenta)
    }

    /// Strings of code.
    pub(crate) fn string(self) -> Style {
        self.colour(Color::Green)
    }

    /// Numbers of code.
    pub(crate) fn number(self) -> Style {
        self.colour(Color::Cyan)
    }
}
