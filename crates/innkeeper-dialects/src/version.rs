//! The published versions of the protocol.

use std::fmt;

/// The names of the root channel in 0.1: that of its documents and types, and that of its published client.
const ROOT_NAMES: [&str; 2] = [concat!("agenthost:/", "root"), "root:/"];

/// A published version of the protocol, as far as this host distinguishes versions. Older versions are less.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// 0.1: actions name their session, versions are numbers.
    V0_1,
    /// 0.2: channels.
    V0_2,
    /// 0.3: messages, contributors of tools, MCP servers.
    V0_3,
    /// 0.4: chats.
    V0_4,
    /// 0.5.0: several active clients, a model per message.
    V0_5_0,
    /// 0.5.1: pages of turns.
    V0_5_1,
    /// 0.5.2: answered questions stay in the turn.
    V0_5_2,
    /// 0.6: times, open questions as response parts, sign-in of tool calls.
    V0_6,
    /// 0.7: several working directories.
    V0_7,
    /// 0.8: scopes of enablement.
    V0_8,
    /// 0.9: errors as response parts.
    V0_9,
    /// 1.0: the version of the core.
    #[default]
    V1_0,
}

impl Version {
    /// All versions, the newest first.
    pub const ALL: [Self; 12] = [
        Self::V1_0,
        Self::V0_9,
        Self::V0_8,
        Self::V0_7,
        Self::V0_6,
        Self::V0_5_2,
        Self::V0_5_1,
        Self::V0_5_0,
        Self::V0_4,
        Self::V0_3,
        Self::V0_2,
        Self::V0_1,
    ];

    /// The version of the core.
    pub const NEWEST: Self = Self::V1_0;

    /// The number under which the version was published.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V0_1 => "0.1.0",
            Self::V0_2 => "0.2.0",
            Self::V0_3 => "0.3.0",
            Self::V0_4 => "0.4.0",
            Self::V0_5_0 => "0.5.0",
            Self::V0_5_1 => "0.5.1",
            Self::V0_5_2 => "0.5.2",
            Self::V0_6 => "0.6.0",
            Self::V0_7 => "0.7.0",
            Self::V0_8 => "0.8.0",
            Self::V0_9 => "0.9.0",
            Self::V1_0 => "1.0.0",
        }
    }

    /// Whether anything has to be translated for its clients.
    pub fn is_translated(self) -> bool {
        self != Self::NEWEST
    }

    /// Whether a session and its default chat are one channel (0.3 and older).
    pub fn session_is_chat(self) -> bool {
        self <= Self::V0_3
    }

    /// Whether a client that reconnects can get the missed actions. Older ones always get snapshots: a lost connection
    /// may have cut a group of several actions in half, and the memory of the translation is gone.
    pub fn replays(self) -> bool {
        self >= Self::V0_9
    }

    /// Whether completed turns have another form than in 1.0 (0.8 and older), and need [`crate::state::turn`].
    pub fn changes_turns(self) -> bool {
        self <= Self::V0_8
    }

    /// Whether a failed turn can be resumed (0.9 and newer). Older clients are shown it removed and started again.
    pub fn resumes_turns(self) -> bool {
        self >= Self::V0_9
    }

    /// Whether the claim of a terminal for a session and the origin of an annotation name a chat (0.9 and newer).
    pub fn names_chats(self) -> bool {
        self >= Self::V0_9
    }

    /// Whether a chat is loaded in pages of turns by cursor (0.5.1 and newer). Older clients ask by turn.
    pub fn pages_turns(self) -> bool {
        self >= Self::V0_5_1
    }

    /// Whether the host can send requests to its clients. 0.1 has none, so they fail at once.
    pub fn has_reverse_requests(self) -> bool {
        self >= Self::V0_2
    }

    /// Whether its published client answers requests of the host. The clients up to 0.5.1 log and drop them, so the
    /// host waits less long.
    pub fn answers_reverse_requests(self) -> bool {
        self >= Self::V0_5_2
    }

    /// Whether messages name their channel (0.2 and newer). In 0.1 actions name their session.
    pub fn has_channels(self) -> bool {
        self >= Self::V0_2
    }

    /// Whether this is a name of the root channel beside `ahp-root://`. Only 0.1 has such names.
    pub fn names_root(self, uri: &str) -> bool {
        !self.has_channels() && ROOT_NAMES.contains(&uri)
    }

    /// Whether summaries of sessions list their chats (1.0).
    pub fn summaries_have_chats(self) -> bool {
        self >= Self::V1_0
    }

    /// Whether a session shows one active client (0.4 and older).
    pub(crate) fn has_one_active_client(self) -> bool {
        self <= Self::V0_4
    }

    /// Whether the session has a model and an agent of its own (0.4 and older), which later versions have per message.
    pub fn session_has_model(self) -> bool {
        self <= Self::V0_4
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
