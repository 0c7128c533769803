//! The reasons for which the host closes a connection, with their WebSocket codes.

use innkeeper_core::CloseReason;

/// One documented reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Close {
    /// 1000: no common protocol version; the error response said which ones there are (NEG-06).
    UnsupportedVersion,
    /// 1001: the host is going down; come back by `reconnect`.
    GoingAway,
    /// 1002: a frame that breaks the WebSocket protocol.
    BadFrame,
    /// 1007: a text frame that is not UTF-8.
    NotUtf8,
    /// 1009: a message beyond the limit.
    TooLarge,
    /// 1011: the host failed.
    Failed,
    /// 1012: the host starts again from what it kept; come back by `reconnect`.
    Restarting,
    /// 1013: the client did not read fast enough; come back by `reconnect`.
    TooSlow,
    /// 1008: pings went unanswered.
    Silent,
    /// 1008: the credential was revoked, or has expired.
    Revoked,
    /// The peer closed, or the socket broke: no close frame is sent.
    Gone,
}

impl Close {
    /// The WebSocket close code.
    pub fn code(self) -> u16 {
        match self {
            Self::UnsupportedVersion | Self::Gone => 1000,
            Self::GoingAway => 1001,
            Self::BadFrame => 1002,
            Self::NotUtf8 => 1007,
            Self::Silent | Self::Revoked => 1008,
            Self::TooLarge => 1009,
            Self::Failed => 1011,
            Self::Restarting => 1012,
            Self::TooSlow => 1013,
        }
    }

    /// The reason in the close frame.
    pub fn reason(self) -> &'static str {
        match self {
            Self::UnsupportedVersion => "no common protocol version",
            Self::GoingAway => "the host is shutting down; reconnect when it is back",
            Self::BadFrame => "the frame breaks the WebSocket protocol",
            Self::NotUtf8 => "text frames must be UTF-8",
            Self::TooLarge => "the message is larger than this host accepts",
            Self::Failed => "the host failed; see its log",
            Self::Restarting => "the host restarts from its journal; use reconnect",
            Self::TooSlow => "the client reads too slowly; use reconnect",
            Self::Silent => "pings went unanswered",
            Self::Revoked => "the credential was revoked, or has expired",
            Self::Gone => "closed",
        }
    }
}

impl From<CloseReason> for Close {
    fn from(reason: CloseReason) -> Self {
        match reason {
            CloseReason::UnsupportedVersion => Self::UnsupportedVersion,
            CloseReason::ShuttingDown => Self::GoingAway,
            CloseReason::TooMuchWaits => Self::TooSlow,
            CloseReason::NoNumbers => Self::Failed,
        }
    }
}
