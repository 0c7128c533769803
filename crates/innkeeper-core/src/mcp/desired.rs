//! The servers of a session that should run.
//!
//! A server runs while it is switched on, by itself and with its container (CUS-18), and nobody has
//! stopped it. That is looked at again after every input that may have changed it, once for all of its
//! consequences; whoever runs servers hears of it only when it comes out differently.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use ahp_types::actions::StateAction;
use ahp_types::state::{McpServerCustomization, McpServerState};

use super::wire;
use super::{WantedServer, WantedServers};
use crate::agent::Failure;
use crate::core::{Cx, Host, Timer, never};
use crate::customization::switched_off;
use crate::effect::Effect;
use crate::ids::ChannelId;
use crate::session::Session;

/// What is known of a session's servers besides what clients see.
#[derive(Debug, Default)]
pub struct SessionServers {
    /// Whether what the session brings along is known since it is in memory: until then it shows what it
    /// had, and nobody can start any of it.
    pub(super) is_known: bool,
    servers: BTreeMap<String, Server>,
    /// Until when turns wait for those that were started last, on the monotonic clock.
    pub(super) blocks_until_ms: u64,
    /// What was last asked for.
    asked: Option<Box<WantedServers>>,
}

/// One server.
#[derive(Debug, Default)]
struct Server {
    /// Which of its starts it is.
    attempt: u64,
    /// Whether it is to run.
    is_wanted: bool,
    /// Whether somebody stopped it. Switching it off and on again starts it.
    is_stopped: bool,
}

impl SessionServers {
    /// Which start of a server is the present one, if it is to run.
    pub(super) fn attempt(&self, id: &str) -> Option<u64> {
        let server = self.servers.get(id).filter(|server| server.is_wanted);
        server.map(|server| server.attempt)
    }

    /// Has a server started anew.
    pub(super) fn start(&mut self, id: &str, attempt: u64) {
        let server = self.servers.entry(id.to_owned()).or_default();
        *server = Server {
            attempt,
            is_wanted: true,
            is_stopped: false,
        };
    }

    /// Has a server started anew when it is next looked at, if this is its present start.
    fn start_anew(&mut self, id: &str, attempt: u64) {
        if let Some(server) = self.servers.get_mut(id).filter(|server| server.attempt == attempt) {
            server.is_wanted = false;
        }
    }

    /// Has a server stopped.
    pub(super) fn stop(&mut self, id: &str) {
        self.servers.entry(id.to_owned()).or_default().is_stopped = true;
    }
}

/// What is to happen to one server.
enum Change {
    Start(String),
    Show(String, McpServerState),
}

/// Returns true for an action after which a session may need other MCP servers.
pub(crate) fn may_change_servers(action: &StateAction) -> bool {
    matches!(
        action,
        StateAction::SessionCustomizationsChanged(_)
            | StateAction::SessionCustomizationToggled(_)
            | StateAction::SessionCustomizationUpdated(_)
            | StateAction::SessionCustomizationRemoved(_)
            | StateAction::SessionMcpServerStateChanged(_)
            | StateAction::SessionMcpServerStartRequested(_)
            | StateAction::SessionMcpServerStopRequested(_)
            | StateAction::SessionMcpServerBackgroundRequested(_)
            | StateAction::SessionWorkingDirectorySet(_)
            | StateAction::SessionWorkingDirectoryRemoved(_)
            | StateAction::SessionWorkingDirectoryReplaced(_)
    )
}

impl Host {
    /// Whether anybody runs servers. A host that cannot write does not: it could not tell anybody.
    pub(super) fn runs_servers(&self) -> bool {
        self.config.serves_mcp && !self.storage.mode().is_read_only()
    }

    /// What a session brings along is known: its servers can be started.
    pub(crate) fn servers_known(&mut self, session_id: ChannelId) {
        if let Some(session) = self.sessions.get_mut(&session_id).filter(|_| self.config.serves_mcp) {
            session.mcp.is_known = true;
            self.touched.note_servers(session_id);
        }
    }

    /// Servers are started in another way than before: they start anew, with numbers of their own, so that
    /// nobody takes what the old ones report for theirs.
    pub(crate) fn servers_redeclared(&mut self, session_id: ChannelId, servers: &[(String, u64)]) {
        let runs_servers = self.runs_servers();
        if let Some(session) = self.sessions.get_mut(&session_id).filter(|_| runs_servers) {
            for (id, attempt) in servers {
                session.mcp.start_anew(id, *attempt);
            }
            self.touched.note_servers(session_id);
        }
    }

    /// Follows up on everything that was noted.
    pub(crate) fn update_servers(&mut self, cx: &mut Cx<'_>) {
        while let Some(session_id) = self.touched.next_servers() {
            if !self.sessions.contains_key(&session_id) {
                continue; // It is gone since it was noted.
            }
            if self.runs_servers() {
                self.want_servers(cx, session_id);
            }
            self.start_held_turns(cx, session_id);
        }
    }

    fn want_servers(&mut self, cx: &mut Cx<'_>, session_id: ChannelId) {
        let most = self.config.max_mcp_servers;
        let Some(session) = self.sessions.get_mut(&session_id) else {
            return never!("the session is in memory");
        };
        if !session.mcp.is_known {
            return;
        }
        let off = switched_off(session);
        let (changes, wanted) = compare(session, &off, most, &mut self.mcp.next_attempt);
        let blocks_ms = self.config.mcp_blocking_ms;
        for change in changes {
            let (id, state) = match change {
                Change::Start(id) => (id, wire::starting(blocks_ms > 0)),
                Change::Show(id, state) => (id, state),
            };
            if matches!(state, McpServerState::Starting(_)) && blocks_ms > 0 {
                self.block_turns(cx, session_id);
            }
            if matches!(state, McpServerState::Stopped(_)) {
                self.end_sign_ins(cx, session_id, &id);
            }
            self.hide_apps(cx, session_id, &id);
            self.commit(cx, session_id, wire::changed(&id, state, None), None);
        }
        // What was just published changes nothing about what is wanted.
        self.touched.forget_servers(session_id);
        let Some(session) = self.sessions.get_mut(&session_id) else {
            return;
        };
        let is_known = match &session.mcp.asked {
            Some(asked) => **asked == wanted,
            None => wanted.servers.is_empty(),
        };
        if !is_known {
            let wanted = Box::new(wanted);
            session.mcp.asked = Some(wanted.clone());
            cx.effects.push(Effect::WantMcpServers {
                session: session_id,
                wanted,
            });
        }
    }

    /// Has turns wait for servers that were just started, for a while.
    fn block_turns(&mut self, cx: &Cx<'_>, session_id: ChannelId) {
        let until_ms = self.look_again(cx, session_id);
        if let Some(session) = self.sessions.get_mut(&session_id) {
            session.mcp.blocks_until_ms = until_ms;
        }
    }

    /// Makes sure that nothing waits for servers of a session without end. Returns when it is looked at.
    pub(super) fn look_again(&mut self, cx: &Cx<'_>, session_id: ChannelId) -> u64 {
        let at = cx.now.mono_ms.saturating_add(self.config.mcp_blocking_ms);
        self.timers.set(at, Timer::StopWaitingForServers(session_id));
        at
    }

    /// The session is gone, or leaves memory.
    pub(crate) fn forget_servers(cx: &mut Cx<'_>, session_id: ChannelId, session: &Session) {
        if session.mcp.asked.is_some() {
            cx.effects.push(Effect::ForgetMcpServers { session: session_id });
        }
    }

    /// A session came into memory: no server of it runs. Until one does again, that is what it shows.
    pub(crate) fn recover_servers(&mut self, cx: &mut Cx<'_>, session_id: ChannelId) {
        let Some(session) = self.sessions.get(&session_id) else {
            return never!("the session is in memory");
        };
        let is_stopped = |server: &McpServerCustomization| {
            server.state == wire::stopped() && server.channel.is_none() && server.mcp_app.is_none()
        };
        let running = wire::servers(&session.state).filter(|(_, server)| !is_stopped(server));
        let running: Vec<String> = running.map(|(_, server)| server.id.clone()).collect();
        for id in running {
            self.hide_apps(cx, session_id, &id);
            self.commit(cx, session_id, wire::changed(&id, wire::stopped(), None), None);
        }
        self.hide_lost_tokens(cx, session_id);
    }
}

/// Compares what is to run with what was to run.
fn compare(
    session: &mut Session,
    off: &BTreeSet<String>,
    most: usize,
    next_attempt: &mut u64,
) -> (Vec<Change>, WantedServers) {
    let mut changes = Vec::new();
    let mut wanted = Vec::new();
    let mut listed = HashSet::new();
    for (_, shown) in wire::servers(&session.state) {
        if !listed.insert(shown.id.as_str()) {
            continue;
        }
        let server = session.mcp.servers.entry(shown.id.clone()).or_default();
        let is_on = !off.contains(&shown.id);
        server.is_stopped &= is_on;
        let fits = wanted.len() < most;
        let was_wanted = server.is_wanted;
        server.is_wanted = is_on && !server.is_stopped && fits;
        if server.is_wanted {
            if !was_wanted {
                *next_attempt += 1;
                server.attempt = *next_attempt;
                changes.push(Change::Start(shown.id.clone()));
            }
            wanted.push(WantedServer {
                id: shown.id.clone(),
                attempt: server.attempt,
            });
            continue;
        }
        let state = if is_on && !server.is_stopped {
            wire::failed(too_many(most))
        } else {
            wire::stopped()
        };
        if shown.state != state || shown.channel.is_some() || shown.mcp_app.is_some() {
            changes.push(Change::Show(shown.id.clone(), state));
        }
    }
    let servers = &mut session.mcp.servers;
    servers.retain(|id, _| listed.contains(id.as_str()));
    let wanted = WantedServers {
        session_uri: Arc::clone(&session.uri),
        roots: session.state.working_directories.clone().unwrap_or_default(),
        servers: wanted,
    };
    (changes, wanted)
}

fn too_many(most: usize) -> Failure {
    Failure::new(
        "tooManyServers",
        format!("a session runs at most {most} MCP servers; switch off some that it does not need"),
    )
}
