//! Tool calls: an agent's steps become actions, and decisions of users or clients go back to the agent.
//!
//! Every change of a call goes through the published reducer. This module only emits steps that are valid in the state
//! of the call, so a late step is dropped (of a call that was cancelled, for instance).

use std::collections::HashSet;

use ahp_types::actions::{
    ChatToolCallAuthRequiredAction, ChatToolCallAuthResolvedAction, ChatToolCallCompleteAction,
    ChatToolCallContentChangedAction, ChatToolCallDeltaAction, ChatToolCallReadyAction, ChatToolCallStartAction,
    StateAction,
};
use ahp_types::state::{ToolCallConfirmationReason, ToolCallContributor, ToolCallState};
use serde_json::{Map, Value, json};

use crate::agent::{
    ClientTool, Confirmation, Decision, Description, Offer, Permission, Reply, Risk, ToolReady, ToolReply, ToolResult,
    ToolStart, ToolStep,
};
use crate::chat::approval::{self, Allowance, Offered};
use crate::core::{Cx, Host, json_bytes, never};
use crate::ids::{ChannelId, ClientId, TurnKey};
use crate::session::Session;

pub(crate) mod meta;
pub(crate) mod wire;

/// Longest id or name of a tool call.
const MAX_NAME_BYTES: usize = 1024;

impl Host {
    pub(crate) fn tool_step(
        &mut self,
        cx: &mut Cx<'_>,
        chat_id: ChannelId,
        turn: TurnKey,
        call: String,
        step: ToolStep,
    ) {
        let Some(turn_id) = self.active_turn_id(chat_id) else {
            return never!("a run has an active turn");
        };
        match step {
            ToolStep::Start(start) => self.tool_start(cx, chat_id, turn_id, call, start),
            ToolStep::Input(content) => {
                let is_streaming = matches!(self.tool_call(chat_id, &call), Some(ToolCallState::Streaming(_)));
                if is_streaming && self.fits(cx, chat_id, content.len()) {
                    let action = ChatToolCallDeltaAction {
                        turn_id,
                        tool_call_id: call,
                        meta: None,
                        content: Some(content),
                        invocation_message: None,
                    };
                    self.commit(cx, chat_id, StateAction::ChatToolCallDelta(action), None);
                }
            }
            ToolStep::Announce(description) => self.tool_announce(cx, chat_id, turn_id, call, description),
            ToolStep::Ready(ready) => self.tool_ready(cx, chat_id, turn, turn_id, call, ready),
            ToolStep::Risk(risk) => self.tool_risk(cx, chat_id, turn_id, call, risk),
            ToolStep::Content(content) => {
                let mut content = wire::contents(content);
                self.keep_subagents(chat_id, &call, &mut content);
                if self.is_running_call(chat_id, &call) && self.fits(cx, chat_id, json_bytes(&content)) {
                    let action = ChatToolCallContentChangedAction {
                        turn_id,
                        tool_call_id: call,
                        meta: None,
                        content,
                    };
                    self.commit(cx, chat_id, StateAction::ChatToolCallContentChanged(action), None);
                }
            }
            ToolStep::AuthRequired(requirement) => {
                // TOOL-15: only tools of MCP servers can ask users to sign in.
                let is_mcp = match self.tool_call(chat_id, &call) {
                    Some(ToolCallState::Running(call)) => {
                        matches!(call.contributor, Some(ToolCallContributor::Mcp(_)))
                    }
                    _ => false,
                };
                if is_mcp {
                    let action = ChatToolCallAuthRequiredAction {
                        turn_id,
                        tool_call_id: call,
                        meta: None,
                        auth: wire::auth(requirement),
                    };
                    self.commit(cx, chat_id, StateAction::ChatToolCallAuthRequired(action), None);
                }
            }
            ToolStep::AuthResolved => {
                if matches!(self.tool_call(chat_id, &call), Some(ToolCallState::AuthRequired(_))) {
                    let action = ChatToolCallAuthResolvedAction {
                        turn_id,
                        tool_call_id: call,
                        meta: None,
                    };
                    self.commit(cx, chat_id, StateAction::ChatToolCallAuthResolved(action), None);
                }
            }
            ToolStep::Done { result, review } => self.tool_done(cx, chat_id, turn_id, call, result, review),
        }
    }

    fn tool_start(&mut self, cx: &mut Cx<'_>, chat_id: ChannelId, turn_id: String, call: String, start: ToolStart) {
        let is_known = self.tool_call(chat_id, &call).is_some();
        let too_long = call.len() > MAX_NAME_BYTES || start.name.len() > MAX_NAME_BYTES;
        if is_known || call.is_empty() || too_long || self.count_part(cx, chat_id).is_none() {
            return;
        }
        if let Some(run) = self.run_mut(chat_id) {
            run.open_part = None;
        }
        let action = ChatToolCallStartAction {
            turn_id,
            tool_call_id: call,
            meta: meta::of_start(&start),
            tool_name: start.name,
            display_name: start.display_name,
            intention: start.intention,
            contributor: wire::contributor(start.contributor),
        };
        self.commit(cx, chat_id, StateAction::ChatToolCallStart(action), None);
    }

    /// Describes a call while its input still streams.
    fn tool_announce(
        &mut self,
        cx: &mut Cx<'_>,
        chat_id: ChannelId,
        turn_id: String,
        call: String,
        description: Description,
    ) {
        let message = wire::described(description);
        let is_new = match self.tool_call(chat_id, &call) {
            Some(ToolCallState::Streaming(streaming)) => streaming.invocation_message.as_ref() != Some(&message),
            _ => false,
        };
        if is_new && self.fits(cx, chat_id, json_bytes(&message)) {
            let action = ChatToolCallDeltaAction {
                turn_id,
                tool_call_id: call,
                meta: None,
                content: None,
                invocation_message: Some(message),
            };
            self.commit(cx, chat_id, StateAction::ChatToolCallDelta(action), None);
        }
    }

    fn tool_ready(
        &mut self,
        cx: &mut Cx<'_>,
        chat_id: ChannelId,
        turn: TurnKey,
        turn_id: String,
        call: String,
        ready: ToolReady,
    ) {
        let Some(
            state @ (ToolCallState::Streaming(_) | ToolCallState::Running(_) | ToolCallState::PendingConfirmation(_)),
        ) = self.tool_call(chat_id, &call)
        else {
            // The agent names a call that is unknown or has ended, for example because its client left.
            return;
        };
        let state = state.clone();
        let is_client = wire::owner(&state).is_some();
        if !self.fits(cx, chat_id, ready.input.as_ref().map_or(0, String::len)) {
            return;
        }
        let (confirmation, reason, insists) = match ready.permission {
            Permission::NotNeeded => (None, ToolCallConfirmationReason::NotNeeded, false),
            // TOOL-04: an automatic approval says that it was one.
            Permission::Granted => (None, ToolCallConfirmationReason::Setting, false),
            Permission::Ask(confirmation) => (Some(*confirmation), ToolCallConfirmationReason::Setting, false),
            Permission::Insist(confirmation) => (Some(*confirmation), ToolCallConfirmationReason::Setting, true),
        };
        let mut action = wire::ready(turn_id, call.clone(), ready.invocation, ready.input.clone());
        match confirmation {
            None => {
                if reason == ToolCallConfirmationReason::Setting {
                    action.meta = Some(with_approval(&state, Some(json!({ "hook": true }))));
                }
                action.confirmed = Some(reason);
                self.commit(cx, chat_id, StateAction::ChatToolCallReady(action), None);
                if !is_client {
                    self.tool_reply(cx, chat_id, turn, call.clone(), ToolReply::Started);
                }
                self.fail_orphan(cx, chat_id, &call);
            }
            Some(mut confirmation) => {
                let subject = std::mem::take(&mut confirmation.subject);
                let asked = approval::call_of(&state, subject, ready.input.as_deref());
                let allowed = match insists {
                    true => None,
                    false => self.policy_allows(chat_id, &asked, &confirmation.offer),
                };
                let Some(Allowance { choice, shown }) = allowed else {
                    let offered = match confirmation.offer {
                        Offer::Standard => Offered::standard(asked, self.has_workspace(chat_id)),
                        Offer::Own(_) => Offered::Own,
                    };
                    action.meta = Some(with_approval(&state, offered.rules()));
                    return self.ask_permission(cx, chat_id, action, confirmation, offered);
                };
                action.meta = Some(with_approval(&state, Some(shown)));
                action.confirmed = Some(reason);
                self.commit(cx, chat_id, StateAction::ChatToolCallReady(action), None);
                let decision = Decision {
                    choice,
                    ..Decision::by_host(true)
                };
                self.tool_reply(cx, chat_id, turn, call.clone(), ToolReply::Decided(decision));
                self.fail_orphan(cx, chat_id, &call);
            }
        }
    }

    fn ask_permission(
        &mut self,
        cx: &mut Cx<'_>,
        chat_id: ChannelId,
        mut action: ChatToolCallReadyAction,
        confirmation: Confirmation,
        offered: Offered,
    ) {
        action.options = Some(match confirmation.offer {
            Offer::Own(options) => wire::options(options),
            Offer::Standard => offered.options(),
        });
        if let Some(run) = self.run_mut(chat_id) {
            run.offers.insert(action.tool_call_id.clone(), offered);
        }
        action.invocation_message = wire::beside_input(action.invocation_message);
        action.confirmation_title = confirmation.title.map(wire::words);
        action.editable = confirmation.editable.then_some(true);
        action.edits = wire::edits(confirmation.edits);
        action.risk_assessment = confirmation.risk.map(wire::risk);
        self.commit(cx, chat_id, StateAction::ChatToolCallReady(action), None);
    }

    /// Adds a risk assessment to a call that waits for confirmation. Everything else stays.
    fn tool_risk(&mut self, cx: &mut Cx<'_>, chat_id: ChannelId, turn_id: String, call: String, risk: Risk) {
        let Some(ToolCallState::PendingConfirmation(pending)) = self.tool_call(chat_id, &call) else {
            // The decision came first.
            return;
        };
        let mut action = wire::ready(turn_id, call, Description::default(), None);
        action.invocation_message = pending.invocation_message.clone();
        action.risk_assessment = Some(wire::risk(risk));
        self.commit(cx, chat_id, StateAction::ChatToolCallReady(action), None);
    }

    fn tool_done(
        &mut self,
        cx: &mut Cx<'_>,
        chat_id: ChannelId,
        turn_id: String,
        call: String,
        result: ToolResult,
        review: bool,
    ) {
        match self.tool_call(chat_id, &call) {
            // ACT-12: a call whose input still streams has to be ready before it can end.
            Some(ToolCallState::Streaming(_)) => {
                let described = Description {
                    text: result.summary.clone(),
                    markdown: result.summary_markdown.clone(),
                };
                let mut action = wire::ready(turn_id.clone(), call.clone(), described, None);
                action.confirmed = Some(ToolCallConfirmationReason::NotNeeded);
                self.commit(cx, chat_id, StateAction::ChatToolCallReady(action), None);
            }
            Some(ToolCallState::Running(_) | ToolCallState::PendingConfirmation(_)) => {}
            // E-25: a call that waits for a sign-in cannot succeed.
            Some(ToolCallState::AuthRequired(_)) if !result.success => {}
            _ => return,
        }
        // The agent's result of a client's call ends the call; only the client's own result can be reviewed.
        let call_state = self.tool_call(chat_id, &call);
        let review = review && call_state.is_some_and(|call| wire::owner(call).is_none());
        let mut result = wire::result(result);
        let mut content = result.content.take().unwrap_or_default();
        self.keep_subagents(chat_id, &call, &mut content);
        result.content = (!content.is_empty()).then_some(content);
        if self.fits(cx, chat_id, json_bytes(&result)) {
            let action = ChatToolCallCompleteAction {
                turn_id,
                tool_call_id: call,
                meta: None,
                result,
                requires_result_confirmation: review.then_some(true),
            };
            let content = action.result.content.as_deref().unwrap_or_default();
            self.record_edits(cx, chat_id, &action.turn_id, content);
            self.commit(cx, chat_id, StateAction::ChatToolCallComplete(action), None);
        }
    }

    /// Fails a call that was just handed to a client that has left the session (ACT-08).
    pub(crate) fn fail_orphan(&mut self, cx: &mut Cx<'_>, chat_id: ChannelId, call: &str) {
        let Some(ToolCallState::Running(running)) = self.tool_call(chat_id, call) else {
            // The call was denied.
            return;
        };
        let Some(ToolCallContributor::Client(owner)) = &running.contributor else {
            // The agent itself or an MCP server runs the call.
            return;
        };
        let owner = ClientId::new(&owner.client_id);
        let is_member = self
            .session_of(chat_id)
            .is_some_and(|session| is_active_client(session, &owner));
        if !is_member {
            let call = call.to_owned();
            let tool = running.tool_name.clone();
            self.fail_client_call(cx, chat_id, call, &tool, &owner);
        }
    }

    /// Fails the open calls of a client that leaves a session, in all chats of the session (ACT-11).
    pub(crate) fn fail_calls_of(&mut self, cx: &mut Cx<'_>, session: ChannelId, client: &ClientId) {
        let chats = self.sessions.get(&session).map(|session| session.chats.clone());
        for chat_id in chats.unwrap_or_default() {
            let Some(chat) = self.chats.get(&chat_id) else {
                continue;
            };
            let orphans: Vec<(String, String)> = chat
                .model
                .open_calls()
                .filter(|call| wire::owner(call).is_some_and(|owner| owner == client.as_str()))
                // A call whose result waits for review is done; its owner is not needed any more.
                .filter(|call| !matches!(call, ToolCallState::PendingResultConfirmation(_)))
                .map(|call| (wire::call_id(call).to_owned(), wire::tool_name(call).to_owned()))
                .collect();
            for (call, tool) in orphans {
                self.fail_client_call(cx, chat_id, call, &tool, client);
            }
        }
    }

    fn fail_client_call(&mut self, cx: &mut Cx<'_>, chat_id: ChannelId, call: String, tool: &str, owner: &ClientId) {
        let (Some(turn_id), Some(turn)) = (self.active_turn_id(chat_id), self.run_mut(chat_id).map(|run| run.key()))
        else {
            // The failure of an earlier call ended the turn, because the turn had no room for the result.
            return;
        };
        let other = self.session_of(chat_id).is_some_and(|session| {
            session.state.active_clients.iter().any(|member| {
                member.client_id != owner.as_str() && member.tools.iter().any(|offered| offered.name == tool)
            })
        });
        let hint = if other {
            "; another client of this session offers the same tool, so try again"
        } else {
            "; open the session in a client that offers it, then try again"
        };
        let error = format!("the client that runs {tool} left the session before it was done{hint}");
        let result = ToolResult::failed(format!("{tool} was not run to its end"), error);
        self.tool_done(cx, chat_id, turn_id, call.clone(), result.clone(), false);
        self.tool_reply(cx, chat_id, turn, call, ToolReply::Completed(result));
    }

    /// Ends a call on the host's own account.
    pub(crate) fn end_call(&mut self, cx: &mut Cx<'_>, chat_id: ChannelId, call: String, result: ToolResult) {
        if let Some(turn_id) = self.active_turn_id(chat_id) {
            self.tool_done(cx, chat_id, turn_id, call, result, false);
        }
    }

    pub(crate) fn tool_reply(
        &mut self,
        cx: &mut Cx<'_>,
        chat: ChannelId,
        turn: TurnKey,
        call: String,
        reply: ToolReply,
    ) {
        self.reply(cx, chat, turn, Reply::Tool { call, reply });
    }

    /// The tools that clients offer, each name once (ACT-04): of several clients that offer the
    /// same tool, the one that started the turn runs it, else the one that announced it last
    /// (ACT-05). A name that the agent's own tools use gets a prefix.
    pub(crate) fn client_tools(&self, session: &Session, author: Option<&ClientId>) -> Vec<ClientTool> {
        let mut tools: Vec<ClientTool> = Vec::new();
        let members = &session.state.active_clients;
        let preferred = members
            .iter()
            .filter(|member| author.is_some_and(|author| author.as_str() == member.client_id));
        let others = members
            .iter()
            .rev()
            .filter(|member| author.is_none_or(|author| author.as_str() != member.client_id));
        let mut names: HashSet<String> = self
            .agent_of(session)
            .map(|agent| agent.tools.iter().map(|tool| tool.name.clone()).collect())
            .unwrap_or_default();
        let mut offered: HashSet<&str> = HashSet::new();
        for member in preferred.chain(others) {
            for tool in &member.tools {
                if !offered.insert(&tool.name) {
                    continue;
                }
                let mut name = tool.name.clone();
                while !names.insert(name.clone()) {
                    name.insert_str(0, "client_");
                }
                tools.push(ClientTool {
                    name,
                    client: ClientId::new(&member.client_id),
                    client_name: tool.name.clone(),
                    title: tool.title.clone(),
                    description: tool.description.clone(),
                    input_schema: tool.input_schema.clone(),
                });
            }
        }
        tools
    }

    pub(crate) fn tool_call(&self, chat: ChannelId, call: &str) -> Option<&ToolCallState> {
        self.chats.get(&chat)?.model.tool_call(call)
    }

    fn is_running_call(&self, chat: ChannelId, call: &str) -> bool {
        matches!(self.tool_call(chat, call), Some(ToolCallState::Running(_)))
    }

    pub(crate) fn session_of(&self, chat: ChannelId) -> Option<&Session> {
        self.sessions.get(&self.chats.get(&chat)?.session)
    }
}

/// The `_meta` of a call, with the facts about its approval.
fn with_approval(call: &ToolCallState, approval: Option<Value>) -> Map<String, Value> {
    let mut meta = wire::meta_of(call).cloned().unwrap_or_default();
    match approval {
        Some(approval) => meta.insert(approval::APPROVAL.to_owned(), approval),
        None => meta.remove(approval::APPROVAL),
    };
    meta
}

/// Returns true if a client is an active client of a session.
pub(crate) fn is_active_client(session: &Session, client: &ClientId) -> bool {
    let members = &session.state.active_clients;
    members.iter().any(|member| member.client_id == client.as_str())
}
