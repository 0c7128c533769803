//! The `[retention]` section: the sessions that may be deleted. By default none is.

use innkeeper_store::RetentionPolicy;
use serde::Deserialize;

const DAY_MS: i64 = 24 * 60 * 60 * 1000;

/// The keys of `[retention]`.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub(crate) struct Retention {
    /// Whether a running host applies the limits by itself.
    pub(crate) enabled: bool,
    /// Whether only archived sessions may be deleted.
    pub(crate) archived_only: bool,
    /// Age in days after which unchanged sessions are deleted.
    pub(crate) max_age_days: Option<u32>,
    /// Total size above which the oldest sessions are deleted.
    pub(crate) max_total_bytes: Option<u64>,
    /// Days for which a deletion can be undone.
    pub(crate) deleted_days: u32,
}

impl Default for Retention {
    fn default() -> Self {
        Self {
            enabled: false,
            archived_only: true,
            max_age_days: None,
            max_total_bytes: None,
            deleted_days: 7,
        }
    }
}

impl Retention {
    /// Checks the values. The error has the key and its problem.
    pub(super) fn check(&self) -> Result<(), (&'static str, &'static str)> {
        match self.max_age_days {
            // Every idle session would be too old at once.
            Some(0) => Err(("max_age_days", "must be at least 1")),
            _ => Ok(()),
        }
    }

    /// Returns for how many milliseconds a deletion can be undone.
    pub(crate) fn undo_delete_ms(&self) -> u64 {
        u64::from(self.deleted_days) * DAY_MS.unsigned_abs()
    }

    /// Returns whether there is a limit.
    pub(crate) fn has_limits(&self) -> bool {
        self.max_age_days.is_some() || self.max_total_bytes.is_some()
    }

    /// Returns the policy for the store at a time.
    pub(crate) fn policy(&self, now: jiff::Timestamp) -> RetentionPolicy {
        let since = |days: u32| now.as_millisecond() - i64::from(days) * DAY_MS;
        RetentionPolicy {
            unchanged_since_ms: self.max_age_days.map(since),
            total_bytes: self.max_total_bytes,
            archived_only: self.archived_only,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_limits_no_session_may_be_deleted() {
        let retention: Retention = toml::from_str("").unwrap();
        assert_eq!(retention, Retention::default());
        assert!(!retention.enabled && !retention.has_limits() && retention.archived_only);
        assert_eq!(retention.undo_delete_ms(), 7 * 24 * 60 * 60 * 1000);
        let policy = retention.policy(jiff::Timestamp::UNIX_EPOCH);
        assert_eq!((policy.unchanged_since_ms, policy.total_bytes), (None, None));
    }

    #[test]
    fn days_become_a_moment() {
        let retention: Retention = toml::from_str("max_age_days = 2\narchived_only = false").unwrap();
        let now = jiff::Timestamp::from_millisecond(3 * DAY_MS).unwrap();
        assert_eq!(retention.policy(now).unchanged_since_ms, Some(DAY_MS));
        assert!(!retention.policy(now).archived_only);
    }

    #[test]
    fn an_age_of_no_days_is_a_mistake() {
        let retention: Retention = toml::from_str("max_age_days = 0").unwrap();
        assert!(retention.check().is_err());
    }
}
