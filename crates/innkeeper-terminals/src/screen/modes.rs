//! Modes of a terminal that the emulator does not know or does not report.

/// The modes that a text leaves behind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Modes {
    /// The scroll region, if it is not the whole screen: its first and last row, counted from one.
    pub(super) region: Option<(u16, u16)>,
    /// Positions count from the scroll region, and the cursor stays in it.
    pub(super) is_relative: bool,
    /// Text does not wrap at the right edge.
    pub(super) is_unwrapped: bool,
    /// Text moves the text after it to the right.
    pub(super) inserts: bool,
    /// The program wants to know when the terminal gets and loses the focus.
    pub(super) reports_focus: bool,
    /// The character sets G0 and G1 are line drawing.
    pub(super) graphics: [bool; 2],
    /// G1 is in use.
    pub(super) is_shifted: bool,
}

impl Modes {
    /// Sets or resets a private mode (`CSI ? … h` and `l`).
    pub(super) fn set_private(&mut self, mode: &str, is_on: bool) {
        match mode {
            "6" => self.is_relative = is_on,
            "7" => self.is_unwrapped = !is_on,
            "1004" => self.reports_focus = is_on,
            _ => {}
        }
    }

    /// Returns the first row of the scroll region, counted from one.
    pub(super) fn top(&self) -> u16 {
        self.region.map_or(1, |(top, _)| top)
    }

    /// Returns the row from which positions count.
    pub(super) fn first_row(&self) -> u16 {
        if self.is_relative { self.top() - 1 } else { 0 }
    }

    /// Writes the scroll region. It moves the cursor.
    pub(super) fn write_region(&self, out: &mut String, height: u16) {
        if let Some((top, bottom)) = self.region
            && top < bottom
            && top <= height
        {
            out.push_str(&format!("\x1b[{top};{}r", bottom.min(height)));
        }
    }

    /// Writes all modes that do not move the cursor.
    pub(super) fn write(&self, out: &mut String) {
        let sequences = [
            (self.is_unwrapped, "\x1b[?7l"),
            (self.inserts, "\x1b[4h"),
            (self.reports_focus, "\x1b[?1004h"),
            (self.graphics[0], "\x1b(0"),
            (self.graphics[1], "\x1b)0"),
            (self.is_shifted, "\x0e"),
        ];
        for (is_on, sequence) in sequences {
            if is_on {
                out.push_str(sequence);
            }
        }
    }

    /// Returns the modes that decide about the effect of text, and that the emulator does not know.
    pub(super) fn changes_text(&self) -> (bool, bool, bool) {
        (self.draws_lines(), self.inserts, self.is_unwrapped)
    }

    /// Returns true if characters are drawn as lines.
    pub(super) fn draws_lines(&self) -> bool {
        self.graphics[usize::from(self.is_shifted)]
    }
}

/// Returns the character that the DEC line drawing set has in the place of an ASCII character.
pub(super) fn line_drawing(c: char) -> char {
    const DRAWN: [char; 31] = [
        '◆', '▒', '␉', '␌', '␍', '␊', '°', '±', '␤', '␋', '┘', '┐', '┌', '└', '┼', '⎺', '⎻', '─', '⎼', '⎽', '├', '┤',
        '┴', '┬', '│', '≤', '≥', 'π', '≠', '£', '·',
    ];
    let index = (c as usize).wrapping_sub('`' as usize);
    DRAWN.get(index).copied().unwrap_or(c)
}
