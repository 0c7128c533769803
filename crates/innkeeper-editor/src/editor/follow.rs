//! Brings the editor to the present state of a session: transcript, prompts, questions, options, title and commands.

use ahp_types::state::{SessionLifecycle, SessionState};
use innkeeper_acp_wire::{RpcError, code};
use innkeeper_cli::connection::link::Order;
use serde_json::{Value, json};

use super::prompts::end_prompts;
use super::sessions::{Opening, Session, Stage};
use super::{Editor, Outgoing, Purpose};
use crate::questions::{self, Question};
use crate::to_editor::{Sources, text_update};

/// The part of a session that may have changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// The running turn.
    Chat,
    /// Options and title as well.
    All,
}

impl Editor {
    /// Tells the editor what is new in a session.
    pub(super) fn follow(&mut self, uri: &str, scope: Extent) {
        let Some(state) = self.mirror.sessions.get(uri) else {
            return;
        };
        match state.lifecycle {
            SessionLifecycle::Creating => return,
            SessionLifecycle::Failed => {
                let reason = state.creation_error.as_ref().map(|error| error.message.clone());
                let reason = reason.unwrap_or_else(|| "the host could not create the session".to_owned());
                return self.fail_session(uri, RpcError::new(code::INTERNAL, reason));
            }
            _ => {}
        }
        let first = || state.chats.first().map(|chat| chat.resource.clone());
        let Some(shown) = state.default_chat.clone().or_else(first) else {
            return;
        };
        let Some(session) = self.sessions.get_mut(uri) else {
            return;
        };
        let chat = session.chat.get_or_insert_with(|| {
            self.orders.push(Order::Subscribe(shown.clone()));
            shown
        });
        let Some(chat) = self.mirror.chats.get(chat.as_str()) else {
            return;
        };
        // A long history comes in pages, the latest turns first.
        let cursor = chat.turns_next_cursor.clone().filter(|_| session.needs_history());
        if let Some(cursor) = cursor {
            if session.fetched.as_ref() != Some(&cursor) {
                let params = json!({ "channel": chat.resource, "cursor": cursor });
                session.fetched = Some(cursor);
                self.request(Purpose::Fetched(uri.to_owned()), "fetchTurns", params);
            }
            return;
        }
        let mut sources = Sources {
            contents: &mut self.contents,
            terminals: &self.mirror.terminals,
            draws_terminals: self.abilities.terminals,
            open_terminals: Vec::new(),
        };
        let skips = matches!(session.stage, Stage::Opening { kind, .. } if kind != Opening::Load);
        if skips {
            session.transcript.skip(chat);
        }
        let mut updates = Updates {
            uri,
            outgoing: &mut self.outgoing,
        };
        // The answer to `session/new` names the session, so nothing about it may come earlier.
        if !skips {
            for update in session.transcript.advance(chat, &mut sources) {
                updates.push(update);
            }
        }
        let is_complete = session.transcript.is_complete(chat);
        if is_complete && matches!(session.stage, Stage::Open) {
            end_prompts(session, chat, updates.outgoing);
            ask(session, state, self.abilities, &mut sources, &mut updates);
        }
        let terminals = std::mem::take(&mut sources.open_terminals);
        for terminal in terminals {
            if self.terminals.insert(terminal.clone()) {
                self.orders.push(Order::Subscribe(terminal));
            }
        }
        if is_complete && matches!(session.stage, Stage::Opening { .. }) {
            return self.opened(uri);
        }
        self.start_left_over(uri);
        if scope == Extent::All {
            self.tell_state(uri);
        }
    }

    /// Answers the request that opened a session.
    fn opened(&mut self, uri: &str) {
        let Some(choices) = self.choices(uri) else {
            return;
        };
        let (options, modes, title) = (choices.options(), choices.modes(), choices.session.title.clone());
        let Some(session) = self.sessions.get_mut(uri) else {
            return;
        };
        let Stage::Opening { request, kind } = std::mem::replace(&mut session.stage, Stage::Open) else {
            return;
        };
        let mut answer = json!({ "configOptions": options });
        if kind == Opening::New {
            answer["sessionId"] = json!(uri);
        }
        if let Some(modes) = modes.as_ref().filter(|_| kind != Opening::Agent) {
            answer["modes"] = modes.clone();
        }
        if !session.unused_servers.is_empty() {
            answer["_meta"] = json!({ "innkeeper.unusedMcpServers": session.unused_servers });
        }
        session.told.options = options;
        session.told.mode = modes.map(|modes| modes["currentModeId"].clone()).unwrap_or_default();
        session.told.title = match kind {
            Opening::New | Opening::Agent => title,
            // An editor that did not list it does not know its title.
            Opening::Load | Opening::Resume => String::new(),
        };
        self.answer(request, Ok(answer));
        self.request_commands(uri);
        self.follow(uri, Extent::All);
    }

    /// Tells options, mode and title if they have changed.
    fn tell_state(&mut self, uri: &str) {
        let Some(choices) = self.choices(uri) else {
            return;
        };
        let (options, title) = (choices.options(), choices.session.title.clone());
        let mode = choices
            .modes()
            .map(|modes| modes["currentModeId"].clone())
            .unwrap_or_default();
        let Some(session) = self
            .sessions
            .get_mut(uri)
            .filter(|session| matches!(session.stage, Stage::Open))
        else {
            return;
        };
        let mut updates = Updates {
            uri,
            outgoing: &mut self.outgoing,
        };
        if session.told.mode != mode && !mode.is_null() {
            updates.push(json!({ "sessionUpdate": "current_mode_update", "currentModeId": mode }));
            session.told.mode = mode;
        }
        if session.told.options != options && session.due.is_empty() {
            updates.push(json!({ "sessionUpdate": "config_option_update", "configOptions": options }));
        }
        for request in session.due.drain(..) {
            let answer = json!({ "configOptions": options });
            updates.outgoing.push(Outgoing::Answer(request, Ok(answer)));
        }
        session.told.options = options;
        if session.told.title != title && !title.is_empty() {
            updates.push(json!({ "sessionUpdate": "session_info_update", "title": title }));
            session.told.title = title;
        }
    }

    /// Requests the commands of a session. They depend on its files, so they change.
    pub(super) fn request_commands(&mut self, uri: &str) {
        let Some(session) = self.sessions.get_mut(uri) else {
            return;
        };
        let Some(chat) = session.chat.clone().filter(|_| matches!(session.stage, Stage::Open)) else {
            return;
        };
        if !std::mem::replace(&mut session.commands_requested, true) {
            let params = json!({ "channel": chat, "kind": "userMessage", "text": "/", "offset": 1 });
            self.request(Purpose::Commands(uri.to_owned()), "completions", params);
        }
    }

    /// Tells the commands of a session.
    pub(super) fn take_commands(&mut self, uri: &str, result: Option<Value>) {
        let Some(session) = self.sessions.get_mut(uri) else {
            return;
        };
        session.commands_requested = false;
        let command = |item: &Value| {
            let name = item["insertText"].as_str()?.trim().strip_prefix('/')?;
            let meta = &item["attachment"]["_meta"];
            let mut command = json!({ "name": name, "description": meta["description"].as_str().unwrap_or_default() });
            if let Some(hint) = meta["argumentHint"].as_str() {
                command["input"] = json!({ "hint": hint });
            }
            Some(command)
        };
        let Some(result) = result else {
            return;
        };
        let commands: Value = result["items"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(command)
            .collect();
        let is_news = session.told.commands != commands && (commands != json!([]) || !session.told.commands.is_null());
        if is_news {
            session.told.commands = commands.clone();
            let mut updates = Updates {
                uri,
                outgoing: &mut self.outgoing,
            };
            updates.push(json!({ "sessionUpdate": "available_commands_update", "availableCommands": commands }));
        }
    }
}

/// Updates about one session.
struct Updates<'a> {
    uri: &'a str,
    outgoing: &'a mut Vec<Outgoing>,
}

impl Updates<'_> {
    fn push(&mut self, update: Value) {
        let params = json!({ "sessionId": self.uri, "update": update });
        self.outgoing.push(Outgoing::Notify("session/update", params));
    }
}

/// Asks what the session waits for, and withdraws what other clients have answered.
fn ask(
    session: &mut Session,
    state: &SessionState,
    abilities: crate::from_editor::Abilities,
    sources: &mut Sources<'_>,
    updates: &mut Updates<'_>,
) {
    let needed = state.input_needed.as_deref().unwrap_or_default();
    session.asked.retain(|input, request| {
        let is_needed = needed.iter().any(|needed| questions::input_id(needed) == input);
        if let (false, Some(request)) = (is_needed, &request) {
            let params = json!({ "requestId": request });
            updates.outgoing.push(Outgoing::Notify("$/cancel_request", params));
        }
        is_needed
    });
    for input in needed {
        let id = questions::input_id(input);
        if session.asked.contains_key(id) {
            continue;
        }
        let Some(question) = questions::question(updates.uri, input, abilities, sources) else {
            continue;
        };
        session.asked.insert(id.to_owned(), None);
        match question {
            Question::Ask(method, params) => updates.outgoing.push(Outgoing::Ask {
                session: updates.uri.to_owned(),
                input: id.to_owned(),
                method,
                params,
            }),
            Question::Tell(text) => updates.push(text_update(&text)),
            Question::Elsewhere => {}
        }
    }
}
