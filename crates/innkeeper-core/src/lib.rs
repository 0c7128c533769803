//! The Agent Host Protocol as a pure state machine.
//!
//! [`HostCore`] owns every session, chat and client of a host. It takes one [`Input`] at a time and answers with
//! [`Effect`]s for the host to perform in order. It does no IO, reads no clock, draws no random numbers and cannot
//! fail, so everything it does can be replayed, simulated and fuzzed.
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
    Publication, RepositoryCommand, ResourceCommand, Subscriber, Transformer, TurnInfo, TurnStart,
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
