//! Documents: the state of a session, a chat, a client or the host, without its latest actions.
//!
//! Documents are JSON with a version. A reader takes every version up to its own and refuses a
//! newer one; fields that a version added have defaults.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ahp_types::state::{ChangesSummary, ChatState, RootState, SessionState};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::agent::{PastTurn, Setting};
use crate::chat::approval::WorkspaceApprovals;
use crate::chat::history::History;
use crate::customization::{Decisions, EnablementStore};
use crate::log::gaps::Gaps;
use crate::protocol::dialect::extension::{Catalogue, OptIns};
use crate::protocol::snapshot::{State, Window};
use crate::resources::Grants;
use crate::session::TitleSource;
use crate::session::annotations::AnnotationsDocument;
use crate::session::changesets::{Reviews, SessionEdits};

/// The version that is written.
pub(crate) const VERSION: u32 = 1;

/// A session, but for its chats.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionDocument {
    pub(crate) version: u32,
    pub(crate) created_at: String,
    /// The last number given out before it was created.
    pub(crate) created_seq: u64,
    pub(crate) titled_by: TitleSource,
    pub(crate) settings: Arc<[Setting]>,
    pub(crate) state: Arc<SessionState>,
    #[serde(default, skip_serializing_if = "no_opt_ins")]
    pub(crate) opt_ins: Arc<OptIns>,
    /// The users' decisions in this session about its customizations.
    #[serde(default, skip_serializing_if = "nothing_decided")]
    pub(crate) decisions: Arc<Decisions>,
    /// The annotations of its files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) annotations: Option<AnnotationsDocument>,
    /// The files that its tools changed.
    #[serde(default, skip_serializing_if = "SessionEdits::is_empty")]
    pub(crate) edits: SessionEdits,
    /// The files that users have reviewed.
    #[serde(default, skip_serializing_if = "Reviews::is_empty")]
    pub(crate) reviews: Reviews,
    /// Its changes on disk, if they were counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) counted: Option<ChangesSummary>,
    /// Whether no user has written in it yet. Earlier versions persisted every session from the start.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_draft: bool,
    /// Whether it was exported elsewhere and has not been opened here yet. Its approvals do not hold
    /// here.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) imported: bool,
}

fn nothing_decided(decisions: &Arc<Decisions>) -> bool {
    decisions.is_empty()
}

fn no_opt_ins(opt_ins: &Arc<OptIns>) -> bool {
    opt_ins.is_empty()
}

/// A chat, but for its completed turns.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ChatDocument {
    pub(crate) created_seq: u64,
    pub(crate) titled_by: TitleSource,
    pub(crate) can_resume: bool,
    pub(crate) parent: Option<String>,
    #[serde(default)]
    pub(crate) context: Vec<PastTurn>,
    pub(crate) selection: Option<String>,
    #[serde(default)]
    pub(crate) writers: BTreeMap<String, String>,
    pub(crate) memory: Option<Value>,
    pub(crate) state: ChatState,
}

/// The same, as it is written: nothing is copied for it but what is small.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ChatDraft {
    pub(crate) version: u32,
    pub(crate) created_seq: u64,
    pub(crate) titled_by: TitleSource,
    pub(crate) can_resume: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) parent: Option<Arc<str>>,
    pub(crate) context: Arc<[PastTurn]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) selection: Option<String>,
    pub(crate) writers: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) memory: Option<Arc<Value>>,
    pub(crate) state: State,
}

/// A chat's state without its turns, as snapshots write it.
pub(crate) fn head(head: &Arc<ChatState>) -> State {
    State::Chat(
        Arc::clone(head),
        Arc::new(History::new(&head.resource, Vec::new())),
        Window::ALL,
    )
}

/// The state of a client for `reconnect`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClientDocument<'a> {
    pub(crate) version: u32,
    pub(crate) principal: Cow<'a, str>,
    /// The negotiated version of the protocol.
    pub(crate) protocol: Cow<'a, str>,
    pub(crate) mcp_apps: bool,
    pub(crate) locale: Option<Cow<'a, str>>,
    pub(crate) subscriptions: BTreeMap<String, SubscriptionDocument>,
}

/// One subscription of a client.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SubscriptionDocument {
    pub(crate) max_latency_ms: u32,
    pub(crate) started: u64,
    pub(crate) unloaded: Option<String>,
}

/// The host's own state.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RootDocument {
    pub(crate) version: u32,
    pub(crate) state: Arc<RootState>,
    #[serde(default)]
    pub(crate) catalogue: Arc<Catalogue>,
    pub(crate) workspace_approvals: WorkspaceApprovals,
    #[serde(default)]
    pub(crate) everywhere_approvals: BTreeSet<String>,
    /// Approvals of earlier versions that hold no longer.
    #[serde(default)]
    pub(crate) outdated_approvals: WorkspaceApprovals,
    #[serde(default)]
    pub(crate) resource_grants: Grants,
    #[serde(default, rename = "switches")]
    pub(crate) enablement: Arc<EnablementStore>,
    #[serde(default)]
    pub(crate) gaps: Gaps,
}

/// Reads a document, unless a newer version of the program wrote it.
pub(crate) fn read<'a, T: Deserialize<'a>>(what: &str, bytes: &'a [u8]) -> Result<T, String> {
    #[derive(Deserialize)]
    struct Head {
        version: u32,
    }
    let head: Head = serde_json::from_slice(bytes).map_err(|error| format!("{what} cannot be read ({error})"))?;
    if head.version > VERSION {
        return Err(format!(
            "{what} was written by a newer version of this program (document version {}, this one reads up to \
             {VERSION}); update it",
            head.version
        ));
    }
    serde_json::from_slice(bytes).map_err(|error| format!("{what} cannot be read ({error})"))
}

/// Writes a document, which cannot fail for these types.
pub(crate) fn write(document: &impl Serialize) -> Vec<u8> {
    let mut out = Vec::new();
    crate::protocol::frame::write_json(&mut out, document);
    out
}
