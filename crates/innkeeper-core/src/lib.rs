//! The Agent Host Protocol (AHP) as a pure state machine.
//!
//! [`HostCore`] owns every session, chat and client of a host. It takes one [`Input`] at a time and answers with
//! [`Effect`]s for the host to perform in order. It does no IO, reads no clock, draws no random numbers and cannot
//! fail, so everything it does can be replayed, simulated and fuzzed.
//!
//! Most users want `innkeeper-host`, which performs the effects. This crate alone is for tests, simulators and hosts with
//! another main loop:
//!
//! ```
//! use innkeeper_core::request::{Initialize, Offer};
//! use innkeeper_core::{ClientId, Command, ConnId, CoreConfig, Delivery, Effect, HostCore, Input, Now, Principal, RequestId, Seq};
//!
//! let now = Now { mono_ms: 0, wall: "2026-01-01T00:00:00Z".parse().unwrap() };
//! let mut core = HostCore::new(CoreConfig::default(), Vec::new(), Seq(0));
//! let mut effects = Vec::new();
//!
//! let conn = ConnId { slot: 0, generation: 0 };
//! core.handle(now, Input::Connected { conn, principal: Principal::stdio() }, &mut effects);
//!
//! let initialize = Initialize {
//!     offer: Offer::List(vec!["1.0.0".to_owned()]),
//!     client_id: ClientId::new("editor"),
//!     initial_subscriptions: vec!["ahp-root://".to_owned()],
//!     client_name: None,
//!     mcp_apps: false,
//!     locale: None,
//! };
//! let command = Command::Initialize(Box::new(initialize));
//! core.handle(now, Input::Request { conn, id: RequestId::number(1), command }, &mut effects);
//!
//! // The host writes the answer, with the negotiated version and a snapshot of the root channel, to the connection.
//! let is_answer = |effect: &Effect| matches!(effect, Effect::Deliver(Delivery::Send { to, .. }) if *to == conn);
//! assert!(effects.iter().any(is_answer));
//! ```
//!
//! # Contents
//!
//! | | |
//! |---|---|
//! | [`HostCore`], [`CoreConfig`], [`Now`] | The machine, its configuration, and the time that each input comes with |
//! | [`input`], [`effect`] | Everything that can happen to it, and everything that it wants done, grouped by the part of a host that does it |
//! | [`decode`], [`request`], [`error`], [`frame`], [`snapshot`], [`uri`] | Messages: requests and actions read without trust; encoded answers, actions and snapshots |
//! | [`action_table`], [`METHOD_SCOPES`] | Every action with its channel kind, dispatchers, scope, versions and durability; the scope of every method |
//! | [`access`], [`Principal`], [`Scope`] | The rights of a connection |
//! | [`Dialect`], [`Version`] | Everything that one client is shown differently from another |
//! | [`agent`] | The vocabulary between the core and agents, without types of the protocol |
//! | [`customization`], [`mcp`], [`resources`], [`terminal`], [`changesets`], [`repository`] | The same for each service |
//! | [`records`], [`StorageMode`], [`Opening`] | Records for a journal, and sessions of earlier runs |
//! | [`telemetry`] | Log records for clients |
//!
//! Follow the data: [`input`] → [`decode`] and [`request`] → one commit (reduce, number, encode, persist, publish) →
//! [`effect`].

#![warn(missing_docs)]

pub mod agent;
mod chat;
mod clients;
mod config;
mod core;
pub mod customization;
mod dispatch;
pub mod effect;
pub mod ids;
pub mod input;
mod log;
pub mod mcp;
mod protocol;
pub mod resources;
mod session;
mod storage;
pub mod telemetry;
pub mod terminal;
mod time;

pub use agent::{AgentEvent, AgentProfile, Failure, Reply, Subagent, TurnEnd, Usage};
pub use chat::approval::{ApprovalCommand, ApprovalTarget};
pub use chat::history::{REFUSED, past_turn, was_heard};
pub use chat::model::{ChatModel, TurnChanges};
pub use clients::access::{self, Principal, Scope};
pub use clients::client::Negotiated;
pub use config::CoreConfig;
pub use core::{ChannelCommand, HostCore, NoCommand, NoInput, PartCommand, PartInput, PartState};
pub use effect::{
    AgentCommand, BlobCommand, ChangesCommand, ChatInfo, ChatsMoved, CloseReason, CompletionQuery, CompletionRequest,
    CustomizationCommand, Delivery, Effect, JournalCommand, McpCommand, MessageWriter, MovedChat, OpenChat, PromptPlan,
    Publication, RepositoryCommand, ResourceCommand, SessionErasure, Subscriber, Transformer, TurnInfo, TurnStart,
};
pub use ids::{ChannelId, ClientId, ConnId, Seq, TurnKey};
pub use input::{Dispatch, Input};
pub use log::replay::ReplayLimits;
pub use protocol::dialect::extension::{Catalogue, ELICITATION, OptIn, OptIns};
pub use protocol::dialect::{Dialect, Version};
pub use protocol::error::RpcError;
pub use protocol::frame::{ActionFrame, Outgoing, ReheadedFrame, Wire};
pub use protocol::method_scopes::{METHOD_SCOPES, scope_of};
pub use protocol::request::{Command, RequestId};
pub use protocol::{action_table, decode, error, frame, request, snapshot, uri};
pub use resources::{content, data_uri};
pub use session::choice::SessionChoice;
pub use session::{changesets, repository};
pub use storage::mode::StorageMode;
pub use storage::open::Opening;
pub use storage::records;
pub use telemetry::{LogLevel, LogRecord, LogValue, Severity};
pub use terminal::PtyCommand;
pub use time::Now;
