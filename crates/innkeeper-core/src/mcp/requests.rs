//! What people ask of one server: to start it, to stop it, and not to wait for it (MCP-04 to MCP-06).
//!
//! The reducers show at once what is wanted; what really happens follows.

use ahp_types::actions::StateAction;
use ahp_types::state::McpServerState;

use super::wire;
use crate::core::{Cx, Host};
use crate::customization::switched_off;
use crate::ids::ChannelId;
use crate::log::commit::Author;
use crate::session::Session;

impl Host {
    /// Whether a server can be asked for this.
    pub(crate) fn check_server_demand(&self, session: &Session, action: &StateAction) -> Result<(), String> {
        let Some(id) = server_of(action) else {
            return Err("clients may not send this to a session".to_owned());
        };
        let shown: String = id.chars().take(256).collect();
        if wire::find(&session.state, id).is_none() {
            return Err(format!("id: this session has no MCP server {shown:?}"));
        }
        if !self.config.serves_mcp {
            return Err(format!(
                "this host does not run MCP servers, so not {shown:?} either; session/customizationToggled decides \
                 whether it is on"
            ));
        }
        if !matches!(action, StateAction::SessionMcpServerStartRequested(_)) {
            return Ok(());
        }
        if !session.mcp.is_known {
            return Err(format!(
                "id: the host is still looking for what starts {shown:?}; it starts by itself when that is found"
            ));
        }
        if switched_off(session).contains(id) {
            return Err(format!(
                "id: the MCP server {shown:?} is switched off, by itself or with its plugin; switch it on first"
            ));
        }
        Ok(())
    }

    /// Does what was asked for.
    pub(crate) fn accept_server_demand(
        &mut self,
        cx: &mut Cx<'_>,
        session_id: ChannelId,
        action: StateAction,
        author: &Author,
    ) {
        let Some((id, session)) = server_of(&action).zip(self.sessions.get_mut(&session_id)) else {
            return;
        };
        let id = id.to_owned();
        match action {
            StateAction::SessionMcpServerStartRequested(_) => {
                // One that is starting is not started once more: whoever is impatient would only make it
                // take longer.
                let is_starting = wire::find(&session.state, &id)
                    .is_some_and(|server| matches!(server.state, McpServerState::Starting(_)));
                if !is_starting || session.mcp.attempt(&id).is_none() {
                    self.mcp.next_attempt += 1;
                    session.mcp.start(&id, self.mcp.next_attempt);
                }
            }
            StateAction::SessionMcpServerStopRequested(_) => session.mcp.stop(&id),
            _ => {}
        }
        let stops = matches!(action, StateAction::SessionMcpServerStopRequested(_));
        self.commit(cx, session_id, action, Some(author));
        if stops {
            self.end_sign_ins(cx, session_id, &id);
        }
    }
}

fn server_of(action: &StateAction) -> Option<&str> {
    match action {
        StateAction::SessionMcpServerStartRequested(action) => Some(&action.id),
        StateAction::SessionMcpServerStopRequested(action) => Some(&action.id),
        StateAction::SessionMcpServerBackgroundRequested(action) => Some(&action.id),
        _ => None,
    }
}
