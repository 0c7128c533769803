//! The log level of each session, where sessions share a server.
//!
//! MCP has one level per connection. The server is told the most verbose level that a session wants, and each session gets
//! the messages that it asked for.

use std::collections::BTreeMap;
use std::sync::Arc;

use innkeeper_std::sync::{Mutex, MutexGuard};

/// The levels of MCP, the most verbose first.
pub(super) const LEVELS: [&str; 8] = [
    "debug",
    "info",
    "notice",
    "warning",
    "error",
    "critical",
    "alert",
    "emergency",
];

/// The level of a session that has not set one, once another session has; also the level of unknown words.
const UNSAID: usize = 1;

/// The sessions that have a server, and the level of each.
#[derive(Debug, Default)]
pub(crate) struct LogLevels(Mutex<BTreeMap<Arc<str>, Option<usize>>>);

impl LogLevels {
    /// Adds a session.
    pub(crate) fn join(&self, session: &Arc<str>) {
        self.lock().entry(Arc::clone(session)).or_default();
    }

    /// Removes a session.
    pub(crate) fn leave(&self, session: &str) {
        self.lock().remove(session);
    }

    /// Returns the level that the server has to be told so that a session gets this level; nothing if it is unknown.
    pub(crate) fn to_tell(&self, session: &str, level: &str) -> Option<&'static str> {
        let wanted = LEVELS.iter().position(|known| *known == level)?;
        let levels = self.lock();
        let others = levels.iter().filter(|(other, _)| &***other != session);
        let of_others = others.map(|(_, level)| level.unwrap_or(UNSAID));
        LEVELS.get(of_others.fold(wanted, usize::min)).copied()
    }

    /// Sets the level of a session.
    pub(crate) fn set(&self, session: &Arc<str>, level: &str) {
        let wanted = LEVELS.iter().position(|known| *known == level);
        self.lock().insert(Arc::clone(session), wanted);
    }

    /// Returns true if a session gets messages of this level.
    pub(crate) fn hears(&self, session: &str, level: &str) -> bool {
        let levels = self.lock();
        let rank = LEVELS.iter().position(|known| *known == level).unwrap_or(UNSAID);
        match levels.get(session).copied().flatten() {
            Some(wanted) => rank >= wanted,
            // Without a level, the server decides what to send.
            None => rank >= UNSAID || levels.values().all(Option::is_none),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Option<usize>>> {
        self.0.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mcp15_each_session_gets_the_log_level_that_it_set() {
        let levels = LogLevels::default();
        let [ann, bob, eve] = ["ann", "bob", "eve"].map(Arc::<str>::from);
        for session in [&ann, &bob, &eve] {
            levels.join(session);
            assert!(levels.hears(session, "debug"), "no session chose a level");
        }
        assert_eq!(
            levels.to_tell(&ann, "loud"),
            None,
            "the server says what is wrong with it"
        );
        assert_eq!(levels.to_tell(&ann, "error"), Some("info"), "others have not said that");
        levels.set(&ann, "error");
        assert_eq!(levels.to_tell(&bob, "debug"), Some("debug"));
        levels.set(&bob, "debug");
        let heard = |level: &str| [&ann, &bob, &eve].map(|session| levels.hears(session, level));
        assert_eq!(heard("debug"), [false, true, false]);
        assert_eq!(heard("info"), [false, true, true]);
        assert_eq!(heard("emergency"), [true, true, true]);
        assert_eq!(heard("loud"), [false, true, true]);
        levels.leave(&bob);
        levels.leave(&eve);
        assert_eq!(
            levels.to_tell(&ann, "alert"),
            Some("alert"),
            "there is no other session"
        );
    }
}
