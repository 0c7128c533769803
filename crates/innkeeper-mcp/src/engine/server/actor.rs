//! The life of a server.

use std::sync::Arc;
use std::time::Duration;

use innkeeper_std::sync::Mutex;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tokio::time::{Instant, sleep};

use super::connect::{ConnectFailure, Connected, connect};
use super::{Shared, Start};
use crate::engine::state::{Event, List, ServerState};
use crate::engine::wire::{Challenged, Process};

/// How long another server may take to end besides the time that its process has for it.
const ENDING_TIME: Duration = Duration::from_secs(6);
/// How often a server is started that does not introduce itself in time: what is no MCP server never will.
const LATE_STARTS: u32 = 3;
/// How long a process keeps others from starting. One that hangs does not hold up all the rest.
const STARTING_ALONE: Duration = Duration::from_secs(10);

/// What the handles want.
#[derive(Debug)]
pub(super) enum Command {
    Start(Start),
    /// Somebody else wants it too: it is started if nobody has, and left to itself otherwise.
    Join,
    Restart(Start),
    /// Makes the connection anew, if there is one.
    Reconnect,
    Background,
    Stop(oneshot::Sender<()>),
}

/// Owns one server.
pub(super) struct Actor {
    shared: Arc<Shared>,
    commands: mpsc::UnboundedReceiver<Command>,
    /// How often in a row it was started again after a crash.
    restarts: u32,
    /// It has been found to speak a protocol from before 2026-07-28, and is not asked again until it
    /// fails to start.
    is_old: bool,
    /// Its process, from the moment there is one: whoever stops it waits for that.
    process: ProcessSlot,
    /// How often in a row it did not introduce itself in time, and whether it was so the last time.
    late_starts: u32,
    was_late: bool,
    /// It was given another token in place of one that it did not accept, and has not been ready since: a
    /// server that accepts none must not be given tokens for ever.
    is_renewed: bool,
}

/// Where the process of a server is found, also while it starts.
pub(super) type ProcessSlot = Arc<Mutex<Option<Arc<Process>>>>;

/// Why a life ended.
enum End {
    Stopped(oneshot::Sender<()>),
    Restarted(Start),
    /// Nobody has a handle any more.
    Forgotten,
    SignInNeeded(Box<Challenged>),
    Failed {
        message: String,
        may_restart: bool,
    },
}

/// What ends waiting.
enum Woken {
    Time,
    Start(Start),
    Stop(oneshot::Sender<()>),
    Forgotten,
}

impl Actor {
    pub(super) fn new(shared: Arc<Shared>, commands: mpsc::UnboundedReceiver<Command>) -> Self {
        Self {
            shared,
            commands,
            restarts: 0,
            is_old: false,
            process: ProcessSlot::default(),
            late_starts: 0,
            was_late: false,
            is_renewed: false,
        }
    }

    pub(super) async fn run(mut self) {
        while let Some(command) = self.commands.recv().await {
            let command = match command {
                Command::Join => Command::Start(Start::Background),
                command => command,
            };
            match command {
                Command::Start(start) | Command::Restart(start) => match self.keep_running(start).await {
                    Some(done) => {
                        self.shared.set_state(ServerState::Stopped);
                        let _ = done.send(());
                    }
                    None => break,
                },
                Command::Stop(done) => {
                    let _ = done.send(());
                }
                // It was stopped meanwhile.
                Command::Reconnect => self.shared.set_state(ServerState::Stopped),
                Command::Background | Command::Join => {}
            }
        }
        self.shared.set_state(ServerState::Stopped);
    }

    /// Keeps it running until it is to stop, or until nobody is there to want anything.
    async fn keep_running(&mut self, mut start: Start) -> Option<oneshot::Sender<()>> {
        self.restarts = 0;
        self.late_starts = 0;
        let mut was_there = false;
        loop {
            let begun = Instant::now();
            let (end, ready_for) = self.live(start).await;
            if ready_for.is_some_and(|time| time >= self.shared.config.restart.healthy_after) {
                self.restarts = 0;
            }
            was_there |= ready_for.is_some();
            start = Start::Background;
            let woken = match end {
                End::Stopped(done) => return Some(done),
                End::Forgotten => return None,
                End::Restarted(again) => Woken::Start(again),
                End::SignInNeeded(challenged) => self.wait_for_sign_in(&challenged).await,
                End::Failed { message, may_restart } => {
                    let policy = &self.shared.config.restart;
                    let delay = policy.delay(self.restarts, begun.elapsed());
                    // A network that is down for an hour is no reason to give up an address that was good.
                    let later = (was_there && self.shared.remote.is_some()).then_some(policy.away);
                    let delay = delay.or(later).filter(|_| may_restart);
                    self.restarts = self.restarts.saturating_add(1);
                    self.shared.set_state(ServerState::Error {
                        message: self.shared.scrub(&message),
                        restarts_in: delay,
                    });
                    match delay {
                        Some(delay) => self.wait(sleep(delay)).await,
                        None => self.wait(std::future::pending()).await,
                    }
                }
            };
            match woken {
                Woken::Time => {}
                Woken::Start(again) => {
                    self.restarts = 0;
                    self.late_starts = 0;
                    start = again;
                }
                Woken::Stop(done) => return Some(done),
                Woken::Forgotten => return None,
            }
        }
    }

    /// Starts it, and sees to it until it ends. Says how long it was ready, if it ever was.
    async fn live(&mut self, start: Start) -> (End, Option<Duration>) {
        let blocking = start == Start::Blocking;
        self.shared.set_state(ServerState::Starting { blocking });
        let connected = match self.start().await {
            Ok(connected) => connected,
            Err(end) => {
                self.end_process().await;
                let end = self.try_without_token(end).await;
                return (self.try_the_other_handshake(end), None);
            }
        };
        self.is_old = connected.is_old;
        self.is_renewed = false;
        self.late_starts = 0;
        let ready = Instant::now();
        self.shared.tools.send_replace(connected.tools.clone());
        self.shared.connection.send_replace(Some(connected.connection.clone()));
        self.shared.set_state(ServerState::Ready);
        let end = self.serve(&connected).await;
        self.shared.connection.send_replace(None);
        let had_tools = !self.shared.tools.send_replace(Arc::default()).is_empty();
        if matches!(end, End::Failed { .. }) {
            // It is gone already; nobody has to wait until that is tidied up.
            tokio::spawn(connected.end());
        } else {
            connected.end().await;
        }
        self.end_process().await;
        if had_tools {
            self.shared.events.send(Event::ListChanged(List::Tools));
        }
        (end, Some(ready.elapsed()))
    }

    /// Some servers answer a token that they do not know with an error of their own, and not with a challenge. Users
    /// could not sign in again to such a server. If it wants a token when it is sent none, it refused the one it had.
    async fn try_without_token(&mut self, end: End) -> End {
        let shared = self.shared.clone();
        let Some(far) = shared.remote.as_ref().filter(|_| matches!(end, End::Failed { .. })) else {
            return end;
        };
        if !far.credentials.withhold_untried() {
            return end;
        }
        match self.start().await {
            Err(challenge @ End::SignInNeeded(_)) => challenge,
            Err(asked @ (End::Stopped(_) | End::Restarted(_) | End::Forgotten)) => {
                far.credentials.withhold_nothing();
                asked
            }
            Err(End::Failed { .. }) => {
                far.credentials.withhold_nothing();
                end
            }
            // It wants no token at all, so that the one it was given is not what it failed for.
            Ok(connected) => {
                connected.end().await;
                far.credentials.withhold_nothing();
                end
            }
        }
    }

    /// A server may fall over the newer handshake, and take the older one; or the other way round,
    /// if it was changed since.
    fn try_the_other_handshake(&mut self, end: End) -> End {
        match end {
            // That it was late says nothing about which one it takes.
            end if self.was_late => end,
            End::Failed {
                message,
                may_restart: true,
            } => {
                self.is_old = self.shared.remote.is_none() && !self.is_old;
                End::Failed {
                    message,
                    may_restart: true,
                }
            }
            End::Failed {
                message,
                may_restart: false,
            } => {
                let may_restart = std::mem::take(&mut self.is_old);
                End::Failed { message, may_restart }
            }
            other => other,
        }
    }

    async fn start(&mut self) -> Result<Connected, End> {
        let shared = self.shared.clone();
        let process = self.process.clone();
        let is_old = self.is_old;
        self.was_late = false;
        let connecting = async {
            wait_for_others(&shared).await;
            let room = room_to_start(&shared).await;
            let connecting = connect(&shared, is_old, &process);
            tokio::pin!(connecting);
            tokio::select! {
                biased;
                connected = &mut connecting => return connected,
                () = sleep(STARTING_ALONE) => drop(room),
            }
            connecting.await
        };
        tokio::pin!(connecting);
        loop {
            tokio::select! {
                connected = &mut connecting => return connected.map_err(|failure| self.end_of_start(failure)),
                command = self.commands.recv() => match command {
                    None => return Err(End::Forgotten),
                    Some(Command::Start(_) | Command::Join | Command::Reconnect) => {}
                    Some(Command::Restart(start)) => return Err(End::Restarted(start)),
                    Some(Command::Background) => self.shared.set_state(ServerState::Starting { blocking: false }),
                    Some(Command::Stop(done)) => return Err(End::Stopped(done)),
                },
            }
        }
    }

    fn end_of_start(&mut self, failure: ConnectFailure) -> End {
        match failure {
            ConnectFailure::SignInNeeded(challenged) => End::SignInNeeded(challenged),
            ConnectFailure::Crashed(message) => End::Failed {
                message,
                may_restart: true,
            },
            ConnectFailure::Late(message) => {
                self.was_late = true;
                self.late_starts += 1;
                let may_restart = self.late_starts < LATE_STARTS;
                End::Failed { message, may_restart }
            }
            ConnectFailure::Failed(message) | ConnectFailure::Refused { message, .. } => End::Failed {
                message,
                may_restart: false,
            },
        }
    }

    async fn serve(&mut self, connected: &Connected) -> End {
        loop {
            tokio::select! {
                () = connected.connection.closed.cancelled() => {
                    let message = match connected.connection.gone.get() {
                        Some(gone) => gone.clone(),
                        None => format!("the server ended: {}", connected.connection.why().await),
                    };
                    return End::Failed { message, may_restart: true };
                }
                command = self.commands.recv() => match command {
                    None => return End::Forgotten,
                    Some(Command::Start(_) | Command::Join | Command::Background) => {}
                    Some(Command::Restart(start)) => return End::Restarted(start),
                    Some(Command::Reconnect) => return End::Restarted(Start::Background),
                    Some(Command::Stop(done)) => return End::Stopped(done),
                },
            }
        }
    }

    async fn wait_for_sign_in(&mut self, challenged: &Challenged) -> Woken {
        let shared = self.shared.clone();
        let mut sign_in = None;
        // Whoever stops it does not wait until an address that hangs has been given up.
        match self
            .wait(async { sign_in = shared.sign_in_for(challenged).await })
            .await
        {
            Woken::Time => {}
            asked => return asked,
        }
        let Some(sign_in) = sign_in else {
            return self.wait(std::future::pending()).await;
        };
        if !self.is_renewed {
            let mut is_renewed = false;
            match self.wait(async { is_renewed = shared.renewed(&sign_in).await }).await {
                Woken::Time => {}
                asked => return asked,
            }
            if is_renewed {
                self.is_renewed = true;
                return Woken::Time;
            }
        }
        shared.set_state(ServerState::AuthRequired(Box::new(sign_in)));
        match &shared.remote {
            Some(far) => self.wait(far.credentials.newer_than(challenged.generation)).await,
            None => self.wait(std::future::pending()).await,
        }
    }

    async fn wait(&mut self, until: impl Future<Output = ()>) -> Woken {
        tokio::pin!(until);
        loop {
            tokio::select! {
                () = &mut until => return Woken::Time,
                command = self.commands.recv() => match command {
                    None => return Woken::Forgotten,
                    Some(Command::Start(start) | Command::Restart(start)) => return Woken::Start(start),
                    Some(Command::Stop(done)) => return Woken::Stop(done),
                    // The connection is gone already.
                    Some(Command::Reconnect) => return Woken::Time,
                    // A server that fails and fails does not get its attempts anew from everybody who comes (F3).
                    Some(Command::Background | Command::Join) => {}
                },
            }
        }
    }

    async fn end_process(&self) {
        let process = self.process.lock().take();
        if let Some(process) = process {
            process.stop().await;
        }
    }
}

/// Waits until a process may start beside those that start already. Behind an address, nothing starts here.
async fn room_to_start(shared: &Shared) -> Option<OwnedSemaphorePermit> {
    let starting = shared
        .surroundings
        .starting
        .as_ref()
        .filter(|_| shared.remote.is_none())?;
    // It is never closed.
    Arc::clone(starting).acquire_owned().await.ok()
}

/// Waits until what has to end before it has ended, or should have.
async fn wait_for_others(shared: &Shared) {
    let all = async {
        for other in &shared.surroundings.after {
            other.cancelled().await;
        }
    };
    let most = shared.config.limits.stop_time + ENDING_TIME;
    if tokio::time::timeout(most, all).await.is_err() {
        tracing::warn!(server = %shared.config.name, "an MCP server starts while the last one has not ended yet");
    }
}
