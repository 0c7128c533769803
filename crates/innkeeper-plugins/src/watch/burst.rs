//! Groups events that belong together: a save causes several of them, a checkout thousands.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How long nothing must happen before a burst is over.
const QUIET: Duration = Duration::from_millis(150);
/// How long a burst is waited for at most.
const LONGEST: Duration = Duration::from_secs(1);
/// Most paths that are remembered. Finding the parts of more of them takes as long as reading everything.
const MAX_PATHS: usize = 256;

/// The paths of a burst.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ChangedPaths {
    /// At these paths.
    Known(BTreeSet<PathBuf>),
    /// Events got lost, or there were too many paths.
    Unknown,
}

impl ChangedPaths {
    pub(super) fn at(paths: Vec<PathBuf>) -> Self {
        Self::Known(paths.into_iter().collect())
    }

    fn add(&mut self, more: Self) {
        match (&mut *self, more) {
            (Self::Known(places), Self::Known(more)) if places.len() + more.len() <= MAX_PATHS => places.extend(more),
            _ => *self = Self::Unknown,
        }
    }
}

/// A burst of events.
#[derive(Debug)]
pub(super) struct Burst {
    began: Instant,
    latest: Instant,
    happened: ChangedPaths,
}

impl Burst {
    pub(super) fn begin(now: Instant, happened: ChangedPaths) -> Self {
        Self {
            began: now,
            latest: now,
            happened,
        }
    }

    pub(super) fn go_on(&mut self, now: Instant, more: ChangedPaths) {
        self.latest = now;
        self.happened.add(more);
    }

    /// Events got lost, so the changed paths are not known.
    pub(super) fn lose(&mut self) {
        self.happened = ChangedPaths::Unknown;
    }

    /// The time at which it ends without further events.
    pub(super) fn ends_at(&self) -> Instant {
        (self.latest + QUIET).min(self.began + LONGEST)
    }

    pub(super) fn over(self) -> ChangedPaths {
        self.happened
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(path: &str) -> ChangedPaths {
        ChangedPaths::at(vec![PathBuf::from(path)])
    }

    /// A file that is written slowly is awaited for a limited time, so that half of it is not read.
    #[test]
    fn d54_a_file_written_in_pieces_is_waited_for_at_most_a_second() {
        let start = Instant::now();
        let after = |ms: u64| start + Duration::from_millis(ms);
        let mut burst = Burst::begin(start, at("/p/SKILL.md"));
        assert_eq!(burst.ends_at(), after(150));
        for ms in [100, 200, 300, 400] {
            burst.go_on(after(ms), at("/p/SKILL.md"));
            assert_eq!(burst.ends_at(), after(ms + 150), "a piece every 100 ms ends nothing");
        }
        for ms in (500..=900).step_by(100) {
            burst.go_on(after(ms), at("/p/SKILL.md"));
        }
        assert_eq!(burst.ends_at(), after(1_000), "who never stops is read all the same");
        assert_eq!(burst.over(), at("/p/SKILL.md"));
    }

    #[test]
    fn too_many_changed_paths_become_unknown() {
        let now = Instant::now();
        let mut burst = Burst::begin(now, at("/p/0"));
        for number in 1..MAX_PATHS {
            burst.go_on(now, at(&format!("/p/{number}")));
        }
        assert!(matches!(&burst.happened, ChangedPaths::Known(places) if places.len() == MAX_PATHS));
        burst.go_on(now, at("/p/more"));
        assert_eq!(burst.happened, ChangedPaths::Unknown);
        burst.go_on(now, at("/p/more"));
        assert_eq!(burst.over(), ChangedPaths::Unknown, "and stays so");
    }
}
