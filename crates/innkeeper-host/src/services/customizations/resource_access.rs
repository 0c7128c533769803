//! Files of customizations, for clients that see their sessions (RES-03).
//!
//! Plugins and directories can be anywhere: in the home, at a path of the configuration, or with a client that alone
//! can read them. A client that sees a session may read the files that the session shows, and no others. The service
//! that discovered a file knows its real location.

use std::sync::Arc;

use innkeeper_core::resources::{AllowedRoot, ResourceOp, VisibleSessions};

use crate::services::customizations::effects::FollowedCustomizations;
use crate::services::customizations::{CustomizationSet, FileAccess, SharedEntry};
use crate::services::resources::effects::{content_info, list_result, object, read_result, resolve_result};
use crate::services::resources::{ResourceError, ResourceInfo, ResourceKind, Resources};

/// The sets of the sessions that a client sees.
pub(crate) struct VisibleSets {
    sets: Vec<Arc<CustomizationSet>>,
    access: FileAccess,
}

impl VisibleSets {
    pub(crate) fn new(followed: &FollowedCustomizations, sight: &VisibleSessions, bytes: usize) -> Self {
        let sessions = sight.sessions.iter();
        Self {
            sets: sessions.filter_map(|session| followed.known_set(*session)).collect(),
            access: FileAccess {
                drives: sight.drives,
                bytes,
            },
        }
    }

    /// Returns a copy of the operation, if one of the sessions may show its file.
    pub(crate) fn may_have(&self, op: &ResourceOp) -> Option<ResourceOp> {
        let looks = matches!(
            op,
            ResourceOp::Read { .. } | ResourceOp::List { .. } | ResourceOp::Resolve { .. }
        );
        (looks && !self.sets.is_empty()).then(|| op.clone())
    }

    /// Performs an operation that failed outside the client's grants, if a session shows the file.
    pub(crate) async fn or_shown(
        &self,
        resources: &dyn Resources,
        op: ResourceOp,
        error: ResourceError,
    ) -> Result<Vec<u8>, ResourceError> {
        let (ResourceOp::Read { uri, .. } | ResourceOp::List { uri } | ResourceOp::Resolve { uri, .. }) = &op else {
            return Err(error);
        };
        let may_be_shown = match &error {
            ResourceError::Outside { .. } | ResourceError::Refused(_) => true,
            // A granted file that does not exist is not in a session either.
            ResourceError::NotFound(_) => !uri.starts_with("file:"),
            _ => false,
        };
        if !may_be_shown {
            return Err(error);
        }
        for set in &self.sets {
            if let Some(found) = set.texts.find(uri, self.access).await {
                return serve(resources, op, found?, self.access.bytes).await;
            }
        }
        Err(error)
    }
}

/// Performs the operation, and returns the result as a JSON object without its closing brace.
async fn serve(
    resources: &dyn Resources,
    op: ResourceOp,
    shown: SharedEntry,
    most: usize,
) -> Result<Vec<u8>, ResourceError> {
    match (op, shown) {
        (op, SharedEntry::Here(here)) => {
            // Exact: a symlink that is put on the path later is not followed.
            let reach = [AllowedRoot {
                uri: here.clone(),
                write: false,
                exact: true,
            }];
            match op {
                ResourceOp::List { .. } => {
                    let entries = resources.list(&reach, &here).await?;
                    Ok(object(&list_result(entries)))
                }
                ResourceOp::Resolve { uri, follow } => {
                    let info = resources.resolve(&reach, &here, follow).await?;
                    let uri = if follow { info.uri } else { uri };
                    Ok(object(&resolve_result(ResourceInfo { uri, ..info })))
                }
                ResourceOp::Read { encoding, .. } => {
                    let content = resources.read(&reach, &here, most).await?;
                    Ok(object(&read_result(content, encoding)))
                }
                other => Err(refused(&other)),
            }
        }
        (ResourceOp::Read { encoding, .. }, SharedEntry::File(content)) => Ok(object(&read_result(content, encoding))),
        (ResourceOp::Resolve { uri, .. }, SharedEntry::File(content)) => {
            Ok(object(&resolve_result(content_info(uri, &content))))
        }
        (ResourceOp::List { .. }, SharedEntry::Directory(entries)) => Ok(object(&list_result(entries))),
        (ResourceOp::Resolve { uri, .. }, SharedEntry::Directory(_)) => Ok(object(&resolve_result(ResourceInfo {
            uri,
            kind: ResourceKind::Directory,
            size: None,
            modified: None,
            created: None,
            content_type: None,
            etag: None,
        }))),
        (ResourceOp::Read { uri, .. }, SharedEntry::Directory(_)) => Err(ResourceError::Invalid {
            field: "uri",
            problem: format!("{uri:.300} is a directory, not a file"),
        }),
        (ResourceOp::List { uri }, SharedEntry::File(_)) => Err(ResourceError::Invalid {
            field: "uri",
            problem: format!("{uri:.300} is not a directory"),
        }),
        (other, _) => Err(refused(&other)),
    }
}

fn refused(op: &ResourceOp) -> ResourceError {
    ResourceError::Refused(format!("{}: what a session shows can only be read", op.method()))
}
