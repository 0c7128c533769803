//! Dialects: everything that one client is shown differently from another.
//!
//! State, journal and replay window have one form, that of the newest protocol version with everything in it. The
//! dialect of a connection is negotiated in its handshake and holds for the whole connection (NEG-07). Everything that
//! goes to one connection passes through it after it was encoded for all:
//!
//! - published actions: [`Dialect::frames`] picks their form, and the connection's writer translates it if its bytes
//!   mean something else in the client's version ([`ActionFrame::same`]);
//! - replayed actions: [`Dialect::replay`];
//! - snapshots: [`Dialect::snapshot`];
//! - summaries of sessions, in answers and notifications: [`summary`].
//!
//! The translation itself is in the crate `innkeeper-dialects`, one step per version. [`mcp_apps`] leaves out what only
//! clients with MCP Apps see. [`extension`] adds the fields that this host's extensions have and the published types
//! lack.

pub(crate) mod extension;
pub(crate) mod mcp_apps;

use std::borrow::Cow;
use std::sync::Arc;

use ahp_types::state::SessionSummary;
pub use innkeeper_dialects::Version;
use innkeeper_dialects::{Offer, Translator, negotiate};

use crate::ids::ClientId;
use crate::protocol::action_table::{Translation, rule_named};
use crate::protocol::frame::{ActionFrame, action_name};
use crate::protocol::snapshot::Snapshot;

/// The summary of a session as a version knows it.
pub(crate) fn summary(version: Version, mut summary: SessionSummary) -> SessionSummary {
    // ROOT-16: only 1.0 knows the compact catalogue and the default chat.
    if !version.summaries_have_chats() {
        summary.chats = None;
        summary.default_chat = None;
    }
    summary
}

/// The fields that never change or that clients of this version ignore in a partial summary (ROOT-14).
pub(crate) fn not_in_partial_summary(version: Version) -> &'static [&'static str] {
    match version.summaries_have_chats() {
        true => &["resource", "provider", "createdAt", "defaultChat", "_meta"],
        // The client of 0.9 that is in use takes over `_meta` from a partial summary, and ignores another sessionAdded
        // of a session that it knows.
        false => &["resource", "provider", "createdAt", "defaultChat"],
    }
}

/// The version that a stored negotiation chose; `None` if this host does not serve it.
fn stored_version(protocol: &str) -> Option<Version> {
    let number = protocol.parse().map(Offer::Number);
    let offer = number.unwrap_or_else(|_| Offer::List(vec![protocol.to_owned()]));
    Some(negotiate(&offer).ok()??.version)
}

/// The dialect of one connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Dialect {
    /// The version of the protocol.
    pub version: Version,
    /// Whether the client shows MCP Apps (MCP-14).
    pub mcp_apps: bool,
}

impl Dialect {
    /// The dialect in which nothing is left out or translated: that of state, journal and replay window.
    pub const COMPLETE: Self = Self {
        version: Version::NEWEST,
        mcp_apps: true,
    };

    /// The dialect of a client that negotiated this version in an earlier run of the host.
    pub(crate) fn restored(protocol: &str, mcp_apps: bool) -> Option<Self> {
        let version = stored_version(protocol)?;
        Some(Self { version, mcp_apps })
    }

    /// Whether a client with this dialect holds the same state as one with the other, so that the same actions
    /// continue it.
    pub(crate) fn has_state_of(self, other: Self) -> bool {
        self == other
    }

    /// The forms of published actions that the client gets: as a rule the actions themselves.
    pub fn frames(self, frames: &[Arc<ActionFrame>]) -> Cow<'_, [Arc<ActionFrame>]> {
        if self.mcp_apps || !frames.iter().any(|frame| frame.is_shown_differently()) {
            return Cow::Borrowed(frames);
        }
        frames.iter().map(|frame| Arc::clone(self.frame(frame))).collect()
    }

    /// The form of a published action that the client gets.
    pub(crate) fn frame(self, frame: &Arc<ActionFrame>) -> &Arc<ActionFrame> {
        match frame.without_mcp_apps() {
            Some(plain) if !self.mcp_apps => plain,
            Some(_) | None => frame,
        }
    }

    /// The replayed actions that a client gets, in their form. `None` if one of them cannot be translated without the
    /// state before it, which is gone.
    pub(crate) fn replay(self, client: &ClientId, mut frames: Vec<Arc<ActionFrame>>) -> Option<Vec<Arc<ActionFrame>>> {
        if !self.mcp_apps {
            for frame in &mut frames {
                if let Some(plain) = mcp_apps::replayed_without_apps(frame) {
                    *frame = Arc::new(plain);
                }
            }
        }
        if !self.version.is_translated() {
            return Some(frames);
        }
        let mut translator = Translator::new(self.version, client.as_str());
        let mut shown = Vec::with_capacity(frames.len());
        for frame in frames {
            let rule = action_name(&frame.bytes).and_then(rule_named);
            match rule.filter(|rule| rule.same > self.version) {
                None => shown.push(frame),
                Some(rule) if rule.translation == Translation::Stateful => return None,
                Some(_) => {
                    let messages = translator.down_action(&frame.bytes, None);
                    let messages = messages.into_iter();
                    shown.extend(messages.map(|bytes| Arc::new(ActionFrame::replayed(frame.seq, bytes))));
                }
            }
        }
        Some(shown)
    }

    /// The form of a snapshot that the client gets.
    pub(crate) fn snapshot(self, client: &ClientId, mut snapshot: Snapshot) -> Snapshot {
        snapshot.dialect = self;
        if let Some(around) = &mut snapshot.around {
            around.own_client_id = client.as_str().to_owned();
        }
        snapshot
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neg20_a_stored_negotiation_names_its_version() {
        let version = |protocol| Dialect::restored(protocol, false).map(|dialect| dialect.version);
        assert_eq!(version("1.0.3"), Some(Version::V1_0));
        assert_eq!(version("0.9.3"), Some(Version::V0_9));
        assert_eq!(version("0.5.1"), Some(Version::V0_5_1));
        assert_eq!(version("1"), Some(Version::V0_1), "0.1 has a number");
        assert_eq!(version("2.0.0"), None);
        assert_eq!(version(""), None);
    }

    #[test]
    fn e58_versions_and_mcp_apps_change_the_state_that_a_client_holds() {
        let dialect = |protocol, mcp_apps| Dialect::restored(protocol, mcp_apps).unwrap();
        let plain = dialect("1.0.0", false);
        assert!(plain.has_state_of(dialect("1.0.7", false)));
        assert!(!plain.has_state_of(dialect("0.9.0", false)));
        assert!(!plain.has_state_of(dialect("1.0.0", true)));
    }
}
