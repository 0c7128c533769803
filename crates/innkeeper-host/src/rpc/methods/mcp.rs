//! Reads MCP requests on the AHP connection. All parameters but `channel` pass unchanged.

use innkeeper_core::RpcError;
use innkeeper_core::mcp::{APP_METHODS, McpRequest};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::read;

/// Reads a request or a notification of MCP (MCP-16). The channel is taken out, because to the server it
/// would be one of its own parameters (MCP-18).
pub fn mcp_request(name: &str, params: &RawValue) -> Result<McpRequest, RpcError> {
    let method = APP_METHODS.into_iter().find(|method| method.name == name);
    let method = method.ok_or_else(|| RpcError::method_not_found(name))?;
    let mut params: Map<String, Value> = read(params)?;
    let Some(Value::String(channel)) = params.shift_remove("channel") else {
        return Err(RpcError::invalid_params("channel", "is missing"));
    };
    Ok(McpRequest {
        channel,
        method,
        params,
    })
}
