//! Runs MCP servers: starts them, watches them, calls their tools, and answers their requests.
//!
//! The engine (`engine.rs`) has types of its own and knows nothing of sessions or of the Agent Host Protocol. [`McpRunner`]
//! (`hosted.rs`) is the adapter that a host uses.
//!
//! # Guarantees
//!
//! - **A server sees little.** The environment of a process is the one of its configuration and a minimal base
//!   ([`BaseEnvironment`]). It ends with everything it started.
//! - **A server cannot take the host down.** Every message, list, log, wait and question is bounded ([`Limits`]). An answer
//!   that is too large fails its own call and nothing else.
//! - **Crashes are reported.** Calls fail with the reason, and the server is restarted a few times with growing delays
//!   ([`RestartPolicy`]).
//! - **Tokens stay secret** and with their server ([`Server::sign_in`]): not in `Debug`, errors or logs, and not across
//!   redirects.
//! - **A call goes on by itself** once a user has signed in ([`Event::SignInNeeded`]).
//!
//! # Where to begin reading
//!
//! `engine.rs` describes the engine; its `server.rs` is the handle of a server, and `server/actor.rs` its task.
//! `hosted.rs` describes the adapter for a host's sessions.
//!
//! # Example
//!
//! ```no_run
//! use innkeeper_mcp::{
//!     BaseEnvironment, Call, Server, ServerConfig, ServerState, Start, Stdio, ServerEnv, Transport,
//! };
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let stdio = Stdio::new("npx", ["-y", "@modelcontextprotocol/server-everything"]);
//! let server_env = ServerEnv {
//!     environment: BaseEnvironment::of_process(),
//!     ..ServerEnv::default()
//! };
//! let server = Server::new(ServerConfig::new("everything", Transport::Stdio(stdio)), server_env)?;
//! server.start(Start::Blocking);
//! let state = server.wait_for(|state| !matches!(state, ServerState::Starting { .. } | ServerState::Stopped)).await;
//! println!("{state:?}, {} tools", server.tools().len());
//!
//! let arguments = serde_json::Map::from_iter([("message".to_owned(), "hello".into())]);
//! let outcome = server.call(Call::new("echo", arguments)).await?;
//! println!("{}", outcome.text());
//! server.stop().await;
//! # Ok(())
//! # }
//! ```

#![warn(missing_docs)]

mod engine;
mod hosted;

pub use engine::app_channel::Allowed;
pub use engine::ask::{Ask, AskOutcome, AskSink, Question, Root};
pub use engine::auth::{Renew, ResourceMetadata, SignIn, SignInReason};
pub use engine::call::{Call, CallOutcome, Content};
pub use engine::config::{
    BaseEnvironment, Limits, Placeholders, Remote, RestartPolicy, ServerConfig, Stdio, Syntax, Transport, expand,
};
pub use engine::error::{ConfigError, Error, WrongResource};
pub use engine::icons::Icon;
pub use engine::names::{MAX_NAME_CHARS, unique_names};
pub use engine::pool::{Lease, Pool, Sharing};
pub use engine::resources::{Prompt, PromptArgument, PromptMessages, Resource, ResourceContents};
pub use engine::secret::Token;
pub use engine::server::{Offer, Permit, Progress, ProgressSink, Server, ServerEnv, Start};
pub use engine::state::{CallId, Event, Events, List, LogMessage, ServerInfo, ServerState};
pub use engine::tools::{Annotations, Tool};
pub use engine::wire::http_client_without_redirects;
pub use hosted::vault::{SavedRefresh, SavedToken, TokenKeeper, Vault, VaultTrouble};
pub use hosted::{McpRunner, RunnerSettings};
