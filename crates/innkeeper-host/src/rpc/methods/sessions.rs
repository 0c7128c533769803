//! Parameters of what comes, goes and is set up: sessions.

use ahp_types::state::{AgentSelection, ModelSelection};
use innkeeper_core::decode::add_missing_customization_types;
use innkeeper_core::request::{CreateSession, ListSessions, OnlyIf, SessionFork, SessionSetup, SettingQuery};
use innkeeper_core::{Command, OptIn, RpcError, SessionChoice, uri};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::{read, read_part};

/// Longest token that progress is reported under; it is part of every report.
const MAX_TOKEN_BYTES: usize = 256;

/// The key in the `_meta` of `disposeSession` that keeps a session if a client uses it, or if it has changed since it
/// was chosen.
const ONLY_IF: &str = "innkeeper.onlyIf";

/// The key there with which a deletion cannot be undone.
const FOR_GOOD: &str = "innkeeper.forGood";

pub(super) fn list_sessions(params: &RawValue) -> Result<Command, RpcError> {
    #[derive(Deserialize)]
    struct Params {
        limit: Option<i64>,
        cursor: Option<String>,
    }
    let params: Params = read(params)?;
    let limit = match params.limit {
        Some(limit) if limit < 1 => return Err(RpcError::invalid_params("limit", "must be at least 1")),
        Some(limit) => Some(u32::try_from(limit).unwrap_or(u32::MAX)),
        None => None,
    };
    Ok(Command::ListSessions(Box::new(ListSessions {
        limit,
        cursor: params.cursor,
    })))
}

pub(super) fn create_session(params: &RawValue) -> Result<Command, RpcError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Params {
        channel: String,
        provider: Option<String>,
        working_directories: Option<Vec<String>>,
        active_client: Option<Value>,
        config: Option<Map<String, Value>>,
        progress_token: Option<String>,
    }
    let params: Params = read(params)?;
    let (active_client, opt_in) = match params.active_client {
        None => (None, None),
        Some(mut value) => {
            add_missing_customization_types(&mut value);
            let opt_in = OptIn::read(&value).map_err(|problem| RpcError::invalid_params("activeClient", problem))?;
            (Some(read_part("activeClient", value)?), opt_in)
        }
    };
    if params
        .progress_token
        .as_ref()
        .is_some_and(|token| token.is_empty() || token.len() > MAX_TOKEN_BYTES)
    {
        let problem = format!("has between 1 and {MAX_TOKEN_BYTES} bytes");
        return Err(RpcError::invalid_params("progressToken", problem));
    }
    Ok(Command::CreateSession(Box::new(CreateSession {
        channel: params.channel,
        provider: params.provider,
        working_directories: params.working_directories.unwrap_or_default(),
        active_client,
        opt_in,
        config: params.config.unwrap_or_default(),
        progress_token: params.progress_token,
        fork: None,
        choices: Vec::new(),
    })))
}

/// `createSession` of older clients. The translation gives the parameters that 1.0 lacks names of this host.
pub(super) fn create_older_session(params: &RawValue) -> Result<Command, RpcError> {
    #[derive(Deserialize)]
    struct Params {
        #[serde(rename = "innkeeper.fork")]
        fork: Option<Fork>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Fork {
        session: String,
        turn_id: String,
    }
    let mut command = create_session(params)?;
    if let Command::CreateSession(create) = &mut command {
        let Params { fork } = read(params)?;
        create.fork = fork.map(|fork| SessionFork {
            session: fork.session,
            turn_id: fork.turn_id,
        });
        create.choices = choices(params)?;
    }
    Ok(command)
}

/// The model and the agent that an older client chooses for a new session or chat.
pub(super) fn choices(params: &RawValue) -> Result<Vec<SessionChoice>, RpcError> {
    #[derive(Deserialize)]
    struct Params {
        #[serde(rename = "innkeeper.model")]
        model: Option<ModelSelection>,
        #[serde(rename = "innkeeper.agent")]
        agent: Option<AgentSelection>,
    }
    let Params { model, agent } = read(params)?;
    let model = model.map(|model| SessionChoice::Model(Some(model)));
    let agent = agent.map(|agent| SessionChoice::Agent(Some(agent)));
    Ok(model.into_iter().chain(agent).collect())
}

pub(super) fn dispose_session(params: &RawValue) -> Result<Command, RpcError> {
    #[derive(Deserialize)]
    struct Params {
        channel: String,
        #[serde(default, rename = "_meta")]
        meta: Option<Map<String, Value>>,
    }
    /// A condition that is not understood in full must not be taken for none.
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase", deny_unknown_fields)]
    struct Condition {
        modified_ms: Option<i64>,
        #[serde(default)]
        is_archived: bool,
    }
    let Params { channel, meta } = read(params)?;
    let mut meta = meta.unwrap_or_default();
    let condition = meta.remove(ONLY_IF);
    let for_good = match meta.remove(FOR_GOOD) {
        None => false,
        Some(for_good) => read_part(&format!("_meta[{FOR_GOOD:?}]"), for_good)?,
    };
    let condition: Option<Condition> = condition
        .map(|condition| read_part(&format!("_meta[{ONLY_IF:?}]"), condition))
        .transpose()?;
    let only_if = condition.map(|condition| OnlyIf {
        modified_ms: condition.modified_ms,
        is_archived: condition.is_archived,
    });
    Ok(Command::DisposeSession {
        channel,
        only_if,
        for_good,
    })
}

pub(super) fn list_deleted_sessions(_: &RawValue) -> Result<Command, RpcError> {
    Ok(Command::ListDeletedSessions)
}

pub(super) fn restore_session(params: &RawValue) -> Result<Command, RpcError> {
    #[derive(Deserialize)]
    struct Params {
        session: String,
    }
    let Params { session: uri } = read(params)?;
    Ok(Command::RestoreSession { uri })
}

pub(super) fn import_session(params: &RawValue) -> Result<Command, RpcError> {
    #[derive(Deserialize)]
    struct Params {
        lines: Vec<String>,
    }
    let Params { lines } = read(params)?;
    if lines.is_empty() {
        return Err(RpcError::invalid_params(
            "lines",
            "is empty; an export has at least two lines",
        ));
    }
    let mut text = lines.join("\n");
    text.push('\n');
    Ok(Command::ImportSession { text })
}

pub(super) fn resolve_session_config(params: &RawValue) -> Result<Command, RpcError> {
    let setup = read::<Setup>(params)?.check()?;
    Ok(Command::ResolveSessionConfig(Box::new(setup)))
}

pub(super) fn session_config_completions(params: &RawValue) -> Result<Command, RpcError> {
    #[derive(Deserialize)]
    struct Params {
        property: String,
        query: Option<String>,
    }
    let setup = read::<Setup>(params)?.check()?;
    let Params { property, query } = read(params)?;
    Ok(Command::SessionConfigCompletions(Box::new(SettingQuery {
        setup,
        property,
        query: query.unwrap_or_default(),
    })))
}

/// The parameters of a session to create.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Setup {
    provider: Option<String>,
    working_directory: Option<String>,
    config: Option<Map<String, Value>>,
}

impl Setup {
    fn check(self) -> Result<SessionSetup, RpcError> {
        if let Some(directory) = &self.working_directory {
            uri::check_directory(directory).map_err(|problem| RpcError::invalid_params("workingDirectory", problem))?;
        }
        Ok(SessionSetup {
            provider: self.provider,
            working_directory: self.working_directory,
            config: self.config.unwrap_or_default(),
        })
    }
}
