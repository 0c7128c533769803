//! Scenarios about chats: turns, tool calls, questions, approvals, history.

mod approval_attempts;
mod approval_rules;
mod approvals;
mod chats;
mod disposal;
mod history;
mod moves;
mod pending;
mod presentation;
mod questions;
mod subagents;
mod tools;
mod transcripts;
mod turns;
mod watchdog;
mod windows;
