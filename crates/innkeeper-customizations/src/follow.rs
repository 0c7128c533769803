//! Follows one session: merges the customizations of its sources and of its clients, and reports them after each
//! change.

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use ahp_types::state::Customization;
use futures_util::future::{join_all, select_all};
use innkeeper_host::customizations::{CustomizationSet, CustomizationsSink};
use tokio::sync::watch;

use crate::copies::{Copied, Job};
use crate::discovered::{Discovered, DiscoveredContainer};
use crate::local::{DiscoveryContext, common};
use crate::servers;
use crate::source::WatchedSource;

/// How long a scan or a copy may take before a preview is reported (CUS-05).
const NOTICEABLE: Duration = Duration::from_millis(100);

/// How long changes are collected, such as several plugins that a client publishes.
const TOGETHER: Duration = Duration::from_millis(20);

/// Follows a session until it is dropped, or the host is gone.
pub(crate) async fn follow(
    shared: Arc<DiscoveryContext>,
    workspaces: Vec<PathBuf>,
    jobs: Vec<Arc<Job>>,
    sink: CustomizationsSink,
) {
    let watching = {
        let (shared, workspaces) = (Arc::clone(&shared), workspaces.clone());
        move || {
            let sources = shared.directories.sources(workspaces);
            sources
                .iter()
                .map(|source| shared.pool.watch(source))
                .collect::<Vec<_>>()
        }
    };
    let Ok(watched) = tokio::task::spawn_blocking(watching).await else {
        return;
    };
    let follower = Follower::join(&shared, watched.clone());
    let mut sources = Sources {
        scans: watched.iter().map(|watched| watched.scanned()).collect(),
        copies: jobs.iter().map(|job| job.state()).collect(),
    };
    let _ = tokio::time::timeout(NOTICEABLE, sources.all_known()).await;
    loop {
        sources.mark_seen();
        let numbers = follower.numbers();
        let (shared, watched, jobs) = (Arc::clone(&shared), watched.clone(), jobs.clone());
        let workspaces = workspaces.clone();
        // Sources stay known, so the result now is at least as complete.
        let is_complete = watched.iter().all(|watched| watched.is_known());
        let discovering = move || discover(&shared, &watched, &jobs, workspaces);
        let Ok(mut set) = tokio::task::spawn_blocking(discovering).await else {
            return;
        };
        // A copy does not make it a preview, because only its client knows how long it takes: the set says that it is
        // awaited.
        set.is_preview = !is_complete;
        let is_told = sink.report(Arc::new(set)).await;
        follower.reported.send_replace(numbers);
        if !is_told || !sources.changed().await {
            return;
        }
        tokio::time::sleep(TOGETHER).await;
    }
}

/// A follower of a session, with the scans that it has reported.
#[derive(Debug)]
pub(crate) struct Follower {
    watched: Vec<Arc<WatchedSource>>,
    /// The scan of each source that was reported last.
    reported: watch::Sender<Vec<u64>>,
}

impl Follower {
    /// It is listed until it is dropped.
    fn join(shared: &DiscoveryContext, watched: Vec<Arc<WatchedSource>>) -> Arc<Self> {
        let reported = watch::Sender::new(vec![0; watched.len()]);
        let follower = Arc::new(Self { watched, reported });
        let mut followers = shared.followers.lock();
        followers.retain(|follower| follower.strong_count() > 0);
        followers.push(Arc::downgrade(&follower));
        follower
    }

    /// The latest scan of each source.
    fn numbers(&self) -> Vec<u64> {
        self.watched.iter().map(|watched| watched.number()).collect()
    }
}

/// Waits until all followers have reported the current scans.
pub(crate) async fn all_reported(shared: &DiscoveryContext) {
    let followers = {
        let followers = shared.followers.lock();
        followers.iter().filter_map(Weak::upgrade).collect::<Vec<_>>()
    };
    let waiting = followers.into_iter().map(|follower| {
        let (read, mut reported) = (follower.numbers(), follower.reported.subscribe());
        // The follower must be able to end meanwhile.
        drop(follower);
        async move {
            let is_reported = |told: &Vec<u64>| told.iter().zip(&read).all(|(told, read)| told >= read);
            let _ = reported.wait_for(is_reported).await;
        }
    });
    join_all(waiting).await;
}

fn discover(
    shared: &DiscoveryContext,
    watched: &[Arc<WatchedSource>],
    jobs: &[Arc<Job>],
    workspaces: Vec<PathBuf>,
) -> CustomizationSet {
    // Before the jobs are read: one that completes in between causes another report.
    let awaited: Vec<String> = jobs.iter().filter_map(|job| job.awaited()).collect();
    let scanned: Vec<Arc<Discovered>> = watched.iter().map(|watched| watched.now()).collect();
    let copies: Vec<_> = jobs.iter().map(|job| job.part()).collect();
    let found = scanned.iter().flat_map(|scanned| &scanned.containers);
    let parts = shared.own.iter().chain(found).chain(&copies);
    let mut discovered = Discovered::of(parts);
    discovered.working_directories = workspaces;
    let hooks = (shared.hooks)(&discovered);
    let mcp_servers = match &shared.servers {
        Some(settings) => servers::declarations(&discovered, settings),
        None => Vec::new(),
    };
    CustomizationSet {
        hooks,
        mcp_servers,
        awaited,
        ..discovered.set()
    }
}

/// The sources and copies that a follower waits for.
struct Sources {
    scans: Vec<watch::Receiver<Option<Arc<Discovered>>>>,
    copies: Vec<watch::Receiver<Copied>>,
}

impl Sources {
    async fn all_known(&self) {
        for mut scan in self.scans.iter().cloned() {
            let _ = scan.wait_for(Option::is_some).await;
        }
        for mut copy in self.copies.iter().cloned() {
            let _ = copy.wait_for(|copied| !matches!(copied, Copied::Copying(_))).await;
        }
    }

    fn mark_seen(&mut self) {
        for scan in &mut self.scans {
            scan.mark_unchanged();
        }
        for copy in &mut self.copies {
            copy.mark_unchanged();
        }
    }

    /// Waits until any of them changed. Returns `false` if none ever will.
    async fn changed(&mut self) -> bool {
        type ChangeFuture<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;
        let mut waiting: Vec<ChangeFuture<'_>> = Vec::new();
        for scan in &mut self.scans {
            waiting.push(Box::pin(changed_or_never(scan)));
        }
        for copy in &mut self.copies {
            waiting.push(Box::pin(changed_or_never(copy)));
        }
        if waiting.is_empty() {
            return false;
        }
        select_all(waiting).await;
        true
    }
}

/// Waits for a change. A completed copy never changes, and must not end the wait.
async fn changed_or_never<T>(receiver: &mut watch::Receiver<T>) {
    if receiver.changed().await.is_err() {
        std::future::pending().await
    }
}

/// Publishes the customizations of every session after each change, while their sources are watched.
pub(crate) async fn tell_common(
    own: Vec<DiscoveredContainer>,
    watched: Vec<Weak<WatchedSource>>,
    scans: Vec<watch::Receiver<Option<Arc<Discovered>>>>,
    common_now: watch::Sender<Arc<Vec<Customization>>>,
) {
    let mut sources = Sources {
        scans,
        copies: Vec::new(),
    };
    loop {
        sources.mark_seen();
        let Some(watched) = watched.iter().map(Weak::upgrade).collect::<Option<Vec<_>>>() else {
            return;
        };
        let now = common(&own, &watched);
        drop(watched);
        common_now.send_if_modified(|known| {
            let has_changed = **known != now;
            if has_changed {
                *known = Arc::new(now);
            }
            has_changed
        });
        if !sources.changed().await {
            return;
        }
    }
}
