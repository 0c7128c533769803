//! Sessions of the host: new ones, earlier ones, their list, and their options.

use std::collections::HashMap;

use ahp_types::ROOT_RESOURCE_URI;
use ahp_types::actions::{SessionConfigChangedAction, StateAction};
use innkeeper_acp_wire::{RpcError, code};
use innkeeper_cli::connection::link::Order;
use serde_json::{Map, Value, json};

use super::follow::Extent;
use super::prompts::Prompt;
use super::{Editor, Outgoing, Purpose};
use crate::from_editor::{directories, directory};
use crate::options::{self, Choices};
use crate::to_editor::Transcript;

/// Sessions in one page of the list.
const PAGE: i64 = 100;

/// A session that the editor has open.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) stage: Stage,
    /// The working directories, as the session was created with.
    directories: Vec<String>,
    provider: Option<String>,
    /// The names of the MCP servers that the editor passed.
    pub(super) unused_servers: Vec<String>,
    /// The model that the editor chose.
    pub(crate) model: Option<String>,
    /// The chat that the editor shows.
    pub(crate) chat: Option<String>,
    pub(crate) transcript: Transcript,
    pub(crate) prompts: Vec<Prompt>,
    /// The inputs that the editor was told of, with the ids of its requests.
    pub(crate) asked: HashMap<String, Option<i64>>,
    /// Requests for settings that the host has accepted.
    pub(crate) due: Vec<Value>,
    pub(crate) told: SentState,
    pub(crate) commands_requested: bool,
    /// The place in the history from which earlier turns were requested last.
    pub(super) fetched: Option<String>,
}

/// The progress of a session at the editor.
#[derive(Debug)]
pub(crate) enum Stage {
    /// The editor waits for it.
    Opening { request: Value, kind: Opening },
    /// The editor uses it.
    Open,
}

/// The way in which a session is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opening {
    New,
    /// With its history.
    Load,
    Resume,
    /// Again, because the editor chose another agent.
    Agent,
}

/// The editor's knowledge of the session's state.
#[derive(Debug, Default)]
pub(crate) struct SentState {
    pub(crate) options: Value,
    pub(crate) mode: Value,
    pub(crate) title: String,
    pub(crate) commands: Value,
}

impl Session {
    fn new(request: &Value, kind: Opening, directories: Vec<String>, provider: Option<String>) -> Self {
        Self {
            stage: Stage::Opening {
                request: request.clone(),
                kind,
            },
            directories,
            provider,
            unused_servers: Vec::new(),
            model: None,
            chat: None,
            transcript: Transcript::default(),
            prompts: Vec::new(),
            asked: HashMap::new(),
            due: Vec::new(),
            told: SentState::default(),
            commands_requested: false,
            fetched: None,
        }
    }

    /// Returns whether the editor waits for the whole history.
    pub(super) fn needs_history(&self) -> bool {
        matches!(
            self.stage,
            Stage::Opening {
                kind: Opening::Load,
                ..
            }
        )
    }

    pub(super) fn is_being_replaced(&self) -> bool {
        matches!(
            self.stage,
            Stage::Opening {
                kind: Opening::Agent,
                ..
            }
        )
    }
}

impl Editor {
    pub(super) fn new_session(&mut self, request: &Value, params: &Value) -> Result<(), RpcError> {
        let directories = directories(params).map_err(|reason| RpcError::new(code::INVALID_PARAMS, reason))?;
        let uri = format!("ahp-session:/{}", uuid::Uuid::new_v4());
        let mut session = Session::new(request, Opening::New, directories, self.provider.clone());
        session.unused_servers = server_names(params);
        self.sessions.insert(uri.clone(), session);
        self.create(&uri);
        Ok(())
    }

    /// Creates the session at the host.
    pub(super) fn create(&mut self, uri: &str) {
        let Some(session) = self.sessions.get(uri) else {
            return;
        };
        let mut params = json!({ "channel": uri, "workingDirectories": session.directories });
        if let Some(provider) = &session.provider {
            params["provider"] = json!(provider);
        }
        self.request(Purpose::Created(uri.to_owned()), "createSession", params);
    }

    pub(super) fn load_session(&mut self, request: &Value, method: &str, params: &Value) -> Result<(), RpcError> {
        let uri = session_id(params)?.to_owned();
        let kind = match method {
            "session/load" => Opening::Load,
            _ => Opening::Resume,
        };
        // A session that is open already is told from its beginning.
        self.leave(&uri);
        let mut session = Session::new(request, kind, Vec::new(), None);
        session.unused_servers = server_names(params);
        self.sessions.insert(uri.clone(), session);
        self.orders.push(Order::Subscribe(uri));
        Ok(())
    }

    pub(super) fn list_sessions(&mut self, request: &Value, params: &Value) -> Result<(), RpcError> {
        let wanted = params["cwd"].as_str().map(directory).transpose();
        let wanted = wanted.map_err(|reason| RpcError::new(code::INVALID_PARAMS, reason))?;
        let mut page = json!({ "channel": ROOT_RESOURCE_URI, "limit": PAGE });
        if let Some(cursor) = params["cursor"].as_str() {
            page["cursor"] = json!(cursor);
        }
        self.request(Purpose::Listed(request.clone(), wanted), "listSessions", page);
        Ok(())
    }

    /// Ends the editor's part in a session. Its own turns end with it; those of other clients go on.
    pub(super) fn close_session(&mut self, request: &Value, params: &Value) -> Result<(), RpcError> {
        let uri = session_id(params)?.to_owned();
        self.cancel_own(&uri);
        self.leave(&uri);
        self.answer(request.clone(), Ok(json!({})));
        Ok(())
    }

    pub(super) fn delete_session(&mut self, request: &Value, params: &Value) -> Result<(), RpcError> {
        let uri = session_id(params)?.to_owned();
        self.leave(&uri);
        self.request(
            Purpose::Deleted(request.clone()),
            "disposeSession",
            json!({ "channel": uri }),
        );
        Ok(())
    }

    /// Forgets a session, and answers what the editor still waits for.
    fn leave(&mut self, uri: &str) {
        let Some(session) = self.sessions.remove(uri) else {
            return;
        };
        self.unsubscribe(uri, session.chat.as_deref());
        self.asked.retain(|_, (asked, _)| asked != uri);
        for prompt in session.prompts {
            self.answer(prompt.request, Ok(json!({ "stopReason": "cancelled" })));
        }
        let error = || RpcError::new(code::CANCELLED, "the session was closed");
        if let Stage::Opening { request, .. } = session.stage {
            self.answer(request, Err(error()));
        }
        for request in session.due {
            self.answer(request, Err(error()));
        }
    }

    fn unsubscribe(&mut self, uri: &str, chat: Option<&str>) {
        for channel in std::iter::once(uri).chain(chat) {
            self.mirror.forget(channel);
            self.orders.push(Order::Unsubscribe(channel.to_owned()));
        }
    }

    /// A session cannot be opened, or is gone.
    pub(super) fn fail_session(&mut self, uri: &str, error: RpcError) {
        let Some(mut session) = self.sessions.remove(uri) else {
            return;
        };
        self.unsubscribe(uri, session.chat.as_deref());
        self.asked.retain(|_, (asked, _)| asked != uri);
        let waiting = std::mem::take(&mut session.prompts)
            .into_iter()
            .map(|prompt| prompt.request);
        let waiting = waiting.chain(session.due);
        let opening = match session.stage {
            Stage::Opening { request, .. } => Some(request),
            Stage::Open => None,
        };
        for request in waiting.chain(opening) {
            self.outgoing.push(Outgoing::Answer(request, Err(error.clone())));
        }
    }

    pub(super) fn set_mode(&mut self, request: &Value, params: &Value) -> Result<(), RpcError> {
        let uri = session_id(params)?.to_owned();
        let mode = self
            .choices(&uri)
            .and_then(|choices| choices.mode_setting().map(str::to_owned));
        let mode = mode.ok_or_else(|| RpcError::new(code::INVALID_PARAMS, "the session has no modes"))?;
        self.set(request, &uri, &mode, &params["modeId"])
    }

    pub(super) fn set_option(&mut self, request: &Value, params: &Value) -> Result<(), RpcError> {
        let uri = session_id(params)?.to_owned();
        let (option, value) = (params["configId"].as_str().unwrap_or_default(), &params["value"]);
        match option {
            options::AGENT => self.set_agent(request, &uri, value.as_str().unwrap_or_default()),
            options::MODEL => {
                if let Some(session) = self.sessions.get_mut(&uri) {
                    session.model = value.as_str().map(str::to_owned);
                    session.due.push(request.clone());
                    self.follow(&uri, Extent::All);
                    return Ok(());
                }
                Err(not_open(&uri))
            }
            option => self.set(request, &uri, option, value),
        }
    }

    fn set(&mut self, request: &Value, uri: &str, setting: &str, value: &Value) -> Result<(), RpcError> {
        let choices = self.choices(uri).ok_or_else(|| not_open(uri))?;
        let value = choices.chosen(setting, value);
        let value = value.map_err(|reason| RpcError::new(code::INVALID_PARAMS, reason))?;
        let action = StateAction::SessionConfigChanged(SessionConfigChangedAction {
            config: Map::from_iter([(setting.to_owned(), value)]),
            replace: None,
        });
        self.dispatch(Purpose::Set(uri.to_owned(), request.clone()), uri.to_owned(), action);
        Ok(())
    }

    /// Puts a session of another agent in the place of one in which nothing was written yet.
    fn set_agent(&mut self, request: &Value, uri: &str, provider: &str) -> Result<(), RpcError> {
        let refuse = |reason: &str| Err(RpcError::new(code::INVALID_PARAMS, reason));
        let Some(choices) = self.choices(uri) else {
            return Err(not_open(uri));
        };
        let is_same = choices.session.provider == provider;
        if !is_same && !choices.is_new {
            return refuse("the agent of a session cannot change after its first message");
        }
        if !choices.agents.iter().any(|agent| agent.provider == provider) {
            return refuse("the host has no such agent");
        }
        let directories = choices.session.working_directories.clone().unwrap_or_default();
        let Some(session) = self.sessions.get_mut(uri) else {
            return Err(not_open(uri));
        };
        if is_same {
            session.due.push(request.clone());
            self.follow(uri, Extent::All);
            return Ok(());
        }
        let chat = session.chat.clone();
        *session = Session::new(request, Opening::Agent, directories, Some(provider.to_owned()));
        self.unsubscribe(uri, chat.as_deref());
        // A deleted session that could be restored would keep its URI.
        let params = json!({ "channel": uri, "_meta": { "innkeeper.forGood": true } });
        self.request(Purpose::Replaced(uri.to_owned()), "disposeSession", params);
        Ok(())
    }

    /// Returns the choices of a session that is open.
    pub(super) fn choices(&self, uri: &str) -> Option<Choices<'_>> {
        let session = self.sessions.get(uri)?;
        let chat = self.mirror.chats.get(session.chat.as_deref()?)?;
        let last = chat.active_turn.as_ref().map(|turn| &turn.message);
        let last = last.or_else(|| chat.turns.last().map(|turn| &turn.message));
        let last = last
            .and_then(|message| message.model.as_ref())
            .map(|model| model.id.as_str());
        Some(Choices {
            agents: self
                .mirror
                .root
                .as_ref()
                .map(|root| &root.agents[..])
                .unwrap_or_default(),
            session: self.mirror.sessions.get(uri)?,
            model: session.model.as_deref().or(last),
            is_new: chat.turns.is_empty() && chat.active_turn.is_none() && session.prompts.is_empty(),
            booleans: self.abilities.booleans,
        })
    }
}

fn server_names(params: &Value) -> Vec<String> {
    let servers = params["mcpServers"].as_array().into_iter().flatten();
    servers
        .filter_map(|server| server["name"].as_str().map(str::to_owned))
        .collect()
}

pub(super) fn session_id(params: &Value) -> Result<&str, RpcError> {
    let id = params["sessionId"].as_str();
    id.ok_or_else(|| RpcError::new(code::INVALID_PARAMS, "`sessionId` is missing"))
}

pub(super) fn not_open(uri: &str) -> RpcError {
    RpcError::new(code::NOT_FOUND, format!("the session {uri} is not open"))
}

/// Returns a page of the host's list, with the sessions of one directory if the editor wants that.
pub(super) fn page(page: &Value, wanted: Option<&str>) -> Value {
    let path = |uri: &Value| {
        let url = url::Url::parse(uri.as_str()?).ok()?;
        Some(url.to_file_path().ok()?.to_string_lossy().into_owned())
    };
    let session = |summary: &Value| {
        let directories = summary["workingDirectories"].as_array();
        let first = directories.and_then(|directories| directories.first());
        if wanted.is_some() && first.and_then(Value::as_str) != wanted {
            return None;
        }
        let mut paths = directories.into_iter().flatten().filter_map(path);
        // ACP has no sessions without a directory.
        let cwd = paths.next().unwrap_or_else(|| "/".to_owned());
        let mut session = json!({
            "sessionId": summary["resource"], "cwd": cwd, "updatedAt": summary["modifiedAt"],
        });
        let more: Vec<String> = paths.collect();
        if !more.is_empty() {
            session["additionalDirectories"] = json!(more);
        }
        if let Some(title) = summary["title"].as_str().filter(|title| !title.is_empty()) {
            session["title"] = json!(title);
        }
        Some(session)
    };
    let sessions: Vec<Value> = page["items"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(session)
        .collect();
    match page["nextCursor"].as_str() {
        Some(cursor) => json!({ "sessions": sessions, "nextCursor": cursor }),
        None => json!({ "sessions": sessions }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_can_have_the_sessions_of_one_directory() {
        let listed = json!({ "nextCursor": "2", "items": [
            { "resource": "ahp-session:/a", "title": "A", "modifiedAt": "now",
              "workingDirectories": ["file:///inn", "file:///more"] },
            { "resource": "ahp-session:/b", "title": "", "modifiedAt": "now" },
        ] });
        let all = page(&listed, None);
        assert_eq!(all["sessions"][0]["additionalDirectories"], json!(["/more"]));
        assert_eq!(
            all["sessions"][1],
            json!({ "sessionId": "ahp-session:/b", "cwd": "/", "updatedAt": "now" })
        );
        assert_eq!(all["nextCursor"], "2");
        let some = page(&listed, Some("file:///inn"));
        assert_eq!(some["sessions"].as_array().map(Vec::len), Some(1));
    }
}
