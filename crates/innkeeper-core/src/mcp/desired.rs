//! The servers of a session that should run.
//!
//! A server runs while it is enabled, like its container (CUS-18), and no user has stopped it. That is computed again
//! after every input that may have changed it, once for all of its consequences; the MCP service gets it only when
//! the result differs.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use ahp_types::actions::StateAction;
use ahp_types::state::{McpServerCustomization, McpServerState};

use super::wire;
use super::{Mcp, ServerToRun, ServersToRun};
use crate::agent::Failure;
use crate::core::{Cx, Host, Timer, never};
use crate::customization::disabled_ids;
use crate::effect::McpCommand;
use crate::ids::ChannelId;
use crate::session::Session;

/// The state of a session's servers in addition to what clients see.
#[derive(Debug, Default)]
pub struct SessionServers {
    /// Whether the customizations were reported since the session came into memory: until then it shows the persisted
    /// list, and no server can be started.
    pub(super) is_known: bool,
    servers: BTreeMap<String, Server>,
    /// Until when turns wait for those that were started last, on the monotonic clock.
    pub(super) blocks_until_ms: u64,
    /// The servers that were last asked for.
    asked: Option<Box<ServersToRun>>,
}

/// One server.
#[derive(Debug, Default)]
struct Server {
    /// Which of its starts it is.
    attempt: u64,
    /// Whether it is to run.
    is_wanted: bool,
    /// Whether a user stopped it. Disabling and enabling it starts it again.
    is_stopped: bool,
}

impl SessionServers {
    /// Which start of a server is the present one, if it is to run.
    pub(super) fn attempt(&self, id: &str) -> Option<u64> {
        let server = self.servers.get(id).filter(|server| server.is_wanted);
        server.map(|server| server.attempt)
    }

    /// Starts a server again.
    pub(super) fn start(&mut self, id: &str, attempt: u64) {
        let server = self.servers.entry(id.to_owned()).or_default();
        *server = Server {
            attempt,
            is_wanted: true,
            is_stopped: false,
        };
    }

    /// Lets a server start again at the next comparison, if this is its present start.
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

/// The next step for one server.
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
    /// Whether servers can run. A host that cannot write does not run them: it could not publish their status.
    pub(super) fn runs_servers(&self) -> bool {
        self.config.serves_mcp && !self.storage.mode().is_read_only()
    }

    /// The customizations of a session are known: its servers can be started.
    pub(crate) fn servers_known(&mut self, session_id: ChannelId) {
        if let Some(session) = self.sessions.get_mut(&session_id).filter(|_| self.config.serves_mcp) {
            session.mcp.is_known = true;
            self.touched.note_servers(session_id);
        }
    }

    /// The declarations of servers changed: they start again, with new numbers, so that reports of the old processes
    /// are recognised.
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
                continue; // It was removed since it was noted.
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
        let off = disabled_ids(session);
        let (changes, wanted) = compare(session, &off, most, &mut self.mcp);
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
        // The actions that were just published change nothing about the desired servers.
        self.touched.forget_servers(session_id);
        let Some(session) = self.sessions.get_mut(&session_id) else {
            return never!("the session is in memory");
        };
        let is_known = match &session.mcp.asked {
            Some(asked) => **asked == wanted,
            None => wanted.servers.is_empty(),
        };
        if !is_known {
            let wanted = Box::new(wanted);
            session.mcp.asked = Some(wanted.clone());
            cx.emit(McpCommand::SetDesiredServers {
                session: session_id,
                wanted,
            });
        }
    }

    /// Has turns wait for servers that were just started, for a while.
    fn block_turns(&mut self, cx: &Cx<'_>, session_id: ChannelId) {
        let until_ms = self.schedule_wait_end(cx, session_id);
        if let Some(session) = self.sessions.get_mut(&session_id) {
            session.mcp.blocks_until_ms = until_ms;
        }
    }

    /// Bounds the wait for servers of a session. Returns when it ends.
    pub(super) fn schedule_wait_end(&mut self, cx: &Cx<'_>, session_id: ChannelId) -> u64 {
        let at = cx.now.mono_ms.saturating_add(self.config.mcp_blocking_ms);
        self.timers.set(at, Timer::StopWaitingForServers(session_id));
        at
    }

    /// The session is disposed or evicted.
    pub(crate) fn forget_servers(cx: &mut Cx<'_>, session_id: ChannelId, session: &Session) {
        if session.mcp.asked.is_some() {
            cx.emit(McpCommand::ReleaseServers { session: session_id });
        }
    }

    /// A session was restored: none of its servers run. Until one does again, that is what it shows.
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
fn compare(session: &mut Session, off: &BTreeSet<String>, most: usize, mcp: &mut Mcp) -> (Vec<Change>, ServersToRun) {
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
                server.attempt = mcp.next_attempt();
                changes.push(Change::Start(shown.id.clone()));
            }
            wanted.push(ServerToRun {
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
    let wanted = ServersToRun {
        session_uri: Arc::clone(&session.uri),
        roots: session.state.working_directories.clone().unwrap_or_default(),
        servers: wanted,
    };
    (changes, wanted)
}

fn too_many(most: usize) -> Failure {
    Failure::new(
        "tooManyServers",
        format!("a session runs at most {most} MCP servers; disable some that it does not need"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_has_an_attempt_only_while_it_is_to_run() {
        let mut servers = SessionServers::default();
        assert_eq!(servers.attempt("a"), None);
        servers.start("a", 3);
        assert_eq!(servers.attempt("a"), Some(3));
        servers.start_anew("a", 2);
        assert_eq!(servers.attempt("a"), Some(3), "an earlier start is over already");
        servers.start_anew("a", 3);
        assert_eq!(servers.attempt("a"), None);
    }

    #[test]
    fn starting_a_stopped_server_ends_its_stop() {
        let mut servers = SessionServers::default();
        servers.stop("a");
        assert!(servers.servers["a"].is_stopped);
        servers.start("a", 1);
        assert!(!servers.servers["a"].is_stopped);
    }
}
