//! The `[agents.NAME]` sections: agents that are programs of their own.

use std::collections::BTreeMap;
use std::path::PathBuf;

use innkeeper_acp::CATALOGUE;
use serde::Deserialize;

/// The keys of `[agents.NAME]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct AgentSection {
    /// The protocol that the agent speaks; `acp` is the only one.
    pub(crate) r#type: Option<String>,
    /// Whether the agent is offered.
    pub(crate) enabled: Option<bool>,
    /// A short name for users.
    pub(crate) name: Option<String>,
    /// A sentence about it.
    pub(crate) description: Option<String>,
    /// The program: a path, or a name that is looked up in `PATH`.
    pub(crate) command: Option<String>,
    /// Its arguments.
    pub(crate) args: Option<Vec<String>>,
    /// Variables in addition to those that every program needs.
    pub(crate) env: BTreeMap<String, String>,
    /// Names of variables of the host that it gets as well.
    pub(crate) pass_env: Vec<String>,
    /// The directory of sessions without one; if absent, the home directory.
    pub(crate) directory: Option<PathBuf>,
    /// Whether it may read and write files through the host.
    pub(crate) files: Option<bool>,
    /// Timeout of its start.
    pub(crate) start_seconds: Option<u64>,
    /// It is ended after this time without a turn.
    pub(crate) idle_minutes: Option<u64>,
}

impl AgentSection {
    /// Returns the problem with a section, if there is one.
    pub(crate) fn check(&self, name: &str) -> Result<(), String> {
        let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
        if name.is_empty() || name.len() > 40 || !name.chars().all(is_word) {
            return Err("has a name that is not made of a-z, 0-9, - and _".to_owned());
        }
        if let Some(other) = self.r#type.as_deref().filter(|kind| *kind != "acp") {
            return Err(format!("has the type `{other}`; the types are: acp"));
        }
        let is_known = CATALOGUE.iter().any(|agent| agent.id == name);
        match &self.command {
            Some(command) if command.trim().is_empty() => Err("has an empty `command`".to_owned()),
            None if !is_known && self.enabled != Some(false) => Err("needs a `command`".to_owned()),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_are_checked() {
        let section = |text: &str| toml::from_str::<AgentSection>(text).expect("a section");
        assert_eq!(section("type = \"acp\"\ncommand = \"my-agent\"").check("mine"), Ok(()));
        // The program of a known agent is known.
        assert_eq!(section("env = { A = \"1\" }").check("goose"), Ok(()));
        assert_eq!(section("").check("mine"), Err("needs a `command`".to_owned()));
        assert!(section("type = \"magic\"").check("goose").is_err());
        assert!(section("command = \"x\"").check("My Agent").is_err());
    }
}
