//! The list of sessions, grouped by their directories.

use ahp_types::state::{SessionStatus, SessionSummary};

use super::App;
use crate::text::path_of;

/// The state of the list.
#[derive(Debug, Default)]
pub struct Sidebar {
    /// Hides the list, for narrow terminals.
    pub(crate) is_hidden: bool,
    /// Shows archived sessions as well.
    pub(crate) shows_archived: bool,
    /// The session under the cursor.
    pub(crate) cursor: Option<String>,
    /// Shows only sessions whose title or directory has this text.
    pub(crate) filter: String,
    /// The rows as they were drawn, for the mouse.
    pub(crate) drawn: Vec<Option<String>>,
    /// The width as it was drawn.
    pub(crate) width: usize,
}

/// One row of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Row {
    /// A directory.
    Group(String),
    /// A session, by its URI.
    Session(String),
}

/// The state of a session in one sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sign {
    Waits,
    Works,
    Failed,
    Unread,
    Idle,
}

/// Returns the sign for the status of a session or chat.
pub(crate) fn sign(status: u32) -> Sign {
    let status = SessionStatus::from_bits(status);
    if status.contains(SessionStatus::InputNeeded) {
        Sign::Waits
    } else if status.contains(SessionStatus::InProgress) {
        Sign::Works
    } else if status.contains(SessionStatus::Error) {
        Sign::Failed
    } else if status.contains(SessionStatus::IsRead) {
        Sign::Idle
    } else {
        Sign::Unread
    }
}

pub(crate) fn is_archived(summary: &SessionSummary) -> bool {
    SessionStatus::from_bits(summary.status).contains(SessionStatus::IsArchived)
}

impl App {
    /// Returns the rows of the list: the group with the latest session first, and the latest session first in each.
    pub(crate) fn rows(&self) -> Vec<Row> {
        let mut sessions: Vec<(&SessionSummary, String)> = self
            .mirror
            .summaries
            .values()
            .filter(|summary| self.sidebar.shows_archived || !is_archived(summary))
            .map(|summary| (summary, self.directory_of(summary)))
            .filter(|(summary, directory)| {
                let filter = self.sidebar.filter.to_lowercase();
                summary.title.to_lowercase().contains(&filter) || directory.to_lowercase().contains(&filter)
            })
            .collect();
        sessions.sort_by(|(a, _), (b, _)| (&b.modified_at, &b.resource).cmp(&(&a.modified_at, &a.resource)));
        let mut groups: Vec<(String, Vec<Row>)> = Vec::new();
        for (summary, directory) in sessions {
            let row = Row::Session(summary.resource.clone());
            match groups.iter_mut().find(|(name, _)| *name == directory) {
                Some((_, rows)) => rows.push(row),
                None => groups.push((directory, vec![row])),
            }
        }
        groups
            .into_iter()
            .flat_map(|(name, rows)| std::iter::once(Row::Group(name)).chain(rows))
            .collect()
    }

    /// Returns the directory of a session as users write it.
    pub(crate) fn directory_of(&self, summary: &SessionSummary) -> String {
        let directory = summary.working_directories.iter().flatten().next();
        match directory {
            Some(uri) => path_of(uri, self.setup.home.as_deref()),
            None => "(no directory)".to_owned(),
        }
    }

    /// Returns the sessions in the order of the list.
    pub(crate) fn listed_sessions(&self) -> Vec<String> {
        let rows = self.rows().into_iter();
        rows.filter_map(|row| match row {
            Row::Session(uri) => Some(uri),
            Row::Group(_) => None,
        })
        .collect()
    }

    /// Moves the cursor of the list.
    pub(crate) fn move_cursor(&mut self, down: isize) {
        let sessions = self.listed_sessions();
        let current = self.sidebar.cursor.as_deref().or_else(|| self.session_uri());
        let position = current.and_then(|uri| sessions.iter().position(|session| session == uri));
        let last = sessions.len().saturating_sub(1);
        let next = position.map_or(0, |position| position.saturating_add_signed(down).min(last));
        self.sidebar.cursor = sessions.get(next).cloned();
    }

    /// Opens the session before or after the shown one.
    pub(crate) fn step_session(&mut self, down: isize) {
        self.sidebar.cursor = self.session_uri().map(str::to_owned);
        self.move_cursor(down);
        if let Some(uri) = self.sidebar.cursor.clone() {
            self.open_session(&uri);
        }
    }

    /// Returns the number of sessions that wait for the user.
    pub(crate) fn waiting_count(&self) -> usize {
        let sessions = self.mirror.summaries.values();
        sessions.filter(|summary| sign(summary.status) == Sign::Waits).count()
    }
}
