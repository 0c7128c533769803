//! Parameters of the methods about changesets.

use ahp_types::commands::ChangesetOperationTarget;
use innkeeper_core::changesets::{ChangesetCommand, InvokeOperation};
use innkeeper_core::{Command, RpcError};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::{read, read_part, tag};

/// `invokeChangesetOperation`.
pub(super) fn invoke_changeset_operation(params: &RawValue) -> Result<Command, RpcError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Params {
        channel: String,
        operation_id: String,
        #[serde(default)]
        target: Option<Value>,
        #[serde(rename = "_meta", default)]
        meta: Option<Map<String, Value>>,
    }
    let params: Params = read(params)?;
    let target = match params.target {
        None => None,
        Some(target) => {
            tag("target", "kind", &target, &["resource", "range"])?;
            // The published type reads a broken target as an unknown one.
            match read_part::<ChangesetOperationTarget>("target", target)? {
                ChangesetOperationTarget::Unknown(_) => {
                    let problem = "must have a resource, and a range if its kind is range";
                    return Err(RpcError::invalid_params("target", problem));
                }
                target => Some(target),
            }
        }
    };
    let invoke = InvokeOperation {
        channel: params.channel,
        operation: params.operation_id,
        target,
        values: params.meta.unwrap_or_default(),
    };
    Ok(ChangesetCommand::Invoke(Box::new(invoke)).into())
}
