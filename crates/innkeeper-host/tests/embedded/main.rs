//! Hosts inside the process of the test, for tests that need an agent, a journal or a handle of their own. Clients
//! still connect through a socket and are the published ones.

mod agents;
mod client_tools;
mod durable;
mod earlier;
mod giving_up;
mod hooks;
mod imports;
mod journals;
mod keys;
mod lookups;
mod mcp;
mod memory;
mod prompts;
mod questions;
mod reverse_requests;
mod slow_sessions;
mod subagents;
mod telemetry;
mod tools;
