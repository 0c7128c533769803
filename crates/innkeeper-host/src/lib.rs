//! An embeddable host for the Agent Host Protocol (AHP), in every published version.
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
//! # Modules
//!
//! | Module | Contents |
//! |---|---|
//! | [`agent`] | The traits of agents, and the handles that an agent works with: tool calls, questions, subagents, prompts |
//! | [`http`], [`stdio`] | Listeners: WebSockets on TCP or a Unix socket, and one client on a pair of byte streams |
//! | [`access`] | Tokens, origins and scopes: who may connect, and what each connection may do |
//! | [`web`] | The web app: its files, and browsers that sign in |
//! | [`limits`] | Every bound of the host |
//! | [`journal`] | Storage of sessions: the trait, and implementations in memory |
//! | [`contents`] | Storage of contents that are too large for a turn |
//! | [`resources`], [`completions`] | Files for clients: reading, writing, watching, and completing `@` |
//! | [`customizations`] | Skills, rules, prompts, custom agents and hooks |
//! | [`mcp`] | MCP servers: running them, and their tools, prompts and resources for agents |
//! | [`repositories`] | The Git repositories that sessions work in |
//! | [`changes`] | The files that sessions and their turns changed |
//! | [`terminals`] | Pseudo-terminals: the trait that runs shells and the commands of agents |
//! | [`telemetry`] | Log records for clients |
//! | [`reverse_requests`] | Requests of the host to clients |
//! | [`transport`], [`connection`], [`outbox`] | Transports of your own |
//! | [`dialect`] | The edge of a connection that speaks an older version of the protocol |
//! | [`rpc`] | JSON-RPC framing and the table of all methods |
//!
//! # How it works
//!
//! A transport reads bytes, [`rpc`] parses them into a message and routes it by the table in [`rpc::methods`], and the
//! main loop, the one task that owns the [core](innkeeper_core), handles it. The effects of the core go into the
//! [`outbox`] of each connection, to the agents, each a task of its own behind [`Agent`], and to the services. Accepted
//! actions are persisted through [`Journal`](journal::Journal) before any client receives them.
//!
//! The library reads no environment variables, home directories or configuration files.

#![warn(missing_docs)]

pub mod agent;
mod host;
pub mod limits;
mod main_loop;
mod net;
pub mod rpc;
mod services;

pub use agent::{Agent, AgentChat, AgentError, AgentInfo, ChatContext, EventSink, TurnInput};
pub use async_trait::async_trait;
pub use host::{Host, HostBuilder, HostError, HostHandle};
pub use innkeeper_core::{ClientId, uri};
pub use limits::Limits;
pub use net::access::Access;
pub use net::{access, connection, dialect, http, outbox, reverse_requests, stdio, transport, web};
pub use services::{
    changes, completions, contents, customizations, journal, mcp, repositories, resources, telemetry, terminals,
};
