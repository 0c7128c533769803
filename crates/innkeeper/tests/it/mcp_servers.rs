//! MCP servers as people have them, through the real program and the published client: servers from the npm registry,
//! servers that misbehave, servers that sessions share, and those of the host's configuration.

mod app_sampling;
mod apps;
mod everything;
mod files;
mod host_config;
mod misbehaving;
mod offers;
mod policy;
mod sharing;
mod side_channel;
mod support;
mod trust;
mod trust_in_session;
mod waiting;
