//! The places where shapes occur: calls the hooks of a step for every message, tool call, turn, customization … of a
//! state, an action, a notification or a result.

use crate::action::{Action, Situation};
use crate::json::{Object, is, list_mut, object, object_mut, objects, objects_mut};
use crate::state::Around;
use crate::steps::{Notification, Request, Step};

/// The names of the message in turns, pending messages and actions: the older one up to 0.2.
const MESSAGE: [&str; 2] = ["message", "userMessage"];

/// The state of the root channel.
pub(crate) fn root(step: &dyn Step, state: &mut Object) {
    agents(step, state);
    settings(step, state);
    objects_mut(state, "terminals").for_each(|terminal| step.terminal_info(terminal));
    step.root(state);
}

/// The state of a session.
pub(crate) fn session(step: &dyn Step, state: &mut Object, around: &Around) {
    settings(step, state);
    if let Some(list) = list_mut(state, "customizations") {
        step.customizations(list);
    }
    objects_mut(state, "activeClients").for_each(|client| step.active_client(client));
    if let Some(client) = object_mut(state, "activeClient") {
        step.active_client(client);
    }
    objects_mut(state, "chats").for_each(|chat| step.chat_summary(chat));
    for awaited in objects_mut(state, "inputNeeded") {
        awaited_input(step, awaited);
    }
    step.session(state, around);
}

/// The state of a chat, with or without completed turns, and that of a session which is a chat.
pub(crate) fn chat(step: &dyn Step, chat: &mut Object) {
    objects_mut(chat, "turns").for_each(|completed| turn(step, completed));
    if let Some(active) = object_mut(chat, "activeTurn") {
        message_of(step, active);
        response_parts(step, active);
    }
    if let Some(steering) = object_mut(chat, "steeringMessage") {
        message_of(step, steering);
    }
    objects_mut(chat, "queuedMessages").for_each(|queued| message_of(step, queued));
    if let Some(draft) = object_mut(chat, "draft") {
        message(step, draft);
    }
    step.chat(chat);
}

/// A completed turn.
pub(crate) fn turn(step: &dyn Step, turn: &mut Object) {
    message_of(step, turn);
    response_parts(step, turn);
    step.turn(turn);
}

/// The shapes in an action. Returns false if the shape that it is about does not exist below the step.
pub(crate) fn action(step: &dyn Step, action: &mut Action) -> bool {
    let kind = action.kind().to_owned();
    let body = &mut action.body;
    let name = kind.split_once('/').map_or("", |(_, name)| name);
    match name {
        "turnStarted" | "pendingMessageSet" => message_of(step, body),
        "draftChanged" => {
            if let Some(draft) = object_mut(body, "draft") {
                message(step, draft);
            }
        }
        "toolCallConfirmed" => {
            if let Some(suggestion) = object_mut(body, "userSuggestion") {
                message(step, suggestion);
            }
        }
        "responsePart" => {
            if let Some(part) = object_mut(body, "part") {
                response_part(step, part);
            }
        }
        "toolCallContentChanged" => tool_content(step, body),
        "toolCallComplete" => {
            if let Some(result) = object_mut(body, "result") {
                tool_content(step, result);
            }
        }
        "turnsLoaded" => objects_mut(body, "turns").for_each(|completed| turn(step, completed)),
        "inputNeededSet" => {
            if let Some(awaited) = object_mut(body, "request") {
                awaited_input(step, awaited);
            }
        }
        "chatAdded" | "chatUpdated" => {
            for key in ["summary", "changes"] {
                if let Some(summary) = object_mut(body, key) {
                    step.chat_summary(summary);
                }
            }
        }
        "activeClientSet" | "activeClientChanged" => {
            if let Some(client) = object_mut(body, "activeClient") {
                step.active_client(client);
            }
        }
        "customizationsChanged" => {
            if let Some(list) = list_mut(body, "customizations") {
                step.customizations(list);
            }
        }
        "customizationUpdated" => {
            if let Some(customization) = body.get_mut("customization") {
                let mut list = vec![customization.take()];
                step.customizations(&mut list);
                let Some(translated) = list.pop() else {
                    return false;
                };
                *customization = translated;
            }
        }
        "agentsChanged" => agents(step, body),
        "terminalsChanged" => objects_mut(body, "terminals").for_each(|terminal| step.terminal_info(terminal)),
        _ => {}
    }
    true
}

/// The shapes in a notification.
pub(crate) fn notification(step: &dyn Step, notification: &mut Notification) {
    let key = match notification.method.as_str() {
        "root/sessionAdded" => "summary",
        "root/sessionSummaryChanged" => "changes",
        _ => return,
    };
    if let Some(summary) = object_mut(&mut notification.params, key) {
        step.summary(summary);
    }
}

/// The shapes in a result.
pub(crate) fn result(step: &dyn Step, method: &str, result: &mut Object) {
    match method {
        "listSessions" => objects_mut(result, "items").for_each(|summary| step.summary(summary)),
        "innkeeper/fetchTurnsBefore" => objects_mut(result, "turns").for_each(|completed| turn(step, completed)),
        "resolveSessionConfig" => {
            if let Some(schema) = object_mut(result, "schema") {
                step.config_schema(schema);
            }
        }
        "completions" => {
            for item in objects_mut(result, "items") {
                if let Some(attachment) = item.get_mut("attachment") {
                    let mut list = vec![attachment.take()];
                    step.attachments(&mut list);
                    *attachment = list.pop().unwrap_or_default();
                }
            }
        }
        _ => {}
    }
    step.result(method, result);
}

/// The shapes in a dispatched action.
pub(crate) fn up_dispatch(step: &dyn Step, action: &mut Action) {
    let kind = action.kind().to_owned();
    let keys: &[&str] = match kind.split_once('/').map_or("", |(_, name)| name) {
        "turnStarted" | "pendingMessageSet" => &MESSAGE,
        "draftChanged" => &["draft"],
        "toolCallConfirmed" => &["userSuggestion"],
        "toolCallContentChanged" => {
            up_tool_content(step, &mut action.body);
            &[]
        }
        "toolCallComplete" => {
            if let Some(result) = object_mut(&mut action.body, "result") {
                up_tool_content(step, result);
            }
            &[]
        }
        "activeClientSet" | "activeClientChanged" => {
            if let Some(client) = object_mut(&mut action.body, "activeClient") {
                step.up_active_client(client);
            }
            &[]
        }
        _ => &[],
    };
    for key in keys {
        if let Some(message) = object_mut(&mut action.body, key) {
            step.up_message(message);
        }
    }
}

/// The shapes in the parameters of a request.
pub(crate) fn up_request(step: &dyn Step, request: &mut Request) {
    match request.method.as_str() {
        "createSession" => {
            if let Some(client) = object_mut(&mut request.params, "activeClient") {
                step.up_active_client(client);
            }
        }
        "createChat" => {
            if let Some(message) = object_mut(&mut request.params, "initialMessage") {
                step.up_message(message);
            }
        }
        _ => {}
    }
}

/// The tool call that an action is about, in the state before it.
pub(crate) fn call_of<'a>(action: &Action, situation: &Situation<'a>) -> Option<&'a Object> {
    let active = object(situation.before?, "activeTurn").filter(|turn| is(turn, "id", action.text("turnId")))?;
    let mut calls = objects(active, "responseParts").filter_map(|part| object(part, "toolCall"));
    calls.find(|call| is(call, "toolCallId", action.text("toolCallId")))
}

fn agents(step: &dyn Step, holder: &mut Object) {
    for agent in objects_mut(holder, "agents") {
        if let Some(list) = list_mut(agent, "customizations") {
            step.customizations(list);
        }
        for model in objects_mut(agent, "models") {
            if let Some(schema) = object_mut(model, "configSchema") {
                step.config_schema(schema);
            }
        }
        step.agent(agent);
    }
}

fn settings(step: &dyn Step, holder: &mut Object) {
    let config = object_mut(holder, "config");
    if let Some(schema) = config.and_then(|config| object_mut(config, "schema")) {
        step.config_schema(schema);
    }
}

fn message_of(step: &dyn Step, holder: &mut Object) {
    for key in MESSAGE {
        if let Some(found) = object_mut(holder, key) {
            message(step, found);
        }
    }
}

fn message(step: &dyn Step, message: &mut Object) {
    if let Some(list) = list_mut(message, "attachments") {
        step.attachments(list);
    }
    step.message(message);
}

fn response_parts(step: &dyn Step, turn: &mut Object) {
    objects_mut(turn, "responseParts").for_each(|part| response_part(step, part));
}

fn response_part(step: &dyn Step, part: &mut Object) {
    if is(part, "kind", "toolCall")
        && let Some(call) = object_mut(part, "toolCall")
    {
        tool_call(step, call);
    }
}

fn awaited_input(step: &dyn Step, awaited: &mut Object) {
    if let Some(call) = object_mut(awaited, "toolCall") {
        tool_call(step, call);
    }
}

fn tool_call(step: &dyn Step, call: &mut Object) {
    tool_content(step, call);
    if let Some(suggestion) = object_mut(call, "userSuggestion") {
        message(step, suggestion);
    }
    step.tool_call(call);
}

fn tool_content(step: &dyn Step, holder: &mut Object) {
    if let Some(content) = list_mut(holder, "content") {
        step.tool_content(content);
    }
}

fn up_tool_content(step: &dyn Step, holder: &mut Object) {
    if let Some(content) = list_mut(holder, "content") {
        step.up_tool_content(content);
    }
}
