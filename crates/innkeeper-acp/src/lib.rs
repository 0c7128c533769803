//! Agents that speak the Agent Client Protocol (ACP), as agents of an AHP host.
//!
//! Any program that speaks ACP on its standard input and output becomes an [`Agent`](innkeeper_host::Agent) of the host:
//!
//! ```no_run
//! use innkeeper_acp::{AcpAgent, AcpSettings, AcpTimes, AgentCommand};
//! use innkeeper_host::Host;
//!
//! # async fn start() -> Result<(), Box<dyn std::error::Error>> {
//! let goose = AcpAgent::new(AcpSettings {
//!     id: "goose".to_owned(),
//!     name: "Goose".to_owned(),
//!     description: "An open agent.".to_owned(),
//!     command: AgentCommand {
//!         program: "goose".into(),
//!         arguments: vec!["acp".to_owned()],
//!         host_environment: std::env::vars_os().collect(),
//!         ..AgentCommand::default()
//!     },
//!     directory: "/".into(),
//!     serves_files: true,
//!     serves_terminals: true,
//!     sign_in_hint: None,
//!     memory_file: None,
//!     times: AcpTimes::default(),
//! });
//! let host = Host::builder().agent(goose).start().await?;
//! # drop(host);
//! # Ok(())
//! # }
//! ```
//!
//! A turn goes through [`AcpAgent`] → `chat` → `session` → `chat/turn`. `from_agent` and `to_agent` are the two
//! directions of the mapping between the protocols, without any IO.

#![warn(missing_docs)]

mod agent;
mod catalogue;
mod chat;
mod check;
mod client;
mod command;
mod from_agent;
mod idle;
mod learned;
mod process;
mod session;
mod to_agent;
mod tools;

use innkeeper_acp_wire as wire;

pub use agent::{AcpAgent, AcpSettings, AcpTimes};
pub use catalogue::{CATALOGUE, KnownAgent, find_installed};
pub use check::{CheckReport, check};
pub use command::AgentCommand;
pub use learned::{Abilities, Learned, OptionChoice, SessionOption, SetBy, SlashCommand};
pub use tools::{BridgeCommand, ToolServer, run_bridge};
