//! Sessions and chats: creation, settings, history, moves and summaries.

mod absent_owners;
mod chat_properties;
mod chats;
mod completions;
mod configuration;
mod history;
mod lifecycle;
mod moves;
mod summaries;
