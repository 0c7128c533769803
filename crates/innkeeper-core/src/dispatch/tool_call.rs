//! Actions of clients on tool calls: decide about a call, or run a call of the client's own tool.

use ahp_types::actions::{
    ChatToolCallCompleteAction, ChatToolCallConfirmedAction, ChatToolCallContentChangedAction,
    ChatToolCallResultConfirmedAction, StateAction,
};
use ahp_types::state::{
    ConfirmationOptionKind, Message, MessageKind, ResponsePart, ToolCallCancellationReason, ToolCallConfirmationReason,
    ToolCallPendingConfirmationState, ToolCallState, ToolInput, ToolResultContent,
};
use serde_json::{Value, json};

use super::{Dispatched, Verdict};
use crate::agent::{Decision, ToolReply, ToolResult};
use crate::chat::approval::{self, APPROVAL, Offered, RuleScope};
use crate::chat::chats::Chat;
use crate::chat::tool_call::{meta, wire};
use crate::core::{Cx, Host, json_bytes, never};
use crate::ids::ChannelId;
use crate::log::commit::Author;

/// Where a client writes the rule that it wants to have remembered.
const EDITED_RULE: &str = "innkeeper.rule";

const NO_SUCH_CALL: &str = "there is no such tool call in this turn";

impl Host {
    pub(super) fn check_tool_call_confirmed(
        &self,
        _cx: &Cx<'_>,
        by: &Dispatched,
        chat: &Chat,
        mut confirmed: ChatToolCallConfirmedAction,
    ) -> Verdict {
        if !is_active(chat, &confirmed.turn_id) {
            return check_late(chat, confirmed);
        }
        let Some(call) = chat.model.tool_call(&confirmed.tool_call_id) else {
            return Verdict::Reject(NO_SUCH_CALL.to_owned());
        };
        let check = self
            .check_room(chat, json_bytes(&confirmed))
            .and_then(|()| self.check_suggestion(confirmed.user_suggestion.as_mut()));
        match check {
            Ok(()) => {
                let offered = chat.run();
                let offered = offered.and_then(|run| run.offers.get(&confirmed.tool_call_id));
                check_decision(call, offered, confirmed, &by.author)
            }
            Err(reason) => Verdict::Reject(reason),
        }
    }

    /// Applies a decision, remembers its rule if the user chose so, and replies to the agent.
    pub(super) fn apply_tool_call_confirmed(
        &mut self,
        cx: &mut Cx<'_>,
        by: &Dispatched,
        confirmed: ChatToolCallConfirmedAction,
    ) {
        let chat_id = by.channel;
        let Some(turn) = self.run_mut(chat_id).map(|run| run.key()) else {
            return never!("a chat with an open call has a run");
        };
        let call = confirmed.tool_call_id.clone();
        let offered = self.run_mut(chat_id).and_then(|run| run.offers.remove(&call));
        let decision = self.decision(&confirmed, &by.author);
        let remembered = offered.and_then(|offered| remembered(&offered, &confirmed));
        self.commit_dispatched(cx, by, StateAction::ChatToolCallConfirmed(confirmed));
        if let Some((reach, rule)) = remembered {
            self.remember(cx, chat_id, reach, &rule);
        }
        self.tool_reply(cx, chat_id, turn, call.clone(), ToolReply::Decided(decision));
        // The client that runs the tool may have left while the call waited for the decision (ACT-08).
        self.fail_orphan(cx, chat_id, &call);
    }

    pub(super) fn check_tool_call_complete(
        &self,
        _cx: &Cx<'_>,
        by: &Dispatched,
        chat: &Chat,
        mut complete: ChatToolCallCompleteAction,
    ) -> Verdict {
        let call = match active_call(chat, &complete.turn_id, &complete.tool_call_id) {
            Ok(call) => call,
            Err(reason) => return Verdict::Reject(reason),
        };
        complete.meta = meta::with_clients(wire::meta(call), complete.meta);
        wire::move_data_uris(complete.result.content.as_deref_mut().unwrap_or_default());
        let check = check_complete(call, &complete, &by.author)
            .and_then(|()| self.check_room(chat, json_bytes(&complete.result)));
        Verdict::from_check(StateAction::ChatToolCallComplete(complete), check)
    }

    pub(super) fn apply_tool_call_complete(
        &mut self,
        cx: &mut Cx<'_>,
        by: &Dispatched,
        complete: ChatToolCallCompleteAction,
    ) {
        let chat_id = by.channel;
        let Some(turn) = self.run_mut(chat_id).map(|run| run.key()) else {
            return never!("a chat with an open call has a run");
        };
        let call = complete.tool_call_id.clone();
        let is_reviewed = complete.requires_result_confirmation == Some(true);
        let gives_up = matches!(self.tool_call(chat_id, &call), Some(ToolCallState::AuthRequired(_)));
        let result = wire::from_result(complete.result.clone());
        let content = complete.result.content.as_deref().unwrap_or_default();
        self.record_edits(cx, chat_id, &complete.turn_id, content);
        self.commit_dispatched(cx, by, StateAction::ChatToolCallComplete(complete));
        if gives_up {
            self.tool_reply(cx, chat_id, turn, call, ToolReply::AuthRefused);
        } else if !is_reviewed {
            self.tool_reply(cx, chat_id, turn, call, ToolReply::Completed(result));
        }
    }

    pub(super) fn check_tool_call_result_confirmed(
        &self,
        _cx: &Cx<'_>,
        by: &Dispatched,
        chat: &Chat,
        mut confirmed: ChatToolCallResultConfirmedAction,
    ) -> Verdict {
        match active_call(chat, &confirmed.turn_id, &confirmed.tool_call_id) {
            Ok(ToolCallState::PendingResultConfirmation(pending)) => {
                let sent = confirmed.meta.take();
                confirmed.meta = Some(meta::decided(pending.meta.as_ref(), sent, &by.author.client));
                Verdict::Accept(StateAction::ChatToolCallResultConfirmed(confirmed))
            }
            Ok(other) => Verdict::Reject(format!(
                "the result of this call is not waiting for a decision: {}",
                describe(other)
            )),
            Err(reason) => Verdict::Reject(reason),
        }
    }

    pub(super) fn apply_tool_call_result_confirmed(
        &mut self,
        cx: &mut Cx<'_>,
        by: &Dispatched,
        confirmed: ChatToolCallResultConfirmedAction,
    ) {
        let chat_id = by.channel;
        let Some(turn) = self.run_mut(chat_id).map(|run| run.key()) else {
            return never!("a chat with an open call has a run");
        };
        let call = confirmed.tool_call_id.clone();
        let approved = confirmed.approved;
        let reply = match self.tool_call(chat_id, &call) {
            // The client asked for a review of its own result, so the agent gets the result only now.
            Some(state @ ToolCallState::PendingResultConfirmation(pending)) if wire::owner(state).is_some() => {
                ToolReply::Completed(wire::reviewed(pending, approved))
            }
            _ => ToolReply::Reviewed { approved },
        };
        self.commit_dispatched(cx, by, StateAction::ChatToolCallResultConfirmed(confirmed));
        self.tool_reply(cx, chat_id, turn, call, reply);
    }

    pub(super) fn check_tool_call_content_changed(
        &self,
        _cx: &Cx<'_>,
        by: &Dispatched,
        chat: &Chat,
        mut changed: ChatToolCallContentChangedAction,
    ) -> Verdict {
        let call = match active_call(chat, &changed.turn_id, &changed.tool_call_id) {
            Ok(call) => call,
            Err(reason) => return Verdict::Reject(reason),
        };
        wire::move_data_uris(&mut changed.content);
        changed.meta = meta::with_clients(wire::meta(call), changed.meta);
        let check = check_content(call, &changed, &by.author)
            .and_then(|()| self.check_room(chat, json_bytes(&changed.content)));
        Verdict::from_check(StateAction::ChatToolCallContentChanged(changed), check)
    }

    /// Fails a call whose owner reports that it does not know the tool (TOOL-20).
    pub(super) fn fail_unknown_tool(&mut self, cx: &mut Cx<'_>, chat_id: ChannelId, call: String) {
        let Some(turn) = self.run_mut(chat_id).map(|run| run.key()) else {
            return never!("a chat with an open call has a run");
        };
        let result = ToolResult::failed(
            "The client does not know this tool",
            "the client that offered this tool does not know it any more; it was not run",
        );
        let done = crate::agent::ToolStep::Done {
            result: result.clone(),
            review: false,
        };
        self.tool_step(cx, chat_id, turn, call.clone(), done);
        self.tool_reply(cx, chat_id, turn, call, ToolReply::Completed(result));
    }

    /// Checks the message that a user suggests instead of a call. It is a message like any other, with attachments for
    /// the agent.
    fn check_suggestion(&self, suggestion: Option<&mut Message>) -> Result<(), String> {
        let Some(suggestion) = suggestion else {
            return Ok(());
        };
        self.check_attachments(suggestion)
            .and_then(|()| self.pin_attachments(suggestion))
            .map_err(|problem| match problem.strip_prefix("message.") {
                Some(rest) => format!("userSuggestion.{rest}"),
                None => format!("userSuggestion: {problem}"),
            })
    }

    /// Returns the decision as the agent gets it.
    fn decision(&self, confirmed: &ChatToolCallConfirmedAction, author: &Author) -> Decision {
        let reason = confirmed.reason_message.as_ref().map(wire::plain);
        let suggestion = confirmed.user_suggestion.as_ref();
        let said = [reason, suggestion.map(|message| message.text.clone())];
        let said: Vec<String> = said
            .into_iter()
            .flatten()
            .filter(|said| !said.trim().is_empty())
            .collect();
        let attachments = suggestion.map(|message| self.attachments_of(message).0);
        Decision {
            approved: confirmed.approved,
            edited_input: confirmed.edited_tool_input.clone().filter(|_| confirmed.approved),
            choice: confirmed.selected_option_id.clone(),
            remark: (!said.is_empty()).then(|| said.join("\n")),
            attachments: attachments.unwrap_or_default(),
            is_skipped: !confirmed.approved && confirmed.reason == Some(ToolCallCancellationReason::Skipped),
            by: Some(author.client.clone()),
        }
    }

    fn check_room(&self, chat: &Chat, bytes: usize) -> Result<(), String> {
        if chat.model.turn_bytes() + bytes > self.config.max_turn_bytes {
            return Err(format!(
                "a turn has at most {} MiB, and this result does not fit any more",
                self.config.max_turn_bytes >> 20
            ));
        }
        Ok(())
    }
}

/// Whether a turn is the active one of its chat.
fn is_active(chat: &Chat, turn_id: &str) -> bool {
    let active = chat.model.head().active_turn.as_ref();
    active.is_some_and(|turn| turn.id == turn_id)
}

/// A call of the active turn, or why there is none.
fn active_call<'a>(chat: &'a Chat, turn_id: &str, call_id: &str) -> Result<&'a ToolCallState, String> {
    if !is_active(chat, turn_id) {
        return Err("the turn of this tool call is not running".to_owned());
    }
    chat.model.tool_call(call_id).ok_or_else(|| NO_SUCH_CALL.to_owned())
}

fn check_decision(
    call: &ToolCallState,
    offered: Option<&Offered>,
    mut confirmed: ChatToolCallConfirmedAction,
    author: &Author,
) -> Verdict {
    let pending = match call {
        ToolCallState::PendingConfirmation(pending) => pending,
        ToolCallState::Running(_) if !confirmed.approved && wire::owner(call) == Some(author.client.as_str()) => {
            return Verdict::RejectAndFail {
                reason: "the call is running already, so it was ended as failed".to_owned(),
                call: confirmed.tool_call_id,
            };
        }
        other if is_settled(other, confirmed.approved) => {
            return Verdict::Echo(StateAction::ChatToolCallConfirmed(confirmed));
        }
        // DSP-16: the first decision wins.
        other => {
            return Verdict::Reject(format!("this call is not waiting for a decision: {}", describe(other)));
        }
    };
    if let Err(reason) = check_confirmed(pending, &confirmed).and_then(|()| check_rule(offered, &confirmed)) {
        return Verdict::Reject(reason);
    }
    let approval = offered.and_then(|offered| approval_shown(offered, &confirmed));
    if confirmed.approved {
        let is_own = wire::owner(call) == Some(author.client.as_str());
        confirmed.confirmed = Some(confirmation(confirmed.confirmed, is_own));
        confirmed.reason = None;
    } else {
        confirmed.reason.get_or_insert(ToolCallCancellationReason::Denied);
    }
    let sent = confirmed.meta.take();
    let mut meta = meta::decided(pending.meta.as_ref(), sent, &author.client);
    match approval {
        Some(approval) => meta.insert(APPROVAL.to_owned(), approval),
        None => meta.remove(APPROVAL),
    };
    confirmed.meta = Some(meta);
    Verdict::Accept(StateAction::ChatToolCallConfirmed(confirmed))
}

/// The rule that a client wrote instead of the rule of its choice.
fn edited_rule(confirmed: &ChatToolCallConfirmedAction) -> Option<&Value> {
    confirmed.meta.as_ref()?.get(EDITED_RULE)
}

fn check_rule(offered: Option<&Offered>, confirmed: &ChatToolCallConfirmedAction) -> Result<(), String> {
    let Some(rule) = edited_rule(confirmed) else {
        return Ok(());
    };
    let chosen = confirmed.selected_option_id.as_deref().unwrap_or_default();
    let problem = match rule.as_str() {
        None => Err("must be text".to_owned()),
        Some(_) if offered.and_then(|offered| offered.choice(chosen)).is_none() => {
            Err("goes with an option that is remembered, such as allow-session".to_owned())
        }
        Some(rule) => approval::edited_rule(offered, rule),
    };
    problem.map_err(|problem| format!("_meta.{EDITED_RULE}: {problem}"))
}

/// The rule that a decision adds, and its range. An edited input differs from the call that the options describe, so it
/// adds no rule.
fn remembered(offered: &Offered, confirmed: &ChatToolCallConfirmedAction) -> Option<(RuleScope, String)> {
    if !confirmed.approved || confirmed.edited_tool_input.is_some() {
        return None;
    }
    let choice = offered.choice(confirmed.selected_option_id.as_deref()?)?;
    let shown = confirmed.meta.as_ref().and_then(|meta| meta.get(APPROVAL));
    let shown = shown.and_then(|shown| shown.get("rule")).and_then(Value::as_str);
    let edited = edited_rule(confirmed).and_then(Value::as_str);
    let rule = edited.or(shown).unwrap_or(&choice.rule);
    Some((choice.reach, rule.to_owned()))
}

/// Describes the rule that a decision adds, for all clients.
fn approval_shown(offered: &Offered, confirmed: &ChatToolCallConfirmedAction) -> Option<Value> {
    if let Some((reach, rule)) = remembered(offered, confirmed) {
        return Some(json!({ "rule": rule, "scope": reach.name(), "remembered": true }));
    }
    let choice = offered.choice(confirmed.selected_option_id.as_deref()?)?;
    let reason = "the input was edited, so this was allowed once";
    (confirmed.approved).then(|| json!({ "scope": choice.reach.name(), "remembered": false, "reason": reason }))
}

/// How a client's approval came about. A client that has a setting of its own says so, and
/// `_meta` names the client: the host did not decide. That a decision was not needed, only the
/// client says that runs the tool: of any other call, the host has just asked for one.
fn confirmation(claimed: Option<ToolCallConfirmationReason>, is_own: bool) -> ToolCallConfirmationReason {
    match claimed {
        Some(ToolCallConfirmationReason::Setting) => ToolCallConfirmationReason::Setting,
        Some(ToolCallConfirmationReason::NotNeeded) if is_own => ToolCallConfirmationReason::NotNeeded,
        Some(
            ToolCallConfirmationReason::NotNeeded
            | ToolCallConfirmationReason::UserAction
            | ToolCallConfirmationReason::Unknown(_),
        )
        | None => ToolCallConfirmationReason::UserAction,
    }
}

/// Returns true if a decision changes nothing: it allows a call that runs or ran, or it is about a call that will not
/// run any more. Only a late denial is refused, because the user who denied the call has to learn that it ran.
fn is_settled(call: &ToolCallState, approved: bool) -> bool {
    match call {
        ToolCallState::Running(_) | ToolCallState::AuthRequired(_) | ToolCallState::Completed(_) => approved,
        ToolCallState::Cancelled(_) => true,
        // To decide about a call once more is not to decide about its result.
        ToolCallState::PendingResultConfirmation(_)
        | ToolCallState::Streaming(_)
        | ToolCallState::PendingConfirmation(_)
        | ToolCallState::Unknown(_) => false,
    }
}

/// A decision about a call of a turn that has ended: VS Code sends one for the calls of a turn that
/// was just cancelled. To its author it is as if it had come in time, unless the call ran although
/// the author says no.
fn check_late(chat: &Chat, confirmed: ChatToolCallConfirmedAction) -> Verdict {
    let turn = chat.model.last_turn().filter(|turn| turn.id == confirmed.turn_id);
    let calls = turn.into_iter().flat_map(|turn| &turn.response_parts);
    let call = calls.filter_map(|part| match part {
        ResponsePart::ToolCall(part) => Some(&part.tool_call),
        _ => None,
    });
    let mut call = call.filter(|call| wire::call_id(call) == confirmed.tool_call_id);
    match call.next() {
        Some(call) if !is_settled(call, confirmed.approved) => {
            Verdict::Reject(format!("the turn of this tool call is not running: {}", describe(call)))
        }
        Some(_) => Verdict::Echo(StateAction::ChatToolCallConfirmed(confirmed)),
        None => Verdict::Reject("the turn of this tool call is not running".to_owned()),
    }
}

fn check_confirmed(
    pending: &ToolCallPendingConfirmationState,
    confirmed: &ChatToolCallConfirmedAction,
) -> Result<(), String> {
    if let Some(id) = &confirmed.selected_option_id {
        let options = pending.options.as_deref().unwrap_or_default();
        let Some(option) = options.iter().find(|option| option.id == *id) else {
            let offered: Vec<&str> = options.iter().map(|option| option.id.as_str()).collect();
            return Err(format!(
                "selectedOptionId: {id:?} was not offered; choose one of: {}",
                offered.join(", ")
            )); // TOOL-08
        };
        let approves = option.kind == ConfirmationOptionKind::Approve;
        if approves != confirmed.approved {
            return Err(format!(
                "selectedOptionId: {:?} does not go with approved: {}",
                option.label, confirmed.approved
            ));
        }
    }
    if confirmed.edited_tool_input.is_some() {
        // TOOL-06, E-22
        if pending.editable != Some(true) {
            return Err("editedToolInput: the input of this call cannot be edited".to_owned());
        }
        if !matches!(pending.tool_input, Some(ToolInput::Inline(_))) {
            return Err("editedToolInput: the input of this call is not inline".to_owned());
        }
    }
    if let Some(suggestion) = &confirmed.user_suggestion
        && suggestion.origin.kind != MessageKind::User
    {
        return Err("userSuggestion: clients write messages of kind user only".to_owned());
    }
    if !confirmed.approved && confirmed.reason == Some(ToolCallCancellationReason::ResultDenied) {
        return Err("reason: result-denied is for results; use chat/toolCallResultConfirmed".to_owned());
    }
    Ok(())
}

/// TOOL-11, TOOL-12, E-25.
fn check_complete(call: &ToolCallState, complete: &ChatToolCallCompleteAction, author: &Author) -> Result<(), String> {
    match call {
        ToolCallState::AuthRequired(_) if complete.result.success => {
            Err("result.success: a call that waits for a user to sign in cannot succeed".to_owned())
        }
        ToolCallState::AuthRequired(_) => check_contents(complete.result.content.as_deref(), "result.content"),
        ToolCallState::Running(_) => {
            check_owner(call, author)?;
            check_contents(complete.result.content.as_deref(), "result.content")
        }
        ToolCallState::PendingConfirmation(_) => {
            check_owner(call, author)?;
            Err("this call waits for a decision; it cannot be completed yet".to_owned())
        }
        other => Err(format!("this call is not running: {}", describe(other))),
    }
}

fn check_content(
    call: &ToolCallState,
    changed: &ChatToolCallContentChangedAction,
    author: &Author,
) -> Result<(), String> {
    check_owner(call, author)?;
    if !matches!(call, ToolCallState::Running(_)) {
        return Err(format!("this call is not running: {}", describe(call)));
    }
    check_contents(Some(&changed.content), "content")
}

fn check_owner(call: &ToolCallState, author: &Author) -> Result<(), String> {
    match wire::owner(call) {
        Some(owner) if owner == author.client.as_str() => Ok(()),
        Some(_) => Err("another client runs this tool; only that one may report about it".to_owned()),
        None => Err("the host runs this tool; clients may not report about it".to_owned()),
    }
}

/// Rejects content of an unknown kind, because the host would pass it on unchecked.
fn check_contents(contents: Option<&[ToolResultContent]>, field: &str) -> Result<(), String> {
    let unknown = contents
        .unwrap_or_default()
        .iter()
        .position(|content| matches!(content, ToolResultContent::Unknown(_)));
    match unknown {
        Some(index) => Err(format!("{field}[{index}] is malformed or of an unknown type")),
        None => Ok(()),
    }
}

/// Describes the state of a call, for the reason of a rejection.
fn describe(call: &ToolCallState) -> &'static str {
    match call {
        ToolCallState::Streaming(_) => "its input is still being written",
        ToolCallState::PendingConfirmation(_) => "it waits for a decision",
        ToolCallState::Running(_) => "it is running",
        ToolCallState::AuthRequired(_) => "it waits for a user to sign in",
        ToolCallState::PendingResultConfirmation(_) => "its result waits for a decision",
        ToolCallState::Completed(_) => "it is complete",
        ToolCallState::Cancelled(_) => "it was cancelled",
        ToolCallState::Unknown(_) => "it is in a state this host does not know",
    }
}
