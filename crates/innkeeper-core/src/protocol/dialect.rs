//! Everything that one client is shown differently from another.

pub(crate) mod extension;
pub(crate) mod mcp_apps;
