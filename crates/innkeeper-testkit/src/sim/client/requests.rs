//! Requests and dispatches of a client, and their expected outcomes.

/// A request that was sent and not answered.
#[derive(Debug, Clone)]
pub enum PendingRequest {
    /// `ping`.
    Ping,
    /// `initialize`.
    Initialize,
    /// `reconnect`.
    Reconnect {
        /// The number it named.
        last_seen: u64,
        /// The channels it wants back.
        channels: Vec<String>,
    },
    /// `subscribe`.
    Subscribe {
        /// To what.
        channel: String,
        /// Whether the host has such a channel.
        exists: bool,
        /// How many of the latest turns it wants.
        turns: Option<usize>,
    },
    /// `createSession` or `disposeSession`.
    Lifecycle,
    /// `authenticate`, and whether anything waits for it.
    Authenticate {
        /// Whether a call asks to sign in to that resource.
        wanted: bool,
    },
    /// `listSessions`.
    List,
    /// `moveChat`.
    Move,
    /// `invokeChangesetOperation`.
    Operation,
    /// `fetchTurns`, and whether nothing is wrong with it.
    Turns {
        /// Whether it has to succeed.
        sound: bool,
    },
}

/// The expected outcome of a dispatched action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// A refusal and nothing else.
    Rejection,
    /// Nothing at all (DSP-05).
    Silence,
    /// Exactly one echo or refusal.
    Outcome,
    /// At most one: an unchanged announcement may be met with silence (DSP-15).
    OutcomeOrSilence,
    /// A refusal or silence: a client without a subscription sees no echo (DSP-11).
    RejectionOrSilence,
}

/// A dispatched action and its outcomes so far.
#[derive(Debug, Clone)]
pub struct Dispatched {
    /// The expected outcome.
    pub expected: Expected,
    /// Echoes read.
    pub echoes: u32,
    /// Refusals read.
    pub rejections: u32,
}

/// The reaction of a client to a message.
#[derive(Debug, PartialEq, Eq)]
pub enum FollowUp {
    /// Fetches the session list.
    List,
    /// Comes back on another transport, because the host could not finish its answer.
    ComeBack,
    /// Starts over on the same transport, because the host has forgotten it (NEG-22).
    Initialize,
}
