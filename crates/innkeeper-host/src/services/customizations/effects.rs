//! Performs the effects on customizations: sessions are followed, and the last set of each is stored.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use innkeeper_core::customization::CustomizationSources;
use innkeeper_core::{ChannelId, CustomizationCommand, HostCore};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::main_loop::handles::LoopHandles;
use crate::services::customizations::{
    CustomizationSet, Customizations, CustomizationsSink, CustomizationsWatch, Following, HookCall, HookEvent,
    TurnCustomizations,
};
use crate::services::mcp::Mcp;

/// Timeout of the hooks for the end of a session, which no client waits for.
const END_TIME: Duration = Duration::from_secs(5);

/// How long turns wait for the first report of a new follow, after the session asked for other customizations. The
/// previous set applies until then.
const ANEW: Duration = Duration::from_secs(5);
/// How long turns wait for plugins that clients have not handed over yet, counted from the first report that awaits
/// one.
const HAND_OVER: Duration = Duration::from_secs(15);

/// The sessions that are followed.
pub(crate) struct FollowedCustomizations {
    finder: Arc<dyn Customizations>,
    sessions: HashMap<ChannelId, FollowedSession>,
    next: u64,
}

#[derive(Default)]
struct FollowedSession {
    number: u64,
    /// The last report; `None` before the first one.
    set: watch::Sender<Option<TurnCustomizations>>,
    /// Since when a plugin of a client is awaited.
    awaiting_since: Option<Instant>,
    /// The sources of its customizations, once it is followed.
    sources: Option<CustomizationSources>,
    /// Whether it had a turn. The end of a session without turns runs no hooks.
    had_turn: bool,
    following: Option<Following>,
    /// The previous follow, until the new one has reported. Sources that both use are not dropped and read again in
    /// between.
    _before: Option<Following>,
}

impl FollowedCustomizations {
    pub(crate) fn new(finder: Arc<dyn Customizations>) -> Self {
        Self {
            finder,
            sessions: HashMap::new(),
            next: 0,
        }
    }

    /// Returns the finder of customizations.
    pub(crate) fn finder(&self) -> Arc<dyn Customizations> {
        Arc::clone(&self.finder)
    }

    /// Returns a watch on the customizations that a chat or a turn of a session may use.
    pub(crate) fn watch(&mut self, session: ChannelId, off: &Arc<BTreeSet<String>>) -> CustomizationsWatch {
        if !self.finder.serves() {
            return CustomizationsWatch::default();
        }
        // A chat can be opened before its session is followed.
        let session = self.sessions.entry(session).or_default();
        CustomizationsWatch::new(session.set.subscribe(), Arc::clone(off))
    }

    /// Returns the customizations that a session may use now, without waiting for a report.
    pub(crate) fn now(&self, session: ChannelId, off: Arc<BTreeSet<String>>, mcp: Mcp) -> TurnCustomizations {
        let session = self.sessions.get(&session);
        let reported = session.and_then(|session| session.set.borrow().clone());
        TurnCustomizations {
            off,
            mcp,
            ..reported.unwrap_or_default()
        }
    }

    /// Notes that a session has a turn, so that its end runs hooks.
    pub(crate) fn turn_begins(&mut self, session: ChannelId) {
        if let Some(session) = self.sessions.get_mut(&session) {
            session.had_turn = true;
        }
    }

    /// Returns the last reported set of a session.
    pub(crate) fn set(&self, session: ChannelId) -> Arc<CustomizationSet> {
        self.known_set(session).unwrap_or_default()
    }

    /// Returns the last reported set of a session, if there is one.
    pub(crate) fn known_set(&self, session: ChannelId) -> Option<Arc<CustomizationSet>> {
        let session = self.sessions.get(&session)?;
        let reported = session.set.borrow();
        reported.as_ref().map(|reported| Arc::clone(&reported.set))
    }

    /// Follows no session any more, because the core is replaced.
    pub(crate) fn clear(&mut self) {
        self.sessions.clear();
    }

    pub(crate) fn perform(&mut self, handles: &LoopHandles, command: CustomizationCommand) {
        match command {
            CustomizationCommand::Follow {
                session,
                wanted: sources,
            } => self.follow(handles, session, *sources),
            CustomizationCommand::Unfollow { session, disabled_ids } => {
                if let Some(session) = self.sessions.remove(&session) {
                    session.run_end_hooks(handles, disabled_ids);
                }
            }
        }
    }

    /// Follows the customizations of a session. Until the first report, the set of the previous follow applies.
    fn follow(&mut self, handles: &LoopHandles, session: ChannelId, sources: CustomizationSources) {
        let number = self.next;
        self.next += 1;
        let sink = CustomizationsSink::new(session, number, handles.weak_inbox());
        let following = self.finder.follow(sources.clone(), sink);
        let entry = self.sessions.entry(session).or_default();
        entry.number = number;
        entry.sources = Some(sources);
        // A turn that begins now waits for the new report. Running turns are not told.
        entry.set.send_if_modified(|reported| {
            if let Some(reported) = reported {
                reported.wait_until = Some(Instant::now() + ANEW);
            }
            false
        });
        entry._before = entry.following.replace(following);
    }

    /// Ends every follow, because the host shuts down.
    pub(crate) fn unfollow_all(&mut self, handles: &LoopHandles, core: &HostCore) {
        for (id, session) in std::mem::take(&mut self.sessions) {
            session.run_end_hooks(handles, core.disabled_ids(id));
        }
    }

    /// Returns true if a report is of the present follow of its session.
    pub(crate) fn is_current(&self, session: ChannelId, number: u64) -> bool {
        self.sessions
            .get(&session)
            .is_some_and(|followed| followed.number == number)
    }

    /// Stores the set of a session, with the ids of the customizations that are disabled.
    pub(crate) fn store(&mut self, session: ChannelId, set: Arc<CustomizationSet>, off: Arc<BTreeSet<String>>) {
        let Some(entry) = self.sessions.get_mut(&session) else {
            // The session has ended meanwhile.
            return;
        };
        entry._before = None;
        entry.awaiting_since = match set.awaited.is_empty() {
            true => None,
            false => entry.awaiting_since.or_else(|| Some(Instant::now())),
        };
        let wait_until = entry.awaiting_since.map(|since| since + HAND_OVER);
        entry.set.send_replace(Some(TurnCustomizations {
            wait_until,
            ..TurnCustomizations::new(set, off)
        }));
    }
}

impl FollowedSession {
    /// Runs the hooks for the end of a session. Shutdown waits for them, within its own deadline.
    fn run_end_hooks(self, handles: &LoopHandles, off: Arc<BTreeSet<String>>) {
        let reported = self.set.borrow().clone();
        let (Some(TurnCustomizations { set, .. }), Some(sources), true) = (reported, self.sources, self.had_turn)
        else {
            // The session had no turn, or no customizations that hooks could be among.
            return;
        };
        if !set.hooks.hear(HookEvent::SessionEnd, &off) {
            return;
        }
        let mut input = serde_json::Map::new();
        input.insert("reason".to_owned(), "other".into());
        let call = HookCall {
            event: HookEvent::SessionEnd,
            subject: "other".to_owned(),
            mcp: None,
            session: sources.session_uri,
            turn: "".into(),
            working_directories: sources.working_directories,
            input,
        };
        handles.tasks().spawn(async move {
            let ending = set.hooks.run(call, &off, None);
            match tokio::time::timeout(END_TIME, ending).await {
                Ok(outcome) => outcome
                    .notices
                    .iter()
                    .for_each(|notice| tracing::warn!(%notice, "a hook")),
                Err(_) => tracing::warn!("a hook for the end of a session took too long and was stopped"),
            }
        });
    }
}
