//! Operations on a simulated host, decided by one byte after the other.

pub(super) mod chats;
pub(super) mod dispatches;
mod moves;

use innkeeper_core::request::{CreateSession, Subscribe};
use innkeeper_core::snapshot::State;
use innkeeper_core::{Command, ConnId, Input, uri};

use crate::sim::client::mirror::Mirror;
use crate::sim::client::queue::Marker;
use crate::sim::client::requests::PendingRequest;
use crate::sim::operations::chats::CHATS;
use crate::sim::{Choices, Sim, Violation, agents};

/// The sessions of a run. Few, so that clients meet in them; one with a foreign scheme (E-50).
pub const SESSIONS: [&str; 3] = ["ahp-session:/s0", "ahp-session:/s1", "copilot:/s2"];
/// The working directory of some sessions, which share its approvals.
pub(super) const DIRECTORY: &str = "file:///srv/project";
/// Most transports of one client at a time.
const MAX_TRANSPORTS: usize = 3;

impl Sim {
    /// Connects all clients to a first session, so that a run starts in the middle of things.
    pub(super) fn bootstrap(&mut self, choices: &mut Choices<'_>) -> Result<(), Violation> {
        let sessions = &SESSIONS[..1 + choices.below(2)];
        for client in 0..self.clients.len() {
            self.clients[client].version = if choices.one_in(4) { "0.9.0" } else { "1.0.0" };
            let conn = self.open(client, Mirror::default())?;
            let root = if choices.one_in(4) {
                Vec::new()
            } else {
                vec![uri::ROOT.to_owned()]
            };
            self.initialize(conn, client, root)?;
            self.read(conn, usize::MAX)?;
            for session in sessions {
                if client == 0 {
                    self.create(conn, session, choices)?;
                    if let Some(chat) = self.agent.take_opening(|_| 0) {
                        self.handle(Input::ChatOpened { chat, outcome: Ok(()) })?;
                    }
                    let turns = choices.below(5);
                    self.live_through(conn, &uri::default_chat(session), turns)?;
                }
                for channel in [(*session).to_owned(), uri::default_chat(session)] {
                    self.subscribe(conn, channel, choices)?;
                }
            }
        }
        match choices.below(3) {
            0 => Ok(()),
            _ => self.with_conn(choices, Self::start_turn),
        }
    }

    /// Lets one thing happen.
    pub(super) fn operate(&mut self, choices: &mut Choices<'_>) -> Result<(), Violation> {
        let restarts = if self.store.is_some() { 6 } else { 0 };
        match choices.below(74 + restarts) {
            74 | 75 => self.crash(choices),
            76 => self.stop_and_start(),
            77 => self.storage_fails_or_recovers(),
            72 => self.finder_reports(choices),
            73 => self.server_reports(choices),
            78 | 79 => {
                self.note(|| "sessions may have become idle".to_owned());
                self.advance(700)
            }
            0 => self.connect(choices),
            1..=3 => self.come_back(choices),
            4 | 41 => self.with_conn(choices, |sim, conn, _| sim.cut(conn)),
            5 => self.session_opens(choices),
            6 => self.with_conn(choices, |sim, conn, choices| {
                let session = SESSIONS[choices.below(SESSIONS.len())];
                sim.create(conn, session, choices)
            }),
            7 if choices.one_in(2) => self.with_conn(choices, |sim, conn, choices| {
                let session = sim.any_session(choices);
                sim.dispose(conn, &session)
            }),
            7..=9 => self.with_conn(choices, |sim, conn, choices| {
                let channel = sim.some_channel(choices);
                sim.subscribe(conn, channel, choices)
            }),
            10 => self.with_conn(choices, |sim, conn, choices| {
                sim.unsubscribe(conn, any_channel(choices))
            }),
            11..=19 | 42..=48 => self.with_conn(choices, Self::dispatch),
            20..=28 | 49..=58 | 71 => self.agent_speaks(choices),
            60..=62 => self.client_works(choices),
            63 => self.with_conn(choices, Self::unsubscribe_followed),
            59 => self.with_conn(choices, Self::authenticate),
            29 => self.agent_ends(choices),
            30 => self.session_opens(choices),
            31 => self.agent_is_late(choices),
            32..=36 => self.with_conn(choices, |sim, conn, choices| {
                let frames = 1 + choices.below(6);
                sim.note(|| format!("{conn} reads {frames}"));
                sim.read(conn, frames)
            }),
            37 => {
                let millis = choices.below(256) as u64;
                self.note(|| format!("{millis} ms pass"));
                self.advance(millis)
            }
            38 if choices.one_in(4) => {
                self.note(|| "the grace passes".to_owned());
                self.advance(self.grace_ms + 1)
            }
            38 => self.oddity(choices),
            39 => self.quiet(),
            64..=66 => self.with_conn(choices, Self::create_chat),
            67 => self.with_conn(choices, Self::dispose_chat),
            70 => self.with_conn(choices, Self::move_chat),
            68 | 69 => self.with_conn(choices, Self::fetch_turns),
            _ => self.with_conn(choices, |sim, conn, _| {
                sim.expect(conn);
                Ok(())
            }),
        }
    }

    /// Lets something happen on a connection that is through its handshake.
    pub(super) fn with_conn(
        &mut self,
        choices: &mut Choices<'_>,
        happen: impl FnOnce(&mut Self, ConnId, &mut Choices<'_>) -> Result<(), Violation>,
    ) -> Result<(), Violation> {
        let ready: Vec<ConnId> = self
            .conns
            .values()
            .filter(|conn| conn.ready)
            .map(|conn| conn.id)
            .collect();
        match choices.pick(&ready).copied() {
            Some(conn) => happen(self, conn, choices),
            // None is: let the waiting clients read their handshake.
            None => {
                let waiting: Vec<ConnId> = self.conns.keys().copied().collect();
                waiting.into_iter().try_for_each(|conn| self.read(conn, usize::MAX))
            }
        }
    }

    fn connect(&mut self, choices: &mut Choices<'_>) -> Result<(), Violation> {
        let client = choices.below(self.clients.len());
        if self.conns.values().filter(|conn| conn.client == client).count() >= MAX_TRANSPORTS {
            return Ok(());
        }
        self.clients[client].version = ["1.0.0", "1.0.0", "0.9.0"][choices.below(3)];
        let mut channels = Vec::new();
        for _ in 0..choices.below(4) {
            channels.push(any_channel(choices));
        }
        let conn = self.open(client, Mirror::default())?;
        self.note(|| format!("client-{client} opens {conn} with {channels:?}"));
        self.initialize(conn, client, channels)
    }

    /// A client that lost a transport comes back.
    pub(super) fn come_back(&mut self, choices: &mut Choices<'_>) -> Result<(), Violation> {
        let lost: Vec<usize> = (0..self.clients.len())
            .filter(|client| self.clients[*client].saved.is_some())
            .collect();
        let Some(client) = choices.pick(&lost).copied() else {
            return self.connect(choices);
        };
        self.come_back_as(client)
    }

    pub(super) fn come_back_as(&mut self, client: usize) -> Result<(), Violation> {
        let Some(mirror) = self.clients[client].saved.take() else {
            return Ok(());
        };
        let last_seen = mirror.last_seen;
        let is_0_9 = self.clients[client].version == "0.9.0";
        let conn = self.open(client, mirror)?;
        if let Some(connection) = self.conns.get_mut(&conn) {
            connection.is_0_9 = is_0_9;
        }
        self.note(|| format!("client-{client} comes back on {conn} having seen {last_seen}"));
        self.reconnect(conn, client)
    }

    fn create(&mut self, conn: ConnId, session: &str, choices: &mut Choices<'_>) -> Result<(), Violation> {
        let active_client = choices.one_in(3).then(|| self.announcement(conn, choices.below(3)));
        self.note(|| format!("{conn} creates {session}"));
        let command = Command::CreateSession(Box::new(CreateSession {
            channel: session.to_owned(),
            provider: None,
            working_directories: [Vec::new(), vec![DIRECTORY.to_owned()]][choices.below(2)].clone(),
            active_client,
            ..CreateSession::default()
        }));
        let is_new = self.host_session(session).is_none();
        self.request(conn, PendingRequest::Lifecycle, command)?;
        if is_new {
            let everything = self.allows_everything();
            self.approvals.created(session, everything);
        }
        Ok(())
    }

    fn dispose(&mut self, conn: ConnId, session: &str) -> Result<(), Violation> {
        self.note(|| format!("{conn} disposes of {session}"));
        let before = self.channels();
        let command = Command::DisposeSession {
            channel: session.to_owned(),
            only_if: None,
            for_good: false,
        };
        self.request(conn, PendingRequest::Lifecycle, command)?;
        self.approvals.forget(session);
        if self.host_session(session).is_none() {
            self.customizations.forget(session);
        }
        self.forget_gone(&before);
        Ok(())
    }

    pub(super) fn subscribe(
        &mut self,
        conn: ConnId,
        channel: String,
        choices: &mut Choices<'_>,
    ) -> Result<(), Violation> {
        let max_latency_ms = [None, Some(0), Some(50)][choices.below(3)];
        self.note(|| format!("{conn} subscribes to {channel}"));
        let turns = [None, None, None, Some(0), Some(1), Some(2)][choices.below(6)];
        let asked = PendingRequest::Subscribe {
            channel: channel.clone(),
            turns,
            exists: self.snapshot(&channel).is_some(),
        };
        let subscribe = Subscribe {
            channel,
            max_latency_ms,
            turns,
        };
        self.request(conn, asked, Command::Subscribe(Box::new(subscribe)))
    }

    fn unsubscribe(&mut self, conn: ConnId, channel: String) -> Result<(), Violation> {
        self.note(|| format!("{conn} unsubscribes from {channel}"));
        self.mutator.unsubscribed(conn, &channel);
        self.handle(Input::Unsubscribe {
            conn,
            channel: channel.clone(),
        })?;
        if let Some(connection) = self.conns.get_mut(&conn) {
            connection.host_subscriptions.remove(&channel);
        }
        self.mark(conn, Marker::Unsubscribed(channel));
        Ok(())
    }

    /// Turns away from something that it really follows.
    fn unsubscribe_followed(&mut self, conn: ConnId, choices: &mut Choices<'_>) -> Result<(), Violation> {
        let followed = self.conns.get(&conn).map(|connection| &connection.host_subscriptions);
        let followed: Vec<String> = followed.into_iter().flatten().cloned().collect();
        match choices.pick(&followed) {
            Some(channel) => self.unsubscribe(conn, channel.clone()),
            None => Ok(()),
        }
    }

    fn oddity(&mut self, choices: &mut Choices<'_>) -> Result<(), Violation> {
        match choices.below(3) {
            0 => self.with_conn(choices, |sim, conn, _| {
                sim.request(conn, PendingRequest::Ping, Command::Ping)
            }),
            1 => {
                let description = format!("the {}th", choices.below(8));
                self.handle(Input::AgentsChanged(agents(&description)))
            }
            _ => {
                let client = choices.below(self.clients.len());
                let version = std::mem::replace(&mut self.clients[client].version, "2.0.0");
                let conn = self.open(client, Mirror::default())?;
                self.note(|| format!("client-{client} offers only 2.0.0 on {conn}"));
                self.initialize(conn, client, Vec::new())?;
                self.clients[client].version = version;
                match self.conns.contains_key(&conn) {
                    false => Ok(()),
                    true => Err(Violation::new("an unsupported version was not refused (NEG-06)")),
                }
            }
        }
    }

    /// The running turn of a chat, as the host sees it.
    pub(super) fn active_turn(&self, chat: &str) -> Option<String> {
        match self.snapshot(chat)?.state {
            State::Chat(head, ..) => head.active_turn.as_ref().map(|turn| turn.id.clone()),
            State::Root(_) | State::Session(_) | State::SessionWithChat(..) | State::Part(_) => None,
        }
    }
}

/// A channel that may or may not exist.
pub(super) fn any_channel(choices: &mut Choices<'_>) -> String {
    let session = SESSIONS[choices.below(SESSIONS.len())];
    match choices.below(11) {
        0 => uri::ROOT.to_owned(),
        1..=3 => session.to_owned(),
        4..=6 => uri::default_chat(session),
        7..=9 => CHATS[choices.below(CHATS.len())].to_owned(),
        _ => "ahp-session:/never-created".to_owned(),
    }
}
