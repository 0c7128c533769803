//! Parameters of requests about terminals.

use ahp_types::state::TerminalClaim;
use innkeeper_core::terminal::{CreateTerminal, TerminalCommand, TerminalSize};
use innkeeper_core::{Command, RpcError, uri};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::read;

/// Longest name of a terminal, in bytes.
const MAX_NAME_BYTES: usize = 4096;
/// Longest directory, in bytes.
const MAX_DIRECTORY_BYTES: usize = 8192;
/// The largest width and height.
const MAX_SIZE: i64 = 4096;

pub(super) fn create_terminal(params: &RawValue) -> Result<Command, RpcError> {
    #[derive(Deserialize)]
    struct Params {
        channel: String,
        claim: TerminalClaim,
        name: Option<String>,
        cwd: Option<String>,
        cols: Option<i64>,
        rows: Option<i64>,
    }
    let params: Params = read(params)?;
    check_channel(&params.channel)?;
    if params.name.as_ref().is_some_and(|name| name.len() > MAX_NAME_BYTES) {
        let problem = format!("has more than {MAX_NAME_BYTES} bytes");
        return Err(RpcError::invalid_params("name", problem));
    }
    if let Some(cwd) = &params.cwd
        && (cwd.len() > MAX_DIRECTORY_BYTES || cwd.chars().any(char::is_control))
    {
        return Err(RpcError::invalid_params("cwd", "is not the URI of a directory"));
    }
    let default = TerminalSize::default();
    let size = TerminalSize {
        cols: dimension("cols", params.cols)?.unwrap_or(default.cols),
        rows: dimension("rows", params.rows)?.unwrap_or(default.rows),
    };
    let create = CreateTerminal {
        channel: params.channel,
        claim: params.claim,
        name: params.name.filter(|name| !name.trim().is_empty()),
        cwd: params.cwd.filter(|cwd| !cwd.is_empty()),
        size: Some(size),
    };
    Ok(TerminalCommand::Create(Box::new(create)).into())
}

pub(super) fn dispose_terminal(params: &RawValue) -> Result<Command, RpcError> {
    #[derive(Deserialize)]
    struct Params {
        channel: String,
    }
    let Params { channel } = read(params)?;
    check_channel(&channel)?;
    Ok(TerminalCommand::Dispose { channel }.into())
}

fn check_channel(channel: &str) -> Result<(), RpcError> {
    uri::check(channel).map_err(|problem| RpcError::invalid_params("channel", problem))
}

fn dimension(field: &str, value: Option<i64>) -> Result<Option<u16>, RpcError> {
    match value {
        None => Ok(None),
        Some(value @ 1..=MAX_SIZE) => Ok(u16::try_from(value).ok()),
        Some(value) => {
            let problem = format!("{value} is not between 1 and {MAX_SIZE}");
            Err(RpcError::invalid_params(field, problem))
        }
    }
}
