//! Sessions that are gone, while something of theirs may still be under way.

use std::collections::VecDeque;

use innkeeper_std::sync::{Mutex, MutexGuard};

/// The number of closed sessions that are remembered. Work of a closed session is over long before that many others
/// close.
const MOST: usize = 4096;

/// The sessions that closed last: late results of their tools are not stored, because nothing would remove them.
#[derive(Debug, Default)]
pub struct ClosedSessions(Mutex<VecDeque<String>>);

impl ClosedSessions {
    /// A session is gone.
    pub fn close(&self, session: &str) {
        let mut closed = self.lock();
        closed.retain(|other| other != session);
        closed.push_back(session.to_owned());
        if closed.len() > MOST {
            closed.pop_front();
        }
    }

    /// There is a session of this URI, perhaps again.
    pub fn open(&self, session: &str) {
        self.lock().retain(|other| other != session);
    }

    /// Whether a session is gone.
    ///
    /// # Errors
    ///
    /// Fails if it is, with a sentence for users.
    pub fn check(&self, session: &str) -> Result<(), String> {
        match self.lock().iter().any(|other| other == session) {
            true => Err("its session is gone".to_owned()),
            false => Ok(()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<String>> {
        self.0.lock()
    }
}
