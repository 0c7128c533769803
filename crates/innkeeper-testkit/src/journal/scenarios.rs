//! The scenarios, by what they are about.

pub mod around;
pub mod crashes;
pub mod deletions;
pub mod failures;
pub mod lists;
pub mod log;
pub mod numbers;
pub mod sessions;
pub mod turns;

/// A session and its chats, as most scenarios have them.
pub(super) const SESSION: &str = "ahp-session:/one";
pub(super) const CHAT: &str = "ahp-chat:/one/first";
pub(super) const OTHER_CHAT: &str = "ahp-chat:/one/second";
/// Another session.
pub(super) const OTHER_SESSION: &str = "ahp-session:/two";
