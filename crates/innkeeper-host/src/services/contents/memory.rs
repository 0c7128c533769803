//! Contents in memory: for hosts that keep nothing else either.

use std::collections::VecDeque;
use std::time::SystemTime;

use async_trait::async_trait;
use innkeeper_std::sync::{Mutex, MutexGuard};

use super::{ClosedSessions, ContentLimits, Contents};
use crate::services::resources::Content;

/// Keeps contents until the process ends.
#[derive(Debug)]
pub struct MemoryContents {
    limits: ContentLimits,
    /// The oldest first.
    kept: Mutex<VecDeque<StoredContent>>,
    closed: ClosedSessions,
}

#[derive(Debug)]
struct StoredContent {
    session: String,
    name: String,
    content: Content,
}

impl StoredContent {
    fn is(&self, session: &str, name: &str) -> bool {
        self.session == session && self.name == name
    }

    fn bytes(&self) -> u64 {
        u64::try_from(self.content.bytes.len()).unwrap_or(u64::MAX)
    }
}

impl MemoryContents {
    /// Keeps as much as the limits say.
    pub fn new(limits: ContentLimits) -> Self {
        Self {
            limits,
            kept: Mutex::default(),
            closed: ClosedSessions::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<StoredContent>> {
        self.kept.lock()
    }
}

#[async_trait]
impl Contents for MemoryContents {
    async fn keep(&self, session: &str, name: &str, content: Content) -> Result<(), String> {
        let added = StoredContent {
            session: session.to_owned(),
            name: name.to_owned(),
            content,
        };
        let most = self.room();
        if added.bytes() > most {
            return Err(format!("a session may keep {most} bytes"));
        }
        let mut kept = self.lock();
        self.closed.check(session)?;
        kept.retain(|kept| !kept.is(session, name));
        kept.push_back(added);
        let of_session = |kept: &StoredContent| kept.session == session;
        while kept
            .iter()
            .filter(|kept| of_session(kept))
            .map(StoredContent::bytes)
            .sum::<u64>()
            > self.limits.session_bytes
        {
            let Some(oldest) = kept.iter().position(of_session) else {
                break;
            };
            kept.remove(oldest);
        }
        while kept.iter().map(StoredContent::bytes).sum::<u64>() > self.limits.total_bytes {
            kept.pop_front();
        }
        Ok(())
    }

    async fn read(&self, session: &str, name: &str) -> Result<Option<Content>, String> {
        let kept = self.lock();
        let found = kept.iter().find(|kept| kept.is(session, name));
        Ok(found.map(|kept| kept.content.clone()))
    }

    /// It counts as older than everything else, so it gets what room there is.
    async fn restore(&self, session: &str, name: &str, content: Content, _: SystemTime) -> Result<bool, String> {
        let restored = StoredContent {
            session: session.to_owned(),
            name: name.to_owned(),
            content,
        };
        let mut kept = self.lock();
        self.closed.check(session)?;
        if kept.iter().any(|kept| kept.is(session, name)) {
            return Ok(true);
        }
        let total: u64 = kept.iter().map(StoredContent::bytes).sum();
        let of_session = kept.iter().filter(|kept| kept.session == session);
        let of_session: u64 = of_session.map(StoredContent::bytes).sum();
        let fits = of_session + restored.bytes() <= self.limits.session_bytes
            && total + restored.bytes() <= self.limits.total_bytes;
        if fits {
            kept.push_front(restored);
        }
        Ok(fits)
    }

    fn room(&self) -> u64 {
        self.limits.session_bytes.min(self.limits.total_bytes)
    }

    fn open(&self, session: &str) {
        self.closed.open(session);
    }

    fn close(&self, session: &str) {
        self.closed.close(session);
    }

    async fn forget(&self, session: &str) {
        self.lock().retain(|kept| kept.session != session);
    }
}
