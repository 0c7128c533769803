//! Reports of servers become actions, exactly when they are news (MCP-02).

use ahp_types::actions::{SessionCustomizationUpdatedAction, StateAction};
use ahp_types::state::{Customization, McpServerState, ToolCallContributor, ToolCallState};

use super::wire;
use super::{AppCapabilities, ServerFacts, ServerReport, ServerStatus};
use crate::agent::{AuthReason, ToolReply, ToolResult};
use crate::core::{Cx, Host, never};
use crate::ids::ChannelId;

impl Host {
    /// Takes what was reported of a server.
    pub(crate) fn server_report(
        &mut self,
        cx: &mut Cx<'_>,
        session_id: ChannelId,
        id: &str,
        attempt: u64,
        report: ServerReport,
    ) {
        let session = self.sessions.get(&session_id);
        if session.and_then(|session| session.mcp.attempt(id)) != Some(attempt) {
            return; // The server was stopped or restarted since.
        }
        match report {
            ServerReport::Status(status) => self.server_status(cx, session_id, id, attempt, status),
            ServerReport::Facts(facts) => self.server_facts(cx, session_id, id, &facts),
            ServerReport::ListChanged(list) => self.list_changed(cx, session_id, id, list),
            ServerReport::Log { level, logger, data } => self.server_log(cx, session_id, id, &level, logger, data),
        }
    }

    fn server_status(&mut self, cx: &mut Cx<'_>, session_id: ChannelId, id: &str, attempt: u64, status: ServerStatus) {
        let Some(session) = self.sessions.get(&session_id) else {
            return never!("the session is in memory");
        };
        // The server may have been removed from the session since it was asked to run.
        let Some(shown) = wire::find(&session.state, id) else {
            return;
        };
        let (apps, channel) = match &status {
            // MCP-13: only while it is ready, and only if there is anything to ask it.
            ServerStatus::Ready { apps } => {
                let channel = apps.is_some().then(|| channel(session_id, attempt));
                // The MCP service does not know the agent of the session.
                let has_model = self.agent_of(session).is_some_and(|agent| agent.writes_for_apps);
                let apps = apps.map(|apps| AppCapabilities {
                    sampling: has_model.then_some(false).or(apps.sampling),
                    ..apps
                });
                (apps.map(wire::apps), channel)
            }
            // It still serves what its token grants, also to apps.
            ServerStatus::AuthRequired(needed) if needed.reason == AuthReason::InsufficientScope => {
                (shown.mcp_app.clone(), shown.channel.clone())
            }
            ServerStatus::Starting
            | ServerStatus::AuthRequired(_)
            | ServerStatus::Failed(_)
            | ServerStatus::Stopped => (None, None),
        };
        let state = match (status, &shown.state) {
            // Whether turns wait for it is not for it to say.
            (ServerStatus::Starting, McpServerState::Starting(_)) => shown.state.clone(),
            (status, _) => wire::state(status),
        };
        let is_new = shown.state != state || shown.channel != channel;
        // Other fields than these two travel with the whole entry.
        let has_other_apps = shown.mcp_app != apps;
        let updated = || wire::with(&session.state, id, |server| server.mcp_app.clone_from(&apps));
        if let Some(customization) = has_other_apps.then(updated).flatten() {
            self.commit_entry(cx, session_id, customization);
        }
        if is_new {
            self.commit(cx, session_id, wire::changed(id, state, channel), None);
        }
    }

    /// A server that does not run serves no apps.
    pub(super) fn hide_apps(&mut self, cx: &mut Cx<'_>, session_id: ChannelId, id: &str) {
        let session = self.sessions.get(&session_id);
        let entry = session.and_then(|session| {
            wire::find(&session.state, id).filter(|server| server.mcp_app.is_some())?;
            wire::with(&session.state, id, |server| server.mcp_app = None)
        });
        if let Some(entry) = entry {
            self.commit_entry(cx, session_id, entry);
        }
    }

    /// Shows what is known of a server, if it is not shown yet.
    fn server_facts(&mut self, cx: &mut Cx<'_>, session_id: ChannelId, id: &str, facts: &ServerFacts) {
        let Some(session) = self.sessions.get(&session_id) else {
            return never!("the session is in memory");
        };
        // The server may have been removed from the session since it was asked to run.
        let Some(shown) = wire::find(&session.state, id) else {
            return;
        };
        let meta = wire::with_facts(shown.meta.as_ref(), facts, self.config.persists_mcp_tokens);
        // One that shows none is shown as it was declared.
        let icons = wire::icons(&facts.icons).or_else(|| shown.icons.clone());
        if shown.meta == meta && shown.icons == icons {
            return;
        }
        let told = wire::with(&session.state, id, |server| {
            server.meta.clone_from(&meta);
            server.icons.clone_from(&icons);
        });
        if let Some(entry) = told {
            self.commit_entry(cx, session_id, entry);
        }
    }

    pub(super) fn commit_entry(&mut self, cx: &mut Cx<'_>, session_id: ChannelId, customization: Customization) {
        let action = SessionCustomizationUpdatedAction { customization };
        let action = StateAction::SessionCustomizationUpdated(Box::new(action));
        self.commit(cx, session_id, action, None);
    }

    /// Ends the calls that wait for a sign-in to a server that is stopped: the user is no longer asked (MCP-05).
    pub(super) fn end_sign_ins(&mut self, cx: &mut Cx<'_>, session_id: ChannelId, id: &str) {
        let chats = self.sessions.get(&session_id).map(|session| session.chats.clone());
        for chat_id in chats.unwrap_or_default() {
            let Some(chat) = self.chats.get(&chat_id) else {
                continue;
            };
            let Some(turn) = chat.run().map(|run| run.key()) else {
                continue;
            };
            let is_waiting = |call: &&ToolCallState| {
                matches!(call, ToolCallState::AuthRequired(call)
                    if matches!(&call.contributor, Some(ToolCallContributor::Mcp(server)) if server.customization_id == id))
            };
            let waiting = chat.model.open_calls().filter(is_waiting);
            let waiting: Vec<String> = waiting
                .map(|call| crate::chat::tool_call::wire::call_id(call).to_owned())
                .collect();
            for call in waiting {
                let error = "the MCP server was stopped while users were asked to sign in to it";
                let result = ToolResult::failed("The server was stopped", error);
                self.end_call(cx, chat_id, call.clone(), result);
                self.tool_reply(cx, chat_id, turn, call, ToolReply::AuthRefused);
            }
        }
    }
}

/// The URI by which clients address a server (MCP-13). Every requested start has a new one, also over restarts of the
/// host; a server that crashed and restarted keeps its URI.
pub(super) fn channel(session: ChannelId, attempt: u64) -> String {
    format!("mcp://session-{}/{attempt}", session.0)
}
