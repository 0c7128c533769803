//! The load of the soak: what its clients do all the time.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use ahp_types::state::SessionLifecycle;
use anyhow::{Context, Result, bail};
use innkeeper_std::sync::Mutex;
use serde_json::json;
use tokio::time::Instant;

use super::client::SoakClient;
use crate::client::host_session::ROOT;

/// The messages of residents to the agent, one after the other: slow and fast streams, reasoning, tools,
/// plans, subagents, failures.
const MESSAGES: &[&str] = &[
    "/stream 60 5 48",
    "/stream 2000 0 64",
    "/reason one thing leads to another and that to a third",
    "/tool",
    "/parallel 3",
    "hello there",
    "/plan",
    "/subagent 1",
    "/error",
    "/stream 40 10 400",
];
/// Idle sessions: the host evicts them and loads them again for a subscriber.
pub(crate) const SLEEPERS: u64 = 40;

/// State that all clients share.
pub(crate) struct Churn {
    pub(crate) url: String,
    pub(crate) until: Instant,
    /// The sessions that residents work in at the moment, with their chats.
    open: Mutex<Vec<(String, String)>>,
    names: AtomicU64,
    pub(crate) counts: Counts,
}

/// How much happened.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) connections: AtomicU64,
    pub(crate) reconnects: AtomicU64,
    pub(crate) replays: AtomicU64,
    pub(crate) sessions: AtomicU64,
    pub(crate) turns: AtomicU64,
    pub(crate) actions: AtomicU64,
    pub(crate) comparisons: AtomicU64,
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl Churn {
    /// Clients that go on until a moment.
    pub(crate) fn new(url: &str, until: Instant) -> Arc<Self> {
        Arc::new(Self {
            url: url.to_owned(),
            until,
            open: Mutex::default(),
            names: AtomicU64::new(0),
            counts: Counts::default(),
        })
    }

    fn is_over(&self) -> bool {
        Instant::now() >= self.until
    }

    fn name(&self, kind: &str) -> String {
        format!("{kind}-{}", self.names.fetch_add(1, Ordering::Relaxed))
    }

    fn open(&self) -> innkeeper_std::sync::MutexGuard<'_, Vec<(String, String)>> {
        self.open.lock()
    }

    async fn connect(&self, kind: &str) -> Result<SoakClient> {
        count(&self.counts.connections);
        SoakClient::connect(&self.url, self.name(kind)).await
    }

    /// Creates the sessions that sleep.
    pub(crate) async fn put_to_sleep(&self) -> Result<()> {
        let mut client = self.connect("founder").await?;
        // No user is there to answer.
        let allow = json!({"type": "root/configChanged", "config": {"autoApprove": "autoApprove"}});
        client.dispatch(ROOT, allow).await?;
        for number in 0..SLEEPERS {
            let session = sleeper(number);
            client
                .request("createSession", json!({"channel": session, "provider": "tour"}))
                .await?;
            let chat = self.enter(&mut client, &session).await?;
            self.turn(&mut client, &chat, "hello").await?;
            client.unsubscribe(&chat).await?;
            client.unsubscribe(&session).await?;
        }
        client.cut(true).await
    }

    /// A client that works: sessions come, turns run in them, cuts happen, sessions go.
    pub(crate) async fn resident(self: Arc<Self>, number: u64) -> Result<()> {
        let mut dice = Dice(number * 7919 + 1);
        let mut client = self.connect("resident").await?;
        let mut said = number as usize;
        while !self.is_over() {
            let session = format!("ahp-session:/{}", self.name("work"));
            client
                .request("createSession", json!({"channel": session, "provider": "tour"}))
                .await?;
            count(&self.counts.sessions);
            let chat = self.enter(&mut client, &session).await?;
            self.open().push((session.clone(), chat.clone()));
            for _ in 0..4 + dice.below(6) {
                let text = MESSAGES[said % MESSAGES.len()];
                said += 1;
                self.turn(&mut client, &chat, text).await?;
                let title = json!({"type": "session/titleChanged", "title": format!("Work {said}")});
                client.dispatch(&session, title).await?;
                if dice.below(3) == 0 {
                    self.cut_in_a_turn(&mut client, &chat, dice.below(2) == 0).await?;
                }
                if dice.below(4) == 0 {
                    self.cancelled_turn(&mut client, &chat).await?;
                }
            }
            self.compare(&mut client).await?;
            self.open().retain(|(open, _)| *open != session);
            client.request("disposeSession", json!({"channel": session})).await?;
            client.mirror.forget(&session);
            client.mirror.forget(&chat);
            if !client.refusals.is_empty() {
                bail!("the host refused what a client may do: {:?}", client.refusals);
            }
            if dice.below(3) == 0 {
                self.leave(client, dice.below(2) == 0).await?;
                client = self.connect("resident").await?;
            }
        }
        self.compare(&mut client).await?;
        self.leave(client, true).await
    }

    /// A client that looks in: subscribes to what others work in and to what sleeps, and leaves.
    pub(crate) async fn guest(self: Arc<Self>, number: u64) -> Result<()> {
        let mut dice = Dice(number * 104_729 + 3);
        while !self.is_over() {
            let mut client = self.connect("guest").await?;
            for _ in 0..1 + dice.below(4) {
                let open = self.open().clone();
                if let Some((session, chat)) = open.get(dice.below(open.len().max(1) as u64) as usize) {
                    // Sessions go at any time; then there is nothing to subscribe to.
                    let _ = client.subscribe(session).await;
                    let _ = client.subscribe(chat).await;
                }
                client.read_for(Duration::from_millis(50 + dice.below(400))).await?;
                let session = sleeper(dice.below(SLEEPERS));
                client.subscribe(&session).await?;
                let title = json!({"type": "session/titleChanged", "title": format!("Woken by guest {number}")});
                client.dispatch(&session, title).await?;
                client.read_for(Duration::from_millis(dice.below(100))).await?;
                client.unsubscribe(&session).await?;
                client
                    .request("listSessions", json!({"channel": ROOT, "limit": 20}))
                    .await?;
            }
            self.leave(client, dice.below(2) == 0).await?;
        }
        Ok(())
    }

    /// Subscribes to a session and its chat, and waits until it is ready.
    async fn enter(&self, client: &mut SoakClient, session: &str) -> Result<String> {
        client.subscribe(session).await?;
        client
            .until("the session is ready", |mirror| {
                mirror
                    .session(session)
                    .is_some_and(|session| session.lifecycle == SessionLifecycle::Ready)
            })
            .await?;
        let state = client.mirror.session(session);
        let chat = state.and_then(|session| session.default_chat.clone());
        let chat = chat.context("a session without a default chat")?;
        client.subscribe(&chat).await?;
        Ok(chat)
    }

    async fn start(&self, client: &mut SoakClient, chat: &str, text: &str) -> Result<String> {
        let turn = self.name("turn");
        let action = json!({"type": "chat/turnStarted", "turnId": turn,
            "startedAt": jiff::Timestamp::now().to_string(),
            "message": {"text": text, "origin": {"kind": "user"}}});
        client.dispatch(chat, action).await?;
        Ok(turn)
    }

    async fn ended(&self, client: &mut SoakClient, chat: &str, turn: &str) -> Result<()> {
        client
            .until(&format!("{turn} ends"), |mirror| {
                mirror
                    .chat(chat)
                    .is_some_and(|chat| chat.turns.iter().any(|ended| ended.id == turn))
            })
            .await?;
        count(&self.counts.turns);
        Ok(())
    }

    async fn turn(&self, client: &mut SoakClient, chat: &str, text: &str) -> Result<()> {
        let turn = self.start(client, chat, text).await?;
        self.ended(client, chat, &turn).await
    }

    async fn cancelled_turn(&self, client: &mut SoakClient, chat: &str) -> Result<()> {
        let turn = self.start(client, chat, "/slow 5").await?;
        client
            .until("the turn has started", |mirror| {
                mirror.chat(chat).is_some_and(|chat| chat.active_turn.is_some())
            })
            .await?;
        let action = json!({"type": "chat/turnCancelled", "turnId": turn, "duration": 1});
        client.dispatch(chat, action).await?;
        self.ended(client, chat, &turn).await
    }

    /// Loses the connection while output streams, and comes back before it has ended, or after.
    async fn cut_in_a_turn(&self, client: &mut SoakClient, chat: &str, politely: bool) -> Result<()> {
        let turn = self.start(client, chat, "/stream 100 2 40").await?;
        client
            .until("the turn has started", |mirror| {
                mirror.chat(chat).is_some_and(|chat| chat.active_turn.is_some())
            })
            .await?;
        client.cut(politely).await?;
        if politely {
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        count(&self.counts.reconnects);
        if client.reconnect().await? {
            count(&self.counts.replays);
        }
        self.ended(client, chat, &turn).await
    }

    async fn leave(&self, mut client: SoakClient, politely: bool) -> Result<()> {
        self.counts.actions.fetch_add(client.mirror.applied, Ordering::Relaxed);
        client.cut(politely).await
    }

    /// Proves that a mirror equals a fresh snapshot.
    async fn compare(&self, client: &mut SoakClient) -> Result<()> {
        let mut differences = Vec::new();
        for _ in 0..20 {
            let mut auditor = self.connect("auditor").await?;
            for channel in client.mirror.channels() {
                auditor.subscribe(&channel).await?;
            }
            // Everything up to the snapshots is in the client's queue before this answer.
            client.request("ping", json!({"channel": ROOT})).await?;
            differences = client.mirror.differences(&auditor.mirror)?;
            auditor.cut(true).await?;
            if differences.is_empty() {
                count(&self.counts.comparisons);
                return Ok(());
            }
            // Something happened in between: the root counts the sessions of all clients.
            client.read_for(Duration::from_millis(50)).await?;
        }
        bail!("a mirror stays different from the host: {}", differences.join("\n"));
    }
}

fn sleeper(number: u64) -> String {
    format!("ahp-session:/sleeper-{number}")
}

/// Numbers that look random and are the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound.max(1)
    }
}
