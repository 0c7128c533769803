//! MCP servers through the real program and the published client: servers of the npm registry, misbehaving servers,
//! shared servers, and servers of the configuration.

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
pub(crate) mod support;
mod trust;
mod trust_in_session;
mod waiting;
