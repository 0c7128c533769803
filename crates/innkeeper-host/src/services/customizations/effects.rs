//! Which sessions are followed, and what was last found for each.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use innkeeper_core::customization::Wanted;
use innkeeper_core::{ChannelId, Effect, Input, Now};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::main_loop::task::HostTask;
use crate::services::customizations::{
    CustomizationSet, Customizations, CustomizationsReport, CustomizationsWatch, DiscoveryReport, Following, Found,
    FoundSink, HookCall, HookEvent,
};

/// How long hooks may take to hear that a session is over: nobody is there any more to wait for them.
const END_TIME: Duration = Duration::from_secs(5);

/// How long turns wait for the first report of a new follow, because their session wants something else now. What
/// was found before holds until then.
const ANEW: Duration = Duration::from_secs(5);
/// How long turns wait for what clients have not handed over yet, since it was first said to be on its way.
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
    /// What was last found; `None` until something was.
    set: watch::Sender<Option<CustomizationsReport>>,
    /// Since when something is on its way from clients.
    awaiting_since: Option<Instant>,
    /// What it wants to be told of, once it is followed.
    wanted: Option<Wanted>,
    /// Whether it had a turn; one that had none has no end that hooks could hear of.
    had_turn: bool,
    following: Option<Following>,
    /// How it was followed before, until the new one has reported: what both look at is not let go in
    /// between, only to be read anew.
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

    /// Who finds what sessions bring along.
    pub(crate) fn finder(&self) -> Arc<dyn Customizations> {
        Arc::clone(&self.finder)
    }

    /// What a chat or a turn of a session may use, as soon as it is known.
    pub(crate) fn watch(&mut self, session: ChannelId, off: &Arc<BTreeSet<String>>) -> CustomizationsWatch {
        if !self.finder.serves() {
            return CustomizationsWatch::default();
        }
        // A chat may be opened a moment before its session is followed.
        let session = self.sessions.entry(session).or_default();
        CustomizationsWatch::new(session.set.subscribe(), Arc::clone(off))
    }

    /// A turn of a session begins, so that it has an end which hooks may want to hear of.
    pub(crate) fn turn_begins(&mut self, session: ChannelId) {
        if let Some(session) = self.sessions.get_mut(&session) {
            session.had_turn = true;
        }
    }

    /// What was last found for a session.
    pub(crate) fn set(&self, session: ChannelId) -> Arc<CustomizationSet> {
        self.known_set(session).unwrap_or_default()
    }

    /// The same, if anything was found.
    pub(crate) fn known_set(&self, session: ChannelId) -> Option<Arc<CustomizationSet>> {
        let session = self.sessions.get(&session)?;
        let reported = session.set.borrow();
        reported.as_ref().map(|reported| Arc::clone(&reported.set))
    }

    /// Nobody is followed any more, because the core is replaced.
    pub(crate) fn clear(&mut self) {
        self.sessions.clear();
    }
}

impl HostTask {
    pub(crate) fn follow(&mut self, session: ChannelId, wanted: Wanted) {
        let number = self.followed.next;
        self.followed.next += 1;
        let following = self
            .followed
            .finder
            .follow(wanted.clone(), FoundSink::new(session, number, self.inbox.clone()));
        // Until the new one reports, what was found before holds.
        let entry = self.followed.sessions.entry(session).or_default();
        entry.number = number;
        entry.wanted = Some(wanted);
        // A turn that begins now waits for the new report; nobody else has to know.
        entry.set.send_if_modified(|reported| {
            if let Some(reported) = reported {
                reported.wait_until = Some(Instant::now() + ANEW);
            }
            false
        });
        entry._before = entry.following.replace(following);
    }

    /// A session is disposed of, or leaves memory.
    pub(crate) fn forget(&mut self, session: ChannelId, off: Arc<BTreeSet<String>>) {
        if let Some(session) = self.followed.sessions.remove(&session) {
            self.tell_end(session, off);
        }
    }

    /// The host goes down, and every session with it.
    pub(crate) fn forget_all(&mut self) {
        for (id, session) in std::mem::take(&mut self.followed.sessions) {
            let off = self.core.switched_off(id);
            self.tell_end(session, off);
        }
    }

    /// Tells hooks that a session is over. Shutdown waits for them, within its own patience.
    fn tell_end(&self, session: FollowedSession, off: Arc<BTreeSet<String>>) {
        let reported = session.set.borrow().clone();
        let (Some(CustomizationsReport { set, .. }), Some(wanted), true) = (reported, session.wanted, session.had_turn)
        else {
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
            session: wanted.session_uri,
            turn: "".into(),
            working_directories: wanted.working_directories,
            input,
        };
        self.tasks.spawn(async move {
            let ending = set.hooks.run(call, &off, None);
            match tokio::time::timeout(END_TIME, ending).await {
                Ok(outcome) => outcome
                    .notices
                    .iter()
                    .for_each(|notice| tracing::warn!(%notice, "a hook")),
                Err(_) => tracing::warn!("a hook that was told of the end of its session took too long and was ended"),
            }
        });
    }

    pub(crate) fn customizations_reported(
        &mut self,
        now: Now,
        session: ChannelId,
        number: u64,
        report: DiscoveryReport,
        effects: &mut Vec<Effect>,
    ) {
        let Some(entry) = self.followed.sessions.get(&session) else {
            return;
        };
        if entry.number != number {
            return; // Of a follow that was replaced since.
        }
        let Found { entries, set } = match report {
            DiscoveryReport::Found(found) => found,
            DiscoveryReport::Announced(entries) => {
                let announced = Input::CustomizationsAnnounced { session, entries };
                return self.handle_input(now, announced, effects);
            }
        };
        let shadows = set.shadows.clone();
        let found = Input::CustomizationsFound {
            session,
            entries,
            shadows,
        };
        self.handle_input(now, found, effects);
        // After the core, which knows now what of it people have switched off.
        let off = self.core.switched_off(session);
        if let Some(entry) = self.followed.sessions.get_mut(&session) {
            entry._before = None;
            entry.awaiting_since = match set.awaited.is_empty() {
                true => None,
                false => entry.awaiting_since.or_else(|| Some(Instant::now())),
            };
            let wait_until = entry.awaiting_since.map(|since| since + HAND_OVER);
            entry
                .set
                .send_replace(Some(CustomizationsReport { set, off, wait_until }));
        }
        self.redeclared(session);
    }
}
