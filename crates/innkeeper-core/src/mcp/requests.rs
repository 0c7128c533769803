//! Clients ask a server to start or to stop, or not to be waited for (MCP-04 to MCP-06).
//!
//! The reducers show at once what is wanted; what really happens follows.

use ahp_types::actions::{
    SessionMcpServerBackgroundRequestedAction, SessionMcpServerStartRequestedAction,
    SessionMcpServerStopRequestedAction, StateAction,
};
use ahp_types::state::McpServerState;

use super::wire;
use crate::core::{Cx, Host};
use crate::customization::disabled_ids;
use crate::dispatch::{Dispatched, Verdict};
use crate::session::Session;

impl Host {
    pub(crate) fn check_server_start(
        &self,
        _by: &Dispatched,
        session: &Session,
        start: SessionMcpServerStartRequestedAction,
    ) -> Verdict {
        let check = self
            .check_server(session, &start.id)
            .and_then(|()| check_can_start(session, &start.id));
        Verdict::from_check(StateAction::SessionMcpServerStartRequested(start), check)
    }

    pub(crate) fn apply_server_start(
        &mut self,
        cx: &mut Cx<'_>,
        by: &Dispatched,
        start: SessionMcpServerStartRequestedAction,
    ) {
        if let Some(session) = self.sessions.get_mut(&by.channel) {
            // A server that is starting is not started once more: that would only take longer.
            let is_starting = wire::find(&session.state, &start.id)
                .is_some_and(|server| matches!(server.state, McpServerState::Starting(_)));
            if !is_starting || session.mcp.attempt(&start.id).is_none() {
                session.mcp.start(&start.id, self.mcp.next_attempt());
            }
        }
        self.commit_dispatched(cx, by, StateAction::SessionMcpServerStartRequested(start));
    }

    pub(crate) fn check_server_stop(
        &self,
        _by: &Dispatched,
        session: &Session,
        stop: SessionMcpServerStopRequestedAction,
    ) -> Verdict {
        let check = self.check_server(session, &stop.id);
        Verdict::from_check(StateAction::SessionMcpServerStopRequested(stop), check)
    }

    pub(crate) fn apply_server_stop(
        &mut self,
        cx: &mut Cx<'_>,
        by: &Dispatched,
        stop: SessionMcpServerStopRequestedAction,
    ) {
        let id = stop.id.clone();
        if let Some(session) = self.sessions.get_mut(&by.channel) {
            session.mcp.stop(&id);
        }
        self.commit_dispatched(cx, by, StateAction::SessionMcpServerStopRequested(stop));
        self.end_sign_ins(cx, by.channel, &id);
    }

    pub(crate) fn check_server_background(
        &self,
        _by: &Dispatched,
        session: &Session,
        background: SessionMcpServerBackgroundRequestedAction,
    ) -> Verdict {
        let check = self.check_server(session, &background.id);
        Verdict::from_check(StateAction::SessionMcpServerBackgroundRequested(background), check)
    }

    /// Whether a session has a server, and this host runs servers.
    fn check_server(&self, session: &Session, id: &str) -> Result<(), String> {
        let shown = shown(id);
        if wire::find(&session.state, id).is_none() {
            return Err(format!("id: this session has no MCP server {shown:?}"));
        }
        if !self.config.serves_mcp {
            return Err(format!(
                "this host does not run MCP servers, so {shown:?} cannot start; session/customizationToggled enables or \
                 disables it"
            ));
        }
        Ok(())
    }
}

fn check_can_start(session: &Session, id: &str) -> Result<(), String> {
    let shown = shown(id);
    if !session.mcp.is_known {
        return Err(format!(
            "id: the host is still discovering {shown:?}; it starts automatically"
        ));
    }
    if disabled_ids(session).contains(id) {
        return Err(format!(
            "id: the MCP server {shown:?} or its plugin is disabled; enable it first"
        ));
    }
    Ok(())
}

/// The beginning of an id, for messages.
fn shown(id: &str) -> String {
    id.chars().take(256).collect()
}
