//! Performs the effects on resources for clients.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use ahp_types::commands::{
    ContentEncoding, DirectoryEntry, ResourceListResult, ResourceReadResult, ResourceResolveResult, ResourceType,
};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::FutureExt;
use innkeeper_core::error::code;
use innkeeper_core::resources::{AllowedRoot, Encoding, ResourceOp, WatchInput, WatchSpec, permission_denied};
use innkeeper_core::snapshot::{AnswerBody, RpcAnswer};
use innkeeper_core::uri::is_blob_uri;
use innkeeper_core::{ConnId, Input, Outgoing, RequestId, ResourceCommand, RpcError, Scope};
use serde::Serialize;
use serde_json::json;
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

use crate::main_loop::Message;
use crate::main_loop::connections::Connections;
use crate::main_loop::handles::LoopHandles;
use crate::main_loop::requests::{OpenRequest, RequestTickets};
use crate::services::changes::Changes;
use crate::services::changes::effects::FollowedChanges;
use crate::services::contents::effects::ContentStore;
use crate::services::contents::{self, StoredContents};
use crate::services::customizations::Customizations;
use crate::services::customizations::effects::FollowedCustomizations;
use crate::services::customizations::resource_access::VisibleSets;
use crate::services::resources::{
    ChangeSink, Content, EntryKind, ResourceEntry, ResourceError, ResourceInfo, ResourceKind, Resources, Watching,
    data_uri,
};

/// The order of what one connection wants done: what writes waits for everything before it, and
/// everything after it waits for that. So a client need not wait for an answer to know what it reads.
#[derive(Debug, Default)]
pub(crate) struct OperationOrder(Arc<RwLock<()>>);

/// A place in that order.
pub(crate) type QueuePosition = Pin<Box<dyn Future<Output = QueueGuard> + Send>>;

#[expect(dead_code, reason = "held, not read")]
pub(crate) enum QueueGuard {
    Reads(OwnedRwLockReadGuard<()>),
    Writes(OwnedRwLockWriteGuard<()>),
}

impl OperationOrder {
    /// Takes the next position now, to be awaited elsewhere: the lock is fair to the first caller.
    pub(crate) fn take(&self, writes: bool) -> (QueuePosition, Option<QueueGuard>) {
        let lock = Arc::clone(&self.0);
        let mut position: QueuePosition = match writes {
            true => lock.write_owned().map(QueueGuard::Writes).boxed(),
            false => lock.read_owned().map(QueueGuard::Reads).boxed(),
        };
        let guard = position.as_mut().now_or_never();
        (position, guard)
    }

    /// For those who take their place when they get there.
    pub(crate) fn lock(&self) -> Arc<RwLock<()>> {
        Arc::clone(&self.0)
    }
}

/// How long the answer to a change waits until the customizations there were read again.
const CHANGE_TIME: Duration = Duration::from_secs(2);

/// The URIs at which something is different once this was done.
fn changed_by(op: &ResourceOp) -> Vec<String> {
    match op {
        ResourceOp::Write(write) => vec![write.uri.clone()],
        ResourceOp::Copy(transfer) => vec![transfer.destination.clone()],
        ResourceOp::Move(transfer) => vec![transfer.source.clone(), transfer.destination.clone()],
        ResourceOp::Delete { uri, .. } => vec![uri.clone()],
        // A new directory is empty, so no other operation depends on its content.
        ResourceOp::Mkdir { .. }
        | ResourceOp::Read { .. }
        | ResourceOp::List { .. }
        | ResourceOp::Resolve { .. }
        | ResourceOp::ImportBlob(_) => Vec::new(),
    }
}

/// A watch that was set up, or could not be.
#[derive(Debug)]
pub(crate) struct WatchOpened {
    conn: ConnId,
    id: RequestId,
    watch: u64,
    spec: Box<WatchSpec>,
    outcome: Result<Watching, RpcError>,
}

/// The resources of a host, and the watches on them.
pub(crate) struct ResourceRequests {
    resources: Arc<dyn Resources>,
    /// Watches by number. Dropping one ends it.
    watches: HashMap<u64, Watching>,
}

/// The parts of the host that operations on resources need.
pub(crate) struct ResourceParts<'a> {
    pub(crate) connections: &'a Connections,
    pub(crate) contents: &'a ContentStore,
    pub(crate) changes: &'a FollowedChanges,
    pub(crate) customizations: &'a FollowedCustomizations,
}

impl ResourceRequests {
    pub(crate) fn new(resources: Arc<dyn Resources>) -> Self {
        Self {
            resources,
            watches: HashMap::new(),
        }
    }

    /// Ends every watch, because the core is replaced.
    pub(crate) fn clear(&mut self) {
        self.watches.clear();
    }

    pub(crate) fn perform(
        &mut self,
        handles: &LoopHandles,
        requests: &mut RequestTickets,
        command: ResourceCommand,
        parts: ResourceParts<'_>,
    ) {
        match command {
            ResourceCommand::Perform {
                conn,
                id,
                op,
                reaches,
                sight,
            } => {
                let request = requests.open(handles, conn, id);
                let (Some(request), Some(order)) = (request, parts.connections.order(conn)) else {
                    // The host is going away, or the connection is gone.
                    return;
                };
                let operation = ResourceOperation {
                    op: *op,
                    reaches,
                    sets: VisibleSets::new(parts.customizations, &sight, handles.limits().resource_bytes),
                    finder: parts.customizations.finder(),
                    changes: parts.changes.changes(),
                };
                self.operate(handles, request, operation, order, parts.contents);
            }
            ResourceCommand::OpenWatch {
                conn,
                id,
                watch,
                spec,
                reaches,
            } => {
                if let Some(request) = requests.open(handles, conn, id) {
                    self.open_watch(handles, request, watch, spec, reaches);
                }
            }
            ResourceCommand::CloseWatch { watch } => {
                self.watches.remove(&watch);
            }
        }
    }

    /// Performs an operation on resources, after the operations before it in the order of its connection.
    fn operate(
        &self,
        handles: &LoopHandles,
        request: OpenRequest,
        operation: ResourceOperation,
        order: &OperationOrder,
        contents: &ContentStore,
    ) {
        let ResourceOperation {
            op,
            reaches,
            sets,
            finder,
            changes,
        } = operation;
        let (position, guard) = order.take(op.scope() > Scope::View);
        let after_moves = match &op {
            ResourceOp::ImportBlob(keep) => Some(contents.begin_import(&keep.session)),
            _ => None,
        };
        let (resources, contents) = (Arc::clone(&self.resources), contents.contents());
        let (time, most) = (handles.limits().resource_time, handles.limits().resource_bytes);
        handles.tasks().spawn(async move {
            let _guard = match guard {
                Some(guard) => guard,
                None => position.await,
            };
            let _after = match after_moves {
                Some((_, Some(guard))) => Some(guard),
                Some((position, None)) => Some(position.await),
                None => None,
            };
            let method = op.method();
            let doing = async {
                let looking = sets.may_have(&op);
                let changed = changed_by(&op);
                let stored = StoredContents {
                    contents: &*contents,
                    changes: &*changes,
                };
                let done = carry_out(&*resources, stored, &reaches, op, most).await;
                let done = match (done, looking) {
                    (Err(error), Some(op)) => sets.or_shown(&*resources, op, error).await,
                    (done, _) => done,
                };
                if done.is_ok() && !changed.is_empty() {
                    // The answer comes after the report, so the next message finds what was saved.
                    let told = finder.changed(&changed);
                    if tokio::time::timeout(CHANGE_TIME, told).await.is_err() {
                        tracing::warn!(method, "what a client saved is not read yet");
                    }
                }
                done.map_err(rpc_error)
            };
            let doing = AssertUnwindSafe(doing).catch_unwind();
            let outcome = match tokio::time::timeout(time, doing).await {
                Ok(Ok(outcome)) => outcome,
                Ok(Err(_)) => {
                    tracing::error!(method, "serving a resource panicked");
                    Err(failure(format!("{method} failed; the host's log says more")))
                }
                Err(_) => {
                    tracing::warn!(method, ?time, "serving a resource took too long");
                    let ms = time.as_millis();
                    Err(failure(format!(
                        "{method} was not done within {ms} ms; look whether it was before you try again"
                    )))
                }
            };
            request.respond_object(outcome).await;
        });
    }

    /// Opens a watch. The core decides what becomes of it.
    fn open_watch(
        &self,
        handles: &LoopHandles,
        request: OpenRequest,
        watch: u64,
        spec: Box<WatchSpec>,
        reaches: Vec<AllowedRoot>,
    ) {
        let sink = ChangeSink::new(watch, handles.weak_inbox());
        let resources = Arc::clone(&self.resources);
        let time = handles.limits().resource_time;
        handles.tasks().spawn(async move {
            let opening = AssertUnwindSafe(resources.watch(&reaches, &spec, sink)).catch_unwind();
            let outcome = match tokio::time::timeout(time, opening).await {
                Ok(Ok(outcome)) => outcome.map_err(rpc_error),
                Ok(Err(_)) => Err(failure("the watch failed; the host's log says more".to_owned())),
                Err(_) => Err(failure("the watch was not set up in time; watch less".to_owned())),
            };
            let opened = |conn, id| {
                Message::WatchOpened(Box::new(WatchOpened {
                    conn,
                    id,
                    watch,
                    spec,
                    outcome,
                }))
            };
            request.send(opened).await;
        });
    }

    /// Stores a watch that was opened, and returns the input that reports it to the core.
    pub(crate) fn watch_opened(&mut self, opened: WatchOpened) -> Input {
        let WatchOpened {
            conn,
            id,
            watch,
            spec,
            outcome,
        } = opened;
        let outcome = outcome.map(|watching| {
            let admitted_by = watching.admitted_by.clone();
            self.watches.insert(watch, watching);
            admitted_by
        });
        Input::from(WatchInput::Opened {
            conn,
            id,
            watch,
            spec,
            outcome,
        })
    }
}

/// An operation of a client on resources.
struct ResourceOperation {
    op: ResourceOp,
    /// The places that the client may reach.
    reaches: Vec<AllowedRoot>,
    /// The customizations that the client sees, and may read.
    sets: VisibleSets,
    /// Learns of changes, so that the next message uses them.
    finder: Arc<dyn Customizations>,
    /// Has the contents of changed files.
    changes: Arc<dyn Changes>,
}

/// An answer that carries something that was read; it may be long.
pub(crate) fn found(id: RequestId, object: Vec<u8>) -> Outgoing {
    let estimated_bytes = object.len();
    Outgoing::Answer(Arc::new(RpcAnswer {
        id,
        body: AnswerBody::Found(object),
        estimated_bytes,
    }))
}

pub(crate) fn failure(message: String) -> RpcError {
    RpcError::new(code::INTERNAL_ERROR, message)
}

/// An error as clients get it (RES-04, RES-07, RES-12, RES-16).
fn rpc_error(error: ResourceError) -> RpcError {
    let message = error.to_string();
    match error {
        ResourceError::NotFound(_) => RpcError::new(code::NOT_FOUND, message),
        ResourceError::Outside { uri, write } => permission_denied(message, Some((&uri, write))),
        ResourceError::Refused(_) => permission_denied(message, None),
        ResourceError::Exists(_) => RpcError::new(code::ALREADY_EXISTS, message),
        ResourceError::Conflict(_) => RpcError::new(code::CONFLICT, message),
        ResourceError::Invalid { field, problem } => RpcError::invalid_params(field, problem),
        ResourceError::Failed(_) => failure(message),
    }
}

/// Does it, and returns the result as a JSON object without its closing brace.
async fn carry_out(
    resources: &dyn Resources,
    stored: StoredContents<'_>,
    reaches: &[AllowedRoot],
    op: ResourceOp,
    most: usize,
) -> Result<Vec<u8>, ResourceError> {
    match op {
        ResourceOp::Read { uri, encoding } if data_uri::is_data(&uri) => {
            data_uri::read(&uri).map(|content| object(&read_result(content, encoding)))
        }
        ResourceOp::Resolve { uri, .. } if data_uri::is_data(&uri) => {
            data_uri::read(&uri).map(|content| object(&resolve_result(content_info(uri, &content))))
        }
        // `reaches` has the sessions that the client sees.
        ResourceOp::Read { uri, encoding } if is_blob_uri(&uri) => {
            let content = contents::read(stored, &uri, reaches, most).await;
            content.map(|content| object(&read_result(content, encoding)))
        }
        ResourceOp::Resolve { uri, .. } if is_blob_uri(&uri) => {
            let content = contents::read(stored, &uri, reaches, most).await;
            content.map(|content| object(&resolve_result(content_info(uri, &content))))
        }
        ResourceOp::Read { uri, encoding } => {
            let content = resources.read(reaches, &uri, most).await;
            content.map(|content| object(&read_result(content, encoding)))
        }
        ResourceOp::Write(write) => resources.write(reaches, *write).await.map(|()| nothing()),
        ResourceOp::List { uri } => {
            let entries = resources.list(reaches, &uri).await;
            entries.map(|entries| object(&list_result(entries)))
        }
        ResourceOp::Copy(transfer) => resources.copy(reaches, *transfer).await.map(|()| nothing()),
        ResourceOp::Move(transfer) => resources.rename(reaches, *transfer).await.map(|()| nothing()),
        ResourceOp::Delete { uri, recursive } => resources.delete(reaches, &uri, recursive).await.map(|()| nothing()),
        ResourceOp::Resolve { uri, follow } => {
            let info = resources.resolve(reaches, &uri, follow).await;
            info.map(|info| object(&resolve_result(info)))
        }
        ResourceOp::Mkdir { uri } => resources.make_directory(reaches, &uri).await.map(|()| nothing()),
        ResourceOp::ImportBlob(keep) => {
            let kept = contents::import(stored.contents, *keep, most).await;
            kept.map(|kept| object(&json!({ "kept": kept })))
        }
    }
}

/// An empty success (RES-20).
fn nothing() -> Vec<u8> {
    b"{".to_vec()
}

pub(crate) fn object(result: &impl Serialize) -> Vec<u8> {
    let mut json = serde_json::to_vec(result).unwrap_or_else(|_| b"{}".to_vec());
    json.pop();
    json
}

/// Text as text and the rest as base64, unless the client wants text as base64 (RES-02). Control characters take
/// six bytes each in JSON: what mostly consists of them is text only for who asks for it (RES-18).
pub(crate) fn read_result(content: Content, wanted: Option<Encoding>) -> ResourceReadResult {
    let Content { bytes, content_type } = content;
    let (data, encoding) = match wanted {
        Some(Encoding::Base64) => (STANDARD.encode(&bytes), ContentEncoding::Base64),
        Some(Encoding::Utf8) | None => match String::from_utf8(bytes) {
            Ok(text) if wanted.is_none() && is_long_in_json(&text) => (STANDARD.encode(text), ContentEncoding::Base64),
            Ok(text) => (text, ContentEncoding::Utf8),
            Err(error) => (STANDARD.encode(error.as_bytes()), ContentEncoding::Base64),
        },
    };
    ResourceReadResult {
        data,
        encoding,
        content_type,
    }
}

/// Returns whether a text is more than twice as long in JSON, which does not happen to text that a human writes.
fn is_long_in_json(text: &str) -> bool {
    let has_long_form = |byte: &u8| *byte < 0x20 && !b"\n\r\t\x08\x0c".contains(byte);
    // Each has six bytes there instead of one; the others have one or two.
    5 * text.bytes().filter(has_long_form).count() > text.len()
}

pub(crate) fn list_result(entries: Vec<ResourceEntry>) -> ResourceListResult {
    let entries = entries.into_iter().map(|entry| DirectoryEntry {
        name: entry.name,
        r#type: match entry.kind {
            EntryKind::File => "file".to_owned(),
            EntryKind::Directory => "directory".to_owned(),
        },
    });
    ResourceListResult {
        entries: entries.collect(),
    }
}

pub(crate) fn resolve_result(info: ResourceInfo) -> ResourceResolveResult {
    let moment = |at: jiff::Timestamp| format!("{at:.3}");
    ResourceResolveResult {
        uri: info.uri,
        r#type: match info.kind {
            ResourceKind::File => ResourceType::File,
            ResourceKind::Directory => ResourceType::Directory,
            ResourceKind::Symlink => ResourceType::Symlink,
        },
        size: info.size.and_then(|size| i64::try_from(size).ok()),
        mtime: info.modified.map(moment),
        ctime: info.created.map(moment),
        content_type: info.content_type,
        etag: info.etag,
    }
}

pub(crate) fn content_info(uri: String, content: &Content) -> ResourceInfo {
    ResourceInfo {
        uri,
        kind: ResourceKind::File,
        size: u64::try_from(content.bytes.len()).ok(),
        modified: None,
        created: None,
        content_type: content.content_type.clone(),
        etag: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn res02_res18_text_that_json_inflates_is_text_only_on_request() {
        let read = |bytes: &[u8], wanted| {
            let content = Content {
                bytes: bytes.to_vec(),
                content_type: None,
            };
            read_result(content, wanted)
        };
        let control = [1; 1000];
        let result = read(&control, None);
        assert_eq!(result.encoding, ContentEncoding::Base64);
        assert!(object(&result).len() < 1500);
        assert_eq!(read(&control, Some(Encoding::Utf8)).encoding, ContentEncoding::Utf8);
        for text in ["", "\n\n\n", "\t\"\\\"\r\n", "\x1b[1mbold\x1b[0m", "héllo\n"] {
            let result = read(text.as_bytes(), None);
            assert_eq!((result.data.as_str(), result.encoding), (text, ContentEncoding::Utf8));
        }
    }
}
