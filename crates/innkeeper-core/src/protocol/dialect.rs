//! Dialects: everything that one client is shown differently from another.
//!
//! State, journal and replay window have one form, that of the newest protocol version with everything in it. The
//! dialect of a connection is negotiated in its handshake and holds for the whole connection (NEG-07). Everything that
//! goes to one connection passes through it after it was encoded for all:
//!
//! - published actions: [`Dialect::knows`] withholds them, [`Dialect::frame`] picks their form;
//! - replayed actions: [`Dialect::replay`];
//! - snapshots: [`Dialect::snapshot`];
//! - summaries of sessions, in answers and notifications: [`ProtocolVersion::summary`].
//!
//! [`mcp_apps`] leaves out what only clients with MCP Apps see. [`extension`] adds the fields that this host's
//! extensions have and the published types lack.

pub(crate) mod extension;
pub(crate) mod mcp_apps;

use std::sync::Arc;

use ahp_types::state::SessionSummary;

use crate::protocol::frame::ActionFrame;
use crate::protocol::snapshot::Snapshot;

/// A version of the protocol, as far as this host distinguishes versions (NEG-08). Upstream's registry tags eight of
/// the ten actions new in 1.0.0 as known to 0.9, so only the canvas ones are withheld there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProtocolVersion {
    /// 0.9, or known to 0.9 and later.
    #[default]
    V0_9,
    /// 1.0, or known to 1.0 and later.
    V1_0,
}

impl ProtocolVersion {
    /// All versions, the newest first.
    pub(crate) const ALL: [Self; 2] = [Self::V1_0, Self::V0_9];

    /// The version that a negotiated version string belongs to.
    pub(crate) fn of(version: &str) -> Self {
        if version.starts_with("0.") {
            Self::V0_9
        } else {
            Self::V1_0
        }
    }

    /// Whether summaries of sessions have another form than the newest one.
    pub(crate) fn changes_summaries(self) -> bool {
        self == Self::V0_9
    }

    /// The summary of a session as this version knows it.
    pub(crate) fn summary(self, mut summary: SessionSummary) -> SessionSummary {
        // ROOT-16: 0.9 knows neither the compact catalogue nor the default chat.
        if self.changes_summaries() {
            summary.chats = None;
            summary.default_chat = None;
        }
        summary
    }

    /// The fields that never change or that clients of this version ignore in a partial summary (ROOT-14).
    pub(crate) fn not_in_partial_summary(self) -> &'static [&'static str] {
        match self {
            Self::V1_0 => &["resource", "provider", "createdAt", "defaultChat", "_meta"],
            // The client of 0.9 that is in use takes over `_meta` from a partial summary, and ignores another
            // sessionAdded of a session that it knows.
            Self::V0_9 => &["resource", "provider", "createdAt", "defaultChat"],
        }
    }
}

/// The dialect of one connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Dialect {
    /// The version of the protocol.
    pub version: ProtocolVersion,
    /// Whether the client shows MCP Apps (MCP-14).
    pub mcp_apps: bool,
}

impl Dialect {
    /// The dialect of a client that negotiated this version.
    pub(crate) fn new(version: &str, mcp_apps: bool) -> Self {
        let version = ProtocolVersion::of(version);
        Self { version, mcp_apps }
    }

    /// Whether the client knows what this version introduced (NEG-07).
    pub(crate) fn knows(self, since: ProtocolVersion) -> bool {
        self.version >= since
    }

    /// Whether a client with this dialect holds the same state as one with the other, so that the same actions
    /// continue it.
    pub(crate) fn has_state_of(self, other: Self) -> bool {
        self.mcp_apps == other.mcp_apps
    }

    /// The form of a published action that the client gets.
    pub(crate) fn frame(self, frame: &Arc<ActionFrame>) -> &Arc<ActionFrame> {
        match frame.without_mcp_apps() {
            Some(plain) if !self.mcp_apps => plain,
            Some(_) | None => frame,
        }
    }

    /// The replayed actions that the client gets, in their form.
    pub(crate) fn replay(self, mut frames: Vec<Arc<ActionFrame>>) -> Vec<Arc<ActionFrame>> {
        frames.retain(|frame| self.knows(frame.since));
        if !self.mcp_apps {
            for frame in &mut frames {
                if let Some(plain) = mcp_apps::replayed_without_apps(frame) {
                    *frame = Arc::new(plain);
                }
            }
        }
        frames
    }

    /// The form of a snapshot that the client gets.
    pub(crate) fn snapshot(self, snapshot: Snapshot) -> Snapshot {
        let hides_apps = !self.mcp_apps;
        Snapshot { hides_apps, ..snapshot }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neg07_a_dialect_knows_its_version_and_everything_before() {
        let old = Dialect::new("0.9.3", false);
        let new = Dialect::new("1.0.0", true);
        assert!(old.knows(ProtocolVersion::V0_9) && !old.knows(ProtocolVersion::V1_0));
        assert!(new.knows(ProtocolVersion::V0_9) && new.knows(ProtocolVersion::V1_0));
    }

    #[test]
    fn e58_only_mcp_apps_change_the_state_that_a_client_holds() {
        let plain = Dialect::new("1.0.0", false);
        assert!(plain.has_state_of(Dialect::new("0.9.0", false)));
        assert!(!plain.has_state_of(Dialect::new("1.0.0", true)));
    }
}
