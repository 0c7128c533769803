//! One server of one session, for as long as the session wants it.

use std::ops::Deref;
use std::sync::Arc;

use innkeeper_host::mcp::{
    DesiredServer, Failure, McpError, ServerFacts, ServerList, ServerReport, ServerSink, ServerStatus, StartPermission,
    defused,
};
use innkeeper_std::sync::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::apps::{self, Apps};
use super::tokens::Tokens;
use super::{RunnerShared, convert, launch, token_renewal};
use crate::engine::auth::{SignIn, SignInReason};
use crate::engine::pool::Lease;
use crate::engine::secret::Token;
use crate::engine::server::Start;
use crate::engine::state::{Event, List, ServerState};

/// The task of a [`SessionServer`]. Dropping this ends it.
pub(super) struct ServerTask {
    pub(super) server: Arc<SessionServer>,
}

impl ServerTask {
    pub(super) fn begin(server: Arc<SessionServer>, shared: Arc<RunnerShared>, sink: ServerSink) -> Self {
        let served = Arc::clone(&server);
        tokio::spawn(async move {
            let ended = served.ended.clone();
            tokio::select! {
                () = ended.cancelled() => {}
                _ = async { tokio::join!(served.run(&shared, &sink), apps::pass_on(&served)) } => {}
            }
        });
        Self { server }
    }
}

impl Drop for ServerTask {
    fn drop(&mut self) {
        // Calls that are under way keep the server only until they notice.
        self.server.ended.cancel();
        self.server.release();
    }
}

/// The share of this session in a server.
pub(super) struct ServerLease {
    lease: Lease,
    /// Cancelled when the session gives its share back: everything that is under way fails.
    pub(super) gone: CancellationToken,
}

impl Deref for ServerLease {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.lease
    }
}

/// Why a session starts a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StartReason {
    /// The session was opened, or its declaration was found.
    SessionOpened,
    /// A user asked for the start.
    Requested,
}

pub(super) struct SessionServer {
    pub(super) wish: DesiredServer,
    start_reason: StartReason,
    /// The working directories of the session.
    roots: Mutex<Vec<String>>,
    session: Arc<str>,
    /// Cancelled when the session does not want the server any more.
    pub(super) ended: CancellationToken,
    lease: Mutex<Option<Arc<ServerLease>>>,
    /// The resource for which users signed in while the server ran.
    signed_in_for: Mutex<Option<String>>,
    /// The sign-ins that calls wait for.
    sign_ins: Mutex<Vec<SignIn>>,
    /// Notified when `sign_ins` changes.
    sign_ins_changed: Notify,
    /// Messages of apps in clients.
    pub(super) apps: Apps,
}

/// A call that asks users to sign in, until this is dropped.
pub(super) struct PendingSignIn<'a> {
    server: &'a SessionServer,
    sign_in: SignIn,
}

impl Drop for PendingSignIn<'_> {
    fn drop(&mut self) {
        {
            let mut asked = self.server.sign_ins.lock();
            if let Some(index) = asked.iter().position(|sign_in| *sign_in == self.sign_in) {
                asked.remove(index);
            }
        }
        self.server.sign_ins_changed.notify_one();
    }
}

impl SessionServer {
    pub(super) fn new(
        wish: DesiredServer,
        start_reason: StartReason,
        session: &Arc<str>,
        roots: Vec<String>,
    ) -> Arc<Self> {
        Arc::new(Self {
            wish,
            start_reason,
            roots: Mutex::new(roots),
            session: Arc::clone(session),
            ended: CancellationToken::new(),
            lease: Mutex::default(),
            signed_in_for: Mutex::default(),
            sign_ins: Mutex::default(),
            sign_ins_changed: Notify::new(),
            apps: Apps::new(),
        })
    }

    pub(super) fn id(&self) -> &str {
        &self.wish.declaration.about.id
    }

    /// Returns the name that users know.
    pub(super) fn name(&self) -> &str {
        &self.wish.declaration.about.name
    }

    /// Returns the URI of the session.
    pub(super) fn session(&self) -> Arc<str> {
        Arc::clone(&self.session)
    }

    /// Returns the server, once it may run.
    pub(super) fn lease(&self) -> Option<Arc<ServerLease>> {
        self.lease.lock().clone()
    }

    pub(super) fn was_stopped(&self) -> McpError {
        McpError::new(format!(
            "the MCP server {:?} was stopped before it answered",
            self.name()
        ))
    }

    /// Moves the server to other working directories, and returns true if it can stay. A server that only this session
    /// has is told of the new roots. A server that other sessions share, or that would be started elsewhere, cannot stay.
    pub(super) fn moves_to(&self, shared: &RunnerShared, roots: &[String]) -> bool {
        let mut now = self.roots.lock();
        if *now == roots {
            return true;
        }
        let declaration = &self.wish.declaration;
        // Without a lease there is no server to tell.
        let Some(lease) = self
            .lease()
            .filter(|_| launch::runs_at(declaration, &now) == launch::runs_at(declaration, roots))
        else {
            return false;
        };
        let sharing = launch::sharing(&shared.settings, declaration, &self.session, roots);
        if !lease.share_with(&sharing) {
            return false;
        }
        *now = roots.to_vec();
        let told = lease.set_roots(launch::roots(roots));
        if let Some(told) = told {
            tokio::spawn(told);
        }
        true
    }

    /// Returns true if tokens of this resource are for this server.
    pub(super) fn is_for(&self, resource: &str) -> bool {
        self.lease().and_then(|lease| lease.resource()).as_deref() == Some(resource)
    }

    /// Records that a call asks users to sign in, whatever state the server itself is in (MCP-10).
    pub(super) fn asks_for(&self, sign_in: &SignIn) -> PendingSignIn<'_> {
        self.sign_ins.lock().push(sign_in.clone());
        self.sign_ins_changed.notify_one();
        PendingSignIn {
            server: self,
            sign_in: sign_in.clone(),
        }
    }

    /// Returns the status that clients of the session see. While a call waits because its token does not grant enough, they
    /// see what to sign in for (MCP-07). Other sessions that share the server see it ready.
    fn status(&self, state: &ServerState, lease: &Lease, shared: &RunnerShared) -> ServerStatus {
        let asked = self.sign_ins.lock();
        let step_up = asked
            .iter()
            .rfind(|sign_in| sign_in.reason == SignInReason::InsufficientScope);
        match step_up.filter(|_| *state == ServerState::Ready) {
            Some(sign_in) => ServerStatus::AuthRequired(Box::new(convert::requirement(sign_in, &shared.tokens))),
            None => convert::status(state, lease, &shared.tokens),
        }
    }

    /// Applies a sign-in to this server only if the server asked for this resource or already had a token for it, so that
    /// the user has seen which server it is for (T16). The server is remembered with the token, so that this holds in other
    /// sessions and after a restart too.
    pub(super) fn note_sign_in(&self, resource: &str, tokens: &Tokens) {
        let lease = self.lease();
        let Some(lease) = lease.filter(|lease| lease.resource().as_deref() == Some(resource)) else {
            // The server does not run, or it has another resource.
            return;
        };
        let asks = matches!(lease.state(), ServerState::AuthRequired(sign_in) if sign_in.resource.resource == resource);
        let is_asked = self
            .sign_ins
            .lock()
            .iter()
            .any(|asked| asked.resource.resource == resource);
        if asks || is_asked || lease.may_be_given_tokens() {
            *self.signed_in_for.lock() = Some(resource.to_owned());
            if let Some(address) = lease.address() {
                tokens.note_server(resource, &address);
            }
        }
    }

    /// Gives the server a token for its resource, and returns true if it took it. A server that names a resource larger than
    /// itself gets the token only if users signed in for that server (T16).
    pub(super) fn sign_in(&self, resource: &str, token: &Token, tokens: &Tokens) -> bool {
        let lease = self.lease();
        let Some(lease) = lease.filter(|lease| lease.resource().as_deref() == Some(resource)) else {
            return false;
        };
        let is_meant = self.signed_in_for.lock().as_deref() == Some(resource)
            || lease
                .address()
                .is_some_and(|address| tokens.is_for_server(resource, &address));
        let may = is_meant || lease.may_be_given_tokens() || token.expose().is_empty();
        // The resource was compared above.
        may && lease.sign_in(resource, token.clone()).is_ok()
    }

    async fn run(&self, shared: &Arc<RunnerShared>, sink: &ServerSink) {
        let Some(permission) = &self.wish.declaration.permission.0 else {
            if let Some(lease) = self.take(shared, sink).await {
                self.follow(&lease, shared, sink).await;
            }
            return;
        };
        while self.permitted(permission, sink).await {
            let Some(lease) = self.take(shared, sink).await else {
                // It cannot start, as its status says, or the session does not want it any more.
                return;
            };
            tokio::select! {
                () = self.follow(&lease, shared, sink) => return,
                // Users can revoke the permission while the server runs (P12).
                () = permission.withdrawn() => {
                    lease.gone.cancel();
                    self.release();
                }
            }
        }
    }

    /// Gives the share of this session back.
    fn release(&self) {
        if let Some(lease) = self.lease.lock().take() {
            lease.shared().levels.leave(&self.session);
        }
    }

    /// Takes the share of this session. Returns nothing if that failed and was reported, or if the session does not want the
    /// server any more.
    async fn take(&self, shared: &Arc<RunnerShared>, sink: &ServerSink) -> Option<Arc<ServerLease>> {
        // The roots stay the same until there is a lease.
        let roots = self.roots.lock().clone();
        let prepared = launch::prepare(
            shared.settings.clone(),
            Arc::clone(&self.wish.declaration),
            roots.clone(),
        )
        .await;
        let leased = prepared.and_then(|config| {
            let sharing = launch::sharing(&shared.settings, &self.wish.declaration, &self.session, &roots);
            let permission = &self.wish.declaration.permission;
            let server_env = || {
                let renew = token_renewal::renew(shared);
                launch::server_env(
                    &shared.settings,
                    &roots,
                    permission,
                    renew,
                    Arc::clone(&shared.starting),
                )
            };
            let leased = shared.pool.lease(&config, &sharing, server_env);
            leased.map_err(|error| error.to_string())
        });
        let lease = match leased {
            Ok(lease) => Arc::new(ServerLease {
                lease,
                gone: self.ended.child_token(),
            }),
            Err(problem) => {
                self.failed(sink, "mcpServerNotStarted", problem).await;
                return None;
            }
        };
        {
            let mut slot = self.lease.lock();
            // Ending happens under this lock too, or finds the lease.
            if self.ended.is_cancelled() {
                return None;
            }
            lease.shared().levels.join(&self.session);
            *slot = Some(Arc::clone(&lease));
        }
        if let Some((resource, token)) = lease
            .resource()
            .and_then(|resource| shared.token(&resource).map(|token| (resource, token)))
        {
            self.sign_in(&resource, &token, &shared.tokens);
        }
        Some(lease)
    }

    /// Waits until users allow the server to run. Returns false if the host is gone.
    async fn permitted(&self, permission: &Arc<dyn StartPermission>, sink: &ServerSink) -> bool {
        let mut told = None;
        loop {
            let asked = Arc::clone(permission);
            let checked = tokio::task::spawn_blocking(move || asked.check()).await;
            let why = match checked {
                Ok(Ok(())) => break,
                Ok(Err(why)) => why,
                Err(_) => "the host failed to look whether it may run; its log says more".to_owned(),
            };
            // Most decisions are about other servers: do not report the same reason again.
            if told.as_ref() != Some(&why) {
                if !self.failed(sink, "notTrusted", why.clone()).await {
                    return false;
                }
                told = Some(why);
            }
            permission.decided().await;
        }
        told.is_none() || self.report(sink, ServerReport::Status(ServerStatus::Starting)).await
    }

    /// Starts the server, and reports its state for as long as the session wants it.
    async fn follow(&self, lease: &Lease, shared: &Arc<RunnerShared>, sink: &ServerSink) {
        let mut events = lease.events();
        match self.start_reason {
            StartReason::SessionOpened => lease.join(),
            StartReason::Requested => lease.start(Start::Background),
        }
        let mut known = ServerState::Stopped;
        loop {
            // The newest state is always there, however many events were missed.
            let report = tokio::select! {
                state = lease.wait_for(|state| *state != known) => {
                    if let ServerState::AuthRequired(sign_in) = &state
                        && sign_in.reason == SignInReason::Required
                        && let Some(token) = shared.token(&sign_in.resource.resource)
                        && self.sign_in(&sign_in.resource.resource, &token, &shared.tokens)
                    {
                        // The server names its resource only now, and there is a token for it: no user is asked.
                        known = state;
                        continue;
                    }
                    known = state;
                    if known == ServerState::Ready {
                        if let Some(resource) = lease.resource().filter(|_| lease.has_token()) {
                            shared.tokens.note_accepted(&resource);
                        }
                        // Facts come first, so that they are known when the server is ready.
                        self.report(sink, facts(lease, shared)).await;
                    }
                    ServerReport::Status(self.status(&known, lease, shared))
                }
                () = self.sign_ins_changed.notified(), if known == ServerState::Ready => {
                    ServerReport::Status(self.status(&known, lease, shared))
                }
                event = events.next() => match event {
                    None => return,
                    Some(Event::ListChanged(list)) => {
                        if list == List::Tools && known == ServerState::Ready {
                            self.report(sink, facts(lease, shared)).await;
                            // The tools decide which capabilities apps have.
                            let status = self.status(&known, lease, shared);
                            self.report(sink, ServerReport::Status(status)).await;
                        }
                        ServerReport::ListChanged(match list {
                            List::Tools => ServerList::Tools,
                            List::Resources => ServerList::Resources,
                            List::Prompts => ServerList::Prompts,
                        })
                    }
                    Some(Event::Log(log)) if !lease.shared().levels.hears(&self.session, &log.level) => continue,
                    Some(Event::Log(log)) => ServerReport::Log {
                        level: log.level.clone(),
                        logger: log.logger.as_deref().map(defused),
                        data: convert::defused_value(log.data.clone()),
                    },
                    Some(_) => continue,
                },
            };
            if !self.report(sink, report).await {
                return;
            }
        }
    }

    async fn failed(&self, sink: &ServerSink, kind: &str, problem: String) -> bool {
        let status = ServerStatus::Failed(Failure::new(kind, problem));
        self.report(sink, ServerReport::Status(status)).await
    }

    async fn report(&self, sink: &ServerSink, report: ServerReport) -> bool {
        sink.report(self.id(), self.wish.attempt, report).await
    }
}

/// Returns the facts about a server that is ready.
fn facts(lease: &Lease, shared: &RunnerShared) -> ServerReport {
    // The resource may be the address of the server: it is shown only if a client gave a token for it.
    let resource = lease
        .resource()
        .filter(|resource| shared.tokens.get(resource).is_some());
    ServerReport::Facts(ServerFacts {
        resource,
        ..convert::facts(lease)
    })
}

#[cfg(test)]
mod tests {
    use innkeeper_host::customizations::About;
    use innkeeper_host::mcp::{Remote, ServerDeclaration, Transport};

    use super::*;
    use crate::engine::config::{ServerConfig, Stdio, Transport as Engine};
    use crate::engine::server::ServerEnv;
    use crate::hosted::{McpRunner, RunnerSettings};

    /// A server of a session with these working directories, with its lease.
    fn leased(shared: &Arc<RunnerShared>, session: &str, transport: &Transport, roots: &[String]) -> SessionServer {
        let declaration = ServerDeclaration {
            about: About {
                name: "inn".to_owned(),
                ..About::default()
            },
            transport: transport.clone(),
            ..ServerDeclaration::default()
        };
        let wish = DesiredServer {
            attempt: 1,
            declaration: Arc::new(declaration),
        };
        let server = SessionServer::new(wish, StartReason::SessionOpened, &session.into(), roots.to_vec());
        let server = Arc::into_inner(server).expect("the only reference");
        let sharing = launch::sharing(&shared.settings, &server.wish.declaration, session, roots);
        let config = ServerConfig::new("inn", Engine::Stdio(Stdio::new("serve", ["--now"])));
        let lease = shared.pool.lease(&config, &sharing, ServerEnv::default);
        *server.lease.lock() = Some(Arc::new(ServerLease {
            lease: lease.expect("a lease"),
            gone: server.ended.child_token(),
        }));
        server
    }

    #[tokio::test]
    async fn a_server_stays_when_its_session_moves_unless_it_is_shared() {
        let runner = McpRunner::new(RunnerSettings::default());
        let shared = &runner.shared;
        let process = Transport::Stdio {
            command: "serve".to_owned(),
            args: Vec::new(),
            env: std::collections::BTreeMap::new(),
            env_file: None,
            cwd: None,
        };
        let address = Transport::Http(Remote::default());
        let (one, two) = ("file:///one".to_owned(), "file:///two".to_owned());
        let (only_one, both, only_two) = ([one.clone()], [one, two.clone()], [two]);

        let alone = leased(shared, "a", &process, &only_one);
        assert!(alone.moves_to(shared, &only_one), "nothing has changed");
        assert!(alone.moves_to(shared, &both));
        assert!(alone.moves_to(shared, &both), "it knows that it has");
        assert!(!alone.moves_to(shared, &only_two), "its process would run elsewhere");
        // A session that works where the server was does not get it.
        let other = leased(shared, "b", &process, &only_one);
        assert_eq!(runner.servers(), 2);
        assert!(!other.moves_to(shared, &both), "there is one already, which it shares");
        let third = leased(shared, "c", &process, &only_one);
        assert!(!third.moves_to(shared, &both) && !other.moves_to(shared, &both));
        drop((alone, other, third));

        let far = leased(shared, "a", &address, &only_one);
        assert!(far.moves_to(shared, &only_two), "an address runs nowhere");
        runner.stop().await;
    }
}
