//! How the host runs agents: one task per chat, its event queue, the answers it waits for, and hooks around its work.

pub(crate) mod driver;
pub(crate) mod event_queue;
pub(crate) mod hooks;
pub(crate) mod mailbox;
