//! The task of a server.

use std::sync::Arc;
use std::time::Duration;

use innkeeper_std::sync::Mutex;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tokio::time::{Instant, sleep};

use super::connect::{ConnectFailure, Connected, connect};
use super::{ServerShared, Start};
use crate::engine::state::{Event, List, ServerState};
use crate::engine::wire::{Challenged, Process};

/// The time that another server may take to end, besides the time that its process has for it.
const ENDING_TIME: Duration = Duration::from_secs(6);
/// The number of starts of a server that does not introduce itself in time. A program that is no MCP server never does.
const LATE_STARTS: u32 = 3;
/// The time that a process occupies a permit for starting. A process that hangs must not hold up all others.
const STARTING_ALONE: Duration = Duration::from_secs(10);

/// The commands of the handles.
#[derive(Debug)]
pub(super) enum Command {
    Start(Start),
    /// Another user wants it: it is started if it was not, and left alone otherwise.
    Join,
    Restart(Start),
    /// Opens the connection again, if there is one.
    Reconnect,
    Background,
    Stop(oneshot::Sender<()>),
}

/// Owns one server.
pub(super) struct Actor {
    shared: Arc<ServerShared>,
    commands: mpsc::UnboundedReceiver<Command>,
    /// The number of restarts in a row after crashes.
    restarts: u32,
    /// The server speaks a revision from before 2026-07-28, and is not discovered again until it fails to start.
    is_old: bool,
    /// The process, as soon as there is one: stopping waits for it.
    process: ProcessSlot,
    /// The number of late starts in a row, and whether the last start was late.
    late_starts: u32,
    was_late: bool,
    /// The server got a renewed token and has not been ready since: a server that accepts no token must not get renewed
    /// tokens for ever.
    is_renewed: bool,
}

/// The process of a server, also while it starts.
pub(super) type ProcessSlot = Arc<Mutex<Option<Arc<Process>>>>;

/// Why a run ended.
enum RunEnd {
    Stopped(oneshot::Sender<()>),
    Restarted(Start),
    /// All handles were dropped.
    Dropped,
    SignInNeeded(Box<Challenged>),
    Failed {
        message: String,
        may_restart: bool,
    },
}

/// Why waiting ended.
enum WaitEnd {
    Time,
    Start(Start),
    Stop(oneshot::Sender<()>),
    Dropped,
}

impl Actor {
    pub(super) fn new(shared: Arc<ServerShared>, commands: mpsc::UnboundedReceiver<Command>) -> Self {
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

    /// Runs and restarts the server until it is stopped, or until all handles are dropped.
    async fn keep_running(&mut self, mut start: Start) -> Option<oneshot::Sender<()>> {
        self.restarts = 0;
        self.late_starts = 0;
        let mut was_there = false;
        loop {
            let begun = Instant::now();
            let (end, ready_for) = self.run_once(start).await;
            if ready_for.is_some_and(|time| time >= self.shared.config.restart.healthy_after) {
                self.restarts = 0;
            }
            was_there |= ready_for.is_some();
            start = Start::Background;
            let ended = match end {
                RunEnd::Stopped(done) => return Some(done),
                RunEnd::Dropped => return None,
                RunEnd::Restarted(again) => WaitEnd::Start(again),
                RunEnd::SignInNeeded(challenged) => self.wait_for_sign_in(&challenged).await,
                RunEnd::Failed { message, may_restart } => {
                    let policy = &self.shared.config.restart;
                    let delay = policy.delay(self.restarts, begun.elapsed());
                    // A network outage is no reason to give up an address that has worked.
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
            match ended {
                WaitEnd::Time => {}
                WaitEnd::Start(again) => {
                    self.restarts = 0;
                    self.late_starts = 0;
                    start = again;
                }
                WaitEnd::Stop(done) => return Some(done),
                WaitEnd::Dropped => return None,
            }
        }
    }

    /// Starts the server, and waits until it ends. Returns how long it was ready, if it ever was.
    async fn run_once(&mut self, start: Start) -> (RunEnd, Option<Duration>) {
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
        if matches!(end, RunEnd::Failed { .. }) {
            // The server is gone already: the cleanup can run in the background.
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

    /// Some servers answer an unknown token with an error of their own instead of a challenge, so that users could not sign in
    /// again. If the server asks for a token when it gets none, it refused the one that it had.
    async fn try_without_token(&mut self, end: RunEnd) -> RunEnd {
        let shared = self.shared.clone();
        let Some(remote) = shared.remote.as_ref().filter(|_| matches!(end, RunEnd::Failed { .. })) else {
            return end;
        };
        if !remote.credentials.withhold_untried() {
            return end;
        }
        match self.start().await {
            Err(challenge @ RunEnd::SignInNeeded(_)) => challenge,
            Err(asked @ (RunEnd::Stopped(_) | RunEnd::Restarted(_) | RunEnd::Dropped)) => {
                remote.credentials.withhold_nothing();
                asked
            }
            Err(RunEnd::Failed { .. }) => {
                remote.credentials.withhold_nothing();
                end
            }
            // It needs no token at all, so the token is not why it failed.
            Ok(connected) => {
                connected.end().await;
                remote.credentials.withhold_nothing();
                end
            }
        }
    }

    /// A server may crash on the newer handshake and take the older one; or the other way round, if it was updated.
    fn try_the_other_handshake(&mut self, end: RunEnd) -> RunEnd {
        match end {
            // Being late says nothing about the handshake.
            end if self.was_late => end,
            RunEnd::Failed {
                message,
                may_restart: true,
            } => {
                self.is_old = self.shared.remote.is_none() && !self.is_old;
                RunEnd::Failed {
                    message,
                    may_restart: true,
                }
            }
            RunEnd::Failed {
                message,
                may_restart: false,
            } => {
                let may_restart = std::mem::take(&mut self.is_old);
                RunEnd::Failed { message, may_restart }
            }
            other => other,
        }
    }

    async fn start(&mut self) -> Result<Connected, RunEnd> {
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
                    None => return Err(RunEnd::Dropped),
                    Some(Command::Start(_) | Command::Join | Command::Reconnect) => {}
                    Some(Command::Restart(start)) => return Err(RunEnd::Restarted(start)),
                    Some(Command::Background) => self.shared.set_state(ServerState::Starting { blocking: false }),
                    Some(Command::Stop(done)) => return Err(RunEnd::Stopped(done)),
                },
            }
        }
    }

    fn end_of_start(&mut self, failure: ConnectFailure) -> RunEnd {
        match failure {
            ConnectFailure::SignInNeeded(challenged) => RunEnd::SignInNeeded(challenged),
            ConnectFailure::Crashed(message) => RunEnd::Failed {
                message,
                may_restart: true,
            },
            ConnectFailure::Late(message) => {
                self.was_late = true;
                self.late_starts += 1;
                let may_restart = self.late_starts < LATE_STARTS;
                RunEnd::Failed { message, may_restart }
            }
            ConnectFailure::Failed(message) | ConnectFailure::Refused { message, .. } => RunEnd::Failed {
                message,
                may_restart: false,
            },
        }
    }

    async fn serve(&mut self, connected: &Connected) -> RunEnd {
        loop {
            tokio::select! {
                () = connected.connection.closed.cancelled() => {
                    let message = match connected.connection.gone.get() {
                        Some(gone) => gone.clone(),
                        None => format!("the server ended: {}", connected.connection.why().await),
                    };
                    return RunEnd::Failed { message, may_restart: true };
                }
                command = self.commands.recv() => match command {
                    None => return RunEnd::Dropped,
                    Some(Command::Start(_) | Command::Join | Command::Background) => {}
                    Some(Command::Restart(start)) => return RunEnd::Restarted(start),
                    Some(Command::Reconnect) => return RunEnd::Restarted(Start::Background),
                    Some(Command::Stop(done)) => return RunEnd::Stopped(done),
                },
            }
        }
    }

    async fn wait_for_sign_in(&mut self, challenged: &Challenged) -> WaitEnd {
        let shared = self.shared.clone();
        let mut sign_in = None;
        // Stopping does not wait for an address that hangs.
        match self
            .wait(async { sign_in = shared.sign_in_for(challenged).await })
            .await
        {
            WaitEnd::Time => {}
            asked => return asked,
        }
        let Some(sign_in) = sign_in else {
            return self.wait(std::future::pending()).await;
        };
        if !self.is_renewed {
            let mut is_renewed = false;
            match self.wait(async { is_renewed = shared.renewed(&sign_in).await }).await {
                WaitEnd::Time => {}
                asked => return asked,
            }
            if is_renewed {
                self.is_renewed = true;
                return WaitEnd::Time;
            }
        }
        shared.set_state(ServerState::AuthRequired(Box::new(sign_in)));
        match &shared.remote {
            Some(remote) => self.wait(remote.credentials.newer_than(challenged.generation)).await,
            None => self.wait(std::future::pending()).await,
        }
    }

    async fn wait(&mut self, until: impl Future<Output = ()>) -> WaitEnd {
        tokio::pin!(until);
        loop {
            tokio::select! {
                () = &mut until => return WaitEnd::Time,
                command = self.commands.recv() => match command {
                    None => return WaitEnd::Dropped,
                    Some(Command::Start(start) | Command::Restart(start)) => return WaitEnd::Start(start),
                    Some(Command::Stop(done)) => return WaitEnd::Stop(done),
                    // The connection is gone already.
                    Some(Command::Reconnect) => return WaitEnd::Time,
                    // A server that keeps failing does not get new attempts from every new user (F3).
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

/// Waits for a permit to start a process. A server behind an address needs none.
async fn room_to_start(shared: &ServerShared) -> Option<OwnedSemaphorePermit> {
    let starting = shared
        .server_env
        .starting
        .as_ref()
        .filter(|_| shared.remote.is_none())?;
    // It is never closed.
    Arc::clone(starting).acquire_owned().await.ok()
}

/// Waits until the processes that must end first have ended, or the time for that is over.
async fn wait_for_others(shared: &ServerShared) {
    let all = async {
        for other in &shared.server_env.after {
            other.cancelled().await;
        }
    };
    let most = shared.config.limits.stop_time + ENDING_TIME;
    if tokio::time::timeout(most, all).await.is_err() {
        tracing::warn!(server = %shared.config.name, "an MCP server starts while the last one has not ended yet");
    }
}
