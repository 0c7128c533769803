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
//! Bytes come in through a [`transport`], become a [`rpc`] message, are routed by the table in
//! [`methods`], and reach the main loop in `host`, the one task that owns the
//! [core](innkeeper_core). What the core decides goes into each connection's [`outbox`] and out
//! again. Agents are tasks of their own behind [`Agent`]; accepted actions go through [`Journal`].
//!
//! The library reads no environment variables, home directories or configuration files.

#![warn(missing_docs)]

mod access;
mod agent;
mod close;
mod connection;
mod contents;
pub mod customizations;
mod directories;
mod driver;
mod events;
mod files;
mod host;
pub mod http;
mod journal;
mod limits;
pub mod mcp;
pub mod methods;
pub mod outbox;
mod peer;
pub mod repositories;
mod resources;
pub mod rpc;
pub mod stdio;
mod telemetry;
mod tour;
mod transform;
pub mod transport;

pub use access::{Access, BadToken, Token};
pub use agent::{
    Agent, AgentChat, AgentError, AgentInfo, Answer, AnswerValue, ApprovalSubject, Attachment, AuthRequirement,
    Background, ChatContext, Choice, ClientCall, ClientDraft, ClientTool, ConfirmOption, Confirmation, Credential,
    Decision, Description, Directories, EventSink, FileAccess, FileChange, FileSide, Form, Invocation, ModelInfo,
    Offer, PastOutcome, PastTool, PastTurn, PromptSection, ProtectedResource, Question, QuestionKind, RenderedPrompt,
    RenderedSection, Response, Risk, RiskReporter, STANDARD_SECTIONS, Secret, Section, Setting, SettingKind,
    SettingQuery, SettingValue, SignIn, StandardSection, TextSpan, ToolCall, ToolCallBuilder, ToolContent, ToolDraft,
    ToolInfo, ToolKind, ToolResult, TurnInput, Verdict, Worker, WorkerEnd, WorkerSpec,
};
pub use async_trait::async_trait;
pub use close::Close;
pub use connection::serve;
pub use contents::{ClosedSessions, ContentLimits, Contents, MemoryContents, content_name};
pub use files::{Files, FoundFile, NoFiles};
pub use host::{Host, HostBuilder, HostError, HostHandle};
pub use innkeeper_core::agent::AppliedRule;
pub use innkeeper_core::{ClientId, CoreConfig, Principal, ReplayLimits, Scope, Usage};
pub use innkeeper_core::{LogLevel, LogValue, Severity};
pub use innkeeper_core::{content, resource, stored, uri};
pub use journal::{Appended, Journal, JournalError, Keep, Lease, MemoryJournal, RESERVED, VolatileJournal};
pub use limits::Limits;
pub use peer::{PeerError, ReverseMethod};
pub use resources::{
    ChangeSink, Content, Entry, EntryKind, NoResources, ResourceError, ResourceInfo, ResourceKind, Resources, Watching,
    content_type,
};
pub use telemetry::LogSink;
pub use tour::TourAgent;
