//! The agents that come with Innkeeper.
//!
//! [`tour`] (feature `tour`) needs no key and no network, and shows every part of the protocol on command.
//! [`model`] (feature `model`) is a coding agent on top of any model API. `model/api.rs` has the provider-independent
//! types, and `model/client` the providers. [`tools`] are the tools of such an agent on the machine it runs on, confined
//! to the working directories of its session.
//!
//! ```
//! use innkeeper_agents::model::client::{Api, Endpoint};
//! use innkeeper_agents::model::{Key, Model, ModelAgent, ModelAgentSettings};
//! use innkeeper_agents::tools::{ToolSettings, standard_tools};
//!
//! let address = "http://127.0.0.1:11434/v1".parse().unwrap();
//! let endpoint = Endpoint::new(Api::ChatCompletions, address);
//! let mut settings = ModelAgentSettings::new("local", "Local models", endpoint, Key::NotNeeded);
//! settings.models = vec![Model::new("qwen3-coder")];
//! settings.tools = standard_tools(ToolSettings::default());
//! let agent = ModelAgent::new(settings).unwrap();
//! assert!(agent.is_ready());
//! // `Host::builder().agent(agent)` registers it.
//! ```

#![warn(missing_docs)]

#[cfg(feature = "model")]
pub mod model;
#[cfg(feature = "model")]
pub mod tools;
#[cfg(feature = "tour")]
pub mod tour;
