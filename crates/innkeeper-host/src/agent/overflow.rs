//! Content that is too long for a turn: stored as a blob beside the session, and referred to in the turn (RES-03).
//!
//! Contents of changed files are never part of the turn itself. The file before and after a change is stored when users
//! are asked to confirm the change and when it is done, so that they still see the change and not the present file.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use innkeeper_core::agent::{Permission, ToolStep};
use innkeeper_core::{AgentEvent, content, data_uri};

use super::{AgentError, EventSink, FileChange, FileSide, ToolContent};
use crate::services::contents::{Reference, SessionContents, content_name};
use crate::services::resources::content_type;

/// The space that is left in one turn, and the store for the rest.
#[derive(Debug, Default)]
pub(crate) struct TurnOverflow {
    /// Bytes of images and other binary content of MCP servers in the turn, in base64.
    pub(crate) embedded: AtomicUsize,
    /// Store for content that exceeds the turn's limit.
    pub(crate) contents: Option<SessionContents>,
}

impl TurnOverflow {
    pub(crate) fn new(contents: Option<SessionContents>) -> Arc<Self> {
        Arc::new(Self {
            contents,
            ..Self::default()
        })
    }
}

/// Longest content that stays in the turn where it cannot be kept.
const MAX_INLINE: usize = 64 << 10;

impl EventSink {
    /// Shows content that is too long for the turn, or is not text: it is stored beside the session and is part of the
    /// turn by reference, which clients read when users want to see it. Users see the name, as in `report.md`. Returns
    /// whether it could be stored; if not, nothing is shown.
    ///
    /// # Errors
    ///
    /// When the turn is cancelled.
    pub async fn attach(&self, name: &str, bytes: impl Into<Vec<u8>>, content_type: &str) -> Result<bool, AgentError> {
        let Some(Reference { uri, size }) = self.keep(name, bytes.into(), content_type).await else {
            return Ok(false);
        };
        let event = AgentEvent::Resource {
            uri,
            content_type: Some(content_type.to_owned()),
            size: Some(size),
        };
        self.send(event).await?;
        Ok(true)
    }

    /// Keeps something that is too long for the result of a tool, and returns the content that refers to it; `None` if
    /// it could not be kept.
    pub(super) async fn keep_result(&self, name: &str, bytes: Vec<u8>, content_type: &str) -> Option<ToolContent> {
        let Reference { uri, size } = self.keep(name, bytes, content_type).await?;
        Some(ToolContent::Resource {
            uri,
            content_type: Some(content_type.to_owned()),
            size: Some(size),
            mention: None,
        })
    }

    async fn keep(&self, name: &str, bytes: Vec<u8>, content_type: &str) -> Option<Reference> {
        let contents = self.overflow.contents.as_ref()?;
        let file = format!("file:///{name}");
        let kept = contents.keep_file(&file, bytes, Some(content_type.to_owned())).await;
        kept.inspect_err(|problem| tracing::warn!(problem, name, "a blob could not be stored"))
            .ok()
    }

    /// Moves the contents of changed files out of a step of a call.
    pub(super) async fn keep_sides(&self, step: &mut ToolStep) {
        for change in changes(step) {
            for side in [&mut change.before, &mut change.after].into_iter().flatten() {
                self.keep_side(side).await;
            }
        }
    }

    async fn keep_side(&self, side: &mut FileSide) {
        if !data_uri::is_data(&side.content) {
            return;
        }
        let (Ok((bytes, _)), Some(contents)) = (data_uri::decode(&side.content), &self.overflow.contents) else {
            // A side that cannot be decoded or stored stays in the turn.
            return;
        };
        let kind = content_type(Path::new(&side.uri), &bytes);
        let name = content_name(&bytes, kind.as_deref());
        let size = bytes.len();
        side.size = u64::try_from(size).ok();
        side.content_type.clone_from(&kind);
        match contents.keep_file(&side.uri, bytes, kind).await {
            Ok(reference) => side.content = reference.uri,
            Err(problem) => {
                tracing::warn!(problem, "the old content of a file could not be stored");
                // Short content stays in the turn. Longer content is lost, and the turn says so.
                if size > MAX_INLINE {
                    side.content = content::blob(&name, &side.uri);
                }
            }
        }
    }
}

/// The changes of files that a step shows.
fn changes(step: &mut ToolStep) -> Vec<&mut FileChange> {
    match step {
        ToolStep::Ready(ready) => match &mut ready.permission {
            Permission::Ask(confirmation) | Permission::Insist(confirmation) => confirmation.edits.iter_mut().collect(),
            Permission::NotNeeded | Permission::Granted => Vec::new(),
        },
        ToolStep::Content(contents) => in_contents(contents),
        ToolStep::Done { result, .. } => in_contents(&mut result.content),
        ToolStep::Start(_)
        | ToolStep::Input(_)
        | ToolStep::Announce(_)
        | ToolStep::Risk(_)
        | ToolStep::AuthRequired(_)
        | ToolStep::AuthResolved => Vec::new(),
    }
}

fn in_contents(contents: &mut [ToolContent]) -> Vec<&mut FileChange> {
    let mut changes = Vec::new();
    for content in contents {
        if let ToolContent::FileEdit(change) = content {
            changes.push(change);
        }
    }
    changes
}
