//! How much of a server's log each session wants, where sessions share the server.
//!
//! MCP has one level for a connection. The server is told the most talkative one that anybody wants, and each session
//! hears what it asked for.

use std::collections::BTreeMap;
use std::sync::Arc;

use innkeeper_std::sync::{Mutex, MutexGuard};

/// The levels of MCP, the most talkative first.
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

/// What a session hears that has not said anything, once another one has; also what a word counts as that is no level.
const UNSAID: usize = 1;

/// The sessions that have a server, and what each wants to hear.
#[derive(Debug, Default)]
pub(crate) struct Levels(Mutex<BTreeMap<Arc<str>, Option<usize>>>);

impl Levels {
    /// Another session has the server.
    pub(crate) fn join(&self, session: &Arc<str>) {
        self.lock().entry(Arc::clone(session)).or_default();
    }

    /// One has it no more.
    pub(crate) fn leave(&self, session: &str) {
        self.lock().remove(session);
    }

    /// What the server has to be told so that a session hears this level; nothing if it is none.
    pub(crate) fn to_tell(&self, session: &str, level: &str) -> Option<&'static str> {
        let wanted = LEVELS.iter().position(|known| *known == level)?;
        let levels = self.lock();
        let others = levels.iter().filter(|(other, _)| &***other != session);
        let of_others = others.map(|(_, level)| level.unwrap_or(UNSAID));
        LEVELS.get(of_others.fold(wanted, usize::min)).copied()
    }

    /// From now on a session hears this level.
    pub(crate) fn set(&self, session: &Arc<str>, level: &str) {
        let wanted = LEVELS.iter().position(|known| *known == level);
        self.lock().insert(Arc::clone(session), wanted);
    }

    /// Whether a session hears a line of this level.
    pub(crate) fn hears(&self, session: &str, level: &str) -> bool {
        let levels = self.lock();
        let rank = LEVELS.iter().position(|known| *known == level).unwrap_or(UNSAID);
        match levels.get(session).copied().flatten() {
            Some(wanted) => rank >= wanted,
            // What a server says of its own accord is up to the server.
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
    fn mcp15_each_session_hears_the_level_that_it_asked_for() {
        let levels = Levels::default();
        let [ann, bob, eve] = ["ann", "bob", "eve"].map(Arc::<str>::from);
        for session in [&ann, &bob, &eve] {
            levels.join(session);
            assert!(levels.hears(session, "debug"), "nobody has said anything");
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
        assert_eq!(levels.to_tell(&ann, "alert"), Some("alert"), "there is nobody else");
    }
}
