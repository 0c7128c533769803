//! The services of a host: one module per seam.
//!
//! Each module holds the trait that an embedder implements, the types that pass through it, and, in `effects.rs`, the
//! effects of the core that the main loop performs with it.

pub mod completions;
pub mod contents;
pub mod customizations;
pub mod journal;
pub mod mcp;
pub(crate) mod prompt_transform;
pub mod repositories;
pub mod resources;
pub mod telemetry;
