//! Agents that Innkeeper brings along.
//!
//! [`model`] is a coding agent on top of any model API: `model/api.rs` says what a conversation with
//! a model is, whoever serves it; the providers speak it over the wire. [`tools`] are what such an
//! agent can do on the machine it runs on, within the directories of its session.
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
//! // `Host::builder().agent(agent)` takes it in.
//! ```

#![warn(missing_docs)]

pub mod model;
pub mod tools;
