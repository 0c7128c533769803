//! Simulator, seeded bugs, fuzz bodies, and clients for whole hosts, for Innkeeper.

#![warn(missing_docs)]

mod comparable;
pub mod disk;
pub mod embedded;
pub mod fuzzing;
pub mod journal;
pub mod logs;
pub mod misbehaving_http_server;
pub mod misbehaving_server;
pub mod model_server;
pub mod mutation;
pub mod npm_servers;
pub mod oauth;
pub mod official;
pub mod process;
pub mod raw;
pub mod reducer_cases;
pub mod rewriter;
pub mod scripted_acp_agent;
pub mod sim;

pub use sim::Sim;
