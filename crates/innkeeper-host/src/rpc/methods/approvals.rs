//! Parameters of everything about approvals.

use innkeeper_core::{ApprovalCommand, ApprovalTarget, Command, RpcError, uri};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::read;

#[derive(Deserialize)]
struct Params {
    session: Option<String>,
    directory: Option<String>,
    everywhere: Option<bool>,
    rule: Option<String>,
}

pub(super) fn list_approvals(params: &RawValue) -> Result<Command, RpcError> {
    let Params { session, .. } = read(params)?;
    Ok(command(ApprovalCommand::List { session }))
}

pub(super) fn allow_approval(params: &RawValue) -> Result<Command, RpcError> {
    let params: Params = read(params)?;
    let target = target(&params)?;
    let rule = params
        .rule
        .ok_or_else(|| RpcError::invalid_params("rule", "is missing; it names the approval"))?;
    Ok(command(ApprovalCommand::Allow { target, rule }))
}

pub(super) fn revoke_approval(params: &RawValue) -> Result<Command, RpcError> {
    let params: Params = read(params)?;
    let target = target(&params)?;
    let rule = params.rule;
    Ok(command(ApprovalCommand::Revoke { target, rule }))
}

fn command(command: ApprovalCommand) -> Command {
    Command::Approvals(Box::new(command))
}

fn target(params: &Params) -> Result<ApprovalTarget, RpcError> {
    match (&params.session, &params.directory, params.everywhere) {
        (Some(session), None, None | Some(false)) => Ok(ApprovalTarget::Session(session.clone())),
        (None, Some(directory), None | Some(false)) => {
            uri::check_directory(directory).map_err(|problem| RpcError::invalid_params("directory", problem))?;
            Ok(ApprovalTarget::Workspace(directory.clone()))
        }
        (None, None, Some(true)) => Ok(ApprovalTarget::Everywhere),
        _ => Err(RpcError::invalid_params(
            "session",
            "exactly one of session, directory and everywhere says where an approval holds",
        )),
    }
}
