//! One server of one session, from when it is wanted until it is not.

use std::ops::Deref;
use std::sync::Arc;

use innkeeper_host::mcp::{
    Failure, McpError, ServerFacts, ServerList, ServerReport, ServerSink, ServerStatus, ServerWish, StartPermission,
    defused,
};
use innkeeper_std::sync::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::apps::{self, Apps};
use super::tokens::Tokens;
use super::{Shared, renewing, start, words};
use crate::engine::auth::{SignIn, SignInReason};
use crate::engine::pool::Lease;
use crate::engine::secret::Token;
use crate::engine::server::Start;
use crate::engine::state::{Event, List, ServerState};

/// The life of a [`Running`]: ends with it.
pub(super) struct Life {
    pub(super) running: Arc<Running>,
}

impl Life {
    pub(super) fn begin(running: Arc<Running>, shared: Arc<Shared>, sink: ServerSink) -> Self {
        let seen_through = Arc::clone(&running);
        tokio::spawn(async move {
            let ended = seen_through.ended.clone();
            tokio::select! {
                () = ended.cancelled() => {}
                _ = async { tokio::join!(seen_through.live(&shared, &sink), apps::pass_on(&seen_through)) } => {}
            }
        });
        Self { running }
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        // Calls that are under way hold on to the server only until they notice.
        self.running.ended.cancel();
        self.running.let_go();
    }
}

/// A server for as long as this session has it.
pub(super) struct Held {
    lease: Lease,
    /// The session has it no longer, and whatever is under way is to be given up.
    pub(super) gone: CancellationToken,
}

impl Deref for Held {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.lease
    }
}

/// Why a server of a session begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// The session has it.
    Along,
    /// Somebody asked for its start.
    Started,
}

pub(super) struct Running {
    pub(super) wish: ServerWish,
    wanted: Wanted,
    /// Where its session works.
    roots: Mutex<Vec<String>>,
    session: Arc<str>,
    /// The server is not wanted any more.
    pub(super) ended: CancellationToken,
    held: Mutex<Option<Arc<Held>>>,
    /// The resource that people signed in for while it ran.
    meant: Mutex<Option<String>>,
    /// The sign-ins that its calls wait for.
    asked: Mutex<Vec<SignIn>>,
    /// Told when that changes.
    asked_changed: Notify,
    /// What apps in clients say to it.
    pub(super) apps: Apps,
}

/// A call that asks people to sign in, until this is dropped.
pub(super) struct Asking<'a> {
    running: &'a Running,
    sign_in: SignIn,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        {
            let mut asked = self.running.asked.lock();
            if let Some(index) = asked.iter().position(|sign_in| *sign_in == self.sign_in) {
                asked.remove(index);
            }
        }
        self.running.asked_changed.notify_one();
    }
}

impl Running {
    pub(super) fn new(wish: ServerWish, wanted: Wanted, session: &Arc<str>, roots: Vec<String>) -> Arc<Self> {
        Arc::new(Self {
            wish,
            wanted,
            roots: Mutex::new(roots),
            session: Arc::clone(session),
            ended: CancellationToken::new(),
            held: Mutex::default(),
            meant: Mutex::default(),
            asked: Mutex::default(),
            asked_changed: Notify::new(),
            apps: Apps::new(),
        })
    }

    pub(super) fn id(&self) -> &str {
        &self.wish.declaration.about.id
    }

    /// What people call it.
    pub(super) fn name(&self) -> &str {
        &self.wish.declaration.about.name
    }

    /// Whose it is.
    pub(super) fn session(&self) -> Arc<str> {
        Arc::clone(&self.session)
    }

    /// The server, once it may run.
    pub(super) fn lease(&self) -> Option<Arc<Held>> {
        self.held.lock().clone()
    }

    pub(super) fn was_stopped(&self) -> McpError {
        McpError::new(format!(
            "the MCP server {:?} was stopped before it answered",
            self.name()
        ))
    }

    /// Goes on for a session that works in these directories now, and says whether it can: a server that
    /// only this session has is told of them and goes on with what it does. One that others have too, or
    /// that would be started elsewhere, is theirs as it is, and this session needs another one.
    pub(super) fn moves_to(&self, shared: &Shared, roots: &[String]) -> bool {
        let mut now = self.roots.lock();
        if *now == roots {
            return true;
        }
        let declaration = &self.wish.declaration;
        // One that has not come so far has no server to tell anything, and loses nothing.
        let Some(lease) = self
            .lease()
            .filter(|_| start::runs_at(declaration, &now) == start::runs_at(declaration, roots))
        else {
            return false;
        };
        let sharing = start::sharing(&shared.settings, declaration, &self.session, roots);
        if !lease.share_with(&sharing) {
            return false;
        }
        *now = roots.to_vec();
        let told = lease.set_roots(start::roots(roots));
        if let Some(told) = told {
            tokio::spawn(told);
        }
        true
    }

    /// Whether tokens of a resource are for it.
    pub(super) fn is_for(&self, resource: &str) -> bool {
        self.lease().and_then(|lease| lease.resource()).as_deref() == Some(resource)
    }

    /// A call of it asks people to sign in, whatever the server itself does (MCP-10).
    pub(super) fn asks_for(&self, sign_in: &SignIn) -> Asking<'_> {
        self.asked.lock().push(sign_in.clone());
        self.asked_changed.notify_one();
        Asking {
            running: self,
            sign_in: sign_in.clone(),
        }
    }

    /// The status that clients of the session are shown. While a call waits because its token does not grant enough,
    /// they see what to sign in for (MCP-07). Other sessions that have the server do not: it is ready for them.
    fn status(&self, state: &ServerState, lease: &Lease, shared: &Shared) -> ServerStatus {
        let asked = self.asked.lock();
        let step_up = asked
            .iter()
            .rfind(|sign_in| sign_in.reason == SignInReason::InsufficientScope);
        match step_up.filter(|_| *state == ServerState::Ready) {
            Some(sign_in) => ServerStatus::AuthRequired(Box::new(words::requirement(sign_in, &shared.tokens))),
            None => words::status(state, lease, &shared.tokens),
        }
    }

    /// Somebody signed in, and saw what for: a server whose resource this is, is meant, if it asked for that or
    /// has had such a token. One that nobody was shown is not (T16).
    /// With the token that is remembered, so that it need not be said again in another session or after a restart.
    pub(super) fn is_meant(&self, resource: &str, tokens: &Tokens) {
        let lease = self.lease();
        let Some(lease) = lease.filter(|lease| lease.resource().as_deref() == Some(resource)) else {
            return;
        };
        let asks = matches!(lease.state(), ServerState::AuthRequired(sign_in) if sign_in.resource.resource == resource);
        let is_asked = self
            .asked
            .lock()
            .iter()
            .any(|asked| asked.resource.resource == resource);
        if asks || is_asked || lease.may_be_given_tokens() {
            *self.meant.lock() = Some(resource.to_owned());
            if let Some(address) = lease.address() {
                tokens.mean(resource, &address);
            }
        }
    }

    /// Gives it a token, if the token is for it. A server that names something around itself as its
    /// resource is not given what was meant for its neighbours, unless people signed in for it (T16). Says
    /// whether it was given it.
    pub(super) fn sign_in(&self, resource: &str, token: &Token, tokens: &Tokens) -> bool {
        let lease = self.lease();
        let Some(lease) = lease.filter(|lease| lease.resource().as_deref() == Some(resource)) else {
            return false;
        };
        let is_meant = self.meant.lock().as_deref() == Some(resource)
            || lease
                .address()
                .is_some_and(|address| tokens.is_meant(resource, &address));
        let may = is_meant || lease.may_be_given_tokens() || token.expose().is_empty();
        // It is its resource, as was just looked at.
        may && lease.sign_in(resource, token.clone()).is_ok()
    }

    async fn live(&self, shared: &Arc<Shared>, sink: &ServerSink) {
        let Some(permission) = &self.wish.declaration.permission.0 else {
            if let Some(held) = self.take(shared, sink).await {
                self.follow(&held, shared, sink).await;
            }
            return;
        };
        while self.permitted(permission, sink).await {
            let Some(held) = self.take(shared, sink).await else {
                return;
            };
            tokio::select! {
                () = self.follow(&held, shared, sink) => return,
                // People may have second thoughts while it runs (P12).
                () = permission.withdrawn() => {
                    held.gone.cancel();
                    self.let_go();
                }
            }
        }
    }

    /// Gives its share of the server back.
    fn let_go(&self) {
        if let Some(held) = self.held.lock().take() {
            held.shared().levels.leave(&self.session);
        }
    }

    /// Takes its share of the server. Nothing says that this failed, as was reported, or that nobody wants it
    /// any more.
    async fn take(&self, shared: &Arc<Shared>, sink: &ServerSink) -> Option<Arc<Held>> {
        // They stay the same until there is a lease.
        let roots = self.roots.lock().clone();
        let prepared = start::prepare(
            shared.settings.clone(),
            Arc::clone(&self.wish.declaration),
            roots.clone(),
        )
        .await;
        let leased = prepared.and_then(|config| {
            let sharing = start::sharing(&shared.settings, &self.wish.declaration, &self.session, &roots);
            let permission = &self.wish.declaration.permission;
            let surroundings = || {
                let renew = renewing::renew(shared);
                start::surroundings(
                    &shared.settings,
                    &roots,
                    permission,
                    renew,
                    Arc::clone(&shared.starting),
                )
            };
            let leased = shared.pool.lease(&config, &sharing, surroundings);
            leased.map_err(|error| error.to_string())
        });
        let held = match leased {
            Ok(lease) => Arc::new(Held {
                lease,
                gone: self.ended.child_token(),
            }),
            Err(problem) => {
                self.failed(sink, "mcpServerNotStarted", problem).await;
                return None;
            }
        };
        {
            let mut slot = self.held.lock();
            // Whoever ended it did so under this lock, or finds it there.
            if self.ended.is_cancelled() {
                return None;
            }
            held.shared().levels.join(&self.session);
            *slot = Some(Arc::clone(&held));
        }
        if let Some((resource, token)) = held
            .resource()
            .and_then(|resource| shared.token(&resource).map(|token| (resource, token)))
        {
            self.sign_in(&resource, &token, &shared.tokens);
        }
        Some(held)
    }

    /// Waits until people let it run. `false` says that the host is gone.
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
            // Most decisions are about something else, and then there is nothing to say.
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

    /// Starts it, and reports what becomes of it for as long as it is wanted.
    async fn follow(&self, lease: &Lease, shared: &Arc<Shared>, sink: &ServerSink) {
        let mut events = lease.events();
        match self.wanted {
            Wanted::Along => lease.join(),
            Wanted::Started => lease.start(Start::Background),
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
                        // Only now it said what it is, and somebody has signed in before: nobody is asked.
                        known = state;
                        continue;
                    }
                    known = state;
                    if known == ServerState::Ready {
                        if let Some(resource) = lease.resource().filter(|_| lease.has_token()) {
                            shared.tokens.note_accepted(&resource);
                        }
                        // First, so that whoever waits for it to be ready knows them then.
                        self.report(sink, facts(lease, shared)).await;
                    }
                    ServerReport::Status(self.status(&known, lease, shared))
                }
                () = self.asked_changed.notified(), if known == ServerState::Ready => {
                    ServerReport::Status(self.status(&known, lease, shared))
                }
                event = events.next() => match event {
                    None => return,
                    Some(Event::ListChanged(list)) => {
                        if list == List::Tools && known == ServerState::Ready {
                            self.report(sink, facts(lease, shared)).await;
                            // With its tools, what it has for apps may have changed.
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
                        data: words::defused_value(log.data.clone()),
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

/// What is known of a server that is ready.
fn facts(lease: &Lease, shared: &Shared) -> ServerReport {
    // Its address, which may be what it is for, is nobody's business unless somebody signed in with that name.
    let resource = lease
        .resource()
        .filter(|resource| shared.tokens.get(resource).is_some());
    ServerReport::Facts(ServerFacts {
        resource,
        ..words::facts(lease)
    })
}

#[cfg(test)]
mod tests {
    use innkeeper_host::customizations::About;
    use innkeeper_host::mcp::{Remote, ServerDeclaration, Transport};

    use super::*;
    use crate::engine::config::{ServerConfig, Stdio, Transport as Engine};
    use crate::engine::server::Surroundings;
    use crate::hosted::{McpRunner, RunnerSettings};

    /// A server of a session that works in directories, as far as having its lease.
    fn leased(shared: &Arc<Shared>, session: &str, transport: &Transport, roots: &[String]) -> Running {
        let declaration = ServerDeclaration {
            about: About {
                name: "inn".to_owned(),
                ..About::default()
            },
            transport: transport.clone(),
            ..ServerDeclaration::default()
        };
        let wish = ServerWish {
            attempt: 1,
            declaration: Arc::new(declaration),
        };
        let running = Running::new(wish, Wanted::Along, &session.into(), roots.to_vec());
        let running = Arc::into_inner(running).expect("nobody has it");
        let sharing = start::sharing(&shared.settings, &running.wish.declaration, session, roots);
        let config = ServerConfig::new("inn", Engine::Stdio(Stdio::new("serve", ["--now"])));
        let lease = shared.pool.lease(&config, &sharing, Surroundings::default);
        *running.held.lock() = Some(Arc::new(Held {
            lease: lease.expect("a lease"),
            gone: running.ended.child_token(),
        }));
        running
    }

    #[tokio::test]
    async fn a_server_goes_on_when_its_session_works_elsewhere_unless_others_have_it_too() {
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
        // Whoever works where it was, does not get it.
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
