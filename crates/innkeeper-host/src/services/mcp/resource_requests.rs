//! Resources of MCP servers, for clients that see their sessions.

use innkeeper_core::error::code;
use innkeeper_core::resources::ResourceOp;
use innkeeper_core::{ChannelId, RpcError};

use crate::main_loop::handles::LoopHandles;
use crate::main_loop::requests::OpenRequest;
use crate::services::mcp::effects::{Servers, in_time};
use crate::services::mcp::{Mcp, bounds};
use crate::services::resources::effects::{failure, object, read_result, resolve_result};
use crate::services::resources::{ResourceInfo, ResourceKind};

impl Servers {
    /// Reads or describes a resource of a server of one of these sessions.
    pub(crate) fn resource(&self, handles: &LoopHandles, request: OpenRequest, op: ResourceOp, sessions: &[ChannelId]) {
        let servers: Vec<Mcp> = sessions.iter().map(|session| self.of(*session)).collect();
        let (time, most) = (handles.limits().mcp_request_time, handles.limits().resource_bytes);
        handles.tasks().spawn(async move {
            let method = op.method();
            let serving = in_time(method, time, serve(&servers, op, most));
            let outcome = serving.await.and_then(|outcome| outcome);
            request.respond_object(outcome).await;
        });
    }
}

/// Does it, and returns the result as a JSON object without its closing brace.
async fn serve(servers: &[Mcp], op: ResourceOp, most: usize) -> Result<Vec<u8>, RpcError> {
    let (uri, encoding) = match op {
        ResourceOp::Read { uri, encoding } => (uri, Some(encoding)),
        ResourceOp::Resolve { uri, .. } => (uri, None),
        other => return Err(RpcError::method_not_found(other.method())),
    };
    // A URI is of one session, so at most one of them has it; no other one keeps it waiting.
    let mut looking: futures_util::stream::FuturesUnordered<_> = servers
        .iter()
        .map(|mcp| {
            let uri = &uri;
            async move { mcp.find_resource(uri).await.map(|found| (mcp, found)) }
        })
        .collect();
    let mut found = None;
    while let Some(looked) = futures_util::StreamExt::next(&mut looking).await {
        found = looked;
        if found.is_some() {
            break;
        }
    }
    drop(looking);
    let Some((mcp, resource)) = found else {
        return Err(RpcError::new(
            code::NOT_FOUND,
            format!("no MCP server of a session that you see offers {uri}; its server may be stopped"),
        ));
    };
    let Some(encoding) = encoding else {
        return Ok(object(&resolve_result(ResourceInfo {
            uri,
            kind: ResourceKind::File,
            size: resource.size,
            modified: None,
            created: None,
            content_type: resource.content_type,
            etag: None,
        })));
    };
    let read = mcp.read(&resource, most).await;
    let mut content = read.map_err(|error| {
        let server = &resource.server_name;
        failure(format!("the MCP server {server:?}: {}", bounds::message(error.message)))
    })?;
    content.content_type = content.content_type.or(resource.content_type);
    Ok(object(&read_result(content, encoding)))
}
