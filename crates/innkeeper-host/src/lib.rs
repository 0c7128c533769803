//! An embeddable host for the Agent Host Protocol (AHP) 1.0.
//!
//! A complete host with an agent of its own, on a WebSocket:
//!
//! ```no_run
//! use innkeeper_host::{Access, Agent, AgentChat, AgentError, AgentInfo, ChatContext, EventSink, Host, TurnInput, async_trait, http};
//!
//! struct Parrot;
//!
//! #[async_trait]
//! impl Agent for Parrot {
//!     fn info(&self) -> AgentInfo {
//!         AgentInfo::new("parrot", "Parrot", "Repeats what you say.")
//!     }
//!     async fn open_chat(&self, _: ChatContext) -> Result<Box<dyn AgentChat>, AgentError> {
//!         Ok(Box::new(Parrot))
//!     }
//! }
//!
//! #[async_trait]
//! impl AgentChat for Parrot {
//!     async fn run_turn(&mut self, turn: TurnInput, events: EventSink) -> Result<(), AgentError> {
//!         for word in turn.text.split_inclusive(' ') {
//!             events.text(word).await?;
//!         }
//!         Ok(())
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let host = Host::builder().agent(Parrot).start().await?;
//!     let listener = tokio::net::TcpListener::bind("127.0.0.1:4747").await?;
//!     let access = Access::new(listener.local_addr()?); // add a token with allow_token
//!     let server = http::serve_tcp(host.handle(), listener, access);
//!     std::future::pending::<()>().await; // or wait for Ctrl-C
//!     server.stop().await;
//!     host.shutdown(std::time::Duration::from_secs(10)).await;
//!     Ok(())
//! }
//! ```
//!
//! A transport in [`net`] reads bytes, [`rpc`] parses them into a message and routes it by the table in
//! [`rpc::methods`], and the main loop, the one task that owns the [core](innkeeper_core), handles it. The effects of
//! the core go into each connection's [`outbox`](net::outbox), to the agents, each a task of its own behind
//! [`Agent`], and to the [`services`]. Accepted actions are persisted through [`Journal`].
//!
//! The library reads no environment variables, home directories or configuration files.

#![warn(missing_docs)]

mod agent;
mod host;
mod limits;
mod main_loop;
pub mod net;
pub mod rpc;
pub mod services;

pub use agent::{
    Agent, AgentChat, AgentError, AgentInfo, Answer, AnswerValue, ApprovalSubject, Attachment, AuthRequirement,
    Background, ChatContext, Choice, ClientCall, ClientDraft, ClientTool, ConfirmOption, Confirmation, Credential,
    Decision, Description, Directories, EventSink, FileAccess, FileChange, FileSide, Form, Invocation, ModelInfo,
    Offer, PastOutcome, PastTool, PastTurn, PromptSection, ProtectedResource, Question, QuestionKind, RenderedPrompt,
    RenderedSection, Response, Risk, RiskReporter, STANDARD_SECTIONS, Secret, Section, Setting, SettingKind,
    SettingQuery, SettingValue, SignIn, StandardSection, Subagent, SubagentEnd, SubagentSpec, TextSpan, ToolCall,
    ToolCallBuilder, ToolContent, ToolDraft, ToolInfo, ToolKind, ToolResult, TurnInput, Verdict,
};
pub use async_trait::async_trait;
pub use host::{Host, HostBuilder, HostError, HostHandle};
pub use innkeeper_core::agent::AppliedRule;
pub use innkeeper_core::{ClientId, CoreConfig, Principal, ReplayLimits, Scope, Usage};
pub use innkeeper_core::{LogLevel, LogValue, Severity};
pub use innkeeper_core::{content, resource, stored, uri};
pub use limits::Limits;
pub use net::access::{Access, BadToken, Token};
pub use net::close::Close;
pub use net::connection::serve;
pub use net::reverse_requests::{ClientRequestError, ReverseMethod};
pub use net::{http, outbox, stdio, transport};
pub use rpc::methods;
pub use services::completions::{Files, FoundFile, NoFiles};
pub use services::contents::{ClosedSessions, ContentLimits, Contents, MemoryContents, content_name};
pub use services::journal::{Appended, Journal, JournalError, Keep, Lease, MemoryJournal, RESERVED, VolatileJournal};
pub use services::resources::{
    ChangeSink, Content, Entry, EntryKind, NoResources, ResourceError, ResourceInfo, ResourceKind, Resources, Watching,
    content_type,
};
pub use services::telemetry::LogSink;
pub use services::{customizations, mcp, repositories};
