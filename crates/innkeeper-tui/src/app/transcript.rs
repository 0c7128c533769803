//! The position in the chat: what is scrolled to, folded and selected.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use ratatui::text::Line;

use super::App;
use crate::event::Effect;
use crate::text::markdown::Growing;

/// The state of the chat's view.
#[derive(Debug, Default)]
pub struct Transcript {
    /// The first visible line, unless the view follows the end.
    pub(crate) top: Option<usize>,
    /// Blocks that are folded or unfolded against the default.
    pub(crate) folds: HashMap<String, bool>,
    /// Shows all details.
    pub(crate) shows_all: bool,
    /// The selected block.
    pub(crate) selected: Option<String>,
    /// Sizes of the last drawing: all lines, and the visible ones.
    pub(crate) total: usize,
    pub(crate) height: usize,
    /// The blocks as they were drawn, with their first lines.
    pub(crate) blocks: Vec<DrawnBlock>,
    /// Rendered blocks by their id, with a fingerprint of what they show.
    pub(crate) cache: HashMap<String, (u64, Rc<Vec<Line<'static>>>)>,
    /// Rendered answers by their id. They grow while they are streamed.
    pub(crate) answers: HashMap<String, Growing>,
    /// Older turns were requested with this cursor.
    pub(crate) requested: Option<String>,
    /// The number of turns at the last drawing, to hold the position when older ones arrive.
    pub(crate) first_turn: Option<String>,
}

/// A block of the last drawing.
#[derive(Clone, Debug)]
pub(crate) struct DrawnBlock {
    pub(crate) id: String,
    pub(crate) start: usize,
    pub(crate) lines: usize,
    pub(crate) is_foldable: bool,
    /// The chat of a subagent, or the terminal, that the block leads to.
    pub(crate) target: Option<String>,
}

impl Transcript {
    /// Follows the end of the chat.
    pub(crate) fn follow(&mut self) {
        self.top = None;
    }

    /// Forgets what was rendered of blocks that are gone.
    pub(crate) fn forget_old_blocks(&mut self) {
        let most = 2 * self.blocks.len() + 100;
        if self.cache.len() <= most && self.answers.len() <= most {
            return;
        }
        let live: HashSet<&str> = self.blocks.iter().map(|block| block.id.as_str()).collect();
        self.cache.retain(|id, _| live.contains(id.as_str()));
        self.answers.retain(|id, _| live.contains(id.as_str()));
    }

    /// Forgets everything about the previous chat.
    pub(crate) fn reset(&mut self) {
        *self = Self {
            shows_all: self.shows_all,
            height: self.height,
            ..Self::default()
        };
    }

    /// Scrolls by lines.
    pub(crate) fn scroll(&mut self, down: isize) {
        let last = self.total.saturating_sub(self.height);
        let top = self.top.unwrap_or(last).saturating_add_signed(down);
        self.top = (top < last).then_some(top);
    }

    /// Scrolls by almost a screen.
    pub(crate) fn page(&mut self, pages: isize) {
        let lines = isize::try_from(self.height.saturating_sub(2).max(1)).unwrap_or(isize::MAX);
        self.scroll(pages.saturating_mul(lines));
    }

    /// Returns true if a block shows its details.
    pub(crate) fn is_open(&self, id: &str) -> bool {
        self.folds.get(id).copied().unwrap_or(self.shows_all)
    }

    /// Folds or unfolds a block.
    pub(crate) fn toggle(&mut self, id: &str) {
        let is_open = self.is_open(id);
        self.folds.insert(id.to_owned(), !is_open);
    }

    /// Folds or unfolds everything.
    pub(crate) fn toggle_all(&mut self) {
        self.folds.clear();
        self.shows_all = !self.shows_all;
    }

    /// Selects the next or previous block that has details, and scrolls to it.
    pub(crate) fn step(&mut self, down: isize) {
        let foldable: Vec<DrawnBlock> = self.blocks.iter().filter(|block| block.is_foldable).cloned().collect();
        let Some(last) = foldable.len().checked_sub(1) else {
            return self.scroll(down);
        };
        let position = foldable
            .iter()
            .position(|block| Some(&block.id) == self.selected.as_ref());
        let next = match position {
            Some(position) => position.saturating_add_signed(down).min(last),
            None => last,
        };
        if let Some(block) = foldable.get(next) {
            self.selected = Some(block.id.clone());
            self.scroll_to(block.start, block.lines);
        }
    }

    fn scroll_to(&mut self, start: usize, lines: usize) {
        let end = self.total.saturating_sub(self.height);
        let top = self.top.unwrap_or(end);
        let top = match () {
            () if start < top => start,
            () if start + lines.min(self.height) > top + self.height => (start + lines.min(self.height)) - self.height,
            () => top,
        };
        self.top = (top < end).then_some(top);
    }

    /// Returns the selected block.
    pub(crate) fn selected_block(&self) -> Option<&DrawnBlock> {
        let id = self.selected.as_ref()?;
        self.blocks.iter().find(|block| block.id == *id)
    }
}

/// Turns of a chat that are held while its end is shown.
const MAX_TURNS: usize = 400;

impl App {
    /// Fetches long chats anew, with their latest turns alone, so that a chat of days needs no more memory than one of
    /// hours.
    pub(super) fn drop_old_turns(&mut self) {
        let read = self.chat_uri().filter(|_| self.transcript.top.is_some());
        let mut long = Vec::new();
        for (uri, chat) in &self.mirror.chats {
            // A host that sends all turns must not be asked again and again.
            let fetched = self.fetched_turns.get(uri).copied().unwrap_or_default();
            if chat.turns.len() > MAX_TURNS.max(2 * fetched) && read != Some(uri) {
                long.push((uri.clone(), chat.turns.len()));
            }
        }
        for (uri, turns) in long {
            self.fetched_turns.insert(uri.clone(), turns);
            self.effects.push(Effect::Subscribe(uri));
        }
    }

    /// Notes how many turns the state of a chat came with.
    pub(super) fn note_fetched_turns(&mut self, uri: &str) {
        if let Some(chat) = self.mirror.chats.get(uri) {
            self.fetched_turns.insert(uri.to_owned(), chat.turns.len());
        }
    }

    /// Requests older turns when the user has scrolled to the first one.
    pub(crate) fn load_older(&mut self) {
        if self.transcript.top.is_none_or(|top| top > self.transcript.height) {
            return;
        }
        let Some((chat, cursor)) = self
            .chat()
            .and_then(|chat| Some((chat.resource.clone(), chat.turns_next_cursor.clone()?)))
        else {
            return;
        };
        if self.transcript.requested.as_ref() == Some(&cursor) {
            return;
        }
        self.transcript.requested = Some(cursor.clone());
        let params = serde_json::json!({ "channel": chat, "cursor": cursor });
        self.request(super::Purpose::Ignore, "fetchTurns", params);
    }
}
