//! Waits for the customizations of a session.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::turn::TurnCustomizations;
use crate::services::mcp::Mcp;

/// How long to wait without a notice. Most sets are known long before. A chat that opens continues without them,
/// because each of its turns waits by itself.
const FIRST_TIME: Duration = Duration::from_secs(5);

/// A watch on the customizations of a session.
#[derive(Debug, Clone, Default)]
pub(crate) struct CustomizationsWatch {
    found: Option<watch::Receiver<Option<TurnCustomizations>>>,
    off: Arc<BTreeSet<String>>,
    mcp: Mcp,
}

impl CustomizationsWatch {
    pub(crate) fn new(found: watch::Receiver<Option<TurnCustomizations>>, off: Arc<BTreeSet<String>>) -> Self {
        Self {
            found: Some(found),
            off,
            mcp: Mcp::default(),
        }
    }

    /// Adds the session's MCP servers.
    pub(crate) fn with_mcp(self, mcp: Mcp) -> Self {
        Self { mcp, ..self }
    }

    /// Returns the current customizations. A report newer than the turn carries its own disabled ids, because they were
    /// not known when the turn began.
    pub(crate) fn now(&self) -> TurnCustomizations {
        let found = self.found.as_ref();
        let is_newer = found.is_some_and(|found| found.has_changed().unwrap_or(false));
        let reported = found.and_then(|found| found.borrow().clone());
        let mut customizations = reported.unwrap_or_default();
        if !is_newer {
            customizations.off = Arc::clone(&self.off);
        }
        customizations.mcp = self.mcp.clone();
        customizations
    }

    /// Returns the customizations after the first report, or the current ones after a timeout.
    pub(crate) async fn first(&self) -> TurnCustomizations {
        self.within(FIRST_TIME).await.unwrap_or_else(|| self.now())
    }

    /// Returns the customizations for a turn, or `None` if there is no report within `timeout`: the turn would miss
    /// rules, and hooks that guard its tool calls. `waits` runs once if the turn has to wait noticeably. Plugins that
    /// clients have not handed over yet are awaited too, but only for a limited time.
    pub(crate) async fn for_turn(
        &self,
        timeout: Duration,
        waits: impl Future<Output = ()>,
    ) -> Option<TurnCustomizations> {
        if self.within(FIRST_TIME).await.is_none() {
            waits.await;
            self.within(timeout).await?;
            self.settled().await;
            return Some(self.now());
        }
        let settled = self.settled();
        tokio::pin!(settled);
        if tokio::time::timeout(FIRST_TIME, &mut settled).await.is_err() {
            waits.await;
            settled.await;
        }
        Some(self.now())
    }

    /// Waits until no further report is expected, or until its deadline.
    async fn settled(&self) {
        let Some(mut found) = self.found.clone() else {
            // The host has no customizations.
            return;
        };
        loop {
            let wait_until = found
                .borrow_and_update()
                .as_ref()
                .and_then(|reported| reported.wait_until);
            let Some(wait_until) = wait_until else {
                // No further report is expected.
                return;
            };
            if !matches!(tokio::time::timeout_at(wait_until, found.changed()).await, Ok(Ok(()))) {
                return;
            }
        }
    }

    async fn within(&self, time: Duration) -> Option<TurnCustomizations> {
        if let Some(found) = &self.found {
            let mut found = found.clone();
            let reported = tokio::time::timeout(time, found.wait_for(Option::is_some)).await;
            if !matches!(reported, Ok(Ok(_))) {
                tracing::warn!("discovery has not reported the customizations of a session within {time:?}");
                return None;
            }
        }
        Some(self.now())
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;
    use crate::services::customizations::{About, CustomizationSet, Skill};

    /// A report with awaited plugins, and the wait for the next report.
    fn reported(awaited: &[&str], wait: Option<Duration>) -> Option<TurnCustomizations> {
        let set = CustomizationSet {
            awaited: awaited.iter().map(|name| (*name).to_owned()).collect(),
            ..CustomizationSet::default()
        };
        Some(TurnCustomizations {
            wait_until: wait.map(|wait| Instant::now() + wait),
            ..TurnCustomizations::new(Arc::new(set), Arc::default())
        })
    }

    #[tokio::test(start_paused = true)]
    async fn cus22_a_turn_waits_for_a_clients_plugin_until_the_timeout() {
        let (reports, found) = watch::channel(reported(&["tools"], Some(Duration::from_secs(8))));
        let customizations_watch = CustomizationsWatch::new(found, Arc::default());
        let timeout = Duration::from_secs(60);
        let begun = Instant::now();
        let (known, ()) = tokio::join!(
            customizations_watch.for_turn(timeout, async { panic!("in silence") }),
            async {
                tokio::time::sleep(Duration::from_secs(2)).await;
                reports.send_replace(reported(&[], None));
            }
        );
        assert!(known.expect("known").awaited().is_empty());
        assert_eq!(begun.elapsed(), Duration::from_secs(2));

        reports.send_replace(reported(&["tools"], Some(Duration::from_secs(8))));
        let (begun, told) = (Instant::now(), std::cell::Cell::new(false));
        let known = customizations_watch.for_turn(timeout, async { told.set(true) }).await;
        assert_eq!(known.expect("known").awaited(), ["tools"], "it goes on without");
        assert_eq!((begun.elapsed(), told.get()), (Duration::from_secs(8), true));
    }

    #[tokio::test]
    async fn cus11_a_report_during_a_turn_carries_its_own_disabled_set() {
        let set = Arc::new(CustomizationSet {
            skills: ["a", "b"]
                .map(|id| Skill {
                    about: About {
                        id: id.to_owned(),
                        name: id.to_owned(),
                        ..About::default()
                    },
                    ..Skill::default()
                })
                .to_vec(),
            ..CustomizationSet::default()
        });
        let off = |id: &str| Arc::new(BTreeSet::from([id.to_owned()]));
        let names = |customizations: &TurnCustomizations| -> Vec<String> {
            let skills = customizations.skills();
            skills.map(|skill| skill.about.name.clone()).collect()
        };
        let (reports, found) = watch::channel(None);
        // No report was known when the turn began, so no id could be disabled.
        let early = CustomizationsWatch::new(found, Arc::default());
        reports.send_replace(Some(TurnCustomizations::new(Arc::clone(&set), off("a"))));
        assert_eq!(names(&early.first().await), ["b"]);
        // A turn that begins after the report has newer enablement.
        let late = CustomizationsWatch::new(reports.subscribe(), off("b"));
        assert_eq!(names(&late.first().await), ["a"]);
        assert_eq!(names(&late.now()), ["a"]);
    }
}
