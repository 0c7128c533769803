//! The Agent Host Protocol as a pure state machine.
//!
//! [`HostCore`] owns every session, chat and client of a host. It takes one [`Input`] at a time
//! and answers with [`Effect`]s for a shell to perform in order. It does no IO, reads no clock,
//! draws no random numbers and cannot fail, so everything it does can be replayed, simulated and
//! fuzzed.
//!
//! Follow the data: [`input`] → [`decode`] and [`request`] → one commit (reduce,
//! number, encode, keep, fan out) → [`effect`].

#![warn(missing_docs)]

pub mod access;
pub mod action;
pub mod agent;
mod agents;
mod answer_numbers;
mod approval;
mod approval_mode;
mod apps;
mod authenticate;
mod channel;
pub mod chat_state;
mod chats;
mod client;
mod commit;
mod config;
mod configure;
pub mod content;
mod core;
mod credentials;
pub mod customization;
pub mod data_uri;
pub mod decode;
mod directories;
mod dispatch;
mod disposal;
mod drafts;
pub mod effect;
pub mod error;
mod eviction;
mod extension;
pub mod frame;
mod gaps;
mod handshake;
mod history;
pub mod ids;
mod importing;
pub mod input;
mod keeping;
mod lifecycle;
mod listing;
mod loading;
pub mod mcp;
mod mirror;
mod opening;
mod question;
mod recovery;
mod render;
mod replay;
pub mod repository;
pub mod request;
pub mod resource;
mod session;
mod settings;
pub mod snapshot;
pub mod stored;
mod subscribe;
mod summary;
pub mod telemetry;
mod time;
mod tokens;
mod tool;
mod turn;
pub mod uri;
mod watchdog;

pub use access::{Principal, Scope};
pub use agent::{AgentEvent, AgentProfile, Failure, Reply, TurnEnd, Usage, Worker};
pub use approval::{ApprovalCommand, ApprovalTarget};
pub use client::Negotiated;
pub use config::CoreConfig;
pub use core::HostCore;
pub use effect::{
    ChatsMoved, CloseReason, Effect, LookUp, MovedChat, OpenChat, PromptPlan, Subscriber, Transformer, TurnStart,
};
pub use error::RpcError;
pub use extension::{Catalogue, ELICITATION, OptIn, OptIns};
pub use frame::{ActionFrame, Outgoing, Wire};
pub use history::{REFUSED, past_turn, was_heard};
pub use ids::{ChannelId, ClientId, ConnId, Seq, TurnKey};
pub use input::{Dispatch, Input};
pub use opening::Opening;
pub use replay::ReplayLimits;
pub use request::{Command, RequestId};
pub use telemetry::{LogLevel, LogRecord, LogValue, Severity};
pub use time::Now;
