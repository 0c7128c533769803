//! One server of one session, from when it is wanted until it is not.

use std::sync::{Arc, Mutex};

use innkeeper_host::mcp::{
    Failure, McpError, ServerFacts, ServerList, ServerReport, ServerSink, ServerStatus, ServerWish, StartPermission,
};
use tokio_util::sync::CancellationToken;

use super::{Shared, lock, renewing, start, words};
use crate::auth::SignInReason;
use crate::pool::Lease;
use crate::secret::Token;
use crate::server::Start;
use crate::state::{Event, List, ServerState};

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
                () = seen_through.live(&shared, &sink) => {}
            }
        });
        Self { running }
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        // Calls that are under way hold on to the server only until they notice.
        self.running.ended.cancel();
        lock(&self.running.lease).take();
    }
}

pub(super) struct Running {
    pub(super) wish: ServerWish,
    pub(super) roots: Vec<String>,
    session: Arc<str>,
    /// The server is not wanted any more.
    pub(super) ended: CancellationToken,
    lease: Mutex<Option<Arc<Lease>>>,
    /// The resource that people signed in for while it ran.
    meant: Mutex<Option<String>>,
}

impl Running {
    pub(super) fn new(wish: ServerWish, session: &Arc<str>, roots: Vec<String>) -> Arc<Self> {
        Arc::new(Self {
            wish,
            roots,
            session: Arc::clone(session),
            ended: CancellationToken::new(),
            lease: Mutex::default(),
            meant: Mutex::default(),
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
    pub(super) fn lease(&self) -> Option<Arc<Lease>> {
        lock(&self.lease).clone()
    }

    pub(super) fn was_stopped(&self) -> McpError {
        McpError::new(format!(
            "the MCP server {:?} was stopped before it answered",
            self.name()
        ))
    }

    /// Whether tokens of a resource are for it.
    pub(super) fn is_for(&self, resource: &str) -> bool {
        self.lease().and_then(|lease| lease.resource()).as_deref() == Some(resource)
    }

    /// Somebody signed in, and saw what for: a server whose resource this is, is meant.
    pub(super) fn is_meant(&self, resource: &str) {
        if self.is_for(resource) {
            *lock(&self.meant) = Some(resource.to_owned());
        }
    }

    /// Gives it a token, if the token is for it. A server that names something around itself as its
    /// resource is not given what was meant for its neighbours, unless people signed in for it (T16).
    pub(super) fn sign_in(&self, resource: &str, token: &Token) {
        let lease = self.lease();
        let Some(lease) = lease.filter(|lease| lease.resource().as_deref() == Some(resource)) else {
            return;
        };
        let is_meant = lock(&self.meant).as_deref() == Some(resource);
        if is_meant || lease.may_be_given_tokens() || token.expose().is_empty() {
            // It is its resource, as was just looked at.
            let _ = lease.sign_in(resource, token.clone());
        }
    }

    async fn live(&self, shared: &Arc<Shared>, sink: &ServerSink) {
        if let Some(permission) = &self.wish.declaration.permission.0
            && !self.permitted(permission, sink).await
        {
            return;
        }
        let prepared = start::prepare(
            shared.settings.clone(),
            Arc::clone(&self.wish.declaration),
            self.roots.clone(),
        )
        .await;
        let leased = prepared.and_then(|config| {
            let sharing = start::sharing(&shared.settings, &self.wish.declaration, &self.session, &self.roots);
            let permission = &self.wish.declaration.permission;
            let surroundings = || {
                let renew = renewing::renew(shared);
                start::surroundings(&shared.settings, &self.roots, permission, renew)
            };
            let leased = shared.pool.lease(&config, &sharing, surroundings);
            leased.map(Arc::new).map_err(|error| error.to_string())
        });
        let lease = match leased {
            Ok(lease) => lease,
            Err(problem) => {
                self.failed(sink, "mcpServerNotStarted", problem).await;
                return;
            }
        };
        {
            let mut slot = lock(&self.lease);
            // Whoever ended it did so under this lock, or finds it there.
            if self.ended.is_cancelled() {
                return;
            }
            *slot = Some(Arc::clone(&lease));
        }
        if let Some((resource, token)) = lease
            .resource()
            .and_then(|resource| shared.token(&resource).map(|token| (resource, token)))
        {
            self.sign_in(&resource, &token);
        }
        self.follow(&lease, shared, sink).await;
    }

    /// Waits until people let it run. `false` says that the host is gone.
    async fn permitted(&self, permission: &Arc<dyn StartPermission>, sink: &ServerSink) -> bool {
        loop {
            let asked = Arc::clone(permission);
            let checked = tokio::task::spawn_blocking(move || asked.check()).await;
            let why = match checked {
                Ok(Ok(())) => return true,
                Ok(Err(why)) => why,
                Err(_) => "the host failed to look whether it may run; its log says more".to_owned(),
            };
            if !self.failed(sink, "notTrusted", why).await {
                return false;
            }
            permission.decided().await;
            if !self.report(sink, ServerReport::Status(ServerStatus::Starting)).await {
                return false;
            }
        }
    }

    /// Starts it, and reports what becomes of it for as long as it is wanted.
    async fn follow(&self, lease: &Lease, shared: &Arc<Shared>, sink: &ServerSink) {
        let mut events = lease.events();
        lease.start(Start::Background);
        let mut known = ServerState::Stopped;
        loop {
            // The newest state is always there, however many events were missed.
            let report = tokio::select! {
                state = lease.wait_for(|state| *state != known) => {
                    if let ServerState::AuthRequired(sign_in) = &state
                        && sign_in.reason == SignInReason::Required
                        && let Some(token) = shared.token(&sign_in.resource.resource)
                    {
                        // Only now it said what it is; somebody has signed in before.
                        self.sign_in(&sign_in.resource.resource, &token);
                    }
                    known = state;
                    if known == ServerState::Ready {
                        // First, so that whoever waits for it to be ready knows them then.
                        self.report(sink, facts(lease, shared)).await;
                    }
                    ServerReport::Status(words::status(&known, lease))
                }
                event = events.next() => match event {
                    None => return,
                    Some(Event::ListChanged(list)) => {
                        if list == List::Tools && known == ServerState::Ready {
                            self.report(sink, facts(lease, shared)).await;
                            // With its tools, what it has for apps may have changed.
                            let status = words::status(&known, lease);
                            self.report(sink, ServerReport::Status(status)).await;
                        }
                        ServerReport::ListChanged(match list {
                            List::Tools => ServerList::Tools,
                            List::Resources => ServerList::Resources,
                            List::Prompts => ServerList::Prompts,
                        })
                    }
                    Some(Event::Log(log)) => ServerReport::Log {
                        level: log.level.clone(),
                        logger: log.logger.clone(),
                        data: log.data.clone(),
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
        tools: lease.tools().len() as u64,
    })
}
